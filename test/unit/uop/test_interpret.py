"""The interpreter against plain NumPy and against numbers worked out by hand."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from uop_exprs import buffer, loaded, loop, number, param, sink, softmax

from morok.dtype import DType, dtypes
from morok.errors import IRError
from morok.uop import AxisKind, Op, StageArg, UOp, Where, const
from morok.uop.interpret import evaluate, evaluate_scalars, round_floats, run_kernel, storage

F32, I64 = dtypes.float32, dtypes.int64
R = AxisKind.REDUCE


def run(u: UOp, **arrays: np.ndarray) -> np.ndarray:
    named = {n.arg.uid: n for n in u.toposort() if n.op is Op.BUFFER}
    return evaluate(u, {named[int(k[1:])]: v for k, v in arrays.items()})


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(("op", "arg", "want"), [
    (Op.RESHAPE, (6, 4), X.reshape(6, 4)), (Op.PERMUTE, (2, 0, 1), X.transpose(2, 0, 1)), (Op.FLIP, (0, 2), X[::-1, :, ::-1]),
    (Op.PAD, ((1, 0), (0, 2), (0, 0)), np.pad(X, ((1, 0), (0, 2), (0, 0)))), (Op.SHRINK, ((0, 1, 1), (0, 2, 2), (3, 1, 1)), X[:1, ::2, 3:]),
    (Op.SHRINK, ((0, 1, 2), (1, 1, 0), (0, 3, 2)), X[:, 1:1, ::3]), (Op.REDUCE_AXES, (Op.ADD, (0, 2)), X.sum((0, 2), keepdims=True)),
    (Op.REDUCE_AXES, (Op.MAX, (1,)), X.max(1, keepdims=True)), (Op.REDUCE_AXES, (Op.MUL, (2,)), X.prod(2, keepdims=True)),
    (Op.SCAN_AXIS, (Op.ADD, 1), X.cumsum(1)), (Op.SCAN_AXIS, (Op.MIN, 2), np.minimum.accumulate(X, 2)), (Op.CONTIGUOUS, None, X),
    (Op.WINDOW, ((2, 2, 1, 2),), np.stack([X[..., [0, 2]], X[..., [1, 3]]], 2)),
    (Op.WINDOW, ((1, 2, 1, 1), (2, 3, 1, 1)), np.lib.stride_tricks.sliding_window_view(X, (2, 3), (1, 2))),
])
def test_movement_and_reductions(op: Op, arg: object, want: np.ndarray) -> None:
    got = run(UOp(op, F32, (buffer((2, 3, 4)),), arg), b0=X)
    assert got.dtype == np.float32 and got.shape == want.shape and (got == want).all()


def test_expand_cat_iota_gather_assign() -> None:
    a, b = buffer((1, 3)), buffer((2, 3), uid=1)
    big = UOp(Op.EXPAND, F32, (a,), (2, 3))
    rows = np.array([[1.0, 2, 3]], np.float32)
    assert run(UOp(Op.CAT, F32, (big, b), 0), b0=rows, b1=rows.repeat(2, 0) * 2).tolist() == [[1, 2, 3]] * 2 + [[2, 4, 6]] * 2
    assert run(UOp(Op.IOTA, dtypes.int32, (), 4)).tolist() == [0, 1, 2, 3]
    i, j = buffer((4,), I64, 2), buffer((4,), I64, 3)
    got = run(UOp(Op.GATHER, F32, (b, i, j)), b1=np.arange(6, dtype=np.float32).reshape(2, 3), b2=np.array([0, 1, -1, 2]), b3=np.array([2, 0, 1, 1]))
    assert got.tolist() == [2, 3, 0, 0]
    assert run(UOp(Op.ASSIGN, F32, (b, big)), b0=rows, b1=X[0, :2, :3]).tolist() == rows.repeat(2, 0).tolist()


def test_empty_axes_reduce_to_the_identity() -> None:
    x = buffer((0, 2))
    for op, want in ((Op.ADD, 0), (Op.MUL, 1), (Op.MAX, -math.inf), (Op.MIN, math.inf)):
        assert run(UOp(Op.REDUCE_AXES, F32, (x,), (op, (0,))), b0=np.zeros((0, 2), np.float32)).tolist() == [[want] * 2]
    low = run(UOp(Op.REDUCE_AXES, dtypes.int8, (buffer((0,), dtypes.int8),), (Op.MAX, (0,))), b0=np.zeros(0, np.int8))
    assert low.tolist() == [-128]


def scalar(op: Op, dt: DType, *values: object) -> object:
    return evaluate_scalars([number(values[0], dt).alu(op, *(number(v, dt) for v in values[1:]))])[0].item()


def test_integer_semantics() -> None:
    i8, u8 = dtypes.int8, dtypes.uint8
    assert [scalar(Op.IDIV, i8, a, b) for a, b in ((7, -2), (-7, 2), (7, 0), (-128, -1))] == [-4, -4, 0, -128]
    assert [scalar(Op.MOD, i8, a, b) for a, b in ((7, -2), (-7, 2), (7, 0), (-128, -1))] == [-1, 1, 0, 0]
    assert [scalar(Op.SHL, i8, 1, b) for b in (3, 7, 8, -1)] == [8, -128, 0, 0]
    assert [scalar(Op.SHR, i8, -9, b) for b in (1, 7, 8, -1)] == [-5, -1, -1, -1] and scalar(Op.SHR, u8, 255, 9) == 0
    assert scalar(Op.ADD, i8, 100, 100) == -56 and scalar(Op.NEG, i8, -128) == -128 and scalar(Op.ABS, i8, -128) == -128
    assert scalar(Op.SUB, u8, 0, 1) == 255 and scalar(Op.NOT, u8, 1) == 254
    assert scalar(Op.ADD, dtypes.bool, True, True) is True and scalar(Op.MUL, dtypes.bool, True, False) is False
    assert scalar(Op.NOT, dtypes.bool, True) is False


def test_float_semantics() -> None:
    nan, inf = math.nan, math.inf
    for op in (Op.MAX, Op.MIN):
        assert math.isnan(scalar(op, F32, nan, 1.0)) and math.isnan(scalar(op, F32, 1.0, nan))      # type: ignore[arg-type]
    assert [scalar(op, F32, nan, nan) for op in (Op.CMPEQ, Op.CMPNE, Op.CMPLT, Op.CMPLE)] == [False, True, False, False]
    assert scalar(Op.DIV, F32, 1.0, 0.0) == inf and scalar(Op.DIV, F32, -1.0, 0.0) == -inf
    assert math.isnan(scalar(Op.DIV, F32, 0.0, 0.0))            # type: ignore[arg-type]
    assert scalar(Op.MOD, F32, -7.0, 3.0) == 2.0 and scalar(Op.MOD, F32, 7.0, -3.0) == -2.0
    assert [scalar(Op.RINT, F32, v) for v in (0.5, 1.5, -0.5, 2.5)] == [0, 2, 0, 2]
    assert scalar(Op.EXP2, dtypes.float16, 10.0) == 1024.0 and scalar(Op.EXP, dtypes.float16, 12.0) == inf
    assert scalar(Op.ERF, dtypes.float64, 0.5) == pytest.approx(0.5204998778130465, rel=1e-15)
    assert scalar(Op.TANH, F32, 0.5) == float(np.float32(0.46211715726000975))
    assert scalar(Op.ADD, dtypes.bfloat16, 256.0, 1.0) == 256.0 and scalar(Op.ADD, dtypes.bfloat16, 256.0, 3.0) == 260.0


def test_float_arithmetic_is_correctly_rounded() -> None:
    """Against NumPy's float16 and float32 arithmetic, and the exact product-sum for FMA."""
    g = np.random.default_rng(0)
    for dt in (dtypes.float16, F32):
        x, y, z = ((g.standard_normal(400) * 10.0 ** g.integers(-3, 3, 400)).astype(storage(dt)) for _ in range(3))
        a, b, c = (loaded(s, 400, dt, loop(0, 400)) for s in range(3))
        got = evaluate_scalars([a + b, a - b, a * b, a / b, a.alu(Op.SQRT), a.fma(b, c)], [x, y, np.abs(z)])
        with np.errstate(all="ignore"):
            for have, want in zip(got, [x + y, x - y, x * y, x / y, np.sqrt(x)], strict=False):
                assert have.dtype == storage(dt) and np.array_equal(have, want, equal_nan=True)
        for v, p, q, s in zip(got[-1], x, y, np.abs(z), strict=True):
            exact = Fraction(float(p)) * Fraction(float(q)) + Fraction(float(s))
            up, down = (np.nextafter(v, storage(dt).type(end)) for end in (np.inf, -np.inf))
            near = [abs(Fraction(float(n)) - exact) for n in (v, up, down)]
            assert near[0] == min(near)


