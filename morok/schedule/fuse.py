"""What may stay inside one kernel, and what has to be stored: the rules of fusion, read off the kernel that a node would become."""
from __future__ import annotations

import math
from collections.abc import Iterable

from ..dtype import dtypes
from ..uop import GroupOp, Op, UOp, const, toposort
from .ranges import Indexer, Read

BROADCAST = 16               # a value recomputed this often inside a reduction is worth storing
DEAR = 8                     # cost from which a value is kept rather than computed twice
VERY_DEAR = 24               # cost from which it is stored when two kernels want it
PLACES = 4                   # places in one kernel where a value may be computed
ROW_BYTES = 256 << 10        # the longest row that is kept in scratch
KERNEL_NODES = 800
KERNEL_PIECE = 500
ALONE = 1 << 17              # a reduction to one value over so many elements is a kernel of its own
COST = {Op.DIV: 4, Op.SQRT: 4, Op.IDIV: 8, Op.MOD: 8}


def cost(op: Op) -> int:
    """Rough price of an elementwise op in simple instructions."""
    return 10 if op in GroupOp.TRANSCENDENTAL else COST.get(op, 1)


def extent(ranges: Iterable[UOp]) -> int:
    return math.prod(r.arg.extent for r in ranges)


class Analysis:
    """Looks at one kernel: its value, the reads that it was made of, and who reads what."""

    def __init__(self, indexer: Indexer, root: Read, value: UOp, outputs: frozenset[UOp], consumers: dict[UOp, list[UOp]]) -> None:
        self.indexer, self.root, self.value, self.outputs, self.consumers = indexer, root, value, outputs, consumers
        self.reads = indexer.memo
        self.places: dict[UOp, list[Read]] = {}
        for r in self.reads:
            if r.node is not root.node and r.node not in indexer.buffers and r.node.op is not Op.BUFFER:
                self.places.setdefault(r.node, []).append(r)
        self.reduces = [u for u in value.toposort() if u.op is Op.REDUCE]
        self._costs: dict[UOp, int] = {}

    # ---- helpers -------------------------------------------------------------------------------------
    def climb(self, node: UOp) -> UOp:
        """The last node above `node` that is wanted at the same places: storing it saves most."""
        best = node
        while True:
            above = [c for c in self.consumers.get(node, ()) if c in self.places and math.prod(c.shape or ()) <= math.prod(node.shape or ())]
            if len(above) != 1 or len(self.places[above[0]]) != len(self.places[node]) or above[0].op in (Op.REDUCE_AXES, Op.SCAN_AXIS):
                return best
            node = above[0]
            if node.op in GroupOp.ALU:
                best = node

    def price(self, u: UOp) -> int:
        """What it costs, at most, to compute `u` from loads and reductions: arithmetic on values, none on positions."""
        if u not in self._costs:
            for n in toposort((u,), lambda n: n not in self._costs and n.op in GroupOp.ALU and not positional(n)):
                own = 0 if n.op in (Op.CAST, Op.BITCAST) else cost(n.op)
                self._costs[n] = min(own + sum(self._costs.get(s, 0) for s in n.src), VERY_DEAR * 4)
        return self._costs.get(u, 0)

    # ---- the rules -------------------------------------------------------------------------------------
    def violations(self) -> list[UOp]:
        """Nodes that have to be stored; empty when the kernel may stand. One rule at a time, since storing a node changes the rest."""
        for rule in (self.too_large, self.reduced_twice, self.inner_products, self.broken_chain, self.lonely, self.recomputed, self.many_places):
            found = rule()
            if found:
                return found
        return []

    def too_large(self) -> list[UOp]:
        body = [u for u in self.value.toposort() if u.op in GroupOp.ALU and u.dtype is not dtypes.index]
        if len(body) <= KERNEL_NODES:
            return []
        made: dict[UOp, UOp] = {}
        for r, v in self.reads.items():
            if r.node.op in GroupOp.ALU and r.node in self.places and v.op in GroupOp.ALU:
                made.setdefault(v, r.node)
        picked = [made[u] for u in body[KERNEL_PIECE - 1::KERNEL_PIECE] if u in made]
        return picked or ([made[body[-2]]] if body[-2] in made else [])

    def reduced_twice(self) -> list[UOp]:
        """A reduction wanted at two places."""
        for node, reads in self.places.items():
            if node.op is Op.REDUCE_AXES and len(reads) > 1 and len({self.reads[r] for r in reads}) > 1:
                return [self.climb(node)]
        return []

    def made_by(self, u: UOp) -> UOp | None:
        return next((r.node for r, v in self.reads.items() if v is u and r.node in self.places and r.node.op in (Op.REDUCE_AXES, Op.SCAN_AXIS)), None)

    def inner_products(self) -> list[UOp]:
        """A reduction inside the body of another: it must vary with all loops around it, and be no product of two tensors."""
        for q in self.reduces:
            mine = frozenset(q.src[1:])
            for r in body_of(q):
                if r.op is Op.REDUCE and r.free & mine and (not r.free >= q.free or is_product(r)):
                    node = self.made_by(r)
                    if node is not None:
                        return [self.climb(node)]
        return []

    def broken_chain(self) -> list[UOp]:
        """The output loops that reductions depend on must be nested in one another, so that each is computed once."""
        chain: list[frozenset[UOp]] = []
        for r in self.reduces:
            f = r.free & self.outputs
            if all(f <= c or c <= f for c in chain):
                chain.append(f)
            else:
                node = self.made_by(r)
                if node is not None:
                    return [self.climb(node)]
        return []

    def lonely(self) -> list[UOp]:
        """A long reduction to a single value, read by a loop: alone it can use all cores."""
        if not self.outputs:
            return []
        for r in self.reduces:
            if not r.free and extent(r.src[1:]) >= ALONE:
                node = self.made_by(r)
                if node is not None:
                    return [node]
        return []

    def recomputed(self) -> list[UOp]:
        """Arithmetic under loops that it does not depend on: in a reduction's body, or dear in the output loops."""
        for q in [*self.reduces, None]:
            loops = self.outputs if q is None else q.free | frozenset(q.src[1:])
            inner = self.outputs if q is None else frozenset(q.src[1:])
            bad = {u for u in body_of(q if q is not None else self.value)
                   if u.op in GroupOp.ALU and not positional(u) and u.free & inner and extent(loops - u.free) >= BROADCAST
                   and (self.price(u) >= 1 if q is not None else self.price(u) >= 10 and not is_prefix(u.free, loops))}
            found = self._topmost(bad)
            if found:
                return found
        return []

    def _topmost(self, values: set[UOp]) -> list[UOp]:
        nodes = {}
        for r, v in self.reads.items():
            if v in values and r.node.op in GroupOp.ALU and r.node in self.places:
                nodes[r.node] = None
        return [n for n in nodes if not any(c in nodes for c in self._above(n, nodes))]

    def _above(self, node: UOp, nodes: dict[UOp, None]) -> list[UOp]:
        """Consumers of `node`, seen through movement ops."""
        out, stack = [], list(self.consumers.get(node, ()))
        while stack:
            c = stack.pop()
            if c.op in GroupOp.MOVEMENT and c.op is not Op.EXPAND:
                stack.extend(self.consumers.get(c, ()))
            else:
                out.append(c)
        return out

    def many_places(self) -> list[UOp]:
        """A dear value wanted at several places: kept as a row in scratch if the places are phases over one axis, else stored or recomputed."""
        for node, reads in self.places.items():
            if node.op not in GroupOp.ALU or node in self.indexer.staged or len(reads) < 2:
                continue
            values = {self.reads[r]: r for r in reads}
            if len(values) < 2 or any(positional(v) for v in values):
                continue
            price = max(map(self.price, values))
            if len(values) > PLACES and price > 1:
                return [self.climb(node)]
            if price >= DEAR and not self._stage_row(node, list(values.values())) and price >= VERY_DEAR and self._stored_pays(values):
                return [node]
        return []

    def _stored_pays(self, values: dict[UOp, Read]) -> bool:
        return len({v.free for v in values}) > 1

    def _stage_row(self, node: UOp, reads: list[Read]) -> bool:
        """Keep the row that one reduction's loop computes for the loops that follow it."""
        for home in reads:
            loop = [r for i in home.idxs for r in i.free if r.arg.kind.name == "REDUCE"]
            if len(loop) != 1 or home.valid is not None or loop[0] not in home.idxs:
                continue
            r = loop[0]
            owner = [q for q in self.reduces if q.src[1:] == (r,) and self.reads[home] in body_of(q)]
            axis = home.idxs.index(r)
            others = [x for x in reads if x is not home]
            if owner and r.arg.extent * node.dtype.itemsize <= ROW_BYTES and all(same_row(home, x, axis) for x in others):
                self.indexer.staged[node] = (home, r, const(r.arg.extent))
                return True
        return False


