"""The CPU device: compile, load, launch; what LLVM cannot compile or load is a CompileError."""
import dataclasses
import gc
import os
import threading

import numpy as np
import pytest
from launch import run
from llvm_kernels import add_one, calls, load, over_chunks, where

from morok import CompileError, dtypes, knobs
from morok.program import Program
from morok.runtime import get_device
from morok.runtime.cpu import SERVES, CpuDevice, host_target


@pytest.fixture(scope="module")
def cpu():
    return get_device("CPU")


def counters(n):
    return np.zeros(n, np.int64)


def test_compile_load_run(cpu):
    code, x = load(cpu, add_one), counters(100)
    run(cpu, code, [x.ctypes.data], 100, 0)
    assert (x == 1).all()


def test_only_the_asked_part_is_run(cpu):
    with knobs.scope(MOROK_THREADS=1):
        code, x = load(cpu, add_one), counters(100)
        run(cpu, code, [x.ctypes.data], 37, 0)
    assert x.sum() == 37 and (x[:37] == 1).all()


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 8, 9, 64, 1001])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_chunk_runs_once(cpu, chunks, threads):
    with knobs.scope(MOROK_THREADS=threads):
        code, x = load(cpu, add_one), counters(chunks + 1)
        for _ in range(50):
            run(cpu, code, [x.ctypes.data], chunks, 0)
    assert (x[:-1] == 50).all() and x[-1] == 0


def test_the_number_of_threads_follows_the_knob(cpu):
    for n in (1, 5, 2):
        with knobs.scope(MOROK_THREADS=n):
            assert cpu.target.threads == n
            code, x = load(cpu, add_one), counters(9)
            run(cpu, code, [x.ctypes.data], 9)
            assert n == 1 or cpu._pools[n].workers == n - 1
    assert cpu.target.threads == knobs.MOROK_THREADS.get() or host_target().threads


def test_scratch_is_aligned_and_private(cpu):
    with knobs.scope(MOROK_THREADS=4):
        code, x = load(cpu, where), counters(5000)
        for _ in range(20):
            run(cpu, code, [x.ctypes.data], 5000, where.scratch)
    used = np.unique(x)
    assert (used % 64 == 0).all() and 0 not in used and len(used) <= 4
    assert (np.diff(used) >= where.scratch).all()


