"""Elementwise methods against Python's integers and NumPy's wider floats; tables of values at the edges, interpreted and compiled."""
from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lazy_tensor import Lazy, same
from morok import DTypeError, ShapeError, Tensor
from morok.dtype import dtypes
from reference import elu, gelu, sigmoid, softplus

nan, inf = math.nan, math.inf
Array = np.ndarray[Any, Any]
BOTH = pytest.mark.parametrize("make", [Lazy, Tensor], ids=["interpreted", "compiled"])


# ---- integers ------------------------------------------------------------------------------------------------------------
def truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "+": (operator.add, operator.add), "-": (operator.sub, operator.sub), "*": (operator.mul, operator.mul), "&": (operator.and_, operator.and_),
    "|": (operator.or_, operator.or_), "^": (operator.xor, operator.xor), "//": (operator.floordiv, lambda a, b: a // b if b else 0),
    "%": (operator.mod, lambda a, b: a % b if b else 0), "trunc": (lambda x, y: x.div(y, rounding_mode="trunc"), truncated),
    "idiv": (lambda x, y: x.idiv(y), truncated), "fmod": (lambda x, y: x.fmod(y), lambda a, b: a - truncated(a, b) * b if b else 0),
    "maximum": (lambda x, y: x.maximum(y), max), "minimum": (lambda x, y: x.minimum(y), min)}
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


@pytest.mark.parametrize("d", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64])
@pytest.mark.parametrize("name", INTEGER)
def test_integer_arithmetic_is_python_s_and_wraps(name: str, d: Any) -> None:
    some = sorted({int(d.min), int(d.min) + 1, int(d.max), int(d.max) - 1, *range(max(-9, int(d.min)), 10), 64, 100})
    pairs = list(itertools.product(some, some))
    f, g = INTEGER[name]
    a, b = (np.array(column, d.name) for column in zip(*pairs, strict=True))
    got = f(Lazy(a), Lazy(b))
    assert got.dtype is d
    for (x, y), v in zip(pairs, got.numpy().tolist(), strict=True):
        assert v == d.const(g(x, y)), (name, x, y)


@pytest.mark.parametrize("name", INTEGER)
def test_integer_arithmetic_with_numbers_on_either_side(name: str) -> None:
    f, g = INTEGER[name]
    if name in ("trunc", "idiv", "fmod", "maximum", "minimum"):
        same(f(Lazy([7, -7, 0]), 2), [g(v, 2) for v in (7, -7, 0)], dtypes.int64)
        return
    for n in (-3, 2, 0):
        same(f(Lazy([7, -7, 0]), n), [g(v, n) for v in (7, -7, 0)], dtypes.int64)
        same(f(n, Lazy([7, -7, 0])), [g(n, v) for v in (7, -7, 0)], dtypes.int64)


@pytest.mark.parametrize("name", COMPARE)
def test_comparisons(name: str) -> None:
    f, values = COMPARE[name], [nan, -inf, -1.0, -0.0, 0.0, 2.0, inf]
    pairs = list(itertools.product(values, values))
    a, b = (np.array(c) for c in zip(*pairs, strict=True))
    same(f(Lazy(a), Lazy(b)), [f(x, y) for x, y in pairs], dtypes.bool)
    same(f(Lazy([1, 2, 3]), 2), [f(v, 2) for v in (1, 2, 3)], dtypes.bool)
    same(f(2, Lazy([1, 2, 3])), [f(2, v) for v in (1, 2, 3)], dtypes.bool)
    same(f(Lazy(np.array([200], np.uint8)), Lazy(np.array([-1], np.int8))), [f(200, -1)], dtypes.bool)
    same(f(Lazy([1]), 1.5), [f(1, 1.5)], dtypes.bool)


