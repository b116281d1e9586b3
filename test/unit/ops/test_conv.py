"""Convolution and pooling against sums over windows and by hand."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import ShapeError
from morok.uop import Op

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


CASES = [((2, 3, 8), (4, 3, 3), {}), ((2, 4, 9, 7), (6, 2, 3, 2), {"groups": 2, "stride": (2, 1), "padding": (1, 0)}),
         ((1, 4, 9, 9), (4, 1, 3, 3), {"groups": 4, "dilation": 2, "stride": 3, "padding": 2}),
         ((1, 2, 5, 4, 6), (3, 2, 2, 3, 1), {"stride": 2, "padding": 1}),
         ((2, 3, 4, 4), (5, 3, 1, 1), {}), ((1, 1, 2, 2), (1, 1, 2, 2), {"stride": 5})]


@pytest.mark.parametrize(("shape", "kernel", "options"), CASES)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], bias: bool) -> None:
    x, w, b = normal(*shape), normal(*kernel), normal(kernel[0]) if bias else None
    n = len(shape) - 2
    each = {k: (v,) * n if isinstance(v, int) else v for k, v in ({"stride": 1, "dilation": 1, "padding": 0} | options).items() if k != "groups"}
    pads = tuple((p, p) for p in each["padding"])
    want = reference.conv(x, w, b, options.get("groups", 1), each["stride"], each["dilation"], pads)
    got = Lazy(x).conv2d(Lazy(w), None if b is None else Lazy(b), **options)
    same(got, want, dtypes.float32, 1e-5)
    assert [u.op for u in got.uop.toposort()].count(Op.WINDOW) == 1
    assert [u.op for u in got.uop.toposort()].count(Op.REDUCE_AXES) == 1


def test_conv_dilation_groups_stride() -> None:
    x = Lazy(np.arange(1, 17, dtype=np.float32).reshape(1, 2, 8))
    depthwise = Lazy(np.arange(1, 21, dtype=np.float32).reshape(1, 2, 10))
    same(depthwise.conv2d(Lazy([[[1.0, -1, 2]], [[2, 0, 1]]]), groups=2, stride=2, dilation=3), [[[11, 15], [39, 45]]])
    same(x.conv2d(Lazy(np.ones((1, 2, 2), np.float32)), stride=3), [[[22, 34, 46]]])
    same(x.conv2d(Lazy([[[1.0, 2, 3], [0, 1, 0]]]), padding=[2, 0], dilation=2), [[[20, 26, 33, 40, 47, 54]]])
    w = Lazy([[[1.0, 1], [0, 0]]])
    same(x.conv2d(w, dilation=3, padding=[1, 2]), [[[3, 5, 7, 9, 11, 13, 6, 7]]])
    same(x.conv2d(w, dilation=3, padding=[(2, 1)]), [[[2, 3, 5, 7, 9, 11, 13, 6]]])


def test_flat_padding_is_last_axis_first() -> None:
    x, w = normal(1, 1, 4, 5), normal(1, 1, 2, 2)
    want = reference.conv(x, w, None, 1, (1, 1), (1, 1), ((3, 0), (1, 2)))
    same(Lazy(x).conv2d(Lazy(w), padding=(1, 2, 3, 0)), want, None, 1e-5)
    same(Lazy(x).conv2d(Lazy(w), padding=((3, 0), (1, 2))), want, None, 1e-5)


def test_conv_of_halves() -> None:
    x = Lazy(np.ones((1, 512, 3, 3), np.float16))
    y = x.conv2d(Lazy(np.ones((1, 512, 3, 3), np.float16)))
    same(y, [[[[4608]]]], dtypes.float16)
    assert all(u.dtype is dtypes.float32 for u in y.uop.toposort() if u.op is Op.REDUCE_AXES)


@pytest.mark.parametrize(("shape", "kernel", "options", "match"), [
    ((1, 3, 8), (4, 2, 3), {}, "groups"), ((1, 4, 8), (3, 2, 3), {"groups": 2}, "groups"), ((1, 3, 2), (4, 3, 3), {}, "fit"),
    ((3, 8), (4, 3, 3), {}, "axes"),
    ((1, 3, 8), (4, 3, 3), {"stride": 0}, "stride"), ((1, 3, 8), (4, 3, 3), {"padding": (1, 2, 3)}, "padding"),
    ((1, 3, 8), (4, 3, 3), {"dilation": (1, 1)}, "dilation")])
def test_conv_errors(shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], match: str) -> None:
    with pytest.raises(ShapeError, match=match):
        Lazy(normal(*shape)).conv2d(Lazy(normal(*kernel)), **options)


def test_max_pool_padding() -> None:
    x = Lazy([[[-3.0, -1.0, -2.0]]])
    same(x.max_pool2d((3,), 1, padding=1), [[[-1, -1, -1]]])
    same(x.max_pool2d((2,), 2, padding=1), [[[-3, -1]]])
    same(x.max_pool2d((2,), 2, padding=1, ceil_mode=True), [[[-3, -1]]])
    same(Lazy([[[-math.inf, math.nan, -5.0]]]).max_pool2d((2,), 1), [[[math.nan, math.nan]]])
    same(Lazy(np.array([[[-3, -1, -2]]], np.int32)).max_pool2d((2,), 2, padding=1), [[[-3, -1]]], dtypes.int32)
    same(Lazy(np.arange(7, dtype=np.float32).reshape(1, 1, 7)).max_pool2d((3,), 3, ceil_mode=True), [[[2, 5, 6]]])
    same(Lazy([[[1.0, 5.0, 2.0, 4.0, 3.0]]]).max_pool2d((2,), 1, dilation=2), [[[2, 5, 3]]])


@pytest.mark.parametrize("size", [7, 8, 10])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [((2, 2), None, 0), ((3, 2), (2, 3), (1, 1)), ((3, 3), 1, 1), ((3, 3), 4, 1)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pools(size: int, kernel: tuple[int, int], stride: Any, padding: Any, ceil_mode: bool) -> None:
    a = normal(2, 3, size, 9)
    x, step = Lazy(a), kernel if stride is None else (stride, stride) if isinstance(stride, int) else stride
    pads = tuple((p, p) for p in ((padding, padding) if isinstance(padding, int) else padding))
    same(x.max_pool2d(kernel, stride, 1, padding, ceil_mode), reference.pool(a, kernel, step, pads, ceil_mode, "max"), dtypes.float32)
    for counted in (False, True):
        want = reference.pool(a, kernel, step, pads, ceil_mode, "mean" if counted else "mean inside")
        same(x.avg_pool2d(kernel, stride, 1, padding, ceil_mode, counted), want, dtypes.float32, 1e-6)


def test_pool_defaults_and_errors() -> None:
    a = normal(1, 4, 4)
    same(Lazy(a).max_pool2d(), a.reshape(1, 2, 2, 2, 2).max((2, 4)))
    same(Lazy(a).avg_pool2d(2), a.reshape(1, 2, 2, 2, 2).mean((2, 4)), None, 1e-6)
    same(Lazy(np.array([[1, 2]], np.int8)).avg_pool2d((2,)), [[1.5]], dtypes.float32)
    with pytest.raises(ShapeError, match="max_pool2d"):
        Lazy(a).max_pool2d(5)
    with pytest.raises(ShapeError, match="axes"):
        Lazy([1.0]).max_pool2d()
