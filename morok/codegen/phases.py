"""Loop nests that leave something behind: REDUCE (accumulators), SCAN (a carry), STAGE (a buffer), STORE."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import IRError
from ..helpers import ceildiv, prod
from ..uop import AxisKind, Op, UOp, identity, loop_key, toposort
from .emit import computed_in, literal, reg_type, vector
from .masks import half_spaces
from .memory import Memory
from .values import Linear, Scope, Val, assigns, sorted_lanes

Body = Callable[[Scope], Any]
Segment = tuple[int, int]


def closes(u: UOp) -> tuple[UOp, ...]:
    """The ranges that a phase runs over and that are gone after it."""
    return u.src[1:] if u.op is Op.REDUCE else u.src[2:] if u.op is Op.STAGE else ()


def vector_axis(lanes: Any) -> UOp | None:
    """The lane axis that the schedule put into vector registers; an output axis before a reduce axis."""
    marked = [r for r in sorted_lanes(lanes) if r.arg.vector]
    return marked[0] if marked else None


class Phases(Memory):
    """Opens loops, cuts them where a guard becomes provable, and fills them."""

    def __init__(self, width: int, native: int, ast: UOp) -> None:
        super().__init__(width, native)
        self.ast = ast
        self.entry: list[str] = []                             # what the function does first: stack slots, scratch addresses
        self.scratch = 0
        topo = ast.toposort()
        self.phases = [u for u in topo if u.op in (Op.REDUCE, Op.STAGE)]
        self.below: dict[UOp, frozenset[UOp]] = {}             # phases that a node depends on
        for u in topo:
            b = frozenset().union(*(self.below[s] for s in u.src)) if u.src else frozenset()
            self.below[u] = b | {u} if u.op in (Op.REDUCE, Op.STAGE) else b
        self._forms: dict[tuple[UOp, ...], list[Linear]] = {}

    # ---- loops -----------------------------------------------------------------------------------------
    def nest(self, loops: Sequence[UOp], sc: Scope, roots: tuple[UOp, ...], body: Body, peel: bool = True) -> None:
        """Open `loops`, outermost first. A loop whose guards hold in a large middle part runs that part unguarded, then its borders in one more copy."""
        if not loops:
            body(sc)
            return
        r, n = loops[0], loops[0].arg.extent
        main = self.main_part(r, sc, roots) if peel else (0, n)

        def inner(deeper: bool) -> Body:
            return lambda s: self.nest(loops[1:], s, roots, body, deeper)
        self.loop(r, [main], sc, inner(peel))
        borders = [(a, b) for a, b in ((0, main[0]), (main[1], n)) if a < b]
        if borders:
            self.loop(r, borders, sc, inner(False))

    def main_part(self, r: UOp, sc: Scope, roots: tuple[UOp, ...]) -> Segment:
        """The iterations in which the guards over `r` hold, if that is most of them; else all."""
        a, b, n = 0, r.arg.extent, r.arg.extent
        for c0, t in self.forms(roots):
            c = t.get(r, 0)
            if not c:
                continue
            hi = self.interval((c0, {k: v for k, v in t.items() if k is not r}), sc, {})[1]
            x, y = (a, min(b, (-hi - 1) // c + 1)) if c > 0 else (max(a, hi // -c + 1), b)
            if x < y:
                a, b = x, y
        if (b - a) * 2 < n or b - a < 2 or (r.arg.kind is AxisKind.SCAN and a):
            return 0, n
        return a, b

    def forms(self, roots: tuple[UOp, ...]) -> list[Linear]:
        """Linear forms of all position guards below `roots`."""
        found = self._forms.get(roots)
        if found is None:
            found = self._forms[roots] = [f for u in toposort(roots) if u.op in (Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.NOT) for f in half_spaces(u) or ()
                                          if all(a.op is Op.RANGE for a in f[1])]
        return found

    def loop(self, r: UOp, segments: list[Segment], sc: Scope, inner: Body) -> None:
        """One copy of the body that runs over all `segments` of r."""
        label = self.name("b")[1:]
        child = Scope(sc, r, (segments[0][0], segments[-1][1] - 1), label)
        if sum(b - a for a, b in segments) == 1 and r.arg.kind is not AxisKind.THREAD:
            at = segments[0][0]
            child.bounds, child.block = (at, at), sc.block
            child.vals[r] = Val((), None, r.dtype, {(): (str(at),)}, child)
            inner(child)
            sc.lines += child.lines
            sc.block = child.block
            return
        start, end = self._limits(r, segments, sc)
        i = count = f"%i{label}"
        if len(segments) > 1:                                  # two borders: count through both, step over the middle
            i, split, skip = self._two_segments(r, segments, sc, child, count)
            start, end = "0", split
        child.vals[r] = Val((), None, r.dtype, {(): (i,)}, child)
        exit_label = f"x{label}"
        inner(child)
        if r.arg.kind is AxisKind.THREAD:                      # may be empty; what the body put into `sc` stays in front of the branch
            c = self.line(sc.lines, f"icmp slt i64 {start}, {end}", "c")
            sc.lines += [f"  br i1 {c}, label %p{label}, label %{exit_label}", f"p{label}:"]
            sc.block = f"p{label}"
        nxt, c = self.name("n"), self.name("c")
        sc.lines += [f"  br label %{label}", f"{label}:", f"  {count} = phi i64 [{start}, %{sc.block}], [{nxt}, %{child.block}]", *child.lines,
                     f"  {nxt} = add nuw nsw i64 {count}, 1", f"  {c} = icmp slt i64 {nxt}, {end}",
                     f"  br i1 {c}, label %{label}, label %{exit_label}", f"{exit_label}:"]
        sc.block = exit_label

    def _limits(self, r: UOp, segments: list[Segment], sc: Scope) -> tuple[str, str]:
        lo, hi = segments[0][0], segments[-1][1]
        if r.arg.kind is not AxisKind.THREAD:
            return str(lo), str(hi)
        return self._clip("smax", "%start", lo, sc), self._clip("smin", "%end", hi, sc)

    def _clip(self, how: str, x: str, to: int, sc: Scope) -> str:
        return self.call(self.out(sc), how, "i64", [("i64", x), ("i64", str(to))], ["i64"])

    def _two_segments(self, r: UOp, segments: list[Segment], sc: Scope, child: Scope, count: str) -> tuple[str, str, str]:
        (a0, a1), (b0, b1) = segments
        out = self.out(sc)
        if r.arg.kind is AxisKind.THREAD:
            lo1, hi1 = self._clip("smax", "%start", a0, sc), self._clip("smin", "%end", a1, sc)
            lo2, hi2 = self._clip("smax", "%start", b0, sc), self._clip("smin", "%end", b1, sc)
            n1 = self.call(out, "smax", "i64", [("i64", out(f"sub i64 {hi1}, {lo1}")), ("i64", "0")], ["i64"])
            n2 = self.call(out, "smax", "i64", [("i64", out(f"sub i64 {hi2}, {lo2}")), ("i64", "0")], ["i64"])
            total = out(f"add i64 {n1}, {n2}")
            jump = out(f"sub i64 {lo2}, {n1}")
        else:
            lo1, n1, total, jump = str(a0), str(a1 - a0), str(a1 - a0 + b1 - b0), str(b0 - a1 + a0)
        inside = self.out(child)
        first = inside(f"icmp slt i64 {count}, {n1}")
        base = inside(f"select i1 {first}, i64 {lo1}, i64 {jump}")
        return inside(f"add i64 {count}, {base}"), total, jump

    # ---- phases ------------------------------------------------------------------------------------------
    def scope_of(self, u: UOp, sc: Scope) -> Scope:
        return self.place({r for r in u.free if r.arg.kind is not AxisKind.LOCAL or u.op is Op.STAGE}, sc)

    def local_ranges(self, u: UOp) -> list[UOp]:
        """LOCAL ranges that a REDUCE keeps an accumulator for, each."""
        return sorted((r for r in u.free if r.arg.kind is AxisKind.LOCAL and u.op is Op.REDUCE), key=loop_key)

    def group_of(self, u: UOp, home: Scope, sc: Scope) -> list[UOp]:
        """`u` and every independent phase over the same ranges at the same scope: they share one loop."""
        group, mine, local = [u], set(closes(u)), set(self.local_ranges(u))
        for q in self.phases:
            if q is not u and set(closes(q)) == mine and self.scope_of(q, sc) is home and ("done", q) not in home.vals \
               and (q.op is Op.STAGE or set(self.local_ranges(q)) == local) and not any(q in self.below[g] or g in self.below[q] for g in group):
                group.append(q)
        return group

    def phase(self, u: UOp, sc: Scope) -> Scope:
        """Run the loops of `u`, once in its scope."""
        home = self.scope_of(u, sc)
        if any(("done", u) in s.vals for s in home.chain()):
            return home
        group = self.group_of(u, home, sc)
        roots = tuple(g.src[0] for g in group)
        lanes = {a for x in roots for a in x.free if a.arg.kind.is_lane}
        vec = vector_axis(lanes)
        loops = sorted((r for r in closes(u) if not r.arg.kind.is_lane), key=loop_key)
        outer, inner = [r for r in loops if r.arg.kind is not AxisKind.RLOCAL], [r for r in loops if r.arg.kind is AxisKind.RLOCAL]
        local = self.local_ranges(u)
        accs = {g: self._accumulators(g, vec, home) for g in group if g.op is Op.REDUCE}
        for g in group:
            if g.op is Op.STAGE and g not in self.buffers:       # the copies of a peeled loop take turns with one buffer
                self.buffers[g] = self.allocate(g.arg.size * g.dtype.itemsize)

        def body(s: Scope) -> None:
            for g in group:
                if g.op is Op.STAGE:
                    self._store_stage(g, s, vec)
                else:
                    self._accumulate(g, accs[g], s)
        if local:
            self._local_nest(accs, outer, inner, local, home, roots, body)
        else:
            for g, acc in accs.items():
                self._initialize(g, acc, home)
            self.nest(outer + inner, home, roots, body)
        for g in group:
            home.vals[("done", g)] = True
        for g, acc in accs.items():
            if local:
                home.vals[("read", g)] = acc
            else:
                home.vals[g] = self._finish(g, acc, home)
        return home

    def _store_stage(self, g: UOp, s: Scope, vec: UOp | None) -> None:
        along = vec if vec is not None and vec in g.src[1].free else None
        lanes = tuple(a for a in sorted_lanes(g.src[1].free | g.src[0].free) if a is not along)
        self.store(g, g.src[1], None, self.get(g.src[0], s, along), lanes, s, along)

    def reduce_value(self, u: UOp, sc: Scope) -> None:
        home = self.phase(u, sc)
        acc = self.lookup(("read", u), home)
        if acc is not None:                                     # one accumulator per LOCAL iteration, in a buffer
            s = self.place(u.free, sc)
            self._copy_accumulators({u: acc}, self.local_ranges(u), s, save=False)
            s.vals[u] = self._finish(u, acc, s)

    # ---- accumulators ------------------------------------------------------------------------------------
    def _accumulators(self, g: UOp, vec: UOp | None, home: Scope) -> Val:
        """Stack slots, one per register; `sroa` makes them registers."""
        x = g.src[0]
        av = vec if vec is not None and vec in x.free else None
        chained = {a for a in closes(g) if a.arg.kind is AxisKind.CHAIN}      # an outer reduction's CHAIN lanes have a result of this one each
        lanes = tuple(a for a in sorted_lanes(x.free | set(closes(g))) if a not in chained and a is not av)
        return Val(lanes, av, g.dtype, {k: tuple(self.alloca(reg_type(g.dtype, w)) for w in self.chunks(av)) for k in assigns(lanes)}, home)

    def alloca(self, ty: str) -> str:
        r = self.name("acc")
        self.entry.append(f"  {r} = alloca {ty}, align 64")
        return r

    def allocate(self, size: int) -> str:
        """Address of `size` bytes of the calling thread's scratch."""
        r = self.name("buf")
        self.entry.append(f"  {r} = getelementptr i8, ptr %scratch, i64 {self.scratch}")
        self.scratch += ceildiv(size + 64, 64) * 64
        return r

    def each(self, acc: Val) -> Iterator[tuple[tuple[int, ...], int, int | None, str]]:
        widths = self.chunks(acc.vec)
        for k, row in acc.regs.items():
            for c, r in enumerate(row):
                yield k, c, widths[c], r

    def _initialize(self, g: UOp, acc: Val, s: Scope) -> None:
        zero = identity(g.arg, g.dtype.min, g.dtype.max)
        for _, _, w, r in self.each(acc):
            s.lines.append(f"  store {reg_type(g.dtype, w)} {literal(zero, g.dtype, w)}, ptr {r}")

    def _accumulate(self, g: UOp, acc: Val, s: Scope) -> None:
        """acc = acc op value, for every lane; a product is added by fused multiply-add, a guarded value only where its guard holds."""
        dt, op, x = g.dtype, g.arg, g.src[0]
        zero, cond = identity(op, dt.min, dt.max), None
        if x.op is Op.WHERE and self.is_guard(x.src[0]) and x.src[2].op is Op.CONST and x.src[2].arg == zero:
            cond, x = x.src[0], x.src[1]
            for q in self.mask_needs(cond):
                self.get(q, s, acc.vec)
        fused = op is Op.ADD and x.op is Op.MUL and dt.is_float and self.lookup(x, s) is None
        values = [self.get(v, s, acc.vec) for v in (x.src if fused else (x,))]
        chain = tuple(a for a in sorted_lanes(g.src[0].free | set(closes(g))) if a not in acc.lanes and a is not acc.vec)
        out = self.out(s)
        for k, c, w, r in self.each(acc):
            ty, here = reg_type(dt, w), dict(zip(acc.lanes, k))
            total = out(f"load {ty}, ptr {r}")
            for kk in assigns(chain):
                assign = {**here, **dict(zip(chain, kk))}
                m = True if cond is None else self.mask(cond, assign, c, acc.vec, s)
                if m is False:
                    continue
                regs = [self.reg(v, assign, c, acc.vec) for v in values]
                new = self.alu(out, Op.FMA, dt, dt, w, [*regs, total]) if fused else self.alu(out, op, dt, dt, w, [total, regs[0]])
                total = new if m is True else self.choose(out, m, w, dt, new, total)
            s.lines.append(f"  store {ty} {total}, ptr {r}")

    def _local_nest(self, accs: dict[UOp, Val], outer: list[UOp], inner: list[UOp], local: list[UOp], home: Scope, roots: tuple[UOp, ...], body: Body) -> None:
        """The LOCAL loops run inside the reduction; their accumulators lie in an L1 buffer between visits."""
        for g, acc in accs.items():
            if g not in self.buffers:
                n = prod(r.arg.extent for r in local) * sum(w or 1 for _, _, w, _ in self.each(acc))
                self.buffers[g] = self.allocate(n * computed_in(g.dtype).itemsize)

        def start(s: Scope) -> None:
            for g, acc in accs.items():
                self._initialize(g, acc, s)
            self._copy_accumulators(accs, local, s, save=True)

        def visit(s: Scope) -> None:
            self._copy_accumulators(accs, local, s, save=False)
            self.nest(inner, s, roots, body)
            self._copy_accumulators(accs, local, s, save=True)
        self.nest(local, home, (), start)
        self.nest(outer + local, home, roots, visit)

    def _copy_accumulators(self, accs: dict[UOp, Val], local: list[UOp], s: Scope, save: bool) -> None:
        for g, acc in accs.items():
            per = sum(w or 1 for _, _, w, _ in self.each(acc))
            terms, step, dt = {}, per, computed_in(g.dtype)
            for loop in reversed(local):
                terms[loop] = step
                step *= loop.arg.extent
            p, n = self.address(self.buffers[g], dt, terms, s), 0
            for _, _, w, r in self.each(acc):
                ty, q = reg_type(dt, w), self.at(p, n, dt, s)
                src, dst = (r, q) if save else (q, r)
                s.lines.append(f"  store {ty} {self.line(s.lines, f'load {ty}, ptr {src}, align {dt.itemsize}')}, ptr {dst}, align {dt.itemsize}")
                n += w or 1

    def _finish(self, g: UOp, acc: Val, s: Scope) -> Val:
        """Read the accumulators and fold the lanes that the reduction closes: registers first, then inside the vector."""
        gone, out = set(closes(g)), self.out(s)
        keep = tuple(a for a in acc.lanes if a not in gone)
        rows: dict[tuple[int, ...], list[list[str]]] = {}
        for k, row in acc.regs.items():
            regs = [out(f"load {reg_type(g.dtype, w)}, ptr {r}") for w, r in zip(self.chunks(acc.vec), row)]
            rows.setdefault(tuple(n for a, n in zip(acc.lanes, k) if a in keep), []).append(regs)
        widths = self.chunks(acc.vec)
        fold = acc.vec is not None and acc.vec in gone
        return Val(keep, None if fold else acc.vec, g.dtype, {k: self._fold(g, rs, widths, fold, s) for k, rs in rows.items()}, s)

    def _fold(self, g: UOp, rows: list[list[str]], widths: tuple[int | None, ...], horizontal: bool, s: Scope) -> tuple[str, ...]:
        if horizontal and len(set(widths)) == 1:
            rows, widths = [[r] for row in rows for r in row], widths[:1]
        while len(rows) > 1:
            rows = [[self.combine(g, w, a, b, s) for w, a, b in zip(widths, *rows[i:i + 2])] if i + 1 < len(rows) else rows[i] for i in range(0, len(rows), 2)]
        if not horizontal:
            return tuple(rows[0])
        parts = [self._horizontal(g, r, w or 1, s) for r, w in zip(rows[0], widths)]
        x = parts[0]
        for y in parts[1:]:
            x = self.combine(g, None, x, y, s)
        return (x,)

    def combine(self, g: UOp, w: int | None, a: str, b: str, s: Scope) -> str:
        return self.alu(self.out(s), g.arg, g.dtype, g.dtype, w, [a, b])

    def _horizontal(self, g: UOp, r: str, w: int, s: Scope) -> str:
        out = self.out(s)
        while w > 1 and w % 2 == 0:
            t, h = reg_type(g.dtype, w), w // 2
            a, b = (out(f"shufflevector {t} {r}, {t} poison, <{h} x i32> <{', '.join(f'i32 {i + o}' for i in range(h))}>") for o in (0, h))
            r, w = self.combine(g, h, a, b, s), h
        t = reg_type(g.dtype, w)
        elems = [str(out(f"extractelement {t} {r}, i32 {i}")) for i in range(w)]
        x = elems[0]
        for y in elems[1:]:
            x = self.combine(g, None, x, y, s)
        return x

    # ---- prefix reductions --------------------------------------------------------------------------------
    def scan(self, u: UOp, sc: Scope, vec: UOp | None) -> Val:
        """Inclusive prefix over u.src[1:]: the carry of the loop, then the lanes in order."""
        mine = u.src[1:]
        loops = sorted((r for r in mine if not r.arg.kind.is_lane), key=loop_key)
        steps = sorted_lanes(mine)
        if vec in steps[:-1]:                                  # lanes of a register must be neighbours in the scan
            vec = None
        x = self.get(u.src[0], sc, vec)
        lanes = tuple(a for a in sorted_lanes(u.free) if a is not vec)
        others = tuple(a for a in lanes if a not in steps)
        inside = vec is not None and vec in steps
        widths = self.chunks(vec)
        carries = self._carry(u, loops, sc, list(assigns(others)), (None,) if inside else widths)
        regs: dict[tuple[int, ...], list[str]] = {k: [""] * len(widths) for k in assigns(lanes)}
        order = tuple(a for a in steps if a is not vec)
        out = self.out(sc)
        for k in assigns(others):
            for i, w in enumerate((None,) if inside else widths):
                acc = out(f"load {reg_type(u.dtype, w)}, ptr {carries[k][i]}")
                for kk in assigns(order):
                    assign = {**dict(zip(others, k)), **dict(zip(order, kk))}
                    row = regs[tuple([assign[a] for a in lanes])]
                    if inside:
                        for c, cw in enumerate(widths):
                            row[c], acc = self._prefix(u, self.reg(x, assign, c, vec), cw or 1, acc, sc)
                    else:
                        row[i] = acc = self.combine(u, w, acc, self.reg(x, assign, i, vec), sc)
                sc.lines.append(f"  store {reg_type(u.dtype, w)} {acc}, ptr {carries[k][i]}")
        return Val(lanes, vec, u.dtype, {k: tuple(r) for k, r in regs.items()}, sc)

    def _carry(self, u: UOp, loops: list[UOp], sc: Scope, keys: list[tuple[int, ...]], widths: tuple[int | None, ...]) -> dict[tuple[int, ...], list[str]]:
        """The carries, set to the identity where the outermost loop of the scan starts; shared by the copies of a peeled loop."""
        if not loops:
            home = sc
        else:
            home = next(s for s in sc.chain() if s.loop is loops[0]).parent or sc
            if any(s.loop is not None and s.loop not in loops for s in sc.chain() if s.depth > home.depth):
                raise IRError(f"a loop runs inside the SCAN over {[r.arg for r in loops]}: the carry would need an array")
        found = home.vals.get(("carry", u))
        if found is None:
            zero = identity(u.arg, u.dtype.min, u.dtype.max)
            found = home.vals[("carry", u)] = {k: [self.alloca(reg_type(u.dtype, w)) for w in widths] for k in keys}
            for row in found.values():
                for w, r in zip(widths, row):
                    home.lines.append(f"  store {reg_type(u.dtype, w)} {literal(zero, u.dtype, w)}, ptr {r}")
        return found

    def _prefix(self, u: UOp, r: str, w: int, carry: str, s: Scope) -> tuple[str, str]:
        """Prefix inside one register by shifting 1, 2, 4, ... lanes; the carry joins last, so that it waits for one op only."""
        out, t, d = self.out(s), reg_type(u.dtype, w), 1
        neutral = literal(identity(u.arg, u.dtype.min, u.dtype.max), u.dtype, w)
        while d < w:
            idx = ", ".join(f"i32 {i - d if i >= d else w}" for i in range(w))
            r = self.combine(u, w, out(f"shufflevector {t} {r}, {t} {neutral}, <{w} x i32> <{idx}>"), r, s)
            d *= 2
        last = out(f"extractelement {t} {r}, i32 {w - 1}")
        zero = out(f"insertelement {t} poison, {reg_type(u.dtype, None)} {carry}, i32 0")
        all_carry = out(f"shufflevector {t} {zero}, {t} poison, {vector('i32', w)} zeroinitializer")
        return self.combine(u, w, all_carry, r, s), self.combine(u, None, carry, last, s)
