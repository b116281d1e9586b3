"""Symbolic sizes: one compiled plan for every value, equal to NumPy on the part that is there; what needs the end of the axis is refused."""
import numpy as np
import pytest

from morok import IndexingError, ShapeError, Tensor, Variable, jit, knobs
from morok.compiler import counters

HI = 300
N = Variable("n", 0, HI)


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def norm(a, axis):
    return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + 1e-5)


W = np.random.default_rng(1).standard_normal((8, 5))
OPS = {
    "map": (lambda x: (x * 2 + 1).exp(), lambda a: np.exp(a * 2 + 1)),
    "rows": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "columns": (lambda x: x.sum(0), lambda a: a.sum(0)),
    "all": (lambda x: x.sum(), lambda a: a.sum()),
    "prod": (lambda x: (x * 0.1 + 1).prod(0), lambda a: (a * 0.1 + 1).prod(0)),
    "any": (lambda x: (x > 2.5).any(0), lambda a: (a > 2.5).any(0)),
    "all of": (lambda x: (x < 2.5).all(0), lambda a: (a < 2.5).all(0)),
    "transposed": (lambda x: x.T * 3, lambda a: a.T * 3),
    "matmul": (lambda x: x @ Tensor(W), lambda a: a @ W),
    "gram": (lambda x: x.T @ x, lambda a: a.T @ a),
    "outer": (lambda x: x @ x.T, lambda a: a @ a.T),
    "cumsum": (lambda x: x.cumsum(0), lambda a: a.cumsum(0)),
    "chain": (lambda x: ((x @ Tensor(W)).relu() - 1).unsqueeze(0).permute(1, 0, 2).reshape(N, 5), lambda a: np.maximum(a @ W, 0) - 1),
    "slices": (lambda x: x[:, 2:6:2] + x[:, ::-1][:, :2], lambda a: a[:, 2:6:2] + a[:, ::-1][:, :2]),
}
NOT_EMPTY = {                   # what has no value, or a warning in NumPy, over nothing
    "max": (lambda x: x.max(0), lambda a: a.max(0)),
    "min": (lambda x: x.min(), lambda a: a.min()),
    "argmax": (lambda x: x.argmax(0), lambda a: a.argmax(0)),
    "argmin": (lambda x: x.argmin(0), lambda a: a.argmin(0)),
    "mean": (lambda x: x.mean(0), lambda a: a.mean(0)),
    "mean of all": (lambda x: x.mean(), lambda a: a.mean()),
    "var": (lambda x: x.var(0, correction=0), lambda a: a.var(0)),
    "softmax": (lambda x: x.softmax(0), lambda a: softmax(a, 0)),
    "softmax of rows": (lambda x: x.softmax(1), lambda a: softmax(a, 1)),
    "layernorm": (lambda x: x.layernorm(0), lambda a: norm(a, 0)),
    "logsumexp": (lambda x: x.logsumexp(0), lambda a: np.log(np.exp(a).sum(0))),
    "attention": (lambda x: x.scaled_dot_product_attention(x, x), lambda a: softmax(a @ a.T / np.sqrt(8), 1) @ a),
}


@pytest.mark.parametrize("name", [*OPS, *NOT_EMPTY])
def test_one_plan_for_every_value(name, rng, both_ways):
    f, want = (OPS | NOT_EMPTY)[name]
    a = rng.standard_normal((HI, 8))
    plan = f(Tensor(a)[:N]).prepare()
    compiled = counters["compiled"]
    for n in (1, 2, 7, 8, 63, 64, 65, 299, 300, 5, *([0] if name in OPS else [])):
        plan.execute_with_vars(n=n)
        got = plan.outputs[0].numpy()
        assert got.shape == want(a[:n]).shape
        np.testing.assert_allclose(got, want(a[:n]), rtol=1e-9, atol=1e-12)
    assert counters["compiled"] == compiled


def test_what_lies_beyond_is_never_seen(rng):
    """NaN and infinity behind the end; two variables at once; threads."""
    m = Variable("m", 1, 40)
    a, b = rng.standard_normal((HI, 40)), rng.standard_normal((40, 6))
    with knobs.scope(MOROK_THREADS=2):
        x, y = Tensor(a.copy()), Tensor(b.copy())
        plan = (x[:N, :m] @ y[:m]).softmax(0).prepare()
        for n, k in ((1, 1), (17, 3), (300, 40), (64, 39)):
            x._memory.numpy(a.shape)[...], y._memory.numpy(b.shape)[...] = a, b
            x._memory.numpy(a.shape)[n:], x._memory.numpy(a.shape)[:, k:], y._memory.numpy(b.shape)[k:] = np.nan, np.inf, -np.inf
            plan.execute_with_vars(n=n, m=k)
            np.testing.assert_allclose(plan.outputs[0].numpy(), softmax(a[:n, :k] @ b[:k], 0), rtol=1e-9)


