"""What the kernels look like: merged axes, shared axis numbers, row buffers, parameters; equal kernels are one node."""
from __future__ import annotations

from tensor_graphs import F32, I64, add, alu, buf, check, embedding, exp, fresh, matmul, mul, op1, permute, red, relu, reshape, run, scan, shrink, softmax, sub

from morok.schedule import schedule
from morok.uop import Axis, AxisKind, Op, UOp, Where, ranges


def kernel(*sinks: UOp) -> UOp:
    item, = schedule(list(sinks), fresh).items
    return item.ast


def axes(ast: UOp) -> list[tuple[int, int, int, AxisKind]]:
    return [(r.arg.id, r.arg.phase, r.arg.extent, r.arg.kind) for r in ranges(ast)]


LOOP, REDUCE = AxisKind.LOOP, AxisKind.REDUCE


def test_elementwise_is_one_axis() -> None:
    assert axes(kernel(add(buf(1000, 3), buf(1000, 3)))) == [(0, 0, 3000, LOOP)]
    assert axes(kernel(exp(permute(reshape(buf(4, 5, 6), 20, 6), 0, 1)))) == [(0, 0, 120, LOOP)]


def test_axes_merge_as_far_as_they_are_walked_together() -> None:
    assert axes(kernel(add(buf(4, 5, 6), buf(5, 6)))) == [(0, 0, 4, LOOP), (1, 0, 30, LOOP)]
    assert axes(kernel(permute(buf(4, 5, 6), 2, 0, 1))) == [(0, 0, 6, LOOP), (1, 0, 20, LOOP)]
    assert axes(kernel(permute(buf(4, 5, 6), 2, 1, 0))) == [(0, 0, 6, LOOP), (1, 0, 5, LOOP), (2, 0, 4, LOOP)]
    assert axes(kernel(shrink(buf(4, 6), (0, 1, 4), (1, 1, 5)))) == [(0, 0, 4, LOOP), (1, 0, 5, LOOP)]


def test_reduced_axes_merge() -> None:
    assert axes(kernel(red(buf(4, 5, 6), 1, 2))) == [(0, 0, 4, LOOP), (1, 0, 30, REDUCE)]
    assert axes(kernel(red(permute(buf(4, 5, 6), 0, 2, 1), 1, 2))) == [(0, 0, 4, LOOP), (1, 0, 30, REDUCE)]
    assert axes(kernel(red(buf(4, 5, 6), 0, 2))) == [(0, 0, 5, LOOP), (1, 0, 4, REDUCE), (2, 0, 6, REDUCE)]


def test_axes_of_size_one_have_no_range() -> None:
    assert axes(kernel(red(buf(1, 5, 1), 1))) == [(0, 0, 5, REDUCE)]
    assert axes(kernel(add(buf(1, 1), 1.0))) == []


def test_softmax() -> None:
    """One row is walked three times: by the maximum, by the sum, which keeps its exponentials, and by the output."""
    ast = kernel(softmax(buf(8, 33)))
    assert axes(ast) == [(0, 0, 8, LOOP), (1, 0, 33, REDUCE), (1, 1, 33, REDUCE), (1, 2, 33, LOOP)]
    stage, = [u for u in ast.toposort() if u.op is Op.STAGE]
    top, total = [u for u in ast.toposort() if u.op is Op.REDUCE]
    assert (stage.arg.where, stage.arg.size) == (Where.LOCAL, 33)
    assert stage.src[2:] == total.src[1:] != top.src[1:]        # the sum and the row buffer share a loop
    assert total.src[0] is stage.src[0]                         # the sum takes the value, not what is stored


def test_long_rows_are_not_kept() -> None:
    ast = kernel(softmax(buf(100, 70000)))
    assert not [u for u in ast.toposort() if u.op is Op.STAGE]


def test_cheap_values_are_computed_again() -> None:
    x = buf(8, 33)
    assert not [u for u in kernel(sub(x, red(x, 1))).toposort() if u.op is Op.STAGE]


def test_independent_reductions_share_a_loop() -> None:
    x = buf(8, 33)
    ast = kernel(add(red(x, 1), red(mul(x, x), 1, op=Op.MAX)))
    first, second = [u for u in ast.toposort() if u.op is Op.REDUCE]
    assert first.src[1:] == second.src[1:]


