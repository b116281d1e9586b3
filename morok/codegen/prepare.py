"""Last rewrites of a kernel AST before code: math functions to polynomials, positions out of casts, guards that a masked load makes needless."""
from __future__ import annotations

from ..dtype import dtypes
from ..uop import GroupOp, Op, UOp
from ..uop.bounds import bounds
from .masks import conjuncts
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


def position(u: UOp, like: UOp) -> UOp | None:
    """The index expression that `u`, an integer, was cast from; a constant is one too."""
    if u.op is Op.CAST and u.src[0].dtype is dtypes.index:
        lo, hi = bounds(u.src[0])
        return u.src[0] if u.dtype.min <= lo and hi <= u.dtype.max else None
    return UOp(Op.CONST, dtypes.index, (), u.arg) if u.op is Op.CONST and u.dtype.is_int and like is not u else None


def lift_positions(u: UOp) -> UOp | None:
    """f(cast(i), cast(j)) → cast(f(i, j)) for index expressions i, j, when nothing can wrap around."""
    x, y = u.src
    if not x.dtype.is_int or x.dtype is dtypes.index:
        return None
    a, b = position(x, y), position(y, x)
    if a is None or b is None or (a.op is Op.CONST and b.op is Op.CONST):
        return None
    if u.op is Op.MUL and a.op is not Op.CONST and b.op is not Op.CONST:
        return None
    lifted = UOp(u.op, dtypes.bool if u.op in GroupOp.COMPARE else dtypes.index, (a, b))
    if u.op in GroupOp.COMPARE:
        return lifted
    lo, hi = bounds(lifted)
    return UOp(Op.CAST, u.dtype, (lifted,)) if u.dtype.min <= lo and hi <= u.dtype.max else None


def drop_guard(u: UOp) -> UOp | None:
    """where(v, load(.., v and w), 0) → the load, which gives 0 by itself."""
    cond, x, y = u.src
    if y.op is not Op.CONST or y.arg != 0 or x.op is not Op.LOAD or len(x.src[0].src) < 3:
        return None
    return x if set(conjuncts(cond)) <= set(conjuncts(x.src[0].src[2])) else None
