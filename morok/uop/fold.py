"""Constants and neutral elements: what can be said of one elementwise node by looking at its sources. IEEE holds: x*0, x-x and x+0.0 stay."""
from __future__ import annotations

import math
import struct

from ..dtype import DType, dtypes
from .bounds import bounds
from .node import UOp
from .op import GroupOp, Op


def fold(u: UOp) -> UOp | None:
    """A constant or a source that equals `u`, if there is one."""
    op, dt, src = u.op, u.dtype, u.src
    if op is Op.WHERE:
        if src[0].op is Op.CONST:
            return src[1] if src[0].arg else src[2]
        if src[1] is src[2]:
            return src[1]
    if all(s.op is Op.CONST for s in src) and (v := evaluate(u)) is not None:
        return UOp(Op.CONST, dt, (), v)
    if op is Op.CAST and src[0].dtype is dt:
        return src[0]
    if op in (Op.NEG, Op.NOT) and src[0].op is op:
        return src[0].src[0]
    if dt.is_bool or dt.is_int:
        lo, hi = bounds(u)
        if lo == hi:
            return UOp(Op.CONST, dt, (), lo)
        return _integers(op, dt, src)
    if dt.is_float and len(src) == 2 and src[1].op is Op.CONST and src[1].arg == 1 and op in (Op.MUL, Op.DIV):
        return src[0]
    if dt.is_float and op is Op.MUL and src[0].op is Op.CONST and src[0].arg == 1:
        return src[1]
    return None


def _integers(op: Op, dt: DType, src: tuple[UOp, ...]) -> UOp | None:
    if len(src) != 2 or dt is not src[0].dtype:
        return None
    for x, y in (src, src[::-1]):
        if y.op is Op.CONST:
            v = y.arg
            if v == 0 and (op in (Op.ADD, Op.OR, Op.XOR) or (op in (Op.SUB, Op.SHL, Op.SHR) and y is src[1])):
                return x
            if v == 0 and op in (Op.MUL, Op.AND):
                return y
            if v == 1 and not dt.is_bool and (op is Op.MUL or (op is Op.IDIV and y is src[1])):
                return x
            if dt.is_bool and v and op in (Op.AND, Op.MUL, Op.MIN):
                return x
            if dt.is_bool and v and op in (Op.OR, Op.ADD, Op.MAX):
                return y
    if src[0] is src[1]:
        if op in (Op.AND, Op.OR, Op.MAX, Op.MIN):
            return src[0]
        if op in (Op.SUB, Op.XOR):
            return UOp(Op.CONST, dt, (), 0)
    return None


def evaluate(u: UOp) -> bool | int | float | None:
    """The value of an op on constants, as generated code gives it; None where folding is left to the run."""
    op, dt, a = u.op, u.dtype, [s.arg for s in u.src]
    src = u.src[0].dtype if op is not Op.WHERE else u.src[1].dtype
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
        try:
            return round_to(float(x), dst)
        except OverflowError:
            return math.inf if x > 0 else -math.inf
    if src.is_float:
        if math.isnan(x):
            return 0
        if dst is dtypes.index:
            dst = dtypes.int64
        return dst.min if x <= dst.min else dst.max if x >= dst.max else int(x)
    return dst.const(x)


def round_to(v: float, dt: DType) -> float:
    """The nearest value of a float type."""
    if dt is dtypes.float64 or not math.isfinite(v):
        return v
    try:
        v = struct.unpack("<e", struct.pack("<e", v))[0] if dt is dtypes.float16 else struct.unpack("<f", struct.pack("<f", v))[0]
    except OverflowError:
        return math.copysign(math.inf, v)
    if dt is dtypes.bfloat16:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        v = struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]
    return v


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
