"""Least and greatest value of integer and bool nodes, from those of their sources; sound, not always tight."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import DType, dtypes
from .op import GroupOp, Op

if TYPE_CHECKING:
    from .node import UOp

Bounds = tuple[int, int]
FAR = 1 << 100                   # stands for "no limit" of an index


def bounds(u: "UOp") -> Bounds:
    """Inclusive limits of the value of `u`; index, integer and bool nodes. Floats and unknown values have the limits of their type."""
    if u._bounds is None:
        stack = [u]
        while stack:
            n = stack[-1]
            unknown = [s for s in n.src if s._bounds is None]
            stack += unknown
            if not unknown:
                n._bounds = _of(n)
                stack.pop()
    return u._bounds                                            # type: ignore[no-any-return]


def limits(dt: DType) -> Bounds:
    if dt is dtypes.index or dt.is_float or dt is dtypes.void:
        return -FAR, FAR
    return int(dt.min), int(dt.max)


def _of(u: "UOp") -> Bounds:
    lo, hi = limits(u.dtype)
    if u.dtype.is_float or u.dtype is dtypes.void:
        return lo, hi
    found = _value(u)
    if found is None or (u.dtype is not dtypes.index and not (lo <= found[0] and found[1] <= hi)):
        return lo, hi                                           # may wrap around
    return found


def _value(u: "UOp") -> Bounds | None:
    op, src = u.op, u.src
    if op is Op.CONST:
        return int(u.arg), int(u.arg)
    if op is Op.RANGE:
        return 0, u.arg.extent - 1
    if op in GroupOp.COMPARE:
        return _compare(op, bounds(src[0]), bounds(src[1])) if not src[0].dtype.is_float else None
    if op is Op.CAST:
        return None if src[0].dtype.is_float else _cast(u.dtype, bounds(src[0]))
    if op in (Op.REDUCE, Op.STAGE, Op.SCAN):
        return bounds(src[0]) if u.arg in (Op.MAX, Op.MIN) else None
    if op not in GroupOp.ALU:
        return None
    if op is Op.WHERE:
        (a, b), (c, d) = bounds(src[1]), bounds(src[2])
        return min(a, c), max(b, d)
    a, b = bounds(src[0])
    if op is Op.NEG:
        return -b, -a
    if op is Op.NOT:
        return (1 - b, 1 - a) if u.dtype.is_bool else (~b, ~a)
    if op is Op.ABS:
        return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
    if len(src) < 2:
        return None
    return _binary(op, u.dtype, (a, b), bounds(src[1]))


def _cast(dt: DType, x: Bounds) -> Bounds:
    if not dt.is_bool:
        return x
    return int(x[0] > 0 or x[1] < 0), int(x != (0, 0))


def _binary(op: Op, dt: DType, x: Bounds, y: Bounds) -> Bounds | None:
    (a, b), (c, d) = x, y
    if dt.is_bool:
        if op in (Op.ADD, Op.OR, Op.MAX):
            return max(a, c), max(b, d)
        return (min(a, c), min(b, d)) if op in (Op.MUL, Op.AND, Op.MIN) else None
    if op is Op.ADD:
        return a + c, b + d
    if op is Op.SUB:
        return a - d, b - c
    if op is Op.MUL:
        v = (a * c, a * d, b * c, b * d)
        return min(v), max(v)
    if op is Op.MAX:
        return max(a, c), max(b, d)
    if op is Op.MIN:
        return min(a, c), min(b, d)
    if op is Op.IDIV:
        return _divide(x, y)
    if op is Op.MOD:
        return _modulo(x, y)
    if op is Op.AND and a >= 0 and c >= 0:
        return 0, min(b, d)
    if op in (Op.OR, Op.XOR) and a >= 0 and c >= 0:
        return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
    if op is Op.SHR and c >= 0 and d < dt.bits:
        v = (a >> c, a >> d, b >> c, b >> d)
        return min(v), max(v)
    if op is Op.SHL and c >= 0 and d < dt.bits:
        v = (a << c, a << d, b << c, b << d)
        return min(v), max(v)
    return None


def _divide(x: Bounds, y: Bounds) -> Bounds:
    """Floor division; x // 0 is 0."""
    divisors = {v for v in (*y, -1, 1) if y[0] <= v <= y[1] and v}
    v = [a // d for a in x for d in divisors]
    if y[0] <= 0 <= y[1] or not v:
        v.append(0)
    return min(v), max(v)


def _modulo(x: Bounds, y: Bounds) -> Bounds:
    """Sign of the divisor; x % 0 is 0."""
    (a, b), (c, d) = x, y
    if c == d and c > 0 and a // c == b // c:
        return a % c, b % c
    hi = max(d - 1, 0)
    if a >= 0 and c >= 0:
        hi = min(hi, b)
    return min(c + 1, 0), hi


def _compare(op: Op, x: Bounds, y: Bounds) -> Bounds:
    (a, b), (c, d) = x, y
    if op is Op.CMPLT:
        return int(b < c), int(a < d)
    if op is Op.CMPLE:
        return int(b <= c), int(a <= d)
    same, apart = a == b == c == d, b < c or d < a
    return (int(same), int(not apart)) if op is Op.CMPEQ else (int(apart), int(not same))
