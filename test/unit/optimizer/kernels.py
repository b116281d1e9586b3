"""Hand-built kernel ASTs of all kinds, with the arrays that they run on."""
import numpy as np

from morok.dtype import dtypes
from morok.uop import Axis, AxisKind, Op, ParamArg, StageArg, UOp, Where, const

f32 = dtypes.float32
R = AxisKind.REDUCE


def rng(axis, n, kind=AxisKind.LOOP, phase=0):
    return UOp(Op.RANGE, dtypes.index, (), Axis(axis, phase, (axis,), n, kind))


def param(slot, size, dtype=f32):
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, size))


def sink(*stores):
    return UOp(Op.SINK, dtypes.void, stores)


def reduce(op, x, *ranges):
    return UOp(Op.REDUCE, x.dtype, (x, *ranges), op)


def data(seed, *sizes):
    g = np.random.default_rng(seed)
    return [g.standard_normal(n).astype(np.float32) for n in sizes]


def elementwise(m, n):
    i, j = rng(0, m), rng(1, n)
    at = i * n + j
    x, y = param(1, m * n).index(at).load(), param(2, n).index(j).load()
    return sink(param(0, m * n).index(at).store(x * y + 0.5)), [m * n, m * n, n]


def sum_rows(m, n):
    i, k = rng(0, m), rng(1, n, R)
    return sink(param(0, m).index(i).store(reduce(Op.ADD, param(1, m * n).index(i * n + k).load(), k))), [m, m * n]


def max_columns(m, n):
    j, k = rng(0, n), rng(1, m, R)
    return sink(param(0, n).index(j).store(reduce(Op.MAX, param(1, m * n).index(k * n + j).load(), k))), [n, m * n]


def matmul(m, n, k_):
    i, j, k = rng(0, m), rng(1, n), rng(2, k_, R)
    a, b = param(1, m * k_).index(i * k_ + k).load(), param(2, k_ * n).index(k * n + j).load()
    return sink(param(0, m * n).index(i * n + j).store(reduce(Op.ADD, a * b, k).maximum(0.0))), [m * n, m * k_, k_ * n]


def softmax(m, n):
    i, k, s, j = rng(0, m), rng(1, n, R, 0), rng(1, n, R, 1), rng(1, n, phase=2)

    def x(r):
        return param(1, m * n).index(i * n + r).load()
    top = reduce(Op.MAX, x(k), k)
    e = UOp(Op.EXP, f32, (x(s) - top,))
    row = UOp(Op.STAGE, f32, (e, s, s), StageArg(Where.LOCAL, n)).index(j).load()
    return sink(param(0, m * n).index(i * n + j).store(row / reduce(Op.ADD, e, s))), [m * n, m * n]


def softmax_columns(m, n):
    j, k, s, i = rng(1, n), rng(0, m, R, 0), rng(0, m, R, 1), rng(0, m, phase=2)

    def x(r):
        return param(1, m * n).index(r * n + j).load()
    e = UOp(Op.EXP, f32, (x(s) - reduce(Op.MAX, x(k), k),))
    row = UOp(Op.STAGE, f32, (e, s, s), StageArg(Where.LOCAL, m)).index(i).load()
    return sink(param(0, m * n).index(i * n + j).store(row / reduce(Op.ADD, e, s))), [m * n, m * n]


def plane_shares(n, a, b):
    """Each plane over its sum, from a buffer with two axes."""
    i, s, t, p, q = rng(0, n), rng(1, a, R), rng(2, b, R), rng(1, a, phase=1), rng(2, b, phase=1)
    e = UOp(Op.EXP, f32, (param(1, n * a * b).index(i * (a * b) + s * b + t).load(),))
    row = UOp(Op.STAGE, f32, (e, s * b + t, s, t), StageArg(Where.LOCAL, a * b)).index(p * b + q).load()
    return sink(param(0, n * a * b).index(i * (a * b) + p * b + q).store(row / reduce(Op.ADD, e, s, t))), [n * a * b, n * a * b]


