"""Local identities of elementwise ops on kernel expressions, as rules. IEEE holds: x*0, x-x, x/x and x+0.0 of floats stay.

Sources are simple already; a callback makes at most one new node over them.
"""
from __future__ import annotations

import math

from ..dtype import DType, dtypes
from .bounds import bounds
from .node import UOp
from .op import Op
from .pattern import Pat, Rules

TRUE, FALSE = UOp(Op.CONST, dtypes.bool, (), True), UOp(Op.CONST, dtypes.bool, (), False)


def is_int(dt: DType) -> bool:
    return dt.is_int


def is_bool(dt: DType) -> bool:
    return dt.is_bool


def is_float(dt: DType) -> bool:
    return dt.is_float


def is_exact(dt: DType) -> bool:
    """Booleans and integers: every value equals itself."""
    return not dt.is_float


def larger(x: UOp, y: UOp) -> UOp | None:
    """MAX(x, y) where the limits decide it."""
    (lo_x, hi_x), (lo_y, hi_y) = bounds(x), bounds(y)
    return x if lo_x >= hi_y else y if lo_y >= hi_x else None


def smaller(x: UOp, y: UOp) -> UOp | None:
    """MIN(x, y) where the limits decide it."""
    (lo_x, hi_x), (lo_y, hi_y) = bounds(x), bounds(y)
    return x if hi_x <= lo_y else y if hi_y <= lo_x else None


def there_and_back(u: UOp, x: UOp) -> UOp | None:
    """A cast to a type that holds every value of x's, and back."""
    wide, narrow = u.src[0].dtype, x.dtype
    if u.dtype is not narrow:
        return None
    if narrow.is_float:
        return x if wide.is_float and wide.itemsize > narrow.itemsize else None
    lo, hi = bounds(x)
    return x if narrow.is_bool or (wide.is_int and wide.min <= lo and hi <= wide.max) else None


def plus_negative_zero(x: UOp, c: UOp) -> UOp | None:
    return x if c.arg == 0 and math.copysign(1, c.arg) < 0 else None


def minus_positive_zero(x: UOp, c: UOp) -> UOp | None:
    return x if c.arg == 0 and math.copysign(1, c.arg) > 0 else None


_x, _y, _z, _c, _d = Pat.var("x"), Pat.var("y"), Pat.var("z"), Pat.const("c"), Pat.const("d")
_int, _bool, _float, _exact = (Pat.var("x", kind) for kind in (is_int, is_bool, is_float, is_exact))
_true, _false = (Pat.const(value=v).typed(is_bool) for v in (True, False))      # typed: 1 == True in Python

