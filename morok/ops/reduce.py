"""Reductions and prefix scans: sums, extrema, statistics, softmax and kin. Halves are computed in float32 and rounded once."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from ..dtype import DType, dtypes, to_dtype
from ..errors import ShapeError
from ..helpers import prod
from ..uop import BufferArg, Op, UOp
from ..uop.op import identity
from ..variable import Size, is_symbolic
from .elementwise import ElementwiseOps
from .movement import MovementOps, index_dtype

Axes = int | Sequence[int] | None


def wide(dtype: DType) -> DType:
    """The float type that `dtype` is computed in: float32 for halves, integers and bool."""
    return dtype if dtype in (dtypes.float32, dtypes.float64) else dtypes.float32


def sum_dtype(dtype: DType) -> DType:
    """The type of a sum, product or prefix sum when none is asked for: 64 bits for bool and integers."""
    if dtype.is_unsigned:
        return dtypes.uint64
    return dtypes.int64 if dtype.is_int or dtype.is_bool else dtype


class ReduceOps(MovementOps, ElementwiseOps):
    """Methods that reduce or scan along axes. `axis` is an axis, several, or None for all; keepdim keeps them with size 1."""

    def _axes(self, axis: Axes) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.ndim))
        axes = tuple(self._axis(a) for a in (axis if isinstance(axis, Sequence) else (axis,)))
        if len(set(axes)) != len(axes):
            raise ShapeError(f"axis {axis!r} of shape {self.shape} names an axis twice")
        return tuple(sorted(axes)) if self.ndim else ()

    def _reduce(self, op: Op, axis: Axes, keepdim: bool) -> Self:
        axes = self._axes(axis)
        kept = tuple(1 if i in axes else n for i, n in enumerate(self.shape))
        if any(self.shape[a] == 0 for a in axes):
            x = self._filled(kept, identity(op, self.dtype.min, self.dtype.max))
        elif many := tuple(a for a in axes if self.shape[a] != 1):
            x = self._present(axes, identity(op, self.dtype.min, self.dtype.max)) if is_symbolic(self.shape) else self
            x = x._new(UOp(Op.REDUCE_AXES, self.dtype, (x.uop,), (op, many)))
        else:
            x = self
        return x if keepdim else x._with_shape(self._left(axes))

    def _present(self, axes: tuple[int, ...], other: Any) -> Self:
        """`other` beyond the ends of symbolic axes."""
        x = self
        for a in axes:
            n = self.shape[a]
            if type(n) is Size:
                place = self._along(a)
                inside: Self = place < self._size(n).cast(place.dtype)
                x = inside._select(x, self._filled(self.shape, other))
        return x

    def _size(self, n: Size) -> Self:
        """A symbolic size as a scalar."""
        return self._new(UOp(Op.BUFFER, dtypes.int64, (), BufferArg(n.variable, (), self.device)))

    def _count(self, axis: Axes, dtype: DType) -> Any:
        """How many elements the axes have: a float, or a scalar of this dtype if that is known only at the run."""
        sizes = [self.shape[a] for a in self._axes(axis)]
        out: Any = float(prod(n for n in sizes if type(n) is not Size))
        for n in sizes:
            if type(n) is Size:
                out = self._size(n).cast(dtype) * out
        return out

    def _accumulating(self, dtype: DType | None) -> tuple[Self, DType]:
        """Self in the type to accumulate in, and the type of the result."""
        out = sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        half = out.is_float and out.itemsize == 2
        return self.cast((self.dtype if self.dtype is dtypes.float64 else dtypes.float32) if half else out), out

    # ---- sums and extrema -------------------------------------------------------------------------------------------
    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """Sum, of the tensor's dtype; int64 (uint64) for bool and integers; `dtype` asks for another. 0 over an empty axis."""
        x, out = self._accumulating(dtype)
        return x._reduce(Op.ADD, axis, keepdim).cast(out)

    def prod(self, axis: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Self:
        """Product; dtypes as for `sum`. 1 over an empty axis."""
        x, out = self._accumulating(dtype)
        return x._reduce(Op.MUL, axis, keepdim).cast(out)

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Largest value, of the tensor's dtype; NaN where there is a NaN. ShapeError over an empty axis."""
        self._nonempty("max", axis)
        return self._reduce(Op.MAX, axis, keepdim)

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Smallest value, of the tensor's dtype; NaN where there is a NaN. ShapeError over an empty axis."""
        self._nonempty("min", axis)
        return self._reduce(Op.MIN, axis, keepdim)

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Bool: whether some element is not 0 (NaN is not). False over an empty axis."""
        return self.cast(dtypes.bool)._reduce(Op.MAX, axis, keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Bool: whether no element is 0. True over an empty axis."""
        return self.cast(dtypes.bool)._reduce(Op.MIN, axis, keepdim)

    def count_nonzero(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """int64: how many elements are not 0."""
        return self.cast(dtypes.bool).sum(axis, keepdim)

    def _nonempty(self, what: str, axis: Axes) -> None:
        if any(self.shape[a] == 0 for a in self._axes(axis)):
            raise ShapeError(f"{what} over axis {axis} of shape {self.shape}: an empty axis has none")

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Position, of the default int dtype, of the first NaN, else of the first largest value; in the flattened tensor for axis None.

        ShapeError over an empty axis.
        """
        return self._position(Op.MAX, axis, keepdim)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Position of the first NaN, else of the first smallest value; otherwise as `argmax`."""
        return self._position(Op.MIN, axis, keepdim)

    def _position(self, op: Op, axis: int | None, keepdim: bool) -> Self:
        self._nonempty(f"arg{op.name.lower()}", axis)
        if axis is None:
            flat = self.flatten()._position(op, 0, False)
            return flat.reshape((1,) * self.ndim) if keepdim else flat
        at = self._axis(axis)
        if self.ndim == 0:
            return self._filled((), 0, dtypes.default_int)
        n = self.shape[at]
        hit = self.eq(self._reduce(op, at, True))
        if self.dtype.is_float:
            hit = hit | self.isnan()
        place = self._along(at)
        first = hit._select(place, self._filled(self.shape, n, place.dtype))._reduce(Op.MIN, at, keepdim)
        return first.cast(dtypes.default_int)

    # ---- statistics -------------------------------------------------------------------------------------------------
    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Mean, of the tensor's float dtype; float32 for bool and integers. NaN over an empty axis."""
        out = self.dtype if self.dtype.is_float else dtypes.float32
        return self._mean(axis, keepdim).cast(out)

    def _mean(self, axis: Axes, keepdim: bool) -> Self:
        """The mean before it is rounded: integers are summed exactly (64-bit ones in float64)."""
        if self.dtype.is_float:
            total = self.cast(wide(self.dtype))._reduce(Op.ADD, axis, keepdim)
        else:
            exact = dtypes.float64 if self.dtype.itemsize == 8 else sum_dtype(self.dtype)
            total = self.cast(exact)._reduce(Op.ADD, axis, keepdim).cast(dtypes.float64)
        mean: Self = total / self._count(axis, total.dtype)
        return mean

    def var_mean(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """(variance, mean), as `var` and `mean`."""
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std_mean(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> tuple[Self, Self]:
        """(standard deviation, mean), as `std` and `mean`."""
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Variance, sum((x - mean)**2) / (n - correction), of the tensor's float dtype, float32 for integers. NaN when n <= correction."""
        out = self.dtype if self.dtype.is_float else dtypes.float32
        return self._var(axis, keepdim, correction).cast(out)

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Self:
        """Standard deviation: the square root of `var`."""
        out = self.dtype if self.dtype.is_float else dtypes.float32
        return self._var(axis, keepdim, correction).sqrt().cast(out)

    def _moments(self, axis: Axes, correction: int = 0) -> tuple[Self, Self]:
        """Mean and variance, axes kept, of a float32 or float64 tensor.

        What rounding left in the first mean is the mean of the deviations; taking it out keeps constant rows at 0 (Chan, Golub, LeVeque 1983).
        """
        n = self._count(axis, self.dtype)
        mean = self._reduce(Op.ADD, axis, True) / n
        if isinstance(n, float) and n <= max(correction, 0):
            return mean, mean._filled(mean.shape, math.nan)
        off = self - mean
        rest = off._reduce(Op.ADD, axis, True)
        squares = (off * off)._reduce(Op.ADD, axis, True) - rest * rest / n
        left = n - correction
        return mean + rest / n, squares.maximum(0) / (left if isinstance(left, float) else left.maximum(0))

    def _var(self, axis: Axes, keepdim: bool, correction: int) -> Self:
        var = self.cast(wide(self.dtype))._moments(axis, correction)[1]
        return var if keepdim else var.reshape(self._left(self._axes(axis)))

    def _left(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape without `axes`."""
        return tuple(n for i, n in enumerate(self.shape) if i not in axes)

    # ---- exponentials -----------------------------------------------------------------------------------------------
    def softmax(self, axis: int = -1, dtype: DType | None = None) -> Self:
        """exp(x - max) / sum(exp(x - max)) along `axis`, of the float dtype of the tensor or of `dtype`; a row of -inf gives NaN."""
        x, out = self._floating(dtype)
        e = x._off(axis).exp()
        return (e / e._reduce(Op.ADD, axis, True)).cast(out)

    def log_softmax(self, axis: int = -1, dtype: DType | None = None) -> Self:
        """log(softmax(x)) along `axis`, without its overflow."""
        x, out = self._floating(dtype)
        off = x._off(axis)
        return (off - off.exp()._reduce(Op.ADD, axis, True).log()).cast(out)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log(sum(exp(x))), without its overflow, of the tensor's float dtype; -inf over rows of -inf or an empty axis."""
        x, out = self._floating(None)
        axes = self._axes(axis)
        if any(self.shape[a] == 0 for a in axes):
            return x._reduce(Op.ADD, axes, keepdim).log().cast(out)
        top = x._reduce(Op.MAX, axes, True)._finite()
        total = (x - top).exp()._reduce(Op.ADD, axes, True).log() + top
        return (total if keepdim else total.reshape(self._left(axes))).cast(out)

    def _floating(self, dtype: DType | None) -> tuple[Self, DType]:
        """Self in the float type to compute in, and the type of the result."""
        out = to_dtype(dtype) if dtype is not None else self.dtype if self.dtype.is_float else dtypes.default_float
        return self.cast(wide(out)), out

    def _off(self, axis: int) -> Self:
        """x - max along `axis`."""
        return self if any(self.shape[a] == 0 for a in self._axes(axis)) else self - self._reduce(Op.MAX, axis, True)

    def _finite(self) -> Self:
        """Infinities and NaN replaced by 0: a maximum that may be subtracted from itself."""
        return (self.abs() < math.inf)._select(self, self._filled(self.shape, 0))

    # ---- prefix reductions ------------------------------------------------------------------------------------------
    def _scan(self, op: Op, axis: int) -> Self:
        at = self._axis(axis)
        return self if self.ndim == 0 or self.shape[at] == 1 or 0 in self.shape else self._new(UOp(Op.SCAN_AXIS, self.dtype, (self.uop,), (op, at)))

    def cumsum(self, axis: int = 0, dtype: DType | None = None) -> Self:
        """Sums of the elements up to each place along `axis`; dtypes as for `sum`; O(n)."""
        x, out = self._accumulating(dtype)
        return x._scan(Op.ADD, axis).cast(out)

    def cumprod(self, axis: int = 0, dtype: DType | None = None) -> Self:
        """Products of the elements up to each place along `axis`; dtypes as for `sum`; O(n)."""
        x, out = self._accumulating(dtype)
        return x._scan(Op.MUL, axis).cast(out)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """(largest value up to each place, its last position in the default int dtype); NaN from the first NaN on."""
        return self._extreme_so_far(Op.MAX, axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """(smallest value up to each place, its last position in the default int dtype); NaN from the first NaN on."""
        return self._extreme_so_far(Op.MIN, axis)

    def _extreme_so_far(self, op: Op, axis: int) -> tuple[Self, Self]:
        values = self._scan(op, axis)
        if self.ndim == 0:
            return values, self._filled((), 0, dtypes.default_int)
        here = self.eq(values)
        if self.dtype.is_float:
            here = here | self.isnan()
        place = self._along(self._axis(axis))
        return values, here._select(place, place._filled(place.shape, 0))._scan(Op.MAX, axis).cast(dtypes.default_int)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """logsumexp of the elements up to each place along `axis`, of the tensor's float dtype; O(n**2) work in the axis."""
        x, out = self._floating(None)
        if self.ndim == 0 or 0 in self.shape:
            x._scan(Op.ADD, axis)
            return x.cast(out)
        at = self._axis(axis)
        last = x.permute(tuple(i for i in range(x.ndim) if i != at) + (at,))
        n = last.shape[-1]
        top = last._scan(Op.MAX, -1)._finite()
        pairs = (*last.shape, n)
        row, column = (last._along(last.ndim - 1 + i, index_dtype(n), pairs) for i in (0, 1))
        terms = (last.unsqueeze(-2) - top.unsqueeze(-1)).exp()
        kept = (column <= row)._select(terms, terms._filled(pairs, 0))
        total = kept._reduce(Op.ADD, -1, False).log() + top
        back = (*range(at), x.ndim - 1, *range(at, x.ndim - 1))
        return total.permute(back).cast(out)
