"""A kernel in normal form: neighbouring axes merged, ranges numbered by the tensor axis they walk, parameters in order."""
from __future__ import annotations

from ..dtype import dtypes
from ..uop import Axis, AxisKind, GroupOp, Op, ParamArg, UOp
from ..uop.symbolic import linear, simplify

Pair = tuple[UOp, UOp]


def normalise(ast: UOp, outputs: list[UOp]) -> UOp:
    """Equal kernels become the same node. `outputs`: the output ranges in order of the axes."""
    ast, outputs = merge_axes(ast, outputs)
    return number_ranges(ast, outputs)


# ---- merging -----------------------------------------------------------------------------------------
def uses(ast: UOp) -> list[UOp]:
    """Index expressions and conditions at the points where they enter memory or arithmetic."""
    out: dict[UOp, None] = {}
    for u in ast.toposort():
        if u.op is Op.INDEX:
            out.update(dict.fromkeys(u.src[1:]))
        elif u.op is Op.STAGE:
            out[u.src[1]] = None
        elif u.dtype is not dtypes.index and u.op in GroupOp.ALU:
            out.update(dict.fromkeys(s for s in u.src if s.dtype is dtypes.index))
    return list(out)


def merge_axes(ast: UOp, outputs: list[UOp]) -> tuple[UOp, list[UOp]]:
    """Two axes that everywhere appear as i*n + j are one axis."""
    while True:
        pair = next((p for p in candidates(ast, outputs) if mergeable(p, ast)), None)
        if pair is None:
            return ast, outputs
        i, j = pair
        a = i.arg
        m = UOp(Op.RANGE, dtypes.index, (), Axis(a.id, a.phase, a.order, a.extent * j.arg.extent, a.kind))
        ast = merge(ast, i, j, m)
        outputs = [m if r is i else r for r in outputs if r is not j]


def candidates(ast: UOp, outputs: list[UOp]) -> list[Pair]:
    loops = [r for r in outputs if r.arg.kind is AxisKind.LOOP]
    pairs = [(a, b) for k, a in enumerate(loops) for b in loops[k + 1:]]
    closed = [u for u in ast.toposort() if u.op in (Op.REDUCE, Op.STAGE)]
    for u in closed:
        mine = u.src[1:] if u.op is Op.REDUCE else u.src[2:]
        pairs += [(a, b) for k, a in enumerate(mine) for b in mine[k + 1:]]
    owners: dict[UOp, set[frozenset[UOp]]] = {}
    for u in closed:
        mine = u.src[1:] if u.op is Op.REDUCE else u.src[2:]
        for r in mine:
            owners.setdefault(r, set()).add(frozenset(mine))
    return [(a, b) for a, b in dict.fromkeys(pairs) if owners.get(a) == owners.get(b)]


def mergeable(pair: Pair, ast: UOp) -> bool:
    i, j = pair
    for e in uses(ast):
        if i in e.free or j in e.free:
            if e.dtype is not dtypes.index:
                return False
            t = linear(e)[1]
            if t.get(i, 0) != t.get(j, 0) * j.arg.extent or any(a.op is not Op.RANGE and (i in a.free or j in a.free) for a in t):
                return False
    for u in ast.toposort():                                    # a value that varies over one of them alone would be computed more often
        if u.op in (Op.REDUCE, Op.STAGE) and (i in u.free) != (j in u.free):
            return False
    return True


