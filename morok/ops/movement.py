"""Movement: reshape, permute, expand, pad, shrink, flip and what is made of them; index arithmetic only, never a copy of its own."""
from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, Self, TypeVar

from ..dtype import DType, dtypes, promote
from ..errors import DTypeError, ShapeError
from ..helpers import ceildiv, prod
from ..uop import Op, UOp
from ..variable import Size, Variable, is_symbolic
from .base import TensorBase, whole_numbers

Pair = tuple[int, int]
M = TypeVar("M", bound=TensorBase)


def sizes(first: Any, rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(2, 3), f((2, 3)) and f([2, 3]) all as (2, 3)."""
    if isinstance(first, (tuple, list)):
        if rest:
            raise ShapeError(f"sizes are given either as one sequence or as separate arguments, got both: {first!r} and {rest!r}")
        return tuple(first)
    return (first, *rest)


class MovementOps(TensorBase):
    """Methods that move elements around."""

    def _move(self, op: Op, arg: Any) -> Self:
        if Variable.used:
            check_move(op, self.shape, arg)
        return self._new(UOp(op, self.dtype, (self.uop,), arg))

    # ---- shape ------------------------------------------------------------------------------------------------------
    def reshape(self, shape: Any, *args: Any) -> Self:
        """The same elements in row-major order under another shape; one size may be -1, None keeps the size of that axis.

        ShapeError when the element counts differ.
        """
        asked = sizes(shape, args)
        if asked == self.shape:
            return self
        if None in asked[self.ndim:]:
            raise ShapeError(f"reshape {self.shape} to {asked}: None keeps the size of an axis that is not there")
        new = list(whole_numbers("reshape", asked if None not in asked else tuple([self.shape[i] if s is None else s for i, s in enumerate(asked)])))
        total = prod(self.shape)
        if new.count(-1) == 1:
            known = prod(s for s in new if s != -1)
            if known == 0 or total % known:
                raise ShapeError(f"cannot reshape {self.shape} ({total} elements) to {asked}: no size for -1 fits")
            new[new.index(-1)] = total // known
        if min(new, default=0) < 0 or prod(new) != total:
            raise ShapeError(f"cannot reshape {self.shape} ({total} elements) to {asked}")
        if is_symbolic((*self.shape, *new)) and symbolic_axes(self.shape) != symbolic_axes(new):
            raise ShapeError(f"cannot reshape {self.shape} to {asked}: a symbolic axis must stay an axis of its own")
        return self._with_shape(tuple(new))

    def view(self, shape: Any, *args: Any) -> Self:
        """Same as `reshape`."""
        return self.reshape(shape, *args)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Axes start_dim..end_dim merged into one; a scalar becomes shape (1,)."""
        if self.ndim == 0:
            return self.reshape(1)
        start, end = self._axis(start_dim), self._axis(end_dim)
        if start > end:
            raise ShapeError(f"flatten of shape {self.shape}: start_dim {start_dim} lies after end_dim {end_dim}")
        return self.reshape((*self.shape[:start], prod(self.shape[start:end + 1]), *self.shape[end + 1:]))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Axis `dim` split into `sizes`, one of which may be -1. ShapeError when they do not multiply to its size."""
        axis, new = self._axis(dim), list(whole_numbers("unflatten", sizes))
        known = prod(s for s in new if s != -1)
        if new.count(-1) == 1 and known and self.shape[axis] % known == 0:
            new[new.index(-1)] = self.shape[axis] // known
        if prod(new) != self.shape[axis] or any(s < 0 for s in new):
            raise ShapeError(f"cannot unflatten axis {dim} of size {self.shape[axis]} into {tuple(sizes)}")
        return self.reshape((*self.shape[:axis], *new, *self.shape[axis + 1:]))

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Without axes of size 1: all of them, or those of `dim` that have size 1."""
        if dim is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        if self.ndim == 0 and dim in (0, -1):
            return self
        drop = {self._axis(d) for d in (dim if isinstance(dim, Sequence) else (dim,))}
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if i not in drop or n != 1))

    def unsqueeze(self, dim: int) -> Self:
        """With a new axis of size 1 at `dim`, which counts in the result's axes."""
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise ShapeError(f"unsqueeze of shape {self.shape}: dim {dim} is outside [{-self.ndim - 1}, {self.ndim}]")
        at = dim % (self.ndim + 1)
        return self._with_shape((*self.shape[:at], 1, *self.shape[at:]))

    def expand(self, shape: Any, *args: Any) -> Self:
        """Axes of size 1 repeated to the sizes asked; -1 or None keeps an axis; new axes may be added in front.

        ShapeError when another axis would change.
        """
        asked = sizes(shape, args)
        if asked == self.shape:
            return self
        own = (1,) * (len(asked) - self.ndim) + self.shape
        new = whole_numbers("expand", tuple([n if s is None or s == -1 else s for s, n in zip(asked, own, strict=False)]))
        if len(own) != len(asked) or any(n not in (1, s) or s < 0 for s, n in zip(new, own, strict=True)):
            raise ShapeError(f"cannot expand {self.shape} to {asked}: only axes of size 1 can be repeated, and only in front can axes be added")
        x = self.reshape(own)
        return x if new == own else x._move(Op.EXPAND, new)

    # ---- order of axes ----------------------------------------------------------------------------------------------
    def permute(self, order: Any, *args: Any) -> Self:
        """Axes in another order: out.shape[i] = shape[order[i]]. ShapeError unless `order` names every axis once."""
        asked = sizes(order, args)
        axes = tuple(self._axis(a) for a in asked)
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError(f"permute of shape {self.shape}: {asked} must name each of the {self.ndim} axes once")
        return self if axes == tuple(range(self.ndim)) else self._move(Op.PERMUTE, axes)

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Axes dim0 and dim1 exchanged. ShapeError when one does not exist."""
        order = list(range(self.ndim))
        a, b = self._axis(dim0), self._axis(dim1)
        order[a], order[b] = b, a
        return self.permute(tuple(order))

    @property
    def T(self) -> Self:
        """The first two axes exchanged; scalars and vectors as they are."""
        return self if self.ndim < 2 else self.transpose()

    @property
    def mT(self) -> Self:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    def flip(self, axis: Any, *args: Any) -> Self:
        """Reversed along the axes given; each at most once."""
        axes = tuple(self._axis(a) for a in sizes(axis, args))
        if len(set(axes)) != len(axes):
            raise ShapeError(f"flip of shape {self.shape}: axes {axes} name an axis twice")
        return self._move(Op.FLIP, tuple(sorted(axes))) if axes else self

    # ---- parts ------------------------------------------------------------------------------------------------------
    def shrink(self, arg: Sequence[Pair | None]) -> Self:
        """Elements start..end-1 of each axis; None keeps an axis. ShapeError unless 0 <= start <= end <= size."""
        try:
            pairs = [(0, n) if p is None else (int(p[0]), p[1] if type(p[1]) is Size else int(p[1])) for p, n in zip(arg, self.shape, strict=True)]
        except (TypeError, ValueError):
            pairs = []
        if len(pairs) != self.ndim or any(not 0 <= a <= b <= n for (a, b), n in zip(pairs, self.shape, strict=False)):
            raise ShapeError(f"cannot shrink {self.shape} to {arg!r}: every axis needs (start, end) with 0 <= start <= end <= size, or None")
        return self._strided(tuple((a, 1, b - a) for a, b in pairs))

    def _strided(self, arg: tuple[tuple[int, int, int], ...]) -> Self:
        """SHRINK, unless it takes all."""
        whole = all(a == (0, 1, n) or (a[0] == 0 and a[2] == n == 1) for a, n in zip(arg, self.shape, strict=True))
        return self if whole else self._move(Op.SHRINK, arg)

    def _slice(self, axis: int, start: int, end: int) -> Self:
        return self._strided(tuple((start, 1, end - start) if i == axis else (0, 1, n) for i, n in enumerate(self.shape)))

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Pieces along `dim`: of `sizes` elements each (the last may be shorter), or of the sizes listed, which must add up."""
        axis = self._axis(dim)
        n = self.shape[axis]
        if isinstance(sizes, int):
            if sizes <= 0 and n:
                raise ShapeError(f"split of axis {dim} of size {n} into pieces of {sizes}: the size must be positive")
            sizes = [min(sizes, n - i) for i in range(0, max(n, 1), max(sizes, 1))]
        if sum(sizes) != n or any(s < 0 for s in sizes):
            raise ShapeError(f"split sizes {list(sizes)} do not add up to {n}, the size of axis {dim} of {self.shape}")
        return tuple(self._slice(axis, end - s, end) for s, end in zip(sizes, accumulate(sizes), strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most `chunks` pieces of equal size along `dim`, the last one possibly shorter."""
        if chunks <= 0:
            raise ShapeError(f"chunk of shape {self.shape}: chunks must be positive, got {chunks}")
        n = self.shape[self._axis(dim)]
        return self.split(ceildiv(n, chunks) if n else [0] * chunks, dim)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Elements [i, i + offset] of axes dim1 and dim2, as a new last axis in their place."""
        a, b = self._axis(dim1), self._axis(dim2)
        if a == b:
            raise ShapeError(f"diagonal of shape {self.shape}: dim1 and dim2 are both axis {a}")
        x = self.permute(tuple(i for i in range(self.ndim) if i not in (a, b)) + (a, b))
        rows, cols = x.shape[-2:]
        top, left = max(0, -offset), max(0, offset)
        n = max(0, min(rows - top, cols - left))
        x = x._slice(x.ndim - 2, min(top, rows), min(top, rows) + n)._slice(x.ndim - 1, min(left, cols), min(left, cols) + n)
        flat = x.reshape((*x.shape[:-2], n * n))
        return flat._strided((*((0, 1, s) for s in flat.shape[:-1]), (0, n + 1, n)))

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """Windows of `size` elements, `step` apart, along `dim`: the axis counts windows and a last axis of `size` is added."""
        axis = self._axis(dim)
        if size < 1 or step < 1 or size > self.shape[axis]:
            raise ShapeError(f"unfold axis {dim} of {self.shape} by size {size}, step {step}: need 1 <= size <= {self.shape[axis]} and step >= 1")
        return self._windows(((axis, size, step, 1),))

    def _windows(self, arg: tuple[tuple[int, int, int, int], ...]) -> Self:
        """Op.WINDOW; entries are (axis, kernel, stride, dilation)."""
        return self._move(Op.WINDOW, arg)

    # ---- larger -----------------------------------------------------------------------------------------------------
    def pad(self, padding: Sequence[Any], mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
            value: bool | float = 0.0) -> Self:
        """Elements added before and after: one (before, after) or None per axis, or flat as in PyTorch (last axis first, fewer axes allowed).

        Negative amounts cut off. `value` fills in mode "constant"; the other modes repeat own elements. The dtype stays.
        ShapeError for a wrong number of entries or, outside "constant", more padding than the axis can give; DTypeError when
        an integer tensor cannot hold `value`.
        """
        pairs = self._pad_pairs(padding)
        if Variable.used:
            check_move(Op.PAD, self.shape, pairs)
        x = self.shrink(tuple((min(-min(b, 0), n), max(n + min(a, 0), min(-min(b, 0), n))) for n, (b, a) in zip(self.shape, pairs, strict=True)))
        if any(n + b + a < 0 for n, (b, a) in zip(self.shape, pairs, strict=True)):
            raise ShapeError(f"pad of shape {self.shape} by {tuple(padding)} leaves an axis of negative size")
        pairs = tuple((max(b, 0), max(a, 0)) for b, a in pairs)
        if mode == "constant":
            return x._pad_constant(pairs, value)
        if mode not in ("reflect", "replicate", "circular"):
            raise ShapeError(f"pad mode {mode!r}: must be constant, reflect, replicate or circular")
        for axis, (before, after) in enumerate(pairs):
            if before or after:
                x = x._pad_own(axis, before, after, mode)
        return x

    def _pad_pairs(self, padding: Sequence[Any]) -> tuple[Pair, ...]:
        if all(isinstance(p, int) for p in padding):
            if len(padding) % 2 or len(padding) > 2 * self.ndim:
                raise ShapeError(f"pad of shape {self.shape} by flat {tuple(padding)}: needs two amounts for each of at most {self.ndim} axes")
            given = [(padding[i], padding[i + 1]) for i in range(0, len(padding), 2)]
            return ((0, 0),) * (self.ndim - len(given)) + tuple(reversed(given))
        if len(padding) != self.ndim or any(p is not None and len(p) != 2 for p in padding):
            raise ShapeError(f"pad of shape {self.shape} by {tuple(padding)}: needs (before, after) or None for each of {self.ndim} axes")
        return tuple((0, 0) if p is None else (int(p[0]), int(p[1])) for p in padding)

    def _pad_constant(self, pairs: tuple[Pair, ...], value: bool | float) -> Self:
        if not any(b or a for b, a in pairs):
            return self
        check_holds(self.dtype, value, "pad")
        if 0 in self.shape:
            return self._filled(tuple(n + b + a for n, (b, a) in zip(self.shape, pairs, strict=True)), value)
        padded = self._move(Op.PAD, pairs)
        if value == 0 and math.copysign(1, value) > 0:
            return padded
        inside = self._filled(self.shape, True, dtypes.bool)._move(Op.PAD, pairs)
        return inside._select(padded, self._filled(padded.shape, value))

    def _pad_own(self, axis: int, before: int, after: int, mode: str) -> Self:
        n = self.shape[axis]
        most = {"reflect": n - 1, "circular": n, "replicate": max(before, after) if n else 0}[mode]
        if max(before, after) > most:
            raise ShapeError(f"pad mode {mode!r} of axis {axis}: ({before}, {after}) is more than the {most} elements that size {n} can give")
        if mode == "reflect":
            left, right = self._slice(axis, 1, before + 1).flip(axis), self._slice(axis, n - 1 - after, n - 1).flip(axis)
        elif mode == "circular":
            left, right = self._slice(axis, n - before, n), self._slice(axis, 0, after)
        else:
            left, right = (self._slice(axis, at, at + 1).expand((*self.shape[:axis], count, *self.shape[axis + 1:]))
                           for at, count in ((0, before), (n - 1, after)))
        return left.cat(self, right, dim=axis)

    def cat(self, *args: Self, dim: int = 0) -> Self:
        """Tensors joined along `dim`; also `Tensor.cat([x, y])`. Shapes agree on all other axes, dtypes are promoted.

        ShapeError names the shapes and `dim` where they do not fit.
        """
        xs = operands(self, args)
        first = xs[0]
        axis = first._axis(dim)
        if Variable.used and len(xs) > 1 and is_symbolic([x.shape[axis] for x in xs if x.ndim > axis]):
            raise ShapeError(f"cannot cat shapes {[x.shape for x in xs]} along dim {dim}: a size there is known only when the plan runs")
        others = [(x.ndim, x.shape[:axis], x.shape[axis + 1:]) for x in xs]
        if any(o != others[0] for o in others):
            raise ShapeError(f"cannot cat shapes {[x.shape for x in xs]} along dim {dim}: all other axes must agree")
        dtype = promote(*(x.dtype for x in xs))
        full = [x._cast_to(dtype) for x in xs if x.shape[axis]] or [first._cast_to(dtype)]
        return full[0] if len(full) == 1 else first._new(UOp(Op.CAT, dtype, tuple(x.uop for x in full), axis))

    def stack(self, *args: Self, dim: int = 0) -> Self:
        """Tensors of one shape joined along a new axis `dim`; also `Tensor.stack([x, y])`. ShapeError when shapes differ."""
        xs = operands(self, args)
        if any(x.shape != xs[0].shape for x in xs):
            raise ShapeError(f"cannot stack shapes {[x.shape for x in xs]}: all must be equal")
        first, *rest = (x.unsqueeze(dim) for x in xs)
        return first.cat(*rest, dim=dim)

    def repeat(self, repeats: Any, *args: Any) -> Self:
        """The whole tensor repeated along each axis; more repeats than axes add axes in front."""
        times = tuple(int(r) for r in sizes(repeats, args))
        if len(times) < self.ndim or any(r < 0 for r in times):
            raise ShapeError(f"repeat of shape {self.shape} by {times}: needs at least {self.ndim} counts, none negative")
        own = (1,) * (len(times) - self.ndim) + self.shape
        both = list(zip(times, own, strict=True))
        apart = self.reshape(tuple(s for n in own for s in (1, n))).expand(tuple(s for pair in both for s in pair))
        return apart.reshape(tuple(r * n for r, n in both))

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Each element repeated in place along `dim`; of the flattened tensor when None."""
        x = self.flatten() if dim is None else self
        axis = 0 if dim is None else self._axis(dim)
        if repeats < 0:
            raise ShapeError(f"repeat_interleave of shape {self.shape}: repeats must not be negative, got {repeats}")
        before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
        return x.reshape((*before, n, 1, *after)).expand((*before, n, repeats, *after)).reshape((*before, n * repeats, *after))

    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Elements moved by `shifts` along `dims`, those past the end come back at the start; of the flattened tensor when None."""
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        amounts = [shifts] if isinstance(shifts, int) else list(shifts)
        axes = [dims] if isinstance(dims, int) else list(dims)
        if len(amounts) != len(axes):
            raise ShapeError(f"roll of shape {self.shape}: {len(amounts)} shifts for {len(axes)} dims")
        x = self
        for amount, axis in zip(amounts, (self._axis(d) for d in axes), strict=True):
            n = x.shape[axis]
            if n and amount % n:
                cut = n - amount % n
                x = x._slice(axis, cut, n).cat(x._slice(axis, 0, cut), dim=axis)
        return x

    def meshgrid(self, *args: Self, indexing: Literal["ij", "xy"] = "ij") -> tuple[Self, ...]:
        """Vectors (or scalars) expanded against each other, one axis each; "xy" exchanges the first two axes."""
        xs = operands(self, args)
        if any(x.ndim > 1 for x in xs):
            raise ShapeError(f"meshgrid takes scalars and vectors, got shapes {[x.shape for x in xs]}")
        if indexing not in ("ij", "xy"):
            raise ShapeError(f"meshgrid indexing must be 'ij' or 'xy', got {indexing!r}")
        shape = tuple(prod(x.shape) for x in xs)
        out = tuple(x.reshape((1,) * i + (-1,) + (1,) * (len(xs) - i - 1)).expand(shape) for i, x in enumerate(xs))
        return tuple(x.transpose() for x in out) if indexing == "xy" and len(xs) > 1 else out

    # ---- triangles --------------------------------------------------------------------------------------------------
    def tril(self, diagonal: int = 0) -> Self:
        """Zero above the diagonal of the last two axes. ShapeError below two axes."""
        return self._triangle(diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """Zero below the diagonal of the last two axes. ShapeError below two axes."""
        return self._triangle(diagonal, lower=False)

    def _triangle(self, diagonal: int, lower: bool) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"{'tril' if lower else 'triu'} needs at least two axes, got shape {self.shape}")
        row = self._along(self.ndim - 2, dtypes.int64)
        column = self._along(self.ndim - 1, dtypes.int64)
        edge = row._binary(Op.ADD, diagonal)
        keep = column._binary(Op.CMPLE, edge) if lower else edge._binary(Op.CMPLE, column)
        return keep._select(self, self._filled(self.shape, 0))

    def diag(self) -> Self:
        """The diagonal of a matrix, or the square matrix with this vector on its diagonal."""
        if self.ndim == 2:
            return self.diagonal()
        if self.ndim != 1:
            raise ShapeError(f"diag takes a vector or a matrix, got shape {self.shape}")
        square = self.reshape(1, -1).expand(self.shape * 2)
        on = square._along(0, dtypes.int64)._binary(Op.CMPEQ, square._along(1, dtypes.int64))
        return on._select(square, square._filled(square.shape, 0))

    # ---- shared with the other families -----------------------------------------------------------------------------
    def _filled(self, shape: tuple[int, ...], value: Any, dtype: DType | None = None) -> Self:
        """A constant of this shape."""
        return self._new(UOp(Op.CONST, dtype or self.dtype, (), value)).expand(shape)

    def _along(self, axis: int, dtype: DType | None = None, shape: tuple[int, ...] | None = None) -> Self:
        """The coordinate along `axis` at every place of `shape` (own shape by default); int32 where that suffices."""
        shape = self.shape if shape is None else shape
        dtype = dtype or index_dtype(shape[axis])
        iota = self._new(UOp(Op.IOTA, dtype, (), shape[axis]))
        return iota._with_shape((1,) * axis + (shape[axis],) + (1,) * (len(shape) - axis - 1)).expand(shape)

    def _select(self, x: Self, y: Self) -> Self:
        """WHERE(self, x, y) of equal shapes and dtypes."""
        return self._new(UOp(Op.WHERE, x.dtype, (self.expand(x.shape).uop, x.uop, y.uop)))


def symbolic_axes(shape: Sequence[int]) -> list[tuple[int, int]]:
    """The symbolic sizes of a shape, each after the number of elements of the axes before it."""
    return [(prod(shape[:i]), n) for i, n in enumerate(shape) if type(n) is Size]


def check_move(op: Op, shape: tuple[int, ...], arg: Any) -> None:
    """ShapeError for a movement along a symbolic axis that depends on where the axis ends."""
    for i, n in enumerate(shape):
        if type(n) is not Size:
            continue
        moved = ((op is Op.FLIP and i in arg) or (op is Op.PAD and arg[i] != (0, 0)) or (op is Op.WINDOW and any(entry[0] == i for entry in arg))
                 or (op is Op.SHRINK and arg[i] != (0, 1, n) and arg[i][0] + arg[i][1] * (int(arg[i][2]) - 1) >= n.variable.lo))
        if moved:
            raise ShapeError(f"{op.name.lower()} of shape {shape} along axis {i}: its size {n} is known only when the plan runs"
                             + (f"; the first {n.variable.lo} elements can be taken" if op is Op.SHRINK else ""))


def index_dtype(n: int) -> DType:
    """The narrowest type, of int32 and int64, that counts to n."""
    return dtypes.int32 if n < 2**31 else dtypes.int64


def operands(first: M, rest: tuple[M, ...]) -> list[M]:
    """Tensors given as arguments or as one list."""
    xs: list[M] = [*first, *rest] if isinstance(first, (list, tuple)) else [first, *rest]
    for x in xs:
        if not isinstance(x, TensorBase):
            raise DTypeError(f"expected tensors, got {type(x).__name__}: {x!r}")
    if not xs:
        raise ShapeError("at least one tensor is needed, got an empty list")
    return xs


def check_holds(dtype: DType, value: Any, what: str) -> None:
    """DTypeError when `dtype` has no such value."""
    if not dtype.is_float and (not math.isfinite(value) or dtype.const(value) != value):
        raise DTypeError(f"{what} value {value!r} is no {dtype.name}; give one that is, or cast the tensor first")
