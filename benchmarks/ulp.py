"""Accuracy of the math functions as they are compiled: the largest error in units in the last place, over inputs of the whole range, and the special values.

References are 80-bit (np.longdouble); where the error is largest and at random places they are checked again with 60 digits (mpmath). One ulp is
the spacing of the type's values in the binade of the true result.
"""
from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from morok import Tensor

Array = np.ndarray[Any, Any]
Long = np.longdouble
INF, NAN = math.inf, math.nan
mpmath.mp.dps = 60


@dataclass(frozen=True)
class Float:
    """A float type: significant bits, smallest exponent (of the least subnormal), largest exponent."""
    name: str
    bits: int
    digits: int
    least: int
    most: int

    @property
    def numpy(self) -> Any:
        return {"float32": np.float32, "float64": np.float64, "float16": np.float16}.get(self.name, np.float32)


TYPES = {t.name: t for t in (Float("float64", 64, 53, -1074, 1024), Float("float32", 32, 24, -149, 128), Float("float16", 16, 11, -24, 16),
                             Float("bfloat16", 16, 8, -133, 128))}


def erf_long(x: Array) -> Array:
    """erf of float64 values in 80 bits: below 2 a series of positive terms, above 1 - erfc, where erfc in float64 is exact enough."""
    a = np.minimum(np.abs(x), Long(2))
    z, term = a * a * 2, a.copy()
    total = term.copy()
    for n in range(3, 101, 2):
        term *= z / n
        total += term
    near = 2 / np.sqrt(Long(math.pi) + Long(1.2246467991473532e-16)) * np.exp(-a * a) * total
    far = np.abs(x) > 2
    near[far] = 1 - np.array([math.erfc(v) for v in np.abs(x[far]).tolist()], Long)
    return np.copysign(np.where(np.isnan(x), x, near), x)


@dataclass(frozen=True)
class Function:
    """reference: in np.longdouble; exact: in mpmath; reach: where the result is not trivial, in float32 and float64; breaks: where the method changes."""
    reference: Callable[..., Array]
    exact: Callable[..., Any]
    reach: tuple[tuple[float, float], tuple[float, float]]
    breaks: tuple[float, ...]
    specials: tuple[tuple[float, float], ...]


