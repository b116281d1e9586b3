"""What compiling costs: Python from AST to LLVM IR text, LLVM's own time, the import, and the first result of a small network."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from morok import Tensor
from morok.compiler import generate
from morok.program import OptStrategy
from morok.runtime import get_device
from morok.runtime.buffer import new_buffer_node
from morok.schedule import schedule

FIRST = """
import time; t = time.perf_counter()
import numpy as np
from morok import Tensor
i = time.perf_counter() - t
x, w1, b1, w2, b2 = (np.ones(s, np.float32) for s in ((32, 64), (64, 128), (128,), (128, 10), (10,)))
((Tensor(x) @ Tensor(w1) + Tensor(b1)).relu() @ Tensor(w2) + Tensor(b2)).numpy()
print(i, time.perf_counter() - t)
"""


def main() -> None:
    """Print the tables."""
    x = Tensor(np.zeros((1024, 1024), np.float32)).realize()
    kernels = {"softmax": x.softmax(), "layernorm": x.layernorm(), "matmul 1024": x @ x, "gelu": x.gelu(), "sum rows": x.sum(1)}
    device = get_device("CPU")
    print(f"{'kernel (best of 7, ms)':24}{'schedule':>10}{'AST to IR':>10}{'LLVM':>10}{'IR lines':>10}")
    for name, t in kernels.items():
        start = time.perf_counter()
        item = schedule([t.uop], new_buffer_node).items[-1]
        scheduled = time.perf_counter() - start
        programs = [generate(item.ast, device, OptStrategy.heuristic()) for _ in range(7)]
        llvm = []
        for p in programs:
            start = time.perf_counter()
            device.compile(p)
            llvm.append(time.perf_counter() - start)
        python = min(p.meta["python_seconds"] for p in programs)
        print(f"{name:24}{scheduled * 1e3:10.2f}{python * 1e3:10.2f}{min(llvm) * 1e3:10.2f}{len(programs[0].source.splitlines()):10}")
    with tempfile.TemporaryDirectory() as cache:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": cache}
        runs = [tuple(map(float, subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True, env=env).stdout.split())) for _ in range(6)]
    print(f"\nimport morok (with NumPy): {min(r[0] for r in runs) * 1e3:.0f} ms;  import to first result of a two-layer network: {min(r[1] for r in runs) * 1e3:.0f} ms\n")


if __name__ == "__main__":
    main()
