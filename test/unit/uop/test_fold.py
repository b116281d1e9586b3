"""Constant folding gives what the interpreter gives, bit for bit, and what NumPy gives where NumPy has the same semantics."""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from uop_exprs import number

from morok.dtype import DType, dtypes, round_to
from morok.uop import GroupOp, Op, UOp
from morok.uop.fold import evaluate
from morok.uop.interpret import evaluate_scalars, round_floats

FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
INTS = [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64]
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 6e-8, 1e-40, 5e-324, 65504.0, 65520.0, 3.4e38, 1e300, 2.0 ** 63, -2.0 ** 63, 128.0, -129.5,
                math.inf, -math.inf, math.nan]
FLOAT_OPS = [Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN, *GroupOp.COMPARE]
INT_OPS = [Op.NEG, Op.ABS, Op.NOT, Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, *GroupOp.COMPARE]
BOOL_OPS = [Op.NOT, Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, *GroupOp.COMPARE]


def int_values(dt: DType) -> list[int]:
    return sorted({dt.const(v) for v in (0, 1, 2, 3, 7, 8, 100, -1, -2, -7, dt.min, dt.max, dt.max // 2, (1 << 53) + 1, (1 << 62) + (1 << 38) + 1)})


def same(u: UOp) -> bool:
    """Does folding agree with the interpreter? False where folding leaves the value to the run."""
    got = evaluate(u)
    if got is None:
        return False
    want = evaluate_scalars([u])[0].reshape(()).item()
    assert u.dtype.const(got) == got or got != got, "a fold gives a value of its dtype"
    assert type(want)(got) == want or (got != got and want != want), (u.op, u.dtype, [s.arg for s in u.src], got, want)
    if isinstance(want, float) and want == want:
        assert math.copysign(1, got) == math.copysign(1, want), (u.op, [s.arg for s in u.src])
    return True


def unary_or_binary(op: Op, dt: DType, values: list[object]) -> list[UOp]:
    count = 1 if op in GroupOp.UNARY else 2
    return [number(v[0], dt).alu(op, *(number(x, dt) for x in v[1:])) for v in itertools.product(values, repeat=count)]


@pytest.mark.parametrize("dt", FLOATS, ids=str)
def test_floats(dt: DType) -> None:
    folded = sum(same(u) for op in FLOAT_OPS for u in unary_or_binary(op, dt, FLOAT_VALUES))
    assert folded > (1000 if dt in (dtypes.float32, dtypes.float64) else 500)


@pytest.mark.parametrize("dt", [*INTS, dtypes.bool], ids=str)
def test_integers_and_bools(dt: DType) -> None:
    ops, values = (BOOL_OPS, [False, True]) if dt.is_bool else (INT_OPS, int_values(dt))
    assert all(same(u) for op in ops for u in unary_or_binary(op, dt, values))


@pytest.mark.parametrize("src", [*FLOATS, *INTS, dtypes.bool], ids=str)
def test_casts(src: DType) -> None:
    values = FLOAT_VALUES if src.is_float else [False, True] if src.is_bool else int_values(src)
    assert all(same(number(v, src).cast(dst)) for v in values for dst in [*FLOATS, *INTS, dtypes.bool] if dst is not src)


def test_casts_by_hand() -> None:
    def cast(v: object, src: DType, dst: DType) -> object:
        return evaluate(number(v, src).cast(dst))
    f, i8, u8 = dtypes.float32, dtypes.int8, dtypes.uint8
    assert [cast(v, f, i8) for v in (1.9, -1.9, 300.0, -300.0, math.nan, math.inf)] == [1, -1, 127, -128, 0, 127]
    assert [cast(v, f, u8) for v in (-1.0, 255.5, 256.0)] == [0, 255, 255]
    assert [cast(v, dtypes.int32, i8) for v in (128, -129, 256)] == [-128, 127, 0]
    assert cast(math.nan, f, dtypes.bool) is True and cast(-0.0, f, dtypes.bool) is False
    assert cast((1 << 53) + 1, dtypes.int64, dtypes.float64) == float(1 << 53)


def test_int64_to_float32_rounds_once() -> None:
    for v in ((1 << 62) + (1 << 38) + 1, -((1 << 62) + (1 << 38) + 1), (1 << 60) + (1 << 36), (1 << 53) + 1):
        assert evaluate(number(v, dtypes.int64).cast(dtypes.float32)) == float(np.int64(v).astype(np.float32))


def test_a_constant_is_a_value_of_its_dtype() -> None:
    assert number(0.1, dtypes.float32).arg == float(np.float32(0.1)) and number(0.1, dtypes.float16).arg == float(np.float16(0.1))
    assert number(0.1, dtypes.float32) is number(float(np.float32(0.1)), dtypes.float32)
    assert number(70000.0, dtypes.float16).arg == math.inf and number(-1, dtypes.uint8).arg == 255


def test_bfloat16_rounds_to_nearest_even() -> None:
    cases = {1.0: 1.0, 1.00390625: 1.0, 1.01171875: 1.015625, 1.00391: 1.0078125, 3.3961775e38: math.inf, 3.3e38: 1.9375 * 2.0 ** 127}
    for v, want in cases.items():
        assert round_to(v, dtypes.bfloat16) == pytest.approx(want, rel=1e-6) and round_to(-v, dtypes.bfloat16) == -round_to(v, dtypes.bfloat16)
    x = np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.random.default_rng(1).integers(-38, 38, 2000)
    assert [round_to(float(v), dtypes.bfloat16) for v in x] == round_floats(x, dtypes.bfloat16).tolist()
