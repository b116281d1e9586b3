"""Random index and bool expressions over ranges, small leaves for kernels, and an uncached simplify."""
from __future__ import annotations

import random

from morok.dtype import DType, dtypes
from morok.uop import Axis, AxisKind, BufferArg, Op, ParamArg, UOp, const, simplify

DIVISORS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24]
COMPARES = [Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.CMPNE]


def loop(id: int, extent: int, kind: AxisKind = AxisKind.LOOP, phase: int = 0) -> UOp:
    return UOp(Op.RANGE, dtypes.index, (), Axis(id, phase, (id,), extent, kind))


def param(slot: int, size: int, dt: DType = dtypes.float32) -> UOp:
    return UOp(Op.PARAM, dt, (), ParamArg(slot, size))


def loaded(slot: int, size: int, dt: DType, at: UOp | None = None) -> UOp:
    """Element `at` (0 if not given) of parameter `slot`."""
    return param(slot, size, dt).index(const(0) if at is None else at).load()


def number(value: object, dt: DType) -> UOp:
    return UOp(Op.CONST, dt, (), value)


def sink(*stores: UOp) -> UOp:
    return UOp(Op.SINK, dtypes.void, stores)


def buffer(shape: tuple[int, ...], dt: DType = dtypes.float32, uid: int = 0) -> UOp:
    return UOp(Op.BUFFER, dt, (), BufferArg(uid, shape, "CPU"))


def softmax(rows: int, cols: int) -> UOp:
    i, out = loop(0, rows), loop(1, cols)
    first, second = loop(1, cols, AxisKind.REDUCE, 1), loop(1, cols, AxisKind.REDUCE, 2)

    def x(at: UOp) -> UOp:
        return loaded(1, rows * cols, dtypes.float32, i * cols + at)
    top = UOp(Op.REDUCE, dtypes.float32, (x(first), first), Op.MAX)
    total = UOp(Op.REDUCE, dtypes.float32, ((x(second) - top).alu(Op.EXP), second), Op.ADD)
    return sink(param(0, rows * cols).index(i * cols + out).store((x(out) - top).alu(Op.EXP) / total))


def random_ranges(r: random.Random) -> list[UOp]:
    return [loop(i, r.choice([1, 2, 3, 4, 5, 6, 7, 8])) for i in range(r.randint(1, 4))]


def random_index(r: random.Random, rs: list[UOp], depth: int) -> UOp:
    """An index expression, often with divisions and negative parts."""
    if depth <= 0 or r.random() < 0.12:
        return r.choice(rs) if r.random() < 0.8 else const(r.randint(-7, 12))
    x, c = random_index(r, rs, depth - 1), r.choice(DIVISORS)
    kind = r.choice(["add", "sub", "scale", "div", "mod", "shift", "neg", "max", "min", "add", "div", "mod", "odd div", "var div", "where", "mul"])
    if kind in ("add", "sub", "max", "min"):
        y = random_index(r, rs, depth - 1)
        return {"add": x + y, "sub": x - y, "max": x.maximum(y), "min": x.minimum(y)}[kind]
    if kind == "odd div":
        return r.choice([x // -c, x % -c, x // 0, x % 0])
    if kind == "var div":
        y = random_index(r, rs, depth - 2)
        return r.choice([x // y, x % y])
    if kind == "where":
        return random_bool(r, rs, depth - 1).where(x, random_index(r, rs, depth - 1))
    return {"scale": x * r.choice([c, -c]), "div": x // c, "mod": x % c, "shift": x + r.randint(-20, 20), "neg": -x,
            "mul": x * random_index(r, rs, 0)}[kind]


def random_bool(r: random.Random, rs: list[UOp], depth: int) -> UOp:
    if depth > 0 and r.random() < 0.3:
        a, b = random_bool(r, rs, depth - 1), random_bool(r, rs, depth - 1)
        return r.choice([a & b, a | b, ~a, a ^ b, a.eq(b), a.ne(b), a.where(b, random_bool(r, rs, depth - 1))])
    return random_index(r, rs, depth).alu(r.choice(COMPARES), random_index(r, rs, depth - 2))


def simplify_anew(u: UOp) -> UOp:
    """simplify, as if the nodes had not been met before."""
    kept = [(n, n._simple) for n in u.toposort()]
    for n, _ in kept:
        n._simple = None
    try:
        return simplify(u)
    finally:
        for n, simple in kept:
            n._simple = simple
