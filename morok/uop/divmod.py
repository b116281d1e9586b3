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

    Whole multiples of c leave the division; what remains vanishes if its limits lie in one block of c; common factors are taken out;
    nested divisions join.
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
            return from_linear(recombine(w, interval))
    g = math.gcd(c, *rest[1].values())
    if g > 1:
        inner = (rest[0] // g, {a: k // g for a, k in rest[1].items()})
        return from_linear(recombine(add_linear(whole, linear(floor_divide(inner, c // g, interval))), interval))
    return from_linear(recombine(add_linear(whole, linear(_divide_atom(rest, c, interval))), interval))


def _divide_atom(lin: Linear, c: int, interval: Interval) -> UOp:
    """x // c as a node; (y // b) // c is y // (b*c), (y % (b*c)) // c is (y // c) % b."""
    c0, t = lin
    if len(t) == 1:
        (a, k), = t.items()
        b = divisor(a)
        if k == 1 and b and a.op is Op.IDIV:
            return floor_divide(add_linear(linear(a.src[0]), (c0 * b, {})), b * c, interval)
        if k == 1 and b and not c0 and a.op is Op.MOD and b % c == 0:
            return modulo(linear(floor_divide(linear(a.src[0]), c, interval)), b // c, interval)
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
        return from_linear(recombine(add_linear((small[0] % g, {}), linear(inner), g), interval))
    if len(small[1]) == 1 and not small[0]:
        (a, k), = small[1].items()
        if k == 1 and a.op is Op.MOD and divisor(a) and divisor(a) % c == 0:
            return modulo(linear(a.src[0]), c, interval)        # (y % (b*c)) % c
    return from_linear(small) % c


def recombine(lin: Linear, interval: Interval) -> Linear:
    """m*(x % c) + m*c*(x // c) is m*x;  m*(x % c) + m*c*((x // c) % d) is m*(x % (c*d));  m*x - m*c*(x // c) is m*(x % c)."""
    t = lin[1]
    for a, k in t.items():
        c = divisor(a)
        if not c:
            continue
        if a.op is Op.MOD:
            for b, kb in t.items():
                if kb == k * c and (x := _joined(a.src[0], c, b, interval)) is not None:
                    return recombine(add_linear(_without(lin, a, b), x, k), interval)
        elif k % c == 0:
            x = linear(a.src[0])
            if all(t.get(v) == -k // c * kx for v, kx in x[1].items()):
                left = add_linear(_without(lin, a), x, k // c)
                return recombine(add_linear(left, linear(modulo(x, c, interval)), -k // c), interval)
    return lin


def divisor(u: UOp) -> int:
    """c of x // c and x % c for a constant c > 0, else 0."""
    if u.op in (Op.IDIV, Op.MOD) and u.src[1].op is Op.CONST and u.src[1].arg > 0:
        return int(u.src[1].arg)
    return 0


def _without(lin: Linear, *atoms: UOp) -> Linear:
    return lin[0], {a: k for a, k in lin[1].items() if a not in atoms}


def _joined(remainder: UOp, c: int, quotient: UOp, interval: Interval) -> Linear | None:
    """x of x // c, where `quotient` is (a // (b*c)) + whole and x % c is remainder % c; x % (c*d) where `quotient` is that % d."""
    d = divisor(quotient) if quotient.op is Op.MOD else 0
    whole, t = linear(quotient.src[0]) if d else (0, {quotient: 1})
    found = [q for q, k in t.items() if k == 1 and q.op is Op.IDIV and divisor(q) and divisor(q) % c == 0]
    if len(found) != 1:
        return None
    x = linear(floor_divide(linear(found[0].src[0]), divisor(found[0]) // c, interval))
    x = add_linear(x, _without((whole, t), found[0]), c)
    apart = add_linear(linear(remainder), x, -1)
    if any(k % c for k in (apart[0], *apart[1].values())):
        return None
    return linear(modulo(x, c * d, interval)) if d else x
