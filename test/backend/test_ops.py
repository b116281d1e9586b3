"""Every elementwise op, cast and reduction × dtype × shape against NumPy, with the optimizer and without; one element, vectors and tails."""
import numpy as np
import pytest

from morok import Tensor, dtypes

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ALL = ["bool", *INTS, *FLOATS]
SHAPES = [(), (1,), (7,), (67,), (5, 13), (3, 1, 4)]
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
           "mod": (lambda x, y: x % y, np.mod), "floordiv": (lambda x, y: x // y, np.floor_divide), "square": (lambda x, y: x.square(), lambda a, b: a * a)}
BITS = {"and": (lambda x, y: x & y, np.bitwise_and), "or": (lambda x, y: x | y, np.bitwise_or), "xor": (lambda x, y: x ^ y, np.bitwise_xor),
        "not": (lambda x, y: ~x, lambda a, b: ~a)}
SHIFTS = {"shl": (lambda x, y: x << 3, lambda a, b: a << 3), "shr": (lambda x, y: x >> 2, lambda a, b: a >> 2)}
FUNCTIONS = {"exp": (lambda x, y: x.exp(), lambda a, b: np.exp(a)), "sqrt": (lambda x, y: x.abs().sqrt(), lambda a, b: np.sqrt(np.abs(a))),
             "floor": (lambda x, y: x.floor(), lambda a, b: np.floor(a)), "ceil": (lambda x, y: x.ceil(), lambda a, b: np.ceil(a)),
             "trunc": (lambda x, y: x.trunc(), lambda a, b: np.trunc(a)), "round": (lambda x, y: x.round(), lambda a, b: np.round(a)),
             "div": (lambda x, y: x / y, np.divide), "sin": (lambda x, y: x.sin(), lambda a, b: np.sin(a)), "tanh": (lambda x, y: x.tanh(), lambda a, b: np.tanh(a)),
             "log": (lambda x, y: x.abs().log(), lambda a, b: np.log(np.abs(a))), "sigmoid": (lambda x, y: x.sigmoid(), lambda a, b: 1 / (1 + np.exp(-a))),
             "relu": (lambda x, y: x.relu(), lambda a, b: np.maximum(a, 0)), "silu": (lambda x, y: x.silu(), lambda a, b: a / (1 + np.exp(-a))),
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
