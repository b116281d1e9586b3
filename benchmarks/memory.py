"""First result and peak memory of a network of 20 layers, each library in a process of its own: what starting costs, and what intermediates cost."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile

BATCH, WIDTH, LAYERS = 4096, 512, 20
COMMON = f"""
import resource, time
start = time.perf_counter()
import numpy as np
x = np.ones(({BATCH}, {WIDTH}), np.float32)
layers = [np.full(({WIDTH}, {WIDTH}), 0.001, np.float32) for _ in range({LAYERS})]
"""
REPORT = """
imported = time.perf_counter()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run()
first = time.perf_counter()
for _ in range(3): run()
print(imported - start, first - imported, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
NETWORKS = {
    "morok": """
from morok import Tensor
x, layers = Tensor(x), [Tensor(w) for w in layers]
def run():
    h = x
    for w in layers: h = (h @ w).relu()
    h.realize()
""",
    "numpy": """
def run():
    h = x
    for w in layers: h = np.maximum(h @ w, 0)
""",
    "torch": """
import torch
torch.set_grad_enabled(False)
x, layers = torch.from_numpy(x), [torch.from_numpy(w) for w in layers]
def run():
    h = x
    for w in layers: h = torch.relu(h @ w)
""",
    "jax": """
import jax, jax.numpy as jnp
x, layers = jnp.asarray(x), [jnp.asarray(w) for w in layers]
@jax.jit
def network(x, layers):
    h = x
    for w in layers: h = jnp.maximum(h @ w, 0)
    return h
def run(): network(x, layers).block_until_ready()
"""}


def measure(name: str, **env: str) -> str:
    """A line of the table, from a new process."""
    done = subprocess.run([sys.executable, "-c", COMMON + NETWORKS[name] + REPORT], capture_output=True, text=True, env=os.environ | env)
    if done.returncode:
        return f"{'-':>10}{'-':>14}{'-':>14}"
    imports, first, peak = map(float, done.stdout.split())
    return f"{imports * 1e3:10.0f}{first * 1e3:14.0f}{peak:14.1f}"


def main() -> None:
    """Print the table."""
    print(f"{LAYERS} layers of {WIDTH}, batch {BATCH}: one layer's output is {BATCH * WIDTH * 4 / 2**20:.1f} MiB")
    print(f"{'':24}{'import ms':>10}{'first run ms':>14}{'peak MiB':>14}")
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'morok, cold':24}{measure('morok', MOROK_CACHE_DIR=cache)}")
        print(f"{'morok, kernels on disk':24}{measure('morok', MOROK_CACHE_DIR=cache)}")
    for name in ("numpy", "torch", "jax"):
        print(f"{name:24}{measure(name)}")


if __name__ == "__main__":
    main()
