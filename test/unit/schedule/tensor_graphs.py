"""Tensor graphs made by hand, and the values of scheduled kernels by interpretation."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from morok.dtype import DType, dtypes
from morok.schedule import Schedule, schedule
from morok.uop import BufferArg, GroupOp, Op, UOp, toposort
from morok.uop.interpret import evaluate, run_kernel

F32, I64, BOOL = dtypes.float32, dtypes.int64, dtypes.bool
Data = dict[UOp, Any]
_uids = itertools.count(1)


def fresh(shape: tuple[int, ...], dtype: DType, device: str) -> UOp:
    return UOp(Op.BUFFER, dtype, (), BufferArg(next(_uids), shape, device))


def buf(*shape: int, dtype: DType = F32) -> UOp:
    return fresh(shape, dtype, "CPU")


def op1(op: Op, x: UOp, arg: Any = None) -> UOp:
    """A node of one source and the same dtype."""
    return UOp(op, x.dtype, (x,), arg)


def reshape(x: UOp, *shape: int) -> UOp:
    return x if shape == x.shape else op1(Op.RESHAPE, x, shape)


def permute(x: UOp, *axes: int) -> UOp:
    return op1(Op.PERMUTE, x, axes)


def pad(x: UOp, *pads: tuple[int, int]) -> UOp:
    return op1(Op.PAD, x, pads)


def shrink(x: UOp, *cuts: tuple[int, int, int]) -> UOp:
    return op1(Op.SHRINK, x, cuts)


def cat(axis: int, *xs: UOp) -> UOp:
    return UOp(Op.CAT, xs[0].dtype, xs, axis)


def spread(x: UOp, shape: tuple[int, ...]) -> UOp:
    """Broadcast, as NumPy does."""
    x = reshape(x, *(1,) * (len(shape) - len(x.shape or ())), *(x.shape or ()))
    return x if x.shape == shape else op1(Op.EXPAND, x, shape)


def full(value: Any, shape: tuple[int, ...], dtype: DType = F32) -> UOp:
    return spread(UOp(Op.CONST, dtype, (), value), shape)


def iota(n: int, dtype: DType = I64) -> UOp:
    return UOp(Op.IOTA, dtype, (), n)


def alu(op: Op, *xs: Any) -> UOp:
    """An elementwise op with broadcasting; numbers take the last tensor's dtype."""
    nodes = [x for x in xs if isinstance(x, UOp)]
    shape = np.broadcast_shapes(*[x.shape or () for x in nodes])
    src = tuple(spread(x, shape) if isinstance(x, UOp) else full(x, shape, nodes[-1].dtype) for x in xs)
    return UOp(op, BOOL if op in GroupOp.COMPARE else src[-1].dtype, src)


def add(*xs: Any) -> UOp: return alu(Op.ADD, *xs)
def sub(*xs: Any) -> UOp: return alu(Op.SUB, *xs)
def mul(*xs: Any) -> UOp: return alu(Op.MUL, *xs)
def div(*xs: Any) -> UOp: return alu(Op.DIV, *xs)
def exp(x: UOp) -> UOp: return alu(Op.EXP, x)
def relu(x: UOp) -> UOp: return alu(Op.MAX, x, 0.0)


def assign(target: UOp, x: UOp) -> UOp:
    return UOp(Op.ASSIGN, target.dtype, (target, x))


def red(x: UOp, *axes: int, op: Op = Op.ADD) -> UOp:
    return op1(Op.REDUCE_AXES, x, (op, tuple(a % len(x.shape or ()) for a in axes)))


def scan(x: UOp, axis: int, op: Op = Op.ADD) -> UOp:
    return op1(Op.SCAN_AXIS, x, (op, axis))


def mean(x: UOp, *axes: int) -> UOp:
    s = red(x, *axes)
    return mul(s, float(np.prod(s.shape or ()) / np.prod(x.shape or ())))


def variance(x: UOp, *axes: int) -> UOp:
    d = sub(x, mean(x, *axes))
    return mean(mul(d, d), *axes)


def matmul(a: UOp, b: UOp) -> UOp:
    """(..., m, k) @ (..., k, n) with equal leading axes, or (m, k) @ (k, n)."""
    *batch, m, k = a.shape or ()
    n = (b.shape or ())[-1]
    lead = tuple(range(len(b.shape or ()) - 2))
    right = reshape(permute(b, *lead, len(lead) + 1, len(lead)), *(b.shape or ())[:-2], 1, n, k)
    return reshape(red(mul(reshape(a, *batch, m, 1, k), right), -1), *batch, m, n)


