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
    mantissa: int                # stored bits
    bias: int
    magic: float                 # 1.5 * 2**mantissa: adding it rounds to a whole number, which then stands in the low bits


F32 = Format(dtypes.float32, dtypes.int32, 23, 127, 1.5 * 2.0 ** 23)
F64 = Format(dtypes.float64, dtypes.int64, 52, 1023, 1.5 * 2.0 ** 52)
INF, NAN = float("inf"), float("nan")

# 2/pi in pieces of 29 bits: a piece times a float32 is exact in float64
TWO_OVER_PI_29 = (0.636619770899415, 1.4681663246252086e-09, 2.2760100671971816e-18, 5.8812147387730434e-27, 1.0346868700836215e-35,
                  3.783256351091319e-45, 3.720474878517739e-53)
# the first 1200 bits of 2/pi, 24 to a word
TWO_OVER_PI_24 = (
    10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841, 16666979, 11263675, 12935607, 2387514, 4345298, 14681673, 3074569,
    13734428, 16653803, 1880361, 10960616, 8533493, 3062596, 8710556, 7349940, 6258241, 3772886, 3769171, 3798172, 8675211, 12450088, 3874808, 9961438,
    366607, 15675153, 9132554, 7151469, 3571407, 2607881, 12013382, 4155038, 6285869, 7677882, 13102053, 15825725, 473591, 9065106, 15363067, 6271263,
    9264392, 5636912, 4652155)
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


def choose(cond: UOp, x: UOp | float, y: UOp) -> UOp:
    """x where cond, else y."""
    return cond.where(x if isinstance(x, UOp) else y.const_like(x), y)


def with_sign_of(magnitude: UOp, x: UOp, f: Format) -> UOp:
    """|magnitude| with the sign bit of x, -0.0 included."""
    bits = x.bitcast(f.integer) & f.integer.min
    return (magnitude.bitcast(f.integer) | bits).bitcast(f.dtype)


def round_by_magic(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """The nearest whole number as a float and as an integer; |x| < 2**(mantissa - 1)."""
    t = x + f.magic
    return t - f.magic, t.bitcast(f.integer) - magic_bits(f)


def magic_bits(f: Format) -> int:
    return 0x4B400000 if f is F32 else 0x4338000000000000


def power_of_two(i: UOp, f: Format) -> UOp:
    """2**i for i in the normal range of exponents."""
    return ((i + f.bias) << f.mantissa).bitcast(f.dtype)


def scale(y: UOp, i: UOp, f: Format) -> UOp:
    """y * 2**i in two steps, so that subnormal results are rounded once and too large ones are infinite."""
    half = i >> 1
    return y * power_of_two(half, f) * power_of_two(i - half, f)


def split_exponent(x: UOp, f: Format) -> tuple[UOp, UOp]:
    """Positive finite x as m * 2**e with m in [sqrt(1/2), sqrt(2)); e as a float. Subnormals are scaled up first."""
    least = 2.0 ** (1 - f.bias)
    tiny = x < least
    bits = choose(tiny, x * 2.0 ** (f.mantissa + 1), x).bitcast(f.integer)
    root = 0x3F3504F3 if f is F32 else 0x3FE6A09E667F3BCD       # bits of sqrt(1/2)
    shifted = bits - root
    e = shifted >> f.mantissa
    m = ((shifted & ((1 << f.mantissa) - 1)) + root).bitcast(f.dtype)
    e = e - choose(tiny, const(f.mantissa + 1, f.integer), const(0, f.integer))
    return m, whole_to_float(e, f)


def whole_to_float(i: UOp, f: Format) -> UOp:
    """A small integer as a float: its bits under the magic constant's."""
    return (i + magic_bits(f)).bitcast(f.dtype) - f.magic


def log_specials(x: UOp, y: UOp) -> UOp:
    """A logarithm y of x > 0, with what it is elsewhere."""
    y = choose(x < INF, y, x)                                   # inf and NaN stay
    y = choose(x.eq(0.0), -INF, y)
    return choose(x < 0.0, NAN, y)


# ---- reduction by pi/2 -----------------------------------------------------------------------------------
def reduce_32(x: UOp) -> tuple[UOp, UOp]:
    """(r, q) in float64 with x = (q + 4k) * pi/2 + r and |r| <= pi/4, for float64 x that are float32 values.

    x * 2/pi modulo 4, piece by piece of 2/pi: each product is exact, so only the last additions round.
    """
    s = q = x.const_like(0.0)
    for piece in TWO_OVER_PI_29:
        p = x * piece
        s = s + rint(p * 0.25).fma(-4.0, p)
        n = rint(s)
        s, q = s - n, q + n
    return s * PIO2, q


def reduce_64(x: UOp) -> tuple[UOp, UOp, UOp]:
    """(r, low, q) with x = (q + 4k) * pi/2 + r + low and |r| <= pi/4, for all float64 x.

    The exponent of x picks the words of 2/pi that matter; x in two halves times a word is exact.
    """
    f = F64
    e = ((x.bitcast(f.integer) >> 52) & 0x7FF) - f.bias
    k = (choose(e < 56, const(0, f.integer), e - 56) * 43691) >> 20     # (e - 56) // 24 words give multiples of 4
    words = pick_words(k, 9)
    down = power_of_two(const(0, f.integer) - k * 12, f)
    scaled = x * down * down                                    # so that word j stands at 2**(-24 * (j + 1))
    high = (scaled.bitcast(f.integer) & ~((1 << 27) - 1)).bitcast(f.dtype)
    low = scaled - high
    s = t = q = x.const_like(0.0)
    for j, w in enumerate(words):
        for part in (high, low):
            p = part * (w * 2.0 ** (-24 * (j + 1)))
            y = rint(p * 0.25).fma(-4.0, p)
            total = s + y
            back = total - s
            t = t + ((s - (total - back)) + (y - back))          # what the addition lost
            n = rint(total)
            s, q = total - n, q + n
    total = s + t
    t = t - (total - s)
    r = total * PIO2
    rest = total.fma(PIO2, -r) + total.fma(PIO2_LOW, t * PIO2)
    return r, rest, q


def pick_words(k: UOp, count: int) -> list[UOp]:
    """Words k .. k+count-1 of 2/pi as float64: shifted by 32, 16, 8, ... words where k has the bit."""
    words: list[UOp] = [const(float(w), dtypes.float64) for w in TWO_OVER_PI_24] + [const(0.0, dtypes.float64)] * 24
    for bit in (32, 16, 8, 4, 2, 1):
        on = (k & bit).ne(0)
        words = [on.where(words[i + bit], words[i]) if i + bit < len(words) else words[i] for i in range(min(count + bit - 1, len(words)))]
    return words[:count]
