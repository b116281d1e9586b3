"""Patterns, rule tables and the rewrite driver."""
from __future__ import annotations

import time

import pytest
from uop_exprs import loaded, loop, number

from morok.dtype import dtypes
from morok.errors import IRError
from morok.uop import Op, Pat, Rules, UOp, const, rewrite

x, y, c = Pat.var("x"), Pat.var("y"), Pat.const("c")
i, j = loop(0, 8), loop(1, 4)


def test_captures_and_constants() -> None:
    rules = Rules([(x * c, lambda x, c: x + c)])
    assert rules(i * 3) is i + 3 and rules(i + 3) is None and rules(i * j) is None


def test_commutative_sources_match_in_both_orders() -> None:
    rules = Rules([(x + 0, lambda x: x)])
    assert rules(i + 0) is i and rules(0 + i) is i
    assert Rules([(x - 0, lambda x: x)])(0 - i) is None
    nested = Rules([((x * 2) + (y * 3), lambda x, y: x - y)])
    assert all(nested(u) is i - j for u in ((i * 2) + (j * 3), (j * 3) + (i * 2), (2 * i) + (3 * j), (3 * j) + (2 * i)))
    ordered = Rules([(Pat((Op.ADD,), (x, Pat.const(value=0)), ordered=True), lambda x: x)])
    assert ordered(i + 0) is i and ordered(0 + i) is None


def test_a_name_used_twice_must_match_one_node() -> None:
    rules = Rules([(x - x, lambda x: x.const_like(0))])
    assert rules(i - i) is const(0) and rules(i - j) is None


def test_kind_limits_the_dtype() -> None:
    rules = Rules([(Pat.var("x", lambda dt: dt.is_int) * 0, lambda x: x.const_like(0))])
    assert rules(i * 0) is const(0) and rules(loaded(0, 1, dtypes.float32) * 0) is None


def test_rules_are_tried_in_order_until_one_answers() -> None:
    rules = Rules([(x + c, lambda x, c: None), (x + c, lambda x, c: x), (x + c, lambda x, c: c)])
    assert rules(i + 3) is i
    assert (Rules([(x + c, lambda x, c: c)]) + rules)(i + 3) is const(3)


def test_several_ops_and_args() -> None:
    rules = Rules([(Pat.of((Op.MAX, Op.MIN), x, x), lambda x: x), (Pat.of(Op.REDUCE, x, y, arg=Op.ADD), lambda x, y: x)])
    assert rules(i.maximum(i)) is i and rules(i.minimum(i)) is i
    assert rules(UOp(Op.REDUCE, i.dtype, (i, j), Op.ADD)) is i and rules(UOp(Op.REDUCE, i.dtype, (i, j), Op.MAX)) is None


def test_a_root_needs_an_op() -> None:
    with pytest.raises(IRError, match="root of a rule needs an op"):
        Rules([(x, lambda x: x)])


def test_bottom_up_reaches_a_fixed_point() -> None:
    rules = Rules([(x + 0, lambda x: x), (x * 1, lambda x: x), (x * 2, lambda x: x + x)])
    assert rewrite(((i + 0) * 2 + 0) * 1, rules) is i + i
    assert rewrite(i, rules) is i


def test_results_are_rewritten_below_too() -> None:
    rules = Rules([(Pat.of(Op.NEG, x), lambda x: (x * 1) * 1), (x * 1, lambda x: x)])
    assert rewrite(-(i + j), rules) is i + j


def test_top_down_sees_the_node_before_its_sources() -> None:
    seen: list[Op] = []
    rules = Rules([(Pat((Op.ADD, Op.NEG), name="u"), lambda u: seen.append(u.op))])
    rewrite(-(i + j), rules, bottom_up=False)
    assert seen[0] is Op.NEG
    seen.clear()
    rewrite(-(i + j), rules)
    assert seen[0] is Op.ADD
    push = Rules([(-(x + y), lambda x, y: -x + -y), (-(-x), lambda x: x)])
    assert rewrite(-(i + (-j + i)), push, bottom_up=False) is -i + (j + -i)


def swap_sources(x: UOp, y: UOp) -> UOp:
    return y - x


def grow(x: UOp) -> UOp:
    return -(-x)


@pytest.mark.parametrize(("rules", "u", "name"), [
    (Rules([(x - y, swap_sources)]), i - j, "swap_sources"), (Rules([(Pat.of(Op.NEG, x), grow)]), -i, "grow"),
])
def test_rules_that_loop_are_named(rules: Rules, u: UOp, name: str) -> None:
    for bottom_up in (True, False):
        with pytest.raises(IRError, match=f"my pass does not end: {name}"):
            rewrite(u, rules, name="my pass", bottom_up=bottom_up, limit=200)


def test_trace(capsys: pytest.CaptureFixture[str]) -> None:
    rules = Rules([(x + 0, lambda x: x)])
    rewrite(i + 0, rules, name="clean", debug=3)
    assert capsys.readouterr().err == ""
    rewrite(i + 0, rules, name="clean", debug=4)
    assert capsys.readouterr().err.startswith("clean: ADD(x, 0): ADD(RANGE")


@pytest.mark.timing
def test_deep_graphs_are_near_linear() -> None:
    rules = Rules([(x * 1, lambda x: x)])

    def chain(n: int) -> float:
        u = loaded(0, 1, dtypes.float32)
        want = u
        for _ in range(n):
            u, want = (u * 1) + 2.5, want + 2.5
        start = time.perf_counter()
        assert rewrite(u, rules) is want
        return time.perf_counter() - start
    chain(10)
    assert chain(8000) < 20 * chain(1000) + 0.5


def test_shared_nodes_are_rewritten_once() -> None:
    calls: list[UOp] = []
    rules = Rules([(x + c, lambda x, c: calls.append(x))])
    u = i + 1
    for _ in range(40):
        u = u.maximum(u * number(2, dtypes.index))
    rewrite(u, rules)
    assert calls == [i]
