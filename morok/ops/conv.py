"""Convolution and pooling over any number of spatial axes: windows by Op.WINDOW, then one reduction."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ..dtype import DType, dtypes
from ..errors import ShapeError
from ..helpers import ceildiv, prod
from ..uop import Op
from .base import whole_numbers
from .linalg import LinalgOps, contractible
from .movement import Pair
from .reduce import wide

Sizes = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[Pair]


class ConvOps(LinalgOps):
    """Methods on (batch, channels, *spatial) tensors."""

    def conv2d(self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Sizes = 1, dilation: Sizes = 1, padding: Padding = 0,
               dtype: DType | None = None) -> Self:
        """Cross-correlation of (batch, cin, *spatial) with (cout, cin // groups, *kernel), plus bias (cout,); any number of spatial axes.

        padding: one amount, one an axis, a (before, after) pair an axis, or flat as in PyTorch's pad (last axis first).
        Dtypes as for `dot`. ShapeError when channels, groups, kernel or options do not fit.
        """
        weight, bias = self._lift(weight), None if bias is None else self._lift(bias)
        n = weight.ndim - 2
        if n < 1 or self.ndim != weight.ndim:
            raise ShapeError(f"conv2d needs (batch, channels, *spatial) and a weight with as many axes, got {self.shape} and {weight.shape}")
        batch, cin, (cout, per_group), kernel = self.shape[0], self.shape[1], weight.shape[:2], weight.shape[2:]
        if groups < 1 or cin != groups * per_group or cout % groups:
            raise ShapeError(f"conv2d of {self.shape} with weight {weight.shape} in {groups} groups: the weight's axis 1 must be {cin} / groups, "
                             f"and its axis 0 divisible by groups")
        if bias is not None and bias.shape != (cout,):
            raise ShapeError(f"conv2d bias must have shape {(cout,)}, one value a channel of weight {weight.shape}; got {bias.shape}")
        (x, w), out = contractible([self, weight], dtype)
        x = x._padded_windows("conv2d", kernel, stride, dilation, resolve_padding(padding, n), 0)
        spatial = x.shape[2:2 + n]
        x = x.reshape((batch, groups, 1, per_group, *spatial, *kernel))
        axes = range(4, 4 + n)
        x = x.permute((0, 1, 2, *axes, 3, *range(4 + n, 4 + 2 * n)))
        w = w.reshape((1, groups, cout // groups, *(1,) * n, per_group, *kernel))
        y = (x * w)._reduce(Op.ADD, tuple(range(3 + n, 4 + 2 * n)), False).reshape((batch, cout, *spatial)).cast(out)
        return y if bias is None else y + bias.reshape((1, -1, *(1,) * n))

    def max_pool2d(self, kernel_size: Sizes = (2, 2), stride: Sizes | None = None, dilation: Sizes = 1, padding: Padding = 0,
                   ceil_mode: bool = False) -> Self:
        """Largest value of each window over the last axes, one a kernel size; padding never wins; dtype kept; NaN propagates.

        stride: kernel_size by default. ceil_mode: also a last window that starts inside the input or its left padding.
        """
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else whole_numbers("kernel_size", kernel_size)
        pads = self._pool_padding("max_pool2d", kernel, stride, dilation, padding, ceil_mode)[1]
        x = self._padded_windows("max_pool2d", kernel, kernel if stride is None else stride, dilation, pads, self.dtype.min)
        return x._reduce(Op.MAX, tuple(range(-len(kernel), 0)), False)

    def avg_pool2d(self, kernel_size: Sizes = (2, 2), stride: Sizes | None = None, dilation: Sizes = 1, padding: Padding = 0,
                   ceil_mode: bool = False, count_include_pad: bool = True) -> Self:
        """Mean of each window over the last axes, one a kernel size; float32 for integers; other options as for `max_pool2d`.

        count_include_pad: padding counts as zeros; what ceil_mode adds beyond it never counts.
        """
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else whole_numbers("kernel_size", kernel_size)
        n, step = len(kernel), kernel if stride is None else stride
        asked, pads = self._pool_padding("avg_pool2d", kernel, stride, dilation, padding, ceil_mode)
        window_axes = tuple(range(-n, 0))
        total = self.cast(wide(self.dtype))._padded_windows("avg_pool2d", kernel, step, dilation, pads, 0)._reduce(Op.ADD, window_axes, False)
        counted, blank = (asked, tuple((a - b, c - d) for (a, c), (b, d) in zip(pads, asked, strict=True))) if count_include_pad else ([], pads)
        if any(b or a for b, a in blank):
            spatial = self.shape[self.ndim - n:]
            ones = total._filled(tuple(s + b + a for s, (b, a) in zip(spatial, counted or [(0, 0)] * n, strict=True)), 1)
            count = ones._padded_windows("avg_pool2d", kernel, step, dilation, blank, 0)._reduce(Op.ADD, window_axes, False)
            mean = total / count
        else:
            mean = total / float(prod(kernel))
        return mean.cast(self.dtype if self.dtype.is_float else dtypes.float32)

    def _pool_padding(self, what: str, kernel: Sequence[int], stride: Sizes | None, dilation: Sizes, padding: Padding,
                      ceil_mode: bool) -> tuple[list[Pair], list[Pair]]:
        """The padding asked for, and with what ceil_mode adds after it."""
        n = len(kernel)
        if self.ndim < n:
            raise ShapeError(f"{what} with kernel_size {tuple(kernel)} needs at least {n} axes, got shape {self.shape}")
        asked = resolve_padding(padding, n)
        if not ceil_mode:
            return asked, asked
        out = []
        steps, spread = resolve_sizes("stride", kernel if stride is None else stride, n), resolve_sizes("dilation", dilation, n)
        for size, k, s, d, (before, after) in zip(self.shape[self.ndim - n:], kernel, steps, spread, asked, strict=True):
            span = d * (k - 1) + 1
            windows = ceildiv(size + before + after - span, s) + 1
            windows -= (windows - 1) * s >= size + before
            out.append((before, max(after, (windows - 1) * s + span - size - before)))
        return asked, out

    def _padded_windows(self, what: str, kernel: Sequence[int], stride: Sizes, dilation: Sizes, pads: Sequence[Pair], value: bool | float) -> Self:
        """Windows over the last len(kernel) axes of self padded with `value`; the kernel axes follow at the end."""
        n = len(kernel)
        steps, spread = resolve_sizes("stride", stride, n), resolve_sizes("dilation", dilation, n)
        x = self.pad(((0, 0),) * (self.ndim - n) + tuple(pads), value=value)
        spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, spread, strict=True))
        if any(k < 1 for k in kernel) or any(span > size for span, size in zip(spans, x.shape[x.ndim - n:], strict=True)):
            raise ShapeError(f"{what}: kernel {tuple(kernel)} with dilation {spread} spans {spans}, "
                             f"the padded input has {x.shape[x.ndim - n:]}; it must fit")
        return x._windows(tuple((self.ndim - n + i, k, s, d) for i, (k, s, d) in enumerate(zip(kernel, steps, spread, strict=True))))


def resolve_sizes(name: str, value: Sizes, n: int) -> tuple[int, ...]:
    """One positive number an axis."""
    out = (value,) * n if isinstance(value, int) else whole_numbers(name, value)
    if len(out) != n or any(v < 1 for v in out):
        raise ShapeError(f"{name} must be one positive number or {n} of them, got {value!r}")
    return out


def resolve_padding(padding: Padding, n: int) -> list[Pair]:
    """(before, after) of each of n axes."""
    if not isinstance(padding, (tuple, list)):
        padding = whole_numbers("padding", (padding,))[0]
        pairs = [(padding, padding)] * n
    elif len(padding) == n and all(isinstance(p, int) for p in padding):
        pairs = [(p, p) for p in padding]
    elif len(padding) == 2 * n and all(isinstance(p, int) for p in padding):
        pairs = [(padding[2 * i], padding[2 * i + 1]) for i in reversed(range(n))]
    elif len(padding) == n and all(isinstance(p, (tuple, list)) and len(p) == 2 for p in padding):
        pairs = [(p[0], p[1]) for p in padding]
    else:
        pairs = [(-1, -1)]
    if any(p < 0 for pair in pairs for p in pair):
        raise ShapeError(f"padding must be an amount, {n} amounts, {n} (before, after) pairs or {2 * n} flat amounts, none negative; got {padding!r}")
    return pairs
