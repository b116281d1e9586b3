"""Tensor graphs → scheduled kernels → buffers that hold their values."""
from __future__ import annotations

from collections.abc import Sequence

from . import knobs
from .plan import Plan, compiled, inputs_of, run
from .program import OptStrategy, PrepareConfig
from .runtime.buffer import attach, buffer_of, new_buffer_node
from .schedule import plan_of
from .uop import Op, UOp


def strategy_of(config: PrepareConfig | None) -> OptStrategy:
    """The strategy that a config asks for; without one, MOROK_NOOPT and BEAM decide."""
    if config is not None and config.strategy is not None:
        return config.strategy
    if knobs.MOROK_NOOPT.get():
        return OptStrategy.none()
    width = knobs.BEAM.get()
    return OptStrategy.beam(width) if width else OptStrategy.heuristic()


def realize(uops: Sequence[UOp], config: PrepareConfig | None = None) -> list[UOp]:
    """BUFFER nodes that hold the values of the graphs, of the same shapes and dtypes. A graph that is a filled buffer already is returned as it is."""
    pending = [u for u in dict.fromkeys(uops) if not (u.op is Op.BUFFER and buffer_of(u) is not None)]
    done: dict[UOp, UOp] = {}
    if pending:
        plan, inputs = plan_for(pending, config)
        done = dict(zip(pending, execute(plan, inputs, [u.shape or () for u in pending]), strict=True))
    return [done.get(u, u) for u in uops]


def stored(u: UOp) -> UOp:
    """The graph, so that its value gets memory of its own."""
    return UOp(Op.CONTIGUOUS, u.dtype, (u,)) if u.op is Op.BUFFER else u


def plan_for(uops: Sequence[UOp], config: PrepareConfig | None = None) -> tuple[Plan, list[UOp]]:
    """The plan that computes these graphs, and its inputs."""
    schedule, inputs = plan_of(list(uops))
    return compiled(schedule, strategy_of(config), len(inputs)), inputs


def execute(plan: Plan, inputs: Sequence[UOp], shapes: Sequence[tuple[int, ...]]) -> list[UOp]:
    """Run a plan on these inputs; fresh BUFFER nodes with the outputs, of these shapes, which may have symbolic sizes."""
    memory = inputs_of(inputs) + [plan.device.allocate(b.arg.shape, b.dtype) for b in plan.new]
    run(plan, [m.address for m in memory])
    out = []
    for (slot, b), shape in zip(plan.outputs, shapes, strict=True):
        node = new_buffer_node(shape, b.dtype, b.arg.device)
        attach(node, memory[slot])
        out.append(node)
    return out
