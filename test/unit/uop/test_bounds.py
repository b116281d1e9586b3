"""bounds: hand cases, and soundness on random expressions of index and of narrow integers, by enumeration."""
from __future__ import annotations

import random

import numpy as np
import pytest
from uop_exprs import loaded, loop, number, random_bool, random_index, random_ranges

from morok.dtype import DType, dtypes
from morok.uop import Op, UOp, bounds, const, simplify
from morok.uop.interpret import evaluate_scalars, storage

i, j = loop(0, 8), loop(1, 4)
ALL = [dtypes.bool, dtypes.int8, dtypes.uint8]
OPS = [Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.CMPNE]


@pytest.mark.parametrize(("u", "wanted"), [
    (i, (0, 7)), (i * 4 + j, (0, 31)), (i - j, (-3, 7)), ((i - 4) // 3, (-2, 1)), ((i - 4) % 3, (0, 2)), (i % -3, (-2, 0)), (i // (j + 1), (0, 7)),
    (i // j, (0, 7)), (i % j, (0, 2)), (i.maximum(3), (3, 7)), (i.minimum(3), (0, 3)), (-i, (-7, 0)), (i << 2, (0, 28)), (i >> 1, (0, 3)),
    (i < 8, (1, 1)), (i < 0, (0, 0)), (i < 4, (0, 1)), ((i < 8) & (j < 4), (1, 1)), ((i < 0) | (j < 4), (1, 1)), (~(i < 8), (0, 0)),
    ((i < 4).where(i, j - 9), (-9, 7)), (i.cast(dtypes.int8), (0, 7)), ((i * 100).cast(dtypes.int8), (-128, 127)), (i.cast(dtypes.bool), (0, 1)),
    ((i + 1).cast(dtypes.bool), (1, 1)), (loaded(0, 1, dtypes.uint8), (0, 255)), (loaded(0, 1, dtypes.uint8).cast(dtypes.int32) + 1, (1, 256)),
    (loaded(0, 1, dtypes.int8) + 1, (-128, 127)), (const(5), (5, 5)), (number(True, dtypes.bool), (1, 1)), (i // 0, (0, 0)), (i % 0, (0, 0)),
])
def test_by_hand(u: UOp, wanted: tuple[int, int]) -> None:
    assert bounds(u) == wanted


def test_index_is_unbounded() -> None:
    lo, hi = bounds(loaded(0, 1, dtypes.index))
    assert lo < -(1 << 64) and hi > 1 << 64


@pytest.mark.parametrize("block", range(4))
def test_random_index_expressions(block: int) -> None:
    for seed in range(block * 300, block * 300 + 300):
        r = random.Random(seed)
        rs = random_ranges(r)
        nodes = (random_index(r, rs, 5) + random_bool(r, rs, 3).where(*rs[:1], rs[-1])).toposort()
        for u, x in zip(nodes, evaluate_scalars(nodes), strict=True):
            lo, hi = bounds(u)
            assert lo <= x.min() and x.max() <= hi, f"seed {seed}: {u.op}"


def random_narrow(r: random.Random, leaves: list[UOp], dt: DType, depth: int) -> UOp:
    if depth == 0 or r.random() < 0.15:
        same = [x for x in leaves if x.dtype is dt]
        return r.choice(same) if r.random() < 0.7 else number(r.randint(-130, 260), dt)
    op = r.choice(OPS)
    if op in OPS[-4:]:
        t = r.choice(ALL[1:])
        made = random_narrow(r, leaves, t, depth - 1).alu(op, random_narrow(r, leaves, t, depth - 1))
        return made if dt.is_bool else made.cast(dt)
    if dt.is_bool:
        op = r.choice([Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR])
    kind = r.random()
    x = random_narrow(r, leaves, dt, depth - 1)
    if kind < 0.1:
        return random_narrow(r, leaves, r.choice(ALL), depth - 1).cast(dt)
    if kind < 0.2:
        return ~x if dt.is_bool else r.choice([-x, ~x, x.alu(Op.ABS)])
    if kind < 0.3:
        return random_narrow(r, leaves, dtypes.bool, depth - 1).where(x, random_narrow(r, leaves, dt, depth - 1))
    return x.alu(op, random_narrow(r, leaves, dt, depth - 1))


@pytest.mark.parametrize("block", range(4))
def test_random_narrow_integers_by_all_values(block: int) -> None:
    """Every value of an int8, a uint8 and a bool at once; simplify keeps them too."""
    at = [loop(0, 256), loop(1, 256), loop(2, 2)]
    leaves = [loaded(0, 256, dtypes.int8, at[0]), loaded(1, 256, dtypes.uint8, at[1]), loaded(2, 2, dtypes.bool, at[2])]
    arrays = [np.arange(-128, 128).astype(storage(dtypes.int8)), np.arange(256).astype(np.uint8), np.array([False, True])]
    for seed in range(block * 60, block * 60 + 60):
        r = random.Random(seed)
        u = random_narrow(r, leaves, r.choice(ALL), r.randint(1, 4))
        s = simplify(u)
        nodes = list(dict.fromkeys([u, s, *(n for n in u.toposort() if n.op not in (Op.PARAM, Op.INDEX))]))
        found = evaluate_scalars(nodes, arrays)
        assert s.dtype is u.dtype and (found[0] == found[nodes.index(s)]).all(), f"seed {seed}: simplify"
        for n, x in zip(nodes, found, strict=True):
            lo, hi = bounds(n)
            assert lo <= x.min() and x.max() <= hi, f"seed {seed}: {n.op}"