ODD = ((0.0, 0.0), (-0.0, -0.0), (NAN, NAN))
LOGS = ((0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-1e-40, NAN), (-INF, NAN), (INF, INF), (1.0, 0.0), (NAN, NAN))
EXPS = ((-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN), (-2000.0, 0.0), (2000.0, INF), (-3e38, 0.0), (3e38, INF), (1e-40, 1.0))
FUNCTIONS = {
    "exp": Function(np.exp, mpmath.exp, ((-104.5, 89), (-746, 710)), tuple((k + 0.5) * math.log(2) for k in (-149, -127, -2, -1, 0, 1, 126)), EXPS),
    "exp2": Function(np.exp2, lambda x: mpmath.mpf(2) ** x, ((-150.5, 128.5), (-1075.5, 1024.5)), (-126, -1, -0.5, 0.5, 1, 1.5, 127.5),
                     (*EXPS, *((float(k), 2.0 ** k) for k in range(-126, 128)), (-149.0, 2.0 ** -149), (-140.0, 2.0 ** -140))),
    "log": Function(np.log, mpmath.log, ((0, 4), (0, 4)), (0.5 ** 0.5, 1, 2 ** 0.5, 2, 0.5), LOGS),
    "log2": Function(np.log2, lambda x: mpmath.log(x, 2), ((0, 4), (0, 4)), (0.5 ** 0.5, 1, 2 ** 0.5, 2, 0.5),
                     (*LOGS, *((2.0 ** k, float(k)) for k in range(-149, 128)))),
    "sin": Function(np.sin, mpmath.sin, ((-200, 200), (-200, 200)), (0.7853981633974483, 1.6e-4, 1.5e-8), (*ODD, (INF, NAN), (-INF, NAN), (1e-45, 1e-45))),
    "cos": Function(np.cos, mpmath.cos, ((-200, 200), (-200, 200)), (0.7853981633974483,), ((0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-45, 1.0))),
    "tan": Function(np.tan, mpmath.tan, ((-200, 200), (-200, 200)), (0.7853981633974483, 1.6e-4, 1.5e-8), (*ODD, (INF, NAN), (-INF, NAN), (-1e-45, -1e-45))),
    "tanh": Function(np.tanh, mpmath.tanh, ((-10, 10), (-20, 20)), (0.625, 9.01, 19.06), (*ODD, (INF, 1.0), (-INF, -1.0), (100.0, 1.0), (-3e38, -1.0), (1e-45, 1e-45))),
    "erf": Function(erf_long, mpmath.erf, ((-4.1, 4.1), (-6.1, 6.1)), (0.92, 2.4, 3.92, 5.86), (*ODD, (INF, 1.0), (-INF, -1.0), (50.0, 1.0), (-3e38, -1.0))),
}
POW_SPECIALS = (
    *((x, y, 1.0) for x in (NAN, 0.0, -0.0, INF, -INF, -3.0, 5.0) for y in (0.0, -0.0)), *((1.0, y, 1.0) for y in (NAN, INF, -INF, 3e38, -0.5)),
    (NAN, 1.0, NAN), (2.0, NAN, NAN), (NAN, NAN, NAN), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-1.0, 3e38, 1.0), (-1.0, 3.0, -1.0),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0), (0.0, -3.0, INF), (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-0.0, -0.5, INF),
    (0.0, INF, 0.0), (-0.0, INF, 0.0), (0.0, -INF, INF), (-0.0, -INF, INF), (0.5, INF, 0.0), (-0.5, INF, 0.0), (0.5, -INF, INF), (-0.5, -INF, INF),
    (2.0, INF, INF), (-2.0, INF, INF), (2.0, -INF, 0.0), (-2.0, -INF, 0.0), (INF, 2.0, INF), (INF, 0.5, INF), (INF, -1.0, 0.0), (INF, INF, INF), (INF, -INF, 0.0),
    (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0), (-INF, INF, INF), (-INF, -INF, 0.0),
    (-2.0, 0.5, NAN), (-1e-40, 0.25, NAN), (-3e38, -1.5, NAN), (-2.0, 3.0, -8.0), (-2.0, -1.0, -0.5), (-2.0, -149.0, -2.0 ** -149), (-2.0, 127.0, -2.0 ** 127),
    (3.0, 2.0, 9.0), (2.0, -149.0, 2.0 ** -149), (-1.0, 16777215.0, -1.0), (-1.0, 16777216.0, 1.0), (-2.0, 9007199254740991.0, -INF), (-3.0, 1e30, INF), (4.0, 0.5, 2.0))
NAMES = (*FUNCTIONS, "pow")


# ---- running ---------------------------------------------------------------------------------------------
def compiled(name: str, t: Float, *args: Array) -> Array:
    """The function of arrays, by a compiled kernel; bfloat16 comes and goes as float32."""
    tensors = [Tensor(a) for a in args]
    if t.name == "bfloat16":
        tensors = [x.cast("bfloat16") for x in tensors]
    y = tensors[0] ** tensors[1] if name == "pow" else getattr(tensors[0], name)()
    return (y.cast("float32") if t.name == "bfloat16" else y).numpy()


def ulps(got: Array, want: Array, t: Float) -> Array:
    """Errors of `got`; infinity where one is NaN or a sign differs. An infinite result counts as the first power of two out of range."""
    top = np.ldexp(Long(1), t.most)
    with np.errstate(invalid="ignore"):
        g, w = (np.where(np.isinf(v), np.copysign(top, v), v).astype(Long) for v in (got, np.clip(want, -top, top)))
    e = np.where(w == 0, t.least, np.clip(np.frexp(w)[1] - t.digits, t.least, t.most - t.digits))
    off = np.ldexp(np.abs(g - w), -e)
    off = np.where(np.isnan(got) | np.isnan(want), INF, off)
    off = np.where(np.isnan(got) & np.isnan(want), 0, off)
    return np.where((np.signbit(got) != np.signbit(want)) & ~np.isnan(want), INF, off)


def reference(name: str, *args: Array) -> Array:
    """In 80 bits."""
    with np.errstate(all="ignore"):
        wide = [a.astype(Long) for a in args]
        return (np.power(*wide) if name == "pow" else FUNCTIONS[name].reference(*wide)).astype(Long)


