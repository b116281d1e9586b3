"""Interning and the structural key."""
from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import subprocess
import sys
import weakref

from uop_exprs import loaded, loop, number

from morok.dtype import dtypes
from morok.uop import AxisKind, Op, UOp

BUILD = """
from morok.dtype import dtypes
from morok.uop import Axis, AxisKind, BufferArg, Op, ParamArg, StageArg, UOp, Where
r = UOp(Op.RANGE, dtypes.index, (), Axis(0, 0, (0,), 8, AxisKind.REDUCE, True))
x = UOp(Op.PARAM, dtypes.float32, (), ParamArg(0, 8)).index(r, r < 5).load() * 0.1
s = UOp(Op.STAGE, dtypes.float32, (x, r, r), StageArg(Where.LOCAL, 8))
k = UOp(Op.REDUCE, dtypes.float32, (x.maximum(float("nan")), r), Op.MAX)
b = UOp(Op.BUFFER, dtypes.int8, (), BufferArg(3, (2, 4), "CPU"))
t = UOp(Op.PAD, dtypes.int8, (UOp(Op.REDUCE_AXES, dtypes.int8, (b,), (Op.ADD, (0,))),), ((0, 1), (2, 0)))
"""


def test_equal_nodes_are_one_object() -> None:
    assert loop(0, 8) + 1 is loop(0, 8) + 1 and loop(0, 8) is not loop(0, 8, AxisKind.REDUCE)
    assert number(0.0, dtypes.float32) is not number(-0.0, dtypes.float32)
    assert number(math.nan, dtypes.float32) is number(math.nan, dtypes.float32)
    assert number(1, dtypes.int8) is not number(1, dtypes.int32) and number(1.0, dtypes.float32) is not number(1.0, dtypes.float64)


def test_copies_are_the_same_object() -> None:
    u = loaded(0, 8, dtypes.float32, loop(0, 8)) * 2.0
    assert copy.deepcopy(u) is u and pickle.loads(pickle.dumps(u)) is u


def test_dead_graphs_are_freed() -> None:
    u = loaded(7, 8, dtypes.float32, loop(0, 8)) * 12345.0
    gone = weakref.ref(u)
    del u
    gc.collect()
    assert gone() is None


def test_free_ranges() -> None:
    i, r = loop(0, 8), loop(1, 4, AxisKind.REDUCE)
    x = loaded(0, 32, dtypes.float32, i * 4 + r)
    assert x.free == {i, r} and UOp(Op.REDUCE, x.dtype, (x, r), Op.ADD).free == {i}


def test_keys_are_equal_across_processes() -> None:
    here: dict[str, object] = {}
    exec(BUILD, here)
    ours = " ".join(here[n].key for n in "rxskbt")               # type: ignore[attr-defined]
    for seed in ("0", "1", "77"):
        out = subprocess.run([sys.executable, "-c", BUILD + "print(r.key, x.key, s.key, k.key, b.key, t.key)"], check=True, text=True,
                             env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True).stdout
        assert out.strip() == ours
    assert len(set(ours.split())) == 6


def test_keys_tell_apart_what_is_not_equal() -> None:
    us = [number(v, dt) for dt in (dtypes.float32, dtypes.float64) for v in (0.0, -0.0, 1.0, math.nan)]
    us += [number(1, dtypes.int8), number(True, dtypes.bool)]
    us += [loop(0, 8), loop(1, 8), loop(0, 8, AxisKind.LOCAL), loop(0, 8, phase=1), loop(0, 8) + 1, 1 + loop(0, 8)]
    assert len({u.key for u in us}) == len(us)
