"""The expression of a kernel, sources first, from the wants that it was taken apart into."""
from __future__ import annotations

from collections.abc import Sequence

from ..dtype import dtypes
from ..errors import IRError
from ..helpers import prod
from ..uop import GroupOp, Op, ParamArg, StageArg, UOp, Where
from .kernel import Kernel, Want, extent
from .ranges import Place, flatten, linear_index, move


class Conflict(Exception):
    """An ASSIGN reads its buffer at another place than it writes; `node`, the new value, must be stored first."""

    def __init__(self, node: UOp) -> None:
        super().__init__(node)
        self.node = node


class Builder:
    """Makes one AST of kernels that have the same output loops.

    memory: the stored nodes, ASSIGNs and BUFFERs that the parameters stand for.  twins: further slots of what has more than one.
    """

    def __init__(self, holes: dict[UOp, Want], stored: set[UOp]) -> None:
        self.holes, self.stored = holes, stored
        self.memory: dict[UOp, UOp] = {}                        # what a parameter stands for → PARAM
        self.twins: dict[int, UOp] = {}

    def build(self, kernels: Sequence[Kernel]) -> UOp:
        """SINK of one STORE for each kernel; slots 0.. are the outputs."""
        for k in kernels:
            self.param(k.target)
        stores, count = [], 0
        for k in kernels:                                       # kernels number their reduce ranges independently
            apart = {r: UOp(Op.RANGE, r.dtype, (), r.arg._replace(id=r.arg.id + count, order=(r.arg.id + count,))) for r in k.owner} if count else {}
            stores.append(self.store(k).substitute(apart))
            count += len(k.owner)
        return self.part_operands(UOp(Op.SINK, dtypes.void, tuple(stores)))

    def part_operands(self, sink: UOp) -> UOp:
        """x @ x: factors that read one input at two places get a parameter each, so that actions can tell them apart."""
        for u in sink.toposort():
            x = u.src[0] if u.op is Op.REDUCE and u.arg is Op.ADD else u
            while x.op is Op.CAST:
                x = x.src[0]
            if x is u or x.op is not Op.MUL:
                continue
            loads = [[v for v in s.toposort() if v.op is Op.LOAD] for s in x.src]
            params = [v[0].src[0].src[0] for v in loads if len(v) == 1]
            if len(params) == 2 and params[0] is params[1] and loads[0] != loads[1] and params[0].op is Op.PARAM:
                slot = len(self.memory) + len(self.twins)
                self.twins[slot] = next(n for n, p in self.memory.items() if p is params[0])
                twin = UOp(Op.PARAM, params[0].dtype, (), ParamArg(slot, params[0].arg.size))
                sink = sink.substitute({x: UOp(Op.MUL, x.dtype, (x.src[0], x.src[1].substitute({params[0]: twin})))})
        return sink

    def param(self, node: UOp) -> UOp:
        if node not in self.memory:
            self.memory[node] = UOp(Op.PARAM, node.dtype, (), ParamArg(len(self.memory), prod(base(node).shape or ())))
        return self.memory[node]

    def store(self, k: Kernel) -> UOp:
        target, place, version = k.target, k.root.place, None
        if target.op is Op.ASSIGN:
            version, index = target_of(target, place)[0], flatten(address(target, place).idxs, base(target).shape or ())
            if version in k.inputs:                             # read and written in place: one parameter
                self.memory[version] = self.param(target)
        else:
            index = linear_index(place.idxs, k.strides)
        for w in reversed(k.done):
            w.value = self.value(w)
        out, value = self.param(target), self.fill_holes(value_of(k.root))
        if version in k.inputs and any(u.op is Op.INDEX and u.src[0] is out and u.src[1] is not index for u in value.toposort()):
            raise Conflict(target.src[1])
        return out.index(index).store(value)

    def value(self, w: Want) -> UOp:
        """The scalar at the wanted place, from those of its sources."""
        node, op = w.node, w.node.op
        if w.value is not None:
            return w.value
        if w.stage is not None:
            return read_row(w)
        if op is Op.BUFFER or (node in self.stored and w is not w.kernel.root):
            return self.load(node, w.place)
        src = [value_of(s) for s in w.srcs]
        if w is w.kernel.root and node is not w.kernel.target:  # a piece of a CAT
            return src[0]
        if op is Op.CAT and w.guards:
            out = src[-1]
            for guard, v in zip(w.guards[-2::-1], src[-2::-1], strict=True):
                out = v if guard is None else guard.where(v, out)
            return out
        if op in GroupOp.ALU:
            return UOp(op, node.dtype, tuple(src), node.arg)
        if w.loops:
            return UOp(Op.REDUCE, node.dtype, (src[0], *w.loops), node.arg[0])
        if op is Op.SCAN_AXIS and w.place.idxs[node.arg[1]].op is Op.RANGE:
            return UOp(Op.SCAN, node.dtype, (src[0], w.place.idxs[node.arg[1]]), node.arg[0])
        return guarded(w.guards[0] if w.guards else None, src[-1])

    def load(self, node: UOp, place: Place) -> UOp:
        where = address(node, place)
        return self.param(node).index(flatten(where.idxs, base(node).shape or ()), where.valid).load()

    def fill_holes(self, value: UOp) -> UOp:
        """Indices that are values become these values."""
        while found := {u: self.holes[u].value for u in value.toposort() if u in self.holes}:
            value = value.substitute({h: v for h, v in found.items() if v is not None})
        return value


def target_of(assign: UOp, place: Place) -> tuple[UOp, Place]:
    """What an ASSIGN writes to, a BUFFER or an ASSIGN before, and where in it an element goes."""
    node = assign.src[0]
    while node.op in GroupOp.MOVEMENT:
        place, _ = move(node, place)
        node = node.src[0]
    return node, place


def address(node: UOp, place: Place) -> Place:
    """Where in its memory an element of a stored node lies."""
    while node.op is Op.ASSIGN:
        node, place = target_of(node, place)
    return place


def base(node: UOp) -> UOp:
    """The node whose memory a stored node lies in."""
    while node.op is Op.ASSIGN:
        node = node.src[0]
        while node.op in GroupOp.MOVEMENT:
            node = node.src[0]
    return node


def value_of(w: Want) -> UOp:
    if w.value is None:
        raise IRError(f"the value of {w.node.op} is wanted before it is made")
    return w.value


def guarded(guard: UOp | None, value: UOp) -> UOp:
    """value where the guard holds, else 0; a load from memory, under the same guard, is that by itself."""
    by_itself = value.op is Op.LOAD and value.src[0].src[0].op is Op.PARAM
    return value if guard is None or by_itself else guard.where(value, 0)


def read_row(w: Want) -> UOp:
    """A value of another phase, from the row buffer that the phase `home` fills."""
    if w.stage is None:
        raise IRError("a row buffer is read that nothing fills")
    home, turn = w.stage
    loops = tuple(turn)
    shape = tuple(r.arg.extent for r in loops)
    stage = UOp(Op.STAGE, w.node.dtype, (value_of(home), flatten(loops, shape), *loops), StageArg(Where.LOCAL, extent(loops)))
    return stage.index(flatten(tuple(turn.values()), shape)).load()
