"""Addresses, loads and stores of whole registers."""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from ..dtype import DType
from ..helpers import prod
from ..uop import Op, UOp
from ..uop.linear import linear
from .emit import literal, mangle, memory_type, reg_type, scalar_type, vector
from .masks import Mask, Masks
from .values import Assign, Lanes, Linear, Scope, Val, assigns, sorted_lanes

CACHE_LINE = 64
FORESEEN_ROW = 256               # bytes of a row that are worth a request in advance,
FORESEEN_TABLE = 256 << 10       # and of the table that it lies in: smaller ones stay in the caches


class Memory(Masks):
    """Loads and stores: contiguous, reversed, strided, gathered; masked without branches."""

    def __init__(self, width: int, native: int) -> None:
        super().__init__(width, native)
        self.buffers: dict[UOp, str] = {}                      # STAGE → address of its scratch
        self.streaming = self.fenced = False                   # stores go past the caches now; some did

    # ---- addresses -----------------------------------------------------------------------------------
    def base(self, buf: UOp, sc: Scope) -> str:
        if buf.op is Op.STAGE:
            self.phase(buf, sc)
            return self.buffers[buf]
        return f"%p{buf.arg.slot}"

    def address(self, p: str, dt: DType, terms: dict[UOp, int], sc: Scope) -> str:
        """p plus the terms that are the same for all lanes, added from the outermost loop inwards."""
        mt = memory_type(dt)
        steps = sorted(((self.place(r.free, sc), r, k) for r, k in terms.items()), key=lambda x: x[0].depth)
        for home, r, k in steps:
            key = ("addr", p, r, k)
            q = home.vals.get(key)
            if q is None:
                i = self.get(r, home, None).regs[()][0] if r.op is not Op.CONST else str(r.arg)
                if k != 1:
                    i = self.line(home.lines, f"mul i64 {i}, {k}") if i.startswith("%") else str(int(i) * k)
                q = home.vals[key] = self.line(home.lines, f"getelementptr {mt}, ptr {p}, i64 {i}", "a")
            p = q
        return p

    def at(self, p: str, off: int, dt: DType, sc: Scope) -> str:
        if not off:
            return p
        key = (p, off, dt.itemsize)
        q = sc.vals.get(key)
        if q is None:
            q = sc.vals[key] = self.line(sc.lines, f"getelementptr {memory_type(dt)}, ptr {p}, i64 {off}", "a")
        return q

    def split(self, lin: Linear) -> tuple[dict[UOp, int], dict[UOp, int], dict[UOp, int]]:
        """The terms of an index: the same for all lanes; lane RANGEs; values that differ between lanes."""
        same, lanes, opaque = {}, {}, {}
        for a, k in lin[1].items():
            if a.op is Op.RANGE and a.arg.kind.is_lane:
                lanes[a] = k
            elif any(r.arg.kind.is_lane for r in a.free):
                opaque[a] = k
            else:
                same[a] = k
        return same, lanes, opaque

    # ---- loads ---------------------------------------------------------------------------------------
    def load(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        index = u.src[0]
        lin = linear(index.src[1])
        valid = index.src[2] if len(index.src) > 2 else None
        same, steps, opaque = self.split(lin)
        along = vec
        if vec is not None and steps.get(vec) != 1 and not opaque and valid is None:   # contiguous along another lane: load so, transpose later
            along = next((a for a, k in sorted(steps.items(), key=lambda x: x[0].arg.order) if k == 1 and a.arg.extent % self.width == 0), vec)
        lanes = tuple(a for a in sorted_lanes(u.free) if a is not along)
        p = self.address(self.base(index.src[0], sc), u.dtype, same, sc)
        if along is not None and not lanes and steps.get(along) == 1:
            self.foresee(u, same, along, sc)
        regs = {}
        for key in assigns(lanes):
            assign = dict(zip(lanes, key))
            off = lin[0] + sum(steps.get(a, 0) * k for a, k in assign.items())
            q, scattered = p, {}
            for a, k in opaque.items():                         # the same for the lanes of this register: still one address
                if along is not None and along in a.free:
                    scattered[a] = k
                else:
                    q = self.element(q, u.dtype, self.get(a, sc, along), assign, k, sc)
            regs[key] = tuple(self._load_chunk(u.dtype, q, off, steps.get(along, 0) if along is not None else 0, scattered, assign, c, along,
                                               True if valid is None else self.mask(valid, assign, c, along, sc), sc)
                              for c in range(len(self.chunks(along))))
        return Val(lanes, along, u.dtype, regs, sc)

    def foresee(self, u: UOp, same: dict[UOp, int], along: UOp, sc: Scope) -> None:
        """Request what the next iteration reads here, where the place of a row comes from memory: a processor foresees strides, but no such place."""
        buf, size = u.src[0].src[0], u.dtype.itemsize
        looked_up = [a for a in same if a.op is not Op.RANGE and any(x.op is Op.LOAD for x in a.toposort())]
        loop = max((self.place(a.free, sc) for a in looked_up), key=lambda s: s.depth, default=sc)
        inner = [s.loop.arg.extent for s in sc.chain() if s.depth > loop.depth and s.loop in u.free and s.loop is not None]
        row = prod(inner) * along.arg.extent * size
        r = loop.loop
        if buf.op is not Op.PARAM or buf.arg.size * size < FORESEEN_TABLE or row < FORESEEN_ROW or r is None or not any(r in a.free for a in looked_up):
            return
        ahead = linear(u.src[0].src[1].substitute({r: (r + 1).minimum(r.arg.extent - 1)}))
        p = self.address(self.base(buf, sc), u.dtype, self.split(ahead)[0], sc)
        for o in range(0, along.arg.extent, CACHE_LINE // size):
            self.request(self.at(p, ahead[0] + o, u.dtype, sc), sc)

    def request(self, p: str, sc: Scope) -> None:
        """Bring a line into the caches; harmless for any address."""
        self.decls.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        sc.lines.append(f"  call void @llvm.prefetch.p0(ptr {p}, i32 0, i32 3, i32 1)")

    def element(self, p: str, dt: DType, v: Val, assign: Assign, k: int, sc: Scope) -> str:
        i = v.regs[tuple([assign[a] for a in v.lanes])][0] if v.const is None else str(v.const.arg)
        if k != 1:
            i = self.line(sc.lines, f"mul i64 {i}, {k}")
        return self.line(sc.lines, f"getelementptr {memory_type(dt)}, ptr {p}, i64 {i}", "a")

    def _load_chunk(self, dt: DType, p: str, off: int, step: int, scattered: dict[UOp, int], assign: Assign, c: int, along: UOp | None,
                    m: Mask | bool, sc: Scope) -> str:
        w, o = self.chunks(along)[c], self.starts(along)[c]
        if m is False:
            return literal(dt.const(0), dt, w)
        if scattered:
            return self._gather(dt, p, off + step * o, step, scattered, assign, c, along, m, sc)
        if w is None or step == 1:
            return self.read(self.at(p, off + o * step, dt, sc), dt, w, m, sc)
        if step == -1 and (m is True or m.lanes is None):
            r, t = self.read(self.at(p, off - o - w + 1, dt, sc), dt, w, m, sc), reg_type(dt, w)
            return self.line(sc.lines, f"shufflevector {t} {r}, {t} poison, <{w} x i32> <{', '.join(f'i32 {w - 1 - i}' for i in range(w))}>")
        if step == 0:
            return self._masked_splat(self.at(p, off, dt, sc), dt, w, m, sc)
        elems = [self.read(self.at(p, off + (o + j) * step, dt, sc), dt, None, self.bit(m, j, sc), sc) for j in range(w)]
        return self.collect(elems, dt, w, sc)

    def _masked_splat(self, p: str, dt: DType, w: int, m: Any, sc: Scope) -> str:
        if m is True or m.lanes is None:
            return self.splat(self.read(p, dt, None, m, sc), dt, w, sc)
        some = self.call(self.out(sc), "vector.reduce.or", "i1", [(vector("i1", w), m.reg)], [vector("i1", w)])
        x = self.splat(self.read(p, dt, None, Mask(some, None), sc), dt, w, sc)
        return self.choose(self.out(sc), m, w, dt, x, literal(dt.const(0), dt, w))

    def collect(self, elems: list[str], dt: DType, w: int, sc: Scope) -> str:
        r = "poison"
        for j, e in enumerate(elems):
            r = self.line(sc.lines, f"insertelement {reg_type(dt, w)} {r}, {scalar_type(dt)} {e}, i32 {j}")
        return r

    def bit(self, m: Mask | bool, j: int, sc: Scope) -> Mask | bool:
        if isinstance(m, bool) or m.lanes is None:
            return m
        return Mask(self.line(sc.lines, f"extractelement {vector('i1', m.lanes)} {m.reg}, i32 {j}"), None)

    def _gather(self, dt: DType, p: str, off: int, step: int, scattered: dict[UOp, int], assign: Assign, c: int, along: UOp | None, m: Mask | bool,
                sc: Scope) -> str:
        w, out = self.chunks(along)[c], self.out(sc)
        idx = [(self.reg(self.get(a, sc, along), assign, c, along), k) for a, k in scattered.items()]
        elems = []
        for j in range(w or 1):
            i = str(off + step * j)
            for r, k in idx:
                x = r if w is None else out(f"extractelement <{w} x i64> {r}, i32 {j}")
                i = out(f"add i64 {i}, {x if k == 1 else out(f'mul i64 {x}, {k}')}")
            q = self.line(sc.lines, f"getelementptr {memory_type(dt)}, ptr {p}, i64 {i}", "a")
            elems.append(self.read(q, dt, None, self.bit(m, j, sc), sc))
        return elems[0] if w is None else self.collect(elems, dt, w, sc)

    def read(self, p: str, dt: DType, w: int | None, m: Any, sc: Scope) -> str:
        """One register from contiguous memory; zeros where the mask is off, and nothing is touched there."""
        t, out = vector(memory_type(dt), w), self.out(sc)
        if m is True:
            r = out(f"load {t}, ptr {p}, align {dt.itemsize}")
        elif w is None or m.lanes is None:                      # the same for all lanes: read a block of zeros instead, no branch
            r = out(f"load {t}, ptr {out(f'select i1 {m.reg}, ptr {p}, ptr @zeros')}, align {dt.itemsize}")
        elif w * dt.itemsize > self.native:                     # LLVM may drop the mask of a half that is off throughout when it splits a wide load
            return self._read_parts(p, dt, w, m, sc)
        else:
            name = f"llvm.masked.load.{mangle(t)}.p0"
            self.decls.add(f"declare {t} @{name}(ptr, <{w} x i1>, {t})")
            r = out(f"call {t} @{name}(ptr align {dt.itemsize} {p}, <{w} x i1> {m.reg}, {t} zeroinitializer)")
        return self.from_memory(out, dt, w, r)

    def _parts(self, dt: DType, w: int, m: Mask, sc: Scope) -> Iterator[tuple[int, int, Mask]]:
        """(first lane, number, mask) of the pieces of a register that native registers hold."""
        n = self.native // dt.itemsize
        for a in range(0, w, n):
            k = min(n, w - a)
            if m.bits is not None and not any(m.bits[a:a + k]):
                continue
            yield a, k, Mask(self.lanes_of(m.reg, "i1", w, range(a, a + k), sc), k)

    def lanes_of(self, r: str, ty: str, w: int, lanes: range, sc: Scope) -> str:
        """Some lanes of a register, in order."""
        idx = ", ".join(f"i32 {i}" for i in lanes)
        return self.line(sc.lines, f"shufflevector <{w} x {ty}> {r}, <{w} x {ty}> poison, <{len(lanes)} x i32> <{idx}>")

    def _read_parts(self, p: str, dt: DType, w: int, m: Mask, sc: Scope) -> str:
        ty, whole = scalar_type(dt), literal(dt.const(0), dt, w)
        for a, k, part in self._parts(dt, w, m, sc):
            r = self.read(self.at(p, a, dt, sc), dt, k, part, sc)
            spread = ", ".join(f"i32 {i - a}" if a <= i < a + k else "i32 poison" for i in range(w))
            r = self.line(sc.lines, f"shufflevector <{k} x {ty}> {r}, <{k} x {ty}> poison, <{w} x i32> <{spread}>")
            both = ", ".join(f"i32 {w + i if a <= i < a + k else i}" for i in range(w))
            whole = self.line(sc.lines, f"shufflevector <{w} x {ty}> {whole}, <{w} x {ty}> {r}, <{w} x i32> <{both}>")
        return whole

    # ---- stores --------------------------------------------------------------------------------------
    def write(self, p: str, dt: DType, w: int | None, m: Any, r: str, sc: Scope) -> None:
        """One register to contiguous memory, where the mask is on."""
        t, out = vector(memory_type(dt), w), self.out(sc)
        r = self.to_memory(out, dt, w, r)
        if m is True and self.streaming and w is not None:
            sc.lines.append(f"  store {t} {r}, ptr {p}, align {w * dt.itemsize}, !nontemporal !0")
        elif m is True:
            sc.lines.append(f"  store {t} {r}, ptr {p}, align {dt.itemsize}")
        elif w is None or m.lanes is None:
            sc.lines.append(f"  store {t} {r}, ptr {out(f'select i1 {m.reg}, ptr {p}, ptr %trash')}, align {dt.itemsize}")
        elif w * dt.itemsize > self.native:
            for a, k, part in self._parts(dt, w, m, sc):
                piece = self.lanes_of(r, memory_type(dt), w, range(a, a + k), sc)
                self.masked_store(self.at(p, a, dt, sc), dt, k, part, piece, sc)
        else:
            self.masked_store(p, dt, w, m, r, sc)

    def masked_store(self, p: str, dt: DType, w: int, m: Mask, r: str, sc: Scope) -> None:
        t = vector(memory_type(dt), w)
        name = f"llvm.masked.store.{mangle(t)}.p0"
        self.decls.add(f"declare void @{name}({t}, ptr, <{w} x i1>)")
        sc.lines.append(f"  call void @{name}({t} {r}, ptr align {dt.itemsize} {p}, <{w} x i1> {m.reg})")

    def store(self, buf: UOp, idx: UOp, valid: UOp | None, val: Val, lanes: Lanes, sc: Scope, vec: UOp | None) -> None:
        """Store `val` for all lanes; a value that does not vary over a lane is stored at each."""
        lin, dt = linear(idx), buf.dtype
        same, steps, opaque = self.split(lin)
        base = self.buffers[buf] if buf.op is Op.STAGE else f"%p{buf.arg.slot}"
        p = self.address(base, dt, same, sc)
        for key in assigns(lanes):
            assign = dict(zip(lanes, key))
            off = lin[0] + sum(steps.get(a, 0) * k for a, k in assign.items())
            q = p
            scattered = {}
            for a, k in opaque.items():
                if vec is not None and vec in a.free:
                    scattered[a] = k
                else:
                    q = self.element(q, dt, self.get(a, sc, vec), assign, k, sc)
            for c in range(len(self.chunks(vec))):
                m = True if valid is None else self.mask(valid, assign, c, vec, sc)
                if m is not False:
                    step = steps.get(vec, 0) if vec is not None else 0
                    self._store_chunk(dt, q, off, step, scattered, assign, c, vec, m, self.reg(val, assign, c, vec), sc)

    def _store_chunk(self, dt: DType, p: str, off: int, step: int, scattered: dict[UOp, int], assign: Assign, c: int, vec: UOp | None, m: Mask | bool,
                     r: str, sc: Scope) -> None:
        w, o, out = self.chunks(vec)[c], self.starts(vec)[c], self.out(sc)
        if not scattered and (w is None or step == 1):
            self.write(self.at(p, off + o * step, dt, sc), dt, w, m, r, sc)
            return
        idx = [(self.reg(self.get(a, sc, vec), assign, c, vec), k) for a, k in scattered.items()]
        for j in range(w or 1):
            q = self.at(p, off + (o + j) * step, dt, sc)
            for x, k in idx:
                i = x if w is None else out(f"extractelement <{w} x i64> {x}, i32 {j}")
                q = self.line(sc.lines, f"getelementptr {memory_type(dt)}, ptr {q}, i64 {i if k == 1 else out(f'mul i64 {i}, {k}')}", "a")
            e = r if w is None else out(f"extractelement {reg_type(dt, w)} {r}, i32 {j}")
            self.write(q, dt, None, self.bit(m, j, sc), e, sc)

    @abstractmethod
    def phase(self, u: UOp, sc: Scope) -> Scope: ...
