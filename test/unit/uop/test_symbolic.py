"""simplify: forms by hand, and random expressions against exhaustive evaluation over their ranges."""
from __future__ import annotations

import random
import time

import numpy as np
import pytest
from uop_exprs import loaded, loop, number, param, random_bool, random_index, random_ranges, simplify_anew, sink
from uop_z3 import equal

from morok.dtype import dtypes
from morok.uop import AxisKind, Op, UOp, bounds, const, simplify, simplify_under, split_and
from morok.uop.interpret import evaluate_scalars
from morok.uop.linear import linear
from morok.uop.symbolic import join_and

i, j, k = loop(0, 8), loop(1, 4), loop(2, 1000)


def flat(idxs: list[UOp], shape: tuple[int, ...]) -> UOp:
    f = const(0)
    for x, n in zip(idxs, shape, strict=True):
        f = f * n + x
    return f


def unflat(f: UOp, shape: tuple[int, ...]) -> list[UOp]:
    out = []
    for n in reversed(shape):
        out.append(simplify(f % n))
        f = f // n
    return out[::-1]


def reshaped(*shapes: tuple[int, ...]) -> tuple[list[UOp], list[UOp]]:
    """The ranges of the first shape, and their indices after a chain of reshapes."""
    start = [loop(a, n) for a, n in enumerate(shapes[0])]
    idxs = start
    for old, new in zip(shapes, shapes[1:], strict=False):
        idxs = unflat(flat(idxs, old), new)
    return start, idxs


@pytest.mark.parametrize("shapes", [
    [(2, 3, 4), (6, 4), (24,), (4, 6), (24,), (2, 3, 4)],
    [(4, 6), (24,), (6, 4), (2, 3, 4), (6, 4), (24,), (4, 6)],
    [(6, 4), (4, 6), (8, 3), (6, 4)],
    [(10,), (2, 5), (5, 2), (10,)],
    [(7, 9, 5), (63, 5), (35, 9), (315,), (5, 63), (7, 9, 5)],
    [(4, 6), (2, 2, 2, 3), (8, 3), (4, 6)],
    [(128, 64, 3), (64, 128, 3), (3, 128, 64), (128, 64, 3)],
])
def test_reshapes_there_and_back_leave_plain_ranges(shapes: list[tuple[int, ...]]) -> None:
    start, end = reshaped(*shapes)
    assert all(a is b for a, b in zip(start, end, strict=True))


