"""Movement ops as index arithmetic: where in its source an element of a node lies, and under which condition."""
from __future__ import annotations

import functools
from typing import NamedTuple

from ..dtype import dtypes
from ..errors import IRError
from ..helpers import row_major
from ..uop import Op, UOp, const
from ..uop.node import EMPTY
from ..uop.symbolic import join_and, simplify, simplify_under, split_and

FALSE = UOp(Op.CONST, dtypes.bool, (), False)


class Place(NamedTuple):
    """An element of a node: an index per axis, and the condition under which memory may be touched (None: always)."""
    idxs: tuple[UOp, ...]
    valid: UOp | None = None

    @property
    def free(self) -> frozenset[UOp]:
        """The ranges that the place varies over."""
        free = EMPTY.union(*[i.free for i in self.idxs])
        return free if self.valid is None else free | self.valid.free


def move(node: UOp, place: Place) -> tuple[Place, UOp | None]:
    """The place in `node`'s source that movement op `node` shows at `place`, and the condition under which it shows it (None: always)."""
    (idxs, valid), op, arg, shape = place, node.op, node.arg, node.src[0].shape or ()
    if op is Op.RESHAPE:
        return Place(reshape_index(idxs, arg, shape, valid), valid), None
    if op is Op.PERMUTE:
        return Place(tuple(idxs[arg.index(a)] for a in range(len(shape))), valid), None
    if op is Op.EXPAND:
        return Place(tuple(const(0) if n == 1 else i for i, n in zip(idxs, shape, strict=True)), valid), None
    if op is Op.SHRINK:
        return Place(tuple(simplify(i * step + start) for i, (start, step, _) in zip(idxs, arg, strict=True)), valid), None
    if op is Op.FLIP:
        return Place(tuple(simplify(n - 1 - i) if a in arg else i for a, (i, n) in enumerate(zip(idxs, shape, strict=True))), valid), None
    if op is Op.WINDOW:
        inner = list(idxs[:len(shape)])
        for (axis, _, stride, dilation), k in zip(arg, idxs[len(shape):], strict=True):
            inner[axis] = simplify(inner[axis] * stride + k * dilation)
        return Place(tuple(inner), valid), None
    if op is Op.PAD:
        shifted = tuple(simplify(i - b) if b else i for i, (b, _) in zip(idxs, arg, strict=True))
        guard = inside(shifted, tuple(n if b or a else None for n, (b, a) in zip(shape, arg, strict=True)), valid)
        return under(Place(shifted, valid), guard), guard
    raise IRError(f"{op} is no movement op")


def inside(idxs: tuple[UOp, ...], sizes: tuple[int | None, ...], valid: UOp | None) -> UOp | None:
    """The condition that 0 <= index < size on all axes that have a size, as far as it is not certain; None: always."""
    parts: list[UOp] = []
    if 0 in sizes:
        return FALSE
    for i, n in zip(idxs, sizes, strict=True):
        if n is not None:
            parts += split_and(simplify_where((const(0) <= i) & (i < n), valid))
    if any(p is FALSE for p in parts):
        return FALSE
    return join_and(parts) if parts else None


def under(place: Place, guard: UOp | None) -> Place:
    """The place with one more condition; indices are simplified by what it says. Under FALSE there is no place, and what is returned is not used."""
    if guard is None or guard is FALSE:
        return place
    valid = guard if place.valid is None else join_and([*split_and(place.valid), *split_and(guard)])
    return Place(tuple(simplify_under(i, valid) if i.src else i for i in place.idxs), valid)


def reshape_index(idxs: tuple[UOp, ...], old: tuple[int, ...], new: tuple[int, ...], valid: UOp | None) -> tuple[UOp, ...]:
    """Indices into shape `new` of what lies at `idxs` in shape `old`; runs of axes with equal products are handled apart."""
    if 0 in old:
        return tuple(const(0) for _ in new)
    if [n for n in old if n != 1] == [n for n in new if n != 1]:        # axes of size 1 come or go
        rest = iter([i for i, n in zip(idxs, old, strict=True) if n != 1])
        return tuple(next(rest) if n != 1 else const(0) for n in new)
    out: list[UOp] = []
    i = j = 0
    while i < len(old) or j < len(new):
        i0, j0 = i, j
        a, i = (old[i], i + 1) if i < len(old) else (1, i)
        b, j = (new[j], j + 1) if j < len(new) else (1, j)
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        out += [idxs[i0]] if (i - i0, j - j0) == (1, 1) else split_index(flatten(idxs[i0:i], old[i0:i]), new[j0:j], valid)
    return tuple(out)


def flatten(idxs: tuple[UOp, ...], shape: tuple[int, ...]) -> UOp:
    """The row-major index of a place."""
    return linear_index(idxs, row_major(shape))


@functools.lru_cache(512)
def linear_index(idxs: tuple[UOp, ...], strides: tuple[int, ...]) -> UOp:
    """The sum of index * stride."""
    flat = const(0)
    for i, step in zip(idxs, strides, strict=True):
        flat = flat + i * step
    return simplify(flat)


def split_index(flat: UOp, shape: tuple[int, ...], valid: UOp | None) -> list[UOp]:
    """The indices whose row-major index is `flat`."""
    out: list[UOp] = []
    for k, (n, step) in enumerate(zip(shape, row_major(shape), strict=True)):
        q = flat // step if step > 1 else flat
        outermost = all(m == 1 for m in shape[:k])
        out.append(const(0) if n == 1 else simplify_where(q if outermost else q % n, valid))
    return out


def simplify_where(u: UOp, valid: UOp | None) -> UOp:
    """`u` simplified by what `valid` says."""
    return simplify(u) if valid is None else simplify_under(u, valid)