def merge(ast: UOp, i: UOp, j: UOp, m: UOp) -> UOp:
    n = j.arg.extent
    new: dict[UOp, UOp] = {i: m // n, j: m % n}
    for u in ast.toposort():
        if u in (i, j):
            continue
        k = {Op.REDUCE: 1, Op.STAGE: 2, Op.SCAN: 1}.get(u.op, len(u.src))
        closed = tuple(m if r is i else r for r in u.src[k:] if r is not j)
        src = tuple(new[s] for s in u.src[:k]) + closed
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        new[u] = simplify(v) if v is not u and v.dtype is dtypes.index else v
    return new[ast]


# ---- numbering ---------------------------------------------------------------------------------------
def phases(ast: UOp) -> list[frozenset[UOp]]:
    """For every phase, the ranges that are open in it together."""
    out = [st.free for st in ast.src]
    for u in ast.toposort():
        if u.op in (Op.REDUCE, Op.STAGE):
            out.append(u.free | frozenset(u.src[1:] if u.op is Op.REDUCE else u.src[2:]))
    return out


def same_axis(ast: UOp) -> list[Pair]:
    """Pairs of ranges that walk one axis of one tensor: the index forms of two loads differ in nothing else."""
    forms: dict[UOp, list[tuple[int, dict[UOp, int]]]] = {}
    pairs = []
    for u in ast.toposort():
        if u.op is Op.INDEX and u.src[0].op is Op.PARAM:
            forms.setdefault(u.src[0], []).append(linear(u.src[1]))
        elif u.op is Op.INDEX and u.src[0].op is Op.STAGE and u.src[1].op is Op.RANGE:
            pairs.append((u.src[0].src[1], u.src[1]))
    for same in forms.values():
        for k, (ca, ta) in enumerate(same[:16]):
            for cb, tb in same[k + 1:16]:
                left, right = [a for a in ta if a not in tb], [b for b in tb if b not in ta]
                if ca == cb and len(left) == len(right) == 1 and ta[left[0]] == tb[right[0]] and left[0].op is right[0].op is Op.RANGE \
                   and left[0].arg.extent == right[0].arg.extent and all(ta[a] == tb[a] for a in ta if a is not left[0]):
                    pairs.append((left[0], right[0]))
    return pairs


def group_ranges(ast: UOp, ranges: list[UOp]) -> dict[UOp, UOp]:
    """Each range's representative: ranges of different phases over one tensor axis have the same one."""
    groups = {r: [r] for r in ranges}
    rep = {r: r for r in ranges}
    together = phases(ast)
    for a, b in same_axis(ast):
        x, y = rep.get(a), rep.get(b)
        if x is None or y is None or x is y or any(sum(r in p for r in groups[x] + groups[y]) > 1 for p in together):
            continue
        if ranges.index(y) < ranges.index(x):
            x, y = y, x
        for r in groups.pop(y):
            rep[r] = x
            groups[x].append(r)
    return rep


def number_ranges(ast: UOp, outputs: list[UOp]) -> UOp:
    topo = ast.toposort()
    used = {u for u in topo if u.op is Op.RANGE}
    outs = [r for r in outputs if r in used]
    inner = [r for u in topo if u.op in (Op.REDUCE, Op.STAGE) for r in (u.src[1:] if u.op is Op.REDUCE else u.src[2:])]
    ranges = list(dict.fromkeys([*outs, *inner]))
    rep = group_ranges(ast, ranges)
    ids: dict[UOp, int] = {}
    for r in ranges:
        ids.setdefault(rep[r], len(ids))
    count: dict[int, int] = {}
    new: dict[UOp, UOp] = {}
    for r in [*dict.fromkeys(inner), *outs]:                    # reductions run before the output loops that read them
        k = ids[rep[r]]
        phase = count[k] = count.get(k, -1) + 1
        new[r] = UOp(Op.RANGE, dtypes.index, (), Axis(k, phase, (k,), r.arg.extent, r.arg.kind))
    ast = ast.substitute(new)
    return canonical_indices(number_params(ast))


def number_params(ast: UOp) -> UOp:
    """Slots: what is stored first, then what is loaded, by first appearance. (The caller asks `params_of` for the old slots before.)"""
    order = params_of(ast)
    return ast.substitute({p: UOp(Op.PARAM, p.dtype, (), ParamArg(k, p.arg.size)) for k, p in enumerate(order)})


def params_of(ast: UOp) -> list[UOp]:
    """PARAMs in the order of their final slots."""
    stored = [st.src[0].src[0] for st in ast.src]
    return list(dict.fromkeys([*stored, *(u for u in ast.toposort() if u.op is Op.PARAM)]))


def canonical_indices(ast: UOp) -> UOp:
    """Sums in index expressions in their fixed order, whatever the ranges were called before."""
    new: dict[UOp, UOp] = {}
    for u in ast.toposort():
        src = tuple(new[s] for s in u.src)
        v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
        new[u] = simplify(v) if v.dtype is dtypes.index or (v.dtype is dtypes.bool and v.op in GroupOp.ALU) else v
    return new[ast]
