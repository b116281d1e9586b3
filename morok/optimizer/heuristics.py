"""Actions picked by hand-written rules, in milliseconds and without timing: register tile, vectors, staging, threads."""
from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtype import dtypes
from ..errors import OptError
from ..program import Chain, Local, Opt, Padto, Stage, Stream, Swap, Thread, Unroll, Upcast
from ..target import Target
from ..uop import AxisKind, GroupOp, Op, UOp, ranges
from ..uop.lanes import lane_width
from .actions import apply_opt
from .kernel import Access, Kernel, access, closed

THREAD_WORK = 200_000            # simple operations from which a second core pays for waking it
TAPS = 32                        # reductions up to this length are written out
STREAM_BYTES = 8 << 20         # stores of so much go past the caches: nothing of it would still be there when it is read
PAGE_STRIDE = 512               # bytes between rows from which a panel is packed


class Schedule:
    """The actions taken so far and the kernel after them."""

    def __init__(self, ast: UOp, target: Target) -> None:
        self.ast, self.target, self.opts = ast, target, list[Opt]()
        self.raw = Kernel(ast)
        self.width = lane_width(ast, target.vector_bytes)

    def add(self, opt: Opt) -> bool:
        """Take an action if it applies."""
        try:
            self.ast = apply_opt(self.ast, opt)
        except OptError:
            return False
        self.opts.append(opt)
        return True

    def extent(self, axis: int) -> int:
        """What is left of an output loop."""
        r = Kernel(self.ast).output(axis)
        return r.arg.extent if r is not None else 1

    def divides(self, axis: int, n: int) -> bool:
        """n divides all reduce loops of an axis."""
        return all(r.arg.extent % n == 0 for r in ranges(self.ast) if r.arg.id == axis and r.arg.kind is AxisKind.REDUCE)

    def fit(self, axis: int, extent: int, n: int) -> bool:
        """Make `extent` a multiple of n, by padding if need be."""
        return extent % n == 0 or self.add(Padto(axis, n))


def hand_coded(ast: UOp, target: Target, aligned: bool = False) -> list[Opt]:
    """The schedule of a kernel on a machine, by the first rule that knows its kind. aligned: what it stores to begins at a multiple of 64 bytes."""
    s = Schedule(ast, target)
    for rule in (scan, convolution, product, row_reduction, column_reduction, elementwise):
        if rule(s):
            break
    threads(s)
    if aligned:
        streams(s)
    return s.opts


# ---- what a kernel is --------------------------------------------------------------------------------
def unit_axis(k: Kernel) -> UOp | None:
    """The output range along which the first store is contiguous."""
    return next((r for r, step in k.stores[0].strides.items() if step == 1 and r.arg.kind in (AxisKind.LOOP, AxisKind.SCAN)), None)


def reduce_axes(k: Kernel) -> dict[int, int]:
    """Axis ids of the reductions and their extents."""
    return {r.arg.id: r.arg.extent for u in k.reduces for r in u.src[1:]}


@dataclass(frozen=True)
class Product:
    """A sum of products: the reduction and the loads on its two sides."""
    reduce: UOp
    left: Access
    right: Access


def find_product(k: Kernel) -> Product | None:
    """The reduction that does most of the kernel's work, if it is a sum of products of two loads."""
    if not k.reduces or k.stages:
        return None
    size = {u: math.prod(r.arg.extent for r in u.src[0].free | set(u.src[1:])) for u in k.reduces}
    u = max(k.reduces, key=lambda r: size[r])
    x = u.src[0]
    while x.op in (Op.CAST, Op.WHERE):
        x = x.src[0] if x.op is Op.CAST else x.src[1]
    if u.arg is not Op.ADD or x.op is not Op.MUL or sum(size.values()) > 1.2 * size[u]:
        return None
    sides = [[v for v in s.toposort() if v.op is Op.LOAD] for s in x.src]
    if len(sides[0]) != 1 or len(sides[1]) != 1 or sides[0][0] is sides[1][0]:
        return None
    return Product(u, access(sides[0][0].src[0]), access(sides[1][0].src[0]))