def test_fma_of_float64_is_exact() -> None:
    x = 1 + 2.0 ** -52
    assert evaluate_scalars([number(x, dtypes.float64).fma(number(x, dtypes.float64), -1 - 2.0 ** -51)])[0].item() == 2.0 ** -104


def test_wide_never_rounds() -> None:
    x = buffer((3,))
    u = (x + x.alu(Op.EXP)).cast(dtypes.float16).cast(F32)
    data = np.array([0.1, 1.0, 2.0])
    assert (evaluate(u, {x: data}, wide=True) == data + np.exp(data)).all()
    assert evaluate(u, {x: data.astype(np.float32)}).dtype == np.float32


def test_bitcast() -> None:
    def cast(v: float, src: DType, dst: DType) -> object:
        return evaluate_scalars([number(v, src).bitcast(dst)])[0].item()
    assert cast(1.0, F32, dtypes.int32) == 0x3f800000 and cast(0x3f800000, dtypes.int32, F32) == 1.0
    assert cast(1.0, dtypes.bfloat16, dtypes.uint16) == 0x3f80 and cast(0x3f80, dtypes.uint16, dtypes.bfloat16) == 1.0
    assert cast(-1, dtypes.int8, dtypes.uint8) == 255 and cast(1.0, dtypes.float16, dtypes.uint16) == 0x3c00


