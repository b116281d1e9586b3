"""The space that a search walks: schedules one change away from a schedule. Only what applies to the kernel is proposed."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import OptError
from ..program import Chain, Local, Opt, Padto, Stage, Stream, Swap, Thread, Unroll, Upcast
from ..target import Target
from ..uop import AxisKind, Op, UOp
from ..uop.lanes import lane_width
from .actions import apply_opts
from .kernel import Kernel

ORDER: tuple[type[Opt], ...] = (Padto, Upcast, Unroll, Chain, Local, Swap, Thread, Stage, Stream)       # of actions in a schedule
MOST_WASTE = 1.25                # PADTO may make an axis so many times as long
AMOUNTS = (2, 3, 4, 5, 6, 7, 8, 12, 16)
BLOCKS = (4, 8, 16, 32, 64, 128)


def canonical(opts: tuple[Opt, ...]) -> tuple[Opt, ...]:
    """The schedule in the order in which its actions can follow each other."""
    return tuple(sorted(opts, key=lambda o: ORDER.index(type(o))))


def applied(ast: UOp, opts: tuple[Opt, ...]) -> UOp | None:
    """The kernel under a schedule; None if an action does not apply."""
    try:
        return apply_opts(ast, opts)
    except OptError:
        return None


def neighbours(ast: UOp, opts: tuple[Opt, ...], target: Target, aligned: bool) -> Iterator[tuple[Opt, ...]]:
    """Schedules with an action more, an action less, or another amount; each once, all in canonical order and not yet checked."""
    seen = {canonical(opts)}
    for new in changes(ast, opts, target, aligned):
        c = canonical(new)
        if c not in seen and len(set(c)) == len(c):
            seen.add(c)
            yield c


def changes(ast: UOp, opts: tuple[Opt, ...], target: Target, aligned: bool) -> Iterator[tuple[Opt, ...]]:
    for i, o in enumerate(opts):
        rest = opts[:i] + opts[i + 1:]
        yield rest
        if isinstance(o, (Upcast, Unroll)) and o.vector:
            yield rest + (replace(o, vector=False),)
        for n in amounts(o, lane_width(ast, target.vector_bytes)):
            yield from fitted(ast, rest, replace(o, n=n))                           # type: ignore[call-arg]
    kernel = Kernel(ast)
    width = lane_width(ast, target.vector_bytes)
    outputs = [r.arg.id for r in kernel.outputs if r.arg.kind in (AxisKind.LOOP, AxisKind.SCAN)]
    reduced = list(dict.fromkeys(r.arg.id for u in kernel.reduces for r in u.src[1:]))
    lanes = sorted({*AMOUNTS, *(k * width for k in (1, 2, 3, 4, 6, 8))})
    for a in dict.fromkeys(outputs):
        for n in lanes:
            yield from fitted(ast, opts, Upcast(a, n))
            if n % width == 0:
                yield from fitted(ast, opts, Upcast(a, n, True))
        for n in BLOCKS:
            yield from fitted(ast, opts, Local(a, n))
        if target.threads > 1:
            yield (*opts, Thread(a))
        yield from ((*opts, Swap(a, b)) for b in outputs if a < b)
    for a in reduced:
        for n in lanes:
            yield from fitted(ast, opts, Unroll(a, n))
            if n % width == 0:
                yield from fitted(ast, opts, Unroll(a, n, True))
            yield from fitted(ast, opts, Chain(a, n))
        for n in BLOCKS:
            yield from fitted(ast, opts, Local(a, n))
    slots = {u.src[0].src[0].arg.slot for u in kernel.topo if u.op is Op.LOAD and u.src[0].src[0].op is Op.PARAM}
    yield from ((*opts, Stage(s, a)) for s in sorted(slots) for a in dict.fromkeys(outputs))
    if aligned:
        yield from ((*opts, Stream(i)) for i in range(len(ast.src)))


def amounts(o: Opt, width: int) -> list[int]:
    """Other amounts for an action."""
    if isinstance(o, (Upcast, Unroll)) and o.vector:
        return [k * width for k in (1, 2, 3, 4, 6, 8) if k * width != o.n]
    if isinstance(o, (Upcast, Unroll, Chain)):
        return [n for n in AMOUNTS if n != o.n]
    return [n for n in BLOCKS if n != o.n] if isinstance(o, Local) else []


def fitted(ast: UOp, opts: tuple[Opt, ...], new: Opt) -> Iterator[tuple[Opt, ...]]:
    """The schedule with an action that cuts an axis; with the axis padded where the amount does not divide it, unless that wastes much."""
    axis, n = new.axis, new.n                                                       # type: ignore[attr-defined]
    cut = [o.n for o in opts if isinstance(o, (Upcast, Unroll, Chain, Local)) and o.axis == axis]
    rest = tuple(o for o in opts if not (isinstance(o, Padto) and o.axis == axis))
    step = n
    for c in cut:
        step *= c
    extents = {r.arg.extent for r in Kernel(ast).ranges if r.arg.id == axis}
    if all(e % step == 0 for e in extents):
        yield (*rest, new)
    elif all(-(-e // step) * step <= MOST_WASTE * e for e in extents):
        yield (*rest, Padto(axis, step), new)
