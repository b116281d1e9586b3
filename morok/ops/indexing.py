"""Indexing: reading and writing by integers, slices, None, Ellipsis, masks and integer tensors; gather and what is made of it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..dtype import dtypes
from ..errors import DTypeError, IndexingError, ShapeError
from ..helpers import prod
from ..uop import Op, UOp
from ..variable import Size, Variable
from .base import broadcast_shapes
from .reduce import ReduceOps


@dataclass(frozen=True)
class Taken:
    """What an index takes of one axis: `count` elements from `start`, `step` > 0 apart, reversed or not; an integer drops the axis."""
    start: int
    step: int
    count: int
    reverse: bool = False
    drop: bool = False


class IndexingOps(ReduceOps):
    """Methods that read and write elements by position. Negative positions count from the end."""

    def _known_values(self) -> np.ndarray[Any, Any] | None:
        """The values, where they are known before the run; so wrong indices raise early. Tensor adds what is in host memory."""
        return np.asarray(self.uop.arg) if self.uop.op is Op.CONST else None

    # ---- x[...] -----------------------------------------------------------------------------------------------------
    def __getitem__(self, indices: Any) -> Self:
        """NumPy's indexing: integers, slices with any step, None, Ellipsis, integer tensors or lists, and masks with known values.

        Integer tensors read by one GATHER. IndexingError names axis, size and index where one is known to be outside; an index that
        is wrong only at run time reads 0.
        """
        entries = self._entries(indices)
        taken, arrays = self._split(entries)
        x = self._take(taken)
        if arrays:
            return x._gathered(entries, arrays)
        return x.reshape(with_new_axes(entries, x.shape))

    def _entries(self, indices: Any) -> list[Any]:
        """One entry an axis, the Nones, and an Ellipsis before the slices that it stands for; masks and lists as integer tensors."""
        given: list[Any] = list(indices) if isinstance(indices, tuple) else [indices]
        for i, e in enumerate(given):
            if isinstance(e, (list, tuple, np.ndarray)):
                given[i] = self._index_tensor(e)
        is_mask = [isinstance(e, IndexingOps) and e.dtype.is_bool for e in given]
        used = sum(e.ndim if mask else names_axis(e) for e, mask in zip(given, is_mask, strict=True))
        dots = [i for i, e in enumerate(given) if e is Ellipsis]
        if len(dots) > 1 or used > self.ndim:
            raise IndexingError(f"too many indices for shape {self.shape}: {used} axes indexed" if used > self.ndim else
                                "an index can hold only one Ellipsis (...)")
        at = dots[0] if dots else len(given)
        fill = [slice(None)] * (self.ndim - used)
        entries: list[Any] = []
        for i, e in enumerate([*given[:at], Ellipsis, *fill, *given[at + 1:]]):
            if isinstance(e, IndexingOps) and e.dtype.is_bool:
                entries += self._mask_positions(e, sum(map(names_axis, entries)))
            elif isinstance(e, (bool, np.bool_)):
                raise IndexingError(f"index {i} is {e!r}: a single bool is no index; use None for a new axis")
            else:
                entries.append(e)
        return entries

    def _index_tensor(self, values: Any) -> Self:
        index = self._lift(values)
        return index.cast(dtypes.int64) if index.dtype.is_float and not index.numel() else index

    def _mask_positions(self, mask: Any, axis: int) -> list[Any]:
        """The positions of True, an integer tensor for each of the mask's axes."""
        if mask.shape != self.shape[axis:axis + mask.ndim] or mask.ndim == 0:
            raise IndexingError(f"mask of shape {mask.shape} does not match axes {axis}..{axis + mask.ndim - 1} of shape {self.shape}")
        values = mask._known_values()
        if values is None:
            raise IndexingError(f"x[mask] with a mask of shape {mask.shape} that is not computed yet: the result's shape depends on its values; "
                                f"use where or masked_fill, or realize the mask first")
        return [self._lift(p) for p in np.nonzero(values)]

    def _split(self, entries: list[Any]) -> tuple[list[Taken], list[tuple[int, Self]]]:
        """What the entries take of each axis, and (axis of the taken tensor, indices) of those that are integer tensors."""
        taken: list[Taken] = []
        arrays: list[tuple[int, Self]] = []
        for e in entries:
            if not names_axis(e):
                continue
            axis = len(taken)
            n = self.shape[axis]
            if isinstance(e, slice):
                taken.append(slice_axis(e, axis, n))
            elif is_int(e):
                taken.append(Taken(check_index(int(e), axis, n), 1, 1, drop=True))
            elif isinstance(e, IndexingOps):
                arrays.append((sum(not t.drop for t in taken), e._positions(axis, n)))     # type: ignore[arg-type]
                taken.append(Taken(0, 1, n))
            else:
                raise IndexingError(f"index of axis {axis} is a {type(e).__name__}, {e!r}: "
                                    f"must be an integer, slice, None, Ellipsis, list or integer tensor")
        return taken, arrays

    def _positions(self, axis: int, n: int, wrap: bool = True) -> Self:
        """Self as indices of an axis of size n: checked where the values are known, negative ones counted from the end."""
        if not self.dtype.is_int:
            raise DTypeError(f"index of axis {axis} has dtype {self.dtype.name}; indices are integers")
        root = self.uop
        while root.op in (Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.FLIP):
            root = root.src[0]
        values = self._new(root)._known_values()
        if values is not None and values.size and self.numel():
            check_index(int(values.min()), axis, n, wrap)
            check_index(int(values.max()), axis, n, wrap)
        small = self.dtype.bits < 32 or self.dtype is dtypes.int32
        x: Self = self
        if self.dtype is dtypes.uint64:
            x = x.minimum(min(n, 2**63 - 1))
        x = x.cast(dtypes.int32 if small and n < 2**31 else dtypes.int64)
        if self.dtype.is_unsigned or not wrap:
            return x
        return (x < 0)._select(x + n, x)

    def _take(self, taken: list[Taken]) -> Self:
        """SHRINK and FLIP, without the axes that integers drop."""
        if all(t.count == n and t.step == 1 and not t.reverse and not t.drop for t, n in zip(taken, self.shape, strict=True)):
            return self
        x = self._strided(tuple((t.start, t.step, t.count) for t in taken))
        back = tuple(i for i, t in enumerate(taken) if t.reverse)
        x = x.flip(back) if back else x
        return x.reshape(tuple(t.count for t in taken if not t.drop))

    def _gathered(self, entries: list[Any], arrays: list[tuple[int, Self]]) -> Self:
        """One GATHER for integer tensors, which broadcast; their axes stand where NumPy has them."""
        block, before, rest = self._layout(entries, arrays)
        shape = (*(self.shape[i] for i in rest[:before]), *block, *(self.shape[i] for i in rest[before:]))
        after = len(shape) - before - len(block)
        at = {axis: a.expand(block).reshape((1,) * before + block + (1,) * after).expand(shape) for axis, a in arrays}
        place = {axis: i + (len(block) if i >= before else 0) for i, axis in enumerate(rest)}
        return self._gather_at(at, place, shape).reshape(with_new_axes(entries, shape, before, len(block)))

    def _layout(self, entries: list[Any], arrays: list[tuple[int, Self]]) -> tuple[tuple[int, ...], int, list[int]]:
        """The shape that the integer tensors broadcast to, how many axes stand before it in the result, and the axes not indexed by them."""
        axes = [axis for axis, _ in arrays]
        block = broadcast_shapes(*(a.shape for _, a in arrays), what="index tensors")
        first, adjacent = adjacency(entries)
        before = sum(isinstance(e, slice) for e in entries[:first]) if adjacent else 0
        return block, before, [i for i in range(self.ndim) if i not in axes]

    def _gather_at(self, at: dict[int, Self], place: dict[int, int], shape: tuple[int, ...]) -> Self:
        """out[s] = self[..]: axis i at at[i][s], or at coordinate place[i] of s; 0 outside."""
        big = max(self.shape) >= 2**31 or any(t.dtype is dtypes.int64 for t in at.values())
        dtype = dtypes.int64 if big else dtypes.int32
        index = (at[i].cast(dtype) if i in at else self._along(place[i], dtype, shape) for i in range(self.ndim))
        return self._new(UOp(Op.GATHER, self.dtype, (self.uop, *(t.uop for t in index))))

    # ---- x[...] = v -------------------------------------------------------------------------------------------------
    def __setitem__(self, indices: Any, value: Any) -> None:
        """NumPy's assignment: `value` broadcasts to self[indices] and is cast to self's dtype; of equal positions the last one stays.

        A new value for this tensor only, not a write into memory: x[1:] = x[:-1] reads the old x. Errors as for reading, and
        ShapeError when the value does not broadcast.
        """
        self._become(self._updated(indices, value).uop)

    def _updated(self, indices: Any, value: Any) -> Self:
        v: Self = self._lift(value).cast(self.dtype)
        if isinstance(indices, IndexingOps) and indices.dtype.is_bool and indices._known_values() is None:
            return self._masked_update(indices, v)      # type: ignore[arg-type]
        entries = self._entries(indices)
        taken, arrays = self._split(entries)
        if arrays:
            return self._placed(taken, self._take(taken)._scattered(entries, arrays, v))
        shape = with_new_axes(entries, tuple(t.count for t in taken if not t.drop))
        return self._placed(taken, v._fit(shape, "x[...] = value"))

    def _fit(self, shape: tuple[int, ...], what: str) -> Self:
        """Self broadcast to `shape`; leading axes of size 1 may be too many."""
        x: Self = self
        while x.ndim > len(shape) and x.shape[0] == 1:
            x = x.reshape(x.shape[1:])
        if x.ndim > len(shape) or any(a not in (1, b) for a, b in zip(reversed(x.shape), reversed(shape), strict=False)):
            raise ShapeError(f"{what}: a value of shape {self.shape} does not broadcast to {shape}")
        return x.expand(shape)

    def _placed(self, taken: list[Taken], value: Self) -> Self:
        """Self with `value` at the places taken: both the value and a mask move there, so it is one elementwise expression."""
        if 0 in value.shape:
            return self
        value = value._moved_to(taken, self.shape)
        if all(t.count == n for t, n in zip(taken, self.shape, strict=True)):
            return value
        inside = self._filled(tuple(t.count for t in taken), True, dtypes.bool)._moved_to(taken, self.shape)
        return inside._select(value, self)

    def _moved_to(self, taken: list[Taken], shape: tuple[int, ...]) -> Self:
        """The inverse of taking: element i of an axis goes to start + i*step, zeros elsewhere."""
        x: Self = self.reshape(tuple(t.count for t in taken))
        back = tuple(i for i, t in enumerate(taken) if t.reverse)
        x = x.flip(back) if back else x
        for axis, (t, n) in enumerate(zip(taken, shape, strict=True)):
            if t.step > 1 and t.count > 1:
                around = ((0, 0),) * (axis + 1)
                x = x.unsqueeze(axis + 1).pad((*around, (0, t.step - 1), *((0, 0),) * (x.ndim - axis - 1)))
                x = x.reshape((*x.shape[:axis], t.count * t.step, *x.shape[axis + 2:]))
                x = x._slice(axis, 0, (t.count - 1) * t.step + 1)
            x = x.pad(((0, 0),) * axis + ((t.start, n - t.start - x.shape[axis]),) + ((0, 0),) * (x.ndim - axis - 1))
        return x

    def _masked_update(self, mask: Self, value: Self) -> Self:
        if mask.shape != self.shape[:mask.ndim]:
            raise IndexingError(f"mask of shape {mask.shape} does not match the first axes of shape {self.shape}")
        rest = self.shape[mask.ndim:]
        if value.ndim > len(rest) and prod(value.shape[:value.ndim - len(rest)]) != 1:
            raise IndexingError(f"x[mask] = value of shape {value.shape} with a mask that is not computed yet: how many elements it takes depends on "
                                f"its values; use where, or realize the mask first")
        full = value._fit(rest, "x[mask] = value").expand(self.shape)
        return mask.reshape(mask.shape + (1,) * len(rest))._select(full, self)

    def _scattered(self, entries: list[Any], arrays: list[tuple[int, Self]], value: Self) -> Self:
        """Self with `value` written at integer tensors: every place reads the last write to it."""
        axes = [axis for axis, _ in arrays]
        block, before, rest = self._layout(entries, arrays)
        shape = (*(self.shape[i] for i in rest[:before]), *block, *(self.shape[i] for i in rest[before:]))
        v = value._fit(with_new_axes(entries, shape, before, len(block)), "x[...] = value").reshape(shape)
        if 0 in shape or 0 in self.shape:
            return self
        inner = range(before, before + len(block))
        v = v.permute((*inner, *(i for i in range(len(shape)) if i not in inner)))
        v = v.reshape((prod(block), *(self.shape[i] for i in rest)))
        order = (*axes, *rest)
        front = self.permute(order)
        flat = front.reshape((-1, *v.shape[1:]))
        last = self._last_writer(arrays, block, tuple(self.shape[a] for a in axes)).reshape((-1,) + (1,) * len(rest)).expand(flat.shape)
        written = v._gather_at({0: last}, {i: i for i in range(1, v.ndim)}, flat.shape)
        new = (last < 0)._select(flat, written).reshape(front.shape)
        return new.permute(tuple(order.index(i) for i in range(self.ndim)))

    def _last_writer(self, arrays: list[tuple[int, Self]], block: tuple[int, ...], sizes: tuple[int, ...]) -> Self:
        """For each place of the indexed axes, flattened, the number of the last write to it, or -1; a search that costs places x writes."""
        writes, places = prod(block), prod(sizes)
        line, valid = self._filled((writes,), 0, dtypes.int64), self._filled((writes,), True, dtypes.bool)
        for (_, a), n in zip(arrays, sizes, strict=True):
            i = a.cast(dtypes.int64).expand(block).reshape(writes)
            valid = valid & (i >= 0) & (i < n)
            line = line * n + i
        line = valid._select(line, line._filled((writes,), -1)).reshape(1, writes)
        hit = line.eq(self._along(0, dtypes.int64, (places, writes)))
        number = self._along(1, dtypes.int64, (places, writes))
        return hit._select(number, number._filled(number.shape, -1))._reduce(Op.MAX, 1, False)

    # ---- gather and kin ---------------------------------------------------------------------------------------------
    def gather(self, dim: int, index: Self) -> Self:
        """out[i][j][k] = self[index[i][j][k]][j][k] for dim 0, and so on: PyTorch's gather. Shape of `index`, an integer tensor.

        ShapeError unless index has as many axes, none but `dim` larger than self's; IndexingError as for x[...].
        """
        return self._gather(dim, index, wrap=True)

    def _gather(self, dim: int, index: Self, wrap: bool) -> Self:
        axis = self._axis(dim)
        if index.ndim != self.ndim or any(a > b for i, (a, b) in enumerate(zip(index.shape, self.shape, strict=True)) if i != axis):
            raise ShapeError(f"gather along dim {dim} of shape {self.shape} by an index of shape {index.shape}: "
                             f"it needs {self.ndim} axes, none but dim {dim} larger")
        at = {axis: index._positions(axis, self.shape[axis], wrap)}
        return self._gather_at(at, {i: i for i in range(self.ndim)}, index.shape)

    def take_along_dim(self, indices: Self, dim: int | None = None) -> Self:
        """As `gather`, but the other axes of self and `indices` broadcast; along the flattened tensors for dim None."""
        if dim is None:
            return self.flatten().gather(0, indices.flatten())
        axis = self._axis(dim)
        if indices.ndim != self.ndim:
            raise ShapeError(f"take_along_dim of shape {self.shape} needs indices with {self.ndim} axes, got shape {indices.shape}")
        both = broadcast_shapes(*(tuple(1 if i == axis else n for i, n in enumerate(t.shape)) for t in (self, indices)))
        x, index = (t.expand(tuple(t.shape[axis] if i == axis else n for i, n in enumerate(both))) for t in (self, indices))
        return x.gather(axis, index)

    def index_select(self, dim: int, index: Self) -> Self:
        """Rows of axis `dim` at the places in `index`, an integer vector or scalar."""
        if index.ndim > 1:
            raise ShapeError(f"index_select needs a vector of indices, got shape {index.shape}")
        return self[(slice(None),) * self._axis(dim) + (index.reshape(-1),)]

    def one_hot(self, num_classes: int = -1) -> Self:
        """1 at the class of each element, 0 elsewhere, in a new last axis; default int dtype. Of a class outside all are 0.

        num_classes -1 is one more than the largest value, which must be known. DTypeError unless self is an integer tensor.
        """
        if not self.dtype.is_int:
            raise DTypeError(f"one_hot takes an integer tensor, got {self.dtype.name}")
        if num_classes == -1:
            values = self._known_values()
            if values is None:
                raise ShapeError("one_hot with num_classes=-1 needs values that are computed already: give num_classes, or realize the tensor first")
            num_classes = int(values.max()) + 1 if values.size else 0
        classes = (self.minimum(2**63 - 1) if self.dtype is dtypes.uint64 else self).cast(dtypes.int64).unsqueeze(-1)
        shape = (*self.shape, num_classes)
        return classes.eq(self._along(self.ndim, dtypes.int64, shape)).cast(dtypes.default_int)

    def masked_fill(self, mask: Self, value: Any) -> Self:
        """`value` where the bool `mask`, which broadcasts, holds, else self; dtypes as for `where`."""
        if not mask.dtype.is_bool:
            raise DTypeError(f"masked_fill needs a bool mask, got {mask.dtype.name}")
        return mask.where(value, self)

    def masked_select(self, mask: Self) -> Self:
        """The elements where the bool `mask`, whose values must be known, holds, as a vector. IndexingError when they are not."""
        shape = broadcast_shapes(self.shape, mask.shape, what="tensor and mask")
        known = mask._known_values()
        full = mask if known is None else self._lift(np.broadcast_to(known, shape))
        return self.expand(shape)[full]


