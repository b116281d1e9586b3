"""Linear forms of index expressions: constant + sum of coefficient * atom, and the canonical sum that they print as."""
from __future__ import annotations

from ..dtype import dtypes
from .node import UOp, const, loop_key
from .op import Op

Linear = tuple[int, dict[UOp, int]]


def linear(u: UOp) -> Linear:
    """(constant, {atom: coefficient}) of an index expression; an atom is a RANGE or anything that is no sum or multiple. Do not change the dict."""
    if u._linear is None:
        for n in u.toposort(lambda x: x._linear is None):
            n._linear = _linear_of(n)
    return u._linear                                            # type: ignore[no-any-return]


def _linear_of(u: UOp) -> Linear:
    if u.op is Op.CONST and not u.dtype.is_float:
        return int(u.arg), {}
    if u.dtype is dtypes.index:
        if u.op in (Op.ADD, Op.SUB):
            return add_linear(u.src[0]._linear, u.src[1]._linear, 1 if u.op is Op.ADD else -1)
        if u.op is Op.MUL:
            for x, y in (u.src, u.src[::-1]):
                if y.op is Op.CONST:
                    return scale(x._linear, y.arg)
        if u.op is Op.NEG:
            return scale(u.src[0]._linear, -1)
    return 0, {u: 1}


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


def atom_key(a: UOp) -> tuple[int, str, str]:
    return (0, repr(loop_key(a)), "") if a.op is Op.RANGE else (1, a.op.name, a.key)


def from_linear(lin: Linear) -> UOp:
    """The canonical sum: atoms in a fixed order, the constant last."""
    c0, terms = lin
    acc: UOp | None = None
    for a, k in sorted(terms.items(), key=lambda x: atom_key(x[0])):
        t = a if k == 1 else a * k
        acc = t if acc is None else acc + t
    if acc is None:
        return const(c0)
    return acc + c0 if c0 else acc
