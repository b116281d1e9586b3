"""Morok beside NumPy, PyTorch and JAX, taking turns: best time of many, ratio to the fastest peer, every result checked in float64."""
from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
from typing import Any

SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")     # where set, NumPy does not run its best kernels
if __name__ == "__main__" and any(v in os.environ for v in SLOWING):
    for v in SLOWING:
        os.environ.pop(v, None)
    os.execv(sys.executable, [sys.executable, *sys.argv])

from cases import Case, cases
from libraries import NAMES, Library, middle

OURS = ("morok", "jit")
ROUNDS = 4                       # turns of each library in a row


def measure(case: Case, libraries: list[Library], seconds: float) -> dict[str, Any]:
    """One row: best and median seconds, and the error, of each library that has it."""
    errors = {lib.name: wrong for lib in libraries if (wrong := lib.prepare(case.name)) is not None}
    here = [lib for lib in libraries if lib.name in errors]
    times: dict[str, list[float]] = {lib.name: [] for lib in here}
    for k in range(ROUNDS):
        for lib in here[k % len(here):] + here[:k % len(here)]:         # none has always the same one before it
            times[lib.name] += lib.take_turn(seconds / ROUNDS / len(here))
    best = {name: min(t) for name, t in times.items()}
    peers = [t for name, t in best.items() if name not in OURS]
    return {"name": case.name, "seconds": best, "median": {name: middle(t) for name, t in times.items()}, "calls": {name: len(t) for name, t in times.items()},
            "ratio": min(peers) / best["morok"] if peers else math.nan, "jit": min(peers) / best["jit"] if peers else math.nan, "errors": errors, "wrong": [name for name, e in errors.items() if not e < case.rtol]}


def show(row: dict[str, Any]) -> None:
    columns = "".join(f"{row['seconds'][n] * 1e3:10.3f}" if n in row["seconds"] else f"{'-':>10}" for n in NAMES)
    wrong = f"  WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""
    print(f"{row['name']:32}{columns}{row['ratio']:8.2f}{row['jit']:8.2f}{row['errors']['morok']:10.1e}{row['median']['morok'] / row['seconds']['morok']:9.2f}{wrong}", flush=True)


def main() -> None:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose names contain one of these, separated by commas")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each row, shared by the libraries")
    parser.add_argument("--json", help="write the results to this file too")
    args = parser.parse_args()
    chosen = [c for c in cases(None, None) if not args.rows or any(w in c.name for w in args.rows.split(","))]
    if not chosen:
        sys.exit(f"no row has {args.rows!r} in its name; rows: {', '.join(c.name for c in cases(None, None))}")
    libraries = [lib for lib in map(Library, NAMES) if lib.version is not None]
    if not libraries or libraries[0].name != "morok":
        sys.exit("morok cannot be imported; install it first: pip install -e '.[bench]'")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.machine()}, {cores} cores; {', '.join(f'{lib.name} {lib.version}' for lib in libraries)}")
    print("times in ms, best of many; ratio, jit: fastest peer / morok or jit, over 1 where Morok is faster; spread: Morok's median / best\n")
    print(f"{'':32}{''.join(f'{n:>10}' for n in NAMES)}{'ratio':>8}{'jit':>8}{'error':>10}{'spread':>9}")
    results = []
    for case in chosen:
        results.append(measure(case, libraries, args.seconds))
        show(results[-1])
    print()
    for kind in ("ratio", "jit"):
        ratios = [r[kind] for r in results if not math.isnan(r[kind])]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{kind:5}: geometric mean {mean:.2f}; below 1: {sum(r < 1 for r in ratios)} of {len(ratios)} rows")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"machine": platform.machine(), "cores": cores, "versions": {lib.name: lib.version for lib in libraries}, "rows": results}, f, indent=1)
    for lib in libraries:
        lib.stop()
    if any(r["wrong"] for r in results):
        sys.exit("some results are wrong")


if __name__ == "__main__":
    main()