def work(k: Kernel) -> int:
    """Simple operations of a kernel, loads and stores included."""
    total = 0
    for u in k.topo:
        if (u.op in GroupOp.ALU and u.dtype is not dtypes.index) or u.op in (Op.LOAD, Op.STORE):
            price = 12 if u.op in GroupOp.TRANSCENDENTAL else 1
            total += price * math.prod(r.arg.extent for r in u.free)
    return total


def largest(options: tuple[int, ...], extent: int) -> int:
    """The largest option that divides the extent; 1 if none does."""
    return next((n for n in options if n <= extent and extent % n == 0), 1)


def lanes_for(extent: int, best: int, least: int) -> int:
    """How many lanes to take of an axis: `best` if it divides or the axis is long enough to be padded, else less; 1 if the axis is too short."""
    n = best
    while n >= least:
        if extent % n == 0 or extent >= 4 * n:
            return n
        n //= 2
    return least if extent > least else extent if extent > 1 else 1


# ---- the rules ---------------------------------------------------------------------------------------
def scan(s: Schedule) -> bool:
    """Prefix reductions: lanes along the scan if it is contiguous, else along another contiguous axis."""
    k = s.raw
    if not k.scans:
        return False
    v = unit_axis(k)
    if v is not None:
        upcast_vector(s, v, lanes_for(v.arg.extent, 4 * s.width, s.width))
    return True


def product(s: Schedule) -> bool:
    """Matrix products and convolutions: a register tile of two output axes; panels of the vector operand are packed."""
    k = s.raw
    p, n = find_product(k), unit_axis(k)
    if p is None or n is None or n not in p.reduce.free:
        return False
    wide, other = (p.right, p.left) if n in p.right.index.free else (p.left, p.right)
    if n not in wide.index.free or n in other.index.free:
        return False
    rows = [r for r in other.strides if r in p.reduce.free and r not in wide.index.free and r.arg.kind is AxisKind.LOOP]
    m = max(rows, key=lambda r: r.arg.extent, default=None)
    if m is None and (wide.strides.get(n) != 1 or len(p.reduce.src) == 2):
        return False                                            # a matrix times a vector is a reduction of rows or columns
    mt, nt = tile(s, m.arg.extent if m is not None else 1, n.arg.extent)
    if nt < 2:
        return False
    if not s.fit(n.arg.id, n.arg.extent, nt):
        return False
    if m is not None and mt > 1 and s.fit(m.arg.id, m.arg.extent, mt):
        s.add(Upcast(m.arg.id, mt))
    s.add(Upcast(n.arg.id, nt, True))
    short_taps(s, p)
    if len(p.reduce.src) == 2 and p.reduce.src[1].arg.extent % 2 == 0:
        s.add(Chain(p.reduce.src[1].arg.id, 2))
    place_product(s, p, wide, m, n, mt)
    return True


