"""Tensor graph → ordered kernels. Cached by the structure of the graph, so the same program schedules once."""
from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

from ..program import BufferView, ScheduleItem
from ..uop import BufferArg, Op, UOp, toposort
from .reductions import split_reductions
from .split import Fresh, Splitter

__all__ = ["Schedule", "schedule"]

LIMIT = 1024
_cache: "OrderedDict[tuple[UOp, ...], Schedule]" = OrderedDict()
_lock = threading.Lock()
counters = {"hits": 0, "misses": 0}


@dataclass(frozen=True)
class Schedule:
    """Kernels in order, and the BUFFER that each sink's value lies in afterwards."""
    items: tuple[ScheduleItem, ...]
    outputs: tuple[UOp, ...]


def schedule(sinks: list[UOp], fresh: Fresh) -> Schedule:
    """The kernels that store every sink. `fresh(shape, dtype, device)` makes a BUFFER node for what has to be stored.

    The graph is scheduled with its buffers numbered by first appearance, so that the same program on other buffers finds its schedule in the cache.
    """
    topo = toposort(sinks)
    inputs = [u for u in topo if u.op is Op.BUFFER]
    numbered = {b: UOp(Op.BUFFER, b.dtype, (), BufferArg(-1 - k, b.arg.shape, b.arg.device)) for k, b in enumerate(inputs)}
    key = tuple(renumber(sinks, topo, numbered))
    with _lock:
        plan = _cache.get(key)
        if plan is not None:
            _cache.move_to_end(key)
            counters["hits"] += 1
    if plan is None:
        plan = _schedule(list(key), topo)
        with _lock:
            counters["misses"] += 1
            _cache[key] = plan
            if len(_cache) > LIMIT:
                _cache.popitem(last=False)
    return bind(plan, {n: b for b, n in numbered.items()}, fresh)


def renumber(sinks: list[UOp], topo: list[UOp], numbered: dict[UOp, UOp]) -> list[UOp]:
    new: dict[UOp, UOp] = {}
    for u in topo:
        if u.op is Op.BUFFER:
            new[u] = numbered[u]
        else:
            src = tuple(new[s] for s in u.src)
            v = new[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
            if v.line is None:
                v.line = u.line
    return [new[s] for s in sinks]


def _schedule(sinks: list[UOp], topo: list[UOp]) -> Schedule:
    count = len(topo)

    def placeholder(shape: tuple[int, ...], dtype: object, device: str) -> UOp:
        nonlocal count
        count += 1
        return UOp(Op.BUFFER, dtype, (), BufferArg(-1 - count, shape, device))      # type: ignore[arg-type]
    roots = split_reductions(sinks)
    splitter = Splitter(roots, placeholder)
    splitter.settle()
    outputs = tuple(s if s.op is Op.BUFFER else splitter.buffers[s] for s in roots)
    return Schedule(tuple(splitter.items()), outputs)


def bind(plan: Schedule, real: dict[UOp, UOp], fresh: Fresh) -> Schedule:
    """The schedule on real buffers: inputs as given, everything else new."""
    def buffer(b: UOp) -> UOp:
        if b not in real:
            real[b] = fresh(b.arg.shape, b.dtype, b.arg.device)
        return real[b]
    items = tuple(replace(i, views=tuple(BufferView(buffer(v.buffer), v.offset) for v in i.views)) for i in plan.items)
    return Schedule(items, tuple(buffer(o) for o in plan.outputs))
