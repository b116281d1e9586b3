"""Every elementwise op, cast and reduction × dtype × shape against NumPy, with the optimizer and without; one element, vectors and tails."""
import math

import numpy as np
import pytest

from morok import Tensor, dtypes

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ALL = ["bool", *INTS, *FLOATS]
SHAPES = [(), (0,), (1,), (7,), (67,), (5, 13), (3, 0, 2), (3, 1, 4)]
TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}


def values(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        info = np.iinfo(dtype)
        return rng.integers(max(int(info.min), -50), min(int(info.max), 100), shape).astype(dtype)
    return (rng.standard_normal(shape) * 3).astype(dtype)


def check(got, want, dtype):
    out = got.numpy()
    want = np.asarray(want)
    assert out.shape == want.shape
    np.testing.assert_allclose(out.astype(np.float64), want.astype(np.float64), rtol=TOLERANCE.get(dtype, 0), atol=TOLERANCE.get(dtype, 0), equal_nan=True)


def wide(a):
    """Halves are computed in float32: compare with that, rounded once."""
    return a.astype(np.float32) if a.dtype == np.float16 else a


ANY = {"add": (lambda x, y: x + y, np.add), "mul": (lambda x, y: x * y, np.multiply), "lt": (lambda x, y: x < y, np.less), "le": (lambda x, y: x <= y, np.less_equal),
       "eq": (lambda x, y: x.eq(y), np.equal), "ne": (lambda x, y: x.ne(y), np.not_equal), "maximum": (lambda x, y: x.maximum(y), np.maximum),
       "minimum": (lambda x, y: x.minimum(y), np.minimum), "where": (lambda x, y: (x < y).where(x, y), lambda a, b: np.where(a < b, a, b))}
NUMBERS = {"sub": (lambda x, y: x - y, np.subtract), "neg": (lambda x, y: -x, lambda a, b: -a), "abs": (lambda x, y: x.abs(), lambda a, b: np.abs(a)),
           "mod": (lambda x, y: x % y, np.mod), "floordiv": (lambda x, y: x // y, np.floor_divide), "square": (lambda x, y: x.square(), lambda a, b: a * a),
           "sign": (lambda x, y: x.sign(), lambda a, b: np.sign(a)), "clip": (lambda x, y: x.clip(3, 7), lambda a, b: np.clip(a, 3, 7)),
           "logical not": (lambda x, y: x.logical_not(), lambda a, b: np.logical_not(a)), "cube": (lambda x, y: x ** 3, lambda a, b: a * a * a)}
BITS = {"and": (lambda x, y: x & y, np.bitwise_and), "or": (lambda x, y: x | y, np.bitwise_or), "xor": (lambda x, y: x ^ y, np.bitwise_xor),
        "not": (lambda x, y: ~x, lambda a, b: ~a)}
SHIFTS = {"shl": (lambda x, y: x << 3, lambda a, b: a << 3), "shr": (lambda x, y: x >> 2, lambda a, b: a >> 2)}
FUNCTIONS = {"exp": (lambda x, y: x.exp(), lambda a, b: np.exp(a)), "sqrt": (lambda x, y: x.abs().sqrt(), lambda a, b: np.sqrt(np.abs(a))),
             "floor": (lambda x, y: x.floor(), lambda a, b: np.floor(a)), "ceil": (lambda x, y: x.ceil(), lambda a, b: np.ceil(a)),
             "trunc": (lambda x, y: x.trunc(), lambda a, b: np.trunc(a)), "round": (lambda x, y: x.round(), lambda a, b: np.round(a)),
             "div": (lambda x, y: x / y, np.divide), "sin": (lambda x, y: x.sin(), lambda a, b: np.sin(a)), "tanh": (lambda x, y: x.tanh(), lambda a, b: np.tanh(a)),
             "log": (lambda x, y: x.abs().log(), lambda a, b: np.log(np.abs(a))), "sigmoid": (lambda x, y: x.sigmoid(), lambda a, b: 1 / (1 + np.exp(-a))),
             "relu": (lambda x, y: x.relu(), lambda a, b: np.maximum(a, 0)), "exp2": (lambda x, y: x.exp2(), lambda a, b: np.exp2(a)),
             "log2": (lambda x, y: x.abs().log2(), lambda a, b: np.log2(np.abs(a))), "cos": (lambda x, y: x.cos(), lambda a, b: np.cos(a)),
             "tan": (lambda x, y: (x * 0.25).tan(), lambda a, b: np.tan(a * a.dtype.type(0.25))), "rsqrt": (lambda x, y: x.abs().rsqrt(), lambda a, b: 1 / np.sqrt(np.abs(a))),
             "erf": (lambda x, y: x.erf(), lambda a, b: np.vectorize(math.erf, otypes=[a.dtype])(a)),
             "pow": (lambda x, y: (x.abs() + 0.5).pow(y.clip(-2, 2)), lambda a, b: np.power(np.abs(a) + a.dtype.type(0.5), np.clip(b, -2, 2))),
             "isnan": (lambda x, y: (x * np.nan).isnan(), lambda a, b: np.isnan(a * np.nan)), "isinf": (lambda x, y: (x / 0).isinf(), lambda a, b: np.isinf(a / a.dtype.type(0))), "silu": (lambda x, y: x.silu(), lambda a, b: a / (1 + np.exp(-a))),
             "gelu": (lambda x, y: x.gelu(), lambda a, b: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3))))}


