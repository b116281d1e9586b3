"""A schedule compiled for a device: kernels in order, and where every buffer lies. Runs in one native call."""
from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from . import knobs
from .compiler import Kernel, get_kernel
from .errors import JitError
from .profile import KernelRun, listeners
from .program import OptStrategy, Program
from .roofline import roofline
from .runtime import get_device
from .runtime.buffer import Buffer, buffer_of
from .runtime.device import Device, Launch, Runnable
from .schedule import Schedule
from .schedule.memory import Layout, Life, place
from .target import Target
from .tune import tuned
from .uop import UOp
from .variable import Variable, real

LIMIT = 512                      # compiled plans that are remembered
SPEED = 20e9, 1e9, 10e9          # assumed of a kernel: flops a second with and without optimizer actions, bytes a second


@dataclass(frozen=True)
class Temporary:
    """A buffer that lives only inside a plan: the steps of its life, its bytes, and its offset in the arena."""
    name: str
    first: int
    last: int
    size: int
    offset: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Kernels, and the slots of memory that they work on: inputs, then new outputs, then the arena, then scratch.

    outputs: for each sink the slot of its value. new: placeholders with shape and dtype of the slots that a run has to make. run: the native form.
    """
    device: Device
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    inputs: int
    new: tuple[UOp, ...]
    outputs: tuple[tuple[int, UOp], ...]
    temporaries: tuple[Temporary, ...]
    arena: int
    run: Runnable

    def copy(self) -> "Plan":
        """The same kernels, to run on memory of their own."""
        return replace(self, run=self.device.plan(self.launches, self.run.slots))

    @property
    def scratch(self) -> int:
        """Bytes of arena and scratch together."""
        return self.arena + self.run.scratch


_plans: "OrderedDict[tuple[Schedule, OptStrategy, Target, int], Plan]" = OrderedDict()
_lock = threading.Lock()


def compiled(schedule: Schedule, strategy: OptStrategy, count: int) -> Plan:
    """The plan of a schedule with so many inputs; every kernel is compiled or found."""
    device = get_device(schedule.outputs[0].arg.device)
    key = (schedule, strategy, device.target, knobs.MOROK_FASTCALL.get())
    with _lock:
        found = _plans.get(key)
        if found is not None:
            _plans.move_to_end(key)
            return found
    plan = build(schedule, strategy, device, count)
    with _lock:
        _plans[key] = plan
        if len(_plans) > LIMIT:
            _plans.popitem(last=False)
    return plan


def build(schedule: Schedule, strategy: OptStrategy, device: Device, count: int) -> Plan:
    """Compile the kernels and give every buffer its slot and offset."""
    outputs = {number(b): b for b in schedule.outputs}
    new = [k for k in outputs if k >= count]
    slot = {k: k for k in range(count)} | {k: count + i for i, k in enumerate(new)}
    steps = [[(number(v.buffer), v.offset * v.buffer.dtype.itemsize) for v in item.views] for item in schedule.items]
    nodes = {number(v.buffer): v.buffer for item in schedule.items for v in item.views}
    lives: dict[int, Life] = {}
    for i, args in enumerate(steps):
        for k, _ in args:
            if k not in slot:
                lives[k] = Life(lives[k].first if k in lives else i, i, buffer_bytes(nodes[k]))
    layout = place(list(lives.values()))
    offsets = dict(zip(lives, layout.offsets, strict=True))
    arena = count + len(new)
    kernels, launches = [], []
    for item, args in zip(schedule.items, steps, strict=True):
        aligned = all(k >= count and not offset for k, offset in args[:item.outputs])      # own memory is, an input or a part of a buffer need not be
        chosen = OptStrategy.explicit(tuned(item.ast, device, strategy.width, aligned)) if strategy.width else strategy
        kernel = get_kernel(item.ast, device, chosen, item.line, aligned)
        kernels.append(kernel)
        where = tuple((slot[k], offset) if k in slot else (arena, offsets[k] + offset) for k, offset in args)
        launches.append(Launch(kernel.program, kernel.code, where, expected_seconds(kernel.program)))
    return Plan(device, tuple(kernels), tuple(launches), count, tuple(outputs[k] for k in new),
                tuple((slot[number(b)], b) for b in schedule.outputs), temporaries(lives, nodes, layout), layout.size, device.plan(launches, arena + 2))


def number(b: UOp) -> int:
    """The position of a numbered buffer: inputs 0, 1, ..., then what has to be made."""
    return -1 - int(b.arg.uid)


def buffer_bytes(b: UOp) -> int:
    n = b.dtype.itemsize
    for s in b.arg.shape:
        n *= s
    return n


def temporaries(lives: dict[int, Life], nodes: dict[int, UOp], layout: Layout) -> tuple[Temporary, ...]:
    return tuple(Temporary(f"{nodes[k].dtype.name} {nodes[k].arg.shape}", *life, offset)
                 for (k, life), offset in zip(lives.items(), layout.offsets, strict=True))


def expected_seconds(p: Program) -> float:
    """A rough guess that is rather too long: it decides whether other threads may run meanwhile and whether to look for signals."""
    return p.flops / SPEED[0 if p.opts else 1] + p.bytes / SPEED[2]


def inputs_of(nodes: Sequence[UOp]) -> list[Buffer]:
    """The memory of a plan's inputs."""
    found = [buffer_of(n) or bound_value(n) for n in nodes]
    if None in found:
        raise JitError("a tensor that was made inside a captured function is used outside of it, where it has no value: return it from the function")
    return found                 # type: ignore[return-value]


def bound_value(node: UOp) -> Buffer | None:
    """The memory of a bound variable."""
    v = node.arg.uid
    return Buffer.from_numpy(np.array(real((v.size,))[0]), node.dtype) if isinstance(v, Variable) else None


def run(plan: Plan, addresses: Sequence[int]) -> None:
    """Run a plan on these inputs and new outputs; what it needs besides is taken for the run only. Tells whoever listens."""
    memory = Buffer.bytes(plan.scratch) if plan.scratch else None
    base = memory.address if memory is not None else 0
    if not (listeners or knobs.debug()):
        plan.run.execute(*addresses, base, base + plan.arena)
        return
    report(plan, plan.run.timed(*addresses, base, base + plan.arena))


def report(plan: Plan, times: Sequence[float]) -> list[KernelRun]:
    """The launches of one run from the times they ended at, told to whoever listens and printed under DEBUG."""
    total = max(times[-1] - times[0], 1e-12)
    roof = roofline(plan.device) if knobs.debug() >= 2 or any(p.roofline for p in listeners) else None
    done = []
    for kernel, (a, b) in zip(plan.kernels, pairwise(times), strict=True):
        p = kernel.program
        share = None if roof is None or b <= a else roof.seconds(p.flops, p.bytes) / (b - a)
        done.append(KernelRun(p.name, tuple(map(str, p.opts)), b - a, p.flops, p.bytes, a, (b - a) / total, share, kernel.line))
    for listener in listeners:
        listener.kernels += done
    for r in done:
        if knobs.debug(r.name):
            print(r)
    if knobs.debug() >= 2:
        print(f"{len(done)} kernels, {total * 1e3:.3f} ms; {plan.scratch} bytes of intermediates and scratch")
    return done
