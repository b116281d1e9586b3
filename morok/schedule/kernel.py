"""Kernels in the making: which nodes one kernel computes, at which places, under which loops."""
from __future__ import annotations

import math
from collections.abc import Iterable

from ..dtype import dtypes
from ..uop import Axis, AxisKind, Op, UOp, const
from .ranges import Place


class Want:
    """A node that a kernel needs at one place.

    srcs: the wants that it is made of.  guard: condition of a PAD, a GATHER or the pieces of a CAT.  loops: the ranges that a REDUCE_AXES closes.
    stage: (the want that fills the row buffer, its ranges exchanged for ours), if the value is read back from one.
    """
    __slots__ = ("free", "guards", "kernel", "loops", "node", "place", "srcs", "stage", "value")

    def __init__(self, node: UOp, place: Place, kernel: Kernel) -> None:
        self.node, self.place, self.kernel, self.free = node, place, kernel, place.free
        self.srcs: list[Want] = []
        self.guards: tuple[UOp | None, ...] = ()
        self.loops: tuple[UOp, ...] = ()
        self.stage: tuple[Want, dict[UOp, UOp]] | None = None
        self.value: UOp | None = None


class Kernel:
    """One output: `target` is the stored node, `root` what is computed (a piece of the target, if that is a big CAT)."""

    def __init__(self, target: UOp, root: UOp, level: int, strides: tuple[int, ...], offset: int = 0) -> None:
        self.target, self.level, self.strides, self.offset = target, level, strides, offset
        self.count = 0                                          # ranges made so far
        self.out = tuple(const(0) if n == 1 else self.range(n, AxisKind.LOOP) for n in root.shape or ())
        self.loops = frozenset(r for r in self.out if r.op is Op.RANGE)
        self.innermost = next((r for r in reversed(self.out) if r.op is Op.RANGE), None)
        self.wants: dict[tuple[UOp, Place], Want] = {}
        self.done: list[Want] = []                              # in the order in which they were taken apart: readers first
        self.size = 0
        self.inputs: dict[UOp, None] = {}                       # what is read from memory
        self.owner: dict[UOp, Want] = {}                        # reduce range → the reduction that closes it
        self.fused: list[frozenset[UOp]] = []                   # free ranges of the reductions computed inside
        self.scan: UOp | None = None
        self.root = Want(root, Place(self.out), self)

    def range(self, extent: int, kind: AxisKind) -> UOp:
        """A new loop."""
        n = self.count
        self.count += 1
        return UOp(Op.RANGE, dtypes.index, (), Axis(n, 0, (n,), extent, kind))

    def closure(self, free: Iterable[UOp]) -> set[UOp]:
        """All loops around a value that varies over `free`: inside a reduction's body also those around the reduction."""
        out = set(free)
        stack = [r for r in out if r in self.owner]
        while stack:
            for r in self.owner[stack.pop()].free:
                if r not in out:
                    out.add(r)
                    if r in self.owner:
                        stack.append(r)
        return out

    def prefix(self, free: Iterable[UOp]) -> tuple[UOp, ...]:
        """The output loops, outermost first, down to the innermost one in `free`."""
        free = frozenset(free)
        last = max((k for k, r in enumerate(self.out) if r in free), default=-1)
        return tuple(r for r in self.out[:last + 1] if r.op is Op.RANGE)


def extent(loops: Iterable[UOp]) -> int:
    """How often the body of all these loops runs."""
    return math.prod(r.arg.extent for r in loops)