integer_rules = Rules([
    (_int + 0, lambda x: x),
    (_int - 0, lambda x: x),
    (_int * 1, lambda x: x),
    (_int // 1, lambda x: x),
    (_int << 0, lambda x: x),
    (_int >> 0, lambda x: x),
    (_int | 0, lambda x: x),
    (_int ^ 0, lambda x: x),
    (_int & -1, lambda x: x),
    (_int * 0, lambda x: x.const_like(0)),
    (_int & 0, lambda x: x.const_like(0)),
    (_int % 1, lambda x: x.const_like(0)),
    (_int - _x, lambda x: x.const_like(0)),
    (_int ^ _x, lambda x: x.const_like(0)),
    (_int % _x, lambda x: x.const_like(0)),                     # 0 % 0 is 0
    ((_int + _c) + _d, lambda x, c, d: x + x.dtype.const(c.arg + d.arg)),
    ((_int + _c) - _d, lambda x, c, d: x + x.dtype.const(c.arg - d.arg)),
    ((_int - _c) + _d, lambda x, c, d: x + x.dtype.const(d.arg - c.arg)),
    ((_int - _c) - _d, lambda x, c, d: x - x.dtype.const(c.arg + d.arg)),
    ((_int * _c) * _d, lambda x, c, d: x * x.dtype.const(c.arg * d.arg)),
])

exact_rules = Rules([                                           # integers and booleans
    (_exact & _x, lambda x: x),
    (_exact | _x, lambda x: x),
    (Pat.of(Op.MAX, _exact, _x), lambda x: x),
    (Pat.of(Op.MIN, _exact, _x), lambda x: x),
    (Pat.of(Op.MAX, _exact, _y), larger),
    (Pat.of(Op.MIN, _exact, _y), smaller),
    (Pat.of((Op.CMPLE, Op.CMPEQ), _exact, _x), lambda x: TRUE),
    (Pat.of((Op.CMPLT, Op.CMPNE), _exact, _x), lambda x: FALSE),
    (~Pat.of(Op.CMPLT, _exact, _y), lambda x, y: y <= x),       # not so for NaN
    (~Pat.of(Op.CMPLE, _exact, _y), lambda x, y: y < x),
])

bool_rules = Rules([
    (Pat.of((Op.AND, Op.MUL, Op.MIN), _bool, _true), lambda x: x),
    (Pat.of((Op.AND, Op.MUL, Op.MIN), _bool, _false), lambda x: FALSE),
    (Pat.of((Op.AND, Op.MUL, Op.MIN), _bool, _x), lambda x: x),
    (Pat.of((Op.OR, Op.ADD, Op.MAX), _bool, _false), lambda x: x),
    (Pat.of((Op.OR, Op.ADD, Op.MAX), _bool, _true), lambda x: TRUE),
    (Pat.of((Op.OR, Op.ADD, Op.MAX), _bool, _x), lambda x: x),
    (Pat.of((Op.XOR, Op.CMPNE), _bool, _false), lambda x: x),
    (Pat.of((Op.XOR, Op.CMPNE), _bool, _true), lambda x: ~x),
    (Pat.of(Op.XOR, _bool, _x), lambda x: FALSE),
    (Pat.of(Op.CMPEQ, _bool, _true), lambda x: x),
    (Pat.of(Op.CMPEQ, _bool, _false), lambda x: ~x),
    (_bool & ~_x, lambda x: FALSE),
    (_bool | ~_x, lambda x: TRUE),
    (_bool & (_x & _y).named("u"), lambda x, y, u: u),
    (_bool | (_x | _y).named("u"), lambda x, y, u: u),
    (_bool & (_x | _y), lambda x, y: x),
    (_bool | (_x & _y), lambda x, y: x),
])

float_rules = Rules([
    (_float * 1, lambda x: x),
    (_float / 1, lambda x: x),
    (_float + _c, plus_negative_zero),
    (_float - _c, minus_positive_zero),
    (Pat.of((Op.MAX, Op.MIN), _float, _x), lambda x: x),
])

common_rules = Rules([
    (-(-_x), lambda x: x),
    (~~_x, lambda x: x),
    (~Pat.of(Op.CMPEQ, _x, _y), lambda x, y: x.ne(y)),
    (~Pat.of(Op.CMPNE, _x, _y), lambda x, y: x.eq(y)),
    (_true.where(_x, _y), lambda x, y: x),
    (_false.where(_x, _y), lambda x, y: y),
    (_y.where(_x, _x), lambda x, y: x),
    (_bool.where(_true, _false), lambda x: x),
    (_bool.where(_false, _true), lambda x: ~x),
    ((~_x).where(_y, _z), lambda x, y, z: x.where(z, y)),
    (_x.where(_x.where(_y, _z), Pat.var("w")), lambda x, y, z, w: x.where(y, w)),
    (_x.where(_y, _x.where(_z, Pat.var("w"))), lambda x, y, z, w: x.where(y, w)),
    (Pat.of(Op.CAST, _x, name="u"), lambda u, x: x if u.dtype is x.dtype else None),
    (Pat.of(Op.CAST, Pat.of(Op.CAST, _x), name="u"), there_and_back),
    (Pat.of(Op.CMPNE, Pat.of(Op.CAST, _bool), 0), lambda x: x),
])

identities = common_rules + bool_rules + exact_rules + integer_rules + float_rules
