"""A small NumPy interpreter of tensor graphs and kernel ASTs: the oracle that generated code is compared with.

Every float op is computed in float64 and rounded once to its dtype, which is correctly rounded for + - * / sqrt. bfloat16 is held as float32 that is
rounded to bfloat16. With `wide=True` floats are float64 throughout and are never rounded.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dtype import DType, dtypes
from ..errors import IRError
from .node import UOp, toposort
from .op import GroupOp, Op, identity

Array = NDArray[Any]
_erf = np.vectorize(math.erf, otypes=[np.float64])


def storage(dt: DType, wide: bool = False) -> np.dtype[Any]:
    """The NumPy dtype that holds values of `dt`."""
    if dt.is_float and wide:
        return np.dtype(np.float64)
    return np.dtype({dtypes.index: "int64", dtypes.bfloat16: "float32"}.get(dt, dt.name))


def round_floats(x: Array, dt: DType, wide: bool = False) -> Array:
    """float64 values rounded to the float type `dt`, ties to even."""
    if wide or dt is dtypes.float64:
        return x
    if dt is not dtypes.bfloat16:
        return x.astype(storage(dt))
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    kept = ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), kept)


# ---- elementwise ops ---------------------------------------------------------------------------------------------------

def _floor_divide(x: Array, y: Array) -> Array:
    plain = np.floor_divide(x, np.where((y == 0) | _is_minus_one(y), np.ones_like(y), y))
    return np.where(y == 0, np.zeros_like(x), np.where(_is_minus_one(y), np.negative(x), plain))


def _remainder(x: Array, y: Array) -> Array:
    dull = (y == 0) | _is_minus_one(y)
    return np.where(dull, np.zeros_like(x), np.remainder(x, np.where(dull, np.ones_like(y), y)))


def _is_minus_one(y: Array) -> Any:
    return y == -1 if y.dtype.kind == "i" else np.zeros_like(y, np.bool_)


def _shift_left(x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < x.dtype.itemsize * 8)
    return np.where(inside, np.left_shift(x, np.where(inside, y, np.zeros_like(y))), np.zeros_like(x))


def _shift_right(x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < x.dtype.itemsize * 8)
    outside = np.where(x < 0, ~np.zeros_like(x), np.zeros_like(x))
    return np.where(inside, np.right_shift(x, np.where(inside, y, np.zeros_like(y))), outside)


def _maximum(x: Array, y: Array) -> Array:
    """NaN if either is; of two zeros the first."""
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(y > x, y, x))


def _minimum(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(y < x, y, x))


FLOATS: dict[Op, Callable[..., Any]] = {
    Op.NEG: np.negative, Op.ABS: np.abs, Op.SQRT: np.sqrt, Op.EXP: np.exp, Op.EXP2: np.exp2, Op.LOG: np.log, Op.LOG2: np.log2, Op.SIN: np.sin,
    Op.COS: np.cos, Op.TAN: np.tan, Op.TANH: np.tanh, Op.ERF: _erf, Op.FLOOR: np.floor, Op.CEIL: np.ceil, Op.TRUNC: np.trunc, Op.RINT: np.rint,
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide, Op.MOD: np.mod, Op.POW: np.power, Op.MAX: _maximum,
    Op.MIN: _minimum}
INTEGERS: dict[Op, Callable[..., Any]] = {
    Op.NEG: np.negative, Op.ABS: np.abs, Op.NOT: np.invert, Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.IDIV: _floor_divide,
    Op.MOD: _remainder, Op.MAX: np.maximum, Op.MIN: np.minimum, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
    Op.SHL: _shift_left, Op.SHR: _shift_right}
BOOLS: dict[Op, Callable[..., Any]] = {
    Op.NOT: np.logical_not, Op.ADD: np.logical_or, Op.MUL: np.logical_and, Op.MAX: np.logical_or, Op.MIN: np.logical_and, Op.AND: np.logical_and,
    Op.OR: np.logical_or, Op.XOR: np.logical_xor}
COMPARES: dict[Op, Callable[..., Any]] = {Op.CMPLT: np.less, Op.CMPLE: np.less_equal, Op.CMPEQ: np.equal, Op.CMPNE: np.not_equal}


def function(op: Op, dt: DType) -> Any:
    """The NumPy function of an elementwise op on sources of type `dt`."""
    table = COMPARES if op in COMPARES else FLOATS if dt.is_float else BOOLS if dt.is_bool else INTEGERS
    if op not in table:
        raise IRError(f"{op} has no meaning on {dt.name}")
    return table[op]


def elementwise(u: UOp, args: list[Array], wide: bool = False) -> Array:
    """The value of an elementwise node from those of its sources."""
    dt = u.dtype
    if u.op is Op.CAST:
        return convert(args[0], u.src[0].dtype, dt, wide)
    if u.op is Op.BITCAST:
        return _bitcast(args[0], u.src[0].dtype, dt, wide)
    if u.op is Op.WHERE:
        return np.where(args[0], args[1], args[2])
    if u.op is Op.FMA:
        return _fma(args, dt, wide)
    f = function(u.op, u.src[0].dtype)
    if not u.src[0].dtype.is_float or u.op in COMPARES:
        return np.asarray(f(*args))
    return round_floats(np.asarray(f(*(a.astype(np.float64) for a in args))), dt, wide)


def convert(x: Array, src: DType, dst: DType, wide: bool = False) -> Array:
    """CAST: float to integer truncates, saturates and gives 0 for NaN; integer to integer wraps; to bool is x != 0."""
    if dst.is_bool:
        return np.asarray(x != 0)
    if dst.is_float:
        direct = dst in (dtypes.float32, dtypes.float64) and not wide
        return x.astype(storage(dst)) if direct else round_floats(x.astype(np.float64), dst, wide)
    if not src.is_float:
        return x.astype(storage(dst))
    lo, hi, wide_x = float(storage_limits(dst)[0]), float(storage_limits(dst)[1]), x.astype(np.float64)
    inside = (wide_x > lo) & (wide_x < hi)
    cut = np.where(inside, wide_x, 0.0).astype(storage(dst))
    low, high = (np.array(v, storage(dst)) for v in storage_limits(dst))
    return np.where(wide_x >= hi, high, np.where(wide_x <= lo, low, cut))


def storage_limits(dt: DType) -> tuple[int, int]:
    info = np.iinfo(storage(dt))
    return int(info.min), int(info.max)


def _bitcast(x: Array, src: DType, dst: DType, wide: bool) -> Array:
    x = round_floats(x, src) if wide and src.is_float else x
    bits = (x.view(np.uint32) >> 16).astype(np.uint16) if src is dtypes.bfloat16 else x
    out = (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if dst is dtypes.bfloat16 else bits.view(storage(dst))
    return out.astype(np.float64) if wide and dst.is_float else out


def _fma(args: list[Array], dt: DType, wide: bool) -> Array:
    """x*y + z rounded once: exact in float64 for narrow types but for the sum, which is rounded to odd before the final rounding."""
    x, y, z = (a.astype(np.float64) for a in args)
    p = x * y
    s = p + z
    if wide:
        return s
    if dt is dtypes.float64:
        return np.asarray(_exact_fma(x, y, z))
    t = s - p
    error = (p - (s - t)) + (z - t)
    even = (s.view(np.uint64) & 1) == 0
    nudge = np.isfinite(s) & even & (error != 0)
    return round_floats(np.where(nudge, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s), dt)


def _exact_fma_one(x: float, y: float, z: float) -> float:
    plain = x * y + z
    if not all(map(math.isfinite, (x, y, z))):
        return plain
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else plain
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_exact_fma = np.vectorize(_exact_fma_one, otypes=[np.float64])


# ---- reductions --------------------------------------------------------------------------------------------------------

def _reducing(op: Op, dt: DType) -> Any:
    """The ufunc of a reduction."""
    if dt.is_bool:
        return np.logical_or if op in (Op.ADD, Op.MAX) else np.logical_and
    return {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}[op]


def reduce(op: Op, x: Array, dt: DType, axes: tuple[int, ...], wide: bool = False) -> Array:
    """Reduce axes, which stay with size 1. Floats are accumulated in float64 and rounded once."""
    f, start = _reducing(op, dt), identity(op, dt.min, dt.max)
    if dt.is_float:
        return round_floats(np.asarray(f.reduce(x.astype(np.float64), axis=axes, keepdims=True, initial=start)), dt, wide)
    return np.asarray(f.reduce(x, axis=axes, keepdims=True, initial=start, dtype=storage(dt)))


def scan(op: Op, x: Array, dt: DType, axis: int, wide: bool = False) -> Array:
    """Inclusive prefix reduction along an axis."""
    f = _reducing(op, dt)
    if dt.is_float:
        return round_floats(np.asarray(f.accumulate(x.astype(np.float64), axis=axis)), dt, wide)
    return np.asarray(f.accumulate(x, axis=axis, dtype=storage(dt)))


# ---- tensor graphs -----------------------------------------------------------------------------------------------------

def evaluate(u: UOp, buffers: dict[UOp, Array], *, wide: bool = False) -> Array:
    """The value of a tensor graph, of shape `u.shape`; `buffers` has the array of every BUFFER node."""
    value: dict[UOp, Array] = {}
    with np.errstate(all="ignore"):
        for n in u.toposort():
            value[n] = np.asarray(_tensor(n, [value[s] for s in n.src], buffers, wide))
            if value[n].shape != n.shape:
                raise IRError(f"{n.op} {n.arg}: value of shape {value[n].shape}, node of shape {n.shape}")
    return value[u]


def _tensor(u: UOp, args: list[Array], buffers: dict[UOp, Array], wide: bool) -> Any:
    op, dt, arg = u.op, u.dtype, u.arg
    if op in GroupOp.ALU:
        return elementwise(u, args, wide)
    if op in GroupOp.MOVEMENT:
        return move(op, arg, args[0])
    if op is Op.CONST:
        return np.array(arg, storage(dt, wide)) if not dt.is_float else round_floats(np.array(arg, np.float64), dt, wide)
    if op is Op.BUFFER:
        return buffers[u].astype(storage(dt, wide), copy=False).reshape(arg.shape)
    if op is Op.IOTA:
        return np.arange(arg).astype(storage(dt))
    if op is Op.CAT:
        return np.concatenate(args, axis=arg)
    if op is Op.REDUCE_AXES:
        return reduce(arg[0], args[0], dt, arg[1], wide)
    if op is Op.SCAN_AXIS:
        return scan(arg[0], args[0], dt, arg[1], wide)
    if op is Op.GATHER:
        return _gather(args[0], args[1:])
    if op in (Op.CONTIGUOUS, Op.COPY):
        return args[0]
    if op is Op.ASSIGN:
        return args[1]
    raise IRError(f"{op} is no op of a tensor graph")


def move(op: Op, arg: Any, x: Array) -> Array:
    """A movement op on an array."""
    if op is Op.RESHAPE:
        return x.reshape(arg)
    if op is Op.PERMUTE:
        return x.transpose(arg)
    if op is Op.EXPAND:
        return np.broadcast_to(x, arg)
    if op is Op.PAD:
        return np.pad(x, arg) if arg else x
    if op is Op.SHRINK:
        return x[tuple(slice(start, start + step * count, step) for start, step, count in arg)]
    if op is Op.FLIP:
        return np.flip(x, arg)
    for axis, size, stride, dilation in arg:                    # WINDOW
        count = max(0, (x.shape[axis] - (size - 1) * dilation - 1) // stride + 1)
        positions = np.arange(count)[:, None] * stride + np.arange(size) * dilation
        x = np.moveaxis(np.take(x, positions, axis), axis + 1, -1)
    return x


def _gather(x: Array, indices: list[Array]) -> Array:
    if not indices:
        return x
    inside = np.ones(indices[0].shape, np.bool_)
    for i, n in zip(indices, x.shape, strict=True):
        inside &= (i >= 0) & (i < n)
    if not inside.any():
        return np.zeros(inside.shape, x.dtype)
    return np.where(inside, x[tuple(np.where(inside, i, 0).astype(np.int64) for i in indices)], np.zeros((), x.dtype))


# ---- kernel ASTs -------------------------------------------------------------------------------------------------------

def run_kernel(sink: UOp, arrays: list[Array], *, wide: bool = False) -> None:
    """Run a kernel: PARAM slot k is `arrays[k]`, C-contiguous; the stores write into the arrays, after all loads are done."""
    kernel = _Kernel((sink,), arrays, wide)
    with np.errstate(all="ignore"):
        kernel.run()
        for store in sink.src:
            kernel.store(store)


def evaluate_scalars(exprs: Iterable[UOp], arrays: Iterable[Array] = (), *, wide: bool = False) -> list[Array]:
    """Values of kernel expressions, one axis per RANGE below them (in the order of `ranges`), of size 1 where a value does not vary."""
    roots = tuple(exprs)
    kernel = _Kernel(roots, list(arrays), wide)
    with np.errstate(all="ignore"):
        kernel.run()
    return [kernel.value[r] for r in roots]


class _Kernel:
    """All values of a kernel at once: every RANGE is an axis."""

    def __init__(self, roots: tuple[UOp, ...], arrays: list[Array], wide: bool) -> None:
        self.nodes, self.arrays, self.wide = toposort(roots), arrays, wide
        order = sorted((n for n in self.nodes if n.op is Op.RANGE), key=lambda r: (r.arg.id, r.arg.phase, r.arg.order))
        self.axis = {r: i for i, r in enumerate(order)}
        self.extents = tuple(r.arg.extent for r in order)
        self.value: dict[UOp, Array] = {}

    def run(self) -> None:
        for u in self.nodes:
            if u.op not in (Op.PARAM, Op.INDEX, Op.STORE, Op.SINK):
                self.value[u] = self._compute(u)

    def _compute(self, u: UOp) -> Array:
        op, ones = u.op, (1,) * len(self.extents)
        if op in GroupOp.ALU:
            return elementwise(u, [self.value[s] for s in u.src], self.wide)
        if op is Op.CONST:
            return np.asarray(_tensor(u, [], {}, self.wide)).reshape(ones)
        if op is Op.RANGE:
            axis = self.axis[u]
            return np.arange(u.arg.extent).reshape(*ones[:axis], -1, *ones[axis + 1:])
        if op is Op.LOAD:
            return self._load(u)
        if op is Op.REDUCE:
            axes = tuple(self.axis[r] for r in u.src[1:])
            return reduce(u.arg, self._spread(self.value[u.src[0]], axes), u.dtype, axes, self.wide)
        if op is Op.SCAN:
            return self._scan(u)
        if op is Op.STAGE:
            return self._stage(u)
        raise IRError(f"{op} is no op of a kernel AST")

    def _scan(self, u: UOp) -> Array:
        """The pieces of the scanned axis, outermost first, as one axis at the end."""
        axes = tuple(self.axis[r] for r in sorted(u.src[1:], key=lambda r: r.arg.order))
        tail = tuple(range(-len(axes), 0))
        x = np.moveaxis(self._spread(self.value[u.src[0]], axes), axes, tail)
        flat = scan(u.arg, x.reshape(*x.shape[:-len(axes)], -1), u.dtype, -1, self.wide)
        return np.moveaxis(flat.reshape(x.shape), tail, axes)

    def _spread(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.broadcast_to(x, tuple(self.extents[i] if i in axes else n for i, n in enumerate(x.shape)))

    def _address(self, index: UOp, size: int) -> tuple[Array, Array]:
        idx = self.value[index.src[1]]
        valid = self.value[index.src[2]] if len(index.src) > 2 else np.ones((1,) * idx.ndim, np.bool_)
        idx, valid = np.broadcast_arrays(idx, valid)
        outside = valid & ((idx < 0) | (idx >= size))
        if outside.any():
            raise IRError(f"address {idx[outside].flat[0]} is outside of {index.src[0].op.name} with {size} elements")
        return np.where(valid, idx, 0), valid

    def _load(self, u: UOp) -> Array:
        memory = u.src[0].src[0]
        idx, valid = self._address(u.src[0], memory.arg.size)
        if memory.op is Op.PARAM:
            held = self._array(memory).astype(storage(u.dtype, self.wide), copy=False)
            found = held[idx] if held.size else np.zeros(idx.shape, held.dtype)
        else:
            staged = self.value[memory]
            shape = np.broadcast_shapes(idx.shape, staged.shape[:-1])
            staged = np.broadcast_to(staged, (*shape, staged.shape[-1]))
            found = np.take_along_axis(staged, np.broadcast_to(idx, shape)[..., None], -1)[..., 0]
        return np.where(valid, found, np.zeros((), found.dtype))

    def _array(self, param: UOp) -> Array:
        a = self.arrays[param.arg.slot]
        if not a.flags.c_contiguous or a.size < param.arg.size or (not self.wide and a.dtype != storage(param.dtype)):
            raise IRError(f"slot {param.arg.slot}: {param.arg.size} contiguous elements of {storage(param.dtype)} wanted, got {a.size} of {a.dtype}")
        return np.reshape(a, -1)

    def _stage(self, u: UOp) -> Array:
        """The buffer, as a last axis; unwritten elements hold NaN, or the highest integer."""
        axes = tuple(self.axis[r] for r in u.src[2:])
        value, at = np.broadcast_arrays(self._spread(self.value[u.src[0]], axes), self.value[u.src[1]])
        if at.size and (at.min() < 0 or at.max() >= u.arg.size):
            raise IRError(f"STAGE of {u.arg.size} elements is written at {at.min()}..{at.max()}")
        outer = tuple(n for i, n in enumerate(value.shape) if i not in axes)
        tail = tuple(range(len(outer), value.ndim))
        value, at = (np.moveaxis(a, axes, tail).reshape(*outer, -1) for a in (value, at))
        poison = math.nan if u.dtype.is_float else int(u.dtype.max)
        memory = np.full((*outer, u.arg.size), poison, value.dtype)
        np.put_along_axis(memory, at, value, -1)
        return np.expand_dims(memory, axes)

    def store(self, u: UOp) -> None:
        index, value = u.src
        idx, valid = self._address(index, index.src[0].arg.size)
        idx, valid, x = np.broadcast_arrays(idx, valid, self.value[value])
        self._array(index.src[0])[idx[valid]] = x[valid]

