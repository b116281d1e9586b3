"""exp, log, sin, tanh, erf, pow and kin as straight-line arithmetic, within 2 ulp over the whole range; NaN, infinities and zeros as in C99.

Polynomials are Chebyshev interpolants computed with 60 digits, where no other method is named; beside each table stand its interval and worst error.
"""
from __future__ import annotations

from collections.abc import Callable

from ..dtype import dtypes
from ..uop import GroupOp, Op, UOp, const
from .math_parts import (F32, F64, INF, NAN, Format, absolute, choose, flip, horner, log_specials, reduce_32, reduce_64, rint, rounded, scale,
                         split_exponent, times_power, with_sign_of)

LN2, LOG2E = 0.6931471805599453, 1.4426950408889634
LOG2E_LOW = 2.0355273740931033e-17
# ln 2 in two parts; the first has so few bits that a whole number times it is exact
LN2_PARTS = {F32: (0.693145751953125, 1.4286068203094173e-06), F64: (0.6931471805598903, 5.497923018708371e-14)}
# exp(x) = 1 + x + x**2 * .. on +-0.347, 2**x = 1 + x * .. on +-0.5; relative errors 3.2e-9, 2.5e-17; 3.0e-9, 2.0e-17. The float32 ones are minimax (Lawson)
EXP = {F32: (0.0013818697771057487, 0.008368715643882751, 0.04166829213500023, 0.1666652113199234, 0.4999999403953552),
       F64: (2.5101335854788522e-08, 2.7621324269313687e-07, 2.7557266442353424e-06, 2.4801518672268355e-05, 0.00019841269864364933,
             0.0013888888918918907, 0.008333333333329796, 0.04166666666662068, 0.16666666666666669, 0.5)}
EXP2 = {F32: (0.0001532646274426952, 0.0013390806270763278, 0.009618505835533142, 0.05550359934568405, 0.24022647738456726, 0.6931471824645996),
        F64: (4.4549605981865186e-10, 7.072585949269223e-09, 1.0178062445845774e-07, 1.321544258792169e-06, 1.525273382983612e-05,
              0.0001540353044173605, 0.0013333558146416936, 0.009618129107606888, 0.0555041086648216, 0.24022650695910097, LN2)}
# (log(1 + x) - x + x**2/2) / x**3 on [-0.293, 0.4144]: 3.0e-8
LOG_32 = (0.06972518633879546, -0.11481212058518442, 0.11685784721037067, -0.12425523359933803, 0.14249007240593695, -0.16667807132962642,
          0.20000717213085337, -0.24999996925400272, 0.3333333117427613)
# (log((1 + s) / (1 - s)) - 2s) / s**3 in s**2 on [0, 0.0295]: 2.1e-18
LOG_64 = (0.13088034850927555, 0.13268638369266825, 0.15386244737621665, 0.18181795547521137, 0.22222222392581045, 0.28571428570799784,
          0.40000000000000885, 0.6666666666666666)
# (atanh(s)/s - 1 - s**2/3) / s**4 in s**2 on [0, 0.0295]: 9.5e-19
ATANH_TAIL = (0.058621635304233734, 0.05853063232281699, 0.0666740439940617, 0.0769229744350359, 0.09090909168049924, 0.11111111110826383,
              0.14285714285714685, 0.2)
# (tanh(x)/x - 1) / x**2 in x**2 on [0, 0.391]: 4.4e-8, 4.0e-18
TANH = {F32: (-0.006094641315356439, 0.02099575389029558, -0.05385060910837768, 0.1333276776029121, -0.33333328924525096),
        F64: (6.479872918951109e-06, -3.1190227437815513e-05, 9.256153036516744e-05, -0.00023758584039791723, 0.0005896591704308033,
              -0.00145577511739838, 0.003592121713787555, -0.008863235100297065, 0.021869488518873555, -0.05396825396789384, 0.1333333333333304,
              -0.3333333333333333)}
