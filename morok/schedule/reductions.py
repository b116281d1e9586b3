"""Long reductions to few values in two stages, so that all cores and many loads at once take part."""
from __future__ import annotations

import math

from ..uop import GroupOp, Op, UOp, identity, toposort

LONG = 1 << 17                   # elements per output from which a reduction is split
FEW = 64                         # outputs below which splitting helps
PARTS = (256, 128, 512, 64, 96, 100, 125, 120, 80, 60, 50, 48, 40, 32, 243, 49, 121, 169)


def split_reductions(sinks: list[UOp]) -> list[UOp]:
    """Exchange each long reduction of all of an array for a partial one, stored, and a second over the parts."""
    new: dict[UOp, UOp] = {}
    for u in toposort(sinks):
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        if v.line is None:
            v.line = u.line
        new[u] = two_stages(v) or v
    return [new[s] for s in sinks]


def two_stages(u: UOp) -> UOp | None:
    if u.op is not Op.REDUCE_AXES:
        return None
    x, (op, axes) = u.src[0], u.arg
    shape = x.shape or ()
    n = math.prod(shape[a] for a in axes)
    kept = [a for a in range(len(shape)) if a not in axes and shape[a] != 1]
    if n < LONG or math.prod(shape[a] for a in kept) >= FEW or is_product(x):
        return None
    order = (*kept, *(a for a in range(len(shape)) if a not in kept))
    flat = UOp(Op.PERMUTE, x.dtype, (x,), order) if order != tuple(range(len(shape))) else x
    outer = tuple(shape[a] for a in kept)
    flat = UOp(Op.RESHAPE, x.dtype, (flat,), (*outer, n))
    parts = next((p for p in PARTS if n % p == 0), None)
    if parts is None:
        parts = PARTS[0]
        flat = padded(flat, op, -n % parts)
    cut = UOp(Op.RESHAPE, x.dtype, (flat,), (*outer, parts, (flat.shape or ())[-1] // parts))
    first = UOp(Op.REDUCE_AXES, x.dtype, (cut,), (op, (len(outer) + 1,)))
    stored = UOp(Op.CONTIGUOUS, x.dtype, (first,))
    second = UOp(Op.REDUCE_AXES, x.dtype, (stored,), (op, (len(outer),)))
    return UOp(Op.RESHAPE, x.dtype, (second,), u.shape)


def padded(x: UOp, op: Op, extra: int) -> UOp:
    """x with `extra` neutral elements at the end of its last axis."""
    shape, dt = x.shape or (), x.dtype
    neutral = UOp(Op.CONST, dt, (), identity(op, dt.min, dt.max))
    tail = (*shape[:-1], extra)
    neutral = UOp(Op.EXPAND, dt, (UOp(Op.RESHAPE, dt, (neutral,), (1,) * len(tail)),), tail)
    return UOp(Op.CAT, dt, (x, neutral), len(shape) - 1)


def is_product(x: UOp) -> bool:
    """A product of two expanded tensors, seen through casts and movement: a matrix product keeps its one loop nest."""
    while x.op is Op.CAST or x.op in GroupOp.MOVEMENT:
        x = x.src[0]
    return x.op is Op.MUL and any(reaches_expand(s) for s in x.src)


def reaches_expand(x: UOp) -> bool:
    while x.op is Op.CAST or x.op in GroupOp.MOVEMENT:
        if x.op is Op.EXPAND and math.prod(x.shape or ()) > math.prod(x.src[0].shape or ()) > 1:
            return True
        x = x.src[0]
    return False