def convolution(s: Schedule) -> bool:
    """Sums over a window: lanes along the channels, which no padding and no stride disturbs; weights are packed, neighbouring pixels share them."""
    k = s.raw
    p, u = find_product(k), unit_axis(k)
    if p is None or u is None or (u in p.left.strides) == (u in p.right.strides):
        return False
    image, weights = (p.left, p.right) if u in p.left.strides else (p.right, p.left)
    channels = [r for r in weights.strides if r in p.reduce.free and r not in image.index.free and r.arg.kind is AxisKind.LOOP and r.arg.extent >= s.width]
    once = sum(a.buffer is weights.buffer for a in k.loads) == 1 and not weights.opaque and len(weights.index.src) == 2
    if not channels or not once or not any(overlap(image, u, r) for r in p.reduce.src[1:]):
        return False
    c = max(channels, key=lambda r: r.arg.extent)
    rest = [r for r in k.outputs if r is not c and r is not u and r.arg.kind is AxisKind.LOOP]
    mt, nt = tile(s, u.arg.extent, c.arg.extent)
    if k.iterations // (c.arg.extent * mt) < 8 or not s.fit(c.arg.id, c.arg.extent, nt) or not s.fit(u.arg.id, u.arg.extent, mt):
        return False
    s.add(Upcast(c.arg.id, nt, True))
    if mt > 1:
        s.add(Upcast(u.arg.id, mt))
    short_taps(s, p)
    threads_n = s.target.threads
    ahead = [r for r in rest if r.arg.order < c.arg.order]
    if s.extent(c.arg.id) >= 2 * threads_n or not rest:
        if ahead:
            s.add(Swap(ahead[0].arg.id, c.arg.id))
        outer = c
    else:
        outer = next((r for r in rest if r.arg.extent >= 2 * threads_n), max(rest, key=lambda r: r.arg.extent))
    if threads_n > 1 and work(k) >= THREAD_WORK:
        s.add(Thread(outer.arg.id))
    s.add(Stage(weights.buffer.arg.slot, c.arg.id))
    return True


def overlap(a: Access, u: UOp, r: UOp) -> bool:
    """Steps along u and r reach the same elements, as a window that slides does."""
    x, y = abs(a.strides.get(u, 0)), abs(a.strides.get(r, 0))
    return bool(0 < y < x * u.arg.extent and 0 < x < y * r.arg.extent)