def exact_ulps(name: str, t: Float, got: Array, args: tuple[Array, ...]) -> float:
    """The largest error with 60 digits, over finite results."""
    worst = 0.0
    for y, *xs in zip(got.tolist(), *(a.tolist() for a in args), strict=True):
        if not all(map(math.isfinite, (y, *xs))) or 0 in xs:
            continue
        want = abs(mpmath.mpf(xs[0])) ** xs[1] if name == "pow" else FUNCTIONS[name].exact(mpmath.mpf(xs[0]))
        if not isinstance(want, mpmath.mpf):
            continue
        e = max(int(mpmath.frexp(want)[1]) - t.digits, t.least) if want else t.least
        worst = max(worst, float(abs((abs(mpmath.mpf(y)) if name == "pow" else mpmath.mpf(y)) - want) * mpmath.mpf(2) ** -e))
    return worst


def specials(name: str, t: Float) -> tuple[int, list[str]]:
    """How many special values there are that the type holds, and what is wrong with the results."""
    table = POW_SPECIALS if name == "pow" else FUNCTIONS[name].specials
    with np.errstate(all="ignore"):
        narrow = [[round_bf16(np.float32(v)) if t.name == "bfloat16" else t.numpy(v) for v in row] for row in table]
        kept = [n for n, row in zip(narrow, table, strict=True) if all(float(a) == b or b != b for a, b in zip(n[:-1], row[:-1], strict=True))]
    columns = [np.array(c) for c in zip(*kept, strict=True)]
    got = compiled(name, t, *columns[:-1])
    bad = [f"{name}{tuple(map(float, row[:-1]))} gives {y}, not {row[-1]}" for row, y in zip(kept, got, strict=True)
           if not (np.isnan(y) and np.isnan(row[-1]) or y == row[-1] and np.signbit(y) == np.signbit(row[-1]))]
    return len(kept), bad


# ---- inputs ----------------------------------------------------------------------------------------------
def round_bf16(x: Any) -> Any:
    bits = np.asarray(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), np.float32(NAN), ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32))


def every_half(t: Float) -> Array:
    """All values of a 16-bit type."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    return bits.astype(np.uint16).view(np.float16) if t.name == "float16" else (bits << 16).view(np.float32)


def any_bits(rng: np.random.Generator, n: int, t: Float) -> Array:
    """Uniform over bit patterns, so over all exponents, subnormals and NaN included."""
    if t.bits == 16:
        return rng.choice(every_half(t), n)
    return rng.integers(0, 1 << t.bits, n, np.uint32 if t.bits == 32 else np.uint64).view(t.numpy)


def around(rng: np.random.Generator, centers: Array, t: Float) -> Array:
    """Values at most 4096 steps from the centers."""
    integer = np.int32 if t.bits == 32 else np.int64
    steps = rng.integers(-4096, 4097, centers.size, integer)
    return np.asarray(np.asarray(centers, t.numpy).view(integer) + steps).view(t.numpy)


@functools.cache
def near_multiples(t: Float) -> Array:
    """Values of all sizes that come nearest to multiples of pi/2: denominators of the continued fraction of 2**e / (pi/2) (Kahan, Muller)."""
    mpmath.mp.dps, out = 500, []
    ratio = int(2 / mpmath.pi * mpmath.mpf(2) ** 1400)
    mpmath.mp.dps = 60
    for e in range(-t.digits, t.most - t.digits + 1):
        a, b = ratio << max(e, 0), 1 << 1400 + max(-e, 0)
        before, q = 1, 0
        while b:
            k, (a, b) = a // b, (b, a % b)
            before, q = q, k * q + before
            if q >= 1 << t.digits:
                break
            out += [math.ldexp(q * m, e) for m in (1, 2, 3) if 1 << (t.digits - 12) <= q * m < 1 << t.digits]
    return np.array(out, t.numpy)


def arguments(name: str, t: Float, n: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """About n inputs: bit patterns, the reach evenly, small magnitudes, and the surroundings of breaks."""
    if name == "pow":
        return powers(t, n, rng)
    f, q = FUNCTIONS[name], n // 4
    low, high = f.reach[t.name == "float64"]
    small = np.exp2(rng.uniform(-2 * t.digits, math.log2(high), q)) * rng.choice([-1, 1], q)
    if name.startswith("log"):
        small = 1 + small * 2.0 ** -2
    elif name in ("sin", "cos", "tan"):
        hard = near_multiples(t)
        small[:q // 2] = rng.integers(-1 << 20, 1 << 20, q // 2) * (math.pi / 2)
        small[:min(hard.size, q // 4)] = rng.choice(hard, min(hard.size, q // 4), replace=False)
    parts = [any_bits(rng, q, t), rng.uniform(low, high, q).astype(t.numpy), small.astype(t.numpy), around(rng, rng.choice(f.breaks, n - 3 * q), t)]
    return (np.concatenate(parts),)


def powers(t: Float, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Pairs: bit patterns; results spread evenly over the exponents, for x of all sizes and near 1; whole y."""
    q = n // 4
    x = [any_bits(rng, q, t), np.abs(any_bits(rng, q, t)), (1 + np.exp2(rng.uniform(-t.digits, 0, q)) * rng.choice([-0.5, 1], q)).astype(t.numpy),
         rng.uniform(-20, 20, n - 3 * q).astype(t.numpy)]
    with np.errstate(all="ignore"):
        y = [any_bits(rng, q, t), *((rng.uniform(t.least - 2, t.most + 2, q) / np.log2(v.astype(np.float64))).astype(t.numpy) for v in x[1:3]),
             rng.integers(-40, 41, n - 3 * q).astype(t.numpy)]
    if t.name == "bfloat16":
        x, y = [round_bf16(v) for v in x], [round_bf16(v) for v in y]
    return np.concatenate(x), np.concatenate(y)


