"""Long reductions to few values in two stages, so that all cores take part."""
from __future__ import annotations

import math

from ..dtype import dtypes
from ..uop import Op, UOp, identity, toposort

LONG = 1 << 17               # elements per output from which a reduction is split
FEW = 64                     # outputs below which splitting helps
PARTS = range(64, 513)       # partial results per output
WANTED = 256


def split_reductions(sinks: list[UOp]) -> list[UOp]:
    """Each long reduction becomes a partial one, stored, and a second one over the parts."""
    topo = toposort(sinks)
    if not any(is_long(u) for u in topo):
        return sinks
    new: dict[UOp, UOp] = {}
    for u in topo:
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        new[u] = two_stages(v) if is_long(v) else v
        new[u].line = new[u].line or u.line
    return [new[s] for s in sinks]


def is_long(u: UOp) -> bool:
    if u.op is not Op.REDUCE_AXES:
        return False
    shape = u.src[0].shape or ()
    return math.prod(u.shape or ()) < FEW and math.prod(shape[a] for a in u.arg[1]) >= LONG


def two_stages(u: UOp) -> UOp:
    """The axis that splits best, n, becomes (parts, n / parts); all other reduced axes are done in the first stage."""
    x, (op, axes) = u.src[0], u.arg
    shape = x.shape or ()
    ways = [(abs(math.log(p / WANTED)), -shape[a], a, p) for a in axes for p in PARTS if shape[a] % p == 0]
    if ways:
        _, _, axis, parts = min(ways)
    else:
        axis, parts = max((a for a in axes), key=lambda a: shape[a]), WANTED
        x = padded(x, op, axis, -shape[axis] % parts)
        shape = x.shape or ()
    cut = UOp(Op.RESHAPE, x.dtype, (x,), (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1:]))
    inner = tuple(sorted(axis + 1 if a == axis else a + (a > axis) for a in axes))
    partial = UOp(Op.CONTIGUOUS, x.dtype, (UOp(Op.REDUCE_AXES, x.dtype, (cut,), (op, inner)),))
    partial.src[0].line = u.line
    if op is Op.ADD and x.dtype is dtypes.float32:              # few terms, each of many: in float64 they cost nothing and lose nothing
        total = UOp(Op.REDUCE_AXES, dtypes.float64, (UOp(Op.CAST, dtypes.float64, (partial,)),), (op, (axis,)))
        total = UOp(Op.CAST, dtypes.float32, (total,))
    else:
        total = UOp(Op.REDUCE_AXES, x.dtype, (partial,), (op, (axis,)))
    return UOp(Op.RESHAPE, x.dtype, (total,), u.shape)


def padded(x: UOp, op: Op, axis: int, extra: int) -> UOp:
    """x with `extra` neutral elements at the end of an axis."""
    shape, dt = x.shape or (), x.dtype
    out = UOp(Op.PAD, dt, (x,), tuple((0, extra if a == axis else 0) for a in range(len(shape))))
    neutral = UOp(Op.CONST, dt, (), identity(op, dt.min, dt.max))
    if neutral.arg == 0:
        return out

    def spread(u: UOp, ones: tuple[int, ...]) -> UOp:
        return UOp(Op.EXPAND, u.dtype, (UOp(Op.RESHAPE, u.dtype, (u,), ones),), out.shape)
    flat = (1,) * len(shape)
    position = spread(UOp(Op.IOTA, dtypes.int64, (), shape[axis] + extra), (*flat[:axis], shape[axis] + extra, *flat[axis + 1:]))
    limit = spread(UOp(Op.CONST, dtypes.int64, (), shape[axis]), flat)
    return UOp(Op.WHERE, dt, (UOp(Op.CMPLT, dtypes.bool, (position, limit)), out, spread(neutral, flat)))
