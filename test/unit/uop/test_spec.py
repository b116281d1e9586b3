"""The verifier: legal graphs pass, and each law is broken once."""
from __future__ import annotations

import pytest
from uop_exprs import buffer, loaded, loop, number, param, sink, softmax

from morok.dtype import dtypes
from morok.errors import IRError
from morok.uop import Axis, AxisKind, Op, ParamArg, StageArg, UOp, Where, const, verify
from morok.uop.spec import KERNEL_LAWS, TENSOR_LAWS

F, I32 = dtypes.float32, dtypes.int32
x, y, n = buffer((2, 3)), buffer((2, 3), uid=1), buffer((2, 3), I32, 2)
i = loop(0, 4)
value = loaded(1, 4, F, i)
at = param(0, 4).index(i)


def t(op: Op, *src: UOp, arg: object = None, dt: object = F) -> UOp:
    return UOp(op, dt, src, arg)                               # type: ignore[arg-type]


LEGAL = [
    x + y, (x < y).where(x, y), x.cast(I32), t(Op.RESHAPE, x, arg=(3, 2)), t(Op.PERMUTE, x, arg=(1, 0)), t(Op.PAD, x, arg=((0, 1), (2, 0))),
    t(Op.SHRINK, x, arg=((0, 1, 2), (1, 2, 1))), t(Op.SHRINK, x, arg=((0, 1, 0), (3, 1, 0))), t(Op.FLIP, x, arg=(1,)),
    t(Op.WINDOW, x, arg=((1, 2, 1, 1),)),
    t(Op.CAT, x, y, arg=1), t(Op.REDUCE_AXES, x, arg=(Op.ADD, (0, 1))), t(Op.SCAN_AXIS, x, arg=(Op.MAX, 1)), t(Op.GATHER, x, n, n),
    t(Op.EXPAND, t(Op.RESHAPE, number(1.0, F), arg=(1, 1)), arg=(2, 3)), t(Op.IOTA, arg=4, dt=I32), t(Op.ASSIGN, x, y), t(Op.COPY, x, arg="CPU"),
    t(Op.CONTIGUOUS, x), n << n, n // n, x.alu(Op.EXP), x.fma(y, x), x.bitcast(I32),
]
SCALAR = number(1.0, F)
ILLEGAL = [
    (i, "no op of a tensor graph"), (UOp(Op.ADD, F, (x,)), "number of sources"), (UOp(Op.ADD, F, (x, n)), "dtypes of the op"),
    (UOp(Op.ADD, I32, (x, y)), "dtypes of the op"), (UOp(Op.CMPLT, F, (x, y)), "dtypes of the op"), (UOp(Op.WHERE, F, (x, x, y)), "dtypes of the op"),
    (x.bitcast(dtypes.float64), "dtypes of the op"), (n.alu(Op.EXP), "takes floats"), (n / n, "takes floats"), (x // y, "takes integers"),
    (x << y, "takes integers"), (x & y, "bools or integers"), (~x, "bools or integers"), (UOp(Op.ADD, F, (x, y), 3), "no argument"),
    (x + SCALAR, "exactly one shape"), (SCALAR + x, "exactly one shape"), (t(Op.RESHAPE, x, arg=(5,)), "number of elements"),
    (t(Op.RESHAPE, x, arg=(3, 2), dt=I32), "keeps the dtype"), (t(Op.PERMUTE, x, arg=(0, 0)), "every axis once"),
    (t(Op.EXPAND, x, arg=(4, 3)), "axes of size 1"), (t(Op.EXPAND, x, arg=(1, 2, 3)), "axes of size 1"),
    (t(Op.PAD, x, arg=((0, -1), (0, 0))), "for every axis"), (t(Op.SHRINK, x, arg=((0, 1, 3), (0, 1, 3))), "inside its source"),
    (t(Op.SHRINK, x, arg=((0, 0, 2), (0, 1, 3))), "inside its source"), (t(Op.FLIP, x, arg=(2,)), "axes of its source"),
    (t(Op.FLIP, x, arg=(1, 1)), "axes of its source"), (t(Op.WINDOW, x, arg=((1, 2, 1, 0),)), "each axis once"),
    (t(Op.CAT, x, buffer((3, 3)), arg=1), "differ only in the axis"), (t(Op.REDUCE_AXES, x, arg=(Op.SUB, (0,))), "ADD|MUL|MAX|MIN"),
    (t(Op.REDUCE_AXES, x, arg=(Op.ADD, (2,))), "each axis once"), (t(Op.SCAN_AXIS, x, arg=(Op.ADD, 2)), "ADD|MUL|MAX|MIN"),
    (t(Op.GATHER, x, n), "index of the result's shape per axis"), (t(Op.GATHER, x, n, y), "index of the result's shape per axis"),
    (t(Op.ASSIGN, x, buffer((3, 2))), "buffer's shape"), (number(1, dtypes.index), "memory can hold"), (buffer((2, -1)), "sizes >= 0"),
]
ILLEGAL_KERNEL = [
    (sink(at.store(UOp(Op.RESHAPE, F, (value,), (1,)))), "no op of a kernel graph"), (sink(at.store(x)), "no op of a kernel graph"),
    (UOp(Op.RANGE, I32, (), Axis(0, 0, (0,), 4, AxisKind.LOOP)), "is an index with extent"), (loop(0, 0), "is an index with extent"),
    (UOp(Op.PARAM, F, (), ParamArg(-1, 4)), "slot"), (UOp(Op.INDEX, F, (param(0, 4), i.cast(I32))), "idx of dtype index"),
    (UOp(Op.INDEX, F, (value, i)), "idx of dtype index"), (UOp(Op.INDEX, F, (param(0, 4), i, i)), "idx of dtype index"),
    (UOp(Op.INDEX, I32, (param(0, 4), i)), "memory's dtype"), (UOp(Op.LOAD, F, (value,)), "reads an INDEX"),
    (UOp(Op.LOAD, I32, (at,)), "of its dtype"),
    (sink(at.store(value.cast(I32))), "memory's dtype"), (sink(UOp(Op.STORE, dtypes.void, (value, value))), "to an INDEX"),
    (UOp(Op.STORE, F, (at, value)), "void"), (UOp(Op.REDUCE, F, (value, i), Op.SUB), "ADD|MUL|MAX|MIN"),
    (UOp(Op.REDUCE, F, (value,), Op.ADD), "RANGEs"),
    (UOp(Op.REDUCE, F, (value, i, i), Op.ADD), "each once"), (UOp(Op.REDUCE, F, (value, const(3)), Op.ADD), "RANGEs"),
    (UOp(Op.REDUCE, I32, (value, i), Op.ADD), "value's dtype"), (UOp(Op.SCAN, F, (value, value), Op.ADD), "RANGE"),
    (UOp(Op.STAGE, F, (value, value, i), StageArg(Where.LOCAL, 4)), "widx of dtype index"), (UOp(Op.SINK, dtypes.void, (value,)), "holds STOREs"),
    (at + at, "reads values"), (value + UOp(Op.STAGE, F, (value, i, i), StageArg(Where.LOCAL, 4)), "reads values"),
    (value + i.cast(I32), "dtypes of the op"),
]


@pytest.mark.parametrize("u", LEGAL, ids=lambda u: u.op.name)
def test_legal_tensor_graphs(u: UOp) -> None:
    verify("tensor", u)


def test_legal_kernels() -> None:
    verify("kernel", softmax(3, 4))
    stage = UOp(Op.STAGE, F, (value, i, i), StageArg(Where.LOCAL, 4))
    scan = UOp(Op.SCAN, F, (value, i), Op.ADD)
    verify("kernel", sink(param(0, 4).index(i, i < 3).store(stage.index(i).load() + scan)))


@pytest.mark.parametrize(("u", "message"), ILLEGAL, ids=[f"{k}-{u.op.name}" for k, (u, _) in enumerate(ILLEGAL)])
def test_illegal_tensor_graphs(u: UOp, message: str) -> None:
    with pytest.raises(IRError) as e:
        verify("tensor", u)
    assert message in str(e.value) and e.value.args[0].startswith(u.op.name)


@pytest.mark.parametrize(("u", "message"), ILLEGAL_KERNEL, ids=[f"{k}-{u.op.name}" for k, (u, _) in enumerate(ILLEGAL_KERNEL)])
def test_illegal_kernels(u: UOp, message: str) -> None:
    with pytest.raises(IRError) as e:
        verify("kernel", u)
    assert message in str(e.value)


def test_every_law_is_broken_by_a_case() -> None:
    met: set[str] = set()
    for stage, cases in (("tensor", ILLEGAL), ("kernel", ILLEGAL_KERNEL)):
        for u, _ in cases:
            with pytest.raises(IRError) as e:
                verify(stage, u)
            met.add(str(e.value))
    laws = {one.text for one in (*TENSOR_LAWS, *KERNEL_LAWS)}
    assert not [text for text in laws if not any(m.endswith(text) for m in met)]
