"""One op on registers → lines of LLVM IR: types, literals, arithmetic, casts. Knows no loops and no lanes."""
from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

from ..dtype import DType, dtypes, round_to
from ..errors import IRError
from ..uop import GroupOp, Op

Line = Callable[[str], str]      # text of an instruction → name of its result

HALF = (dtypes.float16, dtypes.bfloat16)
INTRINSIC = {Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.RINT: "roundeven", Op.FMA: "fma"}
FLOAT_OP = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}
INT_OP = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.AND: "and", Op.OR: "or", Op.XOR: "xor"}
BOOL_OP = {Op.ADD: "or", Op.MUL: "and", Op.MAX: "or", Op.MIN: "and", Op.AND: "and", Op.OR: "or", Op.XOR: "xor"}
FLOAT_CMP = {Op.CMPLT: "olt", Op.CMPLE: "ole", Op.CMPEQ: "oeq", Op.CMPNE: "une"}
INT_CMP = {Op.CMPLT: "lt", Op.CMPLE: "le", Op.CMPEQ: "eq", Op.CMPNE: "ne"}


def scalar_type(dt: DType) -> str:
    """The type in registers: half and bfloat16 are computed in float32."""
    if dt.is_float:
        return "double" if dt is dtypes.float64 else "float"
    return f"i{dt.bits}"


def computed_in(dt: DType) -> DType:
    """The type that values of `dt` have in registers."""
    return dtypes.float32 if dt in HALF else dt


def memory_type(dt: DType) -> str:
    """The type in memory: a bool is a byte, bfloat16 is moved as its bits."""
    if dt.is_bool:
        return "i8"
    if dt in HALF:
        return "half" if dt is dtypes.float16 else "i16"
    return scalar_type(dt)


def vector(ty: str, w: int | None) -> str:
    return ty if w is None else f"<{w} x {ty}>"


def reg_type(dt: DType, w: int | None) -> str:
    return vector(scalar_type(dt), w)


def literal(value: bool | int | float, dt: DType, w: int | None = None) -> str:
    """A constant as LLVM text, repeated over w lanes."""
    if dt.is_float:
        value = round_to(float(value), dt)
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    else:
        text = str(int(value))
    return text if w is None else f"splat ({scalar_type(dt)} {text})"


