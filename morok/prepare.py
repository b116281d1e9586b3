"""ExecutionPlan: a graph prepared on memory of its own, to be run again and again by one native call."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .compiler import Kernel, generate
from .errors import JitError, ShapeError
from .plan import Plan, Temporary, buffer_bytes, inputs_of, report
from .profile import KernelRun
from .program import OptStrategy, PrepareConfig, Program
from .realize import plan_for, stored
from .runtime.buffer import Buffer, attach, new_buffer_node
from .runtime.device import Device
from .uop import UOp, code
from .variable import Size, Variable


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of a plan. opts: the optimizer actions it has; flops and bytes: what a run of it does and touches, each argument's memory once."""
    kernel: Kernel
    device: Device

    @property
    def name(self) -> str:
        """What DEBUG and profiles call it."""
        return self.kernel.program.name

    @property
    def opts(self) -> tuple[str, ...]:
        """Optimizer actions in their text form, which `OptStrategy.explicit` takes after `parse_opts`."""
        return tuple(map(str, self.kernel.program.opts))

    @property
    def flops(self) -> int:
        """Arithmetic operations of one run."""
        return self.kernel.program.flops

    @property
    def bytes(self) -> int:
        """Bytes of all arguments."""
        return self.kernel.program.bytes

    @property
    def line(self) -> str | None:
        """The tensor code that made it, "file:line"."""
        return self.kernel.line

    @cached_property
    def _program(self) -> Program:
        p = self.kernel.program
        return p if p.source else generate(self.kernel.ast, self.device, OptStrategy.explicit(p.opts), self.kernel.line, aligned=True)

    @property
    def text(self) -> str:
        """The loops as scheduled, before the actions."""
        return code(self.kernel.ast)

    @property
    def source(self) -> str:
        """The generated code: LLVM IR."""
        return self._program.source

    @property
    def assembly(self) -> str:
        """The machine code as text."""
        return self.device.assembly(self._program)


@dataclass(frozen=True)
class MemoryLayout:
    """Bytes of a plan: what it reads, what it gives, and one arena in which intermediates lie, several after each other in one place."""
    inputs: int
    outputs: int
    arena: int
    scratch: int
    temporaries: tuple[Temporary, ...]

    @property
    def peak(self) -> int:
        """All bytes that a run needs at once."""
        return self.inputs + self.outputs + self.arena + self.scratch

    def __str__(self) -> str:
        rows = [f"  {t.name:32} {t.size:12} bytes at {t.offset:12}, steps {t.first} to {t.last}" for t in self.temporaries]
        return "\n".join([f"inputs {self.inputs}, outputs {self.outputs}, arena {self.arena}, scratch {self.scratch}: peak {self.peak} bytes", *rows])


class ExecutionPlan:
    """Kernels, and the memory they run on. Made by `Tensor.prepare` and `Tensor.prepare_batch`.

    execute(): run it; one native call, nothing is returned. The values are in `outputs`, which the next run overwrites.
    inputs: the tensors in memory that it reads, as they are at each run.  variables: the symbolic sizes that execute_with_vars takes.
    """
    execute: Callable[[], None]

    def __init__(self, uops: Sequence[UOp], config: PrepareConfig | None, wrap: Callable[[UOp], Any]) -> None:
        plan, nodes = plan_for([stored(u) for u in uops], config)
        self._plan: Plan = plan.copy()
        fresh = {k: plan.device.allocate(b.arg.shape, b.dtype) for k, b in enumerate(plan.new, plan.inputs)}
        self._values = {n.arg.uid: Buffer.from_numpy(np.zeros((), np.int64), n.dtype) for n in nodes if isinstance(n.arg.uid, Variable)}
        for v, m in self._values.items():
            m.numpy(())[...] = v.hi if v.value is None else v.value
        given = iter(inputs_of([n for n in nodes if n.arg.uid not in self._values]))
        memory = [*(self._values[n.arg.uid] if n.arg.uid in self._values else next(given) for n in nodes), *fresh.values()]
        self._made = [(u.shape or (), memory[slot]) for u, (slot, _) in zip(uops, plan.outputs, strict=True)]
        self._wrap, self._device = wrap, plan.device.name
        self.inputs = tuple(wrap(n) for n in nodes if n.arg.uid not in self._values)
        self.variables = tuple(dict.fromkeys([*self._values, *(n.variable for shape, _ in self._made for n in shape if isinstance(n, Size))]))
        self.outputs = self._outputs(self.variables)
        arena = Buffer.bytes(max(1, plan.scratch))
        self._memory = [*memory, arena]
        self.memory = MemoryLayout(sum(buffer_bytes(n) for n in nodes), sum(buffer_bytes(b) for b in plan.new), plan.arena, plan.run.scratch, plan.temporaries)
        self._plan.run.bind(*(m.address for m in memory), arena.address, arena.address + plan.arena)
        self.execute = execute = partial(self._plan.run.execute)
        vars(execute)["memory"] = self._memory                  # which whoever holds on to execute needs, too

    def _outputs(self, values: Sequence[Variable]) -> tuple[Any, ...]:
        """Tensors on the memory of the results, with these values of the symbolic sizes."""
        known = {v.free: v for v in values}
        out = []
        for shape, memory in self._made:
            sizes = tuple([known[n.variable.free].size if isinstance(n, Size) else n for n in shape])
            node = new_buffer_node(sizes, memory.dtype, self._device)
            attach(node, memory)
            out.append(self._wrap(node))
        return tuple(out)

    def execute_with_vars(self, **values: int) -> None:
        """Run it with these values of its symbolic sizes, all of them; `outputs` have the shapes that follow. ShapeError for a value outside its limits.

        The values hold for later runs too. `outputs` are new tensors on the same memory.
        """
        named = {v.name: v for v in self.variables}
        if set(values) != set(named):
            raise ShapeError(f"this plan takes values for {', '.join(named) or 'no symbolic size'}; given: {', '.join(values) or 'none'}")
        bound = [named[name].bind(value) for name, value in values.items()]
        for v in bound:
            if v.free in self._values or named[v.name] in self._values:
                self._values[named[v.name]].numpy(())[...] = v.value
        self.execute()
        self.outputs = self._outputs(bound)

    def execute_profiled(self) -> list[KernelRun]:
        """Run it; what each kernel took, in order."""
        memory = self._memory                                   # stays until the end of the run, also if another thread releases the plan
        if not memory:
            self._released()
        return report(self._plan, self._plan.run.timed())

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """What runs, in order."""
        return tuple(KernelInfo(k, self._plan.device) for k in self._plan.kernels)

    def release(self) -> None:
        """Give the memory back; the outputs keep theirs as long as they are held. A released plan cannot run: JitError."""
        self.execute = self._released
        self._memory, self._made = [], []

    def _released(self) -> None:
        raise JitError("this plan has been released; prepare the tensors again")