def test_shifts() -> None:
    for d in (dtypes.int8, dtypes.uint8, dtypes.int64):
        for v in (0, 1, 5, 100, *(() if d.is_unsigned else (-1, -100))):
            x = Lazy(np.full(12, v, d.name))
            by = np.array([0, 1, 2, 3, 6, 7, 8, 9, 63, 64, 100, 127], d.name)
            same(x << Lazy(by), [d.const(v << int(n)) if n < d.bits else 0 for n in by], d)
            same(x >> Lazy(by), [v >> int(n) for n in by], d)
            if not d.is_unsigned:
                same(x << -1, np.zeros(12), d)
    same(3 << Lazy([1, 2]), [6, 12], dtypes.int64)
    same(-9 >> Lazy([1, 2]), [-5, -3], dtypes.int64)
    same(Lazy([1, 2]).lshift(2), [4, 8])
    for bad in (lambda: Lazy([1.0]) << 1, lambda: Lazy([True]) >> True):
        with pytest.raises(DTypeError, match="shifts work on integers"):
            bad()


def test_bits_and_logic() -> None:
    x, b = Lazy(np.array([0, 5, 255], np.uint8)), Lazy([True, False])
    same(~x, [255, 250, 0], dtypes.uint8)
    same(~b, [False, True], dtypes.bool)
    same(b & True, [True, False], dtypes.bool)
    same(6 ^ Lazy([3, 5]), [5, 3])
    same(x.bitwise_or(2), [2, 7, 255], dtypes.uint8)
    same(Lazy([0.0, -0.0, nan, 2.0]).logical_not(), [True, True, False, False], dtypes.bool)
    for name, f in (("logical_and", lambda p, q: p and q), ("logical_or", lambda p, q: p or q), ("logical_xor", operator.ne)):
        same(getattr(Lazy([0, 0, 3, 4]), name)(Lazy([0.0, 2.5, 0.0, nan])), [bool(f(p, q)) for p, q in [(0, 0), (0, 1), (1, 0), (1, 1)]], dtypes.bool)
    same(b + b, [True, False], dtypes.bool)
    same(b * Lazy([False, True]), [False, False], dtypes.bool)
    for bad in (lambda: Lazy([1.0]) & 1, lambda: ~Lazy([1.0]), lambda: -b, lambda: b - b, lambda: b % b, lambda: Lazy([1]) | 1.0):
        with pytest.raises(DTypeError):
            bad()


def test_integer_powers_are_exact_modulo_the_width() -> None:
    bases, exponents = [0, 1, -1, 2, -2, 3, 10, 2 ** 31 + 1], [0, 1, 2, 5, 31, 62, 63, 64, 65, 1000, 2 ** 40 + 1]
    pairs = list(itertools.product(bases, exponents))
    a, b = (np.array(c, np.int64) for c in zip(*pairs, strict=True))
    want = [dtypes.int64.const(pow(x, y, 2 ** 64)) for x, y in pairs]
    assert (Lazy(a) ** Lazy(b)).numpy().tolist() == want
    for n in exponents[:10]:
        assert (Lazy(bases) ** n).numpy().tolist() == [dtypes.int64.const(pow(x, n, 2 ** 64)) for x in bases]
    same(Lazy(np.array([3, 255], np.uint8)) ** Lazy(np.array([200, 3], np.uint8)), [pow(3, 200, 256), 255], dtypes.uint8)
    same(Lazy([5, 1, -1, -1, 0]) ** Lazy([-1, -2, -3, -4, -1]), [0, 1, -1, 1, 0], dtypes.int64)
    same(2 ** Lazy([0, 3, 62]), [1, 8, 2 ** 62], dtypes.int64)
    same(Lazy([True, False]) ** 2, [1, 0], dtypes.int64)
    same(Lazy([True, False]) ** Lazy([True, False]), [1, 1], dtypes.int64)
    same(Lazy([4, 9]) ** 0.5, [2, 3], dtypes.float32)
    with pytest.raises(DTypeError, match="negative power -2"):
        Lazy([2]) ** -2


# ---- floats --------------------------------------------------------------------------------------------------------------
@BOTH
def test_float_powers(make: Any) -> None:
    x = np.array([0.0, -0.0, 2.0, -3.0, inf, -inf, nan, 1e20, 0.1])
    for n in (0, 1, 2, 3, 4, -1, -2, 0.5, 1.5, 2.0, -1.0, 7):
        with np.errstate(all="ignore"):
            want = np.power(x, np.full_like(x, n))              # with a number NumPy takes square roots, which differ at -inf
        np.testing.assert_allclose((make(x) ** n).numpy(), want, rtol=1e-15)
    np.testing.assert_allclose((2.0 ** make(np.array([0.5, -1.0, 3.0]))).numpy(), [math.sqrt(2), 0.5, 8], rtol=4e-16)
    h = np.array([9.1, -3.3], np.float16)
    np.testing.assert_array_equal((make(h) ** 3).numpy(), (h.astype(np.float64) ** 3).astype(np.float16))
    assert make(x).pow(2).dtype is dtypes.float64 and make(h).pow(3).dtype is dtypes.float16


