"""Elementwise arithmetic, comparisons and functions. Operands are broadcast and promoted; halves are computed in float32 inside a kernel."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ..dtype import dtypes, promote, to_dtype
from ..errors import DTypeError
from ..uop import Op, UOp
from .base import TensorBase, broadcast_shapes, python_number

LN2, LN10 = math.log(2), math.log(10)
# (atan(r)/r - 1) / r**2 in r**2 on [0, 0.1716], Chebyshev interpolants: 2.4e-9, 6.8e-18
ATAN_32 = (-0.06451928208121749, 0.10743731490791084, -0.1426395559798464, 0.19999540483648964, -0.3333333176116852)
ATAN_64 = (-0.01917688711906226, 0.03923165829558719, -0.0508544973794026, 0.0585814891280221, -0.06664511447381948, 0.07692183190826087,
           -0.09090904578123903, 0.11111111015256361, -0.14285714284666542, 0.1999999999999552, -0.3333333333333333)
T = TypeVar("T", bound="ElementwiseOps")
P = ParamSpec("P")


def composed(f: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Method of several steps on floats: integers become the default float, halves are computed in float32 and rounded once, at the end."""
    @functools.wraps(f)
    def method(self: T, /, *args: P.args, **options: P.kwargs) -> T:
        x = self._float_input()
        return f(x, *args, **options) if x.dtype.itemsize > 2 else f(x._cast_to(dtypes.float32), *args, **options)._cast_to(x.dtype)
    return method


