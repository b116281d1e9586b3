"""Reductions and scans against NumPy, and the public bug reports in this area."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from lazy_tensor import Lazy, same
from scipy import special

from morok.dtype import dtypes
from morok.errors import MorokError, ShapeError
from morok.uop import Op

INF, NAN = math.inf, math.nan
rng = np.random.default_rng(0)
A = rng.standard_normal((3, 4, 5)).astype(np.float32)
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (1, -1), (), (0, 1, 2)]


def f16(*shape: int, value: float = 1) -> Lazy:
    return Lazy(np.full(shape, value, np.float16))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_float_reductions(axis: Any, keepdim: bool) -> None:
    x, a = Lazy(A), A.astype(np.float64)
    for name, tolerance in (("sum", 1e-6), ("prod", 1e-6), ("max", 0), ("min", 0), ("mean", 1e-6)):
        want = getattr(np, name)(a, axis=axis, keepdims=keepdim)
        same(getattr(x, name)(axis, keepdim), want, dtypes.float32, tolerance)
    for correction in (0, 1):
        n = np.size(a) // max(np.sum(a, axis=axis).size, 1)
        if n > correction:
            same(x.var(axis, keepdim, correction), np.var(a, axis, keepdims=keepdim, ddof=correction), dtypes.float32, 1e-6)
            same(x.std(axis, keepdim, correction), np.std(a, axis, keepdims=keepdim, ddof=correction), dtypes.float32, 1e-6)
    same((x > 0).any(axis, keepdim), np.any(a > 0, axis=axis, keepdims=keepdim), dtypes.bool)
    same((x > 0).all(axis, keepdim), np.all(a > 0, axis=axis, keepdims=keepdim), dtypes.bool)
    same((x > 0).count_nonzero(axis, keepdim), np.count_nonzero(a > 0, axis=axis, keepdims=keepdim), dtypes.int64)
    same(x.logsumexp(axis, keepdim), special.logsumexp(a, axis=axis if axis != () else None, keepdims=keepdim) if axis != () else a, None, 1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rowwise(axis: int) -> None:
    x, a = Lazy(A), A.astype(np.float64)
    same(x.softmax(axis), special.softmax(a, axis), dtypes.float32, 1e-6)
    same(x.log_softmax(axis), special.log_softmax(a, axis), dtypes.float32, 1e-6)
    same(x.cumsum(axis), np.cumsum(a, axis), dtypes.float32, 1e-6)
    same(x.cumprod(axis), np.cumprod(a, axis), dtypes.float32, 1e-6)
    same(x.logcumsumexp(axis), np.logaddexp.accumulate(a, axis), dtypes.float32, 2e-6)
    for keepdim in (False, True):
        same(x.argmax(axis, keepdim), np.argmax(a, axis, keepdims=keepdim), dtypes.int64)
        same(x.argmin(axis, keepdim), np.argmin(a, axis, keepdims=keepdim), dtypes.int64)
    for ours, theirs in ((x.cummax, np.maximum), (x.cummin, np.minimum)):
        values, places = ours(axis)
        same(values, theirs.accumulate(A, axis), dtypes.float32)
        np.testing.assert_array_equal(np.take_along_axis(A, places.numpy(), axis), theirs.accumulate(A, axis))


def test_softmax_of_other_types() -> None:
    same(f16(2, value=11).softmax(), [0.5, 0.5], dtypes.float16)
    same(Lazy([1, 1]).softmax(), [0.5, 0.5], dtypes.float32)
    same(Lazy([1.0, 1.0]).softmax(dtype=dtypes.float64), [0.5, 0.5], dtypes.float64)


def test_axis_errors() -> None:
    for axis in (3, -4, (0, 0), (0, -3)):
        with pytest.raises(ShapeError, match=r"\(3, 4, 5\)"):
            Lazy(A).sum(axis)
    same(Lazy(np.float32(3)).sum(0), 3)
    same(Lazy(np.float32(3)).softmax(-1), 1)
    same(Lazy(np.float32(3)).argmax(0), 0)
    same(Lazy(np.float32(3)).cumsum(0), 3)


def test_nan_argmax() -> None:
    a = Lazy([3, NAN, 7, NAN])
    same(a.argmax(), 1, dtypes.int64)
    same(a.argmin(), 1)
    b = np.zeros(37, np.float32)
    b[33], b[20] = 9, NAN
    same(Lazy(b).argmax(), 20)
    same(Lazy([[1, 5, 5], [NAN, 2, NAN]]).argmax(1), [1, 0])
    same(Lazy(A).argmax(), np.argmax(A))
    same(Lazy(A).argmax(keepdim=True), np.argmax(A).reshape(1, 1, 1))
    same(Lazy(np.array([2**53, 2**53 + 1, -2**63])).argmax(), 1)
    same(Lazy(np.array([2**53, 2**53 + 1, -2**63])).argmin(), 2)
    same(Lazy([INF, -INF]).argmin(), 1)
    same(Lazy([1.0, NAN, 2.0]).max(), NAN)
    same(Lazy([1.0, NAN, 2.0]).min(), NAN)
    same(Lazy([1.0, 3.0, 2.0, 3.0, 1.0]).cummax()[1], [0, 1, 1, 3, 3], dtypes.int64)
    same(Lazy([1.0, NAN, 3.0, NAN, 2.0]).cummax()[1], [0, 1, 1, 3, 3])


def test_sums_of_narrow_integers() -> None:
    same(Lazy(np.array([100] * 3, np.int8)).sum(), 300, dtypes.int64)
    same(Lazy(np.array([200] * 4, np.uint8)).sum(), 800, dtypes.uint64)
    same(Lazy([True, True, False]).sum(), 2, dtypes.int64)
    same(Lazy(np.array([100] * 3, np.int8)).mean(), 100, dtypes.float32)
    same(Lazy(np.array([250, 10, 10, 255], np.uint8)).cumsum(), [250, 260, 270, 525], dtypes.uint64)
    same(Lazy(np.array([-100, -100], np.int8)).cumsum(), [-100, -200], dtypes.int64)
    same(Lazy(np.array([2**31 - 1, 1], np.int32)).cumsum(), [2**31 - 1, 2**31], dtypes.int64)
    same(Lazy(np.array([20, 20, 20], np.uint8)).cumprod(), [20, 400, 8000])
    same(Lazy(np.array([100] * 3, np.int8)).sum(dtype=dtypes.int8), 44, dtypes.int8)
    same(Lazy(np.array([-7, -3, -9], np.int8)).max(), -3, dtypes.int8)
    same(Lazy(np.array([3, 200, 100], np.uint8)).max(), 200, dtypes.uint8)
    same(Lazy([False, True]).max(), True, dtypes.bool)
    same(Lazy(np.array([2**62, 2**62, 2**62])).mean(), 2.0**62, dtypes.float32)


def test_halves_accumulate_in_float32() -> None:
    same(f16(4096).sum(), 4096, dtypes.float16)
    same(f16(4096, value=16).sum(), INF, dtypes.float16)
    same(f16(4096, value=16).mean(), 16, dtypes.float16)
    same(f16(4096).sum(dtype=dtypes.float32), 4096, dtypes.float32)
    same(Lazy(np.ones(300, np.float64) * 1e300).sum(dtype=dtypes.float16), INF, dtypes.float16)
    for result in (f16(5).sum(), f16(5).var(), f16(5).logsumexp(), f16(5).softmax(), f16(5).cumsum()):
        inner = [u for u in result.uop.toposort() if u.op in (Op.REDUCE_AXES, Op.SCAN_AXIS)]
        assert inner and all(u.dtype is dtypes.float32 for u in inner) and result.dtype is dtypes.float16
    assert f16(5).cast(dtypes.bfloat16).sum().dtype is dtypes.bfloat16


def test_variance_without_cancellation() -> None:
    x = Lazy(np.arange(16, dtype=np.float32) / 64 + 2048)
    same(x.var(correction=0), 0.00518798828125, None, 1e-6)
    scaled = (x - x.mean()) / x.std(correction=0)
    np.testing.assert_allclose(scaled.numpy()[[0, -1]], [-1.6269784, 1.6269784], rtol=1e-5)
    constant = Lazy(np.full(1000, 1e4 + 0.1, np.float32)).var().numpy()
    assert 0 <= constant <= 2e-6
    same(Lazy(np.full(7, 3e7, np.float32)).std(), 0)
    same(Lazy([5.0]).var(), NAN, dtypes.float32)
    same(Lazy([5.0, 6.0]).var(correction=3), NAN)
    same(Lazy(np.zeros(0, np.float32)).std(), NAN)
    same(Lazy([1, 2, 3, 4]).var(), 5 / 3, dtypes.float32, 1e-6)
    for got, want in zip(Lazy(A).var_mean(1), (A.astype(np.float64).var(1, ddof=1), A.mean(1)), strict=True):
        same(got, want, None, 1e-6)


def test_variance_corrects_a_wrong_mean() -> None:
    """With a divisor of 1001 for 1000 equal values the first mean is off by 10, the variance about it 100; what is returned is 0."""
    x = Lazy(np.full(1000, 1e4, np.float32))
    var = x._moments(None)[1].uop
    division = next(u for u in var.toposort() if u.op is Op.DIV)
    n = next(u for u in division.src[1].toposort() if u.op is Op.CONST)
    wrong = division.replace(src=(division.src[0], division.src[1].substitute({n: n.replace(arg=1001.0)})))
    assert abs(x._new(var.substitute({division: wrong})).numpy()) <= 1e-3


def test_softmax_extremes() -> None:
    same(Lazy([1000.0, 1000.0, -1000.0]).softmax(), [0.5, 0.5, 0])
    same(Lazy([-INF, 0.0, -INF]).softmax(), [0, 1, 0])
    same(Lazy([-INF, -INF]).softmax(), [NAN, NAN])
    same(Lazy([INF, 1.0]).softmax(), [NAN, NAN])
    same((Lazy([[0.5]]) * -1.7e14).softmax(-1), [[1.0]])
    s = Lazy((2.0 ** np.arange(64) / 1e-6).astype(np.float32)).softmax()
    same(s.sum(), 1)
    same(s.max(), 1)


def test_log_sums_of_infinities() -> None:
    same(Lazy([[-INF, -INF], [INF, 1], [INF, -INF], [NAN, 1]]).logsumexp(1), [-INF, INF, INF, NAN])
    same(Lazy([-INF, -INF, 0.0, -INF, 1.0]).logcumsumexp(), [-INF, -INF, 0, 0, np.logaddexp(0, 1)], None, 1e-6)
    same(Lazy([-1000.0, 0.0, 1000.0]).logcumsumexp(), [-1000, 0, 1000])
    same(Lazy([1.0, INF, 2.0]).logcumsumexp(), [1, INF, INF])
    same(Lazy([1.0, NAN, 2.0]).logcumsumexp(), [1, NAN, NAN])


def test_a_scan_is_one_node() -> None:
    assert [u.op for u in Lazy(A).cumsum(1).uop.toposort()] == [Op.BUFFER, Op.SCAN_AXIS]
    assert [u.op for u in Lazy(A).cumsum(1)[:, :, 0].sum().uop.toposort()].count(Op.SCAN_AXIS) == 1


def test_reductions_of_nothing() -> None:
    x, y = Lazy(np.zeros((0, 3), np.float32)), Lazy(np.zeros((2, 0, 3), np.float32))
    same(x.sum(0), [0, 0, 0], dtypes.float32)
    same(x.prod(0), [1, 1, 1])
    same(x.mean(0), [NAN] * 3)
    same(x.any(0), [False] * 3, dtypes.bool)
    same(x.all(0), [True] * 3, dtypes.bool)
    same(x.sum(1), np.zeros(0))
    same(x.sum(), 0)
    for bad in (lambda: x.max(0), lambda: x.argmax(0), lambda: x.min(), lambda: x.argmin()):
        with pytest.raises(ValueError, match="empty") as caught:
            bad()
        assert isinstance(caught.value, MorokError)
    same(x.max(1), np.zeros(0))
    same(y.sum(1), np.zeros((2, 3)))
    same(y.sum(1, True), np.zeros((2, 1, 3)))
    same(y.sum((0, 1)), np.zeros(3))
    same(Lazy(np.ones((0, 4), np.float32)).T.sum(1), np.zeros(4))
    for name in ("softmax", "log_softmax", "cumsum", "logcumsumexp"):
        same(getattr(y, name)(1), np.zeros((2, 0, 3)))
    same(x.logsumexp(0), [-INF] * 3)


def test_reduction_compared_with_its_input() -> None:
    a = (np.arange(48, dtype=np.float32) % 7).reshape(2, 2, 2, 2, 3)
    x = Lazy(a)
    m = x.eq(x.max((1, 3), True))
    same(m.sum(), 12, dtypes.int64)
    same(m[0, :, 0, :, 0], [[0, 0], [1, 0]], dtypes.bool)
    p, u = Lazy([0.1, 0.2, 0.3, 0.4]), Lazy([0.05, 0.15, 0.5, 0.95])
    same((p.cumsum()[None, :] <= u[:, None]).sum(1), [0, 1, 2, 3], dtypes.int64)
