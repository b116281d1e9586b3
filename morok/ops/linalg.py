"""Matrix products: matmul, linear, outer and einsum, all as a sum over products of expanded operands in the order of axes (.., M, N, K)."""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self, TypeVar

from ..dtype import DType, promote, to_dtype
from ..errors import ShapeError
from ..uop import Op, UOp
from .base import broadcast_shapes, expanded, reshaped
from .reduce import ReduceOps, wide

Label = str | int          # of an axis in einsum: a letter, or a negative number for an axis under the ellipsis, counted from the right
L = TypeVar("L", bound="LinalgOps")


class LinalgOps(ReduceOps):
    """Methods that contract axes."""

    def dot(self, w: Self, dtype: DType | None = None) -> Self:
        """Matrix product: the last axis of self against the last but one of w (its only one if it is a vector); other axes broadcast.

        The dtypes are promoted; halves accumulate in float32 and round once; `dtype` asks for another type. ShapeError where sizes do not fit.
        """
        w = self._lift(w)
        if self.ndim == 0 or w.ndim == 0:
            raise ShapeError(f"cannot matmul {self.shape} and {w.shape}: a scalar has no axis to contract; use *")
        axis = -min(w.ndim, 2)
        if self.shape[-1] != w.shape[axis]:
            raise ShapeError(f"cannot matmul {self.shape} and {w.shape}: the last axis of the first has size {self.shape[-1]}, "
                             f"axis {axis} of the second has size {w.shape[axis]}; they must be equal")
        (a, b), out = contractible([self, w], dtype)
        left, order, right, shape = product_axes(self.shape, w.shape)
        x, y = reshaped(a.uop, left), UOp(Op.PERMUTE, b.dtype, (b.uop,), order) if order else b.uop
        terms = self._new(UOp(Op.MUL, a.dtype, (expanded(x, shape), expanded(reshaped(y, right), shape))))
        return terms._reduce(Op.ADD, -1, False).cast(out)

    def matmul(self, x: Self, reverse: bool = False, dtype: DType | None = None) -> Self:
        """Same as `dot`; x @ self when `reverse`."""
        return self._lift(x).dot(self, dtype) if reverse else self.dot(x, dtype)

    def __matmul__(self, x: Any) -> Self:
        return self.dot(x)

    def __rmatmul__(self, x: Any) -> Self:
        return self._lift(x).dot(self)

    def linear(self, weight: Self, bias: Self | None = None, dtype: DType | None = None) -> Self:
        """self @ weight (in, out) + bias (out,); self * weight when the weight is a vector. Dtypes as for `dot`."""
        weight = self._lift(weight)
        x = self * weight if weight.ndim == 1 else self.dot(weight, dtype)
        return x if bias is None else x + bias

    def outer(self, vec2: Self) -> Self:
        """self[i] * vec2[j] of two vectors. ShapeError for other shapes."""
        vec2 = self._lift(vec2)
        if self.ndim != 1 or vec2.ndim != 1:
            raise ShapeError(f"outer takes two vectors, got shapes {self.shape} and {vec2.shape}")
        return self.unsqueeze(1) * vec2.unsqueeze(0)

    @staticmethod
    def einsum(formula: str, *operands: L, dtype: DType | None = None) -> L:
        """Sum of products by index letters, such as "bij,bjk->bik"; repeated letters take diagonals, "..." stands for axes that broadcast.

        Without "->" the letters that occur once, in alphabetical order, are the output. Dtypes as for `dot`.
        ShapeError when letters, operands and shapes do not fit.
        """
        if not operands:
            raise ShapeError(f"einsum {formula!r} needs at least one tensor")
        inputs, output = parse_einsum(formula, [x.shape for x in operands])
        (first, *rest), out = contractible(operands, dtype)
        result, labels = take_diagonals(first, inputs[0])
        for i, x in enumerate(rest, 1):
            later = {c for term in inputs[i + 1:] for c in term}
            result, labels = contract((result, labels), take_diagonals(x, inputs[i]), output, later)
        drop = tuple(i for i, c in enumerate(labels) if c not in output)
        left = [c for c in labels if c in output]
        if drop:
            result = result._reduce(Op.ADD, drop, False)
        return result.permute(tuple(left.index(c) for c in output)).cast(out)


