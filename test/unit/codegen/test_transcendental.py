"""The compiled math functions: errors in ulp, special values, every half, and the arithmetic that they become."""
import importlib.util
import math
import pathlib
import sys

import numpy as np
import pytest

from morok import dtypes
from morok.codegen.transcendental import decompose, decompose_all
from morok.uop import GroupOp, Op, UOp, const
from morok.uop.op import ParamArg

spec = importlib.util.spec_from_file_location("ulp", pathlib.Path(__file__).resolve().parents[3] / "benchmarks" / "ulp.py")
assert spec is not None and spec.loader is not None
ulp = sys.modules["ulp"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ulp)

PLAIN = {Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FMA, Op.NEG, Op.ABS, Op.SQRT, Op.RINT, Op.FLOOR, Op.TRUNC, Op.WHERE, Op.CAST, Op.BITCAST, Op.AND, Op.OR, Op.XOR, Op.NOT,
         Op.SHL, Op.SHR, Op.MAX, Op.MIN, Op.CONST} | GroupOp.COMPARE
# Instructions, about, that each function may cost in float32 and float64: nodes without constants and bitcasts
NODES = {"exp": (20, 25), "exp2": (19, 24), "log": (32, 46), "log2": (40, 50), "sin": (51, 188), "cos": (48, 185), "tan": (58, 202), "tanh": (30, 42),
         "erf": (36, 76), "pow": (110, 147)}


def leaf(slot, dtype=dtypes.float32):
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, 8)).index(const(0)).load()


def node(name, dtype):
    op = Op[name.upper()]
    return UOp(op, dtype, (leaf(0, dtype), leaf(1, dtype)) if op is Op.POW else (leaf(0, dtype),))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ulp.NAMES)
def test_error_and_special_values(name, dtype):
    r = ulp.measure(name, dtype, 200_000, seed=1)
    print(r)
    assert r.count == 200_000 and r.special >= 5 and not r.bad
    assert 0.3 < r.error <= 1.5 and 0.3 < r.checked <= 1.5, r


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ulp.NAMES)
def test_every_half_is_rounded_once(name, dtype):
    r = ulp.measure(name, dtype, 100_000)
    assert r.count == (100_000 if name == "pow" else 65536) and not r.bad
    assert r.error <= 0.501, r


def test_ulps_of_known_errors():
    t = ulp.TYPES["float32"]
    one, top = np.float32(1), np.float32(3.4028234663852886e38)
    got = np.array([1, np.nextafter(one, 2), np.nextafter(one, 0), 1e-45, math.inf, top, math.nan, 1, -0.0, math.nan, math.inf], np.float32)
    want = np.array([1, 1, 1, 0, top, math.inf, math.nan, math.nan, 0.0, 1, 1e300], ulp.Long)
    assert ulp.ulps(got, want, t).tolist() == [0, 1, 0.5, 1, 1, 1, 0, math.inf, math.inf, math.inf, 0]


def test_reference_of_erf():
    x = np.array([1e-300, 0.1, -0.92, 1.7, 2.5, -3.9, 5.5, 9.0])
    exact = [ulp.mpmath.erf(ulp.mpmath.mpf(v)) for v in x.tolist()]
    for got, want in zip(ulp.erf_long(x.astype(ulp.Long)), exact, strict=True):
        high = float(got)
        assert abs((ulp.mpmath.mpf(high) + ulp.mpmath.mpf(float(got - high))) / want - 1) < 2e-18


def test_hard_arguments_are_hard():
    """The float64 nearest to a multiple of pi/2 is 6381956970095103 * 2**797 (Muller et al., Handbook of Floating-Point Arithmetic)."""
    assert math.ldexp(6381956970095103, 797) in ulp.near_multiples(ulp.TYPES["float64"])
    assert math.ldexp(16367173, 72) in ulp.near_multiples(ulp.TYPES["float32"])


@pytest.mark.parametrize("name,x,want", [
    ("cos", math.ldexp(6381956970095103, 797), -4.687165924254628e-19), ("sin", 1e22, -0.8522008497671888), ("sin", 1e308, 0.4533964905016491),
    ("tan", 1.5707963267948966, 1.633123935319537e16), ("log", 5e-324, -744.4400719213812), ("exp", -745.0, 5e-324), ("exp", 709.782712893384, 1.797693134862273e308),
    ("log2", 5e-324, -1074.0), ("erf", 0.5, 0.5204998778130465), ("tanh", 1.0, 0.7615941559557649), ("tanh", 5e-324, 5e-324), ("exp2", -1074.0, 5e-324)])
def test_values_from_tables(name, x, want):
    got = ulp.compiled(name, ulp.TYPES["float64"], np.array([x]))[0]
    assert abs(got - want) <= 2 * np.spacing(abs(want))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ulp.NAMES)
def test_becomes_little_plain_arithmetic(name, dtype):
    u = node(name, dtype)
    new = decompose(u)
    assert new is not None and new.dtype is dtype
    nodes = set(new.toposort()).difference(*(s.toposort() for s in u.src))
    assert {n.op for n in nodes} <= PLAIN
    assert not [n for n in nodes if n.op is Op.CAST and n.src[0].dtype.is_float and not n.dtype.is_float]      # saturating casts are dear
    assert len([n for n in nodes if n.op not in (Op.CONST, Op.BITCAST)]) <= NODES[name][dtype is dtypes.float64]


def test_halves_are_computed_in_float32():
    for dtype in (dtypes.float16, dtypes.bfloat16):
        new = decompose(node("exp", dtype))
        assert new.op is Op.CAST and new.dtype is dtype and new.src[0].dtype is dtypes.float32


def test_other_nodes_are_left():
    assert decompose(leaf(0) + leaf(1)) is None
    assert decompose(UOp(Op.SQRT, dtypes.float32, (leaf(0),))) is None


def test_whole_kernels_of_any_depth():
    x = leaf(0)
    for i in range(2000):
        x = UOp(Op.EXP if i % 2 else Op.SIN, dtypes.float32, (x,)) + 1.0
    root = UOp(Op.SINK, dtypes.void, (UOp(Op.PARAM, dtypes.float32, (), ParamArg(1, 8)).index(const(0)).store(x),))
    assert not {u.op for u in decompose_all(root).toposort()} & GroupOp.TRANSCENDENTAL
    plain = UOp(Op.SINK, dtypes.void, (UOp(Op.PARAM, dtypes.float32, (), ParamArg(1, 8)).index(const(0)).store(leaf(0) + 1.0),))
    assert decompose_all(plain) is plain