# erf(x)/x - 1 in x**2 on [0, 0.8465]: 4.1e-10, 2.2e-22
ERF = {F32: (8.399424645092341e-05, -0.0008149968109782646, 0.00520170741963594, -0.026859687822010526, 0.11283701120054779, -0.37612634136500966,
             0.1283791666841827),
       F64: (-4.539013804972184e-12, 8.886732338546167e-11, -1.2209924756989717e-09, 1.4799148675987086e-08, -1.636528969613766e-07,
             1.6462087391413167e-06, -1.4925649432652162e-05, 0.00012055332959614639, -0.0008548327023089931, 0.005223977625438379,
             -0.02686617064513101, 0.11283791670955125, -0.37612638903183754, 0.1283791670955126)}
# log(erfc(x)) on [0.92, 4]: 1.9e-8; on [0.92, 2.4]: 1.3e-19; on [2.4, 6]: 7.8e-16
ERFC_32 = (1.6435696536038326e-06, -4.617791279040004e-05, 0.0005977434719606111, -0.0047635752491493495, 0.026431017603369227, -0.110094480827649,
           -0.6318145166593842, -1.1302376163746712, 0.00032044153127726646)
ERFC_64 = ((-3.284413374557176e-11, 1.0867001377807397e-09, -1.7016201140643167e-08, 1.672519229026299e-07, -1.1514276328147828e-06,
            5.841391639083925e-06, -2.2173860140199042e-05, 6.128632598613873e-05, -0.00010686434502788884, 1.989299209549576e-05,
            0.0005504228033107812, -0.0016688220965588756, 0.0001944428621081292, 0.019134478082930274, -0.10277439135833383, -0.636619416196524,
            -1.1283792083358557, 1.9391774315813223e-09),
           (1.2729259665852694e-14, -9.815599927880565e-13, 3.559851813466678e-11, -8.065900177052928e-10, 1.2787198893820949e-08,
            -1.5045064638600675e-07, 1.3584514981843436e-06, -9.581891533874845e-06, 5.3029346632871986e-05, -0.00022714275752944594,
            0.0007130495439094195, -0.001306212277949277, -0.0012348188348996576, 0.021741351330821675, -0.10582490131041429, -0.6342794362680125,
            -1.1294623237805121, 0.00023103731255606452))
# (sin(x)/x - 1) / x**2 and (cos(x) - 1 + x**2/2) / x**4 in x**2 on [0, 0.63]: 3.0e-11, 6.1e-24; 2.5e-12, 3.1e-25
SIN = {F32: (2.724378140946123e-06, -0.00019840038872556747, 0.008333331785217696, -0.1666666666362283),
       F64: (2.7908394059626524e-15, -7.646953154264417e-13, 1.6059042716253846e-10, -2.5052108382137547e-08, 2.75573192239806e-06,
             -0.00019841269841269836, 0.008333333333333333, -0.16666666666666666)}
COS = {F32: (-2.7295830827614617e-07, 2.4800560429914505e-05, -0.001388888759732781, 0.04166666666412721),
       F64: (-1.551608440103601e-16, 4.779371998381356e-14, -1.1470745037176287e-11, 2.087675698621517e-09, -2.755731922398324e-07,
             2.4801587301587298e-05, -0.001388888888888889, 0.041666666666666664)}


def decompose(u: UOp) -> UOp | None:
    """An elementwise node of a math function as arithmetic; None for other nodes. Halves are computed in float32 and rounded."""
    rule = _RULES.get(u.op)
    if rule is None or not u.dtype.is_float:
        return None
    f = F64 if u.dtype is dtypes.float64 else F32
    return rule(f, *(s.cast(f.dtype) for s in u.src)).cast(u.dtype)


def decompose_all(root: UOp) -> UOp:
    """A whole kernel without math functions."""
    new: dict[UOp, UOp] = {}
    for u in root.toposort():
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        new[u] = (decompose(v) if v.op in GroupOp.TRANSCENDENTAL else None) or v
    return new[root]


