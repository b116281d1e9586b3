"""A kernel in normal form: axes merged, ranges numbered by the tensor axis that they walk, parameters in order. Equal kernels become one node."""
from __future__ import annotations

import itertools
from collections.abc import Iterable

from ..dtype import dtypes
from ..uop import Axis, AxisKind, Op, ParamArg, UOp, const
from ..uop.linear import Linear, linear
from ..uop.symbolic import simplify, simplify_under, split_and
from .ranges import FALSE

LINEAR = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.MUL})


def normalise(ast: UOp, outputs: tuple[UOp, ...]) -> tuple[UOp, tuple[int, ...]]:
    """The kernel in normal form, and for each of its parameters the slot it had in `ast`. `outputs`: the output ranges, in order of the axes."""
    ast = resolve(ast)
    ast, outputs = merge_axes(ast, outputs)
    ast = exchange(ast, number_axes(ast, outputs))
    stored = [st.src[0].src[0] for st in ast.src]
    params = list(dict.fromkeys([*stored, *(u for u in ast.toposort() if u.op is Op.PARAM)]))
    ast = exchange(ast, {p: UOp(Op.PARAM, p.dtype, (), ParamArg(k, p.arg.size)) for k, p in enumerate(params)})
    return ast, tuple(p.arg.slot for p in params)


def exchange(ast: UOp, new: dict[UOp, UOp]) -> UOp:
    """`ast` with ranges and parameters exchanged, simplified; a range that becomes a constant is closed no more."""
    if all(a is b for a, b in new.items()):
        return ast
    done: dict[UOp, UOp] = dict(new)
    for u in ast.toposort():
        if u not in done:
            src = tuple(done[s] for s in u.src)
            if u.op in (Op.REDUCE, Op.STAGE):
                src = tuple(s for k, s in enumerate(src) if k < closes_from(u) or s.op is Op.RANGE)
            done[u] = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
    return simplify(done[ast])


def closes_from(u: UOp) -> int:
    """The first source that is a range which the node closes."""
    return {Op.REDUCE: 1, Op.STAGE: 2}.get(u.op, len(u.src))


def resolve(ast: UOp) -> UOp:
    """Guards of loads decided where limits allow, indices simplified by what the guards say, MAX and MIN only over loops that matter."""
    new: dict[UOp, UOp] = {}
    for u in ast.toposort():
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        if v.op is Op.INDEX and len(v.src) > 2:
            valid = simplify(v.src[2])
            if valid is FALSE:
                v = v.src[0].index(const(0), FALSE)
            else:
                v = v.src[0].index(simplify_index(v.src[1], valid), valid if split_and(valid) else None)
        elif v.op is Op.LOAD and v.src[0].src[2:] == (FALSE,):
            v = v.const_like(0)
        elif v.op is Op.REDUCE and v.arg in (Op.MAX, Op.MIN):
            loops = tuple(r for r in v.src[1:] if r in v.src[0].free)
            v = UOp(Op.REDUCE, v.dtype, (v.src[0], *loops), v.arg) if loops else v.src[0]
        new[u] = v
    return simplify(new[ast])


def simplify_index(idx: UOp, valid: UOp) -> UOp:
    """The index under its guard. What it loads is left alone: these loads happen whether the guard holds or not."""
    loads = [u for u in idx.toposort(lambda u: u.op is not Op.INDEX) if u.op is Op.LOAD]
    hidden = {u: UOp(Op.PARAM, u.dtype, (), ParamArg(-1 - k, 1)) for k, u in enumerate(loads)}
    return simplify_under(idx.substitute(hidden), valid.substitute(hidden)).substitute({p: u for u, p in hidden.items()})


# ---- merging -------------------------------------------------------------------------------------------
def merge_axes(ast: UOp, outputs: tuple[UOp, ...]) -> tuple[UOp, tuple[UOp, ...]]:
    """Two axes i, j that everywhere appear as i*n + j, n the extent of j, are one axis."""
    topo = ast.toposort()
    forms, scanned = index_forms(topo)
    loops = [r for r in outputs if r not in scanned]
    closers: dict[UOp, list[UOp]] = {}
    for u in topo:
        for r in u.src[closes_from(u):]:
            closers.setdefault(r, []).append(u)
    pairs = list(itertools.pairwise(loops)) + [(a, b) for u in topo for a in u.src[closes_from(u):] for b in u.src[closes_from(u):] if a is not b]
    extents = {r: r.arg.extent for r in [*outputs, *closers]}
    names = {r: r.arg for r in extents}
    gone: set[UOp] = set()
    for a, b in sorted(dict.fromkeys(pairs), key=lambda p: (-p[1].arg.id, -p[0].arg.id)):
        if a in gone or b in gone or closers.get(a) != closers.get(b):
            continue
        if all(t.get(a, 0) == t.get(b, 0) * extents[b] for t in forms):
            extents[b] *= extents.pop(a)
            names[b] = min(names[a], names[b])
            gone.add(a)
            for t in forms:
                t.pop(a, None)
    if not gone:
        return ast, outputs
    new = {r: UOp(Op.RANGE, dtypes.index, (), names[r]._replace(extent=n)) for r, n in extents.items() if n != r.arg.extent}
    ast = exchange(ast, {**new, **{r: const(0) for r in gone}})
    return ast, tuple(new.get(r, r) for r in outputs if r not in gone)


