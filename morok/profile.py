"""What ran, for how long, and how much it had to do; collected by whoever listens, shown as a table or as a trace for Perfetto."""
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class KernelRun:
    """One launch: what ran, for how long, and what it had to do.

    seconds: wall time; start: when it began, on the clock of this process. bytes: each argument's memory touched once. share: its part of its plan's time.
    roof: its part of what this machine can do at most, where that is known; over 1 if it worked in the caches.
    """
    name: str
    opts: tuple[str, ...]
    seconds: float
    flops: int
    bytes: int
    start: float = 0.0
    share: float = 1.0
    roof: float | None = None
    line: str | None = None

    def __str__(self) -> str:
        return f"{self.name:32} {figures(self.seconds, self.flops, self.bytes)} {percent(self.share)} {percent(self.roof)}  {' '.join(self.opts)}"


def figures(seconds: float, flops: float, size: float) -> str:
    """Milliseconds and rates in columns."""
    t = max(seconds, 1e-9)
    return f"{seconds * 1e3:9.3f} ms {flops / t * 1e-9:8.1f} GFLOP/s {size / t * 1e-9:7.1f} GB/s"


def percent(part: float | None) -> str:
    return "       " if part is None else f"{part:6.1%} "


@dataclass
class Profile:
    """The launches inside a `with profile()` block, in order."""
    kernels: list[KernelRun] = field(default_factory=list)
    roofline: bool = False       # compare with what the machine can do, which is measured at its first use

    @property
    def seconds(self) -> float:
        """Time in kernels, all together."""
        return sum(k.seconds for k in self.kernels)

    def table(self) -> str:
        """A line for each kernel, the longest first: launches, time, rates, share of all time, share of the roofline."""
        groups: dict[tuple[str, tuple[str, ...]], list[KernelRun]] = {}
        for k in self.kernels:
            groups.setdefault((k.name, k.opts), []).append(k)
        rows = [f"{'kernel':32} {'runs':>6} {'time':>12} {'':>16} {'':>12}  share   roof  actions"]
        for (name, opts), runs in sorted(groups.items(), key=lambda g: -sum(k.seconds for k in g[1])):
            t = sum(k.seconds for k in runs)
            roofs = [k.roof * k.seconds for k in runs if k.roof is not None]
            rows.append(f"{name:32} {len(runs):6} {figures(t, sum(k.flops for k in runs), sum(k.bytes for k in runs))} {percent(t / max(self.seconds, 1e-12))} "
                        f"{percent(sum(roofs) / t if roofs and t else None)} {' '.join(opts)}")
        return "\n".join([*rows, f"{len(self.kernels)} launches, {self.seconds * 1e3:.3f} ms in kernels"])

    def write_trace(self, path: str | Path) -> None:
        """A file for ui.perfetto.dev or chrome://tracing: one event a launch, times in microseconds."""
        events = [{"name": k.name, "cat": "kernel", "ph": "X", "pid": 0, "tid": 0, "ts": k.start * 1e6, "dur": k.seconds * 1e6, "args": details(k)}
                  for k in self.kernels]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), encoding="utf-8")


def details(k: KernelRun) -> dict[str, object]:
    return {"actions": " ".join(k.opts), "flops": k.flops, "bytes": k.bytes, "roofline": k.roof, "line": k.line}


listeners: list[Profile] = []


@contextmanager
def profile(roofline: bool = False) -> Iterator[Profile]:
    """Record every kernel that runs inside the block: `with profile() as p: y.realize(); print(p.table())`. roofline: compare with the machine's limits."""
    p = Profile(roofline=roofline)
    listeners.append(p)
    try:
        yield p
    finally:
        listeners.remove(p)
