"""The actions: each exchanges ranges of a kernel AST, checks that it may, and says why not. Replaying a list gives the same kernel."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ..dtype import dtypes
from ..errors import OptError
from ..helpers import ceildiv
from ..program import Chain, Local, Opt, Padto, Stage, Stream, Swap, Thread, Unroll, Upcast
from ..uop import Axis, AxisKind, Op, StageArg, UOp, Where, const, identity, loop_key, ranges
from ..uop.linear import linear
from .kernel import Kernel, closed, exchange

MOST_LANES = 4096
NAMES = {cls.__name__.upper(): cls for cls in (Upcast, Unroll, Chain, Local, Stage, Stream, Thread, Swap, Padto)}


def apply_opts(ast: UOp, opts: Iterable[Opt]) -> UOp:
    """The kernel after all actions, in their order. Raises OptError for the first that does not apply."""
    for opt in opts:
        ast = apply_opt(ast, opt)
    return ast


def apply_opt(ast: UOp, opt: Opt) -> UOp:
    """The kernel after one action."""
    if not isinstance(opt, (Stage, Stream)) and any(u.op is Op.STAGE and u.src[0].op is Op.LOAD and u.arg.where is Where.LOCAL for u in ast.toposort()):
        raise OptError(f"{opt}: STAGE comes last, because its layout depends on all other actions")
    return _ACTIONS[type(opt)](ast, opt)


def parse_opts(text: str) -> list[Opt]:
    """Actions from their text form: "UPCAST(1,8,1) THREAD(0)"."""
    out: list[Opt] = []
    rest = re.sub(r"([A-Z]+)\(([-\d,\s]*)\)", lambda m: out.append(_parse_one(m[1], m[2])) or "", text)     # type: ignore[func-returns-value]
    if rest.strip(" ,;\n\t"):
        raise OptError(f"cannot read {rest.strip()!r} as an action; actions look like UPCAST(1,8) and are: {', '.join(sorted(NAMES))}")
    return out


def _parse_one(name: str, args: str) -> Opt:
    if name not in NAMES:
        raise OptError(f"unknown action {name!r}; actions are: {', '.join(sorted(NAMES))}")
    values: list[Any] = [int(a) for a in args.split(",") if a.strip()]
    if name in ("UPCAST", "UNROLL") and len(values) == 3:
        values[2] = bool(values[2])
    try:
        return NAMES[name](*values)
    except TypeError:
        raise OptError(f"{name} does not take {len(values)} numbers") from None


# ---- splitting ---------------------------------------------------------------------------------------
def split(ast: UOp, opt: Opt, axis: int, n: int, kinds: dict[AxisKind, AxisKind], vector: bool = False) -> UOp:
    """Cut every range of the axis whose kind is a key into an outer part and an inner one of extent n, of the kind that the key maps to."""
    mine = [r for r in ranges(ast) if r.arg.id == axis and r.arg.kind in kinds]
    if not mine:
        have = sorted({(r.arg.id, r.arg.kind.name, r.arg.extent) for r in ranges(ast)})
        raise OptError(f"{opt}: no range of axis {axis} is one of {', '.join(k.name for k in kinds)}; ranges (axis, kind, extent): {have}")
    mapping = {}
    for r in mine:
        a: Axis = r.arg
        if n < 2 or a.extent % n:
            raise OptError(f"{opt}: {n} does not divide the extent {a.extent} of axis {axis}" + ("; use PADTO first" if n > 1 else "; use at least 2"))
        inner = UOp(Op.RANGE, dtypes.index, (), a._replace(order=a.order + (1,), extent=n, kind=kinds[a.kind], vector=vector))
        outer = const(0) if n == a.extent else UOp(Op.RANGE, dtypes.index, (), a._replace(order=a.order + (0,), extent=a.extent // n))
        mapping[r] = inner if n == a.extent else outer * n + inner
    lanes = {r: inner for r, e in mapping.items() for inner in e.free if inner.arg.kind is kinds[r.arg.kind] and inner.arg.kind.is_lane}
    new = exchange(ast, mapping, lambda old, new: _one_row_a_lane(old, new, lanes))
    if vector and any(r.arg.vector for r in ranges(ast)):
        for u in new.toposort():
            if len(both := [r for r in u.free if r.arg.vector]) > 1:
                raise OptError(f"{opt}: a phase has one vector axis, and this one would have axes {sorted(r.arg.id for r in both)}; give the flag to one")
    return new


def _one_row_a_lane(old: UOp, new: UOp, lanes: dict[UOp, UOp]) -> UOp:
    """A buffer that is filled for each iteration of a range holds the values of all lanes that it is cut into, side by side."""
    buffer = old.src[0] if old.op is Op.INDEX else old
    inner = sorted((lanes[r] for r in buffer.free if r in lanes), key=loop_key) if buffer.op is Op.STAGE else []
    if not inner or (old.op is Op.STAGE and old.arg.where is not Where.LOCAL):
        return new
    place = _row_major([new.src[1], *inner])
    if old.op is Op.INDEX:
        return UOp(Op.INDEX, new.dtype, (new.src[0], place, *new.src[2:]))
    size = new.arg.size
    for r in inner:
        size *= r.arg.extent
    return UOp(Op.STAGE, new.dtype, (new.src[0], place, *new.src[2:]), StageArg(new.arg.where, size))


def upcast(ast: UOp, opt: Upcast) -> UOp:
    """n iterations of an output loop side by side.

        for i in 64: y[i] = f(x[i])      UPCAST(0,8)      for i in 8: y[8i..8i+7] = f(x[8i..8i+7])
    """
    _check_lanes(ast, opt, opt.n)
    if opt.vector and any(r.arg.id == opt.axis and r.arg.kind is AxisKind.UPCAST for u in ast.toposort() if u.op is Op.SCAN for r in closed(u)):
        raise OptError(f"{opt}: a prefix goes through its lanes in order, so the vector lanes of axis {opt.axis} must be its first")
    return split(ast, opt, opt.axis, opt.n, {AxisKind.LOOP: AxisKind.UPCAST, AxisKind.SCAN: AxisKind.UPCAST}, opt.vector)


def unroll(ast: UOp, opt: Unroll) -> UOp:
    """n partial results of a reduction, combined after the loop.

        for k in 64: s += x[k]           UNROLL(0,8)      for k in 8: s[0..7] += x[8k..8k+7];  s[0] + .. + s[7]
    """
    _check_lanes(ast, opt, opt.n)
    return split(ast, opt, opt.axis, opt.n, {AxisKind.REDUCE: AxisKind.UNROLL, AxisKind.RLOCAL: AxisKind.UNROLL}, opt.vector)


def chain(ast: UOp, opt: Chain) -> UOp:
    """n terms of a reduction one after the other into the same result; changes no rounding.

        for k in 64: s += x[k]           CHAIN(0,4)       for k in 16: s += x[4k]; s += x[4k+1]; s += x[4k+2]; s += x[4k+3]
    """
    _check_lanes(ast, opt, opt.n)
    return split(ast, opt, opt.axis, opt.n, {AxisKind.REDUCE: AxisKind.CHAIN, AxisKind.RLOCAL: AxisKind.CHAIN})


def local(ast: UOp, opt: Local) -> UOp:
    """A block of n iterations of an output loop runs inside the reduction loops, each with its own result; a reduce loop is cut into blocks.

        for j in 64: for k in K: s[j] += x[k,j]     LOCAL(0,16)     for j in 4: for k in K: for jl in 16: s[16j+jl] += x[k,16j+jl]
    """
    if any(u.op is Op.SCAN for u in ast.toposort()) and any(r.arg.id == opt.axis and r.arg.kind is AxisKind.LOOP for r in ranges(ast)):
        raise OptError(f"{opt}: the kernel has a prefix reduction, whose loop must be the innermost of the output loops")
    return split(ast, opt, opt.axis, opt.n, {AxisKind.LOOP: AxisKind.LOCAL, AxisKind.REDUCE: AxisKind.RLOCAL})


def _check_lanes(ast: UOp, opt: Opt, n: int) -> None:
    lanes = {(r.arg.id, r.arg.order): r.arg.extent for r in ranges(ast) if r.arg.kind.is_lane}
    total = n
    for e in lanes.values():
        total *= e
    if total > MOST_LANES:
        raise OptError(f"{opt}: {total} lanes would be written out, at most {MOST_LANES} are allowed")


# ---- moving and marking --------------------------------------------------------------------------------
def thread(ast: UOp, opt: Thread) -> UOp:
    """An output loop runs outermost, its iterations shared among the threads.

        for i in 64: ...                 THREAD(0)        for i in [start, end) of each thread: ...
    """
    if any(r.arg.kind is AxisKind.THREAD for r in ranges(ast)):
        raise OptError(f"{opt}: a kernel has one thread axis, and this one has it already")
    r = _output_loop(ast, opt, opt.axis)
    if any(r not in st.free for st in ast.src):
        raise OptError(f"{opt}: not every store of the kernel varies over axis {opt.axis}")
    return exchange(ast, {r: UOp(Op.RANGE, dtypes.index, (), r.arg._replace(kind=AxisKind.THREAD))})


def _output_loop(ast: UOp, opt: Opt, axis: int) -> UOp:
    outs = {r for st in ast.src for r in st.free}
    r = next((r for r in ranges(ast) if r.arg.id == axis and r.arg.kind is AxisKind.LOOP and r in outs), None)
    if r is None:
        raise OptError(f"{opt}: axis {axis} has no output loop left; output loops: {sorted(r.arg.id for r in outs if r.arg.kind is AxisKind.LOOP)}")
    return r


def swap(ast: UOp, opt: Swap) -> UOp:
    """Exchange the nesting of two output loops.

        for i: for j: ...                SWAP(0,1)        for j: for i: ...
    """
    a, b = _output_loop(ast, opt, opt.axis), _output_loop(ast, opt, opt.other)
    if a is b:
        raise OptError(f"{opt}: needs two axes")
    return exchange(ast, {a: UOp(Op.RANGE, dtypes.index, (), a.arg._replace(order=b.arg.order)),
                          b: UOp(Op.RANGE, dtypes.index, (), b.arg._replace(order=a.arg.order))})


def padto(ast: UOp, opt: Padto) -> UOp:
    """Round an extent up; what is added is masked: nothing is loaded or stored there, and a reduction sees its neutral element.

        for i in 13: y[i] = f(x[i])      PADTO(0,8)       for i in 16: if i < 13: y[i] = f(x[i])
    """
    mine = [r for r in ranges(ast) if r.arg.id == opt.axis and r.arg.kind in (AxisKind.LOOP, AxisKind.SCAN, AxisKind.REDUCE)]
    if not mine or opt.n < 2:
        raise OptError(f"{opt}: axis {opt.axis} has no loop to pad, or {opt.n} is less than 2")
    if any(r.arg.id == opt.axis and len(r.arg.order) > 1 for r in ranges(ast)):
        raise OptError(f"{opt}: axis {opt.axis} was split before; PADTO comes first")
    pads: dict[UOp, UOp] = {}
    limit: dict[UOp, UOp] = {}
    for r in mine:
        if r.arg.extent % opt.n:
            p = pads[r] = UOp(Op.RANGE, dtypes.index, (), r.arg._replace(extent=ceildiv(r.arg.extent, opt.n) * opt.n))
            limit[r] = p < r.arg.extent
    if not pads:
        raise OptError(f"{opt}: the extent is a multiple of {opt.n} already")

    def rebuild(old: UOp, new: UOp) -> UOp:
        if old.op is Op.INDEX and old.src[0].op is Op.PARAM:
            cond = _all(limit[r] for r in pads if r in old.free)
            if cond is not None:
                return UOp(Op.INDEX, new.dtype, (*new.src[:2], new.src[2] & cond if len(new.src) > 2 else cond))
        if old.op is Op.REDUCE and (cond := _all(limit[r] for r in pads if r in closed(old))) is not None:
            zero = new.const_like(identity(new.arg, new.dtype.min, new.dtype.max))
            return UOp(Op.REDUCE, new.dtype, (cond.where(new.src[0], zero), *new.src[1:]), new.arg)
        for r in closed(old) if old.op is Op.STAGE else ():
            if r in pads:                                       # what is added lies behind the rest of the buffer
                step = linear(old.src[1])[1].get(r, 0)
                if step * r.arg.extent != old.arg.size:
                    raise OptError(f"{opt}: axis {opt.axis} is not the outermost of a buffer of this kernel")
                return UOp(Op.STAGE, new.dtype, new.src, StageArg(new.arg.where, step * pads[r].arg.extent))
        return new
    return exchange(ast, pads, rebuild)


def _all(conds: Iterable[UOp]) -> UOp | None:
    acc: UOp | None = None
    for c in conds:
        acc = c if acc is None else acc & c
    return acc


def stream(ast: UOp, opt: Stream) -> UOp:
    """A store writes whole cache lines to memory without reading them into the caches first.

        y[i..i+15] = v                   STREAM(0)        y[i..i+15] = v, not kept in the caches
    """
    if not 0 <= opt.store < len(ast.src):
        raise OptError(f"{opt}: the kernel has {len(ast.src)} stores")
    return UOp(Op.SINK, ast.dtype, tuple(s.replace(arg=True) if i == opt.store else s for i, s in enumerate(ast.src)))


# ---- staging an operand ----------------------------------------------------------------------------------
def stage(ast: UOp, opt: Stage) -> UOp:
    """Copy the part of an operand that the loops inside an axis read into local scratch, laid out as it is read.

        for j: for i: for k: s += a[i,k] * b[k,j]      STAGE(2,1)      for j: t[k] = b[k,j] for all k;  for i: for k: s += a[i,k] * t[k]
    """
    k = Kernel(ast)
    loads = [u for u in k.topo if u.op is Op.LOAD and u.src[0].src[0].op is Op.PARAM and u.src[0].src[0].arg.slot == opt.slot]
    outer = next((r for r in k.ranges if r.arg.id == opt.axis and r.arg.kind in (AxisKind.LOOP, AxisKind.THREAD)), None)
    if len(loads) != 1 or outer is None:
        raise OptError(f"{opt}: needs one load of parameter {opt.slot} (there are {len(loads)}) and an output loop of axis {opt.axis}")
    load = loads[0]
    inside = sorted((r for r in load.free if loop_key(r) > loop_key(outer)), key=_layout)
    if not inside or all(r.arg.kind.is_lane for r in inside):
        raise OptError(f"{opt}: parameter {opt.slot} does not vary over loops inside axis {opt.axis}")
    first = 1 + max(r.arg.id for r in k.ranges)
    copies = {r: UOp(Op.RANGE, dtypes.index, (), Axis(first + i, 0, (i,), r.arg.extent, AxisKind.UPCAST if r.arg.kind.is_lane else AxisKind.LOOP,
                                                     r.arg.vector)) for i, r in enumerate(inside)}
    place = _row_major([copies[r] for r in inside])
    size = 1
    for r in inside:
        size *= r.arg.extent
    kept = UOp(Op.STAGE, load.dtype, (exchange(load, copies), place, *copies.values()), StageArg(Where.LOCAL, size))
    return ast.substitute({load: kept.index(_row_major(inside)).load()})


def _layout(r: UOp) -> tuple[bool, bool, bool, tuple[AxisKind, tuple[int, ...], int, int]]:
    """Loops, then reduce lanes, then output lanes, the vector axis innermost."""
    return r.arg.kind.is_lane, r.arg.vector, r.arg.kind is AxisKind.UPCAST, loop_key(r)


def _row_major(rs: list[UOp]) -> UOp:
    """The place of (first, *ranges) in an array whose later axes are the ranges."""
    idx: UOp | None = None
    for r in rs:
        idx = r if idx is None else idx * r.arg.extent + r
    return const(0) if idx is None else idx


_ACTIONS: dict[type[Opt], Callable[[UOp, Any], UOp]] = {
    Upcast: upcast, Unroll: unroll, Chain: chain, Local: local, Thread: thread, Swap: swap, Padto: padto, Stage: stage, Stream: stream}