def ops_of(dtype):
    out = dict(ANY)
    if dtype != "bool":
        out |= NUMBERS
    if dtype not in FLOATS:
        out |= BITS
    if dtype in INTS:
        out |= SHIFTS
    return out | FUNCTIONS if dtype in FLOATS else out


@pytest.mark.parametrize("dtype", ALL)
def test_elementwise(dtype, rng, both_ways):
    for shape in SHAPES:
        a, b = values(rng, dtype, shape), values(rng, dtype, shape)
        x, y = Tensor(a), Tensor(b)
        names, outs = [], []
        for name, (f, _) in ops_of(dtype).items():
            names.append(name)
            outs.append(f(x, y))
        outs[0].realize(*outs[1:])
        with np.errstate(all="ignore"):
            for name, out in zip(names, outs):
                try:
                    check(out, ops_of(dtype)[name][1](wide(a), wide(b)), dtype)
                except AssertionError as e:
                    raise AssertionError(f"{name} {dtype} {shape}: {e}") from None


@pytest.mark.parametrize("dtype", ALL)
def test_casts(dtype, rng, both_ways):
    """Scalar and vector code of every pair of types; out of range floats saturate."""
    for shape in ((1,), (67,)):
        a = values(rng, dtype, shape)
        outs = [Tensor(a).cast(d) for d in ALL]
        outs[0].realize(*outs[1:])
        for d, out in zip(ALL, outs):
            if dtype in FLOATS and d in INTS:
                info = np.iinfo(d)
                want = np.clip(np.trunc(a.astype(np.float64)), int(info.min), int(info.max)).astype(d)
            else:
                want = a.astype(d)
            np.testing.assert_array_equal(out.numpy(), want, err_msg=f"{dtype} -> {d} {shape}")


