"""Kernels that run together, and all of them in an order that respects what they read and overwrite."""
from __future__ import annotations

from dataclasses import dataclass, field

from ..uop import Op, UOp
from .build import base, target_of
from .kernel import Kernel
from .realize_map import NODES, PARAMS, is_product

TOGETHER = 4                 # outputs of one kernel


@dataclass(eq=False)
class Step:
    """Kernels that are one, or a copy of a buffer's present value.

    before: steps that must have run.  saved: versions of buffers that are overwritten too early and read from a copy, and the step that makes it.
    """
    kernels: list[Kernel]
    copied: UOp | None = None
    before: list[Step] = field(default_factory=list)
    saved: dict[UOp, Step] = field(default_factory=dict)

    def reads(self) -> dict[UOp, None]:
        return {i: None for k in self.kernels for i in k.inputs}


def group_kernels(kernels: list[Kernel]) -> list[Step]:
    """Independent kernels over the same loops that share an input become one with several outputs."""
    steps: list[Step] = []
    latest: dict[tuple[int, tuple[int, ...] | None, UOp], Step] = {}
    for k in kernels:
        whole = k.root.node is k.target                         # and no region of a CAT
        keys = [(k.level, k.target.shape, i) for i in k.inputs] if whole else []
        found = next((latest[key] for key in keys if key in latest and fits(k, latest[key].kernels)), None)
        if found is None:
            steps.append(found := Step([k]))
        else:
            found.kernels.append(k)
        latest.update(dict.fromkeys(keys, found))
    return steps


def fits(k: Kernel, group: list[Kernel]) -> bool:
    """k, which is on the level of the group and so does not depend on it, may run in its loops."""
    both = [k, *group]
    if len(both) > TOGETHER or any(q.scan is not None for q in both):
        return False
    if sum(q.size for q in both) > NODES or len({i for q in both for i in q.inputs}) > PARAMS:
        return False
    if any(reductions(q) != reductions(k) or any(is_product(w.node.src[0]) for w in q.owner.values()) for q in both):
        return False
    return not any(overwrites(a, b) for a in both for b in both if a is not b)


def reductions(k: Kernel) -> set[tuple[tuple[int, ...], frozenset[UOp]]]:
    """The shapes of the kernel's reductions and the loops that they are computed in."""
    return {(tuple(r.arg.extent for r in w.loops), w.free) for w in k.owner.values()}


def overwrites(a: Kernel, b: Kernel) -> bool:
    """a writes into memory that b reads or writes."""
    return a.target.op is Op.ASSIGN and any(base(a.target) is base(i) for i in (*b.inputs, b.target))


def order_steps(steps: list[Step]) -> list[Step]:
    """Sources first; whoever reads a buffer's old value before the ASSIGN that overwrites it, or else from a copy."""
    makers: dict[UOp, list[Step]] = {}
    for s in steps:
        for k in s.kernels:
            makers.setdefault(k.target, []).append(s)
    for s in steps:
        old = [target_of(k.target, k.root.place)[0] for k in s.kernels if k.target.op is Op.ASSIGN]
        s.before = list(dict.fromkeys(m for i in (*s.reads(), *old) for m in makers.get(i, ()) if m is not s))
    for writer in list(steps):
        for k in writer.kernels:
            if k.target.op is Op.ASSIGN:
                protect(target_of(k.target, k.root.place)[0], writer, steps, makers)
    done: dict[Step, None] = {}
    for s in reversed(steps):
        stack = [s]
        while stack:
            missing = [b for b in stack[-1].before if b not in done]
            if missing:
                stack.append(missing[0])
            else:
                done[stack.pop()] = None
    return list(done)


def protect(version: UOp, writer: Step, steps: list[Step], makers: dict[UOp, list[Step]]) -> None:
    """All readers of a buffer's version come before the step that overwrites it."""
    for reader in [s for s in steps if s is not writer and version in s.reads()]:
        if not depends(reader, writer):
            writer.before.append(reader)
            continue
        copy = next((s for s in steps if s.copied is version), None)
        if copy is None:
            copy = Step([], version, list(makers.get(version, ())))
            steps.append(copy)
            writer.before.append(copy)
        reader.saved[version] = copy
        reader.before.append(copy)


def depends(a: Step, b: Step) -> bool:
    """a has to run after b."""
    seen, stack = {a}, [a]
    while stack:
        for s in stack.pop().before:
            if s is b:
                return True
            if s not in seen:
                seen.add(s)
                stack.append(s)
    return False
