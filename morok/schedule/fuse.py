"""One pass over the tensor graph, readers first: every node is stored, or taken apart in each kernel that wants it."""
from __future__ import annotations

from ..dtype import dtypes
from ..errors import IRError
from ..helpers import row_major
from ..uop import AxisKind, GroupOp, Op, ParamArg, UOp, const, identity, loop_key, toposort
from ..uop.symbolic import simplify
from .kernel import Kernel, Want
from .ranges import FALSE, Place, inside, move, under
from .realize_map import NOTHING, VERY_DEAR, Facts, facts_of, is_region_cat, must_store

INDEX_NODES = 200            # the largest index expressions; beyond them a movement op costs more than a copy


class Fusion:
    """The graph cut into kernels. A node is looked at when all its readers have been, so all that is wanted of it is known.

    kernels: in the order of creation, readers first.  stored: nodes that are buffers.  holes: stands for values that an index depends on.
    `guess`: nodes that are expected to be stored, so that what reads them is cheap.
    """

    def __init__(self, sinks: list[UOp], forced: set[UOp], guess: set[UOp]) -> None:
        self.order = toposort(sinks)
        self.needed = {s for s in map(stored_node, sinks) if s.op is not Op.BUFFER} | {u for u in self.order if u.op is Op.ASSIGN}
        self.stored = self.needed | forced | {u for u in self.order if u.op is Op.COPY}
        self.stored |= {stored_node(u) for u in self.order if u.op is Op.CONTIGUOUS and stored_node(u).op is not Op.CONTIGUOUS}
        self.kernels: list[Kernel] = []
        self.holes: dict[UOp, Want] = {}
        self.hole_of: dict[Want, UOp] = {}
        self.wants: dict[UOp, list[Want]] = {}
        self.regions: set[UOp] = set()
        self.scalars: dict[UOp, UOp] = {}                       # movement of a constant is that constant
        for u in self.order:
            if u.op is Op.CONST or (u.op in GroupOp.MOVEMENT and u.op is not Op.PAD and u.src[0] in self.scalars):
                self.scalars[u] = u if u.op is Op.CONST else self.scalars[u.src[0]]
        self.facts = self.gather_facts(self.stored | guess)
        self.stored |= self.regions
        for u in reversed(self.order):
            self.visit(u, self.wants.pop(u, []))

    def gather_facts(self, memory: set[UOp]) -> dict[UOp, Facts]:
        """Facts of all nodes, each seen as if it were not stored, but what it reads from `memory` were."""
        facts: dict[UOp, Facts] = {}
        seen: dict[UOp, Facts] = {}
        for u in self.order:
            if u.op is Op.CAT and is_region_cat(u, seen):
                self.regions.add(u)
            facts[u] = facts_of(u, seen)
            seen[u] = NOTHING if u in memory or u in self.regions else facts[u]
        return facts

    def settled(self) -> bool:
        """What was stored would have been stored with the knowledge of what else is."""
        facts = self.gather_facts(self.stored)
        return all(outline(facts[u]) == outline(self.facts[u]) for u in self.stored)

    def visit(self, node: UOp, wants: list[Want]) -> None:
        if node.op is Op.BUFFER:
            for w in wants:
                w.kernel.done.append(w)
            return
        if not wants and node not in self.needed:
            return
        if node not in self.stored and (must_store(node, wants, self.facts[node]) or too_intricate(node, wants)):
            for w in wants:
                w.stage = None
            self.stored.add(node)
        if node in self.stored:
            self.store(node, wants)
        else:
            for w in sorted(wants, key=lambda w: w.stage is None):      # who reads a row buffer comes before who fills it
                self.expand(w)

    def store(self, node: UOp, wants: list[Want]) -> None:
        """Make kernels for the node; its readers load it."""
        for w in wants:
            w.kernel.inputs[node] = None
            w.kernel.done.append(w)
        level = 1 + max((w.kernel.level for w in wants), default=-1)
        strides = row_major(node.shape or ())
        if node in self.regions:
            start = 0
            for piece in node.src:
                self.start(Kernel(node, piece, level, strides, start * strides[node.arg]))
                start += (piece.shape or ())[node.arg]
        else:
            self.start(Kernel(node, node, level, strides))

    def start(self, kernel: Kernel) -> None:
        root = kernel.root
        if 0 in (root.node.shape or ()):
            return
        self.kernels.append(kernel)
        if root.node is kernel.target:
            self.expand(root)
        else:                                                   # a piece of a CAT
            root.srcs = [self.want(kernel, root.node, root.place)]
            kernel.done.append(root)

    def want(self, kernel: Kernel, node: UOp, place: Place) -> Want:
        if node in self.scalars:
            node, place = self.scalars[node], Place(())
        found = kernel.wants.get((node, place))
        if found is None:
            found = kernel.wants[node, place] = Want(node, place, kernel)
            self.wants.setdefault(node, []).append(found)
            if node.op is Op.BUFFER or node in self.stored:
                kernel.inputs[node] = None
        return found

    def expand(self, w: Want) -> None:
        """Take a want apart into wants of the node's sources, or give it its value if it needs none."""
        k, node, place, op = w.kernel, w.node, w.place, w.node.op
        k.done.append(w)
        if w.stage is not None:
            return
        k.size += bool(node.src) and op not in GroupOp.MOVEMENT
        if op is Op.CONST:
            w.value = node
        elif op is Op.IOTA:
            w.value = UOp(Op.CAST, node.dtype, place.idxs)
        elif op in GroupOp.MOVEMENT:
            self.guard(w, node.src[0], *move(node, place))
        elif op in GroupOp.ALU or op in (Op.CONTIGUOUS, Op.COPY):
            w.srcs = [self.want(k, s, place) for s in node.src]
        elif op is Op.ASSIGN:
            w.srcs = [self.want(k, node.src[1], place)]
        elif op is Op.REDUCE_AXES:
            self.reduce(w)
        elif op is Op.SCAN_AXIS:
            r = place.idxs[node.arg[1]]
            k.scan = r if r.op is Op.RANGE else k.scan
            w.srcs = [self.want(k, node.src[0], place)]
        elif op is Op.CAT:
            self.cat(w)
        elif op is Op.GATHER:
            self.gather(w)
        else:
            raise IRError(f"{op} is no op of the tensor graph")

    def guard(self, w: Want, source: UOp, place: Place, guard: UOp | None) -> None:
        """The value is that of the source where the guard holds, else 0."""
        if guard is FALSE:
            w.value, w.srcs = w.node.const_like(0), []
        else:
            w.guards = (guard,)
            w.srcs.append(self.want(w.kernel, source, place))

    def reduce(self, w: Want) -> None:
        k, node, (idxs, valid) = w.kernel, w.node, w.place
        shape, (op, axes) = node.src[0].shape or (), node.arg
        if any(shape[a] == 0 for a in axes):
            w.value = node.const_like(identity(op, node.dtype.min, node.dtype.max))
            return
        loops = {a: k.range(shape[a], AxisKind.REDUCE) if shape[a] != 1 else const(0) for a in sorted(axes)}
        w.loops = tuple(r for r in loops.values() if r.op is Op.RANGE)
        k.owner.update(dict.fromkeys(w.loops, w))
        if w.loops:
            k.fused.append(w.free)
        w.srcs = [self.want(k, node.src[0], Place(tuple(loops.get(a, i) for a, i in enumerate(idxs)), valid))]

    def cat(self, w: Want) -> None:
        """Each piece, under the condition that the index lies in it."""
        axis, start, guards = w.node.arg, 0, []
        (idxs, valid), i = w.place, w.place.idxs[axis]
        for s in w.node.src:
            n = (s.shape or ())[axis]
            there = Place(tuple(simplify(i - start) if a == axis else x for a, x in enumerate(idxs)), valid)
            guard = inside(there.idxs[axis:axis + 1], (n,), valid)
            start += n
            if guard is not FALSE:
                guards.append(guard)
                w.srcs.append(self.want(w.kernel, s, under(there, guard)))
        w.guards = tuple(guards)
        if not guards:
            w.value = w.node.const_like(0)

    def gather(self, w: Want) -> None:
        """The source at an index that is a value: a hole stands for it until the value is there."""
        x, *index = w.node.src
        w.srcs = [self.want(w.kernel, s, w.place) for s in index]
        idxs = tuple([v if v.dtype is dtypes.index else UOp(Op.CAST, dtypes.index, (v,)) for v in map(self.hole, w.srcs)])
        guard = inside(idxs, x.shape or (), w.place.valid)
        self.guard(w, x, under(Place(idxs, w.place.valid), guard), guard)

    def hole(self, w: Want) -> UOp:
        """A load from nowhere that varies as the wanted value does."""
        if w not in self.hole_of:
            p = UOp(Op.PARAM, w.node.dtype, (), ParamArg(-1 - len(self.holes), 1))
            self.hole_of[w] = UOp(Op.INDEX, p.dtype, (p, *sorted(w.free, key=loop_key))).load()
            self.holes[self.hole_of[w]] = w
        return self.hole_of[w]


def outline(f: Facts) -> tuple[bool, float]:
    """What of the facts decides."""
    return f.terms > 0, min(f.cost, VERY_DEAR)


def stored_node(u: UOp) -> UOp:
    """What is stored when `u` is: CONTIGUOUS asks for its source, but that of a buffer is a copy."""
    while u.op is Op.CONTIGUOUS and u.src[0].op is not Op.BUFFER:
        u = u.src[0]
    return u


def too_intricate(node: UOp, wants: list[Want]) -> bool:
    """Index expressions have grown so large that a copy in the new shape is better."""
    if node.op is not Op.RESHAPE or all(i.op in (Op.RANGE, Op.CONST) for w in wants for i in w.place.idxs):
        return False
    return any(len(toposort(move(node, w.place)[0].idxs)) > INDEX_NODES for w in wants)
