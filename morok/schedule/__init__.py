"""Tensor graph → kernels in order. Cached by the structure of the graph, so the same program on other buffers is scheduled once."""
from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import knobs
from ..dtype import DType, dtypes
from ..helpers import prod
from ..program import BufferView, ScheduleItem
from ..uop import Axis, AxisKind, BufferArg, Op, ParamArg, UOp, toposort
from .build import Builder, Conflict, base
from .fuse import Fusion, stored_node
from .normalise import normalise
from .order import Step, group_kernels, order_steps
from .split import split_reductions

__all__ = ["Fresh", "Schedule", "plan_of", "schedule"]

Fresh = Callable[[tuple[int, ...], DType, str], UOp]
LIMIT = 1024                 # schedules that are remembered
ROUNDS = 4                   # how often a graph is cut again with what is known of the last cut


@dataclass(frozen=True, eq=False)
class Schedule:
    """Kernels in order, and for each sink the BUFFER that holds its value afterwards."""
    items: tuple[ScheduleItem, ...]
    outputs: tuple[UOp, ...]


_cache: OrderedDict[tuple[str, tuple[UOp, ...]], Schedule] = OrderedDict()
_lock = threading.Lock()
counters = {"hits": 0, "misses": 0}


def schedule(sinks: list[UOp], fresh: Fresh) -> Schedule:
    """The kernels that store the value of every sink, a tensor graph.

    fresh(shape, dtype, device) makes a BUFFER node for what has to be stored. An output has its sink's shape and dtype; a sink that is a BUFFER is its
    own output, that of an ASSIGN is the buffer assigned to.
    """
    plan, inputs = plan_of(sinks)
    return bind(plan, {-1 - k: b for k, b in enumerate(inputs)}, fresh)


def plan_of(sinks: list[UOp]) -> tuple[Schedule, list[UOp]]:
    """The schedule with its buffers numbered, and the inputs: uid -1 - k stands for inputs[k], lower ones for buffers that have to be made.

    Numbers go by first appearance, so that the same program on other buffers finds its schedule in the cache.
    """
    topo = toposort(sinks)
    inputs = [u for u in topo if u.op is Op.BUFFER]
    numbered = {b: UOp(Op.BUFFER, b.dtype, (), BufferArg(-1 - k, b.arg.shape, b.arg.device)) for k, b in enumerate(inputs)}
    device = knobs.MOROK_DEVICE.get()
    key = (device, tuple(rename(sinks, topo, numbered)))
    with _lock:
        plan = _cache.get(key)
        counters["misses" if plan is None else "hits"] += 1
        if plan is not None:
            _cache.move_to_end(key)
    if plan is None:
        plan = plan_graph(list(key[1]), device, len(inputs))
        with _lock:
            _cache[key] = plan
            if len(_cache) > LIMIT:
                _cache.popitem(last=False)
    return plan, inputs


