"""Linear forms of index expressions: constant + sum of coefficient * atom, and the canonical sum that they print as."""
from __future__ import annotations

from typing import Any

from ..dtype import dtypes
from .node import UOp, const, loop_key
from .op import Op

Linear = tuple[int, dict[UOp, int]]
SUMS = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})


def linear(u: UOp) -> Linear:
    """(constant, {atom: coefficient}) of an index expression; an atom is a RANGE or anything that is no sum or multiple. Do not change the dict."""
    if u._linear is None:
        if not _is_sum(u):
            return _leaf(u)
        stack = [u]
        while stack:
            n = stack[-1]
            unknown = [s for s in n.src if s._linear is None and _is_sum(s)]
            stack += unknown
            if not unknown:
                n._linear = _linear_of(n)
                stack.pop()
    return u._linear                                            # type: ignore[no-any-return]


def _is_sum(u: UOp) -> bool:
    return u.op in SUMS and u.dtype is dtypes.index


def _leaf(u: UOp) -> Linear:
    """Not cached: an atom that held itself would be freed late."""
    return (int(u.arg), {}) if u.op is Op.CONST and not u.dtype.is_float else (0, {u: 1})


def _linear_of(u: UOp) -> Linear:
    x, *others = (s._linear or _leaf(s) for s in u.src)
    if u.op is Op.NEG:
        return scale(x, -1)
    y, = others
    if u.op in (Op.ADD, Op.SUB):
        return add_linear(x, y, 1 if u.op is Op.ADD else -1)
    if not y[1]:
        return scale(x, y[0])
    return (0, {u: 1}) if x[1] else scale(y, x[0])


def add_linear(a: Linear, b: Linear, factor: int = 1) -> Linear:
    """a + factor * b."""
    if not b[1]:
        return a[0] + factor * b[0], a[1]
    t = dict(a[1])
    for k, c in b[1].items():
        c = t.get(k, 0) + factor * c
        if c:
            t[k] = c
        else:
            del t[k]
    return a[0] + factor * b[0], t


def scale(a: Linear, k: int) -> Linear:
    return (a[0] * k, {x: c * k for x, c in a[1].items()}) if k else (0, {})


def atom_key(a: UOp) -> tuple[Any, ...]:
    """Ranges in loop order, then other atoms."""
    return (0, *loop_key(a)) if a.op is Op.RANGE else (1, a.op.name, a.key)


def from_linear(lin: Linear) -> UOp:
    """The canonical sum: atoms in a fixed order, the constant last; a range of one step is 0."""
    c0, terms = lin
    acc: UOp | None = None
    for a in terms if len(terms) == 1 else sorted(terms, key=atom_key):
        k = terms[a]
        if a.op is Op.RANGE and a.arg.extent == 1:
            continue
        t = a if k == 1 else UOp(Op.MUL, dtypes.index, (a, const(k)))
        acc = t if acc is None else UOp(Op.ADD, dtypes.index, (acc, t))
    if acc is None:
        return const(c0)
    return UOp(Op.ADD, dtypes.index, (acc, const(c0))) if c0 else acc
