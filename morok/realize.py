"""Tensor graphs → scheduled kernels → buffers that hold their values."""
from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import knobs
from .compiler import Kernel, get_kernel
from .errors import IRError
from .program import OptStrategy, PrepareConfig, ScheduleItem
from .runtime import get_device
from .runtime.buffer import Buffer, attach, buffer_of, new_buffer_node
from .runtime.device import Device
from .schedule import schedule
from .uop import Op, UOp


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


_profiles: list[Profile] = []


@contextmanager
def profile() -> Iterator[Profile]:
    """Record every kernel that runs inside the block: `with profile() as p: y.realize(); print(p.kernels)`."""
    p = Profile()
    _profiles.append(p)
    try:
        yield p
    finally:
        _profiles.remove(p)


def strategy_of(config: PrepareConfig | None) -> OptStrategy:
    """The strategy that a config asks for; without one, MOROK_NOOPT decides."""
    if config is not None and config.strategy is not None:
        return config.strategy
    return OptStrategy.none() if knobs.MOROK_NOOPT.get() else OptStrategy.heuristic()


def realize(uops: Sequence[UOp], config: PrepareConfig | None = None) -> list[UOp]:
    """BUFFER nodes that hold the values of the graphs, of the same shapes and dtypes. A graph that is a filled buffer already is returned as it is."""
    pending = [u for u in dict.fromkeys(uops) if not (u.op is Op.BUFFER and buffer_of(u) is not None)]
    done: dict[UOp, UOp] = {}
    if pending:
        plan = schedule(pending, new_buffer_node)
        keep = set(plan.outputs)
        run(plan.items, strategy_of(config), keep)
        for u, out in zip(pending, plan.outputs, strict=True):
            ensure(out)
            done[u] = out
    return [done.get(u, u) for u in uops]


def ensure(node: UOp) -> Buffer:
    """The memory of a BUFFER node, allocated at its first use."""
    found = buffer_of(node)
    if found is None:
        found = get_device(node.arg.device).allocate(node.shape, node.dtype)
        attach(node, found)
    return found


def run(items: Sequence[ScheduleItem], strategy: OptStrategy, keep: set[UOp]) -> None:
    """Launch kernels in order; buffers that no later kernel reads are let go as soon as they are done."""
    last = {v.buffer: i for i, item in enumerate(items) for v in item.views}
    live: dict[UOp, Buffer] = {}
    for i, item in enumerate(items):
        device = get_device(item.views[0].buffer.arg.device)
        kernel = get_kernel(item.ast, device, strategy, item.line)
        addresses = []
        for slot, view in enumerate(item.views):
            node = view.buffer
            buf = live.get(node) or buffer_of(node)
            if buf is None:
                if slot >= item.outputs:
                    raise IRError(f"{node} is read before it is written")
                buf = device.allocate(node.shape, node.dtype)
                if node in keep:
                    attach(node, buf)
            live[node] = buf
            addresses.append(buf.address + view.offset * node.dtype.itemsize)
        launch(kernel, addresses, device)
        for node in {v.buffer for v in item.views}:
            if last[node] == i:
                del live[node]


def launch(kernel: Kernel, addresses: list[int], device: Device) -> None:
    """Run one kernel and tell whoever listens."""
    p = kernel.program
    debug = knobs.DEBUG.get()
    if not (_profiles or debug):
        device.run(kernel.address, addresses, p.chunks, p.scratch)
        return
    start = time.perf_counter()
    device.run(kernel.address, addresses, p.chunks, p.scratch)
    done = KernelRun(p.name, tuple(map(str, p.opts)), time.perf_counter() - start, p.flops, p.bytes)
    for listener in _profiles:
        listener.kernels.append(done)
    if debug:
        print(done)
