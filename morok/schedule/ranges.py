"""Values of tensor nodes at index expressions: movement ops become arithmetic on ranges, reductions become loops."""
from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..dtype import dtypes
from ..errors import IRError
from ..helpers import row_major
from ..uop import Axis, AxisKind, GroupOp, Op, ParamArg, StageArg, UOp, Where, const
from ..uop.symbolic import join_and, simplify, simplify_under, split_and

FALSE = UOp(Op.CONST, dtypes.bool, (), False)


@dataclass(frozen=True, eq=True)
class Read:
    """A node wanted at one place: an index per axis, and the condition under which the place exists (None: always)."""
    node: UOp
    idxs: tuple[UOp, ...]
    valid: UOp | None = None

    def __hash__(self) -> int:
        return hash((id(self.node), self.idxs, self.valid))


class NotHere(Exception):
    """A node cannot be computed inside this kernel at the wanted place: it has to be a buffer."""

    def __init__(self, node: UOp) -> None:
        self.node = node


class Indexer:
    """Computes reads of one kernel, each once. Ranges are numbered in order of creation and kept over rebuilds."""

    def __init__(self, buffers: dict[UOp, UOp]) -> None:
        self.buffers = buffers                                  # stored nodes → BUFFER
        self.numbers = itertools.count()
        self.memo: dict[Read, UOp] = {}
        self.loops: dict[Read, tuple[UOp, ...]] = {}            # the ranges of a REDUCE_AXES at a place
        self.staged: dict[UOp, tuple[Read, UOp, UOp]] = {}      # node → its canonical read, the range it is stored over, the STAGE's buffer size as const
        self.params: dict[UOp, UOp] = {}                        # BUFFER → PARAM, numbered by first appearance
        self.scans: dict[UOp, UOp] = {}                         # ranges that a SCAN runs over

    def range(self, extent: int, kind: AxisKind) -> UOp:
        n = next(self.numbers)
        return UOp(Op.RANGE, dtypes.index, (), Axis(n, 0, (n,), extent, kind))

    def param(self, buffer: UOp) -> UOp:
        if buffer not in self.params:
            size = 1
            for n in buffer.arg.shape:
                size *= n
            self.params[buffer] = UOp(Op.PARAM, buffer.dtype, (), ParamArg(len(self.params), size))
        return self.params[buffer]

    # ---- the walk ------------------------------------------------------------------------------------
    def value(self, root: Read) -> UOp:
        """The kernel expression of a read; an explicit stack, since graphs are deep."""
        stack = [root]
        while stack:
            read = stack[-1]
            if read in self.memo:
                stack.pop()
                continue
            needs = self.needs(read)
            missing = [r for r in needs if r not in self.memo]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.memo[read] = self.make(read, [self.memo[r] for r in needs])
            stack.pop()
        return self.memo[root]

    def needs(self, read: Read) -> list[Read]:
        """The reads that this one is made of. A GATHER asks for its indices first, then for its source at these."""
        node, idxs, valid = read.node, read.idxs, read.valid
        op = node.op
        if node in self.buffers or op in (Op.BUFFER, Op.CONST, Op.IOTA) or valid is FALSE:
            return []
        if node in self.staged and self.staged[node][0] != read:
            return [self.staged[node][0]]
        if op in GroupOp.ALU:
            return [Read(s, idxs, valid) if (c := scalar(s)) is None else Read(c, ()) for s in node.src]
        if op in GroupOp.MOVEMENT:
            return [move(read)]
        if op is Op.REDUCE_AXES:
            return [self._reduced(read)]
        if op is Op.SCAN_AXIS:
            self._check_scan(read)
            return [Read(node.src[0], idxs, valid)]
        if op is Op.CAT:
            return [piece for piece, _ in self._pieces(read)]
        if op is Op.GATHER:
            index = [Read(s, idxs, valid) for s in node.src[1:]]
            if any(r not in self.memo for r in index):
                return index
            return [*index, self._gathered(read, [self.memo[r] for r in index])[0]]
        if op in (Op.CONTIGUOUS, Op.COPY):
            return [Read(node.src[0], idxs, valid)]
        raise IRError(f"{op} cannot be scheduled")

    def make(self, read: Read, src: list[UOp]) -> UOp:
        """The expression, from those of `needs`."""
        node, valid = read.node, read.valid
        op = node.op
        if valid is FALSE:
            return UOp(Op.CONST, node.dtype, (), 0)
        buffer = self.buffers.get(node) or (node if op is Op.BUFFER else None)
        if buffer is not None:
            return self.load(buffer, read)
        if node in self.staged and self.staged[node][0] != read:
            return self._read_stage(read, src[0])
        if op is Op.CONST:
            return UOp(Op.CONST, node.dtype, (), node.arg)
        if op is Op.IOTA:
            return simplify(UOp(Op.CAST, node.dtype, (read.idxs[0],)))
        if op in GroupOp.ALU:
            u = UOp(op, node.dtype, tuple(src), node.arg)
            return u if u.dtype.is_float and u.op is not Op.WHERE else simplify(u)
        if op is Op.PAD:
            return guarded(pad_condition(read), src[0])
        if op is Op.REDUCE_AXES:
            return UOp(Op.REDUCE, node.dtype, (src[0], *self.loops[read]), node.arg[0]) if self.loops[read] else src[0]
        if op is Op.SCAN_AXIS:
            r = read.idxs[node.arg[1]]
            return UOp(Op.SCAN, node.dtype, (src[0], r), node.arg[0]) if r.op is Op.RANGE else src[0]
        if op is Op.CAT:
            return self._join(read, src)
        if op is Op.GATHER:
            n = len(node.src) - 1
            return guarded(self._gathered(read, src[:n])[1], src[n])
        return src[0]

    # ---- ops ---------------------------------------------------------------------------------------------
    def load(self, buffer: UOp, read: Read) -> UOp:
        idx = const(0)
        for i, step in zip(read.idxs, row_major(buffer.arg.shape), strict=True):
            idx = idx + i * step
        idx = simplify(idx) if read.valid is None else simplify_under(idx, read.valid)
        return self.param(buffer).index(idx, read.valid).load()

    def _reduced(self, read: Read) -> Read:
        node = read.node
        shape, axes = node.src[0].shape or (), node.arg[1]
        if read not in self.loops:
            self.loops[read] = tuple(self.range(shape[a], AxisKind.REDUCE) for a in sorted(axes) if shape[a] != 1)
        loops = iter(self.loops[read])
        idxs = tuple((next(loops) if shape[a] != 1 else const(0)) if a in axes else i for a, i in enumerate(read.idxs))
        return Read(node.src[0], idxs, read.valid)

    def _check_scan(self, read: Read) -> None:
        axis = read.node.arg[1]
        r, shape = read.idxs[axis], read.node.shape or ()
        if shape[axis] == 1:
            return
        alone = r.op is Op.RANGE and r.arg.kind is AxisKind.LOOP and r.arg.extent == shape[axis] and not any(r in i.free for i in read.idxs if i is not r)
        if read.valid is not None or not alone or any(r is not s for s in self.scans):
            raise NotHere(read.node)
        self.scans[r] = r

    def _pieces(self, read: Read) -> list[tuple[Read, UOp]]:
        """The parts of a CAT that the index can meet, each with its condition."""
        axis, i, out, start = read.node.arg, read.idxs[read.node.arg], [], 0
        for s in read.node.src:
            n = (s.shape or ())[axis]
            inside = simplify_in((const(start) <= i) & (i < start + n), read.valid)
            if n and not (inside.op is Op.CONST and not inside.arg):
                idxs = tuple(simplify(x - start) if a == axis else x for a, x in enumerate(read.idxs))
                out.append((Read(s, idxs, both(read.valid, inside)), inside))
            start += n
        return out

    def _join(self, read: Read, src: list[UOp]) -> UOp:
        pieces = self._pieces(read)
        if not pieces:
            return UOp(Op.CONST, read.node.dtype, (), 0)
        acc = src[-1]
        for v, (_, inside) in reversed(list(zip(src[:-1], pieces[:-1], strict=True))):
            acc = simplify(inside.where(v, acc))
        return acc

    def _gathered(self, read: Read, index: list[UOp]) -> tuple[Read, UOp | None]:
        """The source at data-dependent places, and the condition that all indices are inside."""
        source = read.node.src[0]
        idxs = [simplify(UOp(Op.CAST, dtypes.index, (v,))) if v.dtype is not dtypes.index else v for v in index]
        parts = []
        for i, n in zip(idxs, source.shape or (), strict=True):
            parts += split_and(simplify_in((const(0) <= i) & (i < n), read.valid))
        inside = join_and(parts) if parts else None
        return Read(source, tuple(idxs), both(read.valid, inside)), inside

    def _read_stage(self, read: Read, canonical: UOp) -> UOp:
        home, r, size = self.staged[read.node]
        stage = UOp(Op.STAGE, canonical.dtype, (canonical, r, r), StageArg(Where.LOCAL, size.arg))
        there = next(i for i, h in zip(read.idxs, home.idxs, strict=True) if i is not h)
        return stage.index(there).load()