def floor_of_quotient(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a):
        return nan
    if b == 0:
        return nan if a == 0 else math.copysign(inf, a) * math.copysign(1, b)
    if math.isinf(b):
        return -1.0 if a and (a < 0) != (b < 0) else 0.0
    return float(math.floor(Fraction(a) / Fraction(b)))


@BOTH
def test_float_floor_division_is_the_floor_of_the_true_quotient(make: Any, rng: np.random.Generator) -> None:
    """Where a / b rounds up to a whole number, floor(a / b) is one too large: 1 // 0.1 is 9."""
    edges = list(itertools.product([0.0, 1.0, -1.0, 5.5, -5.5, 1e-40, -1e-40, inf, -inf, nan], repeat=2))       # 5.5 / 1e-40 overflows
    b = rng.uniform(0.01, 3, 300).astype(np.float32)
    near = (b * rng.integers(1, 2000, 300)).astype(np.float32) * rng.choice([-1, 1], 300)
    pairs = np.array([*edges, *zip(near, b, strict=True), (1.0, 0.1), (-6.0, 0.1), (0.3, -0.1)]).astype(np.float32)
    a, d = pairs.T.copy()
    want = [floor_of_quotient(float(x), float(y)) for x, y in pairs]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((make(a) // make(d)).numpy(), np.array(want, np.float32))
    assert sum(math.floor(np.float32(x) / y) != w for x, y, w in zip(a[100:], d[100:], want[100:], strict=True)) > 5         # the naive way fails
    tenth = Fraction(float(np.float16(0.1)))
    assert (make(np.array([1, 7], np.float16)) // 0.1).numpy().tolist() == [math.floor(1 / tenth), math.floor(7 / tenth)]


@BOTH
def test_float_remainders(make: Any, rng: np.random.Generator) -> None:
    a = np.array([7.5, -7.5, 7.5, -7.5, 0.0, -0.0, 5.0, -5.0, 1.0, inf, nan, 6.0, -6.0])
    b = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0, inf, inf, 0.0, 2.0, 2.0, 3.0, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((make(a) % make(b)).numpy(), np.mod(a, b))
        got, want = make(a).fmod(make(b)).numpy(), np.fmod(a, b)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])
    same(Lazy([7.0]) % 2, [1.0], dtypes.float32)
    same(-7 % Lazy([2.0]), [1.0], dtypes.float32)


def test_division() -> None:
    same(Lazy([1, 2]) / 4, [0.25, 0.5], dtypes.float32)
    same(1 / Lazy([2.0, 4.0]), [0.5, 0.25], dtypes.float32)
    same(Lazy([7.0, -7.0]).div(2, rounding_mode="trunc"), [3, -3], dtypes.float32)
    same(Lazy([7.0, -7.0]).div(2, rounding_mode="floor"), [3, -4], dtypes.float32)
    same(Lazy([True]).div(Lazy([True]), rounding_mode="floor"), [1], dtypes.int64)
    with pytest.raises(DTypeError, match="rounding_mode"):
        Lazy([1]).div(2, rounding_mode="up")


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {        # NumPy's longdouble function, and where it is sampled
    "sqrt": (np.sqrt, 0, 1e6), "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-6, 1e6), "reciprocal": (lambda x: 1 / x, -9, 9), "exp": (np.exp, -80, 80),
    "exp2": (np.exp2, -100, 100), "log": (np.log, 1e-6, 1e6), "log2": (np.log2, 1e-6, 1e6), "log10": (np.log10, 1e-6, 1e6), "log1p": (np.log1p, -0.99, 3),
    "expm1": (np.expm1, -9, 9), "sin": (np.sin, -1, 1), "cos": (np.cos, -1, 1), "tan": (np.tan, -1, 1), "tanh": (np.tanh, -9, 9), "sinh": (np.sinh, -80, 80),
    "cosh": (np.cosh, -80, 80), "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1), "atan": (np.arctan, -9, 9), "asinh": (np.arcsinh, -99, 99),
    "acosh": (np.arccosh, 1, 99), "atanh": (np.arctanh, -0.999, 0.999), "sigmoid": (sigmoid, -60, 60), "softplus": (softplus, -60, 60),
    "logsigmoid": (lambda x: -softplus(-x), -60, 60), "silu": (lambda x: x * sigmoid(x), -60, 60), "softsign": (lambda x: x / (1 + abs(x)), -9, 9)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@BOTH
def test_functions_are_within_four_ulp(make: Any, dtype: Any, rng: np.random.Generator) -> None:
    points, outs = {}, {}
    for name, (_, low, high) in FUNCTIONS.items():
        x = rng.uniform(low, high, 400)
        small = np.exp(rng.uniform(-30, 0, 100)) * rng.choice([-1, 1], 100)
        points[name] = np.concatenate([x, small[(small >= low) & (small <= high)]]).astype(dtype)
        outs[name] = getattr(make(points[name]), name)()
    for name, (f, _, _) in FUNCTIONS.items():
        exact = f(points[name].astype(np.longdouble))
        error = np.abs(outs[name].numpy().astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(dtype)))
        assert outs[name].dtype.name == dtype.__name__ and error.max() <= 4, (name, float(error.max()), points[name][error.argmax()])


EDGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-inf, 0), (inf, inf), (89, inf), (-110, 0), (0, 1)], "exp2": [(-1, 0.5), (10, 1024), (-inf, 0)], "log": [(0, -inf), (-1, nan), (1, 0), (inf, inf)],
    "log2": [(8, 3), (0.25, -2), (0, -inf)], "log10": [(1, 0), (0, -inf), (-1, nan)], "log1p": [(-1, -inf), (-2, nan), (inf, inf), (-0.0, -0.0), (1e-40, 1e-40)],
    "expm1": [(-inf, -1), (inf, inf), (-0.0, -0.0), (1e-45, 1e-45), (-1e-30, -1e-30), (-100, -1)], "sqrt": [(-0.0, -0.0), (-1, nan), (inf, inf)],
    "rsqrt": [(0, inf), (inf, 0), (4, 0.5), (-1, nan)], "tanh": [(-inf, -1), (46, 1), (-100, -1), (-0.0, -0.0)], "erf": [(0, 0), (10, 1), (-inf, -1)],
    "sinh": [(89, math.sinh(89)), (-89, -math.sinh(89)), (-10, math.sinh(-10)), (inf, inf), (-inf, -inf), (-0.0, -0.0), (200, inf), (1e-40, 1e-40)], "cosh": [(-89, math.cosh(89)), (inf, inf), (-inf, inf), (0, 1), (-200, inf)],
    "asin": [(1, math.pi / 2), (-1, -math.pi / 2), (2, nan), (-0.0, -0.0), (-inf, nan)], "acos": [(1, 0), (-1, math.pi), (-2, nan), (inf, nan)],
    "atan": [(inf, math.pi / 2), (-inf, -math.pi / 2), (-0.0, -0.0), (1e-40, 1e-40), (1, math.pi / 4)], "asinh": [(-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "acosh": [(1, 0), (0.5, nan), (inf, inf), (-inf, nan)], "atanh": [(1, inf), (-1, -inf), (2, nan), (-0.0, -0.0)],
    "sigmoid": [(-inf, 0), (inf, 1), (0, 0.5)], "softplus": [(-inf, 0), (inf, inf)], "logsigmoid": [(-inf, -inf), (inf, -0.0), (-1e4, -1e4)],
    "sign": [(-0.0, -0.0), (-inf, -1), (1e-45, 1)], "abs": [(-inf, inf), (-0.0, 0.0)], "neg": [(0.0, -0.0), (inf, -inf)],
    "floor": [(-0.5, -1), (2.7, 2), (inf, inf), (-0.0, -0.0)], "ceil": [(-0.5, -0.0), (2.1, 3)], "trunc": [(-2.7, -2), (2.7, 2), (-0.5, -0.0)],
    "round": [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-3.5, -4), (2.4999998, 2), (8388609, 8388609)], "reciprocal": [(-0.0, -inf), (inf, 0)],
    "square": [(-3, 9), (-inf, inf)], "relu": [(-1, 0), (inf, inf)], "relu6": [(7, 6), (-inf, 0)], "hardtanh": [(-3, -1), (0.5, 0.5), (9, 1)],
    "hardsigmoid": [(-3, 0), (3, 1), (0, 0.5)], "hardswish": [(-4, -0.0), (3, 3), (1, 2 / 3)], "leaky_relu": [(-100, -1), (3, 3), (-inf, -inf)],
    "elu": [(-inf, -1), (2, 2), (-1e-30, -1e-30)], "gelu": [(0, 0), (inf, inf), (30, 30)], "softsign": [(1, 0.5), (-3, -0.75)]}