def test_reshape_to_finer_axes_needs_no_division_across() -> None:
    start, (a, b) = reshaped((4, 6), (8, 3))
    assert a is simplify(start[0] * 2 + start[1] // 3) and b is simplify(start[1] % 3)


@pytest.mark.parametrize(("u", "wanted"), [
    ((i // 2) * 2 + i % 2, i), (i - (i // 3) * 3, i % 3), (i * 4 + j - j, i * 4), ((i * 4 + j) // 4, i), ((i * 4 + j) % 4, j),
    (i % 8, i), (i // 8, const(0)), ((k // 4) // 6, k // 24), ((k % 24) % 6, k % 6), ((k % 24) // 6, (k // 6) % 4),
    (k // 12 * 12 + k // 3 % 4 * 3 + k % 3, k), ((i - 1) // 1, i + -1), (i * 0, const(0)), ((i + 3) + 4, i + 7), ((i + j) * 3 - i * 3, j * 3),
    ((i * 6 + 3) // 3, i * 2 + 1), ((i * 6 + 4) % 3, const(1)), (i.maximum(-1), i), (i.minimum(7), i), (i.maximum(9), const(9)),
    ((i - 8) // 8, const(-1)), (-(-i), i), ((i * 2).eq(5), number(False, dtypes.bool)), (i < 8, number(True, dtypes.bool)),
    (i * 4 + j < 16, i * 4 + j < 16), ((i // 2) < 3, i < 6), (~(i < 4), const(4) <= i), ((i < 4) & (i < 4), i < 4),
    (number(True, dtypes.bool).where(i, j), i), ((i < j).where(i, i), i), (i // 0, const(0)), (i % 0, const(0)), (const(-7) // 2, const(-4)),
    (const(-7) % 2, const(1)), (const(7) % -2, const(-1)), (i < i, number(False, dtypes.bool)), (i.cast(dtypes.int32).cast(dtypes.index), i),
    (loop(3, 1) * 5 + i, i),
])
def test_index_forms(u: UOp, wanted: UOp) -> None:
    assert simplify(u) is wanted


def test_sums_are_ordered_by_loop_position_with_the_constant_last() -> None:
    terms = [3 + k * 5, j * 2, i * 7]
    assert simplify(terms[0] + terms[1] + terms[2]) is simplify(terms[2] + terms[0] + terms[1]) is i * 7 + j * 2 + k * 5 + 3


def test_division_that_cannot_vanish_stays() -> None:
    f = simplify((i * 4 + j) // 3)
    assert f.op is Op.IDIV and linear(f) == (0, {f: 1})


def test_fixed_width_integers_wrap() -> None:
    x, u8 = loaded(0, 1, dtypes.int8), loaded(1, 1, dtypes.uint8)
    assert simplify(number(127, dtypes.int8) + 1) is number(-128, dtypes.int8)
    assert simplify((x + 100) + 100) is x + number(-56, dtypes.int8)
    assert simplify((x * 100) * 3) is x * number(44, dtypes.int8)
    assert simplify(number(-128, dtypes.int8) // -1) is number(-128, dtypes.int8)
    assert simplify(u8 < 0) is number(False, dtypes.bool)
    assert simplify(u8.cast(dtypes.int32) < 256) is number(True, dtypes.bool)
    assert simplify(x < 127).op is Op.CMPLT
    assert simplify(u8.cast(dtypes.int32).cast(dtypes.uint8)) is u8
    assert simplify(x.cast(dtypes.uint8).cast(dtypes.int32)).op is Op.CAST


def test_positions_leave_casts() -> None:
    a, b = i.cast(dtypes.int32), j.cast(dtypes.int32)
    assert simplify(a * 4 + b) is (i * 4 + j).cast(dtypes.int32)
    assert simplify((a * 4 + b) // 4) is a
    assert simplify(a < 3) is (i < 3)
    assert simplify(k.cast(dtypes.int8) + 1).op is Op.ADD        # 999 wraps in int8


def test_floats_fold_only_what_ieee_allows() -> None:
    x = loaded(0, 1, dtypes.float32)
    zero, minus_zero = number(0.0, dtypes.float32), number(-0.0, dtypes.float32)
    for kept in (x * 0, x - x, x / x, x + zero, x - minus_zero, x.eq(x), x.ne(x), x < x, ~(x < 1.0)):
        assert simplify(kept) is kept
    assert simplify(x * 1) is simplify(x / 1) is simplify(x + minus_zero) is simplify(x - zero) is simplify(-(-x)) is x
    assert simplify(number(0.1, dtypes.float32) + number(0.2, dtypes.float32)).arg == float(np.float32(0.1) + np.float32(0.2))
    assert simplify(number(1e38, dtypes.float32) * 10.0).arg == float("inf")


def test_under_a_condition() -> None:
    at = (i - 1) * 4 + j
    assert simplify_under(at // 4, const(1) <= i) is i + -1
    assert simplify_under(at % 4, const(1) <= i) is j
    assert simplify_under(at // 32, const(1) <= i) is const(0)
    assert simplify(at // 32) is not const(0)
    assert simplify_under((i * 4 + j - 2) // 16, (const(2) <= i * 4 + j) & (i * 4 + j < 18)) is const(0)
    assert simplify_under(i < 3, i < 2) is number(True, dtypes.bool)
    assert simplify_under(i % 5, ~(const(5) <= i)) is i


def test_conjunctions() -> None:
    a, b, c = i < 2, j < 3, k < 4
    assert split_and((a & b) & (c & a)) == [a, b, c]
    assert join_and([a, b, a]) is a & b and join_and([]) is number(True, dtypes.bool)
    assert split_and(join_and([])) == []


def values(*us: UOp) -> list[np.ndarray]:
    return list(np.broadcast_arrays(*evaluate_scalars(us)))


@pytest.mark.parametrize("block", range(12))
def test_random_expressions_keep_their_values(block: int) -> None:
    for seed in range(block * 250, block * 250 + 250):
        r = random.Random(seed)
        rs = random_ranges(r)
        u = random_index(r, rs, r.randint(1, 6)) if r.random() < 0.8 else random_bool(r, rs, r.randint(1, 5))
        valid = random_bool(r, rs, 2) & random_bool(r, rs, 1)
        simple, under = simplify(u), simplify_under(u, valid)
        a, b, c, ok = values(u, simple, under, valid)
        assert (a == b).all(), f"seed {seed}: simplify"
        assert (a == c)[ok].all(), f"seed {seed}: simplify_under"
        assert simplify_anew(simple) is simple, f"seed {seed}: not a fixed point"
        lo, hi = bounds(simple)
        assert lo <= b.min() and b.max() <= hi, f"seed {seed}: bounds"


def test_random_expressions_over_long_ranges_are_proved() -> None:
    """Ranges of thousands of steps: z3 takes the place of enumeration. Undecided in time counts as neither."""
    proved = 0
    for seed in range(150):
        r = random.Random(seed)
        rs = [loop(a, r.choice([3, 17, 96, 1000, 4096])) for a in range(3)]
        u = rs[0]
        for _ in range(r.randint(2, 5)):
            c = r.choice([2, 3, 4, 6, 12, 32, 96])
            u = r.choice([u + r.choice(rs) * c, u // c, u % c, u * c + r.choice(rs), u - r.randint(1, 50), (u // c) * c + u % c])
        same = equal(u, simplify(u), seconds=2)
        assert same is not False, f"seed {seed}"
        proved += same is True
    assert proved > 130


@pytest.mark.timing
def test_deep_graphs_are_near_linear() -> None:
    def chain(n: int) -> float:
        x = y = loaded(0, 8, dtypes.float32, loop(7, 8))
        for step in range(n):
            y = (y + 1.5).maximum(x) if step % 2 else y * 2
        start = time.perf_counter()
        simplify(y)
        return time.perf_counter() - start
    chain(10)
    assert chain(8000) < 20 * chain(1000) + 0.5


@pytest.mark.timing
def test_repeated_calls_are_free() -> None:
    s = simplify(flat([i, j, k], (8, 4, 1000)) // 7 % 5)
    start = time.perf_counter()
    for _ in range(1000):
        assert simplify(s) is s
    assert time.perf_counter() - start < 0.5


def test_a_kernel_keeps_its_loops() -> None:
    r = loop(3, 6, AxisKind.REDUCE)
    total = UOp(Op.REDUCE, dtypes.float32, (loaded(1, 48, dtypes.float32, (i * 6 + r) // 1 + 0), r), Op.ADD)
    got = simplify(sink(param(0, 8).index(i + 0).store(total)))
    assert got is sink(param(0, 8).index(i).store(UOp(Op.REDUCE, dtypes.float32, (loaded(1, 48, dtypes.float32, i * 6 + r), r), Op.ADD)))