def scalar(u: UOp) -> UOp | None:
    """The constant that a node repeats, if it does."""
    while u.op in (Op.EXPAND, Op.RESHAPE):
        u = u.src[0]
    return u if u.op is Op.CONST else None


def move(read: Read) -> Read:
    """The read of the source that a movement op stands for."""
    node, idxs, valid = read.node, read.idxs, read.valid
    op, arg, x = node.op, node.arg, node.src[0]
    shape = x.shape or ()
    if op is Op.RESHAPE:
        return Read(x, reshape_index(idxs, arg, shape, valid), valid)
    if op is Op.PERMUTE:
        return Read(x, tuple(idxs[arg.index(a)] for a in range(len(shape))), valid)
    if op is Op.EXPAND:
        return Read(x, tuple(const(0) if n == 1 else i for i, n in zip(idxs, shape, strict=True)), valid)
    if op is Op.SHRINK:
        return Read(x, tuple(simplify(i * step + start) for i, (start, step, _) in zip(idxs, arg, strict=True)), valid)
    if op is Op.FLIP:
        return Read(x, tuple(simplify(n - 1 - i) if a in arg else i for a, (i, n) in enumerate(zip(idxs, shape, strict=True))), valid)
    if op is Op.WINDOW:
        new = list(idxs[:len(shape)])
        for (axis, _, stride, dilation), k in zip(arg, idxs[len(shape):], strict=True):
            new[axis] = simplify(new[axis] * stride + k * dilation)
        return Read(x, tuple(new), valid)
    if op is Op.PAD:
        return Read(x, tuple(simplify(i - b) if b else i for i, (b, _) in zip(idxs, arg, strict=True)), both(valid, pad_condition(read)))
    raise IRError(f"{op} is no movement op")


