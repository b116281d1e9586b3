"""Large graphs, many inputs, repeated use; the schedule cache."""
from __future__ import annotations

import gc
import time
import weakref
from collections import OrderedDict

import numpy as np
import pytest
from tensor_graphs import add, alu, buf, check, exp, fresh, matmul, mul, permute, reshape, run, shrink, softmax

import morok.schedule as module
from morok.schedule import plan_of, schedule
from morok.uop import Op, UOp


def timed(sink: UOp) -> tuple[module.Schedule, float]:
    start = time.perf_counter()
    plan = schedule([sink], fresh)
    return plan, time.perf_counter() - start


def sizes(plan: module.Schedule) -> tuple[int, int]:
    """Nodes and parameters of the largest kernels."""
    return max(len(i.ast.toposort()) for i in plan.items), max(len(i.views) for i in plan.items)


def test_long_chain() -> None:
    x = y = buf(16, 3)
    for i in range(5000):
        y = add(y, float(i % 7))
    plan, seconds = timed(y)
    assert seconds < 3 and len(plan.items) < 15 and sizes(plan)[0] < 1500
    data = np.arange(48.).reshape(16, 3)
    np.testing.assert_allclose(run(plan, {x: data})[0], data + sum(float(i % 7) for i in range(5000)))
    again, seconds = timed(y)
    assert seconds < .3 and [i.ast for i in again.items] == [i.ast for i in plan.items]


def test_cat_of_2000() -> None:
    xs = [buf(3, 4) for _ in range(2000)]
    plan, seconds = timed(UOp(Op.CAT, xs[0].dtype, tuple(xs), 1))
    assert seconds < 2 and len(plan.items) == 2000 and len({i.ast for i in plan.items}) == 1


def test_diamonds() -> None:
    x = y = buf(6, 6)
    for _ in range(30):
        y = mul(add(y, permute(y, 1, 0)), .5)
    plan, seconds = timed(y)
    assert seconds < 1 and sizes(plan)[0] < 200
    a = np.random.default_rng(0).random((6, 6))
    np.testing.assert_allclose(run(plan, {x: a})[0], (a + a.T) / 2)


def test_stencils() -> None:
    y = buf(200)
    for _ in range(30):
        n = (y.shape or ())[0]
        y = add(shrink(y, (0, 1, n - 1)), shrink(y, (1, 1, n - 1)))
    plan = check(mul(y, 2.0 ** -30))
    assert len(plan.items) <= 16 and sizes(plan)[0] < 300


def test_reshapes() -> None:
    y = buf(24, 10)
    for _ in range(40):
        y = permute(reshape(add(y, 1.0), 10, 24), 1, 0)
    assert sizes(check(y))[0] < 1500


def test_many_inputs() -> None:
    y = buf(8)
    for _ in range(300):
        y = add(y, buf(8))
    assert sizes(check(y))[1] <= 60


def test_wide_tree() -> None:
    level = [exp(buf(8)) for _ in range(256)]
    while len(level) > 1:
        level = [add(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    plan = check(level[0])
    assert sizes(plan)[1] <= 64 and len(plan.items) < 64


def test_layers_have_equal_kernels() -> None:
    x = buf(20, 32)
    for _ in range(12):
        x = add(x, matmul(alu(Op.MAX, matmul(softmax(x), buf(32, 64)), 0.0), buf(64, 32)))
    plan, seconds = timed(x)
    assert seconds < 2 and len(plan.items) == 36 and len({i.ast for i in plan.items}) == 3


def test_cache() -> None:
    def graph() -> UOp:
        return softmax(matmul(buf(21, 13), buf(13, 17)))
    schedule([graph()], fresh)
    before = dict(module.counters)
    g = graph()
    plan = schedule([g], fresh)
    assert module.counters == {"hits": before["hits"] + 1, "misses": before["misses"]}
    inputs = [u for u in g.toposort() if u.op is Op.BUFFER]
    assert [b for b in inputs if any(b is v.buffer for i in plan.items for v in i.views)] == inputs
    first, second = plan_of([g]), plan_of([graph()])
    assert first[0] is second[0] and first[1] == inputs != second[1]
    swapped = mul(a := buf(21, 13), exp(b := buf(21, 13)))
    assert plan_of([swapped])[1] == [a, b]


def test_equal_buffers_are_not_mixed_up() -> None:
    a, b = buf(9), buf(9)
    assert plan_of([mul(a, a)])[0] is not plan_of([mul(a, b)])[0]


def test_cache_keeps_no_buffers() -> None:
    refs = []
    for i in range(1, 40):
        x = buf(i, 2)
        refs.append(weakref.ref(x))
        schedule([exp(x)], fresh)
        del x
    gc.collect()
    assert not [r for r in refs if r() is not None]


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 8)
    monkeypatch.setattr(module, "_cache", OrderedDict())
    kept = plan_of([exp(buf(1, 3))])[0]
    for i in range(2, 20):
        schedule([exp(buf(i, 3))], fresh)
        assert plan_of([exp(buf(1, 3))])[0] is kept             # what is in use stays
    assert len(module._cache) == 8
