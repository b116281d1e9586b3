"""Actions keep the meaning of a kernel: interpreted before and after, and compiled; random sequences; what does not apply says why."""
import random

import numpy as np
import pytest
from kernels import KERNELS, data, matmul, softmax, sum_rows
from launch import run

from morok.codegen import lower
from morok.errors import OptError
from morok.optimizer import apply_opts, hand_coded, parse_opts
from morok.program import Chain, Local, Padto, Stage, Swap, Thread, Unroll, Upcast
from morok.runtime import get_device
from morok.target import Target
from morok.uop import AxisKind, Op, ranges
from morok.uop.interpret import run_kernel
from morok.uop.linear import linear
from morok.uop.spec import verify

TARGET = Target(threads=2)


def interpreted(ast, sizes, seed=0):
    arrays = data(seed, *sizes)
    arrays[0][:] = np.nan
    run_kernel(ast, arrays)
    return arrays[0]


def compiled(ast, sizes, seed=0):
    device = get_device("CPU")
    program = lower(ast, device.target, "k", f"k_{ast.key[:20]}")
    code = device.load(device.compile(program), program.entry)
    arrays = data(seed, *sizes)
    arrays[0][:] = np.nan
    run(device, code, [a.ctypes.data for a in arrays], program.chunks, program.scratch)
    return arrays[0]


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


SINGLE = [("elementwise", "UPCAST(1,8,1)"), ("elementwise", "UPCAST(0,4) UPCAST(1,8,1)"), ("elementwise", "THREAD(0)"), ("elementwise", "SWAP(0,1)"),
          ("elementwise prime", "PADTO(1,8) UPCAST(1,8,1)"), ("sum rows", "UNROLL(1,16,1)"), ("sum rows", "CHAIN(1,4)"), ("sum rows", "UPCAST(0,4) UNROLL(1,8,1)"),
          ("sum rows", "LOCAL(1,8)"), ("sum rows odd", "PADTO(1,8) UNROLL(1,8,1)"), ("max columns", "UPCAST(0,8,1) LOCAL(0,2) CHAIN(1,4)"),
          ("max columns prime", "PADTO(0,8) UPCAST(0,8,1) PADTO(1,4) CHAIN(1,4)"), ("matmul", "UPCAST(0,4) UPCAST(1,8,1) CHAIN(2,4)"),
          ("matmul", "UPCAST(0,4) UPCAST(1,8,1) SWAP(0,1) THREAD(1) STAGE(2,1)"), ("matmul", "UNROLL(2,8,1)"), ("matmul", "LOCAL(2,8)"),
          ("matmul prime", "PADTO(0,4) PADTO(1,8) PADTO(2,4) UPCAST(0,4) UPCAST(1,8,1) CHAIN(2,4)"), ("softmax", "UNROLL(1,8,1) UPCAST(1,8,1) THREAD(0)"),
          ("softmax odd", "PADTO(1,8) UNROLL(1,8,1) UPCAST(1,8,1)"), ("conv", "UPCAST(2,8,1) UPCAST(0,4) CHAIN(4,3) CHAIN(5,3)"), ("conv odd", "PADTO(2,8) UPCAST(2,8,1)"),
          ("transpose", "UPCAST(1,8,1) UPCAST(0,8)"), ("prefix", "UPCAST(1,8,1)"), ("prefix odd", "PADTO(1,8) UPCAST(1,8,1)"), ("prefix", "UPCAST(0,4,1)"),
          ("softmax", "UPCAST(0,2) UNROLL(1,8,1) UPCAST(1,8,1)"), ("softmax", "UPCAST(0,2) PADTO(1,5) UPCAST(1,5)"), ("softmax columns", "UPCAST(1,16,1) CHAIN(0,2) THREAD(1)"),
          ("softmax columns odd", "PADTO(1,8) UPCAST(1,8,1) PADTO(0,4) UPCAST(0,4) CHAIN(0,4)"), ("softmax short", "UPCAST(0,8,1) CHAIN(1,5) UPCAST(1,5) THREAD(0)"),
          ("plane shares", "UPCAST(0,2) UNROLL(2,8,1) UPCAST(2,8,1) CHAIN(1,3)"), ("plane shares odd", "PADTO(1,2) UPCAST(1,2) CHAIN(1,2) PADTO(0,2) UPCAST(0,2,1)"),
          ("sum of maxima", "CHAIN(0,3) UNROLL(1,4,1)"), ("sum of maxima", "UNROLL(0,4,1) CHAIN(1,2)"), ("sum of maxima", "CHAIN(0,2) LOCAL(0,3) UNROLL(1,20,1)"),
          ("prefix", "UPCAST(1,8,1) UPCAST(1,2)"), ("conv channels", "UPCAST(0,4,1) UPCAST(2,4) CHAIN(4,3) SWAP(0,1) THREAD(0) STAGE(2,0)"),
          ("conv channels", "UPCAST(0,20,1) PADTO(2,5) UPCAST(2,5) STAGE(2,1)"), ("matmul", "UPCAST(0,4) UPCAST(1,8,1) THREAD(1) STAGE(2,1) STAGE(1,1)"),
          ("positions", "PADTO(1,8) UNROLL(1,8,1)"), ("positions", "PADTO(1,4) CHAIN(1,4) UPCAST(0,4,1)")]