def index_forms(topo: list[UOp]) -> tuple[list[dict[UOp, int]], set[UOp]]:
    """The terms of every index expression at the point where it is used by anything but a sum, and the ranges that are scanned."""
    found: dict[UOp, None] = {}
    scanned: set[UOp] = set()
    for u in topo:
        if u.op is Op.SCAN:
            scanned.add(u.src[1])
        inner = u.dtype is dtypes.index and u.op in LINEAR and linear(u)[1].get(u) is None
        for s in () if inner or u.op is Op.SCAN else u.src[:closes_from(u)]:
            if s.dtype is dtypes.index and s.op is not Op.CONST:
                found[s] = None
    return [dict(linear(u)[1]) for u in found], scanned


# ---- numbering -------------------------------------------------------------------------------------------
def number_axes(ast: UOp, outputs: tuple[UOp, ...]) -> dict[UOp, UOp]:
    """Each range's final name: ranges of successive phases over one tensor axis share the id and differ in phase."""
    topo = ast.toposort()
    level = levels(topo)
    used = {u for u in topo if u.op is Op.RANGE}
    scanned = {u.src[1] for u in topo if u.op is Op.SCAN}
    inner = sorted((r for r in used if r in level), key=lambda r: r.arg)
    outs = [r for r in outputs if r in used]
    depth = {r: sum(r in u.free for u in topo if u.op is Op.REDUCE) for r in used}
    groups = same_axis(topo, [*outs, *inner])
    new: dict[UOp, UOp] = {}
    rank = {r: k for k, r in enumerate(sorted(outs, key=lambda r: -depth[r]))}
    for k, group in enumerate(groups):
        steps = sorted({level.get(r, len(topo)) for r in group})
        position = rank.get(group[0], len(outs) + sum(depth[o[0]] > depth[group[0]] or (depth[o[0]] == depth[group[0]] and n < k)
                                                    for n, o in enumerate(groups) if o[0] not in rank))
        for r in group:
            kind = AxisKind.SCAN if r in scanned else r.arg.kind
            axis = Axis(k, steps.index(level.get(r, len(topo))), (position,), r.arg.extent, kind)
            new[r] = UOp(Op.RANGE, dtypes.index, (), axis)
    return new


def levels(topo: list[UOp]) -> dict[UOp, int]:
    """For each reduce range, how many reductions have to be done before the one that closes it."""
    done: dict[UOp, int] = {}
    out: dict[UOp, int] = {}
    for u in topo:
        n = max((done[s] for s in u.src), default=0)
        for r in u.src[closes_from(u):]:
            out[r] = max(out.get(r, 0), n)
        done[u] = n + 1 if u.op is Op.REDUCE else n
    return out


def same_axis(topo: list[UOp], ranges: list[UOp]) -> list[list[UOp]]:
    """The ranges in groups that walk one axis of one tensor, in phases that follow each other. A group stands where its first range does."""
    group = {r: [r] for r in ranges}
    apart = together(topo, ranges)
    for a, b in walks(topo):
        x, y = group[a], group[b]
        if x is y or any(r in apart[s] for r in x for s in y):
            continue
        if ranges.index(y[0]) < ranges.index(x[0]):
            x, y = y, x
        x += y
        group.update((r, x) for r in y)
    return list({id(g): g for g in (group[r] for r in ranges)}.values())


def together(topo: list[UOp], ranges: list[UOp]) -> dict[UOp, set[UOp]]:
    """For each range those that are open at the same time."""
    inner = {r for u in topo for r in u.src[closes_from(u):]}
    outs = {r for r in ranges if r not in inner}
    apart: dict[UOp, set[UOp]] = {r: set(outs) if r in outs else set() for r in ranges}
    for u in topo:
        mine = u.src[closes_from(u):]
        for r in mine:
            apart[r] |= {*u.free, *mine} - {r}
            for o in u.free:
                apart[o].add(r)
    return apart


def walks(topo: list[UOp]) -> Iterable[tuple[UOp, UOp]]:
    """Pairs of ranges for which two accesses to one memory differ in nothing else."""
    forms: dict[UOp, list[Linear]] = {}
    for u in topo:
        if u.op is Op.INDEX:
            forms.setdefault(u.src[0], []).append(linear(u.src[1]))
        elif u.op is Op.STAGE:
            forms.setdefault(u, []).append(linear(u.src[1]))
    for same in forms.values():
        for k, (_, s) in enumerate(same):
            for _, t in same[k + 1:]:
                left, right = ({c: r for r, c in x.items() if r not in y} for x, y in ((s, t), (t, s)))
                if left.keys() == right.keys() and all(r.op is o.op is Op.RANGE and r.arg.extent == o.arg.extent for r, o in
                                                       ((r, right[c]) for c, r in left.items())):
                    yield from ((r, right[c]) for c, r in left.items())


