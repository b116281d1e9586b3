"""Tensor graphs → scheduled kernels → buffers that hold their values."""
from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import knobs
from .compiler import Kernel, get_kernel
from .errors import IRError
from .program import OptStrategy, PrepareConfig
from .runtime import get_device
from .runtime.buffer import Buffer, attach, buffer_of, new_buffer_node
from .runtime.device import Device
from .schedule import Schedule, plan_of
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


@dataclass(frozen=True)
class Step:
    """One launch of a plan: the kernel, and for each argument the number of its buffer and the offset in bytes. dead: buffers not read after it."""
    kernel: Kernel
    args: tuple[tuple[int, int], ...]
    dead: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A schedule compiled for a device. Buffer numbers: 0, 1, ... the inputs, then what has to be made."""
    device: Device
    steps: tuple[Step, ...]
    made: dict[int, UOp]         # number → placeholder with shape and dtype
    outputs: tuple[int, ...]


LIMIT = 512                      # compiled plans that are remembered
_plans: "OrderedDict[tuple[Schedule, OptStrategy], Plan]" = OrderedDict()
_lock = threading.Lock()


def realize(uops: Sequence[UOp], config: PrepareConfig | None = None) -> list[UOp]:
    """BUFFER nodes that hold the values of the graphs, of the same shapes and dtypes. A graph that is a filled buffer already is returned as it is."""
    pending = [u for u in dict.fromkeys(uops) if not (u.op is Op.BUFFER and buffer_of(u) is not None)]
    done: dict[UOp, UOp] = {}
    if pending:
        schedule, inputs = plan_of(pending)
        plan = compiled(schedule, strategy_of(config), len(inputs))
        done = dict(zip(pending, execute(plan, inputs), strict=True))
    return [done.get(u, u) for u in uops]


def compiled(schedule: Schedule, strategy: OptStrategy, count: int) -> Plan:
    """The plan of a schedule with so many inputs; every kernel is compiled or found."""
    key = (schedule, strategy)
    with _lock:
        found = _plans.get(key)
        if found is not None:
            _plans.move_to_end(key)
            return found
    name = schedule.outputs[0].arg.device
    device = get_device(name)
    made: dict[int, UOp] = {}

    def number(b: UOp) -> int:
        k = -1 - int(b.arg.uid)
        made[k] = b
        return k
    outputs = tuple(number(o) for o in schedule.outputs)
    slots = [tuple((number(v.buffer), v.offset * v.buffer.dtype.itemsize) for v in item.views) for item in schedule.items]
    last = {k: i for i, args in enumerate(slots) for k, _ in args if k not in outputs}
    steps = []
    for i, (item, args) in enumerate(zip(schedule.items, slots, strict=True)):
        aligned = all(k >= count and not offset for k, offset in args[:item.outputs])      # own memory is, an input or a part of a buffer need not be
        kernel = get_kernel(item.ast, device, strategy, item.line, aligned)
        steps.append(Step(kernel, args, tuple(dict.fromkeys(k for k, _ in args if last.get(k) == i))))
    plan = Plan(device, tuple(steps), made, outputs)
    with _lock:
        _plans[key] = plan
        if len(_plans) > LIMIT:
            _plans.popitem(last=False)
    return plan


def execute(plan: Plan, inputs: Sequence[UOp]) -> list[UOp]:
    """Run a plan on these inputs; fresh BUFFER nodes with the outputs. Buffers in between are let go when no later kernel reads them."""
    live: dict[int, Buffer] = {}
    for k, node in enumerate(inputs):
        found = buffer_of(node)
        if found is None:
            raise IRError(f"{node} is read but has no memory")
        live[k] = found
    for step in plan.steps:
        addresses = []
        for k, offset in step.args:
            buf = live.get(k)
            if buf is None:
                b = plan.made[k]
                buf = live[k] = plan.device.allocate(b.arg.shape, b.dtype)
            addresses.append(buf.address + offset)
        launch(step.kernel, addresses, plan.device)
        for k in step.dead:
            del live[k]
    out = []
    for k in plan.outputs:
        b = plan.made[k]
        node = new_buffer_node(b.arg.shape, b.dtype, b.arg.device)
        attach(node, live[k] if k in live else plan.device.allocate(b.arg.shape, b.dtype))
        out.append(node)
    return out


def launch(kernel: Kernel, addresses: list[int], device: Device) -> None:
    """Run one kernel and tell whoever listens."""
    p = kernel.program
    debug = knobs.debug(p.name)
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