@pytest.mark.parametrize("name,text", SINGLE)
def test_sequence_keeps_values(name, text):
    ast, sizes = KERNELS[name]()
    want = interpreted(ast, sizes)
    new = apply_opts(ast, parse_opts(text))
    assert new is not ast
    verify("kernel", new)
    close(interpreted(new, sizes), want)
    close(compiled(new, sizes), want)


@pytest.mark.parametrize("name", KERNELS)
def test_unoptimized_code_and_heuristics(name):
    ast, sizes = KERNELS[name]()
    want = interpreted(ast, sizes)
    close(compiled(ast, sizes), want)
    opts = hand_coded(ast, TARGET)
    close(compiled(apply_opts(ast, opts), sizes), want)
    assert parse_opts(" ".join(map(str, opts))) == opts


def random_opt(r, ast):
    axes = sorted({x.arg.id for x in ranges(ast)})
    a, n, v = r.choice(axes), r.choice([2, 3, 4, 8, 16]), r.random() < 0.5
    return r.choice([Upcast(a, n, v), Upcast(a, n, v), Unroll(a, n, v), Chain(a, n), Local(a, n), Padto(a, n), Swap(a, r.choice(axes)), Thread(a), Stage(r.choice([1, 2]), a)])


@pytest.mark.parametrize("name", KERNELS)
def test_random_sequences(name):
    ast, sizes = KERNELS[name]()
    want = interpreted(ast, sizes)
    done = 0
    for seed in range(12):
        r, new, taken = random.Random(f"{name}{seed}"), ast, []
        for _ in range(12):
            opt = random_opt(r, new)
            try:
                new = apply_opts(new, [opt])
            except OptError:
                continue
            taken.append(opt)
            if len(taken) == 4:
                break
        if not taken or sum(x.arg.vector for x in ranges(new)) > 3:
            continue
        done += 1
        try:
            close(compiled(new, sizes), want)
        except Exception as e:
            raise AssertionError(f"{' '.join(map(str, taken))}: {e}") from e
        assert apply_opts(ast, parse_opts(" ".join(map(str, taken)))) is new
    assert done >= 6


def test_what_does_not_apply_says_why():
    ast, _ = sum_rows(12, 64)
    for text, words in (("UPCAST(0,5)", ["5", "12", "PADTO"]), ("UPCAST(1,4)", ["axis 1", "LOOP"]), ("UNROLL(0,4)", ["axis 0", "REDUCE"]), ("UPCAST(7,4)", ["axis 7"]),
                        ("SWAP(0,0)", ["two axes"]), ("SWAP(0,1)", ["axis 1"]), ("THREAD(1)", ["axis 1"]), ("PADTO(0,4)", ["multiple"]), ("PADTO(0,1)", ["less than 2"]),
                        ("STAGE(5,0)", ["parameter 5"]), ("THREAD(0) THREAD(0)", ["already"]), ("UPCAST(0,4) PADTO(0,5)", ["PADTO comes first"])):
        with pytest.raises(OptError) as e:
            apply_opts(ast, parse_opts(text))
        assert all(w in str(e.value) for w in words), (text, str(e.value))
    product, _ = matmul(12, 16, 24)
    with pytest.raises(OptError, match="STAGE comes last"):
        apply_opts(product, parse_opts("SWAP(0,1) STAGE(2,1) UPCAST(0,4)"))


