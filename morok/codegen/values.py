"""Values over lanes: a scope per open loop, and registers for every lane of a node's value."""
from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from ..dtype import DType, dtypes
from ..errors import IRError
from ..uop import GroupOp, Op, UOp, loop_key
from ..uop.bounds import bounds
from ..uop.linear import linear
from .emit import Emitter, literal, reg_type, scalar_type, vector

Lanes = tuple[UOp, ...]
Assign = dict[UOp, int]
Linear = tuple[int, dict[UOp, int]]
INT32 = (-(1 << 31), (1 << 31) - 1)


class Val:
    """The registers of one value: regs[numbers of the lanes] is a register per chunk of the vector axis (one, if there is none)."""
    __slots__ = ("lanes", "vec", "dtype", "regs", "scope", "const")

    def __init__(self, lanes: Lanes, vec: UOp | None, dtype: DType, regs: dict[tuple[int, ...], tuple[str, ...]], scope: "Scope", const: Any = None) -> None:
        self.lanes, self.vec, self.dtype, self.regs, self.scope, self.const = lanes, vec, dtype, regs, scope, const


class Scope:
    """A loop body being written. `vals` dies with it, so no value is used outside the loop that made it."""
    __slots__ = ("parent", "loop", "lines", "vals", "bounds", "block", "label", "depth")

    def __init__(self, parent: "Scope | None", loop: UOp | None = None, limits: tuple[int, int] = (0, 0), label: str = "entry") -> None:
        self.parent, self.loop, self.bounds, self.block, self.label = parent, loop, limits, label, label
        self.lines: list[str] = []
        self.vals: dict[Any, Any] = {}
        self.depth: int = 0 if parent is None else parent.depth + 1

    def chain(self) -> Iterator["Scope"]:
        s: Scope | None = self
        while s is not None:
            yield s
            s = s.parent


def assigns(lanes: Sequence[UOp]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(r.arg.extent) for r in lanes))


def sorted_lanes(ranges: Any) -> Lanes:
    return tuple(sorted((r for r in ranges if r.arg.kind.is_lane), key=loop_key))