def pad_condition(read: Read) -> UOp | None:
    """Where a PAD reads its source; None: everywhere."""
    parts = []
    for i, n, (b, a) in zip(read.idxs, read.node.src[0].shape or (), read.node.arg, strict=True):
        if b or a:
            parts += split_and(simplify_in((const(b) <= i) & (i < n + b), read.valid))
    return join_and(parts) if parts else None


def reshape_index(idxs: tuple[UOp, ...], old: tuple[int, ...], new: tuple[int, ...], valid: UOp | None) -> tuple[UOp, ...]:
    """Indices into shape `new` of the element that has indices `idxs` in shape `old`; groups of axes with equal products are handled apart."""
    out: list[UOp] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b, i0, j0 = 1, 1, i, j
        if i < len(old):
            a, i = old[i], i + 1
        if j < len(new):
            b, j = new[j], j + 1
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        out += _split(_flatten(idxs[i0:i], old[i0:i]), new[j0:j], valid) if (i - i0, j - j0) != (1, 1) else [idxs[i0]]
    return tuple(out)


def _flatten(idxs: tuple[UOp, ...], shape: tuple[int, ...]) -> UOp:
    flat = const(0)
    for x, step in zip(idxs, row_major(shape), strict=True):
        flat = flat + x * step
    return simplify(flat)


def _split(flat: UOp, shape: tuple[int, ...], valid: UOp | None) -> list[UOp]:
    out = []
    for k, (n, step) in enumerate(zip(shape, row_major(shape), strict=True)):
        q = flat // step
        q = q if k == 0 or all(m == 1 for m in shape[:k]) else q % n
        out.append(const(0) if n == 1 else simplify(q) if valid is None else simplify_under(q, valid))
    return out


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """The conjunction of two conditions; None is true."""
    parts = [*(split_and(a) if a is not None else ()), *(split_and(b) if b is not None else ())]
    if not parts:
        return None
    return FALSE if any(p is FALSE for p in parts) else join_and(parts)


def simplify_in(cond: UOp, valid: UOp | None) -> UOp:
    return simplify(cond) if valid is None or valid is FALSE else simplify_under(cond, valid)


def guarded(cond: UOp | None, value: UOp) -> UOp:
    """value where cond, else 0."""
    if cond is None:
        return value
    return simplify(cond.where(value, value.const_like(0)))

