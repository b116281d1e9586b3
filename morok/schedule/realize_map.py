"""The rules of fusion: which nodes become buffers, which stay inside a kernel and which are kept in a row buffer."""
from __future__ import annotations

import math
from typing import NamedTuple

from ..uop import GroupOp, Op, UOp
from ..uop.linear import linear
from ..uop.symbolic import simplify
from .kernel import Kernel, Want, extent

DEAR = 8                     # cost from which a value is not computed twice if it can be kept in a row buffer
SHARE = 16                   # cost from which a value that two kernels want is stored
VERY_DEAR = 32               # recomputation in one kernel that costs more than a buffer
BROADCAST = 15               # recomputed operations per element, inside a reduction, that cost more than a buffer
PLACES = 4                   # places in one kernel at which a value may be computed
PIECES = 8                   # parts of a CAT that one kernel tells apart
ROW_BYTES = 256 << 10        # the largest row buffer
NODES, PARAMS = 400, 48      # from these on a kernel takes in no more (what it already wants comes on top)
FEW, LONG = 64, 1 << 16      # a kernel with few outputs takes in no reduction inside a reduction longer than this
COLUMN = 1024                # longest reduction, at the scope of the innermost output loop alone, that shares a kernel with its reader
PRICE = {Op.CAST: 0, Op.BITCAST: 0, Op.WHERE: .25, Op.DIV: 4, Op.SQRT: 4, Op.IDIV: 4, Op.MOD: 4}


class Facts(NamedTuple):
    """About a node, whoever reads it.

    cost: of an element, from memory and reductions.  terms: of the longest reduction that is computed with each element, not once for many; 0: none.
    product: one of these multiplies tensors (matmul, conv).  work, results: how many elements the largest reduction below takes in and gives.
    """
    cost: float = 0
    terms: int = 0
    product: bool = False
    work: int = 0
    results: int = 0


NOTHING = Facts()


def price(u: UOp) -> float:
    """Cost of one elementwise op in simple instructions."""
    if u.op in GroupOp.TRANSCENDENTAL:
        return 10
    return PRICE.get(u.op, .25 if u.dtype.is_bool else 1)


def facts_of(u: UOp, known: dict[UOp, Facts]) -> Facts:
    """Facts of a node that is not stored, from those of its sources."""
    if not u.src:
        return NOTHING
    if u.op in GroupOp.MOVEMENT:
        f = known[u.src[0]]
        return f._replace(terms=0, product=False) if f.terms and u.op is Op.EXPAND and numel(u) > numel(u.src[0]) else f
    src = [known[s] for s in dict.fromkeys(u.src)]
    if u.op is Op.REDUCE_AXES:
        terms = max(1, math.prod((u.src[0].shape or ())[a] for a in u.arg[1]))
        return Facts(0, terms, is_product(u.src[0]), numel(u.src[0]), numel(u))
    if u.op is Op.SCAN_AXIS:
        return Facts(0, max(1, (u.shape or ())[u.arg[1]]), False, numel(u), numel(u))
    cost = min(price(u) + sum(f.cost for f in src), 1000) if u.op in GroupOp.ALU or u.op is Op.GATHER else max(f.cost for f in src)
    return Facts(cost, max(f.terms for f in src), any(f.product for f in src), *max((f.work, f.results) for f in src))


def numel(u: UOp) -> int:
    return math.prod(u.shape or ())


def is_product(x: UOp) -> bool:
    """x is a product with a broadcast or windowed factor: a reduction of it is a matmul or a convolution."""
    while x.op is Op.CAST or x.op in GroupOp.MOVEMENT:
        x = x.src[0]
    return x.op is Op.MUL and any(_is_spread(s) for s in x.src)


def _is_spread(x: UOp) -> bool:
    while x.op is Op.CAST or x.op in GroupOp.MOVEMENT:
        if x.op in (Op.EXPAND, Op.WINDOW) and numel(x) > numel(x.src[0]) > 1:
            return True
        x = x.src[0]
    return False


# ---- rules, asked when every want of a node is known -----------------------------------------------------
def must_store(node: UOp, wants: list[Want], facts: Facts) -> bool:
    """True if `node` has to be a buffer. May mark some of `wants` as read from a row buffer instead."""
    if node.op not in GroupOp.ALU and node.op not in (Op.REDUCE_AXES, Op.SCAN_AXIS, Op.GATHER):
        return False
    per: dict[Kernel, list[Want]] = {}
    for w in wants:
        per.setdefault(w.kernel, []).append(w)
    if len(per) > 1 and (facts.terms or facts.cost >= SHARE):
        return True
    return any(_store_for(k, node, ws, facts) for k, ws in per.items())


def is_region_cat(node: UOp, known: dict[UOp, Facts]) -> bool:
    """A CAT whose pieces are kernels of their own, which store into their regions of it."""
    return len(node.src) > PIECES or any(known[s].terms or known[s].cost >= DEAR for s in node.src)


