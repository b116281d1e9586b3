"""What is legal at each stage, as a table of rules, and the verifier that checks a graph against it."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..dtype import dtypes
from ..errors import IRError
from ..helpers import prod
from .node import UOp
from .op import GroupOp, Op, Where

LEAVES = frozenset({Op.BUFFER, Op.IOTA})
TENSOR = GroupOp.ALU | GroupOp.MOVEMENT | LEAVES | {Op.CONST, Op.CAT, Op.REDUCE_AXES, Op.SCAN_AXIS, Op.GATHER, Op.CONTIGUOUS, Op.ASSIGN, Op.COPY}
KERNEL = GroupOp.ALU | {Op.CONST, Op.PARAM, Op.RANGE, Op.INDEX, Op.LOAD, Op.STORE, Op.REDUCE, Op.SCAN, Op.STAGE, Op.SINK}
FLOAT_ONLY = GroupOp.TRANSCENDENTAL | {Op.SQRT, Op.ERF, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.RINT, Op.DIV, Op.FMA}
INT_ONLY = frozenset({Op.IDIV, Op.SHL, Op.SHR})
BITS_ONLY = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})
SOURCES = dict.fromkeys(GroupOp.UNARY, 1) | dict.fromkeys(GroupOp.BINARY, 2) | dict.fromkeys(GroupOp.TERNARY, 3) | dict.fromkeys(
    (*GroupOp.MOVEMENT, Op.REDUCE_AXES, Op.SCAN_AXIS, Op.CONTIGUOUS, Op.COPY, Op.LOAD), 1) | dict.fromkeys((Op.ASSIGN, Op.STORE), 2) | \
    dict.fromkeys((Op.CONST, Op.BUFFER, Op.IOTA, Op.PARAM, Op.RANGE), 0)


class Law(NamedTuple):
    """Nodes of these ops must satisfy `holds`; `text` says what that is."""
    ops: frozenset[Op]
    text: str
    holds: Callable[[UOp], bool]


def law(ops: Op | Iterable[Op], text: str, holds: Callable[[UOp], bool]) -> Law:
    return Law(frozenset((ops,) if isinstance(ops, Op) else ops), text, holds)


def _rank(u: UOp) -> int:
    return len(u.src[0].shape or ())


def _axes_once(axes: Iterable[int], rank: int) -> bool:
    seen = list(axes)
    return len(set(seen)) == len(seen) and all(0 <= a < rank for a in seen)


def _same_dtype(u: UOp) -> bool:
    if u.op is Op.CAST:
        return True
    if u.op is Op.BITCAST:
        return u.dtype.itemsize == u.src[0].dtype.itemsize
    if u.op is Op.WHERE:
        return u.src[0].dtype.is_bool and u.src[1].dtype is u.src[2].dtype is u.dtype
    if u.op in GroupOp.COMPARE:
        return u.dtype.is_bool and u.src[0].dtype is u.src[1].dtype
    return all(s.dtype is u.dtype for s in u.src)


def _expands(u: UOp) -> bool:
    old = u.src[0].shape or ()
    return len(old) == len(u.arg) and all(a in (1, b) for a, b in zip(old, u.arg, strict=True))


def _shrinks(u: UOp) -> bool:
    return len(u.arg) == _rank(u) and all(step > 0 and start >= 0 and count >= 0 and (count == 0 or start + (count - 1) * step < n)
                                          for (start, step, count), n in zip(u.arg, u.src[0].shape or (), strict=True))


def _concatenates(u: UOp) -> bool:
    shapes = [s.shape or () for s in u.src]
    return (0 <= u.arg < len(shapes[0]) and all(s.dtype is u.dtype for s in u.src)
            and len({(*s[:u.arg], *s[u.arg + 1:]) for s in shapes}) == 1)


def _gathers(u: UOp) -> bool:
    return (len(u.src) == 1 + _rank(u) and all(i.dtype.is_int and i.shape == u.shape for i in u.src[1:]))


COMMON = [
    law(SOURCES, "has the number of sources of its op", lambda u: len(u.src) == SOURCES[u.op]),
    law(GroupOp.ALU, "sources and result have the dtypes of the op", _same_dtype),
    law(FLOAT_ONLY, "takes floats", lambda u: u.dtype.is_float),
    law(INT_ONLY, "takes integers", lambda u: u.dtype.is_int),
    law(BITS_ONLY, "takes bools or integers", lambda u: not u.dtype.is_float),
    law(GroupOp.ALU, "has no argument and is not void", lambda u: u.arg is None and u.dtype is not dtypes.void),
]

TENSOR_LAWS = COMMON + [
    law(TENSOR, "is a value with a shape and a dtype that memory can hold",
        lambda u: u.shape is not None and u.dtype not in (dtypes.void, dtypes.index)),
    law(TENSOR, "has a shape of sizes >= 0", lambda u: all(type(n) is int and n >= 0 for n in u.shape or ())),
    law(GroupOp.ALU, "sources have exactly one shape", lambda u: all(s.shape == u.shape for s in u.src)),
    law(GroupOp.MOVEMENT | {Op.REDUCE_AXES, Op.SCAN_AXIS, Op.CONTIGUOUS, Op.COPY, Op.GATHER, Op.ASSIGN}, "keeps the dtype of its source",
        lambda u: u.dtype is u.src[0].dtype),
    law(Op.RESHAPE, "keeps the number of elements", lambda u: prod(u.arg) == prod(u.src[0].shape or ())),
    law(Op.PERMUTE, "names every axis once", lambda u: sorted(u.arg) == list(range(_rank(u)))),
    law(Op.EXPAND, "repeats only axes of size 1", _expands),
    law(Op.PAD, "has (before, after) >= 0 for every axis", lambda u: len(u.arg) == _rank(u) and all(b >= 0 and a >= 0 for b, a in u.arg)),
    law(Op.SHRINK, "stays inside its source, with step > 0, on every axis", _shrinks),
    law(Op.FLIP, "names axes of its source, each once", lambda u: _axes_once(u.arg, _rank(u))),
    law(Op.WINDOW, "has (axis, kernel, stride, dilation) >= 1, each axis once",
        lambda u: _axes_once((e[0] for e in u.arg), _rank(u)) and all(min(e[1:]) >= 1 for e in u.arg)),
    law(Op.CAT, "joins sources that differ only in the axis", lambda u: bool(u.src) and _concatenates(u)),
    law(Op.REDUCE_AXES, "has (ADD|MUL|MAX|MIN, axes), each axis once", lambda u: u.arg[0] in GroupOp.REDUCIBLE and _axes_once(u.arg[1], _rank(u))),
    law(Op.SCAN_AXIS, "has (ADD|MUL|MAX|MIN, axis)", lambda u: u.arg[0] in GroupOp.REDUCIBLE and 0 <= u.arg[1] < _rank(u)),
    law(Op.GATHER, "has one integer index of the result's shape per axis", _gathers),
    law(Op.ASSIGN, "stores a value of the buffer's shape and dtype", lambda u: u.src[0].shape == u.src[1].shape and u.src[0].dtype is u.src[1].dtype),
]

KERNEL_LAWS = COMMON + [
    law(KERNEL, "is no void value, but for STORE and SINK", lambda u: (u.dtype is dtypes.void) == (u.op in (Op.STORE, Op.SINK))),
    law(Op.RANGE, "is an index with extent >= 1", lambda u: u.dtype is dtypes.index and u.arg.extent >= 1),
    law(Op.PARAM, "has a slot and a size >= 0", lambda u: u.arg.slot >= 0 and u.arg.size >= 0),
    law(Op.INDEX, "is (PARAM|STAGE, idx of dtype index[, valid of dtype bool]) of the memory's dtype", lambda u: len(u.src) in (2, 3)
        and u.src[0].op in (Op.PARAM, Op.STAGE) and u.src[0].dtype is u.dtype and u.src[1].dtype is dtypes.index
        and (len(u.src) == 2 or u.src[2].dtype.is_bool)),
    law(Op.LOAD, "reads an INDEX of its dtype", lambda u: u.src[0].op is Op.INDEX and u.src[0].dtype is u.dtype),
    law(Op.STORE, "writes a value of the memory's dtype to an INDEX of a PARAM",
        lambda u: u.src[0].op is Op.INDEX and u.src[0].src[0].op is Op.PARAM and u.src[0].dtype is u.src[1].dtype),
    law(Op.REDUCE, "is (value, *RANGEs, each once) by ADD|MUL|MAX|MIN, of the value's dtype", lambda u: u.arg in GroupOp.REDUCIBLE
        and len(u.src) > 1 and all(r.op is Op.RANGE for r in u.src[1:]) and len(set(u.src[1:])) == len(u.src) - 1 and u.src[0].dtype is u.dtype),
    law(Op.SCAN, "is (value, *RANGEs of one axis, each once) by ADD|MUL|MAX|MIN, of the value's dtype", lambda u: u.arg in GroupOp.REDUCIBLE
        and len(u.src) > 1 and all(r.op is Op.RANGE for r in u.src[1:]) and len(set(u.src[1:])) == len(u.src) - 1 and u.src[0].dtype is u.dtype),
    law(Op.STAGE, "is (value, widx of dtype index, *RANGEs) of the value's dtype", lambda u: len(u.src) >= 2 and isinstance(u.arg.where, Where)
        and u.src[1].dtype is dtypes.index and all(r.op is Op.RANGE for r in u.src[2:]) and u.src[0].dtype is u.dtype),
    law(Op.SINK, "holds STOREs", lambda u: all(s.op is Op.STORE for s in u.src)),
    law(GroupOp.ALU | {Op.LOAD, Op.REDUCE, Op.SCAN, Op.STAGE}, "reads values, no addresses, memory or statements",
        lambda u: u.op is Op.LOAD or all(s.op not in (Op.INDEX, Op.PARAM, Op.STAGE, Op.STORE, Op.SINK) for s in u.src)),
]


def _by_op(laws: list[Law]) -> dict[Op, list[Law]]:
    table: dict[Op, list[Law]] = {}
    for one in laws:
        for op in one.ops:
            table.setdefault(op, []).append(one)
    return table


STAGES = {"tensor": (TENSOR, _by_op(TENSOR_LAWS)), "kernel": (KERNEL, _by_op(KERNEL_LAWS))}


def verify(stage: str, root: UOp) -> None:
    """Check every node below `root` against the laws of stage "tensor" or "kernel"; IRError names the first node that breaks one, and the law."""
    legal, table = STAGES[stage]
    for u in root.toposort():
        if u.op not in legal:
            raise IRError(f"{_brief(u)}: no op of a {stage} graph")
        for one in table.get(u.op, ()):
            if not one.holds(u):
                raise IRError(f"{_brief(u)}: {u.op.name} {one.text}")


def _brief(u: UOp) -> str:
    src = ", ".join(f"{s.op.name} {s.dtype.name}" + (f" {s.shape}" if s.shape is not None else "") for s in u.src)
    return f"{u.op.name} {u.dtype.name}{'' if u.shape is None else f' {u.shape}'} arg={u.arg!r} of ({src})"
