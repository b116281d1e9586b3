"""Normalizations, attention and losses against formulas in NumPy float64."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import IndexingError, ShapeError
from morok.uop import Op

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def test_layernorm() -> None:
    a = normal(2, 3, 8) + 5
    same(Lazy(a).layernorm(), reference.normalize(a, -1, 1e-5), dtypes.float32, 1e-5)
    same(Lazy(a).layernorm((1, 2), 1e-3), reference.normalize(a, (1, 2), 1e-3), dtypes.float32, 1e-5)
    half = Lazy(a.astype(np.float16)).layernorm()
    same(half, reference.normalize(a.astype(np.float16), -1, 1e-5), dtypes.float16, 2e-3)
    same(Lazy(np.full((2, 1000), 10000.1, np.float32)).layernorm(), np.zeros((2, 1000)))
    same(Lazy(np.zeros((2, 0), np.float32)).layernorm(), np.zeros((2, 0)))


def test_rms_and_batch_norm() -> None:
    a, w, b, m, v = normal(2, 3, 8), normal(3), normal(3), normal(3), np.abs(normal(3)) + 1
    same(Lazy(a).rms_norm(eps=1e-5), a / np.sqrt((a.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5), dtypes.float32, 1e-6)
    plain = (a - m[:, None].astype(np.float64)) / np.sqrt(v[:, None])
    want = plain * w[:, None] + b[:, None]
    same(Lazy(a).batchnorm(Lazy(w), Lazy(b), Lazy(m), Lazy(v).rsqrt()), want, dtypes.float32, 1e-5)
    same(Lazy(a).batchnorm(None, None, Lazy(m), Lazy(v).rsqrt()), plain, dtypes.float32, 1e-5)


def test_embedding() -> None:
    w, i = normal(10, 4), np.array([[0, 9, -1], [3, 3, 5]])
    got = Lazy(i).embedding(Lazy(w))
    same(got, w[i], dtypes.float32)
    ops = [u.op for u in got.uop.toposort()]
    assert ops.count(Op.GATHER) == 1 and Op.REDUCE_AXES not in ops
    with pytest.raises(IndexingError, match="index 10 .*axis 0 of size 10"):
        Lazy([10]).embedding(Lazy(w))
    same(Lazy([10]).lazy().embedding(Lazy(w)), np.zeros((1, 4)))


def test_sequential() -> None:
    same(Lazy([-1.0, 2.0]).sequential([lambda x: x * 2, Lazy.relu]), [0, 4])


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"}, {"mask": "float"}])
def test_attention(options: dict[str, Any]) -> None:
    q, k, v = normal(2, 3, 5, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 4)
    options = dict(options)
    mask = {"": None, "bool": normal(3, 5, 6) > -0.5, "float": normal(5, 6)}[options.pop("mask", "")]
    want = reference.attention(q, k, v, np.tri(5, 6, 0, bool) if "is_causal" in options else mask, options.get("scale"))
    got = Lazy(q).scaled_dot_product_attention(Lazy(k), Lazy(v), None if mask is None else Lazy(mask), **options)
    same(got, want, dtypes.float32, 1e-5)


def test_attention_variants() -> None:
    q, k, v = normal(1, 4, 3, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8)
    want = reference.attention(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1))
    same(Lazy(q).scaled_dot_product_attention(Lazy(k), Lazy(v), enable_gqa=True), want, None, 1e-5)
    half = Lazy(q).half().scaled_dot_product_attention(Lazy(q).half(), Lazy(q).half())
    assert half.dtype is dtypes.float16 and all(u.dtype is dtypes.float32 for u in half.uop.toposort() if u.op is Op.REDUCE_AXES)
    for bad in (lambda: Lazy(q).scaled_dot_product_attention(Lazy(q), Lazy(q[:, :, :2])),
                lambda: Lazy(q).scaled_dot_product_attention(Lazy(q), Lazy(q), Lazy(np.ones((3, 3), bool)), is_causal=True)):
        with pytest.raises(ShapeError, match="attention"):
            bad()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(6, 10), (10,), (2, 10, 3)])
def test_cross_entropy(reduction: Any, smoothing: float, shape: tuple[int, ...]) -> None:
    a = normal(*shape) * 5
    y = np.asarray(rng.integers(0, 10, shape[:1] + shape[2:] if len(shape) > 1 else ()))
    axis = min(a.ndim - 1, 1)
    want = reference.reduced(reference.cross_entropy(a, y, axis, smoothing), reduction)
    got = Lazy(a).cross_entropy(Lazy(y), reduction, smoothing)
    same(got, want, dtypes.float32, 1e-5)
    assert [u.op for u in got.uop.toposort()].count(Op.GATHER) == 1
    p = np.abs(normal(*shape))
    want = reference.reduced(reference.cross_entropy(a, p, axis, smoothing), reduction)
    same(Lazy(a).cross_entropy(Lazy(p), reduction, smoothing), want, dtypes.float32, 1e-5)


def test_cross_entropy_edges() -> None:
    big = Lazy([[1e4, 0.0], [-1e4, 0.0]])
    same(big.cross_entropy(Lazy([1, 1]), "none"), [1e4, 0])
    same(Lazy([[0.0, -math.inf]]).cross_entropy(Lazy([0])), 0)
    for y in ([2, 0], [-1, 0]):
        with pytest.raises(IndexingError, match="size 2"):
            big.cross_entropy(Lazy(y))
    for y in (Lazy([1]), Lazy([1.0, 1.0])):
        with pytest.raises(ShapeError, match="classes"):
            big.cross_entropy(y)
    with pytest.raises(ShapeError, match="reduction"):
        big.cross_entropy(Lazy([0, 1]), "max")                     # type: ignore[arg-type]


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_other_losses(reduction: Any) -> None:
    a, y = normal(6, 10), np.array([1, -1, 3, 9, 0, -1])
    kept, late = y >= 0, np.maximum(y, 0)
    want = reference.reduced(reference.cross_entropy(a, late, 1) * kept, reduction, kept)
    same(Lazy(a).sparse_categorical_crossentropy(Lazy(y), reduction=reduction), want, dtypes.float32, 1e-5)
    w, logp = np.abs(normal(10)), reference.log_softmax(a, 1)
    want = reference.reduced(reference.cross_entropy(a, late, 1) * w[late] * kept, reduction, w[late] * kept)
    same(Lazy(logp.astype(np.float32)).nll_loss(Lazy(y), Lazy(w), -1, reduction), want, dtypes.float32, 1e-5)
    want = reference.reduced(reference.cross_entropy(a, np.abs(y), 1), reduction)
    same(Lazy(logp.astype(np.float32)).nll_loss(Lazy(np.abs(y)), reduction=reduction), want, dtypes.float32, 1e-5)
    t = rng.uniform(0, 1, (6, 10)).astype(np.float32)
    p = 1 / (1 + np.exp(-a.astype(np.float64)))
    want = reference.reduced(-t * np.log(p) - (1 - t) * np.log(1 - p), reduction)
    same(Lazy(a).sigmoid().binary_crossentropy(Lazy(t), reduction), want, None, 1e-5)
    for weight in (None, np.abs(normal(10))):
        want = reference.reduced(-t * np.log(p) * (1 if weight is None else weight) - (1 - t) * np.log(1 - p), reduction)
        same(Lazy(a).binary_crossentropy_logits(Lazy(t), reduction, None if weight is None else Lazy(weight)), want, dtypes.float32, 1e-5)
    same(Lazy([200.0, -200.0]).binary_crossentropy_logits(Lazy([0.0, 1.0]), "none"), [200, 200])
