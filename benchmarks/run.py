"""Morok beside NumPy, PyTorch and JAX, in one process, taking turns: best time of many, ratio to the fastest peer, results checked in float64."""
from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")     # where set, NumPy does not run its best kernels
if any(v in os.environ for v in SLOWING):
    for v in SLOWING:
        os.environ.pop(v, None)
    os.execv(sys.executable, [sys.executable, *sys.argv])
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from cases import Case, cases
from morok import Tensor


def optional(name: str) -> Any:
    try:
        module = __import__(name)
    except ImportError:
        return None
    if name == "jax":
        import jax.numpy
        jax.config.update("jax_enable_x64", True)
    return module


def calls(case: Case, torch: Any, jax: Any) -> dict[str, Callable[[], Any]]:
    """What is timed: from inputs that are there to an output that is there. Morok builds its graph each time; JAX is jitted."""
    out: dict[str, Callable[[], Any]] = {}
    tensors = [Tensor(a).realize() for a in case.inputs]
    out["morok"] = lambda: case.morok(*tensors).realize()
    if case.numpy:
        out["numpy"] = lambda: case.numpy(*case.inputs)
    if torch and case.torch:
        inputs = [torch.from_numpy(a) for a in case.inputs]
        out["torch"] = lambda: case.torch(*inputs)
    if jax and case.jax:
        arrays, f = [jax.numpy.asarray(a) for a in case.inputs], jax.jit(case.jax)
        out["jax"] = lambda: f(*arrays).block_until_ready()
    return out


def error(case: Case, got: Any) -> float:
    """Largest error, relative to the size of the values."""
    want = np.asarray(case.reference(*(a.astype(np.float64) for a in case.inputs)), np.float64)
    got = np.asarray(got.numpy() if hasattr(got, "numpy") else got, np.float64)
    return float(np.max(np.abs(got - want) / (np.abs(want) + np.abs(want).mean() + 1e-30)))


def measure(fs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Least time of each, in rounds in which all take turns."""
    best = dict.fromkeys(fs, math.inf)
    for f in fs.values():
        f()
        f()
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < 3:
        for name, f in fs.items():
            for _ in range(2):
                start = time.perf_counter()
                f()
                best[name] = min(best[name], time.perf_counter() - start)
        rounds += 1
    return best


def main() -> None:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose names contain one of these, separated by commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each row")
    parser.add_argument("--json", help="write the results to this file too")
    args = parser.parse_args()
    torch, jax = optional("torch"), optional("jax")
    if torch:
        torch.set_grad_enabled(False)
    from morok.runtime import get_device
    t = get_device("CPU").target
    print(f"{platform.machine()} {t.cpu}, {t.threads} threads, {t.vector_bytes * 8}-bit vectors; times in ms, best of many; ratio: fastest peer / morok\n")
    print(f"{'':32}{'morok':>10}{'numpy':>10}{'torch':>10}{'jax':>10}{'ratio':>8}{'error':>10}")
    results = []
    for case in cases(torch, jax):
        if args.rows and not any(w in case.name for w in args.rows.split(",")):
            continue
        fs = calls(case, torch, jax)
        wrong = error(case, fs["morok"]())
        times = measure(fs, args.seconds)
        ratio = min((v for k, v in times.items() if k != "morok"), default=math.nan) / times["morok"]
        columns = "".join(f"{times[k] * 1e3:10.3f}" if k in times else f"{'-':>10}" for k in ("morok", "numpy", "torch", "jax"))
        print(f"{case.name:32}{columns}{ratio:8.2f}{wrong:10.1e}{'' if wrong < case.rtol else '  WRONG'}", flush=True)
        results.append({"name": case.name, "seconds": times, "ratio": ratio, "error": wrong})
    if results:
        print(f"\ngeometric mean of the ratios: {math.exp(sum(math.log(r['ratio']) for r in results) / len(results)):.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"cpu": t.cpu, "threads": t.threads, "rows": results}, f, indent=1)
    if any(r["error"] >= c.rtol for r in results for c in cases(torch, jax) if c.name == r["name"]):
        sys.exit("some results are wrong")


if __name__ == "__main__":
    main()
