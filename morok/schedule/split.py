"""Tensor graph → kernels: decides what is stored, cuts there, builds the kernels in order."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..dtype import DType, dtypes
from ..errors import IRError
from ..helpers import row_major
from ..program import BufferView, ScheduleItem
from ..uop import AxisKind, GroupOp, Op, UOp, const, toposort
from ..uop.linear import linear
from .finish import normalise, params_of
from .fuse import VERY_DEAR, Analysis
from .ranges import Indexer, NotHere, Read

Fresh = Callable[[tuple[int, ...], DType, str], UOp]
PIECES = 8                       # a CAT of more parts is stored part by part


@dataclass
class Draft:
    """One stored node and the kernel (or kernels, for a CAT) that fill its buffer."""
    node: UOp
    parts: list["Part"] = field(default_factory=list)

    @property
    def inside(self) -> set[UOp]:
        """Nodes that are computed in here."""
        return {n for p in self.parts for n in p.places}


@dataclass
class Part:
    """A kernel before numbering: what it stores over which ranges, and from which offset of the buffer on."""
    value: UOp
    outputs: list[UOp]
    strides: tuple[int, ...]
    offset: int
    indexer: Indexer
    places: set[UOp]
    prices: dict[UOp, int]


class Splitter:
    """Grows the set of stored nodes until every kernel keeps the rules of `fuse`."""

    def __init__(self, sinks: list[UOp], fresh: Fresh) -> None:
        self.sinks, self.fresh = sinks, fresh
        self.topo = toposort(sinks)
        self.consumers: dict[UOp, list[UOp]] = {}
        for u in self.topo:
            for s in u.src:
                self.consumers.setdefault(s, []).append(u)
        self.buffers: dict[UOp, UOp] = {}
        self.drafts: dict[UOp, Draft] = {}
        self.device = next((u.arg.device for u in self.topo if u.op is Op.BUFFER), "CPU")
        for s in sinks:
            self.store(s)
        for u in self.topo:
            if u.op in (Op.CONTIGUOUS, Op.COPY, Op.ASSIGN) or (u.op is Op.CAT and len(u.src) > PIECES):
                self.store(u)

    def store(self, node: UOp) -> bool:
        """Give the node a buffer; False if it has one."""
        if node in self.buffers or node.op is Op.BUFFER:
            return False
        if node.op is Op.ASSIGN:
            self.buffers[node] = node.src[0]
        else:
            self.buffers[node] = self.fresh(node.shape or (), node.dtype, node.arg if node.op is Op.COPY else self.device)
        self.drafts = {n: d for n, d in self.drafts.items() if node not in d.inside}
        return True

    def settle(self) -> None:
        """Draft kernels until no rule asks for another stored node."""
        while True:
            todo = [n for n in self.buffers if n not in self.drafts]
            if todo:
                for n in todo:
                    if n in self.buffers and n not in self.drafts:
                        self.draft(n)
                continue
            shared = self.shared()
            if not shared:
                return
            for n in shared:
                self.store(n)

    def draft(self, node: UOp) -> None:
        """Build the kernels of one stored node, storing more nodes where the rules ask for it."""
        shape = node.shape or ()
        draft = Draft(node)
        if 0 in shape:
            self.drafts[node] = draft
            return
        body = node.src[-1] if node.op in (Op.CONTIGUOUS, Op.COPY, Op.ASSIGN) else node
        pieces = [(body, 0)]
        if node.op is Op.CAT and len(node.src) > PIECES:
            step, start, pieces = row_major(shape)[node.arg], 0, []
            for s in node.src:
                if 0 not in (s.shape or ()):
                    pieces.append((s, start * step))
                start += (s.shape or ())[node.arg]
        for root, offset in pieces:
            draft.parts.append(self.part(node, root, row_major(shape), offset))
        self.drafts[node] = draft

    def part(self, node: UOp, root: UOp, strides: tuple[int, ...], offset: int) -> Part:
        own = self.buffers[node]
        indexer = Indexer(self.buffers)
        outputs = [indexer.range(n, AxisKind.LOOP) if n != 1 else const(0) for n in root.shape or ()]
        read = Read(root, tuple(outputs))
        ranges = [r for r in outputs if r.op is Op.RANGE]
        hidden = self.buffers.pop(node) if root is node else None
        try:
            while True:
                indexer.memo.clear()
                indexer.params.clear()
                indexer.scans.clear()
                staged = dict(indexer.staged)
                try:
                    value = indexer.value(read)
                    analysis = Analysis(indexer, read, value, frozenset(ranges), self.consumers)
                    found = analysis.violations()
                except NotHere as e:
                    found = [e.node]
                found = [n for n in found if n is not node and self.store(n)]
                if not found and indexer.staged == staged:
                    break
                indexer.staged = {n: s for n, s in indexer.staged.items() if n not in self.buffers}
        finally:
            if hidden is not None:
                self.buffers[node] = own
        prices = {n: max(analysis.price(indexer.memo[r]) for r in rs) for n, rs in analysis.places.items() if n.op in GroupOp.ALU}
        return Part(value, outputs, strides, offset, indexer, set(analysis.places) | {root}, prices)

    def shared(self) -> list[UOp]:
        """Reductions and very dear values that two kernels compute: the topmost node that all of them have."""
        owners: dict[UOp, list[UOp]] = {}
        for d in self.drafts.values():
            for n in d.inside:
                if n is not d.node:
                    owners.setdefault(n, []).append(d.node)
        found: dict[UOp, None] = {}
        for u in self.topo:
            who = owners.get(u, [])
            if len(who) < 2 or u in self.buffers:
                continue
            dear = u.op in (Op.REDUCE_AXES, Op.SCAN_AXIS) or (u.op in GroupOp.ALU and max(self.price(u, w) for w in who) >= VERY_DEAR)
            if dear:
                found[self.climb(u, who, owners)] = None
        return list(found)[:1]

    def price(self, node: UOp, owner: UOp) -> int:
        return max((p.prices.get(node, 0) for p in self.drafts[owner].parts), default=0)

    def climb(self, node: UOp, who: list[UOp], owners: dict[UOp, list[UOp]]) -> UOp:
        """The last node above that the same kernels compute, and that is not larger."""
        best = node
        while True:
            above = [c for c in self.consumers.get(node, ()) if owners.get(c) == who and math.prod(c.shape or ()) <= math.prod(node.shape or ())]
            if len(above) != 1 or above[0].op in (Op.REDUCE_AXES, Op.SCAN_AXIS):
                return best
            node = above[0]
            if node.op in GroupOp.ALU:
                best = node

    # ---- kernels -----------------------------------------------------------------------------------------
    def items(self) -> list[ScheduleItem]:
        """The kernels, sources before readers; outputs over one set of ranges that share inputs run together."""
        done: list[ScheduleItem] = []
        order = [u for u in self.topo if u in self.drafts]
        for u in order:
            for p in self.drafts[u].parts:
                done.append(self.item([(u, p)]))
        return done

    def item(self, parts: list[tuple[UOp, Part]]) -> ScheduleItem:
        node, first = parts[0]
        own = self.buffers[node]
        if own in first.indexer.params and node.op is Op.ASSIGN:
            check_in_place(first, own)
        out = first.indexer.param(own)
        idx = const(0)
        for r, step in zip(first.outputs, first.strides, strict=True):
            idx = idx + r * step
        ast = UOp(Op.SINK, dtypes.void, (out.index(idx).store(first.value),))
        ranges = [r for r in first.outputs if r.op is Op.RANGE]
        kinds = {r: UOp(Op.RANGE, dtypes.index, (), r.arg._replace(kind=AxisKind.SCAN)) for r in first.indexer.scans}
        ast = ast.substitute(kinds)
        buffers = {p: b for b, p in first.indexer.params.items()}
        order = params_of(ast)
        final = normalise(ast, [kinds.get(r, r) for r in ranges])
        slots = params_of_final(final)
        views = tuple(BufferView(buffers[p], first.offset if p is out else 0) for p in order)
        if len(slots) != len(views):
            raise IRError("a parameter was lost while a kernel was put into normal form")
        return ScheduleItem(final, views, 1, node.line)


def params_of_final(ast: UOp) -> list[UOp]:
    return [u for u in ast.toposort() if u.op is Op.PARAM]


def check_in_place(part: Part, buffer: UOp) -> None:
    """An assignment that reads its own buffer may do so only where it writes."""
    out = part.indexer.params[buffer]
    idx = const(0)
    for r, step in zip(part.outputs, part.strides, strict=True):
        idx = idx + r * step
    for u in part.value.toposort():
        if u.op is Op.INDEX and u.src[0] is out and linear(u.src[1]) != linear(idx):
            raise IRError("an assignment reads other elements of its own buffer; it has to go through a temporary")
