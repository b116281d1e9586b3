"""How many kernels common programs become, through the public API, and that their values are right."""
import math

import numpy as np
import pytest

from morok import Tensor, profile


def run(rng, make, want, count, tol=1e-5):
    with profile() as p:
        got = make().numpy()
    assert len(p.kernels) <= count, [str(k) for k in p.kernels]
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def soft(a, axis=-1):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gelu(a):
    return 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ** 3)))


def test_elementwise_chain_is_one(rng, both_ways):
    a = f32(rng, 50, 30)

    def make():
        x = Tensor(a)
        for i in range(30):
            x = x * 1.01 + 0.1 if i % 2 else (x - 0.05).relu()
        return x
    want = a.astype(np.float64)
    for i in range(30):
        want = want * 1.01 + 0.1 if i % 2 else np.maximum(want - 0.05, 0)
    run(rng, make, want, 1)


def test_matmul_bias_gelu_is_one(rng, both_ways):
    a, b, c = f32(rng, 33, 20), f32(rng, 20, 17), f32(rng, 17)
    run(rng, lambda: (Tensor(a) @ Tensor(b) + Tensor(c)).gelu(), gelu(a.astype(np.float64) @ b + c), 1)


def test_conv_bias_relu_is_one(rng, both_ways):
    x, w, b = f32(rng, 2, 3, 9, 8), f32(rng, 5, 3, 3, 3), f32(rng, 5)
    pad = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(np.einsum("nchw,oc->nohw", pad[:, :, i:i + 9, j:j + 8], w[:, :, i, j]) for i in range(3) for j in range(3)) + b[None, :, None, None]
    run(rng, lambda: Tensor(x).conv2d(Tensor(w), Tensor(b), padding=1).relu(), np.maximum(want, 0), 1)


@pytest.mark.parametrize("shape", [(4, 64), (7, 33), (2, 3, 50)])
def test_softmax_and_log_softmax_are_one(shape, rng, both_ways):
    a = f32(rng, *shape)
    want = soft(a.astype(np.float64))
    run(rng, lambda: Tensor(a).softmax(), want, 1)
    run(rng, lambda: Tensor(a).log_softmax(), np.log(want), 1)


def test_layernorm_affine_is_one(rng, both_ways):
    a, g, b = f32(rng, 20, 48), f32(rng, 48), f32(rng, 48)
    x = a.astype(np.float64)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b
    run(rng, lambda: Tensor(a).layernorm() * Tensor(g) + Tensor(b), want, 1)


def test_rmsnorm_is_one(rng, both_ways):
    a, g = f32(rng, 20, 48), f32(rng, 48)
    x = a.astype(np.float64)
    run(rng, lambda: Tensor(a) * (Tensor(a).square().mean(-1, keepdim=True) + 1e-6).rsqrt() * Tensor(g), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * g, 1)


def test_reductions_are_one(rng, both_ways):
    a = f32(rng, 30, 70)
    x = a.astype(np.float64)
    run(rng, lambda: Tensor(a).var(1), x.var(1, ddof=1), 1)
    run(rng, lambda: Tensor(a).argmax(1), x.argmax(1), 1)
    run(rng, lambda: Tensor(a).logsumexp(1), np.log(np.exp(x).sum(1)), 1)
    run(rng, lambda: Tensor(a).var(), x.var(ddof=1), 1)


def test_cross_entropy_is_two_at_most(rng, both_ways):
    a, y = f32(rng, 30, 10), rng.integers(0, 10, 30)
    want = -np.log(soft(a.astype(np.float64)))[np.arange(30), y].mean()
    run(rng, lambda: Tensor(a).cross_entropy(Tensor(y)), want, 2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_three_at_most(causal, rng, both_ways):
    q, k, v = (f32(rng, 2, 3, 17, 8) for _ in range(3))
    s = q.astype(np.float64) @ k.transpose(0, 1, 3, 2) / math.sqrt(8)
    if causal:
        s = np.where(np.tril(np.ones((17, 17), bool)), s, -np.inf)
    run(rng, lambda: Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=causal), soft(s) @ v, 3)


def test_cumsum_embedding_and_transpose_are_one(rng, both_ways):
    a = f32(rng, 30, 70)
    run(rng, lambda: Tensor(a).cumsum(1), a.astype(np.float64).cumsum(1), 1)
    idx = rng.integers(0, 30, (4, 5))
    run(rng, lambda: Tensor(a)[Tensor(idx)], a[idx], 1)
    run(rng, lambda: Tensor(a).T.contiguous(), a.T, 1)


def test_sum_of_sixteen_million_is_two_at_most(rng):
    a = np.ones(1 << 24, np.float32)
    run(rng, lambda: Tensor(a).sum(), 1 << 24, 2)


def test_two_layer_mlp_is_two(rng, both_ways):
    x, w1, b1, w2, b2 = f32(rng, 16, 20), f32(rng, 20, 30), f32(rng, 30), f32(rng, 30, 10), f32(rng, 10)
    want = np.maximum(x.astype(np.float64) @ w1 + b1, 0) @ w2 + b2
    run(rng, lambda: (Tensor(x) @ Tensor(w1) + Tensor(b1)).relu() @ Tensor(w2) + Tensor(b2), want, 2)


def test_tensors_realized_together_share_kernels(rng, both_ways):
    a = f32(rng, 40, 50)
    x = Tensor(a)
    y, z = x * 2 + 1, x * 3 - 1
    with profile() as p:
        y.realize(z)
    assert len(p.kernels) == 1
    np.testing.assert_allclose(y.numpy(), a * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(z.numpy(), a * 3 - 1, rtol=1e-6)


def test_the_same_graph_compiles_nothing_again(rng):
    from morok import compiler, schedule
    a = f32(rng, 11, 13)

    def make(data):
        return ((Tensor(data) * 1.7).exp().sum(1) + 0.3).numpy()
    first = make(a)
    compiled, scheduled = compiler.counters["compiled"], schedule.counters["misses"]
    np.testing.assert_array_equal(make(a.copy()), first)
    assert compiler.counters["compiled"] == compiled and schedule.counters["misses"] == scheduled
