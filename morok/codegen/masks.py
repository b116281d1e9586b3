"""Guards: index comparisons proved true or false for each register, or turned into a mask."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dtype import dtypes
from ..uop import Op, UOp
from ..uop.linear import linear
from ..uop.symbolic import split_and
from .emit import vector
from .values import INT32, Assign, Linear, Scope, Values


class Mask(NamedTuple):
    """An i1 register; lanes None: one bit for all lanes. bits: lanes that can be on, where that is known."""
    reg: str
    lanes: int | None
    bits: tuple[bool, ...] | None = None


def half_spaces(q: UOp) -> list[Linear] | None:
    """An integer comparison as linear forms that must all be negative; None if it is none."""
    negated = q.op is Op.NOT
    p = q.src[0] if negated else q
    if p.op not in (Op.CMPLT, Op.CMPLE, Op.CMPEQ) or p.src[0].dtype is not dtypes.index:
        return None
    if p.op is Op.CMPEQ:
        return None if negated else [_less(p.src[0], p.src[1], 1), _less(p.src[1], p.src[0], 1)]
    if negated:                                             # not a < b: b <= a;  not a <= b: b < a
        return [_less(p.src[1], p.src[0], 1 if p.op is Op.CMPLT else 0)]
    return [_less(p.src[0], p.src[1], 0 if p.op is Op.CMPLT else 1)]


def _less(a: UOp, b: UOp, slack: int) -> Linear:
    """a < b + slack as a - b - slack < 0."""
    (ca, ta), (cb, tb) = linear(a), linear(b)
    t = dict(ta)
    for k, c in tb.items():
        t[k] = t.get(k, 0) - c
    return ca - cb - slack, {k: c for k, c in t.items() if c}


class Masks(Values):
    """Masks of loads, stores and WHEREs under the bounds of the open loops."""

    def __init__(self, width: int, native: int) -> None:
        super().__init__(width, native)
        self._guards: dict[UOp, list[tuple[UOp, list[Linear] | None]]] = {}

    def guard(self, cond: UOp) -> list[tuple[UOp, list[Linear] | None]]:
        """The conjuncts, each with its linear forms if lanes enter it only through RANGEs."""
        found = self._guards.get(cond)
        if found is None:
            found = []
            for q in split_and(cond):
                forms = half_spaces(q)
                if forms is not None and not all(a.op is Op.RANGE or not any(r.arg.kind.is_lane for r in a.free) for f in forms for a in f[1]):
                    forms = None
                found.append((q, forms))
            self._guards[cond] = found
        return found

    def is_guard(self, cond: UOp) -> bool:
        """All conjuncts are comparisons of positions, so that they may be proved under loop bounds."""
        return bool(cond.free) and all(forms is not None for _, forms in self.guard(cond))

    def mask_needs(self, cond: UOp) -> Sequence[UOp]:
        out: list[UOp] = []
        for q, forms in self.guard(cond):
            out.extend([q] if forms is None else [a for f in forms for a in f[1] if a.op is not Op.RANGE])
        return out

    def limits(self, r: UOp, sc: Scope | None, assign: Assign) -> tuple[int, int]:
        if r.arg.kind.is_lane:
            return (assign[r], assign[r]) if r in assign else (0, r.arg.extent - 1)
        while sc is not None:
            if sc.loop is r:
                return sc.bounds
            sc = sc.parent
        return 0, r.arg.extent - 1

    def interval(self, lin: Linear, sc: Scope | None, assign: Assign) -> tuple[int, int]:
        lo = hi = lin[0]
        for a, c in lin[1].items():
            if a.op is not Op.RANGE:
                return -1 << 62, 1 << 62
            x, y = self.limits(a, sc, assign)
            lo, hi = (lo + c * x, hi + c * y) if c > 0 else (lo + c * y, hi + c * x)
        return lo, hi

    def mask(self, cond: UOp, assign: Assign, c: int, vec: UOp | None, sc: Scope) -> Mask | bool:
        """True, False, or a register, for chunk c of `vec` at the given lanes."""
        out: Mask | None = None
        w = self.chunks(vec)[c]
        for q, forms in self.guard(cond):
            parts: list[Any] = []
            if forms is None:
                v = self.get(q, sc, vec)
                if v.const is not None:
                    parts.append(bool(v.const.arg))
                elif v.vec is None:
                    parts.append(Mask(v.regs[tuple([assign[a] for a in v.lanes])][0], None))
                else:
                    parts.append(Mask(self.reg(v, assign, c, vec), w))
            else:
                parts.extend(self._half_space(f, assign, c, vec, sc) for f in forms)
            for m in parts:
                if m is False:
                    return False
                if m is not True:
                    out = m if out is None else self._both(out, m, sc)
        return True if out is None else out

    def _half_space(self, form: Linear, assign: Assign, c: int, vec: UOp | None, sc: Scope) -> Mask | bool:
        c0, t = form
        k = t.get(vec, 0) if vec is not None else 0
        const, rest = c0, {}
        for a, times in t.items():
            if a in assign:
                const += times * assign[a]
            elif a is not vec:
                rest[a] = times
        w, o = self.chunks(vec)[c], self.starts(vec)[c]
        ends = (o * k, (o + (w or 1) - 1) * k)
        lo, hi = self.interval((const, rest), sc, assign)
        if hi + max(ends) < 0:
            return True
        if lo + min(ends) >= 0:
            return False
        home = self.place({r for a in rest for r in a.free}, sc)
        key = ("mask", const, tuple(rest.items()), k, o if k else 0, w if k else None)
        found: Mask | None = home.vals.get(key)
        if found is None:
            found = home.vals[key] = self._compare(self.offset((const, rest), home), lo, hi, k, o, w, home)
        return found

    def _compare(self, base: str, lo: int, hi: int, k: int, o: int, w: int | None, home: Scope) -> Mask:
        """base + k * lane < 0."""
        out = self.out(home)
        if w is None or not k:
            return Mask(out(f"icmp slt i64 {base}, {-o * k}"), None)
        dt = dtypes.int32 if INT32[0] <= min(lo, -(o + w) * abs(k)) and max(hi, (o + w) * abs(k)) <= INT32[1] else dtypes.int64
        if dt is dtypes.int32 and base.startswith("%"):
            base = out(f"trunc i64 {base} to i32")
        ty = f"i{dt.bits}"
        if not base.startswith("%"):
            bits = tuple(int(base) + (o + j) * k < 0 for j in range(w))
            return Mask("<" + ", ".join(f"i1 {str(b).lower()}" for b in bits) + ">", w, bits)
        lanes = ", ".join(f"{ty} {-(o + j) * k}" for j in range(w))
        return Mask(out(f"icmp slt {vector(ty, w)} {self.splat(base, dt, w, home)}, <{lanes}>"), w)

    def _both(self, a: Mask, b: Mask, sc: Scope) -> Mask:
        out = self.out(sc)
        if a.lanes == b.lanes:
            bits = tuple(x and y for x, y in zip(a.bits, b.bits)) if a.bits and b.bits else a.bits or b.bits
            return Mask(out(f"and {vector('i1', a.lanes)} {a.reg}, {b.reg}"), a.lanes, bits)
        one, many = (a, b) if a.lanes is None else (b, a)
        ty = vector("i1", many.lanes)
        return Mask(out(f"select i1 {one.reg}, {ty} {many.reg}, {ty} zeroinitializer"), many.lanes, many.bits)
