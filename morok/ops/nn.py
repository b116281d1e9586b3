"""What networks are made of: normalizations, embedding, attention and losses."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Self

from ..errors import DTypeError, ShapeError
from ..uop import Op
from .activation import ActivationOps
from .conv import ConvOps
from .indexing import IndexingOps
from .random import RandomOps
from .reduce import Axes

Reduction = Literal["none", "sum", "mean"]


class NNOps(ConvOps, IndexingOps, RandomOps, ActivationOps):
    """Methods of networks. Halves are computed in float32 and rounded once."""

    # ---- normalization ----------------------------------------------------------------------------------------------
    def layernorm(self, axis: Axes = -1, eps: float = 1e-5) -> Self:
        """(x - mean) / sqrt(var + eps) over `axis`, var with divisor n; of the tensor's float dtype, float32 for integers."""
        x, out = self._floating(None)
        mean, var = x._moments(axis)
        return ((x - mean) * (var + eps).rsqrt()).cast(out)

    def rms_norm(self, axis: Axes = -1, eps: float = 1e-6) -> Self:
        """x / sqrt(mean(x**2) + eps) over `axis`; of the tensor's float dtype, float32 for integers."""
        x, out = self._floating(None)
        return (x * ((x * x)._mean(axis, True) + eps).rsqrt()).cast(out)

    def batchnorm(self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: int | Sequence[int] = 1) -> Self:
        """(x - mean) * invstd * weight + bias, each a vector along `axis` (or of the shape of those axes)."""
        axes = self._axes(axis)
        shape = tuple(n if i in axes else 1 for i, n in enumerate(self.shape))
        x, out = self._floating(None)
        mean, invstd = self._lift(mean), self._lift(invstd)
        weight, bias = (None if t is None else self._lift(t) for t in (weight, bias))
        x = (x - mean.reshape(shape)) * (invstd.reshape(shape) if weight is None else invstd.reshape(shape) * weight.reshape(shape))
        return (x if bias is None else x + bias.reshape(shape)).cast(out)

    def embedding(self, weight: Self) -> Self:
        """Rows of `weight` (n, *features) at the integers self: shape (*self.shape, *features), dtype of the weight.

        IndexingError for an index known to be outside; one that is outside only at run time reads 0.
        """
        weight = self._lift(weight)
        if not self.dtype.is_int:
            raise DTypeError(f"embedding looks up rows of its argument at the integers self; self has dtype {self.dtype.name}. Call indices.embedding(weight)")
        if weight.ndim < 1:
            raise ShapeError("embedding needs a weight with at least one axis, got a scalar")
        return weight[self]

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """The functions applied one after the other."""
        x = self
        for f in ll:
            x = f(x)
        return x

    # ---- attention --------------------------------------------------------------------------------------------------
    def scaled_dot_product_attention(self, key: Self, value: Self, attn_mask: Self | None = None, dropout_p: float = 0.0, is_causal: bool = False,
                                     scale: float | None = None, enable_gqa: bool = False) -> Self:
        """softmax(self @ key.T * scale + mask) @ value of (.., L, E), (.., S, E) and (.., S, V): shape (.., L, V).

        attn_mask: bool (True takes part) or an added float, broadcast to (.., L, S). is_causal: query i sees keys 0..i.
        scale: 1 / sqrt(E) by default. enable_gqa: fewer heads (axis -3) of key and value, each for several of self's.
        """
        key, value = self._lift(key), self._lift(value)
        if self.ndim < 2 or key.ndim < 2 or value.ndim < 2 or self.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
            raise ShapeError(f"attention of query {self.shape}, key {key.shape}, value {value.shape}: needs (.., L, E), (.., S, E), (.., S, V)")
        if attn_mask is not None and is_causal:
            raise ShapeError("attention takes attn_mask or is_causal, not both")
        if enable_gqa:
            key, value = (t.repeat_interleave(self.shape[-3] // t.shape[-3], -3) for t in (key, value))
        q, out = self._floating(None)
        k, v = key.cast(q.dtype), value.cast(q.dtype)
        scores = q.dot(k.transpose(-2, -1)) * (1.0 / math.sqrt(self.shape[-1]) if scale is None else scale)
        if is_causal:
            rows, columns = (scores._along(scores.ndim - i) for i in (2, 1))
            scores = (columns <= rows)._select(scores, scores._filled(scores.shape, -math.inf))
        if attn_mask is not None:
            scores = scores._masked_scores(attn_mask)
        weights = scores.softmax(-1)
        if dropout_p:
            weights = weights.dropout(dropout_p)
        return weights.dot(v).cast(out)

    def _masked_scores(self, mask: Self) -> Self:
        mask = self._lift(mask)
        if mask.dtype.is_bool:
            return mask.where(self, -math.inf)
        if not mask.dtype.is_float:
            raise DTypeError(f"attn_mask must be bool or float, got {mask.dtype.name}")
        return self + mask.cast(self.dtype)

    # ---- losses -----------------------------------------------------------------------------------------------------
    def cross_entropy(self, Y: Self, reduction: Reduction = "mean", label_smoothing: float = 0.0) -> Self:
        """-log of the softmax over axis 1 (0 of a vector) at the class Y, an integer tensor without that axis.

        Y may also be probabilities, floats of self's shape: then the sum weighted by them. "mean" divides by the number of samples.
        ShapeError when Y has neither shape, IndexingError for a class known to be outside.
        """
        axis = self._class_axis()
        x, out = self._floating(None)
        Y = self._lift(Y)
        if Y.shape == self.shape and not Y.dtype.is_int:
            target = Y.cast(x.dtype) * (1 - label_smoothing) + label_smoothing / max(self.shape[axis], 1)
            loss = -(x.log_softmax(axis) * target).sum(axis)
        else:
            loss = x._class_loss(Y, axis, label_smoothing)
        return loss._reduced(reduction).cast(out)

    def sparse_categorical_crossentropy(self, Y: Self, ignore_index: int = -1, label_smoothing: float = 0.0, reduction: Reduction = "mean") -> Self:
        """-log of the softmax over the last axis at the class Y, an integer tensor without that axis.

        Samples of class `ignore_index` do not count.
        """
        x, out = self._floating(None)
        Y = self._lift(Y)
        counts = Y.ne(ignore_index)
        loss = x._class_loss(counts.where(Y, 0), self._axis(-1), label_smoothing)
        return counts.where(loss, 0.0)._reduced_over(counts, reduction).cast(out)

    def nll_loss(self, Y: Self, weight: Self | None = None, ignore_index: int | None = None, reduction: Reduction = "mean") -> Self:
        """-self at the class Y along axis 1 (0 of a vector) of log-probabilities, times the weight (classes,) of that class."""
        x, out = self._floating(None)
        Y = self._lift(Y)
        counts = Y.ne(ignore_index) if ignore_index is not None else Y.eq(Y)
        classes = counts.where(Y, 0)
        w = counts.cast(x.dtype) if weight is None else self._lift(weight).cast(x.dtype)[classes] * counts.cast(x.dtype)
        loss = counts.where(-x._at_class(classes, self._class_axis()), 0.0) * w
        return loss._reduced_over(w, reduction).cast(out)

    def binary_crossentropy(self, Y: Self, reduction: Reduction = "mean") -> Self:
        """-Y*log(x) - (1-Y)*log(1-x) of probabilities and targets of one shape."""
        x, out = self._floating(None)
        Y = self._lift(Y)
        return (-(Y * x.log()) - (1 - Y) * (1 - x).log())._reduced(reduction).cast(out)

    def binary_crossentropy_logits(self, Y: Self, reduction: Reduction = "mean", pos_weight: Self | None = None) -> Self:
        """binary_crossentropy of sigmoid(self), without its overflow; pos_weight multiplies the loss of Y = 1."""
        x, out = self._floating(None)
        Y = self._lift(Y)
        rest = x.abs().neg().exp().log1p() + x.neg().relu()
        weight = 1 if pos_weight is None else (self._lift(pos_weight) - 1) * Y + 1
        return ((1 - Y) * x + rest * weight)._reduced(reduction).cast(out)

    def _class_axis(self) -> int:
        if self.ndim == 0:
            raise ShapeError("a loss over classes needs at least one axis, got a scalar")
        return 0 if self.ndim == 1 else 1

    def _at_class(self, Y: Self, axis: int) -> Self:
        expected = self.shape[:axis] + self.shape[axis + 1:]
        if Y.shape != expected or not Y.dtype.is_int:
            raise ShapeError(f"classes for {self.shape} must be integers of shape {expected}, or probabilities of its shape; "
                             f"got {Y.dtype.name} {Y.shape}")
        return self._gather(axis, Y.unsqueeze(axis), wrap=False).squeeze(axis)

    def _class_loss(self, Y: Self, axis: int, label_smoothing: float) -> Self:
        """-log_softmax at the classes Y, smoothed; reads self, not a table of log_softmax."""
        top = self._reduce(Op.MAX, axis, True)
        off = self - top
        log_total = off.exp().sum(axis).log()
        loss = log_total - (self._at_class(Y, axis) - top.squeeze(axis))
        return loss if not label_smoothing else loss * (1 - label_smoothing) + (log_total - off.mean(axis)) * label_smoothing

    def _reduced(self, reduction: Reduction) -> Self:
        return self._reduced_over(None, reduction)

    def _reduced_over(self, weight: Self | None, reduction: Reduction) -> Self:
        """The losses, their sum, or their sum divided by that of the weights."""
        if reduction not in ("none", "sum", "mean"):
            raise ShapeError(f"reduction must be 'none', 'sum' or 'mean', got {reduction!r}")
        if reduction == "none":
            return self
        return self.sum() if reduction == "sum" else self.mean() if weight is None else self.sum() / weight.sum()