@lru_cache(1024)
def product_axes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """For operands of these shapes: the shape of the first, the order and then the shape of the second, and the shape of the terms, axes (.., M, N, K)."""
    left, order, right = a, (), b
    if (n := len(b)) > 1:
        left, order, right = (*a[:-1], 1, a[-1]), (*range(n - 2), n - 1, n - 2), (*b[:-2], *((1,) if len(a) > 1 else ()), b[-1], b[-2])
    try:
        terms = broadcast_shapes(left, right)
    except ShapeError:
        raise ShapeError(f"cannot matmul {a} and {b}: batch axes {a[:-2]} and {b[:-2]} do not broadcast") from None
    left, right = ((1,) * (len(terms) - len(s)) + s for s in (left, right))
    return left, order, right, terms


def contractible(xs: Sequence[L], dtype: DType | None) -> tuple[list[L], DType]:
    """The tensors in the type to multiply and accumulate in, and the type of the result."""
    common = promote(*(x.dtype for x in xs))
    out = common if dtype is None else to_dtype(dtype)
    used = promote(wide(out), wide(common)) if out.is_float and common.is_float else wide(out) if out.is_float else out
    return [x.cast(used) for x in xs], out


def parse_einsum(formula: str, shapes: list[tuple[int, ...]]) -> tuple[list[list[Label]], list[Label]]:
    """The labels of every operand's axes and of the output's; checks them against the shapes."""
    left, arrow, right = formula.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"einsum {formula!r} names {len(terms)} operands, got {len(shapes)} tensors")
    inputs = [expand_labels(t, len(s), formula) for t, s in zip(terms, shapes, strict=True)]
    size: dict[Label, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for c, n in zip(labels, shape, strict=True):
            if n != 1 and size.setdefault(c, n) not in (1, n):
                raise ShapeError(f"einsum {formula!r} of shapes {shapes}: index {c!r} has size {size[c]} and {n}")
            size[c] = n if n != 1 else size.get(c, 1)
    every = [c for labels in inputs for c in labels]
    hidden: list[Label] = sorted({c for c in every if isinstance(c, int)})
    if arrow:
        before, dots, after = right.partition("...")
        output: list[Label] = [*before, *(hidden if dots else ()), *after]
    else:
        output = [*hidden, *sorted(c for c in every if isinstance(c, str) and every.count(c) == 1)]
    if unknown := [c for c in output if c not in every or output.count(c) > 1]:
        raise ShapeError(f"einsum {formula!r}: output index {unknown[0]!r} must occur in an operand and once in the output")
    return inputs, output


def expand_labels(term: str, ndim: int, formula: str) -> list[Label]:
    before, dots, after = term.partition("...")
    if not all(c.isascii() and c.isalpha() for c in before + after):
        raise ShapeError(f"einsum {formula!r}: indices are letters, got {term!r}")
    hidden = ndim - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise ShapeError(f"einsum {formula!r}: {term!r} names {len(before) + len(after)} axes of a tensor that has {ndim}")
    return [*before, *range(-hidden, 0), *after]


def take_diagonals(x: L, labels: list[Label]) -> tuple[L, list[Label]]:
    """Repeated labels of one operand become one axis, the diagonal, at the end."""
    labels = list(labels)
    while len(set(labels)) < len(labels):
        c = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(c)
        j = labels.index(c, i + 1)
        if x.shape[i] != x.shape[j]:
            raise ShapeError(f"einsum: index {c!r} repeats on axes of sizes {x.shape[i]} and {x.shape[j]} of shape {x.shape}")
        x = x.diagonal(0, i, j)
        labels = [c2 for k, c2 in enumerate(labels) if k not in (i, j)] + [c]
    return x, labels


def contract(a: tuple[L, list[Label]], b: tuple[L, list[Label]], output: list[Label], later: set[Label]) -> tuple[L, list[Label]]:
    """The product of two labelled tensors, summed over labels that neither the output nor a later operand has."""
    every = list(dict.fromkeys(a[1] + b[1]))
    kept = [c for c in output if c in every] + [c for c in every if c in later and c not in output]
    order = kept + [c for c in every if c not in kept]
    x, y = (spread(t, labels, order) for t, labels in (a, b))
    product = x * y
    summed = tuple(range(len(kept), len(order)))
    return (product._reduce(Op.ADD, summed, False) if summed else product), kept


def spread(x: L, labels: list[Label], order: list[Label]) -> L:
    """x with its axes in `order`, those it lacks of size 1."""
    x = x.permute(tuple(labels.index(c) for c in order if c in labels))
    sizes = iter(x.shape)
    return x.reshape(tuple(next(sizes) if c in labels else 1 for c in order))