def chunks(name: str, t: Float, n: int, seed: int) -> Iterator[tuple[Array, ...]]:
    if t.bits == 16 and name != "pow":
        yield (every_half(t),)
        return
    rng = np.random.default_rng(seed)
    for start in range(0, n, 1 << 20):
        yield arguments(name, t, min(1 << 20, n - start), rng)


@dataclass(frozen=True)
class Result:
    """error: in ulp; at: the argument; checked: the error with 60 digits at the worst and at random places; special: values checked; bad: wrong ones."""
    name: str
    dtype: str
    count: int
    error: float
    at: tuple[float, ...]
    checked: float
    special: int
    bad: list[str]

    def __str__(self) -> str:
        ok = "ok" if self.error <= 2 and self.checked <= 2 and not self.bad else "BAD"
        at = ", ".join(repr(v) for v in self.at)
        return f"{self.name:6}{self.dtype:10}{self.count:>10}{self.error:9.4f}{self.checked:9.4f}{self.special:9}  {ok:4} {at}"


def measure(name: str, dtype: str, n: int, sample: int = 200, seed: int = 0) -> Result:
    """Run one function on n inputs (all of them for 16-bit types); `sample` inputs of each chunk are checked with mpmath, half of them the worst."""
    t, count, error, checked = TYPES[dtype], 0, -1.0, 0.0
    at: tuple[float, ...] = ()
    for args in chunks(name, t, n, seed):
        got = compiled(name, t, *args)
        off = ulps(got, reference(name, *args), t)
        count, i = count + off.size, int(off.argmax())
        if off[i] > error:
            error, at = float(off[i]), tuple(float(a[i]) for a in args)
        half = min(sample // 2, off.size)
        pick = np.concatenate([np.argpartition(off, off.size - half)[off.size - half:], np.random.default_rng(seed).integers(0, off.size, half)])
        checked = max(checked, exact_ulps(name, t, got[pick], tuple(a[pick] for a in args)))
    special, bad = specials(name, t)
    return Result(name, dtype, count, error, at, checked, special, bad)


def main() -> None:
    """Print the table; the exit status is 1 when an error is above 2 ulp or a special value is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000, help="inputs per function; 16-bit types take all values")
    parser.add_argument("--only", default=",".join(NAMES), help="functions, separated by commas")
    parser.add_argument("--dtype", default=",".join(TYPES), help="types, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'':16}{'inputs':>10}{'max ulp':>9}{'checked':>9}{'special':>9}       worst at")
    wrong, start = False, time.perf_counter()
    for dtype in args.dtype.split(","):
        for name in args.only.split(","):
            r = measure(name, dtype, args.n, seed=args.seed)
            print(r, *(f"\n    {b}" for b in r.bad), flush=True)
            wrong |= "BAD" in str(r)
    print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