def same_row(home: Read, other: Read, axis: int) -> bool:
    """The places differ only in which range of full length runs over `axis`."""
    i = other.idxs[axis]
    return (other.valid is None and i.op is Op.RANGE and i.arg.extent == home.idxs[axis].arg.extent
            and all(a is b for k, (a, b) in enumerate(zip(home.idxs, other.idxs, strict=True)) if k != axis))


def body_of(q: UOp) -> list[UOp]:
    """What a phase computes itself: down to the results of other phases, which are named last."""
    roots = q.src[:1] if q.op is Op.REDUCE else (q,)
    seen: dict[UOp, None] = {}
    stack = list(roots)
    while stack:
        u = stack.pop()
        if u not in seen:
            seen[u] = None
            if u.op not in (Op.REDUCE, Op.STAGE):
                stack.extend(u.src)
    return list(seen)


def positional(u: UOp) -> bool:
    """Index arithmetic, or a condition or number made of positions alone: free compared with a load."""
    if u.dtype is dtypes.index:
        return True
    if u.op is Op.CAST and u.src[0].dtype is dtypes.index:
        return True
    if u.op in GroupOp.COMPARE and u.src[0].dtype is dtypes.index:
        return True
    return u.op in (Op.AND, Op.OR, Op.NOT) and all(positional(s) for s in u.src)


def is_product(r: UOp) -> bool:
    """A sum of products of loads that vary differently: a matrix product or a convolution."""
    x = r.src[0]
    while x.op in (Op.CAST, Op.WHERE):
        x = x.src[0] if x.op is Op.CAST else x.src[1]
    return r.arg is Op.ADD and x.op is Op.MUL and x.src[0].free != x.src[1].free


def is_prefix(free: frozenset[UOp], loops: frozenset[UOp]) -> bool:
    """The loops that a value depends on are the outermost ones."""
    inside = sorted(r.arg.order for r in free & loops)
    return inside == sorted(r.arg.order for r in loops)[:len(inside)]
