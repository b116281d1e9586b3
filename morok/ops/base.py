"""What all families of tensor methods stand on: the graph node, wrapping with the user's line, lifting of scalars, promotion and broadcasting."""
from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ..dtype import DType, dtypes, promote
from ..errors import DTypeError, ShapeError
from ..helpers import prod
from ..uop import GroupOp, Op, UOp
from ..uop.fold import cast_value
from ..variable import Size, Variable

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
Scalar = bool | int | float
_PLAIN = frozenset((int, Size))
_own_file: dict[str, bool] = {}


def python_number(x: Any) -> Any:
    """A NumPy scalar as the Python number of its kind; anything else as it is."""
    return x.item() if isinstance(x, (np.bool_, np.integer, np.floating)) else x


def whole_numbers(what: str, values: Any) -> tuple[int, ...]:
    """The values as a tuple of ints. ShapeError that names `what` if one is not a whole number."""
    if type(values) is tuple and _PLAIN.issuperset(map(type, values)):
        return values
    if isinstance(values, (tuple, list)) and Variable.used:
        values = [n.size if isinstance(n, Variable) else n for n in values]
    if not isinstance(values, (tuple, list)) or any(isinstance(n, bool) or not hasattr(n, "__index__") for n in values):
        raise ShapeError(f"{what}: sizes and counts are whole numbers, got {values!r}")
    return tuple([n if type(n) is Size else int(n) for n in values])


def user_line() -> str:
    """"file:line" of the nearest caller outside of the package."""
    f = sys._getframe(2)
    while f.f_back is not None:
        file = f.f_code.co_filename
        own = _own_file.get(file)
        if own is None:
            own = _own_file[file] = file.startswith(PACKAGE)
        if not own:
            break
        f = f.f_back
    return f"{f.f_code.co_filename}:{f.f_lineno}"


@lru_cache(512)
def spread(constant: UOp, shape: tuple[int, ...]) -> UOp:
    """A scalar constant in every element of a shape; the common ones are kept."""
    if not shape:
        return constant
    ones = UOp(Op.RESHAPE, constant.dtype, (constant,), (1,) * len(shape))
    return ones if ones.shape == shape else UOp(Op.EXPAND, constant.dtype, (ones,), shape)


