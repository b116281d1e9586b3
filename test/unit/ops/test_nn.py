"""Normalizations, attention and losses against PyTorch in float64."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import IndexingError, ShapeError
from morok.uop import Op

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def wide(a: Any) -> torch.Tensor:
    return torch.tensor(a).double()


def test_layernorm() -> None:
    a = normal(2, 3, 8) + 5
    same(Lazy(a).layernorm(), F.layer_norm(wide(a), (8,)).numpy(), dtypes.float32, 1e-5)
    same(Lazy(a).layernorm((1, 2), 1e-3), F.layer_norm(wide(a), (3, 8), eps=1e-3).numpy(), dtypes.float32, 1e-5)
    half = Lazy(a.astype(np.float16)).layernorm()
    same(half, F.layer_norm(wide(a.astype(np.float16)), (8,)).numpy(), dtypes.float16, 2e-3)
    same(Lazy(np.full((2, 1000), 10000.1, np.float32)).layernorm(), np.zeros((2, 1000)))
    same(Lazy(np.zeros((2, 0), np.float32)).layernorm(), np.zeros((2, 0)))


def test_rms_and_batch_norm() -> None:
    a, w, b, m, v = normal(2, 3, 8), normal(3), normal(3), normal(3), np.abs(normal(3)) + 1
    same(Lazy(a).rms_norm(eps=1e-5), F.rms_norm(wide(a), (8,), eps=1e-5).numpy(), dtypes.float32, 1e-6)
    want = F.batch_norm(wide(a), wide(m), wide(v), wide(w), wide(b), eps=0).numpy()
    same(Lazy(a).batchnorm(Lazy(w), Lazy(b), Lazy(m), Lazy(v).rsqrt()), want, dtypes.float32, 1e-5)
    same(Lazy(a).batchnorm(None, None, Lazy(m), Lazy(v).rsqrt()), F.batch_norm(wide(a), wide(m), wide(v), eps=0).numpy(), dtypes.float32, 1e-5)


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
    kind = options.pop("mask", None)
    mask = {None: None, "bool": np.tri(5, 6, 0, bool), "float": normal(5, 6)}[kind]
    want = F.scaled_dot_product_attention(wide(q), wide(k), wide(v),
    None if mask is None else torch.tensor(mask) if kind == "bool" else wide(mask), **options)
    got = Lazy(q).scaled_dot_product_attention(Lazy(k), Lazy(v), None if mask is None else Lazy(mask), **options)
    same(got, want.numpy(), dtypes.float32, 1e-5)


def test_attention_variants() -> None:
    q, k, v = normal(1, 4, 3, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8)
    want = F.scaled_dot_product_attention(wide(q), wide(k), wide(v), enable_gqa=True).numpy()
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
    want = F.cross_entropy(wide(a), torch.tensor(y), reduction=reduction, label_smoothing=smoothing).numpy()
    got = Lazy(a).cross_entropy(Lazy(y), reduction, smoothing)
    same(got, want, dtypes.float32, 1e-5)
    assert [u.op for u in got.uop.toposort()].count(Op.GATHER) == 1
    p = np.abs(normal(*shape))
    want = F.cross_entropy(wide(a), wide(p), reduction=reduction, label_smoothing=smoothing).numpy()
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
    want = F.cross_entropy(wide(a), torch.tensor(y), ignore_index=-1, reduction=reduction).numpy()
    same(Lazy(a).sparse_categorical_crossentropy(Lazy(y), reduction=reduction), want, dtypes.float32, 1e-5)
    w, logp = np.abs(normal(10)), torch.log_softmax(wide(a), 1)
    want = F.nll_loss(logp, torch.tensor(y), wide(w), ignore_index=-1, reduction=reduction).numpy()
    same(Lazy(logp.float().numpy()).nll_loss(Lazy(y), Lazy(w), -1, reduction), want, dtypes.float32, 1e-5)
    want = F.nll_loss(logp, torch.tensor(np.abs(y)), reduction=reduction).numpy()
    same(Lazy(logp.float().numpy()).nll_loss(Lazy(np.abs(y)), reduction=reduction), want, dtypes.float32, 1e-5)
    t = rng.uniform(0, 1, (6, 10)).astype(np.float32)
    want = F.binary_cross_entropy(torch.sigmoid(wide(a)), wide(t), reduction=reduction).numpy()
    same(Lazy(a).sigmoid().binary_crossentropy(Lazy(t), reduction), want, None, 1e-5)
    for weight in (None, np.abs(normal(10))):
        theirs = None if weight is None else wide(weight)
        want = F.binary_cross_entropy_with_logits(wide(a), wide(t), reduction=reduction, pos_weight=theirs).numpy()
        same(Lazy(a).binary_crossentropy_logits(Lazy(t), reduction, None if weight is None else Lazy(weight)), want, dtypes.float32, 1e-5)
    same(Lazy([200.0, -200.0]).binary_crossentropy_logits(Lazy([0.0, 1.0]), "none"), [200, 200])
