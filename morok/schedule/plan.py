"""The kernels of a graph as schedule items: in order, in normal form, with the buffers that they read and write."""
from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..helpers import prod
from ..program import BufferView, ScheduleItem
from ..uop import Axis, AxisKind, BufferArg, Op, ParamArg, UOp
from .build import Builder, Conflict, base
from .fuse import Fusion, stored_node
from .normalise import normalise
from .order import Step, group_kernels, order_steps
from .split import split_reductions

ROUNDS = 4                   # how often a graph is cut again with what is known of the last cut


@dataclass(frozen=True, eq=False)
class Schedule:
    """Kernels in order, and for each sink the BUFFER that holds its value afterwards."""
    items: tuple[ScheduleItem, ...]
    outputs: tuple[UOp, ...]


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
        items = tuple([self.item(s) if s.copied is None else self.copy(s, s.copied) for s in order_steps(group_kernels(self.fusion.kernels))])
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

    def saved(self, version: UOp, copy: Step) -> UOp:
        """The buffer that a step copies a version of a buffer to."""
        b = self.buffer(version)
        return self.new(copy, b.arg.shape, b.dtype, b.arg.device)

    def item(self, step: Step) -> ScheduleItem:
        builder = Builder(self.fusion.holes, self.fusion.stored)
        kernels = step.kernels[::-1]                            # made readers first, that is last sink first
        raw, out = builder.build(kernels), tuple(r for r in kernels[0].out if r.op is Op.RANGE)
        if (raw, out) not in self.normal:                       # equal pieces of a CAT are brought into normal form once
            self.normal[raw, out] = normalise(raw, out)
        ast, slots = self.normal[raw, out]
        by_slot = {p.arg.slot: n for n, p in reversed(builder.memory.items())} | builder.twins
        offsets = {k.target: k.offset for k in kernels}
        views = []
        for node in (by_slot[s] for s in slots):
            views.append(BufferView(self.saved(node, step.saved[node]) if node in step.saved else self.buffer(node), offsets.get(node, 0)))
        return ScheduleItem(ast, tuple(views), len(kernels), kernels[0].target.line)

    def copy(self, step: Step, version: UOp) -> ScheduleItem:
        """The kernel that saves a buffer's value before it is overwritten."""
        b = self.buffer(version)
        n = prod(b.arg.shape)
        r = UOp(Op.RANGE, dtypes.index, (), Axis(0, 0, (0,), n, AxisKind.LOOP))
        to, source = (UOp(Op.PARAM, b.dtype, (), ParamArg(slot, n)) for slot in (0, 1))
        ast = UOp(Op.SINK, dtypes.void, (to.index(r).store(source.index(r).load()),))
        return ScheduleItem(ast, (BufferView(self.saved(version, step)), BufferView(b)), 1, version.line)
