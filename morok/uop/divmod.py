"""Floor division and modulo of linear forms by a positive constant."""
from __future__ import annotations

import math
from collections.abc import Callable

from .linear import Linear, add_linear, from_linear, linear
from .node import UOp
from .op import Op

Interval = Callable[[Linear], tuple[int, int]]


def floor_divide(lin: Linear, c: int, interval: Interval) -> UOp:
    """(c0 + sum k*a) // c.

    Whole multiples of c leave the division; what remains vanishes if its limits lie in one block of c; common factors are taken out; nested divisions join.
    """
    c0, t = lin
    if c == 1:
        return from_linear(lin)
    lo, hi = interval(lin)
    if lo // c == hi // c:
        return from_linear((lo // c, {}))
    whole: Linear = (c0 // c, {a: k // c for a, k in t.items() if k % c == 0})
    rest: Linear = (c0 % c, {a: k for a, k in t.items() if k % c})
    for r in (rest, (rest[0], {a: k % c for a, k in rest[1].items()}), (rest[0], {a: k % c - c for a, k in rest[1].items()})):
        lo, hi = interval(r)
        if lo // c == hi // c:                                  # the rest lies in one block
            w = add_linear(whole, (lo // c, {a: (k - r[1][a]) // c for a, k in rest[1].items() if k != r[1][a]}))
            return from_linear(recombine(w))
    g = math.gcd(c, *rest[1].values())
    if g > 1:
        inner = (rest[0] // g, {a: k // g for a, k in rest[1].items()})
        return from_linear(recombine(add_linear(whole, linear(floor_divide(inner, c // g, interval)))))
    return from_linear(recombine(add_linear(whole, linear(_divide_atom(rest, c)))))


def _divide_atom(lin: Linear, c: int) -> UOp:
    """x // c as a node; (y // b) // c is y // (b*c)."""
    c0, t = lin
    if len(t) == 1:
        (a, k), = t.items()
        if k == 1 and a.op is Op.IDIV and a.src[1].op is Op.CONST and a.src[1].arg > 0:
            b = a.src[1].arg
            return a.src[0] // (b * c) if not c0 else (a.src[0] + c0 * b) // (b * c)
        if k == 1 and not c0 and a.op is Op.MOD and a.src[1].op is Op.CONST and a.src[1].arg % c == 0 and a.src[1].arg > 0:
            return (a.src[0] // c) % (a.src[1].arg // c)        # (y % (b*c)) // c is (y // c) % b
    return from_linear(lin) // c


def modulo(lin: Linear, c: int, interval: Interval) -> UOp:
    """(c0 + sum k*a) % c: coefficients are reduced; nothing is left to do if the limits lie in one block of c."""
    c0, t = lin
    if c == 1:
        return from_linear((0, {}))
    lo, hi = interval(lin)
    if lo // c == hi // c:
        return from_linear((c0 - lo // c * c, t))
    small: Linear = (c0 % c, {a: k % c for a, k in t.items() if k % c})
    for r in (small, (c0 % c, {a: k - c if k * 2 > c else k for a, k in small[1].items()})):
        lo, hi = interval(r)
        if lo // c == hi // c:
            return from_linear((r[0] - lo // c * c, r[1]))
    small = (small[0], {a: t[a] if abs(t[a]) < c else k for a, k in small[1].items()})
    g = math.gcd(c, *small[1].values())
    if g > 1:                                                   # (g*x + r) % (g*c) is g * (x % c) + r for r < g
        inner = modulo(((small[0] // g), {a: k // g for a, k in small[1].items()}), c // g, interval)
        return from_linear(recombine(add_linear((small[0] % g, {}), linear(inner), g)))
    (a, k), = list(small[1].items())[:1] or [(None, 0)]
    if len(small[1]) == 1 and k == 1 and not small[0] and a is not None and a.op is Op.MOD and a.src[1].op is Op.CONST and a.src[1].arg % c == 0:
        return a.src[0] % c                                     # (y % (b*c)) % c
    return from_linear(small) % c


def recombine(lin: Linear) -> Linear:
    """m*(x % c) + m*c*(x // c) is m*x;  m*(x % c) + m*c*((x // c) % d) is m*(x % (c*d))."""
    t = lin[1]
    if not any(a.op is Op.MOD for a in t):
        return lin
    for a, m in t.items():
        if a.op is not Op.MOD or a.src[1].op is not Op.CONST or a.src[1].arg <= 0:
            continue
        x, c = a.src[0], a.src[1].arg
        for b, k in t.items():
            if k != m * c:
                continue
            inner = b.src[0] if b.op is Op.MOD and b.src[1].op is Op.CONST and b.src[1].arg > 0 else b
            if not _is_quotient(inner, x, c):
                continue
            left = (lin[0], {y: v for y, v in t.items() if y is not a and y is not b})
            joined = linear(x) if inner is b else (0, {x % (c * b.src[1].arg): 1})
            return recombine(add_linear(left, joined, m))
    return lin


def _is_quotient(q: UOp, x: UOp, c: int) -> bool:
    """q is x // c (as it is written after nested divisions joined)."""
    if q.op is not Op.IDIV or q.src[1].op is not Op.CONST:
        return False
    if q.src[0] is x and q.src[1].arg == c:
        return True
    return x.op is Op.IDIV and x.src[1].op is Op.CONST and q.src[0] is x.src[0] and q.src[1].arg == x.src[1].arg * c
