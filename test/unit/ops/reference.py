"""Formulas in NumPy float64, written for clarity, that the tensor methods are compared with."""
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def spans(size: int, k: int, stride: int, dilation: int, before: int, after: int, ceil_mode: bool = False) -> list[tuple[list[int], int]]:
    """For each window along an axis, as PyTorch defines them: its positions, some of them outside, and how many are not beyond the padding."""
    reach = dilation * (k - 1)
    count = (size + before + after - reach - 1 + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + before:
        count -= 1
    windows = [[o * stride + i * dilation - before for i in range(k)] for o in range(count)]
    return [(w, sum(p < size + after for p in w)) for w in windows]


def windows(x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], padding: tuple[tuple[int, int], ...],
            ceil_mode: bool = False) -> Any:
    """For every window: its place, the count of windows, (kernel offset, position) of what lies inside each axis, size with padding."""
    lead = x.ndim - len(kernel)
    axes = [spans(n, k, s, d, *p, ceil_mode) for n, k, s, d, p in zip(x.shape[lead:], kernel, stride, dilation, padding, strict=True)]
    for at in product(*(range(len(a)) for a in axes)):
        chosen = [a[i] for a, i in zip(axes, at, strict=True)]
        offsets = [[(j, p) for j, p in enumerate(w) if 0 <= p < n] for (w, _), n in zip(chosen, x.shape[lead:], strict=True)]
        yield at, tuple(len(a) for a in axes), offsets, int(np.prod([c for _, c in chosen]))


def conv(x: Array, w: Array, bias: Array | None, groups: int, stride: tuple[int, ...], dilation: tuple[int, ...],
         padding: tuple[tuple[int, int], ...]) -> Array:
    """Cross-correlation, summed window by window."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    out: Array | None = None
    for at, count, offsets, _ in windows(x, w.shape[2:], stride, dilation, padding):
        if out is None:
            out = np.zeros((x.shape[0], w.shape[0], *count))
        kernel, place = (np.ix_(*[[pair[part] for pair in axis] for axis in offsets]) for part in (0, 1))
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for g in range(groups):
            xs = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *place)].reshape(x.shape[0], -1)
            ws = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *kernel)].reshape(per_out, -1)
            out[(slice(None), slice(g * per_out, (g + 1) * per_out), *at)] = xs @ ws.T
    assert out is not None
    return out if bias is None else out + bias.reshape(1, -1, *[1] * (x.ndim - 2))


def pool(x: Array, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[tuple[int, int], ...], ceil_mode: bool, kind: str) -> Array:
    """kind "max", "mean" (padding counts as zeros) or "mean inside" (padding does not count)."""
    lead = x.shape[:x.ndim - len(kernel)]
    out: Array | None = None
    for at, count, offsets, counted in windows(x, kernel, stride, (1,) * len(kernel), padding, ceil_mode):
        if out is None:
            out = np.zeros((*lead, *count))
        inside = x[(..., *np.ix_(*[[p for _, p in axis] for axis in offsets]))].reshape(*lead, -1).astype(np.float64)
        out[(..., *at)] = inside.max(-1) if kind == "max" else inside.sum(-1) / (counted if kind == "mean" else inside.shape[-1])
    assert out is not None
    return out


def log_softmax(x: Array, axis: int) -> Array:
    x = x.astype(np.float64)
    off = x - x.max(axis, keepdims=True)
    return np.asarray(off - np.log(np.exp(off).sum(axis, keepdims=True)))


def normalize(x: Array, axis: Any, eps: float) -> Array:
    """(x - mean) / sqrt(var + eps)."""
    x = x.astype(np.float64)
    return np.asarray((x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps))


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, scale: float | None = None) -> Array:
    """softmax(q @ k.T * scale + mask) @ v; a bool mask keeps."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np.asarray(np.exp(log_softmax(scores, -1)) @ v)


def cross_entropy(x: Array, y: Array, axis: int, smoothing: float = 0.0) -> Array:
    """Losses of classes, or of probabilities of x's shape."""
    logp, n = log_softmax(x, axis), x.shape[axis]
    p = np.moveaxis(np.eye(n)[y], -1, axis) if y.dtype.kind == "i" else y
    return np.asarray(-(logp * (p * (1 - smoothing) + smoothing / n)).sum(axis))


def reduced(losses: Array, reduction: str, weight: Any = None) -> Any:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / (losses.size if weight is None else np.sum(weight))


# ---- activations -------------------------------------------------------------------------------------------------------
def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def elu(x: Any) -> Any:
    return np.where(x > 0, x, np.expm1(x))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
