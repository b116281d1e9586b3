"""The measuring process: planted faults are each found, cost one candidate, and the next candidate is measured as if nothing had been."""
import os
import signal
import time

import numpy as np
import pytest

from morok import dtypes
from morok.program import Program
from morok.runtime import bench, get_device, measure
from morok.runtime.bench import Param, Task, worst_error
from morok.runtime.measure import Lost, Measurer

N = 1000
LOOP = """
define void @k(ptr %args, i64 %start, i64 %end, ptr %scratch) {
entry:
  %out = load ptr, ptr %args
  %pin = getelementptr ptr, ptr %args, i64 1
  %in = load ptr, ptr %pin
  br label %loop
loop:
  %i = phi i64 [ FIRST, %entry ], [ %next, %loop ]
  %j = add i64 %i, OFFSET
  %pi = getelementptr float, ptr %in, i64 %j
  %x = load float, ptr %pi
  %y = fmul float %x, 2.0
  %po = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %po
  EXTRA
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, LAST
  br i1 %more, label %loop, label %done
done:
  ret void
}
DECLS
"""


def kernel(first=0, last=N, offset=0, extra="", decls=""):
    """out[i] = 2 * in[i + offset] for i from first to last, and whatever else."""
    text = LOOP
    for name, value in (("FIRST", first), ("LAST", last), ("OFFSET", offset), ("EXTRA", extra), ("DECLS", decls)):
        text = text.replace(name, str(value))
    return Program("k", "k", text)


FAULTS = {
    "wrong index": (kernel(offset=1, last=N - 1), "wrong values"),
    "dropped tail": (kernel(last=N - 1), "wrong values"),
    "dropped head": (kernel(first=1), "wrong values"),
    "behind the end": (kernel(last=N + 1), "outside"),
    "before the start": (kernel(first=-1), "outside"),
    "far behind": (kernel(last=N + 1000), "outside"),
    "changes its input": (kernel(extra="store float 1.0, ptr %pi"), "input"),
    "other rounding": (kernel(extra="%z = fmul float %y, 0x3FF0001000000000\n  store float %z, ptr %po"), "wrong values"),
    "two runs differ": (kernel(extra="%t = call i64 @llvm.readcyclecounter()\n  %s = lshr i64 %t, 7\n  %b = and i64 %s, 1\n  %u = uitofp i64 %b to float\n"
                               "  %v = fmul float %u, 0x3E80000000000000\n  %q = fadd float %y, %v\n  store float %q, ptr %po",
                               decls="declare i64 @llvm.readcyclecounter()"), "runs"),
    "segmentation fault": (kernel(extra="store float 1.0, ptr inttoptr (i64 8 to ptr)"), "SIGSEGV"),
    "stop": (kernel(extra='call void asm sideeffect "ud2", ""()'), "SIG"),
    "for ever": (Program("k", "k", 'define void @k(ptr %args, i64 %start, i64 %end, ptr %scratch) {\nentry:\n  br label %loop\nloop:\n'
                         '  call void asm sideeffect "", "~{memory}"()\n  br label %loop\n}'), "no answer"),
}


@pytest.fixture(scope="module")
def cpu():
    return get_device("CPU")


@pytest.fixture(scope="module")
def measurer(cpu):
    task = Task((Param(dtypes.float32, N, False, True), Param(dtypes.float32, N, True, False)), 1, 0, 1)
    with Measurer(task, (kernel(), cpu.compile(kernel()))) as m:
        yield m


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults(cpu, measurer, monkeypatch, name):
    monkeypatch.setattr(measure, "FLOOR_SECONDS", 0.5)
    program, reason = FAULTS[name]
    number = 2 * list(FAULTS).index(name)
    found = measurer.trial(number, program, cpu.compile(program), 1e-3)
    assert reason in found.reason and not found.samples, found
    good = measurer.trial(number + 1, kernel(), cpu.compile(kernel()), 1e-3)
    assert not good.reason and len(good.samples) >= 3 and 0 < good.best < 1e-3 and good.worst == 0


def test_the_process_is_killed_from_outside(cpu, measurer):
    measurer.trial(1000, kernel(), cpu.compile(kernel()), 1e-3)
    os.kill(measurer._process.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert "SIGKILL" in measurer.trial(1001, kernel(), cpu.compile(kernel()), 1e-3).reason
    assert not measurer.trial(1002, kernel(), cpu.compile(kernel()), 1e-3).reason
    times = measurer.race([1000, 1002], 5, 1.0)
    assert {k: len(v) for k, v in times.items()} == {1000: 5, 1002: 5}


def test_a_reference_that_cannot_run(cpu):
    task = Task((Param(dtypes.float32, N, False, True), Param(dtypes.float32, N, True, False)), 1, 0, 1)
    broken = FAULTS["segmentation fault"][0]
    with pytest.raises(Lost, match="SIGSEGV"):
        Measurer(task, (broken, cpu.compile(broken)))


def test_what_is_allowed():
    """Errors are measured against the rounding of a sum of so many terms; integers, NaN and infinities have to agree."""
    x = np.array([1, -2, 0.5, 4], np.float32)
    assert worst_error(x, x, dtypes.float32, 1) == 0
    assert 0 < worst_error(x * np.float32(1 + 2**-23), x, dtypes.float32, 1) < 1
    assert worst_error(x * np.float32(1 + 1e-5), x, dtypes.float32, 1) > 1 > worst_error(x * np.float32(1 + 1e-5), x, dtypes.float32, 10000)
    assert worst_error(np.array([1, 2]), np.array([1, 3]), dtypes.int64, 100) == np.inf
    odd = np.array([np.nan, np.inf, 1, -np.inf], np.float32)
    assert worst_error(odd.copy(), odd, dtypes.float32, 1) == 0
    for wrong in ([1, np.inf, 1, -np.inf], [np.nan, -np.inf, 1, -np.inf], [np.nan, np.inf, np.nan, -np.inf], [np.nan, np.inf, np.inf, -np.inf]):
        assert worst_error(np.array(wrong, np.float32), odd, dtypes.float32, 1) == np.inf
    half = np.array([1, 2], np.float16)
    assert worst_error(half + np.float16(0.001), half, dtypes.float16, 1) < 1 < worst_error(half + np.float16(0.1), half, dtypes.float16, 1)


def test_draws_are_what_the_dtype_can_hold():
    rng = np.random.default_rng(0)
    for d in (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        x = bench.draw(Param(d, 5000, True, False), rng, True, False)
        assert len(x) == 5000 and x.dtype == bench.NUMPY[d] and len(np.unique(x)) > 1
        if d in (dtypes.float32, dtypes.float64):
            assert np.isnan(x).any() and np.isinf(x).any() and (np.abs(x[np.isfinite(x)]) < 1e4).all()
