"""Algebra of index and integer expressions: linear forms, folding, comparisons; division and modulo are in `divmod.py`."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..dtype import dtypes
from . import divmod as division
from .bounds import FAR, Bounds, bounds
from .fold import evaluate
from .identities import identities
from .linear import SUMS, Linear, add_linear, atom_key, from_linear, linear
from .node import UOp, const
from .op import GroupOp, Op

LIFTED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN}) | GroupOp.COMPARE
LINEAR = SUMS | GroupOp.COMPARE


def split_and(valid: UOp) -> list[UOp]:
    """The conjuncts of a bool expression, left to right, each once."""
    out: dict[UOp, None] = {}
    stack = [valid]
    while stack:
        u = stack.pop()
        if u.op is Op.AND and u.dtype.is_bool:
            stack.extend((u.src[1], u.src[0]))
        elif not (u.op is Op.CONST and u.arg):
            out[u] = None
    return list(out)


def join_and(parts: Iterable[UOp]) -> UOp:
    """The conjunction; True for none."""
    acc: UOp | None = None
    for p in dict.fromkeys(parts):
        acc = p if acc is None else acc & p
    return UOp(Op.CONST, dtypes.bool, (), True) if acc is None else acc


def negative_form(q: UOp) -> Linear | None:
    """An integer comparison a < b (or a <= b, or its negation) as a linear form that is negative exactly when it holds."""
    p = q.src[0] if q.op is Op.NOT else q
    if p.op not in (Op.CMPLT, Op.CMPLE) or p.src[0].dtype is not dtypes.index:
        return None
    a, b = linear(p.src[0]), linear(p.src[1])
    if q.op is Op.NOT:                                          # not a < b: b - a - 1 < 0;  not a <= b: b - a < 0
        d = add_linear(b, a, -1)
        return (d[0] - 1, d[1]) if p.op is Op.CMPLT else d
    d = add_linear(a, b, -1)
    return d if p.op is Op.CMPLT else (d[0] - 1, d[1])


class Simplifier:
    """Rewrites bottom up. `facts` are linear forms known to be negative where the expression is used."""

    def __init__(self, facts: Iterable[Linear] = ()) -> None:
        self.facts = [f for f in facts if f[1]]
        self.memo: dict[UOp, UOp] = {}
        self.tight: dict[UOp, Bounds] = {}
        for c0, t in self.facts:                                # a fact on one atom tightens its limits
            if len(t) == 1:
                (a, k), = t.items()
                lo, hi = self.tight.get(a) or bounds(a)
                self.tight[a] = (lo, min(hi, (-c0 - 1) // k)) if k > 0 else (max(lo, -((-c0 - 1) // -k)), hi)

    def interval(self, lin: Linear) -> Bounds:
        """Limits of a linear form under the facts."""
        lo = hi = lin[0]
        for a, c in lin[1].items():
            x, y = self.tight.get(a) or bounds(a)
            lo, hi = (lo + c * x, hi + c * y) if c > 0 else (lo + c * y, hi + c * x)
        for f in self.facts:
            if len(f[1]) > 1 and len(f[1]) == len(lin[1]):
                if f[1] == lin[1]:
                    hi = min(hi, lin[0] - f[0] - 1)
                elif all(lin[1].get(a) == -c for a, c in f[1].items()):
                    lo = max(lo, lin[0] + f[0] + 1)
        return max(lo, -FAR), min(hi, FAR)

    def __call__(self, root: UOp) -> UOp:
        plain = not self.facts
        for u in root.toposort(lambda x: x not in self.memo and not (plain and x._simple is not None)):
            src = tuple(self.get(s) for s in u.src)
            v = u if src == u.src else UOp(u.op, u.dtype, src, u.arg)
            v = self.step(v)
            if plain:
                u._simple = True if v is u else v
                v._simple = True
            else:
                self.memo[u] = self.memo[v] = v
        return self.get(root)

    def get(self, u: UOp) -> UOp:
        found = self.memo.get(u)
        if found is not None:
            return found
        return u if u._simple is True or u._simple is None else u._simple

    def step(self, u: UOp) -> UOp:
        """One node whose sources are simple."""
        while u.op in GroupOp.ALU:
            v = self._once(u)
            if v is u or v in u.src:
                return v
            u = v
        return u

    def _once(self, u: UOp) -> UOp:
        """One rule's work on a node; the result may have more to do, but what is below it has not."""
        op, dt = u.op, u.dtype
        if all(s.op is Op.CONST for s in u.src) and (value := evaluate(u)) is not None:
            return UOp(Op.CONST, dt, (), value)
        if u.src[0].dtype is dtypes.index and op in LINEAR:     # their limits are those of the linear form
            return self._index(u) if dt is dtypes.index else self._compare(u)
        if (dt.is_bool or dt.is_int) and (lim := bounds(u))[0] == lim[1]:
            return UOp(Op.CONST, dt, (), lim[0])
        if dt is dtypes.index and op is not Op.WHERE:
            return self._index(u)
        if (v := identities(u)) is not None:
            return v
        if op is Op.CAST:
            return self._cast(u)
        if op in LIFTED and u.src[0].dtype.is_int and (v := lift_positions(u)) is not None:
            return UOp(v.op, v.dtype, tuple(self.step(s) for s in v.src), v.arg) if v.op is Op.CAST else v
        return u

    def _index(self, u: UOp) -> UOp:
        op = u.op
        if op in (Op.ADD, Op.SUB, Op.NEG, Op.MUL):
            lin = linear(u)
            return from_linear(division.recombine(lin, self.interval)) if u not in lin[1] else u
        if op in (Op.IDIV, Op.MOD) and u.src[1].op is Op.CONST and u.src[1].arg > 0:
            rule: Callable[[Linear, int, Callable[[Linear], Bounds]], UOp] = division.floor_divide if op is Op.IDIV else division.modulo
            return rule(linear(u.src[0]), u.src[1].arg, self.interval)
        if op in (Op.MAX, Op.MIN):
            lo, hi = self.interval(add_linear(linear(u.src[0]), linear(u.src[1]), -1))
            if lo >= 0 or hi <= 0:
                return u.src[0] if (lo >= 0) == (op is Op.MAX) else u.src[1]
        if op is Op.CAST and u.src[0].op is Op.CAST and u.src[0].src[0].dtype is dtypes.index and u.src[0].dtype.is_int:
            (lo, hi), dt = bounds(u.src[0].src[0]), u.src[0].dtype
            if dt.min <= lo and hi <= dt.max:
                return u.src[0].src[0]
        return u

    def _compare(self, u: UOp) -> UOp:
        """a op b as terms op constant, with common factors taken out; decided when the limits allow."""
        c0, t = add_linear(linear(u.src[0]), linear(u.src[1]), -1)
        lo, hi = self.interval((c0, t))
        yes, no = {Op.CMPLT: (hi < 0, lo >= 0), Op.CMPLE: (hi <= 0, lo > 0), Op.CMPEQ: (lo == hi == 0, lo > 0 or hi < 0),
                   Op.CMPNE: (lo > 0 or hi < 0, lo == hi == 0)}[u.op]
        if yes or no:
            return UOp(Op.CONST, dtypes.bool, (), bool(yes))
        g = math.gcd(*t.values())
        if u.op in (Op.CMPEQ, Op.CMPNE):
            if c0 % g:
                return UOp(Op.CONST, dtypes.bool, (), u.op is Op.CMPNE)
            sign = -1 if min(t.items(), key=lambda x: atom_key(x[0]))[1] < 0 else 1
            return from_linear((0, {a: k // g * sign for a, k in t.items()})).alu(u.op, -c0 // g * sign)
        limit = -c0 if u.op is Op.CMPLT else -c0 + 1            # sum of t < limit
        t, limit = {a: k // g for a, k in t.items()}, -(-limit // g)
        if len(t) == 1:
            (a, k), = t.items()
            if k == 1 and a.op is Op.IDIV and a.src[1].op is Op.CONST and a.src[1].arg > 0:     # x // c < n: x < n * c
                return self._compare(a.src[0] < limit * a.src[1].arg)
            if k == -1:                                         # -a < n: a > -n, printed as 1 - n <= a
                return const(1 - limit) <= a
        return from_linear((0, t)) < limit

    def _cast(self, u: UOp) -> UOp:
        x = u.src[0]
        if x.op is Op.CAST and u.dtype.is_int and x.dtype.is_int and x.src[0].dtype.is_int:
            lo, hi = bounds(x.src[0])
            if x.dtype is dtypes.index or (x.dtype.min <= lo and hi <= x.dtype.max):
                return x.src[0].cast(u.dtype)
        return u


_plain = Simplifier()


def simplify(u: UOp) -> UOp:
    """An equal kernel expression: canonical sums; division, modulo, comparisons resolved where limits allow. Floats: constants, exact identities."""
    return _plain(u)


def simplify_under(u: UOp, valid: UOp) -> UOp:
    """Simplify `u`, which is used only where `valid` holds."""
    facts = [f for q in split_and(valid) if (f := negative_form(q)) is not None]
    return Simplifier(facts)(simplify(u)) if facts else simplify(u)


def position(u: UOp) -> UOp | None:
    """The index expression that the integer `u` was cast from without loss; a constant is one too."""
    if u.op is Op.CAST and u.src[0].dtype is dtypes.index:
        lo, hi = bounds(u.src[0])
        return u.src[0] if u.dtype.min <= lo and hi <= u.dtype.max else None
    return const(u.arg) if u.op is Op.CONST and u.dtype.is_int else None


def lift_positions(u: UOp) -> UOp | None:
    """f(cast(i), cast(j)) → cast(f(i, j)) for index expressions i, j when nothing can wrap around; a comparison needs no cast."""
    if u.dtype is dtypes.index or not all(s.dtype.is_int and s.dtype is not dtypes.index for s in u.src):
        return None
    a, b = position(u.src[0]), position(u.src[1])
    if a is None or b is None or (a.op is Op.CONST and b.op is Op.CONST):
        return None
    if u.op in (Op.IDIV, Op.MOD) and not (b.op is Op.CONST and b.arg > 0):
        return None
    if u.op in GroupOp.COMPARE:
        return UOp(u.op, dtypes.bool, (a, b))
    lifted = UOp(u.op, dtypes.index, (a, b))
    lo, hi = bounds(lifted)
    return UOp(Op.CAST, u.dtype, (lifted,)) if u.dtype.min <= lo and hi <= u.dtype.max else None