def test_launches_from_several_threads_at_once(cpu):
    rounds, size, failed = 300, 999, []

    def work(code):
        x = counters(size)
        for _ in range(rounds):
            run(cpu, code, [x.ctypes.data], size, 64)
        if not (x == rounds).all():
            failed.append(x)
    code = load(cpu, add_one)
    callers = [threading.Thread(target=work, args=(code,)) for _ in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_a_team_of_its_own(cpu):
    with knobs.scope(MOROK_THREADS=3):
        code, x = load(cpu, add_one), counters(100)
        run(cpu, code, [x.ctypes.data], 100, 0)
        pid = os.fork()
        if pid == 0:                              # no test machinery may run in the child
            status = 1
            try:
                again = load(cpu, add_one)
                for c in (code, again):
                    run(cpu, c, [x.ctypes.data], 100, 0)
                status = 0 if (x == 3).all() and cpu._pools[3].workers == 2 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        run(cpu, code, [x.ctypes.data], 100, 0)
    assert (x == 2).all()


def test_functions_that_llvm_calls_are_found(cpu):
    code, x = load(cpu, calls), np.zeros(500)
    x[0] = 8.5
    run(cpu, code, [x.ctypes.data], 1, calls.scratch)
    np.testing.assert_array_equal(x[:4], [8.5, 2.5, 8.0, 0.5])


def test_code_leaves_memory_with_its_kernel(cpu):
    first = load(cpu, add_one).address
    gc.collect()
    assert any(load(cpu, add_one).address == first for _ in range(10))


def test_kernels_outlive_the_jit_that_loaded_them(cpu):
    """More than one JIT serves; each must stay as long as a kernel of it does, in whatever order they go."""
    machine_code = cpu.compile(add_one)
    held = [cpu.load(machine_code, "add_one") for _ in range(3 * SERVES)]
    assert len({c.address for c in held}) == len(held)
    x = counters(1)
    for part in (held, held[::2], held[1::7]):
        held = part
        gc.collect()
        for c in held:
            run(cpu, c, [x.ctypes.data], 1, 0)
    assert x[0] == 192 + 96 + 28


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_a_kernel_that_is_gone_leaves_no_memory(cpu):
    def work():
        for _ in range(8 * SERVES):
            load(cpu, add_one)
        gc.collect()
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    work()
    before = work()
    assert (work() - before) / (8 * SERVES) < 1024             # bytes a kernel; LLVM's own loss was 14 KiB


def test_one_symbol_many_times(cpu):
    two = Program("add_two", "add_one", add_one.source.replace("add i64 %old, 1", "add i64 %old, 2"))
    a, b, x = load(cpu, add_one), load(cpu, two), counters(1)
    run(cpu, a, [x.ctypes.data], 1, 0)
    run(cpu, b, [x.ctypes.data], 1, 0)
    assert x[0] == 3


@pytest.mark.parametrize("source", ["nonsense", "define void @f() {\n  ret i32 1\n}", "define i32 @f() {\n  %x = add float 1.0, 2.0\n  ret void\n}", ""])
def test_code_that_llvm_refuses(cpu, source):
    with pytest.raises(CompileError) as e:
        code = cpu.compile(Program("broken", "f", source))
        cpu.load(code, "f")
    assert "broken" in str(e.value) or "code of f:" in str(e.value)


def test_a_missing_function_is_told(cpu):
    source = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}"
    with pytest.raises(CompileError, match="cannot load"):
        load(cpu, Program("f", "f", source))
    assert load(cpu, add_one).address


def test_assembly_is_the_text_of_the_machine_code(cpu):
    assert "add_one:" in cpu.assembly(add_one)


def test_own_memory_is_aligned(cpu):
    assert all(cpu.allocate((n, 3), dtypes.int8).address % 64 == 0 for n in range(40))


def test_float16_without_an_instruction_for_it():
    """All conversions between float16 and float32 by the functions that stand in, against NumPy's; every float16, and floats at and beside all ties."""
    host = host_target()
    if not host.triple.startswith("x86_64"):
        pytest.skip("other processors have the instruction")
    features = ",".join(f for f in host.features.split(",") if f[1:] != "f16c" and "avx512" not in f) + ",-f16c"
    device = CpuDevice(dataclasses.replace(host, features=features))
    body = "  %x.at = getelementptr {a}, ptr %p, i64 %i\n  %x = load {a}, ptr %x.at\n  %y = {op} {a} %x to {b}\n" \
           "  %q.at = getelementptr ptr, ptr %args, i64 1\n  %q = load ptr, ptr %q.at\n  %y.at = getelementptr {b}, ptr %q, i64 %i\n  store {b} %y, ptr %y.at"
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = half.astype(np.float32)
    finite = wide[np.isfinite(wide)]
    ties = (np.sort(finite)[1:] / 2 + np.sort(finite)[:-1] / 2).astype(np.float32)
    single = np.concatenate([wide, ties, np.nextafter(ties, np.float32(-np.inf)), np.nextafter(ties, np.float32(np.inf)),
                             np.array([65519.996, 65520, 1e30, -1e30, 1e-45, np.inf], np.float32)]).astype(np.float32)
    for source, a, b, op in ((half, "half", "float", "fpext"), (single, "float", "half", "fptrunc")):
        with np.errstate(over="ignore"):
            want = source.astype(np.float32 if b == "float" else np.float16)
        p = Program("convert", "convert", over_chunks("convert", body.format(a=a, b=b, op=op)))
        assert "vcvtp" not in device.assembly(p)
        code, got = load(device, p), np.empty_like(want)
        run(device, code, [source.ctypes.data, got.ctypes.data], len(source), 0)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