def _store_for(k: Kernel, node: UOp, ws: list[Want], facts: Facts) -> bool:
    """Kernel k alone is reason enough to store the node."""
    if len(ws) > PLACES or k.size > NODES or len(k.inputs) > PARAMS:
        return True
    if node.op is Op.SCAN_AXIS:
        return len(ws) > 1 or not _scans_here(k, node, ws[0])
    if facts.terms:
        return len(ws) > 1 or not _reduces_here(k, node, ws[0], facts)
    if len(ws) > 1 and facts.cost >= DEAR and keep_row(k, node, ws):
        ws = [w for w in ws if w.stage is None]
    if len(ws) > 1 and facts.cost * (sum(extent(k.closure(w.free)) for w in ws) / max(numel(node), 1) - 1) >= VERY_DEAR:
        return True
    return any(_is_recomputed(k, node, w, facts.cost) or _is_serial(k, w, facts) for w in ws)


def _is_serial(k: Kernel, w: Want, facts: Facts) -> bool:
    """A kernel with few outputs would do long reductions one after the other, in the body of its own."""
    return facts.work > LONG and extent(k.loops) < FEW and extent(w.free) <= facts.results and any(r in k.owner for r in w.free)


def _is_recomputed(k: Kernel, node: UOp, w: Want, cost: float) -> bool:
    """Loops that the value does not vary over compute it so often that a buffer is cheaper."""
    loops, n = k.closure(w.free), max(numel(node), 1)
    if any(r in k.owner for r in loops):
        return cost >= 1 and cost * (extent(loops) / n - 1) >= BROADCAST
    times = extent(k.prefix(loops))
    return cost >= DEAR and times / n >= BROADCAST and times * cost >= extent(k.loops)


def _scans_here(k: Kernel, node: UOp, w: Want) -> bool:
    """The wanted axis is an output loop, and nothing else about the place is special: the loop can carry the scan."""
    axis = node.arg[1]
    r, n = w.place.idxs[axis], (node.shape or ())[axis]
    if n == 1:
        return True
    alone = r in k.loops and r.arg.extent == n and not any(r in i.free for a, i in enumerate(w.place.idxs) if a != axis)
    last = all(r not in f or f >= k.loops for f in k.fused)         # the scanned loop becomes the innermost one
    return alone and last and w.place.valid is None and w.free == k.loops and k.scan in (None, r)


def _reduces_here(k: Kernel, node: UOp, w: Want, facts: Facts) -> bool:
    """The reduction is computed once at the scope of loops that it varies over, and no loop between recomputes it."""
    free = w.free
    if k.closure(free) != free or extent(free) > 1.25 * max(numel(node), 1):
        return False
    inner, outer = frozenset(r for r in free if r in k.owner), free & k.loops
    if inner and (facts.product or _is_serial(k, w, facts)):
        return False
    if k.scan is not None and k.scan in free and outer != k.loops:
        return False
    if not all(_nested(free & s, f & s) for f in k.fused for s in (k.loops, *({*k.owner[r].loops} for r in inner))):
        return False
    return outer == set(k.prefix(outer)) or k.innermost not in outer or facts.terms <= COLUMN


def _nested(a: frozenset[UOp] | set[UOp], b: frozenset[UOp] | set[UOp]) -> bool:
    return a <= b or b <= a


# ---- row buffers -----------------------------------------------------------------------------------------
def keep_row(k: Kernel, node: UOp, ws: list[Want]) -> bool:
    """If all wants walk one row of the node in different phases, the first phase, a reduction, fills a row buffer and the others read it."""
    homes = [(w, q) for w in ws for q in {k.owner[r]: None for r in w.free if r in k.owner} if w.free == q.free | set(q.loops)]
    if not homes:
        return False
    home, phase = max(homes, key=lambda h: k.done.index(h[1]))
    if extent(phase.loops) * node.dtype.itemsize > ROW_BYTES:
        return False
    marks = {}
    for w in ws:
        if w is not home:
            turn = exchange(home, w)
            if turn is None or set(turn) != set(phase.loops):
                return False
            marks[w] = turn
    for w, turn in marks.items():
        w.stage = (home, turn)
    return True


def exchange(a: Want, b: Want) -> dict[UOp, UOp] | None:
    """The ranges of `a` that have to be exchanged for others, of equal extent, to get the place of `b`; None if that is not all."""
    turn: dict[UOp, UOp] = {}
    for i, j in zip(a.place.idxs, b.place.idxs, strict=True):
        (_, s), (_, t) = linear(i), linear(j)
        left = {c: r for r, c in s.items() if r not in t}
        right = {c: r for r, c in t.items() if r not in s}
        if left.keys() != right.keys():
            return None
        for c, r in left.items():
            o = right[c]
            if r.op is not Op.RANGE or o.op is not Op.RANGE or r.arg.extent != o.arg.extent or turn.setdefault(r, o) is not o:
                return None
    if len(set(turn.values())) != len(turn) or any(o in a.free for o in turn.values()):
        return None

    def turned(u: UOp | None) -> UOp | None:
        return None if u is None else simplify(u.substitute(turn))
    same = all(turned(i) is j for i, j in zip(a.place.idxs, b.place.idxs, strict=True)) and turned(a.place.valid) is b.place.valid
    return turn if same else None