@BOTH
def test_values_at_the_edges(make: Any) -> None:
    """NaN gives NaN; signs of zeros count."""
    for name, table in EDGES.items():
        x, want = (np.array(c, np.float32) for c in zip(*table, (nan, nan), strict=True))
        got = getattr(make(x), name)().numpy()
        np.testing.assert_allclose(got, want, rtol=3e-7, err_msg=name)
        zero = (want == 0) & (x != -inf)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=name)


@pytest.mark.parametrize("name", ["sigmoid", "log1p", "expm1", "sinh", "cosh", "asin", "atan", "softplus", "silu", "rsqrt", "log10", "logsigmoid", "elu", "gelu"])
def test_halves_are_rounded_once(name: str, rng: np.random.Generator) -> None:
    low, high = {"asin": (-1, 1), "log1p": (-0.9, 9), "rsqrt": (0.01, 9), "log10": (0.01, 9), "sinh": (-11, 11), "cosh": (-11, 11), "expm1": (-9, 11)}.get(name, (-15, 15))
    x = rng.uniform(low, high, 300).astype(np.float16)
    exact = (FUNCTIONS[name][0] if name in FUNCTIONS else {"elu": elu, "gelu": gelu}[name])(x.astype(np.float64))
    got = getattr(Lazy(x), name)()
    assert got.dtype is dtypes.float16
    off = np.abs(got.numpy().astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    assert off.max() <= 0.501, (name, off.max())


# ---- choosing ------------------------------------------------------------------------------------------------------------
@BOTH
def test_nan_passes_through_choices(make: Any) -> None:
    x, y = make(np.array([nan, 1.0, -2.0, nan])), make(np.array([0.0, nan, 3.0, nan]))
    for got, want in [(x.maximum(y), [nan, nan, 3, nan]), (y.maximum(x), [nan, nan, 3, nan]), (x.minimum(y), [nan, nan, -2, nan]), (x.relu(), [nan, 1, 0, nan]),
                      (x.clip(-1, 1), [nan, 1, -1, nan]), (x.clip(min_=y), [nan, nan, 3, nan]), (x.clip(0, nan), [nan] * 4), (x.clamp(max_=0), [nan, 0, -2, nan])]:
        np.testing.assert_array_equal(got.numpy(), want)


def test_classes_of_floats() -> None:
    x = Lazy([nan, inf, -inf, 0.0, -1e38])
    same(x.isnan(), [True, False, False, False, False], dtypes.bool)
    same(x.isinf(), [False, True, True, False, False], dtypes.bool)
    same(x.isfinite(), [False, False, False, True, True], dtypes.bool)
    same(Lazy([1, 2]).isnan(), [False, False], dtypes.bool)
    same(Lazy([1, 2]).isinf(), [False, False], dtypes.bool)
    same(Lazy([1, 2]).isfinite(), [True, True], dtypes.bool)


def test_clip_of_integers() -> None:
    x = Lazy(np.array([-5, 0, 7], np.int8))
    same(x.clip(-1, 3), [-1, 0, 3], dtypes.int8)
    same(x.clip(0.5), [0.5, 0.5, 7], dtypes.float32)
    same(x.clip(max_=Lazy([1, -9, 9])), [-5, -9, 7], dtypes.int64)
    assert x.clip() is x


def test_integers_have_no_fraction() -> None:
    for name in ("floor", "ceil", "trunc", "round"):
        same(getattr(Lazy([3, -4]), name)(), [3, -4], dtypes.int64)
    same(Lazy(np.array([-128, -3, 0], np.int8)).abs(), [-128, 3, 0], dtypes.int8)
    same(Lazy(np.array([-7, 0, 9], np.int8)).sign(), [-1, 0, 1], dtypes.int8)
    same(Lazy(np.array([0, 200], np.uint8)).sign(), [0, 1], dtypes.uint8)
    same(-Lazy(np.array([1, 255], np.uint8)), [255, 1], dtypes.uint8)
    assert +Lazy([1]) is not None and abs(Lazy([-1])).numpy().tolist() == [1]


def test_rounding_to_decimals() -> None:
    x = np.array([0.125, 2.675, -1.005, 1234.5, 0.5])
    for n in (1, 2, -2, 0):
        same(Lazy(x).round(n), np.round(x, n), dtypes.float64)
    same(Lazy(np.array([15.0, 25.0], np.float16)).round(-1), [20, 20], dtypes.float16)
    same(Lazy([12]).round(2), [12], dtypes.int64)
    with pytest.raises(DTypeError, match="decimals=-1"):
        Lazy([12]).round(-1)


@pytest.mark.parametrize("x,y,name", [(1, 2, "int64"), (True, False, "bool"), (True, 2, "int64"), (1, 2.5, "float32"), (np.int64(1), np.float32(2), "float32"), ([1, 2], 0, "int64"),
                                      (np.array([1, 2], np.int8), 3, "int8"), (np.array([1, 2], np.int8), 0.5, "float32"), (np.float16([1, 2]), 0.5, "float16"),
                                      (np.array([1, 2], np.int8), np.array([3, 4], np.uint8), "int16"), (0.5, np.array([1, 2], bool), "float32")])
def test_where(x: Any, y: Any, name: str) -> None:
    got = Lazy([True, False]).where(Lazy(x) if isinstance(x, np.ndarray) else x, y)
    assert got.dtype.name == name
    np.testing.assert_array_equal(got.numpy(), np.where([True, False], x, y))


def test_where_broadcasts_and_takes_numbers_as_conditions() -> None:
    same(Lazy([[0], [2]]).where(Lazy([1, 2, 3]), -1), [[-1, -1, -1], [1, 2, 3]], dtypes.int64)
    same(Lazy([0.0, -0.0, nan]).where(1, 0), [0, 0, 1], dtypes.int64)
    with pytest.raises(ShapeError, match="condition and values"):
        Lazy([True, False]).where(Lazy([1, 2, 3]), 0)
    with pytest.raises(DTypeError, match="NoneType"):
        Lazy([True]).where(None, 0)


def test_lerp() -> None:
    same(Lazy([0.0, 10.0]).lerp(Lazy([4.0, 20.0]), 0.25), [1, 12.5], dtypes.float32)
    same(Lazy([0, 10]).lerp(Lazy([4, 20]), Lazy([0.5, 1.0])), [2, 20], dtypes.float32)


# ---- shapes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("a,b", [((3,), ()), ((), (2, 2)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)), ((0,), (1,)), ((1, 3), (0, 3)), ((2, 0), (1,)), ((1,), (1, 1))])
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = rng.integers(0, 9, a), rng.integers(0, 9, b)
    same(Lazy(np.array(x)) + Lazy(np.array(y)), x + y, dtypes.int64)
    same(Lazy(np.array(y)).maximum(Lazy(np.array(x))), np.maximum(x, y))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4,\)"):
        Lazy(np.zeros((2, 3))) + Lazy(np.zeros(4))
    with pytest.raises(ShapeError, match="broadcast"):
        Lazy(np.zeros((2, 3))) * Lazy(np.zeros((0, 3)))
    for bad in ("1", None, object(), {}, 1j):
        with pytest.raises(DTypeError, match="as a tensor"):
            Lazy([1.0]) + bad