class Emitter:
    """Writes instructions. `decls` collects the intrinsics used; register names are unique in the function."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.decls: set[str] = set()

    def name(self, prefix: str = "v") -> str:
        return f"%{prefix}{next(self._numbers)}"

    def line(self, lines: list[str], text: str, prefix: str = "v") -> str:
        r = self.name(prefix)
        lines.append(f"  {r} = {text}")
        return r

    def call(self, out: Line, intrinsic: str, ret: str, args: list[tuple[str, str]], overload: list[str]) -> str:
        """Call llvm.<intrinsic>; `overload` are the types in its mangled name."""
        name = ".".join([f"llvm.{intrinsic}", *map(mangle, overload)])
        self.decls.add(f"declare {ret} @{name}({', '.join(t for t, _ in args)})")
        return out(f"call {ret} @{name}({', '.join(f'{t} {a}' for t, a in args)})")

    def select(self, out: Line, cond: str, w: int | None, ty: str, x: str, y: str) -> str:
        return out(f"select {vector('i1', w)} {cond}, {ty} {x}, {ty} {y}")

    # ---- arithmetic ------------------------------------------------------------------------------
    def alu(self, out: Line, op: Op, dt: DType, src: DType, w: int | None, a: list[str], positive: bool = False, const_rhs: int | None = None) -> str:
        """One elementwise op. dt: of the result; src: of the sources; positive: both operands of a division are known >= 0 and the divisor > 0;
        const_rhs: the second operand, when it is a constant integer."""
        t, ts = reg_type(dt, w), reg_type(src, w)
        if op is Op.WHERE:
            return self.select(out, a[0], w, t, a[1], a[2])
        if op is Op.CAST:
            return self.cast(out, src, dt, w, a[0])
        if op is Op.BITCAST:
            return self.bitcast(out, src, dt, w, a[0])
        if op in GroupOp.COMPARE:
            if src.is_float:
                return out(f"fcmp {FLOAT_CMP[op]} {ts} {a[0]}, {a[1]}")
            sign = "" if op in (Op.CMPEQ, Op.CMPNE) else "u" if src.is_unsigned or src.is_bool else "s"
            return out(f"icmp {sign}{INT_CMP[op]} {ts} {a[0]}, {a[1]}")
        if dt.is_bool:
            return self._bool(out, op, t, w, a)
        return self._float(out, op, dt, t, w, a) if dt.is_float else self._int(out, op, dt, t, w, a, positive, const_rhs)

    def _bool(self, out: Line, op: Op, t: str, w: int | None, a: list[str]) -> str:
        if op is Op.NOT:
            return out(f"xor {t} {a[0]}, {'true' if w is None else 'splat (i1 true)'}")
        if op in BOOL_OP:
            return out(f"{BOOL_OP[op]} {t} {a[0]}, {a[1]}")
        raise IRError(f"{op} is not defined on bool")

    def _float(self, out: Line, op: Op, dt: DType, t: str, w: int | None, a: list[str]) -> str:
        if op in FLOAT_OP:
            return out(f"{FLOAT_OP[op]} {t} {a[0]}, {a[1]}")
        if op in INTRINSIC:
            return self.call(out, INTRINSIC[op], t, [(t, x) for x in a], [t])
        if op is Op.NEG:
            return out(f"fneg {t} {a[0]}")
        if op is Op.ABS:
            return self.call(out, "fabs", t, [(t, a[0])], [t])
        if op in (Op.MAX, Op.MIN):        # NaN propagates; x86 max returns its second operand on NaN
            m = self.select(out, out(f"fcmp {'ogt' if op is Op.MAX else 'olt'} {t} {a[1]}, {a[0]}"), w, t, a[1], a[0])
            return self.select(out, out(f"fcmp uno {t} {a[1]}, {a[1]}"), w, t, a[1], m)
        if op is Op.MOD:                  # sign of the divisor, as Python
            zero = literal(0.0, dt, w)
            r = out(f"frem {t} {a[0]}, {a[1]}")
            same = out(f"xor {vector('i1', w)} {out(f'fcmp olt {t} {r}, {zero}')}, {out(f'fcmp olt {t} {a[1]}, {zero}')}")
            fix = out(f"and {vector('i1', w)} {same}, {out(f'fcmp une {t} {r}, {zero}')}")
            r = self.select(out, fix, w, t, out(f"fadd {t} {r}, {a[1]}"), r)
            signed = self.call(out, "copysign", t, [(t, zero), (t, a[1])], [t])
            return self.select(out, out(f"fcmp oeq {t} {r}, {zero}"), w, t, signed, r)
        raise IRError(f"{op} on {dt} has to be decomposed before code is generated")

    def _int(self, out: Line, op: Op, dt: DType, t: str, w: int | None, a: list[str], positive: bool, const_rhs: int | None) -> str:
        if op in INT_OP:
            return out(f"{INT_OP[op]} {t} {a[0]}, {a[1]}")
        if op is Op.NEG:
            return out(f"sub {t} {literal(0, dt, w)}, {a[0]}")
        if op is Op.NOT:
            return out(f"xor {t} {a[0]}, {literal(-1, dt, w)}")
        sign = "u" if dt.is_unsigned else "s"
        if op is Op.ABS:
            if dt.is_unsigned:
                return a[0]
            return self.call(out, "abs", t, [(t, a[0]), ("i1", "false")], [t])
        if op in (Op.MAX, Op.MIN):
            return self.call(out, f"{sign}{op.name.lower()}", t, [(t, a[0]), (t, a[1])], [t])
        if op in (Op.SHL, Op.SHR):
            return self._shift(out, op, dt, t, w, a, const_rhs)
        if op in (Op.IDIV, Op.MOD):
            return self._divide(out, op, dt, t, w, a, positive, const_rhs)
        raise IRError(f"{op} is not defined on {dt}")

    def _shift(self, out: Line, op: Op, dt: DType, t: str, w: int | None, a: list[str], by: int | None) -> str:
        code = "shl" if op is Op.SHL else "lshr" if dt.is_unsigned else "ashr"
        if by is not None and 0 <= by < dt.bits:
            return out(f"{code} {t} {a[0]}, {a[1]}")
        inside = out(f"icmp ult {t} {a[1]}, {literal(dt.bits, dt, w)}")
        if code == "ashr":
            return out(f"ashr {t} {a[0]}, {self.select(out, inside, w, t, a[1], literal(dt.bits - 1, dt, w))}")
        safe = self.select(out, inside, w, t, a[1], literal(0, dt, w))
        return self.select(out, inside, w, t, out(f"{code} {t} {a[0]}, {safe}"), literal(0, dt, w))

    def _divide(self, out: Line, op: Op, dt: DType, t: str, w: int | None, a: list[str], positive: bool, by: int | None) -> str:
        """Floor division and its remainder; 0 for a zero divisor; INT_MIN // -1 wraps. Never a trap."""
        x, y = a
        zero, one = literal(0, dt, w), literal(1, dt, w)
        if positive or (dt.is_unsigned and by):
            return out(f"{'udiv' if op is Op.IDIV else 'urem'} {t} {x}, {y}")
        if by == 0:
            return out(f"and {t} {x}, {zero}")
        bad = None if by else out(f"icmp eq {t} {y}, {zero}")
        if dt.is_unsigned:
            assert bad is not None
            safe = self.select(out, bad, w, t, one, y)
            r = out(f"{'udiv' if op is Op.IDIV else 'urem'} {t} {x}, {safe}")
            return self.select(out, bad, w, t, zero, r)
        if by == -1:
            return out(f"sub {t} {zero}, {x}") if op is Op.IDIV else out(f"and {t} {x}, {zero}")
        safe = y
        if bad is not None:
            lowest = out(f"icmp eq {t} {x}, {literal(dt.min, dt, w)}")
            trap = out(f"and {vector('i1', w)} {lowest}, {out(f'icmp eq {t} {y}, {literal(-1, dt, w)}')}")
            safe = self.select(out, out(f"or {vector('i1', w)} {bad}, {trap}"), w, t, one, y)
        q = out(f"sdiv {t} {x}, {safe}")
        r = out(f"sub {t} {x}, {out(f'mul {t} {q}, {safe}')}")
        down = out(f"icmp slt {t} {out(f'xor {t} {r}, {safe}')}, {zero}")
        down = out(f"and {vector('i1', w)} {down}, {out(f'icmp ne {t} {r}, {zero}')}")
        if op is Op.IDIV:
            res = self.select(out, down, w, t, out(f"sub {t} {q}, {one}"), q)
        else:
            res = self.select(out, down, w, t, out(f"add {t} {r}, {safe}"), r)
        return res if bad is None else self.select(out, bad, w, t, zero, res)

    # ---- conversions -----------------------------------------------------------------------------
    def cast(self, out: Line, src: DType, dst: DType, w: int | None, x: str) -> str:
        """Value conversion: float to int saturates and maps NaN to 0, int to int wraps, to bool is x != 0."""
        ts, td = reg_type(src, w), reg_type(dst, w)
        if dst.is_bool:
            return out(f"fcmp une {ts} {x}, {literal(0.0, src, w)}" if src.is_float else f"icmp ne {ts} {x}, {literal(0, src, w)}")
        if src.is_float and dst.is_float:
            return self._float_to_float(out, src, dst, w, x)
        if src.is_float:
            return self.call(out, f"fpto{'u' if dst.is_unsigned else 's'}i.sat", td, [(ts, x)], [td, ts])
        unsigned = src.is_unsigned or src.is_bool
        if dst.is_float:
            exact = dtypes.float64 if dst in HALF and src.bits > 16 else dst
            v = out(f"{'u' if unsigned else 's'}itofp {ts} {x} to {reg_type(exact, w)}")
            return self._float_to_float(out, exact, dst, w, v) if exact is not dst or dst in HALF else v
        if src.bits == dst.bits:
            return x
        return out(f"{'trunc' if dst.bits < src.bits else 'zext' if unsigned else 'sext'} {ts} {x} to {td}")

    def _float_to_float(self, out: Line, src: DType, dst: DType, w: int | None, x: str) -> str:
        f32 = reg_type(dtypes.float32, w)
        if dst is dtypes.float64:
            return x if src is dst else out(f"fpext {f32} {x} to {reg_type(dst, w)}")
        if src is dtypes.float64:
            x = self._round_to_odd(out, w, x) if dst in HALF else out(f"fptrunc {reg_type(src, w)} {x} to {f32}")
        if dst not in HALF or dst is src:
            return x
        return self.from_memory(out, dst, w, self.to_memory(out, dst, w, x))

    def _round_to_odd(self, out: Line, w: int | None, x: str) -> str:
        """float64 to float32 so that a second rounding, to half, is the right one."""
        f64, f32, i32, i1 = reg_type(dtypes.float64, w), reg_type(dtypes.float32, w), vector("i32", w), vector("i1", w)
        near = out(f"fptrunc {f64} {x} to {f32}")
        back = out(f"fpext {f32} {near} to {f64}")
        bits = out(f"bitcast {f32} {near} to {i32}")
        grow = out(f"fcmp ogt {f64} {self.call(out, 'fabs', f64, [(f64, x)], [f64])}, {self.call(out, 'fabs', f64, [(f64, back)], [f64])}")
        step = self.select(out, grow, w, i32, literal(1, dtypes.int32, w), literal(-1, dtypes.int32, w))
        even = out(f"icmp eq {i32} {out(f'and {i32} {bits}, {literal(1, dtypes.int32, w)}')}, {literal(0, dtypes.int32, w)}")
        inexact = out(f"fcmp one {f64} {x}, {back}")
        odd = out(f"bitcast {i32} {out(f'add {i32} {bits}, {step}')} to {f32}")
        return self.select(out, out(f"and {i1} {even}, {inexact}"), w, f32, odd, near)

    def bitcast(self, out: Line, src: DType, dst: DType, w: int | None, x: str) -> str:
        if src in HALF:
            bits = self.to_memory(out, src, w, x)
            x = bits if src is dtypes.bfloat16 else out(f"bitcast {vector('half', w)} {bits} to {vector('i16', w)}")
            src = dtypes.uint16
        if dst in HALF:
            return self.from_memory(out, dst, w, x if dst is dtypes.bfloat16 else out(f"bitcast {reg_type(src, w)} {x} to {vector('half', w)}"))
        ts, td = reg_type(src, w), reg_type(dst, w)
        return x if ts == td else out(f"bitcast {ts} {x} to {td}")

    # ---- between memory and registers ---------------------------------------------------------------
    def from_memory(self, out: Line, dt: DType, w: int | None, x: str) -> str:
        if dt.is_bool:
            return out(f"icmp ne {vector('i8', w)} {x}, {literal(0, dtypes.int8, w)}")
        if dt is dtypes.float16:
            return out(f"fpext {vector('half', w)} {x} to {vector('float', w)}")
        if dt is dtypes.bfloat16:
            wide = out(f"zext {vector('i16', w)} {x} to {vector('i32', w)}")
            return self._bf16_up(out, w, wide)
        return x

    def _bf16_up(self, out: Line, w: int | None, wide: str) -> str:
        i32 = vector("i32", w)
        up = out(f"shl {i32} {wide}, {literal(16, dtypes.int32, w)}")
        return out(f"bitcast {i32} {up} to {vector('float', w)}")

    def to_memory(self, out: Line, dt: DType, w: int | None, x: str) -> str:
        if dt.is_bool:
            return out(f"zext {vector('i1', w)} {x} to {vector('i8', w)}")
        if dt is dtypes.float16:
            return out(f"fptrunc {vector('float', w)} {x} to {vector('half', w)}")
        if dt is dtypes.bfloat16:
            return self._bf16_down(out, w, x)
        return x

    def _bf16_down(self, out: Line, w: int | None, x: str) -> str:
        """To nearest, ties to even, in integer arithmetic; NaN stays a quiet NaN."""
        f32, i32 = vector("float", w), vector("i32", w)

        def lit(v: int) -> str:
            return literal(v, dtypes.int32, w)
        bits = out(f"bitcast {f32} {x} to {i32}")
        top = out(f"lshr {i32} {bits}, {lit(16)}")
        bias = out(f"add {i32} {out(f'and {i32} {top}, {lit(1)}')}, {lit(0x7fff)}")
        near = out(f"lshr {i32} {out(f'add {i32} {bits}, {bias}')}, {lit(16)}")
        quiet = out(f"or {i32} {top}, {lit(64)}")
        r = self.select(out, out(f"fcmp uno {f32} {x}, {x}"), w, i32, quiet, near)
        return out(f"trunc {i32} {r} to {vector('i16', w)}")


def mangle(ty: str) -> str:
    """The suffix of an overloaded intrinsic: <8 x float> → v8f32."""
    if ty.startswith("<"):
        n, _, el = ty[1:-1].split(" ", 2)
        return f"v{n}{mangle(el)}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(ty, ty)
