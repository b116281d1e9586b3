"""UOp: the one immutable, interned node type of tensor graph and kernel AST."""
from __future__ import annotations

import hashlib
import struct
import weakref
from _weakref import _remove_dead_weakref          # type: ignore[attr-defined]  # atomic, as in WeakValueDictionary
from collections.abc import Callable, Iterable
from typing import Any

from ..dtype import DType, dtypes
from ..errors import IRError
from .op import AxisKind, GroupOp, Op
from .sugar import Sugar

EMPTY: frozenset[Any] = frozenset()
Shape = tuple[int, ...]


class _Held(weakref.ref["UOp"]):
    """An entry of the table of nodes."""
    __slots__ = ("key",)
    key: tuple[Any, ...]


class UOp(Sugar):
    """A node: op, dtype, sources and a constant argument. Equal nodes are one object, so `is` compares graphs in O(1).

    shape: of the value, in the tensor graph; None in a kernel AST (scalars over ranges).
    free: the RANGEs that the value varies over, in a kernel AST.
    line: "file:line" of the tensor code that made the node first; no part of its identity.
    """
    __slots__ = ("op", "dtype", "src", "arg", "shape", "free", "line", "_key", "_bounds", "_linear", "_simple", "memory", "__weakref__")
    op: Op
    dtype: DType
    src: tuple["UOp", ...]
    arg: Any
    shape: Shape | None
    free: frozenset["UOp"]
    line: str | None
    memory: Any                  # of a BUFFER: what holds its values, if anything does yet; no part of its identity
    _key: Any                    # caches of the structural key and of bounds, linear form and simple form
    _bounds: Any
    _linear: Any
    _simple: Any
    _nodes: "dict[tuple[Any, ...], _Held]" = {}

    def __new__(cls, op: Op, dtype: DType, src: tuple["UOp", ...] = (), arg: Any = None) -> "UOp":
        if op is Op.CONST:
            arg = dtype.const(arg)
            same = struct.pack("d", arg) if dtype.is_float else arg      # -0.0 and NaN are values of their own
        else:
            same = arg
        key = (op, dtype, src, same)
        held = cls._nodes.get(key)
        if held is not None and (found := held()) is not None:
            return found
        u = object.__new__(cls)
        u.op, u.dtype, u.src, u.arg, u.line = op, dtype, src, arg, None
        u._key = u._bounds = u._linear = u._simple = u.memory = None
        u.shape, u.free = _shape(u), _free(u)
        held = cls._nodes[key] = _Held(u, _forget)
        held.key = key
        return u

    def __reduce__(self) -> tuple[Any, ...]:
        return UOp, (self.op, self.dtype, self.src, self.arg)

    @property
    def key(self) -> str:
        """Hash of the structure, the same in every process."""
        if self._key is None:
            for u in self.toposort(lambda n: n._key is None):
                arg = struct.pack("d", u.arg).hex() if u.op is Op.CONST and u.dtype.is_float else repr(u.arg)
                text = "|".join([u.op.name, u.dtype.name, arg, *(s._key for s in u.src)])
                u._key = hashlib.sha256(text.encode()).hexdigest()
        return self._key    # type: ignore[no-any-return]

    def toposort(self, enter: Any = None) -> list["UOp"]:
        """All nodes below and including this one, sources first; `enter(node)` False leaves out a node and what is below it."""
        return toposort((self,), enter)

    def replace(self, **kw: Any) -> "UOp":
        """The same node with some of op, dtype, src, arg exchanged."""
        return UOp(kw.get("op", self.op), kw.get("dtype", self.dtype), kw.get("src", self.src), kw.get("arg", self.arg))

    def substitute(self, mapping: dict["UOp", "UOp"]) -> "UOp":
        """The graph with each key of `mapping` exchanged for its value; what is below a key is not looked at."""
        if not mapping:
            return self
        new: dict[UOp, UOp] = {}
        for u in self.toposort(lambda n: n not in mapping):
            src = tuple(mapping.get(s) or new[s] for s in u.src)
            new[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        return mapping.get(self) or new[self]


def _forget(held: _Held, remove: Callable[[Any, Any], None] = _remove_dead_weakref, nodes: dict[Any, Any] = UOp._nodes) -> None:
    """A node has died: its entry goes, unless another node has taken it already."""
    remove(nodes, held.key)


def toposort(roots: Iterable[UOp], enter: Any = None) -> list[UOp]:
    """All nodes below and including `roots`, sources first; iterative, each node once."""
    out: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[UOp | None] = []
    stack += reversed(list(roots))
    while stack:
        u = stack.pop()
        if u is None:                                          # what stands below the mark has all its sources in `out`
            out.append(stack.pop())             # type: ignore[arg-type]
        elif u not in seen:
            seen.add(u)
            if enter is not None and not enter(u):
                continue
            if u.src:
                stack += (u, None)
                stack += u.src[::-1]
            else:
                out.append(u)
    return out


def _free(u: UOp) -> frozenset[UOp]:
    if u.op is Op.RANGE:
        return frozenset((u,))
    free = EMPTY
    for x in u.src:
        if x.free:
            free = free | x.free if free else x.free
    if not free:
        return EMPTY
    if u.op is Op.REDUCE:
        return free.difference(u.src[1:])
    if u.op is Op.STAGE:
        return free.difference(u.src[2:])
    return free


def _shape(u: UOp) -> Shape | None:
    src = u.src
    if u.op in GroupOp.ALU:
        shape = src[-1].shape if src else None
        return None if shape == () and any(x.shape is None for x in src) else shape      # a CONST in a kernel AST
    rule = _SHAPES.get(u.op)
    if rule is None or (src and src[0].shape is None):
        return None
    return rule(u, src[0].shape if src else ())      # type: ignore[arg-type]


def _shape_of_windows(u: UOp, s: Shape) -> Shape:
    count = {axis: max(0, (s[axis] - (k - 1) * dilation - 1) // stride + 1) for axis, k, stride, dilation in u.arg}
    return (*(count.get(i, n) for i, n in enumerate(s)), *(k for _, k, _, _ in u.arg))


_SHAPES: dict[Op, Callable[[UOp, Shape], Shape | None]] = {      # from the shape of the first source
    Op.CONST: lambda u, s: (),
    Op.BUFFER: lambda u, s: u.arg.shape,
    Op.IOTA: lambda u, s: (u.arg,),
    **dict.fromkeys((Op.RESHAPE, Op.EXPAND), lambda u, s: u.arg),
    **dict.fromkeys((Op.FLIP, Op.SCAN_AXIS, Op.CONTIGUOUS, Op.COPY, Op.ASSIGN), lambda u, s: s),
    Op.GATHER: lambda u, s: u.src[1].shape if len(u.src) > 1 else (),
    Op.PERMUTE: lambda u, s: tuple([s[a] for a in u.arg]),
    Op.PAD: lambda u, s: tuple([b + n + a for n, (b, a) in zip(s, u.arg, strict=True)]),
    Op.SHRINK: lambda u, s: tuple([count for _, _, count in u.arg]),
    Op.WINDOW: _shape_of_windows,
    Op.REDUCE_AXES: lambda u, s: tuple([1 if i in u.arg[1] else n for i, n in enumerate(s)]),
    Op.CAT: lambda u, s: tuple([sum(x.shape[i] for x in u.src) if i == u.arg else n for i, n in enumerate(s)])}     # type: ignore[index, misc]


def ranges(u: UOp) -> list[UOp]:
    """All RANGEs in a kernel AST, sorted by axis id, phase and order."""
    return sorted((r for r in u.toposort() if r.op is Op.RANGE), key=lambda r: (r.arg.id, r.arg.phase, r.arg.order))


def loop_key(r: UOp) -> tuple[AxisKind, tuple[int, ...], int, int]:
    """Sort key of RANGEs: the nesting, outermost first."""
    if r.op is not Op.RANGE:
        raise IRError(f"{r.op} is no RANGE")
    return r.arg.kind, r.arg.order, r.arg.id, r.arg.phase


def const(value: Any, dtype: DType = dtypes.index) -> UOp:
    """A scalar constant."""
    return UOp(Op.CONST, dtype, (), value)