def broadcast_shapes(*shapes: tuple[int, ...], what: str = "operands") -> tuple[int, ...]:
    """The shape that all of these expand to; sizes 1 fit any size, 0 included. ShapeError names the shapes."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, n in enumerate(s, rank - len(s)):
            if n != 1 and out[i] != n:
                if out[i] != 1:
                    raise ShapeError(f"{what} of shapes {' and '.join(map(str, shapes))} cannot be broadcast together; sizes must be equal or 1")
                out[i] = n
    return tuple(out)


def reshaped(u: UOp, shape: tuple[int, ...]) -> UOp:
    """The node under another shape of as many elements."""
    if u.op is Op.RESHAPE:
        u = u.src[0]
    return u if u.shape == shape else UOp(Op.RESHAPE, u.dtype, (u,), shape)


def expanded(u: UOp, shape: tuple[int, ...]) -> UOp:
    """The node with axes of size 1 repeated to the sizes of the shape."""
    return u if u.shape == shape else UOp(Op.EXPAND, u.dtype, (u,), shape)


class TensorBase:
    """A value: a tensor graph node and methods that make new ones."""
    uop: UOp

    # ---- facts ---------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.uop.shape or ()

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.uop.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def device(self) -> str:
        """Where the value is computed and kept."""
        return "CPU"

    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of axis `dim`."""
        return self.shape if dim is None else self.shape[self._axis(dim)]

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.element_size()

    # ---- primitives of the families --------------------------------------------------------------------
    @classmethod
    def _check_device(cls, device: str | None) -> None:
        """DeviceError for a device that there is not; the class that can run things knows which there are."""

    @classmethod
    def _wrap(cls, uop: UOp) -> Self:
        """A tensor around a node; a new node remembers the user's line."""
        if uop.line is None:
            uop.line = user_line()
        t = object.__new__(cls)
        t.uop = uop
        return t

    def _become(self, uop: UOp) -> None:
        """Take another value."""
        self.uop = uop

    def _new(self, uop: UOp) -> Self:
        return self._wrap(uop)

    def _with_shape(self, shape: tuple[int, ...]) -> Self:
        """RESHAPE to a shape that is known to have as many elements."""
        return self if self.uop.shape == shape else self._new(reshaped(self.uop, shape))

    def _constant(self, value: Scalar, dtype: DType) -> Self:
        """A scalar tensor. DTypeError if an integer type cannot hold the value."""
        if dtype.is_int:
            if isinstance(value, float) and not value.is_integer():
                raise DTypeError(f"{value!r} is no {dtype.name}; use a whole number or a float tensor")
            if not dtype.min <= value <= dtype.max:
                raise DTypeError(f"{value!r} does not fit {dtype.name}, which holds {dtype.min} to {dtype.max}")
        elif dtype.is_float and isinstance(value, int) and value.bit_length() >= 1024:
            raise DTypeError(f"a whole number of {value.bit_length()} bits is too large for {dtype.name}")
        return self._new(UOp(Op.CONST, dtype, (), value))

    def _lift(self, x: Any, dtype: DType | None = None) -> Self:
        """A Python number, a list, an array or a tensor as a tensor; a number takes a dtype that leaves this tensor's alone where it can."""
        if isinstance(x, TensorBase):
            return x if dtype is None else x.cast(dtype)        # type: ignore[attr-defined, return-value]
        value = python_number(x)
        if isinstance(value, (bool, int, float)):
            return self._constant(value, dtype or self._scalar_dtype(value))
        if isinstance(x, (list, tuple, np.ndarray)):
            return type(self)(x, dtype=dtype)                   # type: ignore[call-arg]
        raise DTypeError(f"cannot use {type(x).__name__} {x!r} as a tensor; give a number, a list, an array or a Tensor")

    def _scalar_dtype(self, value: Scalar) -> DType:
        """Python numbers are weak: they take the tensor's dtype unless they are of a higher kind."""
        if isinstance(value, bool) or self.dtype.is_float or (isinstance(value, int) and self.dtype.is_int):
            return self.dtype
        return dtypes.default_float if isinstance(value, float) else dtypes.default_int

    def _axis(self, axis: int, extra: int = 0) -> int:
        """`axis` counted from the front. ShapeError if there is none such; extra: axes about to be added."""
        n = self.ndim + extra
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise ShapeError(f"an axis is a whole number, not {axis!r}")
        if not -max(n, 1) <= axis < max(n, 1):
            raise ShapeError(f"axis {axis} is out of range for shape {self.shape}; valid: {-n} to {n - 1}" if n else f"axis {axis}: a scalar has no axes")
        return int(axis) % max(n, 1)

    def _broadcast_to(self, shape: tuple[int, ...]) -> Self:
        """Expanded to `shape`. ShapeError if it does not fit."""
        if self.shape == shape:
            return self
        if self.uop.op is Op.CONST:
            return self._new(spread(self.uop, shape))
        ones = (1,) * (len(shape) - self.ndim) + self.shape
        if len(ones) != len(shape) or any(a != b and a != 1 for a, b in zip(ones, shape)):
            raise ShapeError(f"cannot broadcast shape {self.shape} to {shape}")
        return self._new(expanded(reshaped(self.uop, ones), shape))

    def _unary(self, op: Op) -> Self:
        return self._new(UOp(op, self.dtype, (self.uop,)))

    def _together(self, x: Any, reverse: bool = False, what: str = "operands") -> tuple[Self, Self]:
        """Both operands in one dtype and one shape."""
        if x is self:
            return self, self
        other = self._lift(x)
        shape = self.shape
        if other.shape and other.shape != shape:
            shape = broadcast_shapes(shape, other.shape, what=what)
        dtype = promote(self.dtype, other.dtype)
        a, b = (t._cast_to(dtype)._broadcast_to(shape) for t in (self, other))
        return (b, a) if reverse else (a, b)

    def _cast_to(self, dtype: DType) -> Self:
        if dtype is self.dtype:
            return self
        if self.uop.op is Op.CONST:
            return self._new(UOp(Op.CONST, dtype, (), cast_value(self.uop.arg, self.dtype, dtype)))
        return self._new(UOp(Op.CAST, dtype, (self.uop,)))

    def _binary(self, op: Op, x: Any, reverse: bool = False) -> Self:
        """op(self, x), or op(x, self) if reverse, after promotion and broadcasting."""
        a, b = self._together(x, reverse)
        return self._new(UOp(op, dtypes.bool if op in GroupOp.COMPARE else a.dtype, (a.uop, b.uop)))