def test_different_axes_are_not_taken_for_one() -> None:
    x = buf(6, 6)
    assert axes(kernel(add(x, permute(x, 1, 0)))) == [(0, 0, 6, LOOP), (1, 0, 6, LOOP)]
    assert axes(kernel(matmul(x, permute(x, 1, 0)))) == [(0, 0, 6, LOOP), (1, 0, 6, LOOP), (2, 0, 6, REDUCE)]


def test_matmul_is_small() -> None:
    ast = kernel(relu(add(matmul(buf(64, 32), buf(32, 16)), buf(16))))
    assert axes(ast) == [(0, 0, 64, LOOP), (1, 0, 16, LOOP), (2, 0, 32, REDUCE)]
    assert len(ast.toposort()) <= 32


def test_leading_axes_of_a_matmul_merge() -> None:
    x, w = buf(2, 8, 32), buf(32, 16)
    y = matmul(reshape(x, 16, 32), w)
    assert axes(kernel(reshape(y, 2, 8, 16))) == [(0, 0, 16, LOOP), (1, 0, 16, LOOP), (2, 0, 32, REDUCE)]


def test_scan_axis() -> None:
    ast = kernel(exp(scan(buf(3, 8, 33), 1)))
    assert axes(ast) == [(0, 0, 3, LOOP), (1, 0, 8, AxisKind.SCAN), (2, 0, 33, LOOP)]


def test_loops_around_a_reduction_come_first() -> None:
    x = buf(12, 5)
    ast = kernel(sub(x, red(x, 0)))
    order = {r.arg.id: r.arg.order for r in ranges(ast) if r.arg.kind is LOOP}
    assert order[1] < order[0]                                  # a column's sum is computed once, outside the loop over rows


def test_parameters_are_numbered_outputs_first() -> None:
    a, b = buf(4, 5), buf(4, 5)
    item, = schedule([mul(a, b), add(b, 1.0)], fresh).items
    params = {u.arg.slot: u for u in item.ast.toposort() if u.op is Op.PARAM}
    assert [st.src[0].src[0].arg.slot for st in item.ast.src] == [0, 1]
    assert item.outputs == 2 and [v.buffer for v in item.views[2:]] == [a, b] and len(params) == 4


def test_equal_kernels_are_one_node() -> None:
    assert kernel(softmax(buf(8, 33))) is kernel(softmax(buf(8, 33)))
    assert kernel(add(buf(4, 15), buf(4, 15))) is kernel(add(buf(60), buf(60)))
    assert kernel(permute(buf(4, 15), 1, 0)) is kernel(op1(Op.CONTIGUOUS, permute(buf(4, 15), 1, 0)))


def test_pieces_of_a_long_cat_are_one_kernel() -> None:
    plan = check(UOp(Op.CAT, F32, tuple(add(buf(3, 4), 1.0) for _ in range(20)), 1), count=20)
    assert len({i.ast for i in plan.items}) == 1
    assert sorted(i.views[0].offset for i in plan.items) == list(range(0, 80, 4))


def test_padding_guards_the_load() -> None:
    ast = kernel(op1(Op.PAD, buf(5), ((2, 3),)))
    load, = [u for u in ast.toposort() if u.op is Op.LOAD]
    assert len(load.src[0].src) == 3 and not [u for u in ast.toposort() if u.op is Op.WHERE]


def test_certain_guards_vanish() -> None:
    x = shrink(op1(Op.PAD, buf(5), ((2, 3),)), (2, 1, 5))
    assert not [u for u in kernel(x).toposort() if u.op is Op.INDEX and len(u.src) > 2]
    table, ids = buf(9, 5), buf(3, dtype=I64)
    guards = [u.src[2] for u in kernel(embedding(table, ids)).toposort() if u.op is Op.INDEX and len(u.src) > 2]
    assert len(guards) == 1 and len(guards[0].free) == 1        # the row may be outside, the column never


def test_line_of_the_tensor_code() -> None:
    y = exp(buf(4, 5))
    y.line = "model.py:7"
    assert schedule([y], fresh).items[0].line == "model.py:7"


def test_axis_fields() -> None:
    r, = ranges(kernel(exp(buf(7))))
    assert r.arg == Axis(0, 0, (0,), 7, LOOP)


def test_index_of_an_iota() -> None:
    x = alu(Op.WHERE, alu(Op.CMPLT, UOp(Op.IOTA, I64, (), 5), 3), buf(5), 0.0)
    plan = check(x, count=1)
    assert run(plan, {v.buffer: [1., 2, 3, 4, 5] for v in plan.items[0].views[1:]})[0].tolist() == [1, 2, 3, 0, 0]
