"""How many kernels a graph becomes; each graph's value is checked too."""
from __future__ import annotations

import pytest
from tensor_graphs import (I64, add, alu, buf, cat, check, conv2d, div, embedding, exp, fresh, gather, gelu, iota, layernorm, log_softmax, matmul, mean, mul, op1,
                           permute, red, relu, reshape, same_pad, scan, shrink, softmax, spread, sub, variance)

from morok.dtype import dtypes
from morok.schedule import schedule
from morok.uop import BufferArg, Op, UOp


def chain(n: int) -> UOp:
    x = buf(7, 11)
    for i in range(n):
        x = add(mul(x, 1.01), 0.5) if i % 2 else alu(Op.TANH, x)
    return x


def argmax(x: UOp) -> UOp:
    n = (x.shape or ())[-1]
    position = alu(Op.WHERE, alu(Op.CMPEQ, x, red(x, -1, op=Op.MAX)), spread(iota(n), x.shape or ()), n)
    return red(position, -1, op=Op.MIN)


def batchnorm(x: UOp) -> UOp:
    c = (x.shape or ())[1]
    mu, var, scale, shift = (reshape(buf(c), 1, c, 1, 1) for _ in range(4))
    return add(mul(mul(sub(x, mu), div(1.0, alu(Op.SQRT, add(mul(var, var), 1e-5)))), scale), shift)


def attention(b: int, t: int, d: int) -> UOp:
    q, k, v = buf(b, t, d), buf(b, t, d), buf(b, t, d)
    return matmul(softmax(mul(matmul(q, permute(k, 0, 2, 1)), d ** -.5)), v)


def cross_entropy(n: int, c: int) -> UOp:
    picked = gather(log_softmax(buf(n, c)), iota(n), buf(n, dtype=I64))
    return mul(red(picked, 0), -1 / n)


def logsumexp(x: UOp) -> UOp:
    m = red(x, -1, op=Op.MAX)
    return add(alu(Op.LOG, red(exp(sub(x, m)), -1)), m)


def image() -> UOp:
    return same_pad(buf(2, 3, 9, 9))


CASES: dict[str, tuple[int, UOp]] = {
    "chain of 30": (1, chain(30)),
    "matmul bias gelu": (1, gelu(add(matmul(buf(8, 32), buf(32, 16)), buf(16)))),
    "matmul residual": (1, add(matmul(buf(8, 32), buf(32, 16)), buf(8, 16))),
    "conv bias relu": (1, relu(add(conv2d(image(), buf(5, 3, 3, 3)), reshape(buf(5), 1, 5, 1, 1)))),
    "conv batchnorm relu": (1, relu(batchnorm(conv2d(image(), buf(5, 3, 3, 3))))),
    "two convs": (2, conv2d(same_pad(relu(conv2d(image(), buf(5, 3, 3, 3)))), buf(4, 5, 3, 3))),
    "softmax": (1, softmax(buf(8, 33))),
    "softmax first axis": (1, softmax(buf(33, 8), 0)),
    "log_softmax": (1, log_softmax(buf(8, 33))),
    "layernorm": (1, layernorm(buf(8, 33), buf(33), buf(33))),
    "rmsnorm": (1, mul(mul(x := buf(8, 33), div(1.0, alu(Op.SQRT, add(mean(mul(x, x), -1), 1e-6)))), buf(33))),
    "var": (1, variance(buf(8, 33), -1)),
    "argmax": (1, argmax(buf(8, 33))),
    "logsumexp": (1, logsumexp(buf(8, 33))),
    "cross entropy": (1, cross_entropy(8, 10)),
    "cross entropy, many rows": (2, cross_entropy(512, 200)),
    "attention": (3, attention(2, 20, 32)),
    "cumsum": (1, scan(buf(8, 33), 1)),
    "cumsum of the first axis, with neighbours": (1, exp(scan(mul(buf(8, 33), 2.0), 0))),
    "cumsum of a cumsum": (1, scan(scan(buf(8, 33), 1), 1)),
    "cumsum over both axes": (2, scan(scan(buf(8, 33), 1), 0)),
    "cumsum, shifted": (2, shrink(scan(buf(33), 0), (1, 1, 32))),
    "embedding": (1, embedding(buf(9, 5), buf(3, 4, dtype=I64))),
    "transposed copy": (1, permute(buf(8, 33), 1, 0)),
    "mlp": (2, matmul(relu(add(matmul(buf(8, 32), buf(32, 16)), buf(16))), buf(16, 10))),
    "three factors": (2, matmul(matmul(buf(20, 30), buf(30, 20)), buf(20, 18))),
    "long sum": (2, red(buf(1 << 17), 0)),
    "long sum of two axes": (2, red(buf(300, 1000), 0, 1)),
    "long product of a prime length": (2, red(add(mul(buf(131101), 1e-6), 1.0), 0, op=Op.MUL)),
    "sums over two axes": (2, add(red(buf(5, 2000), 1), red(buf(2000, 7), 0))),
    "max pool": (1, red(op1(Op.WINDOW, relu(buf(3, 8, 8)), ((1, 2, 2, 1), (2, 2, 2, 1))), 3, 4, op=Op.MAX)),
    "cat": (1, cat(0, buf(3, 8), relu(buf(2, 8)), buf(4, 8))),
    "cat of matmuls": (2, cat(1, matmul(buf(8, 32), buf(32, 16)), matmul(buf(8, 32), buf(32, 16)))),
    "a value dear to compute, under a matmul": (2, matmul(exp(buf(20, 30)), buf(30, 20))),
    "a cast under a matmul": (1, matmul(UOp(Op.CAST, (w := buf(30, 20)).dtype, (buf(20, 30, dtype=I64),)), w)),
    "exp of a bias": (2, add(buf(400, 30), exp(buf(30)))),
    "exp of a column": (1, add(buf(400, 30), exp(buf(400, 1)))),
}