def sum_of_maxima(m, n):
    """A reduction inside the body of another."""
    i, k = rng(0, m, R), rng(1, n, R)
    top = reduce(Op.MAX, param(1, m * n).index(i * n + k).load(), k)
    return sink(param(0, 1).index(const(0)).store(reduce(Op.ADD, top * top, i))), [1, m * n]


def row_shares(m, n):
    """Rows of one operand over the sums of another's: the output axis is none that is summed."""
    i, j, k = rng(0, m), rng(1, n), rng(2, n, R)
    total = reduce(Op.ADD, param(2, m * n).index(i * n + k).load(), k)
    return sink(param(0, m * n).index(i * n + j).store(param(1, m * n).index(i * n + j).load() * total)), [m * n, m * n, m * n]


def row_times_matrix(n, k_):
    j, k = rng(0, n), rng(1, k_, R)
    return sink(param(0, n).index(j).store(reduce(Op.ADD, param(1, k_).index(k).load() * param(2, k_ * n).index(k * n + j).load(), k))), [n, k_, k_ * n]


def conv(c_, h_, o_):
    o, h, w = rng(0, o_), rng(1, h_), rng(2, h_)
    c, p, q = rng(3, c_, R), rng(4, 3, R), rng(5, 3, R)
    y, x = h + p - 1, w + q - 1
    ok = (const(0) <= y) & (y < h_) & (const(0) <= x) & (x < h_)
    v = ok.where(param(1, c_ * h_ * h_).index(c * (h_ * h_) + y * h_ + x, ok).load(), 0.0)
    k = param(2, o_ * c_ * 9).index(o * (c_ * 9) + c * 9 + p * 3 + q).load()
    return sink(param(0, o_ * h_ * h_).index(o * (h_ * h_) + h * h_ + w).store(reduce(Op.ADD, v * k, c, p, q))), [o_ * h_ * h_, c_ * h_ * h_, o_ * c_ * 9]


def transpose(m, n):
    i, j = rng(0, m), rng(1, n)
    return sink(param(0, m * n).index(i * n + j).store(param(1, m * n).index(j * m + i).load())), [m * n, m * n]


def prefix(m, n):
    i, j = rng(0, m), rng(1, n, AxisKind.SCAN)
    return sink(param(0, m * n).index(i * n + j).store(UOp(Op.SCAN, f32, (param(1, m * n).index(i * n + j).load(), j), Op.ADD))), [m * n, m * n]


def positions(n):
    """A reduction of what is not loaded from memory."""
    i, k = rng(0, n), rng(1, 13, R)
    term = UOp(Op.CAST, f32, (k * 3 + i,)) + param(1, n).index(i).load()
    return sink(param(0, n).index(i).store(reduce(Op.ADD, (k < 9).where(term, 2.0), k))), [n, n]


KERNELS = {"elementwise": lambda: elementwise(12, 40), "elementwise prime": lambda: elementwise(7, 29), "sum rows": lambda: sum_rows(12, 64),
           "sum rows odd": lambda: sum_rows(5, 33), "max columns": lambda: max_columns(24, 48), "max columns prime": lambda: max_columns(13, 31),
           "matmul": lambda: matmul(12, 16, 24), "matmul prime": lambda: matmul(7, 11, 13), "softmax": lambda: softmax(6, 32), "softmax odd": lambda: softmax(5, 37),
           "softmax short": lambda: softmax(40, 5), "softmax columns": lambda: softmax_columns(20, 48), "softmax columns odd": lambda: softmax_columns(11, 35),
           "plane shares": lambda: plane_shares(4, 6, 8), "plane shares odd": lambda: plane_shares(3, 5, 7), "sum of maxima": lambda: sum_of_maxima(12, 20),
           "row shares": lambda: row_shares(6, 40), "row times matrix": lambda: row_times_matrix(33, 18), "conv channels": lambda: conv(3, 12, 20),
           "conv": lambda: conv(3, 8, 4), "conv odd": lambda: conv(2, 7, 5), "transpose": lambda: transpose(16, 24), "transpose odd": lambda: transpose(9, 13),
           "prefix": lambda: prefix(4, 32), "prefix odd": lambda: prefix(3, 21), "positions": lambda: positions(20)}
