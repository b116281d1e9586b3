"""Last rewrites of a kernel AST before code: math functions to polynomials, positions out of casts, guards that a masked load makes needless."""
from __future__ import annotations

from ..uop import GroupOp, Op, UOp
from ..uop.symbolic import lift_positions, split_and
from .transcendental import decompose

LIFTED = frozenset({Op.ADD, Op.SUB, Op.MUL}) | GroupOp.COMPARE


def prepare(ast: UOp) -> UOp:
    """The same kernel in ops that the lowering knows."""
    new: dict[UOp, UOp] = {}
    for u in ast.toposort():
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        new[u] = _rewrite(v)
    return new[ast]


def _rewrite(u: UOp) -> UOp:
    if u.op in GroupOp.TRANSCENDENTAL:
        return decompose(u) or u
    if u.op in LIFTED:
        return lift_positions(u) or u
    if u.op is Op.WHERE:
        return drop_guard(u) or u
    return u


def drop_guard(u: UOp) -> UOp | None:
    """where(v, load(.., v and w), 0) → the load, which gives 0 by itself."""
    cond, x, y = u.src
    if y.op is not Op.CONST or y.arg != 0 or x.op is not Op.LOAD or len(x.src[0].src) < 3:
        return None
    return x if set(split_and(cond)) <= set(split_and(x.src[0].src[2])) else None