def test_bound_sizes(rng):
    """x[:n.bind(k)] computes at once, and shares its kernels with every other k."""
    a = rng.standard_normal((HI, 8))
    x = Tensor(a)
    x[:N.bind(3)].softmax(0).realize()
    compiled = counters["compiled"]
    for n in (1, 40, 300):
        part = x[:N.bind(n)]
        y = part.softmax(0).realize()
        np.testing.assert_allclose(y.numpy(), softmax(a[:n], 0), rtol=1e-9)
        assert counters["compiled"] == compiled
        np.testing.assert_allclose((y * part).sum().item(), (softmax(a[:n], 0) * a[:n]).sum(), rtol=1e-9)
        compiled = counters["compiled"]
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        x[:N.bind(3)] + x[:N.bind(4)]


def test_a_size_in_a_captured_function(rng):
    """A cache of fixed capacity of which ever more is used, as in decoding: one capture."""
    a, q = rng.standard_normal((HI, 8)), rng.standard_normal((1, 8))
    attend = jit(lambda q, cache, n: (q @ cache[:n].T).softmax(1) @ cache[:n])
    half = jit(lambda x, n: x[:n] * 0.5)
    again = jit(lambda y, n: y + y.sum(0))
    x, t = Tensor(a), Tensor(q)
    for n in (1, 2, 50, 300, 3):
        np.testing.assert_allclose(attend(t, x, N.bind(n)).numpy(), softmax(q @ a[:n].T, 1) @ a[:n], rtol=1e-9)
        y = half(x, N.bind(n))
        np.testing.assert_allclose(y.numpy(), a[:n] * 0.5)
        np.testing.assert_allclose(again(y, N.bind(n)).numpy(), a[:n] * 0.5 + a[:n].sum(0) * 0.5, rtol=1e-9)
    assert attend.entries == half.entries == again.entries == 1


REFUSED = {
    "no value": (lambda x: x.numpy(), ShapeError, ["n", "bind", "execute_with_vars"]),
    "other size": (lambda x: x + Tensor.ones(HI, 8), ShapeError, ["(n, 8)", "(300, 8)"]),
    "flip": (lambda x: x.flip(0), ShapeError, ["flip", "(n, 8)", "axis 0"]),
    "pad": (lambda x: x.pad(((1, 0), (0, 0))), ShapeError, ["pad", "axis 0"]),
    "flatten": (lambda x: x.flatten(), ShapeError, ["(n, 8)", "axis of its own"]),
    "cat": (lambda x: x.cat(x), ShapeError, ["cat", "(n, 8)"]),
    "windows": (lambda x: x.unsqueeze(0).unsqueeze(0).max_pool2d(2), ShapeError, ["n"]),
    "element": (lambda x: x[3], IndexingError, ["index 3", "size n"]),
    "arithmetic": (lambda x: x.shape[0] * 2, ShapeError, ["size n", "calculated"]),
    "too small": (lambda x: Tensor.ones(10)[:N], IndexingError, ["size 10", "largest"]),
    "outside": (lambda x: N.bind(301), ShapeError, ["0 to 300", "301"]),
    "limits": (lambda x: Variable("k", 3, 2), ShapeError, ["3", "2", "lo <= hi"]),
    "other names": (lambda x: (x + 1).prepare().execute_with_vars(m=1), ShapeError, ["n", "m"]),
    "none": (lambda x: (Tensor.ones(3) + 1).prepare().execute_with_vars(n=1), ShapeError, ["no symbolic size", "n"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_end_is_refused(name):
    f, error, parts = REFUSED[name]
    with pytest.raises(error) as e:
        f(Tensor.ones(HI, 8).contiguous()[:N])
    assert all(p in str(e.value) for p in parts), str(e.value)


def test_the_part_that_is_there_for_sure():
    k = Variable("k", 4, 9)
    x = Tensor(np.arange(10.0))[:k]
    assert x[:4].tolist() == [0, 1, 2, 3] and x[3].item() == 3 and x[1:4:2].tolist() == [1, 3]