# ---- exponentials ----------------------------------------------------------------------------------------
def reduced_exp(x: UOp, f: Format, bias: int) -> tuple[UOp, UOp]:
    """(y, i) with exp(x) = y * 2**n, where i ends in n + bias."""
    n, i = rounded(x, LOG2E, f, bias)
    big, small = LN2_PARTS[f]
    return horner(n.fma(-small, n.fma(-big, x)), (*EXP[f], 1.0, 1.0)), i


def exp(f: Format, x: UOp) -> UOp:
    low, high = (-104.0, 89.0) if f is F32 else (-746.0, 710.0)
    c = choose(x < low, low, choose(x > high, high, x))         # NaN passes both
    return scale(*reduced_exp(c, f, 2 * f.bias), f)


def exp_in_range(x: UOp, f: Format) -> UOp:
    """exp where neither overflow nor a subnormal result can occur."""
    return times_power(*reduced_exp(x, f, f.bias), f)


def exp2(f: Format, x: UOp) -> UOp:
    low, high = (-151.0, 129.0) if f is F32 else (-1076.0, 1025.0)
    c = choose(x < low, low, choose(x > high, high, x))
    n, i = rounded(c, 1.0, f, 2 * f.bias)
    return scale(horner(c - n, (*EXP2[f], 1.0)), i, f)


# ---- logarithms ------------------------------------------------------------------------------------------
def log_parts(f: Format, x: UOp) -> tuple[UOp, UOp, UOp]:
    """(e, a, b) with log(x) = e * ln 2 + a + b; a is exact to the last bit or holds it, b is small."""
    m, e = split_exponent(x, f)
    d = m - 1.0
    if f is F32:
        z = d * d
        return e, d, horner(d, LOG_32).fma(z * d, z * -0.5)
    s, half = d / (d + 2.0), d * d * 0.5
    rest = s * horner(s * s, LOG_64).fma(s * s, half)           # log(1+d) = d - half + s*(half + tail)
    a = d - half
    return e, a, ((d - a) - half) - d.fma(d * 0.5, -half) + rest


def log(f: Format, x: UOp) -> UOp:
    e, a, b = log_parts(f, x)
    big, small = LN2_PARTS[f]
    if f is F32:
        return log_specials(x, e.fma(big, a + e.fma(small, b)))
    total = e * big + a
    lost = (e * big - total) + a
    return log_specials(x, total + (lost + e.fma(small, b)))


def log2(f: Format, x: UOp) -> UOp:
    e, a, b = log_parts(f, x)
    low = LOG2E_LOW if f is F64 else LOG2E - 1.4426950216293335
    top = LOG2E if f is F64 else 1.4426950216293335
    p = a * top
    rest = a.fma(top, -p) + b.fma(LOG2E, a * low)
    total = e + p
    return log_specials(x, total + (((e - total) + p) + rest))


# ---- trigonometric functions -----------------------------------------------------------------------------
def sin_poly(r: UOp, f: Format) -> UOp:
    z = r * r
    return horner(z, SIN[f]).fma(z * r, r)


def cos_poly(r: UOp, f: Format) -> UOp:
    z = r * r
    return horner(z, COS[f]).fma(z * z, z * -0.5) + 1.0


def quarter(q: UOp, turns: int, f: Format) -> tuple[UOp, UOp]:
    """Whether quadrant q + turns swaps sine and cosine; bits whose top one says that it negates."""
    bits = (q + (f.magic + turns)).bitcast(f.unsigned)
    return (bits & 1).ne(0), (bits & 2) << (f.dtype.bits - 2)


def sin_parts(r: UOp, low: UOp) -> tuple[UOp, UOp]:
    """sin(r + low) in float64 as a sum of two."""
    z = r * r
    tail = horner(z, SIN[F64]) * (z * r) + low
    s = r + tail
    return s, (r - s) + tail


