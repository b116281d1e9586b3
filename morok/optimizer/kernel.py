"""A read-only view of a kernel AST: its loops, reductions and memory accesses; and the one primitive all actions are made of."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..dtype import dtypes
from ..uop import AxisKind, GroupOp, Op, UOp, const, loop_key, ranges
from ..uop.linear import linear

Rebuild = Callable[[UOp, UOp], UOp]


def closed(u: UOp) -> tuple[UOp, ...]:
    """The ranges that end with this node (a SCAN's range goes on, but is listed in the same way)."""
    return u.src[first_range(u):]


def first_range(u: UOp) -> int:
    """Where the list of ranges begins among the sources."""
    return {Op.REDUCE: 1, Op.SCAN: 1, Op.STAGE: 2}.get(u.op, len(u.src))


def exchange(ast: UOp, mapping: dict[UOp, UOp], rebuild: Rebuild | None = None) -> UOp:
    """The kernel with ranges exchanged for expressions; what closed a range closes all ranges of its expression. `rebuild` sees (old, new) of each node."""
    new: dict[UOp, UOp] = {}
    for u in ast.toposort():
        if u in mapping:
            new[u] = mapping[u]
            continue
        k = first_range(u)
        src = [new[s] for s in u.src[:k]]
        for r in u.src[k:]:
            src += sorted(new[r].free, key=loop_key)
        v = u if tuple(src) == u.src else fold(UOp(u.op, u.dtype, tuple(src), u.arg))
        new[u] = rebuild(u, v) if rebuild is not None else v
    return new[ast]


def fold(u: UOp) -> UOp:
    """Index sums without zeros and ones; more is not needed, since the code generator reads linear forms."""
    if u.dtype is dtypes.index and u.op in (Op.ADD, Op.MUL):
        x, y = u.src
        for a, b in ((x, y), (y, x)):
            if b.op is Op.CONST and b.arg == (0 if u.op is Op.ADD else 1):
                return a
            if b.op is Op.CONST and b.arg == 0:
                return const(0)
    return u


@dataclass(frozen=True)
class Access:
    """One load or store: its buffer, and its stride along each range it moves with. opaque: the index has parts that are no ranges."""
    index: UOp
    strides: dict[UOp, int]
    opaque: bool

    @property
    def buffer(self) -> UOp:
        return self.index.src[0]


class Kernel:
    """What heuristics and actions ask about a kernel."""

    def __init__(self, ast: UOp) -> None:
        self.ast = ast
        self.topo = ast.toposort()
        self.ranges = ranges(ast)
        self.outputs = sorted({r for st in ast.src for r in st.free}, key=lambda r: r.arg.id)
        self.reduces = [u for u in self.topo if u.op is Op.REDUCE]
        self.scans = [u for u in self.topo if u.op is Op.SCAN]
        self.stages = [u for u in self.topo if u.op is Op.STAGE]
        self.loads = [access(u.src[0]) for u in self.topo if u.op is Op.LOAD]
        self.stores = [access(st.src[0]) for st in ast.src]

    def output(self, axis: int) -> UOp | None:
        """The output range (not yet a lane) with this id."""
        return next((r for r in self.outputs if r.arg.id == axis and not r.arg.kind.is_lane), None)

    @property
    def iterations(self) -> int:
        return math.prod(r.arg.extent for r in self.outputs)


def access(index: UOp) -> Access:
    terms = linear(index.src[1])[1]
    return Access(index, {a: k for a, k in terms.items() if a.op is Op.RANGE}, any(a.op is not Op.RANGE for a in terms))


def flops_bytes(ast: UOp) -> tuple[int, int]:
    """Arithmetic operations of a kernel (a product that is summed counts two), and bytes of the memory it touches, each element once."""
    flops = 0
    touched: dict[UOp, int] = {}
    for u in ast.toposort():
        if u.op in GroupOp.ALU and u.dtype is not dtypes.index and u.op not in (Op.CAST, Op.BITCAST) and not u.dtype.is_bool:
            flops += math.prod(r.arg.extent for r in u.free)
        elif u.op is Op.REDUCE:
            flops += math.prod(r.arg.extent for r in u.src[0].free | set(u.src[1:]))
        elif u.op is Op.INDEX and u.src[0].op is Op.PARAM:
            n = min(u.src[0].arg.size, math.prod(r.arg.extent for r in u.free))
            touched[u.src[0]] = max(touched.get(u.src[0], 0), n)
    return flops, sum(n * p.dtype.itemsize for p, n in touched.items())


def is_output(r: UOp) -> bool:
    return r.arg.kind in (AxisKind.LOOP, AxisKind.SCAN, AxisKind.THREAD)
