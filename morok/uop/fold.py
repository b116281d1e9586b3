"""The value of an elementwise op on constants, as generated code gives it."""
from __future__ import annotations

import math

from ..dtype import DType, dtypes, round_to
from .node import UOp
from .op import GroupOp, Op


def evaluate(u: UOp) -> bool | int | float | None:
    """The value of a node whose sources are CONSTs; None where folding is left to the run."""
    op, dt, a, src = u.op, u.dtype, [s.arg for s in u.src], u.src[0].dtype
    if op in GroupOp.TRANSCENDENTAL or op in (Op.BITCAST, Op.FMA) or (op is Op.MOD and dt.is_float):
        return None
    if op is Op.CAST:
        return cast_value(a[0], src, dt)
    if op in GroupOp.COMPARE:
        return bool({Op.CMPLT: a[0] < a[1], Op.CMPLE: a[0] <= a[1], Op.CMPEQ: a[0] == a[1], Op.CMPNE: a[0] != a[1]}[op])
    if dt.is_float:
        v = _float(op, a)
        return None if v is None else round_to(v, dt) if dt in (dtypes.float32, dtypes.float64) else None
    if dt.is_bool:
        return _bool(op, a)
    v = _int(op, dt, a)
    return None if v is None else dt.const(v)


def cast_value(x: bool | int | float, src: DType, dst: DType) -> bool | int | float:
    """Float to int saturates and NaN gives 0; int to int wraps; to bool is x != 0."""
    if dst.is_bool:
        return x != 0
    if dst.is_float:
        return round_to(_to_double(x, dst), dst)
    if src.is_float:
        if math.isnan(x):
            return 0
        if dst is dtypes.index:
            dst = dtypes.int64
        return dst.min if x <= dst.min else dst.max if x >= dst.max else int(x)
    return dst.const(x)


def _to_double(x: bool | int | float, dst: DType) -> float:
    """As float(x); an integer on its way to a narrower type is rounded to odd, so that the next rounding is right."""
    if dst is not dtypes.float64 and isinstance(x, int) and (extra := x.bit_length() - 53) > 0:
        x = (x >> extra | (x & ((1 << extra) - 1) != 0)) << extra
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _float(op: Op, a: list[float]) -> float | None:
    if op is Op.NEG:
        return -a[0]
    if op is Op.ABS:
        return abs(a[0])
    if op in (Op.MAX, Op.MIN):
        if any(map(math.isnan, a)):
            return math.nan
        return max(a) if op is Op.MAX else min(a)
    if not all(map(math.isfinite, a)):
        return None
    if op is Op.DIV:
        return a[0] / a[1] if a[1] else None
    return {Op.ADD: a[0] + a[1], Op.SUB: a[0] - a[1], Op.MUL: a[0] * a[1]}[op] if op in (Op.ADD, Op.SUB, Op.MUL) else None


def _bool(op: Op, a: list[bool]) -> bool | None:
    if op is Op.NOT:
        return not a[0]
    if len(a) != 2:
        return None
    x, y = a
    return {Op.ADD: x or y, Op.MUL: x and y, Op.MAX: x or y, Op.MIN: x and y, Op.AND: x and y, Op.OR: x or y, Op.XOR: x != y}.get(op)


def _int(op: Op, dt: DType, a: list[int]) -> int | None:
    if len(a) == 1:
        return {Op.NEG: -a[0], Op.ABS: abs(a[0]), Op.NOT: ~a[0]}.get(op)
    if len(a) != 2:
        return None
    x, y = a
    if op in (Op.IDIV, Op.MOD):
        return 0 if y == 0 else x // y if op is Op.IDIV else x % y
    if op in (Op.SHL, Op.SHR):
        if not 0 <= y < (1 << 30 if dt is dtypes.index else dt.bits):
            return -1 if op is Op.SHR and x < 0 else 0
        return x << y if op is Op.SHL else x >> y
    return {Op.ADD: x + y, Op.SUB: x - y, Op.MUL: x * y, Op.MAX: max(x, y), Op.MIN: min(x, y), Op.AND: x & y, Op.OR: x | y, Op.XOR: x ^ y}.get(op)
