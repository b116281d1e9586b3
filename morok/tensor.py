"""class Tensor: a lazy value. Methods build a graph; `numpy()`, `item()` and `realize()` compile and run it."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from . import knobs
from .dtype import DType, dtypes, promote, to_dtype
from .errors import DTypeError, JitError, ShapeError
from .helpers import prod
from .ops import trace
from .ops.base import TensorBase, python_number
from .ops.creation import dtype_of
from .ops.indexing import IndexingOps
from .ops.linalg import LinalgOps
from .ops.nn import NNOps
from .ops.random import RandomOps
from .prepare import ExecutionPlan
from .program import PrepareConfig
from .realize import realize
from .runtime import get_device
from .runtime.buffer import NUMPY, Buffer, attach, buffer_of, new_buffer_node
from .uop import Op, UOp
from .variable import is_symbolic, real


class Tensor(NNOps, LinalgOps, IndexingOps, RandomOps):
    """An array of one dtype that is computed when it is needed.

    Tensor(data, dtype=None, device=None): data is a NumPy array (shared, not copied, where its layout allows), a number, nested lists, a tensor, or bytes,
    which are elements of `dtype` (uint8) as they lie in memory. Whole numbers become int64, floats float32, unless `dtype` says otherwise; arrays and lists
    are cast to it as by `cast`, but integers that do not fit are a DTypeError. Tensors are values: a slice is a tensor of its own.
    """
    training = False
    __array_priority__ = 1000    # array + tensor is a tensor

    def __init__(self, data: Any, dtype: Any = None, device: str | None = None) -> None:
        want = to_dtype(dtype) if dtype is not None else None
        place = device or knobs.MOROK_DEVICE.get()
        get_device(place)                                       # an unknown device is told now
        if isinstance(data, UOp):
            self.uop = data
        elif isinstance(data, TensorBase):
            self.uop = data.uop if want is None else data._cast_to(want).uop
        elif isinstance(data, (bool, int, float, np.generic)):
            value = python_number(data)
            kind = want or (to_dtype(data.dtype) if isinstance(data, np.generic) else dtype_of(value))
            self.uop = self._wrap(UOp(Op.CONST, kind, (), 0))._constant(value, kind).uop
        else:
            self.uop = buffer_node(data, want, place)
        if self.uop.memory is not None:
            self._memory = self.uop.memory

    # ---- the value: a graph (uop), memory (_memory), or both -----------------------------------------------
    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """What a call of a captured function gave has memory only; it gets its node when it is used in a graph."""
            if name != "uop":
                raise AttributeError(f"Tensor has no attribute {name!r}")
            memory = self.__dict__.get("_memory")
            if memory is None:
                raise JitError("this tensor was donated to a call of a captured function, which has used its memory for results")
            node = new_buffer_node(*memory.kind)
            attach(node, memory)
            self.__dict__["uop"] = node                         # not before it is complete, as other threads may look
            if self.__dict__.get("_memory") is not memory:      # another thread has changed this tensor meanwhile
                self.__dict__.pop("uop", None)
            return self.uop

    _memory: Buffer              # of a tensor that has been computed; calls of captured functions look here

    def _become(self, uop: UOp) -> None:
        super()._become(uop)
        if self.__dict__.get("uop") is not uop:                 # a capture keeps the new value of a tensor from outside to itself
            return
        if uop.memory is not None:
            self._memory = uop.memory
        else:
            self.__dict__.pop("_memory", None)

    # ---- running -----------------------------------------------------------------------------------------
    def realize(self, *others: "Tensor") -> Self:
        """Compute this tensor and `others` now, together; returns self."""
        return self.realize_with(None, *others)

    def realize_with(self, config: PrepareConfig | None, *others: "Tensor") -> Self:
        """`realize` under a config, which says how kernels are optimized."""
        if config is not None and not isinstance(config, PrepareConfig):
            raise DTypeError(f"realize_with takes a PrepareConfig, for example PrepareConfig(OptStrategy.none()), not {type(config).__name__} {config!r}")
        if trace.current() is None:                             # a capture computes everything at its end
            self._compute(config, *others)
        return self

    def _compute(self, config: PrepareConfig | None, *others: "Tensor") -> Buffer:
        tensors: list[Tensor] = [self, *others]
        before = [t.uop for t in tensors]
        out = realize(before, config)
        for t, old, done in zip(tensors, before, out, strict=True):
            if done is not old or "_memory" not in t.__dict__:  # else it stays as it is, as another thread may be changing it
                t._become(done)
        return out[0].memory                                    # type: ignore[no-any-return]

    def prepare(self, config: PrepareConfig | None = None) -> ExecutionPlan:
        """A plan that computes this tensor at each `execute()`, reading its inputs as they are then. The tensor itself stays lazy."""
        return self.prepare_batch([self], config)

    @staticmethod
    def prepare_batch(tensors: "Sequence[Tensor]", config: PrepareConfig | None = None) -> ExecutionPlan:
        """One plan for several tensors, which share kernels."""
        trace.forbid("prepare()")
        if not tensors or not all(isinstance(t, Tensor) for t in tensors):
            raise DTypeError(f"prepare_batch takes tensors, at least one, got {tensors!r}")
        return ExecutionPlan([t.uop for t in tensors], config, Tensor)

    @classmethod
    def _check_device(cls, device: str | None) -> None:
        if device is not None:
            get_device(device)

    def _buffer(self) -> Buffer:
        if trace.current() is not None and any(u.op is Op.BUFFER and not is_constant(u) for u in self.uop.toposort()):
            trace.forbid("reading values")
        return self._compute(None)

    def _known_values(self) -> np.ndarray[Any, Any] | None:
        found = buffer_of(self.uop) if self.uop.op is Op.BUFFER else None
        return super()._known_values() if found is None or not is_constant(self.uop) else found.numpy(self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as an array of their own; bfloat16, which NumPy lacks, as float32."""
        held = self._buffer().numpy(self.shape)
        if is_symbolic(self.shape):
            held = held[tuple([slice(n) for n in real(self.shape)])]
        return (held.astype(np.uint32) << 16).view(np.float32) if self.dtype is dtypes.bfloat16 else held.copy()

    def data(self) -> memoryview:
        """The values as a read-only memoryview of this shape."""
        out: Any = self.numpy()
        return memoryview(out).toreadonly()

    def item(self) -> Any:
        """The one element as a Python number. ShapeError if there are more or none."""
        if prod(real(self.shape)) != 1:
            raise ShapeError(f"item() takes a tensor of one element; this one has shape {self.shape}")
        return self.numpy().reshape(()).item()

    def tolist(self) -> Any:
        """The values as nested lists; a number for a scalar."""
        return self.numpy().tolist()

    def contiguous(self) -> Self:
        """The same values, stored: what is made of them reads memory."""
        return self if self.uop.op in (Op.CONTIGUOUS, Op.BUFFER) else self._new(UOp(Op.CONTIGUOUS, self.dtype, (self.uop,)))

    def clone(self) -> Self:
        """A tensor of its own with the same values."""
        return self._new(self.uop)

    def detach(self) -> Self:
        """The same value; there are no gradients to cut off."""
        return self._new(self.uop)

    def to(self, device: str) -> Self:
        """This tensor on a device. DeviceError for an unknown one."""
        get_device(device)
        return self

    def assign(self, x: Any) -> Self:
        """Make this tensor hold the values of x, broadcast to its shape and of its dtype (ShapeError, DTypeError otherwise); returns self."""
        new = self._lift(x, None if isinstance(x, TensorBase) else self.dtype)
        if new.dtype is not self.dtype:
            raise DTypeError(f"assign: a tensor of dtype {self.dtype.name} cannot hold {new.dtype.name}; cast first")
        self._become(new._broadcast_to(self.shape).uop)
        return self

    # ---- Python protocols -----------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return f"<Tensor {self.dtype.name} {self.shape} on {self.device}>"

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec else repr(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.numpy(), self.dtype)           # copies and pickles hold the values

    def __contains__(self, x: Any) -> bool:
        return bool(self.eq(x).any().item())

    def __len__(self) -> int:
        if not self.ndim:
            raise ShapeError("a scalar tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise ShapeError("a scalar tensor cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(f"the truth of a tensor of shape {self.shape} is not one value; use .any() or .all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_int:
            raise DTypeError(f"only an integer tensor can be used as an index, not {self.dtype.name}")
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        out = self.numpy()
        return out if dtype is None else out.astype(dtype)

    def _in_place(self, out: Self, symbol: str) -> Self:
        if promote(out.dtype, self.dtype) is not self.dtype or out.dtype.is_float != self.dtype.is_float:
            raise DTypeError(f"{symbol} on a tensor of dtype {self.dtype.name} would give {out.dtype.name}, which it cannot hold; "
                             + ("use //= or cast the tensor to a float first" if symbol == "/=" else "cast it first"))
        if out.shape != self.shape:
            raise ShapeError(f"{symbol} on a tensor of shape {self.shape} would give shape {out.shape}")
        self._become(out._cast_to(self.dtype).uop)
        return self

    def __iadd__(self, x: Any) -> Self: return self._in_place(self + x, "+=")
    def __isub__(self, x: Any) -> Self: return self._in_place(self - x, "-=")
    def __imul__(self, x: Any) -> Self: return self._in_place(self * x, "*=")
    def __itruediv__(self, x: Any) -> Self: return self._in_place(self / x, "/=")
    def __ifloordiv__(self, x: Any) -> Self: return self._in_place(self // x, "//=")
    def __imod__(self, x: Any) -> Self: return self._in_place(self % x, "%=")
    def __ipow__(self, x: Any) -> Self: return self._in_place(self ** x, "**=")
    def __iand__(self, x: Any) -> Self: return self._in_place(self & x, "&=")
    def __ior__(self, x: Any) -> Self: return self._in_place(self | x, "|=")
    def __ixor__(self, x: Any) -> Self: return self._in_place(self ^ x, "^=")
    def __ilshift__(self, x: Any) -> Self: return self._in_place(self << x, "<<=")
    def __irshift__(self, x: Any) -> Self: return self._in_place(self >> x, ">>=")


def is_constant(node: UOp) -> bool:
    """The values of a BUFFER cannot change from one call to the next: always outside of a capture, and for what was made inside it."""
    now = trace.current()
    return now is None or (node.memory is not None and all(before is not node for _, before in now.read.values()))


def buffer_node(data: Any, want: DType | None, device: str) -> UOp:
    """A filled BUFFER node for an array, nested lists, or bytes."""
    if isinstance(data, (bytes, bytearray)):
        want = want or dtypes.uint8
        if len(data) % want.itemsize:
            raise ShapeError(f"{len(data)} bytes are no whole number of {want.name} elements, which take {want.itemsize} bytes each")
        return filled(np.frombuffer(data, NUMPY[want]), want, device)
    if isinstance(data, (np.ndarray, memoryview)):
        array = np.asarray(data)
    elif isinstance(data, (list, tuple)):
        array = from_lists(data)
        if want is None:
            want = {"i": dtypes.default_int, "u": dtypes.default_int, "f": dtypes.default_float, "b": dtypes.bool}.get(array.dtype.kind)
    elif hasattr(data, "__array__"):
        array = np.asarray(data)
    else:
        raise DTypeError(f"cannot make a tensor of {type(data).__name__} {data!r}; give an array, nested lists or a number")
    own = to_dtype(array.dtype)
    if want in (None, own):
        return filled(array, own, device)
    if want is dtypes.bfloat16:
        return UOp(Op.CAST, want, (filled(array, own, device),))
    return filled(convert(array, want), want, device)


def filled(array: np.ndarray[Any, Any], dtype: DType, device: str) -> UOp:
    """A BUFFER node on the memory of an array of this dtype, which is copied only if it is not contiguous, aligned and in native byte order."""
    array = np.require(array, array.dtype.newbyteorder("="), ("C", "A"))
    node = new_buffer_node(array.shape, dtype, device)
    attach(node, Buffer.from_numpy(array, dtype))
    return node


def from_lists(data: Any) -> np.ndarray[Any, Any]:
    if any(isinstance(x, TensorBase) for x in data):
        data = [x.numpy() if isinstance(x, Tensor) else x for x in data]
    try:
        array = np.array(data)
    except ValueError:
        raise ShapeError("nested lists have different lengths at the same depth; a tensor needs a regular shape") from None
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"cannot make a tensor of {array.dtype} values; give bools, integers or floats")
    return array.astype(np.float32) if array.size == 0 else array


def convert(array: np.ndarray[Any, Any], want: DType) -> np.ndarray[Any, Any]:
    """Host data in another dtype, by the rules of CAST. DTypeError for integers that do not fit."""
    if want.is_int and array.dtype.kind in "iu" and array.size and not (want.min <= array.min() and array.max() <= want.max):
        raise DTypeError(f"values from {array.min()} to {array.max()} do not fit {want.name}, which holds {want.min} to {want.max}")
    with np.errstate(over="ignore", invalid="ignore"):
        if not want.is_int or array.dtype.kind != "f":
            return array.astype(NUMPY[want])
        low, high = int(want.min), int(want.max)
        wide = np.nan_to_num(array.astype(np.float64), nan=0.0)
        out = np.where((wide > low) & (wide < high), wide, 0.0).astype(NUMPY[want])
        return np.where(wide >= high, NUMPY[want].type(high), np.where(wide <= low, NUMPY[want].type(low), out))
