"""What the math functions share: polynomials, powers of two, rounding to whole numbers by a magic constant, reduction by multiples of pi/2."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..uop import Op, UOp, const


@dataclass(frozen=True)
class Format:
    """A binary float type seen as bits."""
    dtype: DType
    integer: DType
    unsigned: DType
    mantissa: int                # stored bits
    bias: int
    magic: float                 # 1.5 * 2**mantissa: adding it rounds to a whole number, which then stands in the low bits


F32 = Format(dtypes.float32, dtypes.int32, dtypes.uint32, 23, 127, 1.5 * 2.0 ** 23)
F64 = Format(dtypes.float64, dtypes.int64, dtypes.uint64, 52, 1023, 1.5 * 2.0 ** 52)
F64_LOW = 0x4330000000000000     # bits of 2**52: what is or-ed below them is a whole number
INF, NAN = float("inf"), float("nan")

# 1/(2 pi) in pieces of 29 bits, a product of which with a float32 is exact in float64, and the rest: all of it, and from the third piece on
TURN = ((0.15915494272485375, 3.6704158115630214e-10, 5.690025167992954e-19, 1.470303687279978e-27),
        (5.690025167992954e-19, 1.4703036846932608e-27, 2.5867171752090537e-36, 9.458140970740169e-46))
# the first 1219 bits of 1/(2 pi), 53 to a word
TURN_WORDS = (
    1433540284805664, 5957137479487989, 1860064896635571, 1390943429720389, 5020298653118683, 5144493106191662, 13822778938275,
    1274606832502572, 2618186147303855, 5962356354247068, 3945969191208999, 1767297002589415, 7404395570781948, 5211350100443133,
    7893600668900899, 798806392691533, 5619025154952634, 4299362769199082, 1599398431227260, 6691545962833886, 1452770359377327,
    7619584807961952, 1795012743845719)
PIO2, PIO2_LOW = 1.5707963267948966, 6.123233995736766e-17


def horner(x: UOp, coefficients: Sequence[float]) -> UOp:
    """The polynomial with these coefficients, highest power first, by fused multiply-adds."""
    acc = x.const_like(coefficients[0])
    for c in coefficients[1:]:
        acc = acc.fma(x, c)
    return acc


def unary(op: Op, x: UOp) -> UOp:
    return UOp(op, x.dtype, (x,))


def absolute(x: UOp) -> UOp:
    return unary(Op.ABS, x)


def rint(x: UOp) -> UOp:
    return unary(Op.RINT, x)


def flip(x: UOp, sign: UOp, f: Format) -> UOp:
    """x with its sign exchanged where the top bit of `sign` is set."""
    return (x.bitcast(f.unsigned) ^ sign).bitcast(f.dtype)


def choose(cond: UOp, x: UOp | float, y: UOp) -> UOp:
    """x where cond, else y."""
    return cond.where(x if isinstance(x, UOp) else y.const_like(x), y)


def with_sign_of(magnitude: UOp, x: UOp, f: Format) -> UOp:
    """|magnitude| with the sign bit of x, -0.0 included."""
    bits = x.bitcast(f.integer) & f.integer.min
    return (magnitude.bitcast(f.integer) | bits).bitcast(f.dtype)


def rounded(x: UOp, factor: float, f: Format, bias: int) -> tuple[UOp, UOp]:
    """(n, i): n is the whole number next to x * factor, and the low bits of i are n + bias; |n| + bias < 2**(mantissa - 1)."""
    magic = f.magic + bias
    t = x + magic if factor == 1.0 else x.fma(factor, magic)
    return t - magic, t.bitcast(f.unsigned)


def times_power(y: UOp, i: UOp, f: Format) -> UOp:
    """y * 2**n for a normal power, where i ends in n + f.bias."""
    return y * (i << f.mantissa).bitcast(f.dtype)


def scale(y: UOp, i: UOp, f: Format) -> UOp:
    """y * 2**n in two steps, where i ends in n + 2 * f.bias: subnormal results are rounded once, too large ones are infinite."""
    half = i >> 1
    return times_power(times_power(y, half, f), i - half, f)


def split_exponent(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """Positive finite x as m * 2**e with m in [sqrt(1/2), sqrt(2)); e as a float. Subnormals are scaled up first."""
    up = f.mantissa + 1
    tiny = x < 2.0 ** (1 - f.bias)
    bits = choose(tiny, x * 2.0 ** up, x).bitcast(f.unsigned)
    root = 0x3F3504F3 if f is F32 else 0x3FE6A09E667F3BCD       # bits of sqrt(1/2)
    one = 1 << f.mantissa
    above = bits + choose(tiny, (2 * f.bias - up) * one - root, const(2 * f.bias * one - root, f.unsigned))
    m = ((above & (one - 1)) + root).bitcast(f.dtype)
    e = above >> f.mantissa                                     # e + 2 * bias
    if f is F32:
        return m, e.bitcast(f.integer).cast(f.dtype) - 2.0 * f.bias
    return m, (e | F64_LOW).bitcast(f.dtype) - (2.0 ** 52 + 2 * f.bias)


def log_specials(x: UOp, y: UOp) -> UOp:
    """A logarithm y of x > 0, with what it is elsewhere."""
    y = choose(x < INF, y, x)                                   # inf and NaN stay
    y = choose(x.eq(0.0), -INF, y)
    return choose(x < 0.0, NAN, y)


# ---- reduction by pi/2 -----------------------------------------------------------------------------------
def reduce_32(x: UOp) -> tuple[UOp, UOp]:
    """(r, q) in float64 with x = (q + 4k) * pi/2 + r and |r| <= pi/4, for float64 x that are float32 values.

    x / (2 pi) modulo 1, piece by piece: large pieces are exact and small ones come after the quarters are taken off, so a remainder near 0 keeps its digits.
    From 2**83 on, x times the first two pieces is whole.
    """
    far = absolute(x) >= 2.0 ** 83
    *pieces, rest = (far.where(x.const_like(b), a) for a, b in zip(*TURN, strict=True))
    f0, f1, f2 = (p - rint(p) for p in (x * piece for piece in pieces))
    q = rint((x.fma(rest, f2) + (f0 + f1)) * 4.0)
    return x.fma(rest, (q.fma(-0.25, f0) + f1) + f2) * (4 * PIO2), q


def reduce_64(x: UOp) -> tuple[UOp, UOp, UOp]:
    """(r, low, q) with x = (q + 4k) * pi/2 + r and |r| <= pi/4, r + low to twice the precision, for all float64 x.

    The exponent of x picks the five words of 1/(2 pi) that matter. A product is kept as its rounded value and what the rounding lost; whole turns are
    dropped from it, and a quarter turn's multiple is taken off before anything is rounded, so that a remainder near 0 keeps its digits.
    """
    f = F64
    e = (x.bitcast(f.unsigned) >> f.mantissa) & 0x7FF
    k = (choose(e < f.bias + 105, f.bias + 52, e) - (f.bias + 52)) * 1237 >> 16                  # // 53; from 2**52 on, x times a left-out word is whole
    near = x * ((f.bias - k * 53) << f.mantissa).bitcast(f.dtype)
    parts = []
    for j, w in enumerate(pick_words(k)):
        w = w * 2.0 ** (-53 * (j + 1))
        parts += [near * w, near.fma(w, -(near * w))]
    p0, e0, p1 = (p - rint(p) for p in parts[:3])
    e1, p2, e2, p3, e3, p4 = parts[3:9]
    q = rint(((p0 + e0) + (p1 + e1) + p2) * 4.0)
    s, low = quick_sum(q.fma(-0.25, p0), e0)
    for p in (p1, e1, p2):
        s, lost = exact_sum(s, p)
        low = low + lost
    low, a = exact_sum(low, e2)
    low, b = exact_sum(low, p3)
    s, low = exact_sum(s, low)
    low = low + ((a + b) + (e3 + p4))
    s, low = quick_sum(s, low)
    r = s * (4 * PIO2)
    return r, s.fma(4 * PIO2, -r) + s.fma(4 * PIO2_LOW, low * (4 * PIO2)), q


def quick_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """a + b and what the addition lost, for |a| >= |b| or an exact sum."""
    s = a + b
    return s, (a - s) + b


def exact_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """a + b and what the addition lost."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def pick_words(k: UOp) -> list[UOp]:
    """Words k .. k + 4 of 1/(2 pi) as float64: shifted by 16, 8, 4, 2, 1 words where k has the bit."""
    words: list[UOp] = [const(float(w), dtypes.float64) for w in TURN_WORDS]
    for bit in (16, 8, 4, 2, 1):
        on = (k & bit).ne(0)
        words = [on.where(words[i + bit], words[i]) if i + bit < len(words) else words[i] for i in range(4 + bit)]
    return words