def test_softmax_kernel() -> None:
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    out = np.zeros_like(x)
    run_kernel(softmax(5, 7), [out, x])
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(out, e / e.sum(1, keepdims=True), rtol=3e-7)
    wide = np.zeros((5, 7))
    run_kernel(softmax(5, 7), [wide, x.astype(np.float64)], wide=True)
    assert np.allclose(wide, e / e.sum(1, keepdims=True), rtol=1e-14)


def test_padded_convolution_kernel() -> None:
    """Loads outside of the image are masked and give 0."""
    y, x, p, q = loop(0, 5), loop(1, 6), loop(2, 3, R), loop(3, 3, R)
    iy, ix = y + p - 1, x + q - 1
    valid = (const(0) <= iy) & (iy < 5) & (const(0) <= ix) & (ix < 6)
    image = UOp(Op.LOAD, F32, (param(1, 30).index(iy * 6 + ix, valid),))
    total = UOp(Op.REDUCE, F32, (image * loaded(2, 9, F32, p * 3 + q), p, q), Op.ADD)
    g = np.random.default_rng(0)
    a, w, out = g.standard_normal((5, 6)).astype(np.float32), g.standard_normal((3, 3)).astype(np.float32), np.zeros((5, 6), np.float32)
    run_kernel(sink(param(0, 30).index(y * 6 + x).store(total)), [out, a, w])
    padded = np.pad(a.astype(np.float64), 1)
    want = sum(padded[r:r + 5, c:c + 6] * w[r, c] for r in range(3) for c in range(3))
    assert np.allclose(out, want, rtol=1e-6, atol=1e-6)


def test_scan_and_guarded_store() -> None:
    i, s = loop(0, 3), loop(1, 4, AxisKind.SCAN)
    total = UOp(Op.SCAN, I64, (loaded(1, 12, I64, i * 4 + s), s), Op.ADD)
    a, out = np.arange(12), np.full(12, -1)
    run_kernel(sink(param(0, 12, I64).index(i * 4 + s, s < 3).store(total)), [out, a])
    want = a.reshape(3, 4).cumsum(1)
    want[:, 3] = -1
    assert (out.reshape(3, 4) == want).all()


def test_stage_is_read_at_other_places() -> None:
    """Rows are reversed through a buffer inside the loop over rows; what was not written is NaN."""
    i, w, r = loop(0, 3), loop(1, 4, phase=1), loop(1, 4)
    stage = UOp(Op.STAGE, F32, (loaded(1, 12, F32, i * 4 + w) * 2.0, w, w), StageArg(Where.LOCAL, 5))
    a, out = np.arange(12, dtype=np.float32), np.zeros(12, np.float32)
    run_kernel(sink(param(0, 12).index(i * 4 + r).store(stage.index(const(3) - r).load())), [out, a])
    assert (out.reshape(3, 4) == a.reshape(3, 4)[:, ::-1] * 2).all()
    run_kernel(sink(param(0, 12).index(i * 4 + r).store(stage.index(const(4) - r).load())), [out, a])
    assert np.isnan(out.reshape(3, 4)[:, 0]).all() and not np.isnan(out.reshape(3, 4)[:, 1:]).any()


def test_stores_happen_after_all_loads() -> None:
    i = loop(0, 4)
    a = np.arange(4, dtype=np.float32)
    run_kernel(sink(param(0, 4).index(const(3) - i).store(loaded(0, 4, F32, i))), [a])
    assert a.tolist() == [3, 2, 1, 0]


def test_errors() -> None:
    i = loop(0, 4)
    copy = sink(param(0, 4).index(i).store(loaded(1, 4, F32, i + 1)))
    with pytest.raises(IRError, match="address 4 is outside of PARAM with 4 elements"):
        run_kernel(copy, [np.zeros(4, np.float32)] * 2)
    with pytest.raises(IRError, match="slot 1: 4 contiguous elements of float32 wanted, got 4 of float64"):
        run_kernel(sink(param(0, 4).index(i).store(loaded(1, 4, F32, i))), [np.zeros(4, np.float32), np.zeros(4)])
    with pytest.raises(IRError, match="no op of a tensor graph"):
        evaluate(i, {})
    with pytest.raises(IRError, match="has no meaning on float32"):
        evaluate(buffer((1,)).alu(Op.XOR, buffer((1,))), {buffer((1,)): np.zeros(1, np.float32)})


def test_round_floats_is_what_numpy_rounds_to() -> None:
    x = np.random.default_rng(0).standard_normal(1000)
    assert (round_floats(x, F32) == x.astype(np.float32)).all() and (round_floats(x, dtypes.float16) == x.astype(np.float16)).all()