@pytest.mark.parametrize("name", CASES)
def test_count(name: str) -> None:
    count, graph = CASES[name]
    check(graph, count=count)


def test_no_kernel_is_needed() -> None:
    x = buf(4, 5)
    plan = check(x, buf(0, 3), count=0)
    assert plan.outputs[0] is x


def test_independent_outputs_share_a_kernel() -> None:
    x = buf(4, 5)
    check(add(x, 1.0), mul(x, buf(4, 5)), exp(x), count=1)
    check(red(x, 1), red(mul(x, x), 1), count=1)
    check(add(x, 1.0), mul(buf(4, 5), 2.0), count=2)            # nothing in common
    check(add(x, 1.0), red(x, 1), count=2)                      # different loops
    check(*[mul(x, float(i)) for i in range(9)], count=3)       # four each


def test_outputs_that_depend_on_each_other() -> None:
    x = buf(4, 5)
    y = exp(x)
    plan = check(y, add(y, x), mul(y, 2.0), count=2)
    assert [i.outputs for i in plan.items] == [1, 2]


def test_a_shared_reduction_is_computed_once() -> None:
    x = buf(40, 50)
    s = red(x, 1)
    check(exp(reshape(s, 40)), sub(x, s), count=3)


def test_same_sink_twice() -> None:
    x = buf(4, 5)
    plan = check(add(x, 1.0), add(x, 1.0), count=1)
    assert plan.outputs[0] is plan.outputs[1]


def test_factors_that_read_one_buffer_have_a_parameter_each():
    """So that an action can stage one of them: x @ x is the same kernel as x @ y."""
    def product(x, y):
        wide = [UOp(Op.EXPAND, x.dtype, (UOp(Op.RESHAPE, x.dtype, (t,), s),), (8, 8, 8)) for t, s in ((x, (8, 1, 8)), (UOp(Op.PERMUTE, y.dtype, (y,), (1, 0)), (1, 8, 8)))]
        terms = UOp(Op.MUL, x.dtype, tuple(wide))
        return UOp(Op.RESHAPE, x.dtype, (UOp(Op.REDUCE_AXES, x.dtype, (terms,), (Op.ADD, (2,))),), (8, 8))
    x, y = (UOp(Op.BUFFER, dtypes.float32, (), BufferArg(900 + i, (8, 8), "CPU")) for i in range(2))
    (one,), (two,) = (schedule([product(x, t)], fresh).items for t in (x, y))
    assert one.ast is two.ast and [v.buffer for v in one.views[1:]] == [x, x] and {v.buffer for v in two.views[1:]} == {x, y}
