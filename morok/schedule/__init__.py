"""Tensor graph → kernels in order. Cached by the structure of the graph, so the same program on other buffers is scheduled once."""
from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from .. import knobs
from ..dtype import DType
from ..program import BufferView
from ..uop import BufferArg, Op, UOp, toposort, verify
from ..variable import Variable, static
from .plan import Schedule, plan_graph

__all__ = ["Fresh", "Schedule", "plan_of", "schedule"]

Fresh = Callable[[tuple[int, ...], DType, str], UOp]
LIMIT = 512                 # schedules that are remembered
_cache: OrderedDict[tuple[str, tuple[UOp, ...]], Schedule] = OrderedDict()
_lock = threading.Lock()
counters = {"hits": 0, "misses": 0}


def schedule(sinks: list[UOp], fresh: Fresh) -> Schedule:
    """The kernels that store the value of every sink, a tensor graph.

    fresh(shape, dtype, device) makes a BUFFER node for what has to be stored. An output has its sink's shape and dtype; a sink that is a BUFFER
    is its own output, that of an ASSIGN is the buffer assigned to.
    """
    plan, inputs = plan_of(sinks)
    return bind(plan, {-1 - k: b for k, b in enumerate(inputs)}, fresh)


def plan_of(sinks: list[UOp]) -> tuple[Schedule, list[UOp]]:
    """The schedule with its buffers numbered, and the inputs: uid -1 - k stands for inputs[k], lower ones for buffers that have to be made.

    Numbers go by first appearance, so that the same program on other buffers finds its schedule in the cache. Symbolic sizes become the largest that
    they can be: what lies beyond their ends is computed too, and nobody looks at it.
    """
    topo = toposort(sinks)
    inputs = [u for u in topo if u.op is Op.BUFFER]
    numbered = {b: b.replace(arg=BufferArg(-1 - k, static(b.arg.shape), b.arg.device)) for k, b in enumerate(inputs)}
    device = knobs.MOROK_DEVICE.get()
    key = (device, tuple(rename(sinks, topo, numbered)))
    with _lock:
        plan = _cache.get(key)
        counters["misses" if plan is None else "hits"] += 1
        if plan is not None:
            _cache.move_to_end(key)
    if plan is None:
        if knobs.SPEC.get():
            for sink in key[1]:
                verify("tensor", sink)
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
            arg = static(u.arg) if Variable.used else u.arg
            v = new[u] = u if src == u.src and arg is u.arg else UOp(u.op, u.dtype, src, arg)
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
