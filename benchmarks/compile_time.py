"""What compiling costs: Python from AST to LLVM IR text, LLVM's stages, the import, and the first result of a small network."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from morok import Tensor
from morok.compiler import generate
from morok.program import OptStrategy, Program
from morok.runtime import get_device
from morok.runtime.buffer import new_buffer_node
from morok.runtime.cpu import PASSES
from morok.schedule import schedule

ROUNDS = 7
START = "import time; t = time.perf_counter()\nimport morok\nprint(time.perf_counter() - t)"
FIRST = """
import time; t = time.perf_counter()
import numpy as np
from morok import Tensor
x, w1, b1, w2, b2 = (np.ones(s, np.float32) for s in ((32, 64), (64, 128), (128,), (128, 10), (10,)))
((Tensor(x) @ Tensor(w1) + Tensor(b1)).relu() @ Tensor(w2) + Tensor(b2)).numpy()
print(time.perf_counter() - t)
"""


def least(f: Callable[[], Any]) -> float:
    """Milliseconds of the quickest of a few runs."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def llvm_stages(program: Program, machine: llvm.TargetMachine) -> tuple[float, float, float]:
    """Milliseconds to read the text, to run the passes, and to write machine code; as the CPU device does it."""
    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        marks = [time.perf_counter()]
        module = llvm.parse_assembly(program.source)
        module.verify()
        marks.append(time.perf_counter())
        passes = llvm.create_new_module_pass_manager()
        for p in PASSES:
            getattr(passes, f"add_{p}_pass")()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
        marks.append(time.perf_counter())
        machine.emit_object(module)
        marks.append(time.perf_counter())
        best = [min(b, (end - start) * 1e3) for b, start, end in zip(best, marks, marks[1:], strict=False)]
    return best[0], best[1], best[2]


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(), "layernorm": lambda x: x.layernorm(), "matmul 1024": lambda x: x @ x.T, "gelu": lambda x: x.gelu(), "sum rows": lambda x: x.sum(1)}


def schedule_time(make: Callable[[Tensor], Tensor]) -> float:
    """Milliseconds from a graph to its kernel ASTs. Schedules are remembered by shape, so each run has its own."""
    times = []
    for k in range(1, ROUNDS + 1):
        graph = make(Tensor.empty(1024 + k, 1024).realize()).uop
        start = time.perf_counter()
        schedule([graph], new_buffer_node)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def kernels() -> None:
    """A line for each kernel."""
    device, strategy = get_device("CPU"), OptStrategy.heuristic()
    t = device.target
    machine = llvm.Target.from_triple(t.triple).create_target_machine(cpu=t.cpu, features=t.features, opt=3, jit=True, reloc="pic")
    print(f"{f'kernel (ms, best of {ROUNDS})':24}{'schedule':>10}{'AST to IR':>11}{'parse':>8}{'passes':>8}{'code':>8}{'IR lines':>10}")
    for name, make in KERNELS.items():
        ast = schedule([make(Tensor.empty(1024, 1024).realize()).uop], new_buffer_node).items[-1].ast
        python = least(lambda ast=ast: generate(ast, device, strategy))         # type: ignore[misc]
        program = generate(ast, device, strategy)
        stages = "".join(f"{ms:8.2f}" for ms in llvm_stages(program, machine))
        print(f"{name:24}{schedule_time(make):10.2f}{python:11.2f}{stages}{len(program.source.splitlines()):10}")


def fresh(code: str, cache: str, **extra: str) -> float:
    """The least that a few new processes print, in ms; their bytecode is cached, as it is for users."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": cache, "MOROK_CACHE_DIR": cache} | extra
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout) for _ in range(6)) * 1e3


def main() -> None:
    """Print the tables."""
    kernels()
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = fresh(FIRST, cache, MOROK_DISK_LIMIT="0"), fresh(FIRST, cache)
        print(f"\nimport morok, NumPy included: {fresh(START, cache):.0f} ms")
        print(f"first result of a two-layer network, import included: {cold:.0f} ms; with the kernels on disk: {warm:.0f} ms\n")


if __name__ == "__main__":
    main()
