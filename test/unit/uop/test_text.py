"""Printers: exact texts of small graphs, round trips through source, and size linear in the graph."""
from __future__ import annotations

import math
import random

import pytest
from uop_exprs import buffer, loaded, loop, number, param, random_bool, random_index, random_ranges, sink, softmax

import morok.uop
from morok.dtype import dtypes
from morok.uop import AxisKind, Op, StageArg, UOp, Where, code, const, reproduce, simplify, tree

F = dtypes.float32


def rebuilt(u: UOp) -> UOp:
    scope: dict[str, object] = {name: getattr(morok.uop, name) for name in morok.uop.__all__} | {"dtypes": dtypes}
    exec(reproduce(u), scope)
    return scope["u"]                                          # type: ignore[return-value]


def test_code_of_softmax() -> None:
    assert code(simplify(softmax(3, 4))) == """\
for i0 in range(3):  # loop
  for r1 in range(4):  # reduce
    acc0 = max(acc0, p1[(i0 * 4) + r1])
  for r1_1 in range(4):  # reduce
    acc1 += exp(p1[(i0 * 4) + r1_1] - acc0)
  for i1 in range(4):  # loop
    p0[(i0 * 4) + i1] = exp(p1[(i0 * 4) + i1] - acc0) / acc1"""


def test_code_of_guards_stages_and_scans() -> None:
    i, s = loop(0, 4), loop(1, 4, AxisKind.SCAN)
    stage = UOp(Op.STAGE, F, (UOp(Op.LOAD, F, (param(1, 4).index(i - 1, const(0) < i),)), i, i), StageArg(Where.LOCAL, 4))
    u = sink(param(0, 4).index(s, s < 3).store(UOp(Op.SCAN, F, (stage.index(s).load(), s), Op.ADD)))
    assert code(u) == """\
for i0 in range(4):  # loop
  local0[i0] = p1[i0 - 1] if 0 < i0 else 0
for s1 in range(4):  # scan
  p0[s1] = scan_add(local0[s1], s1) if s1 < 3"""


def test_code_of_a_tensor_graph() -> None:
    x = buffer((2, 3))
    assert code(UOp(Op.REDUCE_AXES, F, (x + x,), (Op.ADD, (1,)))) == """\
t0 = buffer(BufferArg(uid=0, shape=(2, 3), device='CPU'))  # float32 (2, 3)
t1 = add(t0, t0)  # float32 (2, 3)
t2 = reduce_axes(t1, (Op.ADD, (1,)))  # float32 (2, 1)"""


def test_tree_prints_shared_nodes_once() -> None:
    x = loaded(0, 4, F, loop(0, 4))
    assert tree((x * 2.0) + x) == """\
ADD float32
  MUL float32
    %0 = LOAD float32
      INDEX float32
        PARAM float32 ParamArg(slot=0, size=4)
        RANGE index LOOP id=0 phase=0 order=(0,) extent=4
    CONST float32 2.0
  %0"""


@pytest.mark.parametrize("v", [0.1, -0.0, math.inf, -math.inf, math.nan, 1e-45, 3.0])
def test_float_constants_come_back(v: float) -> None:
    for dt in (F, dtypes.float64, dtypes.float16):
        assert rebuilt(number(v, dt)) is number(v, dt)


def test_every_kind_of_argument_comes_back() -> None:
    x, n = buffer((2, 3)), buffer((2, 3), dtypes.int64, 1)
    i = loop(0, 4, AxisKind.UPCAST)
    stage = UOp(Op.STAGE, F, (loaded(1, 4, F, i), i, i), StageArg(Where.LOCAL, 4))
    for u in (UOp(Op.PAD, F, (x,), ((0, 1), (2, 0))), UOp(Op.REDUCE_AXES, F, (x,), (Op.MAX, (1,))), UOp(Op.COPY, F, (x,), "CPU"),
              UOp(Op.GATHER, F, (x, n, n)), UOp(Op.IOTA, dtypes.int8, (), 5), UOp(Op.FLIP, F, (x,), (1,)), UOp(Op.WINDOW, F, (x,), ((1, 2, 1, 1),)),
              number(True, dtypes.bool), number(-5, dtypes.int8), sink(param(0, 4).index(i, i < 3).store(stage.index(i).load())), softmax(3, 4)):
        assert rebuilt(u) is u


def test_random_expressions_come_back_and_print() -> None:
    for seed in range(200):
        r = random.Random(seed)
        rs = random_ranges(r)
        u = random_index(r, rs, 5) if seed % 2 else random_bool(r, rs, 4)
        assert rebuilt(u) is u and rebuilt(simplify(u)) is simplify(u), f"seed {seed}"
        assert tree(u) and code(u)


def deep(n: int) -> UOp:
    x = u = loaded(0, 1, F)
    for k in range(n):
        u = (u + 1.5).maximum(x) if k % 2 else u * u           # shared sources: as a tree it would have 2**n nodes
    return u


@pytest.mark.parametrize("printer", [tree, code, reproduce])
def test_text_is_linear_in_the_graph(printer: object) -> None:
    small, large = (len(printer(deep(n))) for n in (500, 4000))  # type: ignore[operator]
    assert large < 10 * small


def test_deep_source_comes_back() -> None:
    u = deep(3000)
    assert rebuilt(u) is u