@pytest.mark.parametrize("name,text,match", [
    ("matmul", "UPCAST(1,8,1) UPCAST(0,4,1)", "one vector axis.*0, 1"), ("sum rows", "UPCAST(0,4,1) UNROLL(1,8,1)", "one vector axis"),
    ("prefix", "UPCAST(1,2) UPCAST(1,8,1)", "in order"), ("prefix", "THREAD(1)", "axis 1 has no output loop"),
    ("plane shares odd", "PADTO(2,8)", "outermost"), ("elementwise", "UPCAST(0,12) UPCAST(1,40) UPCAST(1,2)", "no range of axis 1")])
def test_conflicts_are_named(name, text, match):
    with pytest.raises(OptError, match=match):
        apply_opts(KERNELS[name]()[0], parse_opts(text))


def test_a_buffer_has_a_row_for_each_lane():
    """Rows side by side: four times the room, the lane innermost."""
    ast, _ = softmax(8, 32)
    stage, = (u for u in apply_opts(ast, [Upcast(0, 4)]).toposort() if u.op is Op.STAGE)
    lane = next(r for r in stage.free if r.arg.kind is AxisKind.UPCAST)
    terms = linear(stage.src[1])[1]
    assert stage.arg.size == 4 * 32 and terms[lane] == 1 and set(terms.values()) == {1, 4}


def test_nothing_outside_of_the_arrays_is_touched():
    """Padded and staged kernels leave the bytes around their arrays as they are, and store every element."""
    for name, text in (("matmul prime", "PADTO(0,6) PADTO(1,16) UPCAST(0,6) UPCAST(1,8,1) STAGE(2,1)"), ("transpose odd", "PADTO(0,8) PADTO(1,8) UPCAST(1,8,1) UPCAST(0,8)"),
                       ("softmax odd", "PADTO(0,4) PADTO(1,16) UNROLL(1,16,1) UPCAST(1,16,1) UPCAST(0,4)"), ("conv odd", "PADTO(2,4) PADTO(0,8) UPCAST(0,4,1) UPCAST(2,4) STAGE(2,0)")):
        ast, sizes = KERNELS[name]()
        new, device = apply_opts(ast, parse_opts(text)), get_device("CPU")
        program = lower(new, device.target, "k", f"k_{new.key[:20]}")
        code = device.load(device.compile(program), program.entry)
        held = [np.full(n + 64, 7.25, np.float32) for n in sizes]
        for h, a in zip(held, data(0, *sizes), strict=True):
            h[32:-32] = a
        held[0][32:-32] = np.nan
        run(device, code, [h[32:].ctypes.data for h in held], program.chunks, program.scratch)
        assert all((h[:32] == 7.25).all() and (h[-32:] == 7.25).all() for h in held), name
        close(held[0][32:-32], interpreted(ast, sizes))


def test_lanes_are_made_at_lowering():
    """The graph does not grow with the register tile."""
    ast, _ = matmul(96, 96, 96)
    tiled = apply_opts(ast, parse_opts("UPCAST(0,6) UPCAST(1,16,1)"))
    assert len(tiled.toposort()) <= len(ast.toposort()) + 16
    assert {r.arg.kind for r in ranges(tiled)} == {AxisKind.LOOP, AxisKind.REDUCE, AxisKind.UPCAST}


@pytest.mark.timing
def test_heuristics_take_milliseconds():
    import time
    for name, make in KERNELS.items():
        ast, _ = make()
        best = 1.0
        for _ in range(5):
            start = time.perf_counter()
            hand_coded(ast, TARGET)
            best = min(best, time.perf_counter() - start)
        assert best < 0.010, (name, best)
