"""Kernel expressions as z3 terms: fixed-width integers are bit vectors, `index` is an unbounded integer."""
from __future__ import annotations

from typing import Any

import z3

from morok.dtype import DType, dtypes
from morok.uop import Op, UOp

INFIX = {Op.ADD: lambda x, y: x + y, Op.SUB: lambda x, y: x - y, Op.MUL: lambda x, y: x * y,
         Op.CMPEQ: lambda x, y: x == y, Op.CMPNE: lambda x, y: x != y}
BOOLS = {Op.ADD: z3.Or, Op.OR: z3.Or, Op.MAX: z3.Or, Op.MUL: z3.And, Op.AND: z3.And, Op.MIN: z3.And, Op.XOR: z3.Xor, Op.CMPEQ: lambda x, y: x == y,
         Op.CMPNE: z3.Xor, Op.CMPLT: lambda x, y: z3.And(z3.Not(x), y), Op.CMPLE: z3.Implies}


def floor_div(x: Any, y: Any) -> Any:
    """Unbounded integers; z3 rounds so that the remainder is not negative."""
    return z3.If(y > 0, x / y, z3.If(y < 0, (-x) / (-y), 0))


def less(x: Any, y: Any, dt: DType) -> Any:
    return z3.ULT(x, y) if dt.is_unsigned else x < y


def divide(x: Any, y: Any, dt: DType) -> Any:
    if dt is dtypes.index:
        return floor_div(x, y)
    if dt.is_unsigned:
        return z3.If(y == 0, y, z3.UDiv(x, y))
    q, r = x / y, z3.SRem(x, y)
    return z3.If(y == 0, y, z3.If(z3.And(r != 0, (r < 0) != (y < 0)), q - 1, q))


def integer(op: Op, dt: DType, a: list[Any], bits: int) -> Any:
    if len(a) == 1:
        x = a[0]
        return {Op.NEG: lambda: -x, Op.NOT: lambda: ~x if dt is not dtypes.index else -x - 1, Op.ABS: lambda: z3.If(less(x, x * 0, dt), -x, x)}[op]()
    x, y = a
    if op in INFIX:
        return INFIX[op](x, y)
    if op in (Op.CMPLT, Op.CMPLE):
        return less(x, y, dt) if op is Op.CMPLT else z3.Not(less(y, x, dt))
    if op in (Op.MAX, Op.MIN):
        return z3.If(less(x, y, dt), y, x) if op is Op.MAX else z3.If(less(y, x, dt), y, x)
    if op is Op.IDIV:
        return divide(x, y, dt)
    if op is Op.MOD:
        q = divide(x, y, dt)
        return z3.If(y == 0, y, x - q * y)
    if op is Op.SHL:
        return z3.If(z3.ULT(y, bits), x << y, x * 0)
    if op is Op.SHR:
        return z3.If(z3.ULT(y, bits), z3.LShR(x, y) if dt.is_unsigned else x >> y, z3.If(less(x, x * 0, dt), x * 0 - 1, x * 0))
    return {Op.AND: x & y, Op.OR: x | y, Op.XOR: x ^ y}[op]


def cast(x: Any, src: DType, dst: DType) -> Any:
    if src.is_bool:
        one, nil = (z3.IntVal(1), z3.IntVal(0)) if dst is dtypes.index else (z3.BitVecVal(1, dst.bits), z3.BitVecVal(0, dst.bits))
        return x if dst.is_bool else z3.If(x, one, nil)
    if dst.is_bool:
        return x != 0
    if dst is dtypes.index:
        return x if src is dtypes.index else z3.BV2Int(x, not src.is_unsigned)
    if src is dtypes.index:
        return z3.Int2BV(x, dst.bits)
    if dst.bits <= src.bits:
        return z3.Extract(dst.bits - 1, 0, x)
    return z3.ZeroExt(dst.bits - src.bits, x) if src.is_unsigned else z3.SignExt(dst.bits - src.bits, x)


class Translator:
    """Loads and ranges become free variables; `facts` bound the ranges."""

    def __init__(self) -> None:
        self.terms: dict[UOp, Any] = {}
        self.facts: list[Any] = []

    def __call__(self, root: UOp) -> Any:
        for u in root.toposort(lambda n: n not in self.terms and n.op is not Op.INDEX):
            self.terms[u] = self._term(u)
        return self.terms[root]

    def _term(self, u: UOp) -> Any:
        dt = u.dtype
        if u.op is Op.CONST:
            return z3.BoolVal(u.arg) if dt.is_bool else z3.IntVal(u.arg) if dt is dtypes.index else z3.BitVecVal(u.arg, dt.bits)
        if u.op in (Op.RANGE, Op.LOAD):
            name = f"v{len(self.terms)}"
            x = z3.Bool(name) if dt.is_bool else z3.Int(name) if dt is dtypes.index else z3.BitVec(name, dt.bits)
            if u.op is Op.RANGE:
                self.facts += [x >= 0, x < u.arg.extent]
            return x
        a = [self.terms[s] for s in u.src]
        src = u.src[0].dtype
        if u.op is Op.CAST:
            return cast(a[0], src, dt)
        if u.op is Op.WHERE:
            return z3.If(a[0], a[1], a[2])
        if src.is_bool:
            return z3.Not(a[0]) if u.op is Op.NOT else BOOLS[u.op](a[0], a[1])
        return integer(u.op, src, a, src.bits)


def equal(u: UOp, v: UOp, given: UOp | None = None, seconds: int = 10) -> bool | None:
    """Are u and v equal for all values (where `given` holds)? None: not decided in time."""
    to = Translator()
    a, b = to(u), to(v)
    solver = z3.Solver()
    solver.set("timeout", seconds * 1000)
    if given is not None:
        solver.add(to(given))
    solver.add(*to.facts, a != b)
    answer = solver.check()
    return None if answer == z3.unknown else answer == z3.unsat