def rename(sinks: list[UOp], topo: list[UOp], buffers: dict[UOp, UOp]) -> list[UOp]:
    """The sinks on other buffers."""
    new = dict(buffers)
    for u in topo:
        if u not in new:
            src = tuple([new[s] for s in u.src])
            v = new[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
            v.line = v.line or u.line
    return [new[s] for s in sinks]


def bind(plan: Schedule, real: dict[int, UOp], fresh: Fresh) -> Schedule:
    """The schedule on real buffers: inputs as given, everything else new."""
    def buffer(b: UOp) -> UOp:
        if b.arg.uid not in real:
            real[b.arg.uid] = fresh(b.arg.shape, b.dtype, b.arg.device)
        return real[b.arg.uid]
    items = tuple([replace(i, views=tuple([BufferView(buffer(v.buffer), v.offset) for v in i.views])) for i in plan.items])
    return Schedule(items, tuple([buffer(o) for o in plan.outputs]))


def plan_graph(sinks: list[UOp], device: str, count: int) -> Schedule:
    """Schedule a graph; buffers that it needs are numbered on from its inputs."""
    sinks = split_reductions(sinks)
    forced: set[UOp] = set()
    while True:
        fusion = Fusion(sinks, forced, set())
        for _ in range(ROUNDS):
            if fusion.settled():
                break
            fusion = Fusion(sinks, forced, fusion.stored)
        try:
            return Planner(fusion, device, count).plan(sinks)
        except Conflict as c:
            forced.add(c.node)


class Planner:
    """Kernels, in order, as schedule items."""

    def __init__(self, fusion: Fusion, device: str, count: int) -> None:
        self.fusion, self.count = fusion, count
        self.devices: dict[UOp, str] = {}
        for u in fusion.order:
            known = [self.devices[s] for s in u.src if s in self.devices]
            if u.op in (Op.BUFFER, Op.COPY) or known:
                self.devices[u] = u.arg.device if u.op is Op.BUFFER else u.arg if u.op is Op.COPY else known[0]
        self.device = device
        self.buffers: dict[object, UOp] = {}
        self.normal: dict[tuple[UOp, tuple[UOp, ...]], tuple[UOp, tuple[int, ...]]] = {}

    def plan(self, sinks: list[UOp]) -> Schedule:
        items = tuple([self.copy(s) if s.copied is not None else self.item(s) for s in order_steps(group_kernels(self.fusion.kernels))])
        return Schedule(items, tuple([self.buffer(stored_node(s)) for s in sinks]))

    def buffer(self, node: UOp) -> UOp:
        """The BUFFER that a stored node lies in."""
        node = base(node)
        if node.op is Op.BUFFER:
            return node
        return self.new(node, node.shape or (), node.dtype, self.devices.get(node, self.device))

    def new(self, key: object, shape: tuple[int, ...], dtype: DType, device: str) -> UOp:
        if key not in self.buffers:
            self.count += 1
            self.buffers[key] = UOp(Op.BUFFER, dtype, (), BufferArg(-self.count, shape, device))
        return self.buffers[key]

    def saved(self, step: Step) -> UOp:
        """The buffer of a copy."""
        assert step.copied is not None
        b = self.buffer(step.copied)
        return self.new(step, b.arg.shape, b.dtype, b.arg.device)

    def item(self, step: Step) -> ScheduleItem:
        builder = Builder(self.fusion.holes, self.fusion.stored)
        kernels = step.kernels[::-1]                            # made readers first, that is last sink first
        raw, out = builder.build(kernels), tuple(r for r in kernels[0].out if r.op is Op.RANGE)
        if (raw, out) not in self.normal:                       # equal pieces of a CAT are brought into normal form once
            self.normal[raw, out] = normalise(raw, out)
        ast, slots = self.normal[raw, out]
        by_slot = {p.arg.slot: n for n, p in reversed(builder.memory.items())}
        offsets = {k.target: k.offset for k in kernels}
        views = []
        for node in (by_slot[s] for s in slots):
            views.append(BufferView(self.saved(step.saved[node]) if node in step.saved else self.buffer(node), offsets.get(node, 0)))
        return ScheduleItem(ast, tuple(views), len(kernels), kernels[0].target.line)

    def copy(self, step: Step) -> ScheduleItem:
        """The kernel that saves a buffer's value before it is overwritten."""
        assert step.copied is not None
        b = self.buffer(step.copied)
        n = prod(b.arg.shape)
        r = UOp(Op.RANGE, dtypes.index, (), Axis(0, 0, (0,), n, AxisKind.LOOP))
        to, source = (UOp(Op.PARAM, b.dtype, (), ParamArg(slot, n)) for slot in (0, 1))
        ast = UOp(Op.SINK, dtypes.void, (to.index(r).store(source.index(r).load()),))
        return ScheduleItem(ast, (BufferView(self.saved(step)), BufferView(b)), 1, step.copied.line)