class Values(Emitter, ABC):
    """Computes nodes: each in the outermost open scope that its free ranges allow, once."""

    def __init__(self, width: int, native: int) -> None:
        super().__init__()
        self.width, self.native = width, native                # lanes of a register of this kernel; bytes of one of the machine
        self._chunks: dict[UOp | None, tuple[int | None, ...]] = {None: (None,)}

    # ---- lanes ------------------------------------------------------------------------------------
    def chunks(self, vec: UOp | None) -> tuple[int | None, ...]:
        """Widths of the registers that hold the lanes of `vec`: native ones and at most one short one."""
        found = self._chunks.get(vec)
        if found is None:
            assert vec is not None
            n, w = vec.arg.extent, self.width
            found = self._chunks[vec] = (w,) * (n // w) + ((n % w,) if n % w else ())
        return found

    def starts(self, vec: UOp | None) -> list[int]:
        return list(itertools.accumulate((w or 0 for w in self.chunks(vec)), initial=0))

    def place(self, free: Any, sc: Scope) -> Scope:
        """The outermost open scope at which a value over `free` can be computed."""
        s = sc
        while s.loop not in free and s.parent is not None:
            s = s.parent
        return s

    def out(self, sc: Scope) -> Any:
        lines = sc.lines
        return lambda text: self.line(lines, text)

    # ---- computing --------------------------------------------------------------------------------
    @staticmethod
    def lookup(u: Any, sc: Scope | None) -> Any:
        while sc is not None:
            v = sc.vals.get(u)
            if v is not None:
                return v
            sc = sc.parent
        return None

    def get(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        """The value of `u` at scope `sc`, in registers along `vec` when it varies over it."""
        v = self.lookup(u, sc)
        if v is None:
            self._fill(u, sc, vec)
            v = self.lookup(u, sc)
        want = vec if vec in u.free else None
        if v.vec is want or v.const is not None:
            return v                                            # type: ignore[no-any-return]
        w = self.lookup((u, want), v.scope)
        if w is None:
            w = v.scope.vals[(u, want)] = self.relayout(v, want)
        return w                                                # type: ignore[no-any-return]

    def _fill(self, root: UOp, sc: Scope, vec: UOp | None) -> None:
        """Compute `root` and all it needs, sources first; no recursion, since chains are long."""
        stack = [root]
        while stack:
            u = stack[-1]
            if self.lookup(u, sc) is not None:
                stack.pop()
                continue
            missing = [d for d in self.needs(u) if self.lookup(d, sc) is None]
            if missing:
                stack.extend(missing)
                continue
            self.compute(u, sc, vec if vec in u.free else None)
            stack.pop()

    def needs(self, u: UOp) -> Sequence[UOp]:
        """The values that must be in registers before `u` is computed."""
        if u.op in (Op.CONST, Op.RANGE, Op.REDUCE, Op.STAGE, Op.PARAM):
            return ()
        if u.op is Op.LOAD:
            return [*self.atoms(u.src[0].src[1]), *(self.mask_needs(u.src[0].src[2]) if len(u.src[0].src) > 2 else ())]
        if u.op is Op.WHERE and self.is_guard(u.src[0]):
            return [*u.src[1:], *self.mask_needs(u.src[0])]
        if u.op is Op.CAST and u.src[0].dtype is dtypes.index and self.is_affine(u.src[0]):
            return self.atoms(u.src[0])
        if u.op is Op.SCAN:
            return u.src[:1]
        return u.src

    def atoms(self, idx: UOp) -> list[UOp]:
        return [a for a in linear(idx)[1] if a.op is not Op.RANGE]

    @staticmethod
    def is_affine(idx: UOp) -> bool:
        """Lanes appear only as RANGEs with a coefficient: everything else is the same for all lanes."""
        return all(a.op is Op.RANGE or not any(r.arg.kind.is_lane for r in a.free) for a in linear(idx)[1])

    def compute(self, u: UOp, sc: Scope, vec: UOp | None) -> None:
        if u.op is Op.REDUCE:
            self.reduce_value(u, sc)
            return
        home = self.place(u.free, sc)
        if u.op is Op.CONST:
            v = Val((), None, u.dtype, {}, home, u)
        elif u.op is Op.RANGE:
            v = self._range(u, home, vec)
        elif u.op is Op.LOAD:
            v = self.load(u, home, vec)
        elif u.op is Op.SCAN:
            v = self.scan(u, home, vec)
        elif u.op is Op.CAST and u.src[0].dtype is dtypes.index and self.is_affine(u.src[0]):
            v = self._cast_index(u, home, vec)
        elif u.op in GroupOp.ALU:
            v = self._alu(u, home, vec)
        else:
            raise IRError(f"{u.op} is no value that code can be generated for")
        home.vals[u] = v

    def _range(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        if vec is not u:
            return Val((u,), None, dtypes.index, {(k,): (str(k),) for k in range(u.arg.extent)}, sc)
        regs = tuple("<" + ", ".join(f"i64 {o + k}" for k in range(w or 1)) + ">" for o, w in zip(self.starts(u), self.chunks(u)))
        return Val((), u, dtypes.index, {(): regs}, sc)

    def reg(self, v: Val, assign: Assign, c: int, vec: UOp | None) -> str:
        """The register of chunk c of `vec` at the given lanes; a value that does not vary over `vec` is repeated."""
        w = self.chunks(vec)[c]
        if v.const is not None:
            return literal(v.const.arg, v.dtype, w)
        r = v.regs[tuple([assign[a] for a in v.lanes])]
        if v.vec is not None:
            return r[c]
        return self.splat(r[0], v.dtype, w, v.scope)

    def splat(self, r: str, dt: DType, w: int | None, sc: Scope) -> str:
        if w is None:
            return r
        ty = scalar_type(dt)
        if not r.startswith("%"):
            return f"splat ({ty} {r})"
        key = (r, w)
        s = sc.vals.get(key)
        if s is None:
            t = vector(ty, w)
            a = self.line(sc.lines, f"insertelement {t} poison, {ty} {r}, i32 0")
            s = sc.vals[key] = self.line(sc.lines, f"shufflevector {t} {a}, {t} poison, <{w} x i32> zeroinitializer")
        return s

    def _alu(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        guard = u.op is Op.WHERE and self.is_guard(u.src[0])
        srcs = [self.get(s, sc, vec) for s in (u.src[1:] if guard else u.src)]
        lanes = tuple(a for a in sorted_lanes(u.free) if a is not vec)
        positive = u.op in (Op.IDIV, Op.MOD) and not u.dtype.is_float and bounds(u.src[0])[0] >= 0 and bounds(u.src[1])[0] > 0
        rhs = u.src[1].arg if len(u.src) == 2 and u.src[1].op is Op.CONST and not u.src[1].dtype.is_float else None
        out, regs, widths = self.out(sc), {}, self.chunks(vec)
        for key in assigns(lanes):
            assign = dict(zip(lanes, key))
            row = []
            for c, w in enumerate(widths):
                a = [self.reg(s, assign, c, vec) for s in srcs]
                if guard:
                    m = self.mask(u.src[0], assign, c, vec, sc)
                    row.append(a[0] if m is True else a[1] if m is False else self.choose(out, m, w, u.dtype, a[0], a[1]))
                else:
                    row.append(self.alu(out, u.op, u.dtype, u.src[-1].dtype, w, a, positive, rhs))
            regs[key] = tuple(row)
        return Val(lanes, vec, u.dtype, regs, sc)

    def choose(self, out: Any, m: Any, w: int | None, dt: DType, x: str, y: str) -> str:
        t = reg_type(dt, w)
        return str(out(f"select {vector('i1', m[1])} {m[0]}, {t} {x}, {t} {y}"))

    def _cast_index(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        """A position as a number: the loop part once as a scalar, the lanes as constants."""
        c0, terms = linear(u.src[0])
        mine = [r for r in terms if r.op is Op.RANGE and r.arg.kind.is_lane]
        lo, hi = bounds(u.src[0])
        it = dtypes.int32 if INT32[0] <= lo and hi <= INT32[1] else dtypes.int64
        out = self.out(sc)
        base = self.offset((c0, {r: k for r, k in terms.items() if r not in mine}), sc)
        if it is dtypes.int32 and base.startswith("%"):
            base = out(f"trunc i64 {base} to i32")
        lanes = tuple(a for a in sorted_lanes(mine) if a is not vec)
        regs = {}
        for key in assigns(lanes):
            shift = sum(terms[a] * k for a, k in zip(lanes, key))
            row = []
            for o, w in zip(self.starts(vec), self.chunks(vec)):
                k = terms.get(vec, 0) if vec is not None else 0
                ty = reg_type(it, w)
                offs = str(shift) if w is None else "<" + ", ".join(f"{scalar_type(it)} {shift + (o + j) * k}" for j in range(w)) + ">"
                x = out(f"add {ty} {self.splat(base, it, w, sc)}, {offs}")
                row.append(self.cast(out, it, u.dtype, w, x))
            regs[key] = tuple(row)
        return Val(lanes, vec, u.dtype, regs, sc)

    def offset(self, lin: Linear, sc: Scope) -> str:
        """A linear form over open loops, as an i64 register or a number; every step in the outermost scope it can be in."""
        terms = sorted(((self.place(r.free, sc), r, k) for r, k in lin[1].items()), key=lambda x: x[0].depth)
        acc, c0 = "", lin[0]
        for home, r, k in terms:
            key = ("off", acc, r, k)
            q = home.vals.get(key)
            if q is None:
                i = self.get(r, home, None).regs[()][0]
                if not i.startswith("%"):                      # the one iteration of a loop that is none
                    c0 += int(i) * k
                    continue
                if k != 1:
                    i = self.line(home.lines, f"mul i64 {i}, {k}")
                q = home.vals[key] = self.line(home.lines, f"add i64 {acc}, {i}") if acc else i
            acc = q
        if not acc:
            return str(c0)
        return self.line(sc.lines, f"add i64 {acc}, {c0}") if c0 else acc

    # ---- another vector axis ------------------------------------------------------------------------
    def relayout(self, v: Val, vec: UOp | None) -> Val:
        """The same lanes along another vector axis: transposed square blocks when both are whole registers, else element by element."""
        old, W = v.vec, self.width
        lanes = tuple(a for a in sorted_lanes({*v.lanes, *([old] if old is not None else [])}) if a is not vec)
        if old is not None and vec is not None and W & (W - 1) == 0 and not old.arg.extent % W and not vec.arg.extent % W:
            return Val(lanes, vec, v.dtype, self._transpose(v, old, vec, lanes), v.scope)
        out, ty, elems = self.out(v.scope), scalar_type(v.dtype), {}
        starts, widths = self.starts(old), self.chunks(old)

        def elem(assign: Assign) -> str:
            row = v.regs[tuple([assign[a] for a in v.lanes])]
            if old is None:
                return row[0]
            c = next(i for i in range(len(widths)) if starts[i + 1] > assign[old])
            key = (row[c], assign[old] - starts[c])
            if key not in elems:
                elems[key] = out(f"extractelement {vector(ty, widths[c])} {row[c]}, i32 {key[1]}")
            return elems[key]                                   # type: ignore[no-any-return]
        regs: dict[tuple[int, ...], tuple[str, ...]] = {}
        for k in assigns(lanes):
            a = dict(zip(lanes, k))
            row = []
            for o, w in zip(self.starts(vec), self.chunks(vec)):
                if w is None:
                    row.append(elem(a))
                    continue
                assert vec is not None
                r = "poison"
                for j in range(w):
                    r = out(f"insertelement {vector(ty, w)} {r}, {ty} {elem({**a, vec: o + j})}, i32 {j}")
                row.append(r)
            regs[k] = tuple(row)
        return Val(lanes, vec, v.dtype, regs, v.scope)

    def _transpose(self, v: Val, old: UOp, vec: UOp, lanes: Lanes) -> dict[tuple[int, ...], tuple[str, ...]]:
        W, regs = self.width, {}
        others = tuple(a for a in lanes if a is not old)
        for key in assigns(others):
            a = dict(zip(others, key))
            t: dict[tuple[int, int], str] = {}
            for bi in range(vec.arg.extent // W):
                for bj in range(old.arg.extent // W):
                    rows = [v.regs[tuple([{**a, vec: bi * W + k}[x] for x in v.lanes])][bj] for k in range(W)]
                    for k, r in enumerate(self.transpose_block(rows, v.dtype, v.scope)):
                        t[bj * W + k, bi] = r
            for j in range(old.arg.extent):
                regs[tuple([{**a, old: j}[x] for x in lanes])] = tuple(t[j, bi] for bi in range(vec.arg.extent // W))
        return regs

    def transpose_block(self, rows: list[str], dt: DType, sc: Scope) -> list[str]:
        """W registers of W lanes, transposed: interleave neighbours at growing distance."""
        W, out = len(rows), self.out(sc)
        t = reg_type(dt, W)

        def shuffle(a: str, b: str, idx: Sequence[int]) -> str:
            return out(f"shufflevector {t} {a}, {t} {b}, <{W} x i32> <{', '.join(f'i32 {i}' for i in idx)}>")   # type: ignore[no-any-return]
        if W == 8 and dt.itemsize <= 4:                  # unpack pairs, unpack quads, then exchange 128-bit halves: one instruction each on AVX
            lo, hi = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)
            a = [shuffle(rows[i], rows[i + 1], (lo, hi)[k]) for i in range(0, 8, 2) for k in range(2)]
            lo, hi = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)
            b = [shuffle(a[q + k // 2], a[q + 2 + k // 2], (lo, hi)[k % 2]) for q in (0, 4) for k in range(4)]
            return [shuffle(b[k], b[k + 4], (0, 1, 2, 3, 8, 9, 10, 11)) for k in range(4)] + \
                   [shuffle(b[k], b[k + 4], (4, 5, 6, 7, 12, 13, 14, 15)) for k in range(4)]
        d = W // 2
        while d:
            new = list(rows)
            for i in range(W):
                if not i & d:
                    new[i] = shuffle(rows[i], rows[i + d], [k if not k & d else W + k - d for k in range(W)])
                    new[i + d] = shuffle(rows[i], rows[i + d], [k + d if not k & d else W + k for k in range(W)])
            rows, d = new, d // 2
        return rows

    # ---- provided by the subclasses -----------------------------------------------------------------
    @abstractmethod
    def load(self, u: UOp, sc: Scope, vec: UOp | None) -> Val: ...

    @abstractmethod
    def scan(self, u: UOp, sc: Scope, vec: UOp | None) -> Val: ...

    @abstractmethod
    def reduce_value(self, u: UOp, sc: Scope) -> None: ...

    @abstractmethod
    def is_guard(self, cond: UOp) -> bool: ...

    @abstractmethod
    def mask_needs(self, cond: UOp) -> Sequence[UOp]: ...

    @abstractmethod
    def mask(self, cond: UOp, assign: Assign, c: int, vec: UOp | None, sc: Scope) -> Any: ...
