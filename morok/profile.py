"""What ran, for how long, and how much it had to do; collected by whoever listens."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KernelRun:
    """One launch: what ran, for how long, and what it had to do. seconds: wall time; bytes: each argument's memory touched once."""
    name: str
    opts: tuple[str, ...]
    seconds: float
    flops: int
    bytes: int

    def __str__(self) -> str:
        t = max(self.seconds, 1e-9)
        return (f"{self.name:32} {self.seconds * 1e3:9.3f} ms {self.flops / t * 1e-9:8.1f} GFLOP/s {self.bytes / t * 1e-9:7.1f} GB/s  "
                f"{' '.join(self.opts)}")


@dataclass
class Profile:
    """The launches inside a `with profile()` block, in order."""
    kernels: list[KernelRun] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time in kernels, all together."""
        return sum(k.seconds for k in self.kernels)


listeners: list[Profile] = []


@contextmanager
def profile() -> Iterator[Profile]:
    """Record every kernel that runs inside the block: `with profile() as p: y.realize(); print(p.kernels)`."""
    p = Profile()
    listeners.append(p)
    try:
        yield p
    finally:
        listeners.remove(p)