def cos_parts(r: UOp, low: UOp) -> tuple[UOp, UOp]:
    """cos(r + low) in float64 as a sum of two; the rounding of 1 - r**2/2 is made good."""
    z = r * r
    half = z * 0.5
    top = 1.0 - half
    rest = ((1.0 - top) - half) - r.fma(r * 0.5, -half) + horner(z, COS[F64]).fma(z * z, -(r * low))
    c = top + rest
    return c, (top - c) + rest


def sin_cos(f: Format, x: UOp, turns: int) -> UOp:
    """sin(x + turns * pi/2)."""
    if f is F32:
        wide, whole = reduce_32(x.cast(dtypes.float64))
        r, q = wide.cast(f.dtype), whole.cast(f.dtype)
        s, c = sin_poly(r, f), cos_poly(r, f)
    else:
        r, low, q = reduce_64(x)
        s, c = sin_parts(r, low)[0], cos_parts(r, low)[0]
    odd, sign = quarter(q, turns, f)
    return flip(odd.where(c, s), sign, f)


def keep_small(x: UOp, y: UOp, f: Format) -> UOp:
    """sin x and tan x are x where x**2 / 3 is below half an ulp; keeps -0.0."""
    return choose(absolute(x) < (2.0 ** -12.5 if f is F32 else 2.0 ** -27), x, y)


def sin(f: Format, x: UOp) -> UOp:
    return keep_small(x, sin_cos(f, x, 0), f)


def cos(f: Format, x: UOp) -> UOp:
    return sin_cos(f, x, 1)


def tan(f: Format, x: UOp) -> UOp:
    """Sine over cosine: in float64 for float32, each in two parts for float64."""
    if f is F32:
        r, q = reduce_32(x.cast(dtypes.float64))
        odd, _ = quarter(q, 0, F64)
        s, c = sin_poly(r, F64), cos_poly(r, F64)
        return keep_small(x, (odd.where(-c, s) / odd.where(s, c)).cast(dtypes.float32), f)
    r, low, q = reduce_64(x)
    odd, _ = quarter(q, 0, F64)
    (s, s_low), (c, c_low) = sin_parts(r, low), cos_parts(r, low)
    a, a_low, b, b_low = odd.where(-c, s), odd.where(-c_low, s_low), odd.where(s, c), odd.where(s_low, c_low)
    t = a / b
    return keep_small(x, t + ((-t).fma(b, a) + a_low - t * b_low) / b, f)


# ---- tanh, erf -------------------------------------------------------------------------------------------
def tanh(f: Format, x: UOp) -> UOp:
    a, z = absolute(x), x * x
    small = horner(z, TANH[f]).fma(z, 1.0) * x
    limit = 10.0 if f is F32 else 20.0
    e = exp_in_range(choose(a > limit, limit, a) * 2.0, f)      # NaN goes on, in `small`
    big = with_sign_of(1.0 - const(2.0, f.dtype) / (e + 1.0), x, f)
    return choose(a >= 0.625, big, small)


def erf(f: Format, x: UOp) -> UOp:
    a, z = absolute(x), x * x
    small = horner(z, ERF[f]).fma(x, x)
    limit = 4.0 if f is F32 else 6.0
    c = choose(a > limit, limit, a)
    if f is F32:
        p = horner(c, ERFC_32)
    else:
        near = c < 2.4
        p = near.where(c.const_like(ERFC_64[0][0]), ERFC_64[1][0])
        for k0, k1 in zip(ERFC_64[0][1:], ERFC_64[1][1:], strict=True):
            p = p.fma(c, near.where(c.const_like(k0), k1))
    big = with_sign_of(1.0 - exp_in_range(p, f), x, f)
    return choose(a >= 0.92, big, small)


# ---- pow -------------------------------------------------------------------------------------------------
def pow_(f: Format, x: UOp, y: UOp) -> UOp:
    """C99 pow: log2 of |x| in twice the precision, times y, then exp2; signs and special values after."""
    if f is F32:
        wide = power_of_parts(x.cast(dtypes.float64), y.cast(dtypes.float64), simple=True)
        return pow_specials(F32, x, y, wide.cast(dtypes.float32))
    return pow_specials(F64, x, y, power_of_parts(x, y, simple=False))