def tile(s: Schedule, m: int, n: int) -> tuple[int, int]:
    """Rows and lanes of the register tile: as many accumulators as fit, the least padding; wide tiles first."""
    W, room = s.width, s.target.registers - 4
    best: tuple[float, int, int] | None = None
    for nv in (2, 3, 1):
        mt = min(room // nv, m)
        if nv * W > n and nv > 1 and -(-n // W) < nv:
            continue
        for rows in dict.fromkeys((mt, max(mt - 1, 1), max(mt - 2, 1), max(mt // 2, 1))):
            padded = -(-m // rows) * rows * -(-n // (nv * W)) * nv * W
            loads = (rows + nv) / (rows * nv)                   # register loads per multiply-add
            score = padded / (m * n) * (1 + 0.6 * max(loads - 0.67, 0) + (0.15 if rows * nv < 8 else 0))
            if best is None or score < best[0] - 1e-9:
                best = (score, rows, nv * W)
    assert best is not None
    return (best[1], best[2]) if n >= W else (min(m, 8), n)


def short_taps(s: Schedule, p: Product) -> None:
    """Write out the short loops of a convolution's window."""
    taps = sorted((r for r in p.reduce.src[1:] if r.arg.extent <= 4), key=lambda r: r.arg.extent)
    if len(p.reduce.src) > 2:
        total = 1
        for r in taps:
            if total * r.arg.extent <= 4:
                total *= r.arg.extent
                s.add(Chain(r.arg.id, r.arg.extent))


def place_product(s: Schedule, p: Product, wide: Access, m: UOp | None, n: UOp, mt: int) -> None:
    """Loop order, threads and packing: panels of lanes outermost, so that a packed panel serves all rows."""
    k, threads_n = s.raw, s.target.threads
    batch = [r for r in k.outputs if r is not m and r is not n and r.arg.kind is AxisKind.LOOP]
    panels, tiles = s.extent(n.arg.id), s.extent(m.arg.id) if m is not None else 1
    busy = work(k) >= THREAD_WORK and threads_n > 1
    outer = next((r for r in batch if r.arg.extent >= 2 * threads_n), None)
    if m is not None and panels > 1 and tiles > 1 and n.arg.order > m.arg.order:
        s.add(Swap(m.arg.id, n.arg.id))
    if busy and outer is not None:
        s.add(Thread(outer.arg.id))
    elif busy and panels >= threads_n:
        s.add(Thread(n.arg.id))
    elif busy and m is not None and tiles >= threads_n:
        s.add(Thread(m.arg.id))
        if panels > 1:                                          # they would be packed anew for each row of tiles
            return
    reduce_step = min((abs(step) for r, step in wide.strides.items() if r in p.reduce.src[1:]), default=0)
    strided = wide.strides.get(n, 0) != 1
    far = reduce_step * wide.buffer.dtype.itemsize >= PAGE_STRIDE
    if m is not None and (far or strided or wide.buffer.dtype.itemsize < 4) and tiles > 8 and not wide.opaque and not len(wide.index.src) > 2:
        s.add(Stage(wide.buffer.arg.slot, n.arg.id)) or s.add(Stage(wide.buffer.arg.slot, m.arg.id))


def row_reduction(s: Schedule) -> bool:
    """Reductions along a contiguous axis: partial results in vector lanes; several rows at once where nothing but the reduction is done."""
    k = s.raw
    if not k.reduces:
        return False
    largest_size = max((size(a) for a in k.loads), default=0)
    contiguous = {r.arg.id for a in k.loads if size(a) == largest_size for r, step in a.strides.items() if step == 1 and r.arg.kind is AxisKind.REDUCE}
    axes = [(n, a) for a, n in reduce_axes(k).items() if a in contiguous]
    if not axes:
        return False
    n, axis = max(axes)
    rows = shared_rows(k)
    row = max(rows, key=lambda r: r.arg.order, default=None)
    alone = not k.stages and len(rows) == len(k.outputs) and all({r.arg.id for r in u.src[1:]} == {axis} for u in k.reduces)
    total = math.prod(reduce_axes(k).values())
    if n < s.width or (n <= (TAPS if alone else 2 * s.width) and total == n and k.iterations >= 8 * n):
        return False
    if alone and row is not None and row.arg.extent >= 16:
        multi_row(s, axis, n, row)
        return True
    whole = len(k.reduces) == 1 and not k.stages
    best = n if n <= 4 * s.width and n % s.width == 0 else (8 if whole else 4 if n >= 64 * s.width else 2) * s.width
    lanes = lanes_for(n, best, s.width)
    if lanes > 1 and s.fit(axis, n, lanes):
        s.add(Unroll(axis, lanes, True))
        s.add(Upcast(axis, min(lanes, 4 * s.width), True))
    v = unit_axis(k)
    if v is not None and v.arg.id != axis and v.arg.kind is AxisKind.LOOP and v not in rows:
        upcast_vector(s, v, lanes_for(v.arg.extent, 4 * s.width, s.width))
    return True


def size(a: Access) -> int:
    """Elements that an access reaches."""
    return math.prod(r.arg.extent for r in a.strides)


def shared_rows(k: Kernel) -> list[UOp]:
    """Output loops that all reductions and buffers run inside of."""
    inner = {r for u in (*k.reduces, *k.stages) for r in closed(u)}
    once = [u.free for u in (*k.reduces, *k.stages) if not u.free & inner]
    return [r for r in k.outputs if r.arg.kind is AxisKind.LOOP and all(r in f for f in once)]


def upcast_vector(s: Schedule, v: UOp, lanes: int) -> None:
    """Vector lanes along an output loop."""
    if lanes > 1 and s.fit(v.arg.id, v.arg.extent, lanes):
        s.add(Upcast(v.arg.id, lanes, True))


def multi_row(s: Schedule, axis: int, n: int, row: UOp) -> None:
    """Several rows side by side: memory gives more to several streams than to one. Four accumulators in all."""
    at_once = largest((4, 2), row.arg.extent)
    if row.arg.extent // at_once < 2 * s.target.threads:
        at_once = 1
    lanes = lanes_for(n, 4 // at_once * s.width, s.width)
    if lanes > 1 and s.fit(axis, n, lanes):
        s.add(Unroll(axis, lanes, True))
    if at_once > 1:
        s.add(Upcast(row.arg.id, at_once))


def column_reduction(s: Schedule) -> bool:
    """Reductions over an axis that is not contiguous: lanes along the contiguous output axis, several terms a visit."""
    k = s.raw
    if not k.reduces:
        return False
    v, axes = unit_axis(k), reduce_axes(k)
    if v is not None and v.arg.id in axes:                      # short rows: side by side
        v = max(shared_rows(k), key=lambda r: r.arg.extent, default=v)
    if v is None:
        return True
    reads = any(a.strides.get(v) == 1 for a in k.loads)
    lanes = lanes_for(v.arg.extent, 4 * s.width if reads else s.width, min(s.width, 4))
    upcast_vector(s, v, lanes)
    if math.prod(axes.values()) <= TAPS:
        for axis, n in axes.items():
            s.add(Chain(axis, n))
        return True
    long = max(axes, key=lambda a: axes[a])
    terms = 2 if k.stages else 8
    if axes[long] % 2 and axes[long] >= 64:
        s.add(Padto(long, terms))
    s.add(Chain(long, next((n for n in (terms, 4, 2) if n <= terms and s.divides(long, n)), 1)))
    blocks = s.extent(v.arg.id)
    if not k.stages and axes[long] >= 64 and lanes >= s.width and blocks >= 4 * s.target.threads:
        fitting = [b for b in range(4, min(64, blocks // s.target.threads) + 1) if blocks % b == 0]
        if fitting:
            s.add(Local(v.arg.id, fitting[-1]))
    return True


def elementwise(s: Schedule) -> bool:
    """Maps: lanes along the store's contiguous axis; a square tile where a load is contiguous along another axis."""
    k = s.raw
    v = unit_axis(k)
    if v is None:
        return True
    across = [r for a in k.loads for r, step in a.strides.items() if step == 1 and r is not v and r in k.outputs and a.strides.get(v, 0) > 1 and not a.opaque
              and len(a.index.src) == 2]
    W = s.width
    if across and across[0].arg.extent >= W and v.arg.extent >= W:
        u = across[0]
        if s.fit(u.arg.id, u.arg.extent, W) and s.fit(v.arg.id, v.arg.extent, 2 * W if v.arg.extent >= 2 * W else W):
            s.add(Upcast(v.arg.id, 2 * W if v.arg.extent >= 2 * W else W, True))
            s.add(Upcast(u.arg.id, W))
            if v.arg.order > u.arg.order:
                s.add(Swap(u.arg.id, v.arg.id))
        return True
    dear = sum(12 if u.op in GroupOp.TRANSCENDENTAL else 1 for u in k.topo if u.op in GroupOp.ALU and u.dtype is not dtypes.index)
    lanes = lanes_for(v.arg.extent, (2 if dear > 60 else 4) * W, W)
    upcast_vector(s, v, lanes)
    return True


def threads(s: Schedule) -> None:
    """The outermost output loop that every phase runs inside of is shared among the threads, if there is enough to do."""
    n = s.target.threads
    k = Kernel(s.ast)
    if n < 2 or work(s.raw) < THREAD_WORK or any(r.arg.kind is AxisKind.THREAD for r in k.ranges):
        return
    loops = [r for r in shared_rows(k) if all(r in st.free for st in s.ast.src)]
    if not loops:
        return
    loops.sort(key=lambda r: r.arg.order)
    best = next((r for r in loops if r.arg.extent >= 4 * n), None) or max(loops, key=lambda r: r.arg.extent)
    if best.arg.extent >= 2:
        s.add(Thread(best.arg.id))


def streams(s: Schedule) -> None:
    """Large outputs of kernels that memory holds up are written past the caches, a whole line at a time."""
    k = s.raw
    if k.stages or k.scans or find_product(k) is not None:
        return
    for i, st in enumerate(k.ast.src):
        size = math.prod(r.arg.extent for r in st.free) * st.src[0].dtype.itemsize
        step = s.width * max(st.src[0].dtype.itemsize, 1)
        whole = all(c % s.width == 0 for r, c in k.stores[i].strides.items() if c != 1) and not k.stores[i].opaque
        if size >= STREAM_BYTES and whole and step % 32 == 0:
            s.add(Stream(i))