def conv2d(x: UOp, w: UOp, stride: int = 1) -> UOp:
    n, c, _, _ = x.shape or ()
    o, _, p, q = w.shape or ()
    windows = op1(Op.WINDOW, x, ((2, p, stride, 1), (3, q, stride, 1)))
    h, v = (windows.shape or ())[2:4]
    windows = reshape(permute(windows, 0, 2, 3, 1, 4, 5), n, 1, h, v, c, p, q)
    return reshape(red(mul(windows, reshape(w, 1, o, 1, 1, c, p, q)), 4, 5, 6), n, o, h, v)


def same_pad(x: UOp) -> UOp:
    return pad(x, (0, 0), (0, 0), (1, 1), (1, 1))


def gelu(x: UOp) -> UOp:
    return mul(mul(x, 0.5), add(alu(Op.ERF, mul(x, 0.5 ** 0.5)), 1.0))


def softmax(x: UOp, axis: int = -1) -> UOp:
    e = exp(sub(x, red(x, axis, op=Op.MAX)))
    return div(e, red(e, axis))


def log_softmax(x: UOp) -> UOp:
    d = sub(x, red(x, -1, op=Op.MAX))
    return sub(d, alu(Op.LOG, red(exp(d), -1)))


def layernorm(x: UOp, scale: UOp, shift: UOp) -> UOp:
    normal = mul(sub(x, mean(x, -1)), div(1.0, alu(Op.SQRT, add(variance(x, -1), 1e-5))))
    return add(mul(normal, scale), shift)


def gather(x: UOp, *index: UOp) -> UOp:
    return UOp(Op.GATHER, x.dtype, (x, *index))


def embedding(table: UOp, ids: UOp) -> UOp:
    shape = (*(ids.shape or ()), (table.shape or ())[1])
    return gather(table, spread(reshape(ids, *(ids.shape or ()), 1), shape), spread(iota(shape[-1]), shape))


# ---- values ----------------------------------------------------------------------------------------------
def fill(sinks: list[UOp], seed: int = 0) -> Data:
    """Values for all buffers: floats around 0, integers 0..3."""
    rng = np.random.default_rng(seed)
    return {u: rng.integers(0, 4, u.shape) if u.dtype.is_int else rng.standard_normal(u.shape or ()) for u in toposort(sinks) if u.op is Op.BUFFER}


def run(plan: Schedule, data: Data) -> list[Any]:
    """Interpret the kernels in order, floats in float64; what is not written stays NaN."""
    memory = {b: np.array(a, np.float64 if b.dtype.is_float else np.int64 if b.dtype.is_int else np.bool_).reshape(-1) for b, a in data.items()}

    def array(b: UOp) -> Any:
        if b not in memory:
            n = int(np.prod(b.shape or ()))
            memory[b] = np.full(n, np.nan) if b.dtype.is_float else np.full(n, -99 if b.dtype.is_int else 0, np.int64 if b.dtype.is_int else np.bool_)
        return memory[b]
    for item in plan.items:
        arrays = []
        params = {u.arg.slot: u for u in item.ast.toposort() if u.op is Op.PARAM}
        assert sorted(params) == list(range(len(item.views)))
        for slot, view in enumerate(item.views):
            assert slot < item.outputs or view.buffer in memory, "read before it is written"
            a = array(view.buffer)
            assert params[slot].arg.size == a.size and params[slot].dtype is view.buffer.dtype
            arrays.append(Region(a, view.offset))
        run_kernel(item.ast, [r.whole() for r in arrays], wide=True)
        for r in arrays:
            r.back()
    return [array(o).reshape(o.shape or ()) for o in plan.outputs]


class Region:
    """A buffer from an offset on, made as long as the parameter says: a piece of a CAT is addressed from its first element."""

    def __init__(self, a: Any, offset: int) -> None:
        self.a, self.offset = a, offset

    def whole(self) -> Any:
        if not self.offset:
            return self.a
        self.longer = np.concatenate([self.a[self.offset:], np.full(self.offset, 0, self.a.dtype)])
        return self.longer

    def back(self) -> None:
        if self.offset:
            self.a[self.offset:] = self.longer[:len(self.a) - self.offset]


def check(*sinks: UOp, count: int | None = None) -> Schedule:
    """Schedule, interpret and compare with the graph's own value; `count`: how many kernels there must be."""
    plan = schedule(list(sinks), fresh)
    data = fill(list(sinks))
    for got, s in zip(run(plan, data), sinks, strict=True):
        assert got.shape == s.shape
        np.testing.assert_allclose(got, evaluate(s, data, wide=True), rtol=1e-9, atol=1e-9)
    if count is not None:
        assert len(plan.items) == count
    return plan