def power_of_parts(x: UOp, y: UOp, simple: bool) -> UOp:
    """|x| ** y in float64, for finite x > 0. simple: to float32's needs."""
    f = F64
    m, e = split_exponent(absolute(x), f)
    d = m - 1.0
    s = d / (d + 2.0)
    if simple:
        z = s * s
        h = e + (s * horner(z, LOG_64) * z + s * 2.0) * LOG2E
        hi, lo = h * y, h.fma(y, -(h * y))
    else:
        a, b = log2_twice(d, s, e)
        hi = a * y
        lo = a.fma(y, -hi) + b * y
    limit = 1100.0
    over = absolute(hi) >= limit
    hi = choose(over, with_sign_of(hi.const_like(limit), hi, f), hi)
    lo = choose(over, 0.0, lo)
    n, i = rounded(hi, 1.0, f, 2 * f.bias)
    r = (hi - n) + lo
    g = r * LN2
    g_low = r.fma(LN2, -g) + (((hi - n) - r) + lo) * LN2
    p = horner(g, EXP[f]).fma(g * g, g_low)
    return scale((g + p) + 1.0, i, f)


def log2_twice(d: UOp, s: UOp, e: UOp) -> tuple[UOp, UOp]:
    """e + log2(1 + d) as a sum of two floats, good to about 2**-68; s = d / (2 + d)."""
    t = d + 2.0
    s_low = ((-s).fma(t, d) - s * (d - (t - 2.0))) / t          # what the division lost
    z = s * s
    z_low = s.fma(s, -z) + s * s_low * 2.0
    third, third_low = 1 / 3, 1.850371707708594e-17
    c = z * third
    c_low = z.fma(third, -c) + z.fma(third_low, z_low * third)
    tail = horner(z, ATANH_TAIL) * z * z                        # atanh(s)/s = 1 + z/3 + tail
    w = c + tail
    w_low = (c - w) + tail + c_low
    p = s * w
    p_low = s.fma(w, -p) + s.fma(w_low, s_low * w)
    a = s + p
    b = (s - a) + p + (p_low + s_low)
    k, k_low = 2 * LOG2E, 2 * LOG2E_LOW
    h = a * k
    h_low = a.fma(k, -h) + a.fma(k_low, b * k)
    total = e + h
    return total, (e - total) + h + h_low


def pow_specials(f: Format, x: UOp, y: UOp, r: UOp) -> UOp:
    """pow from |x| ** y, for all arguments."""
    a = absolute(x)
    whole = rint(y).eq(y)                                       # infinities count as whole and even
    half = y * 0.5
    odd = whole & rint(half).ne(half)
    negative = x.bitcast(f.integer) < 0
    grows = (a > 1.0).where(y > 0.0, y < 0.0)                   # of the two limits 0 and inf, which one |x| ** +-inf or an infinite or zero x goes to
    extreme = a.eq(0.0) | a.eq(INF) | absolute(y).eq(INF)
    limit = choose(grows, INF, r.const_like(0.0))
    r = choose(extreme, choose(a.eq(1.0), 1.0, limit), r)
    r = (negative & odd).where(-r, r)
    r = choose(negative & ~whole & a.ne(0.0) & a.ne(INF), NAN, r)
    r = choose(x.ne(x) | y.ne(y), NAN, r)
    return choose(y.eq(0.0) | x.eq(1.0), 1.0, r)


_RULES: dict[Op, Callable[..., UOp]] = {Op.EXP: exp, Op.EXP2: exp2, Op.LOG: log, Op.LOG2: log2, Op.SIN: sin, Op.COS: cos, Op.TAN: tan, Op.TANH: tanh,
                                        Op.ERF: erf, Op.POW: pow_}
