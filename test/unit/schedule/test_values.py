"""Values of scheduled kernels by interpretation: chosen and random graphs, empty axes, assignments."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_graphs import (F32, I64, add, alu, assign, buf, cat, check, exp, fill, fresh, full, gather, iota, matmul, mul, op1, pad, permute, red, relu,
                           reshape, run, scan, shrink, softmax, sub)

from morok.schedule import schedule
from morok.uop import Op, UOp
from morok.uop.interpret import evaluate

REDUCTIONS = [Op.ADD, Op.MAX, Op.MIN]


class Random:
    """A random tensor graph, made of up to 14 nodes; equal seeds make equal graphs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dims = [1, 2, 3, 4, 5, 7] if self.rng.random() < .8 else [0, 1, 2, 17, 20]
        self.nodes = [buf(*self.shape()) for _ in range(self.below(2) + 1)]
        for _ in range(self.below(12) + 2):
            x = self.pick(self.nodes)
            size = int(np.prod(x.shape))
            made = self.pick([self.reduce, self.shrink] if size > 3000 else self.MAKERS)(self, x) if size <= 3000 else self.reduce(x)
            if made is not None and np.prod(made.shape) <= 20000:
                self.nodes.append(made)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def pick(self, xs: Any) -> Any:
        return xs[self.below(len(xs))]

    def shape(self) -> tuple[int, ...]:
        return tuple(self.pick(self.dims) for _ in range(self.below(3) + 1))

    def unary(self, x: UOp) -> UOp:
        return self.pick([exp, relu, lambda v: mul(v, .5), lambda v: alu(Op.TANH, v), lambda v: op1(Op.CONTIGUOUS, v)])(x)  # type: ignore[no-any-return]

    def binary(self, x: UOp) -> UOp:
        return alu(self.pick([Op.ADD, Op.MUL, Op.MAX, Op.SUB]), x, self.pick([y for y in self.nodes if y.shape == x.shape] + [buf(*x.shape)]))

    def permute(self, x: UOp) -> UOp:
        return permute(x, *(int(a) for a in self.rng.permutation(len(x.shape))))

    def reshape(self, x: UOp) -> UOp | None:
        factors, rest = [], int(np.prod(x.shape))
        for p in (2, 3, 5, 7):
            while rest and rest % p == 0 and len(factors) < 3:
                factors.append(p)
                rest //= p
        return reshape(x, *(int(n) for n in self.rng.permutation([*factors, rest]))) if rest else None

    def pad(self, x: UOp) -> UOp:
        return pad(x, *((self.below(3), self.below(3)) for _ in x.shape))

    def shrink(self, x: UOp) -> UOp | None:
        if 0 in x.shape:
            return None
        cuts = []
        for n in x.shape:
            start, step = self.below(n), self.below(2) + 1
            cuts.append((start, step, self.below((n - start + step - 1) // step) + (self.below(10) > 0)))
        return shrink(x, *cuts)

    def flip(self, x: UOp) -> UOp:
        return op1(Op.FLIP, x, tuple(a for a in range(len(x.shape)) if self.below(2)))

    def window(self, x: UOp) -> UOp | None:
        axis, k = self.axis(x), self.below(3) + 1
        return op1(Op.WINDOW, x, ((axis, k, self.below(2) + 1, 1),)) if x.shape[axis] >= k else None

    def axis(self, x: UOp) -> int:
        return self.below(len(x.shape))

    def reduce(self, x: UOp) -> UOp:
        return red(x, *{self.axis(x) for _ in range(self.below(len(x.shape)) + 1)}, op=self.pick(REDUCTIONS))

    def centre(self, x: UOp) -> UOp:
        return alu(self.pick([Op.SUB, Op.ADD]), x, red(x, self.axis(x), op=self.pick(REDUCTIONS)))

    def scan(self, x: UOp) -> UOp:
        return scan(x, self.axis(x), self.pick(REDUCTIONS))

    def cat(self, x: UOp) -> UOp:
        axis = self.axis(x)
        fits = [y for y in self.nodes if len(y.shape) == len(x.shape) and all(m == n or a == axis for a, (m, n) in enumerate(zip(y.shape, x.shape)))]
        return cat(axis, *(x, self.pick(fits)) * (self.below(6) + 1))

    def gather(self, x: UOp) -> UOp:
        out = (self.below(4) + 1, 3)
        return gather(x, *(buf(*out, dtype=I64) for _ in x.shape))

    def softmax(self, x: UOp) -> UOp:
        return softmax(x, self.axis(x)) if 0 not in x.shape else x

    def matmul(self, x: UOp) -> UOp | None:
        return matmul(x, buf(x.shape[1], self.pick([1, 3, 20]))) if len(x.shape) == 2 else None

    MAKERS = (unary, binary, binary, permute, reshape, pad, shrink, flip, window, reduce, reduce, centre, scan, cat, gather, softmax, matmul)

    def sinks(self) -> list[UOp]:
        return [self.nodes[-1], *(self.pick(self.nodes) for _ in range(max(0, self.below(5) - 2)))]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_graphs(seed: int) -> None:
    check(*Random(seed).sinks())


def test_random_graphs_are_scheduled_the_same_every_time() -> None:
    for seed in range(20):
        first, second = (schedule(Random(seed).sinks(), fresh) for _ in range(2))
        assert [i.ast for i in first.items] == [i.ast for i in second.items]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), (13,), (2, 0, 3)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    x = buf(*shape)
    check(add(x, 1.0), red(x, 0), red(x, *range(len(shape)), op=Op.MUL), pad(x, *[(1, 2)] * len(shape)), scan(x, 0), cat(0, x, x, buf(*shape)))


def test_neutral_elements_of_empty_reductions() -> None:
    x, n = buf(0, 3), buf(0, dtype=I64)
    plan = check(red(x, 0), red(x, 0, op=Op.MAX), red(n, 0, op=Op.MIN))
    total, top, least = run(plan, fill([x, n]))
    assert total.tolist() == [[0] * 3] and top.tolist() == [[-np.inf] * 3] and least.tolist() == [2**63 - 1]


def test_constants() -> None:
    check(full(3.0, (4, 5)), iota(7), UOp(Op.CONST, F32, (), 2.5))


def test_padding_is_zero_whatever_is_computed_on_it() -> None:
    x = buf(5)
    check(pad(exp(x), (1, 2)), pad(alu(Op.DIV, 1.0, pad(x, (1, 0))), (0, 1)), pad(softmax(x), (2, 2)), pad(red(buf(5, 4), 1), (1, 1), (1, 1)))
    check(red(exp(pad(x, (3, 0))), 0), scan(pad(x, (3, 1)), 0), red(pad(exp(x), (3, 0)), 0, op=Op.MAX))


def test_indices_outside_read_zero() -> None:
    x, i = buf(3), buf(5, dtype=I64)
    for other in (0, 1, -2, 7):
        y = gather(x, sub(mul(i, 2), other))
        plan, data = schedule([y], fresh), {x: [1., 2, 3], i: [0, 1, 2, 3, 1]}
        want = [[1., 2, 3][k] if 0 <= k < 3 else 0 for k in (2 * k - other for k in data[i])]
        assert run(plan, data)[0].tolist() == want


def test_nested_gather() -> None:
    x, i, j = buf(4), buf(4, dtype=I64), buf(5, dtype=I64)
    check(gather(exp(x), gather(i, j)), gather(x, pad(i, (1, 2))), pad(gather(x, i), (1, 2)), count=None)


def test_a_gather_of_known_positions_needs_no_guard() -> None:
    plan = check(gather(buf(4, 5), reshape(iota(4), 4), alu(Op.ADD, iota(4), 1)), count=1)
    assert not [u for u in plan.items[0].ast.toposort() if u.op is Op.INDEX and len(u.src) > 2]


# ---- assignments -----------------------------------------------------------------------------------------
def assigned(*sinks: UOp) -> int:
    """Check the values; the number of kernels."""
    plan, data = schedule(list(sinks), fresh), fill(list(sinks))
    for got, s in zip(run(plan, data), sinks, strict=True):
        np.testing.assert_allclose(got, evaluate(s, data, wide=True))
    return len(plan.items)


def test_assign_in_place() -> None:
    b, c = buf(5, 4), buf(5, 4)
    plan = schedule([assign(b, add(mul(b, 2.0), c))], fresh)
    assert plan.outputs == (b,) and [v.buffer for v in plan.items[0].views] == [b, c]
    assert assigned(assign(b, add(mul(b, 2.0), c))) == 1


def test_assign_of_what_lies_elsewhere_goes_through_a_temporary() -> None:
    b = buf(5, 4)
    assert assigned(assign(b, op1(Op.FLIP, b, (0,)))) == 2
    assert assigned(assign(b, sub(b, red(b, 1)))) == 2


def test_the_old_value_is_read_before_it_is_overwritten() -> None:
    b, c = buf(5, 4), buf(5, 4)
    assert assigned(assign(b, mul(c, 2.0)), red(b, 0)) == 2
    assert assigned(assign(b, c), assign(c, b)) == 3            # a swap saves one of them
    assert assigned(add(b, assign(b, mul(c, 2.0)))) == 3        # old and new value in one kernel


def test_assign_twice() -> None:
    b, c = buf(5, 4), buf(5, 4)
    once = assign(b, add(b, 1.0))
    twice = assign(once, mul(once, c))
    plan, data = schedule([twice, red(once, 0), red(b, 0)], fresh), fill([b, c])
    last, middle, first = run(plan, data)
    np.testing.assert_allclose(last, (data[b] + 1) * data[c])
    np.testing.assert_allclose(middle, (data[b] + 1).sum(0, keepdims=True))
    np.testing.assert_allclose(first, data[b].sum(0, keepdims=True))


def test_updates_that_share_an_input_are_one_kernel() -> None:
    p, m, g = buf(5, 4), buf(5, 4), buf(5, 4)
    assert assigned(assign(p, sub(p, mul(g, .1))), assign(m, add(mul(m, .9), g))) == 1


def test_assign_to_a_view() -> None:
    b, c = buf(5, 4), buf(20)
    plan = schedule([assign(reshape(b, 20), mul(c, 2.0))], fresh)
    data = fill([b, c])
    np.testing.assert_allclose(run(plan, data)[0], (data[c] * 2).reshape(5, 4))


def test_copies() -> None:
    b = buf(5, 4)
    check(op1(Op.COPY, add(b, 1.0), "CPU"), count=1)
    plan = check(op1(Op.CONTIGUOUS, b), count=1)
    assert plan.outputs[0] is not b
    check(add(op1(Op.CONTIGUOUS, exp(b)), 1.0), count=2)