def is_int(e: Any) -> bool:
    return isinstance(e, (int, np.integer)) and not isinstance(e, bool)


def check_index(i: int, axis: int, n: int, wrap: bool = True) -> int:
    """`i` counted from the start; IndexingError when it is outside."""
    if type(n) is Size:
        if 0 <= i < n.variable.lo:
            return i
        raise IndexingError(f"index {i} of axis {axis}: its size {n} is known only when the plan runs; the first {n.variable.lo} elements can be taken")
    if not (-n if wrap else 0) <= i < n:
        raise IndexingError(f"index {i} is out of range for axis {axis} of size {n}")
    return i + n if i < 0 else i


def slice_axis(s: slice, axis: int, n: int) -> Taken:
    """What a slice takes of an axis of size n."""
    if isinstance(s.stop, (Variable, Size)):
        stop = s.stop.size if isinstance(s.stop, Variable) else s.stop
        if s.start not in (None, 0) or s.step not in (None, 1) or (stop != n and int(stop) > (n.variable.lo if type(n) is Size else n)):
            raise IndexingError(f"slice of axis {axis} of size {n} is {s!r}: a symbolic size goes from 0 in steps of 1, and its largest value must be there")
        return Taken(0, 1, stop)
    if type(n) is Size and s == slice(None):
        return Taken(0, 1, n)
    for part in (s.start, s.stop, s.step):
        if part is not None and not is_int(part):
            raise IndexingError(f"slice of axis {axis} is {s!r}: bounds and step must be integers or None")
    if s.step == 0:
        raise IndexingError(f"slice of axis {axis} is {s!r}: the step must not be 0")
    r = range(n)[s]
    if not r:
        return Taken(0, 1, 0)
    return Taken(min(r[0], r[-1]), abs(r.step), len(r), reverse=r.step < 0)


def names_axis(e: Any) -> bool:
    """Whether an entry of an index is about an axis of its own."""
    return e is not None and e is not Ellipsis


def adjacency(entries: list[Any]) -> tuple[int, bool]:
    """Place of the first integer or integer tensor, and whether all of them stand side by side; an Ellipsis parts them even if it is empty."""
    at = [i for i, e in enumerate(entries) if names_axis(e) and not isinstance(e, slice)]
    return (at[0], at[-1] - at[0] < len(at)) if at else (-1, True)


def with_new_axes(entries: list[Any], shape: tuple[int, ...], before: int = 0, block: int = 0) -> tuple[int, ...]:
    """`shape`, in which `block` axes of integer tensors follow `before` others, with an axis of size 1 for every None."""
    first, adjacent = adjacency(entries)
    rest = iter(shape[:before] + shape[before + block:])
    out = [] if adjacent else [*shape[:block]]
    for i, e in enumerate(entries):
        if e is None:
            out.append(1)
        elif isinstance(e, slice):
            out.append(next(rest))
        elif i == first and adjacent:
            out += shape[before:before + block]
    return tuple(out)