@pytest.mark.parametrize("repeat", [1, 9])
@pytest.mark.parametrize("dtype", INTS)
def test_integers_at_their_limits(dtype, repeat, both_ways):
    """Every pair of edge values against Python's integers, wrapped to the width; one of each, and in vectors."""
    bits, signed = np.iinfo(dtype).bits, dtype[0] == "i"
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edges = sorted({low, low + 1, -1 if signed else 2, 0, 1, high // 2, high - 1, high})
    pairs = [(a, b) for a in edges for b in edges] * repeat
    x, y = (Tensor(np.array(side, dtype)) for side in zip(*pairs))

    def wrap(v):
        return (v - low) % (1 << bits) + low
    table = {"add": (x + y, lambda a, b: a + b), "sub": (x - y, lambda a, b: a - b), "mul": (x * y, lambda a, b: a * b), "neg": (-x, lambda a, b: -a),
             "abs": (x.abs(), lambda a, b: abs(a)), "floordiv": (x // y, lambda a, b: a // b if b else 0), "mod": (x % y, lambda a, b: a % b if b else 0),
             "max": (x.maximum(y), max), "min": (x.minimum(y), min), "and": (x & y, lambda a, b: a & b), "or": (x | y, lambda a, b: a | b),
             "xor": (x ^ y, lambda a, b: a ^ b), "not": (~x, lambda a, b: ~a), "lt": (x < y, lambda a, b: a < b), "le": (x <= y, lambda a, b: a <= b),
             "by 7": (x // 7, lambda a, b: a // 7), "mod 10": (x % 10, lambda a, b: a % 10), "by -3": (x // -3, lambda a, b: a // -3) if signed else (x // 3, lambda a, b: a // 3),
             "mod 8": (x % 8, lambda a, b: a % 8), "by 8": (x // 8, lambda a, b: a // 8)}
    table["add"][0].realize(*(t for t, _ in table.values()))
    for name, (got, want) in table.items():
        assert got.tolist() == [want(a, b) if name in ("lt", "le") else wrap(want(a, b)) for a, b in pairs], f"{name} {dtype}"


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_by_any_amount(dtype, both_ways):
    """At or over the width, or negative: 0, or the sign."""
    bits, low, high = np.iinfo(dtype).bits, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    pairs = [(v, s) for v in (low, high, 1, 77, high - 5) for s in (0, 1, bits - 1, bits, bits + 1, 100, *([-1, -5] if low else []))] * 3
    x, y = (Tensor(np.array(side, dtype)) for side in zip(*pairs))
    left = [((v << s if 0 <= s < bits else 0) - low) % (1 << bits) + low for v, s in pairs]
    assert (x << y).tolist() == left and (x >> y).tolist() == [v >> s if 0 <= s < bits else -int(v < 0) for v, s in pairs]


@pytest.mark.parametrize("shape", [(0,), (1,), (67,), (5, 13)])
def test_bfloat16_is_computed_in_float32_and_rounded_once(shape, rng, both_ways):
    def rounded(a):
        bits = np.asarray(a, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    a, b = (rounded(rng.standard_normal(shape) * 3) for _ in range(2))
    x, y = Tensor(a).bfloat16().realize(), Tensor(b).bfloat16().realize()
    for name, got, want in [("add", x + y, a + b), ("mul", x * y, a * b), ("sub", x - y, a - b), ("div", x / y, a / b), ("max", x.maximum(y), np.maximum(a, b)),
                            ("where", (x < y).where(x, y), np.minimum(a, b)), ("relu", x.relu(), np.maximum(a, 0)), ("sqrt", x.abs().sqrt(), np.sqrt(np.abs(a))),
                            ("cast", x.float(), a), ("int", x.int(), a.astype(np.int32))]:
        assert got.dtype.name == {"cast": "float32", "int": "int32"}.get(name, "bfloat16"), name
        np.testing.assert_array_equal(got.numpy(), want if name in ("cast", "int") else rounded(want), err_msg=name)
    if a.size:
        np.testing.assert_allclose(x.sum(-1).numpy(), rounded(a.astype(np.float64).sum(-1)), rtol=2 ** -7)
        np.testing.assert_allclose(x.exp().numpy(), np.exp(a.astype(np.float64)), rtol=2 ** -8)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("n", [1, 67])
def test_bits_of_one_type_read_as_another(dtype, n, rng, both_ways):
    a = values(rng, dtype, n)
    for d in ALL:
        if np.dtype(d).itemsize == a.itemsize and "bool" not in (d, dtype):
            np.testing.assert_array_equal(Tensor(a).bitcast(d).numpy().view(np.uint8), a.view(np.uint8), err_msg=f"{dtype} -> {d}")


REDUCTIONS = {"sum": lambda a: a.sum(dtype=np.float64) if a.dtype.kind == "f" else a.sum(), "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
              "mean": lambda a: a.mean(dtype=np.float64), "any": np.any, "all": np.all}


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape,axis", [((1,), 0), ((131,), 0), ((7, 5), 0), ((7, 5), 1), ((40, 33), 1), ((33, 40), 0), ((3, 4, 5), (0, 2)), ((2, 64, 3), 1)])
def test_reductions(dtype, shape, axis, rng, both_ways):
    a = values(rng, dtype, shape)
    x = Tensor(a)
    names = [n for n in REDUCTIONS if not (n.startswith("arg") and isinstance(axis, tuple))]
    outs = [getattr(x, n)(axis) for n in names]
    outs[0].realize(*outs[1:])
    for name, out in zip(names, outs):
        want = _reduce(REDUCTIONS[name], a, axis)
        tol = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-13}.get(dtype, 1e-6 if name == "mean" else 0)
        np.testing.assert_allclose(out.numpy().astype(np.float64), np.asarray(want, np.float64), rtol=tol, atol=tol, err_msg=f"{name} {dtype} {shape}")


NESTED = {"max of argmax": (lambda x: x.argmax(1).max(1), lambda a: a.argmax(1).max(1)), "max of sum": (lambda x: x.sum(1).max(1), lambda a: a.sum(1).max(1)),
          "sum of max": (lambda x: x.max(1).sum(1), lambda a: a.max(1).sum(1)), "argmin of sum": (lambda x: x.sum(1).argmin(1), lambda a: a.sum(1).argmin(1)),
          "sum of row minus its max": (lambda x: (x - x.max(1, keepdim=True)).min(1).sum(1), lambda a: (a - a.max(1, keepdims=True)).min(1).sum(1))}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("shape", [(4, 8, 3, 16), (4, 3, 8), (5, 7, 11, 2), (2, 40, 33)])
def test_reductions_of_reductions(name, shape, rng, both_ways):
    """An outer reduction whose terms are reductions themselves; all loops may become lanes."""
    make, want = NESTED[name]
    a = rng.integers(-4, 5, shape)
    np.testing.assert_array_equal(make(Tensor(a)).numpy(), want(a))


def _reduce(f, a, axis):
    axes = (axis,) if isinstance(axis, int) else axis
    kept = [i for i in range(a.ndim) if i not in axes]
    flat = a.transpose(*kept, *axes).reshape(*(a.shape[i] for i in kept), -1)
    return np.array([f(row) for row in flat.reshape(-1, flat.shape[-1])]).reshape(flat.shape[:-1])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_prefix_sums(dtype, rng, both_ways):
    for shape, axis in (((1,), 0), ((100,), 0), ((9, 65), 1), ((65, 9), 0), ((3, 5, 7), 1)):
        a = values(rng, dtype, shape)
        want = np.cumsum(a.astype(np.float64) if dtype in FLOATS else a, axis)
        tol = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-13}.get(dtype, 0)
        np.testing.assert_allclose(Tensor(a).cumsum(axis).numpy().astype(np.float64), want.astype(np.float64), rtol=tol, atol=tol)


def test_bfloat16_rounds_to_nearest_even(both_ways):
    """Bits from the definition: 16 bits are cut off, halves go to even; NaN stays NaN."""
    bits = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7FC00000, 0x80000001], np.uint32)
    want = np.array([0x3F800000, 0x3F800000, 0x3F820000, 0x3F810000, 0x7F800000, 0x7FC00000, 0x80000000], np.uint32)
    for repeat in (1, 11):
        got = Tensor(np.tile(bits, repeat).view(np.float32)).cast(dtypes.bfloat16).numpy().view(np.uint32)
        np.testing.assert_array_equal(got, np.tile(want, repeat))


def test_double_to_half_is_rounded_once(both_ways):
    """1 + 2**-11 + 2**-40 lies above the middle of two halves; by way of float32 it would seem to be the middle, and go down."""
    x = np.array([1 + 2.0 ** -11 + 2.0 ** -40, 1 + 2.0 ** -11, 1 + 2.0 ** -11 - 2.0 ** -40])
    np.testing.assert_array_equal(Tensor(x).half().numpy(), x.astype(np.float16))


@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (1, 17, 5), (13, 1, 9), (7, 11, 1), (24, 48, 32), (31, 29, 37), (64, 65, 66), (100, 3, 50)])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_layouts(m, n, k, layout, rng, both_ways):
    a = rng.standard_normal((m, k) if layout[0] == "n" else (k, m)).astype(np.float32)
    b = rng.standard_normal((k, n) if layout[1] == "n" else (n, k)).astype(np.float32)
    x, y = Tensor(a), Tensor(b)
    got = ((x if layout[0] == "n" else x.T) @ (y if layout[1] == "n" else y.T)).numpy()
    want = (a if layout[0] == "n" else a.T).astype(np.float64) @ (b if layout[1] == "n" else b.T)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