class ElementwiseOps(TensorBase):
    """Methods that work element by element. Unless said otherwise the result has the broadcast shape and the promoted dtype of the operands."""

    # ---- dtypes ------------------------------------------------------------------------------------------------------
    def cast(self, dtype: Any) -> Self:
        """Converted to `dtype`: float to integer drops the fraction, saturates and maps NaN to 0; integer to integer wraps; to bool is x != 0."""
        return self._cast_to(to_dtype(dtype))

    def bitcast(self, dtype: Any) -> Self:
        """The same bits read as `dtype`, of the same size. DTypeError otherwise."""
        d = to_dtype(dtype)
        if d.itemsize != self.dtype.itemsize or (d.is_bool != self.dtype.is_bool):
            raise DTypeError(f"cannot bitcast {self.dtype.name} ({self.dtype.itemsize} bytes) to {d.name} ({d.itemsize} bytes); sizes must be equal")
        return self if d is self.dtype else self._new(UOp(Op.BITCAST, d, (self.uop,)))

    def float(self) -> Self:
        """Cast to float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        """Cast to float64."""
        return self.cast(dtypes.float64)

    def half(self) -> Self:
        """Cast to float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Self:
        """Cast to bfloat16."""
        return self.cast(dtypes.bfloat16)

    def int(self) -> Self:
        """Cast to int32."""
        return self.cast(dtypes.int32)

    def long(self) -> Self:
        """Cast to int64."""
        return self.cast(dtypes.int64)

    def bool(self) -> Self:
        """Cast to bool: x != 0."""
        return self.cast(dtypes.bool)

    def is_floating_point(self) -> Any:
        """Whether the dtype is a float type."""
        return self.dtype.is_float

    def _float_input(self) -> Self:
        """Self as a float: integers and bool become the default float."""
        return self if self.dtype.is_float else self.cast(dtypes.default_float)

    def _function(self, op: Op) -> Self:
        x = self._float_input()
        return x._unary(op)

    def _numeric(self, what: str) -> Self:
        """DTypeError for bool."""
        if self.dtype.is_bool:
            raise DTypeError(f"{what} is not defined on bool; cast to an integer or float first")
        return self

    # ---- arithmetic --------------------------------------------------------------------------------------------------
    def add(self, x: Any, reverse: Any = False) -> Self:
        """self + x; logical or on bool."""
        return self._binary(Op.ADD, x, reverse)

    def sub(self, x: Any, reverse: Any = False) -> Self:
        """self - x. DTypeError on bool."""
        a, b = self._together(x, reverse)
        a._numeric("subtraction")
        return a._binary(Op.SUB, b)

    def mul(self, x: Any, reverse: Any = False) -> Self:
        """self * x; logical and on bool."""
        return self._binary(Op.MUL, x, reverse)

    def div(self, x: Any, reverse: Any = False, rounding_mode: str | None = None) -> Self:
        """self / x, a float; integers become the default float. rounding_mode "trunc" or "floor": the rounded quotient, in the promoted dtype."""
        if rounding_mode not in (None, "trunc", "floor"):
            raise DTypeError(f"rounding_mode is None, \"trunc\" or \"floor\", not {rounding_mode!r}")
        a, b = self._together(x, reverse)
        if rounding_mode is None:
            return a._float_input()._binary(Op.DIV, b._float_input())
        if a.dtype.is_float:
            return a._binary(Op.DIV, b).trunc() if rounding_mode == "trunc" else a._floor_quotient(b)
        a = a if not a.dtype.is_bool else a.cast(dtypes.default_int)
        b = b.cast(a.dtype)
        if rounding_mode == "floor" or a.dtype.is_unsigned:
            return a._binary(Op.IDIV, b)
        q = a._binary(Op.IDIV, b)                               # floor, then one up where signs differ and there is a remainder
        inexact = a._binary(Op.MOD, b).ne(0).logical_and((a < 0).ne(b < 0))
        return inexact._pick(q._binary(Op.ADD, 1), q)

    @composed
    def _floor_quotient(self, x: Self) -> Self:
        """The floor of the true quotient, as Python has it: rounding of self / x to a whole number that is too large is taken back."""
        b = x._cast_to(self.dtype)
        q = self._binary(Op.DIV, b).floor()
        rest = q.eq(0)._pick(self, self._new(UOp(Op.FMA, self.dtype, ((-q).uop, b.uop, self.uop))))
        large = ((rest < 0) & (b > 0)) | ((rest > 0) & (b < 0))
        return self.isinf()._pick(self - self, large._pick(q - 1, q))

    def idiv(self, x: Any, reverse: Any = False) -> Self:
        """Quotient rounded toward zero; see `div(rounding_mode="trunc")`."""
        return self.div(x, reverse, "trunc")

    def floordiv(self, x: Any, reverse: Any = False) -> Self:
        """self // x: rounded down, as in Python; x // 0 is 0 for integers."""
        return self.div(x, reverse, "floor")

    def mod(self, x: Any, reverse: Any = False) -> Self:
        """self % x with the sign of x, as in Python; x % 0 is 0 for integers, NaN for floats."""
        a, b = self._together(x, reverse)
        return a._numeric("modulo")._binary(Op.MOD, b)

    def fmod(self, x: Any) -> Self:
        """Remainder with the sign of self, as in C."""
        a, b = self._together(x)
        a._numeric("fmod")
        r = a.abs()._binary(Op.MOD, b.abs()) if a.dtype.is_float else None
        if r is not None:
            return (a < 0).logical_or(a.eq(0).logical_and(a.reciprocal() < 0))._pick(-r, r)
        q = a.div(b, rounding_mode="trunc")
        zero = b.eq(0)
        return zero._pick(a._constant(0, a.dtype)._broadcast_to(a.shape), a - q * b)

    def pow(self, x: Any, reverse: Any = False) -> Self:
        """self ** x. Integers give integers and take exponents from 0 on (DTypeError for a negative constant); a float gives a float."""
        x = python_number(x)
        if type(x) is int and not reverse and (not self.dtype.is_float or -1 <= x <= 4):
            return self._int_power(x)
        if isinstance(x, float) and not reverse and self.dtype.is_float:
            if x == 0.5:
                return self._unary_guarded_sqrt()
            if x in (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0):
                return self._int_power(int(x))
        a, b = self._together(x, reverse)
        if a.dtype.is_float:
            return a._binary(Op.POW, b)
        return (a.cast(dtypes.default_int) if a.dtype.is_bool else a)._binary_int_power(b)

    def _unary_guarded_sqrt(self) -> Self:
        """x ** 0.5: as sqrt, but -inf gives inf and -0.0 gives 0.0."""
        root = (self + 0.0)._unary(Op.SQRT)
        return self.eq(-math.inf)._pick(self._constant(math.inf, self.dtype)._broadcast_to(self.shape), root)

    def _int_power(self, n: Any) -> Self:
        if n < 0 and not self.dtype.is_float:
            raise DTypeError(f"an integer tensor ({self.dtype.name}) to the negative power {n} is no integer; cast to float first")
        if n < 0:
            return self.reciprocal()
        x = self.cast(dtypes.default_int if self.dtype.is_bool else dtypes.float32 if self.dtype.itemsize == 2 and self.dtype.is_float else self.dtype)
        out: Self | None = None
        while n:
            if n & 1:
                out = x if out is None else out * x
            n >>= 1
            x = x * x if n else x
        out = x._constant(1, x.dtype)._broadcast_to(x.shape) if out is None else out
        return out if self.dtype.is_bool else out._cast_to(self.dtype)

    def _binary_int_power(self, exponent: Self) -> Self:
        """Integer power by repeated squaring over the bits of the exponent; a negative exponent gives 0, but 1 for base 1 and +-1 for base -1."""
        d = self.dtype
        one, zero = (self._constant(v, d)._broadcast_to(self.shape) for v in (1, 0))
        out, x, e = one, self, exponent._cast_to(d)
        for _ in range(d.bits if d.is_unsigned else d.bits - 1):
            out = (e & 1).ne(0)._pick(out * x, out)
            x, e = x * x, e >> 1
        return out if d.is_unsigned else (exponent < 0).logical_and(self.abs().ne(1))._pick(zero, out)

    def neg(self) -> Self:
        """-self. DTypeError on bool."""
        return self._numeric("negation")._unary(Op.NEG)

    def reciprocal(self) -> Self:
        """1 / self, a float."""
        x = self._float_input()
        return x._constant(1.0, x.dtype)._binary(Op.DIV, x)

    def abs(self) -> Self:
        """Absolute value; the lowest integer stays itself."""
        return self if self.dtype.is_bool or self.dtype.is_unsigned else self._unary(Op.ABS)

    def sign(self) -> Self:
        """-1, 0 or 1 by the sign; NaN stays NaN, zeros keep their sign."""
        if self.dtype.is_bool:
            return self
        one = self._constant(1, self.dtype)._broadcast_to(self.shape)
        down = self if self.dtype.is_unsigned else (self < 0)._pick(-one, self)
        return (self > 0)._pick(one, down)

    def square(self) -> Self:
        """self * self."""
        return self * self

    def maximum(self, x: Any) -> Self:
        """The larger of the two; NaN if either is NaN."""
        return self._binary(Op.MAX, x)

    def minimum(self, x: Any) -> Self:
        """The smaller of the two; NaN if either is NaN."""
        return self._binary(Op.MIN, x)

    def clip(self, min_: Any = None, max_: Any = None) -> Self:
        """Values below min_ become min_, above max_ become max_; NaN stays, and a NaN limit gives NaN."""
        x = self if min_ is None else self.maximum(min_)
        return x if max_ is None else x.minimum(max_)

    def clamp(self, min_: Any = None, max_: Any = None) -> Self:
        """Same as `clip`."""
        return self.clip(min_, max_)

    def lerp(self, end: Any, weight: Any) -> Self:
        """self + (end - self) * weight."""
        return self.add(self._lift(end).sub(self).mul(weight))

    # ---- comparison and logic ---------------------------------------------------------------------------------------------
    def eq(self, x: Any) -> Self:
        """self == x, bool; false on NaN."""
        return self._binary(Op.CMPEQ, x)

    def ne(self, x: Any) -> Self:
        """self != x, bool; true on NaN."""
        return self._binary(Op.CMPNE, x)

    def isnan(self) -> Self:
        """Whether elements are NaN."""
        return self.ne(self) if self.dtype.is_float else self._constant(False, dtypes.bool)._broadcast_to(self.shape)

    def isinf(self) -> Self:
        """Whether elements are inf or -inf."""
        return self._unary(Op.ABS).eq(math.inf) if self.dtype.is_float else self._constant(False, dtypes.bool)._broadcast_to(self.shape)

    def isfinite(self) -> Self:
        """Whether elements are neither NaN nor infinite."""
        return self._unary(Op.ABS) < math.inf if self.dtype.is_float else self._constant(True, dtypes.bool)._broadcast_to(self.shape)

    def logical_not(self) -> Self:
        """Not, bool; numbers count as x != 0."""
        return self.cast(dtypes.bool)._unary(Op.NOT)

    def logical_and(self, x: Any) -> Self:
        """And, bool; numbers count as x != 0."""
        return self.cast(dtypes.bool)._binary(Op.AND, self._lift(x).cast(dtypes.bool))

    def logical_or(self, x: Any) -> Self:
        """Or, bool; numbers count as x != 0."""
        return self.cast(dtypes.bool)._binary(Op.OR, self._lift(x).cast(dtypes.bool))

    def logical_xor(self, x: Any) -> Self:
        """Exclusive or, bool; numbers count as x != 0."""
        return self.cast(dtypes.bool)._binary(Op.XOR, self._lift(x).cast(dtypes.bool))

    def _bits(self, op: Op, x: Any, reverse: Any = False) -> Self:
        a, b = self._together(x, reverse)
        if a.dtype.is_float:
            raise DTypeError(f"{op.name.lower()} works on integers and bool, not on {a.dtype.name}; cast first")
        return a._binary(op, b)

    def bitwise_and(self, x: Any, reverse: Any = False) -> Self:
        """self & x. DTypeError on floats."""
        return self._bits(Op.AND, x, reverse)

    def bitwise_or(self, x: Any, reverse: Any = False) -> Self:
        """self | x. DTypeError on floats."""
        return self._bits(Op.OR, x, reverse)

    def bitwise_xor(self, x: Any, reverse: Any = False) -> Self:
        """self ^ x. DTypeError on floats."""
        return self._bits(Op.XOR, x, reverse)

    def bitwise_not(self) -> Self:
        """~self. DTypeError on floats."""
        if self.dtype.is_float:
            raise DTypeError(f"not works on integers and bool, not on {self.dtype.name}; cast first")
        return self._unary(Op.NOT)

    def _shift(self, op: Op, x: Any, reverse: Any) -> Self:
        a, b = self._together(x, reverse)
        if not a.dtype.is_int:
            raise DTypeError(f"shifts work on integers, not on {a.dtype.name}; cast first")
        return a._binary(op, b)

    def lshift(self, x: Any, reverse: Any = False) -> Self:
        """self << x; 0 for a shift at or over the width, or a negative one. DTypeError on floats and bool."""
        return self._shift(Op.SHL, x, reverse)

    def rshift(self, x: Any, reverse: Any = False) -> Self:
        """self >> x, arithmetic for signed types; a shift at or over the width leaves the sign: 0 or -1. DTypeError on floats and bool."""
        return self._shift(Op.SHR, x, reverse)

    def _pick(self, x: Self, y: Self) -> Self:
        """x where self (bool), else y; all of one shape, x and y of one dtype."""
        return self._new(UOp(Op.WHERE, x.dtype, (self.uop, x.uop, y.uop)))

    def where(self, x: Any, y: Any) -> Self:
        """x where self holds, else y. Shapes broadcast, x and y promote; a number takes the other's dtype. Numbers in self count as x != 0."""
        values: list[Any] = [n if isinstance(n := python_number(t), (bool, int, float)) else self._lift(t) for t in (x, y)]
        anchor: Self | None = next((t for t in values if isinstance(t, TensorBase)), None)       # type: ignore[assignment]
        if anchor is None:
            weakest = self._constant(False, dtypes.bool)
            dtype = promote(*(weakest._scalar_dtype(n) for n in values))
            a, b = (self._constant(n, dtype) for n in values)
        else:
            a, b = (anchor._lift(t) for t in values)
            dtype = promote(a.dtype, b.dtype)
        shape = broadcast_shapes(self.shape, a.shape, b.shape, what="condition and values")
        return self.cast(dtypes.bool)._broadcast_to(shape)._pick(a._cast_to(dtype)._broadcast_to(shape), b._cast_to(dtype)._broadcast_to(shape))

    # ---- functions ---------------------------------------------------------------------------------------------------
    def sqrt(self) -> Self:
        """Square root, rounded correctly; NaN for negative numbers."""
        return self._function(Op.SQRT)

    @composed
    def rsqrt(self) -> Self:
        """1 / sqrt(self)."""
        return self.sqrt().reciprocal()

    def exp(self) -> Self:
        """e ** self."""
        return self._function(Op.EXP)

    def exp2(self) -> Self:
        """2 ** self, exact for whole numbers."""
        return self._function(Op.EXP2)

    def log(self) -> Self:
        """Natural logarithm; -inf at 0, NaN below."""
        return self._function(Op.LOG)

    def log2(self) -> Self:
        """Logarithm to base 2, exact for powers of two."""
        return self._function(Op.LOG2)

    @composed
    def log10(self) -> Self:
        """Logarithm to base 10, within 3 ulp."""
        return self.log() * (1 / LN10)

    @composed
    def log1p(self) -> Self:
        """log(1 + self), accurate near 0: within 3 ulp."""
        u = self + 1.0
        exact = u.eq(1.0).logical_or(u.eq(math.inf))
        return exact._pick(self, u.log() * (self / (u - 1.0)))

    @composed
    def expm1(self) -> Self:
        """exp(self) - 1, accurate near 0: within 3 ulp."""
        t = (self * 0.5).tanh()                                 # 2t / (1 - t) is exact algebra; near 0 it loses nothing
        near = t * 2.0 / (1.0 - t)
        a = self.abs()
        return (a < 1.0)._pick((a < 2.0 ** -60)._pick(self, near), self.exp() - 1.0)

    def sin(self) -> Self:
        """Sine, of the whole range."""
        return self._function(Op.SIN)

    def cos(self) -> Self:
        """Cosine, of the whole range."""
        return self._function(Op.COS)

    def tan(self) -> Self:
        """Tangent, of the whole range."""
        return self._function(Op.TAN)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._function(Op.TANH)

    def _odd(self, y: Self) -> Self:
        """y, made for |self|, with the sign of self; zeros and NaN of self stay."""
        return (self < 0)._pick(-y, (self > 0)._pick(y, self))

    @composed
    def sinh(self) -> Self:
        """Hyperbolic sine, within 3 ulp."""
        a = self.abs()
        e, half = a.expm1(), (a * 0.5).exp()
        return self._odd((a < 20.0)._pick((e + e / (e + 1.0)) * 0.5, half * 0.5 * half))

    @composed
    def cosh(self) -> Self:
        """Hyperbolic cosine, within 3 ulp."""
        half = (self.abs() * 0.5).exp()                         # its square could overflow where the result does not
        return half * 0.5 * half + 0.5 / half / half

    @composed
    def asin(self) -> Self:
        """Inverse sine, within 4 ulp; NaN outside of [-1, 1]."""
        return (self / ((1.0 - self) * (1.0 + self)).sqrt()).atan()

    @composed
    def acos(self) -> Self:
        """Inverse cosine, within 4 ulp; NaN outside of [-1, 1]."""
        return ((1.0 - self) / (1.0 + self)).sqrt().atan() * 2.0

    @composed
    def atan(self) -> Self:
        """Inverse tangent, within 3 ulp."""
        a = self.abs()
        outer, middle = a > 2.414213562373095, a > 0.4142135623730950       # tan(3/8 pi), tan(pi/8); beyond them turned by pi/2 and pi/4
        one = self._constant(1.0, self.dtype)._broadcast_to(self.shape)
        r = outer._pick(-one, middle._pick(a - one, a)) / outer._pick(a, middle._pick(a + one, one))
        z, terms = r * r, ATAN_64 if self.dtype is dtypes.float64 else ATAN_32
        p = one * terms[0]
        for c in terms[1:]:
            p = p * z + c
        turn = outer._pick(one * (math.pi / 2), middle._pick(one * (math.pi / 4), one * 0.0))
        return self._odd(turn + (r + r * z * p))

    @composed
    def asinh(self) -> Self:
        """Inverse hyperbolic sine, within 4 ulp."""
        a = self.abs()
        near = (a + a * a / ((a * a + 1.0).sqrt() + 1.0)).log1p()
        return self._odd((a < 2.0 ** 28)._pick(near, a.log() + LN2))

    @composed
    def acosh(self) -> Self:
        """Inverse hyperbolic cosine, within 4 ulp; NaN below 1."""
        t = self - 1.0
        near = (t + (t * (t + 2.0)).sqrt()).log1p()
        return (self < 2.0 ** 28)._pick(near, self.log() + LN2)

    @composed
    def atanh(self) -> Self:
        """Inverse hyperbolic tangent, within 4 ulp; NaN outside of [-1, 1]."""
        a = self.abs()
        return self._odd((a * 2.0 / (1.0 - a)).log1p() * 0.5)

    def erf(self) -> Self:
        """Error function."""
        return self._function(Op.ERF)

    def floor(self) -> Self:
        """Rounded down; integers stay."""
        return self._unary(Op.FLOOR) if self.dtype.is_float else self

    def ceil(self) -> Self:
        """Rounded up; integers stay."""
        return self._unary(Op.CEIL) if self.dtype.is_float else self

    def trunc(self) -> Self:
        """Rounded toward zero; integers stay."""
        return self._unary(Op.TRUNC) if self.dtype.is_float else self

    def round(self, decimals: Any = 0) -> Self:
        """Rounded to the nearest multiple of 10 ** -decimals, halves to even; integers stay (DTypeError for negative decimals)."""
        if not self.dtype.is_float and decimals < 0:
            raise DTypeError(f"round(decimals={decimals}) is not defined on {self.dtype.name}; cast to a float first")
        return self._round_floats(decimals) if self.dtype.is_float else self

    def _round_floats(self, decimals: Any) -> Self:
        if decimals == 0:
            return self._unary(Op.RINT)
        unit, x = math.pow(10, abs(decimals)), self if self.dtype.itemsize > 2 else self._cast_to(dtypes.float32)
        out = (x * unit)._unary(Op.RINT) / unit if decimals > 0 else (x / unit)._unary(Op.RINT) * unit
        return out._cast_to(self.dtype)

    # ---- operators -------------------------------------------------------------------------------------------------------
    def __add__(self, x: Any) -> Self: return self.add(x)
    def __radd__(self, x: Any) -> Self: return self.add(x, True)
    def __sub__(self, x: Any) -> Self: return self.sub(x)
    def __rsub__(self, x: Any) -> Self: return self.sub(x, True)
    def __mul__(self, x: Any) -> Self: return self.mul(x)
    def __rmul__(self, x: Any) -> Self: return self.mul(x, True)
    def __truediv__(self, x: Any) -> Self: return self.div(x)
    def __rtruediv__(self, x: Any) -> Self: return self.div(x, True)
    def __floordiv__(self, x: Any) -> Self: return self.floordiv(x)
    def __rfloordiv__(self, x: Any) -> Self: return self.floordiv(x, True)
    def __mod__(self, x: Any) -> Self: return self.mod(x)
    def __rmod__(self, x: Any) -> Self: return self.mod(x, True)
    def __pow__(self, x: Any) -> Self: return self.pow(x)
    def __rpow__(self, x: Any) -> Self: return self.pow(x, True)
    def __and__(self, x: Any) -> Self: return self.bitwise_and(x)
    def __rand__(self, x: Any) -> Self: return self.bitwise_and(x, True)
    def __or__(self, x: Any) -> Self: return self.bitwise_or(x)
    def __ror__(self, x: Any) -> Self: return self.bitwise_or(x, True)
    def __xor__(self, x: Any) -> Self: return self.bitwise_xor(x)
    def __rxor__(self, x: Any) -> Self: return self.bitwise_xor(x, True)
    def __lshift__(self, x: Any) -> Self: return self.lshift(x)
    def __rlshift__(self, x: Any) -> Self: return self.lshift(x, True)
    def __rshift__(self, x: Any) -> Self: return self.rshift(x)
    def __rrshift__(self, x: Any) -> Self: return self.rshift(x, True)
    def __neg__(self) -> Self: return self.neg()
    def __pos__(self) -> Self: return self
    def __abs__(self) -> Self: return self.abs()
    def __invert__(self) -> Self: return self.bitwise_not()
    def __lt__(self, x: Any) -> Self: return self._binary(Op.CMPLT, x)
    def __le__(self, x: Any) -> Self: return self._binary(Op.CMPLE, x)
    def __gt__(self, x: Any) -> Self: return self._binary(Op.CMPLT, x, True)
    def __ge__(self, x: Any) -> Self: return self._binary(Op.CMPLE, x, True)
    def __eq__(self, x: Any) -> Self: return self.eq(x)         # type: ignore[override]
    def __ne__(self, x: Any) -> Self: return self.ne(x)         # type: ignore[override]
    __hash__ = object.__hash__
