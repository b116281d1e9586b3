"""Tensors made of nothing: constants and sequences. They take no memory until they are stored."""
from __future__ import annotations

import math
from typing import Any, Self

from ..dtype import DType, dtypes, to_dtype
from ..errors import DTypeError, ShapeError
from ..uop import Op, UOp
from .base import python_number, whole_numbers
from .elementwise import ElementwiseOps


def shape_of(args: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """f(2, 3), f((2, 3)) and f([2, 3]) as (2, 3). ShapeError for what is no size."""
    sizes = tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    out = whole_numbers(what, sizes)
    if any(n < 0 for n in out):
        raise ShapeError(f"{what}: sizes are whole numbers from 0 on, got {sizes!r}")
    return out


def dtype_of(value: Any) -> DType:
    """The default dtype of a Python number."""
    return dtypes.bool if isinstance(value, bool) else dtypes.default_int if isinstance(value, int) else dtypes.default_float


class CreationOps(ElementwiseOps):
    """Constructors by rule. dtype: None is the default float, or what the values are."""

    @classmethod
    def _iota(cls, n: int, dtype: DType) -> Self:
        """0 .. n-1."""
        return cls._wrap(UOp(Op.IOTA, dtype, (), n))

    @classmethod
    def full(cls, shape: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Self:
        """All elements fill_value; its dtype unless one is given. DTypeError if the dtype cannot hold it."""
        cls._check_device(device)
        fill_value = python_number(fill_value)
        if not isinstance(fill_value, (bool, int, float)):
            raise DTypeError(f"fill_value must be a number, got {type(fill_value).__name__} {fill_value!r}")
        d = to_dtype(dtype) if dtype is not None else dtype_of(fill_value)
        sizes = shape_of((shape,) if not isinstance(shape, (tuple, list)) else tuple(shape), "full")
        scalar = cls._wrap(UOp(Op.CONST, d, (), 0))._constant(fill_value, d)
        return scalar._broadcast_to(sizes)

    @classmethod
    def zeros(cls, *shape: Any, dtype: Any = None, device: str | None = None) -> Self:
        """All zeros."""
        return cls.full(shape_of(shape, "zeros"), 0, dtype=dtype or dtypes.default_float, device=device)

    @classmethod
    def ones(cls, *shape: Any, dtype: Any = None, device: str | None = None) -> Self:
        """All ones."""
        return cls.full(shape_of(shape, "ones"), 1, dtype=dtype or dtypes.default_float, device=device)

    @classmethod
    def empty(cls, *shape: Any, dtype: Any = None, device: str | None = None) -> Self:
        """Contents are not defined (they are zeros, and cost nothing)."""
        return cls.zeros(*shape, dtype=dtype, device=device)

    @classmethod
    def arange(cls, start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: str | None = None) -> Self:
        """start, start + step, ... below stop (above it for a negative step); one argument is the stop. Whole numbers give the default int.

        Floats are start + i * step, computed in float64. ShapeError for step 0 and limits that are not finite, DTypeError for what dtype cannot hold.
        """
        cls._check_device(device)
        start, stop, step = (python_number(v) for v in ((0, start, step) if stop is None else (start, stop, step)))
        if step == 0 or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in (start, stop, step)):
            raise ShapeError(f"arange({start}, {stop}, {step}): start and stop must be finite numbers, step one other than 0")
        whole = all(isinstance(v, int) for v in (start, stop, step))
        d = to_dtype(dtype) if dtype is not None else dtypes.default_int if whole else dtypes.default_float
        n = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
        if d.is_float:
            return (cls._iota(n, dtypes.int64).cast(dtypes.float64) * float(step) + float(start)).cast(d)
        if not whole and not all(float(v).is_integer() for v in (start, step)):
            raise DTypeError(f"arange({start}, {stop}, {step}) has fractions, which {d.name} cannot hold; use a float dtype")
        if n and not (d.min <= start <= d.max and d.min <= start + (n - 1) * step <= d.max):
            raise DTypeError(f"arange({start}, {stop}, {step}) does not fit {d.name}, which holds {d.min} to {d.max}")
        first, gap = (int(dtypes.int64.const(v)) for v in (start, step))         # modulo 2**64, which the cast keeps
        return (cls._iota(n, dtypes.int64) * gap + first).cast(d)

    @classmethod
    def linspace(cls, start: float, stop: float, steps: int, *, endpoint: bool = True, dtype: Any = None, device: str | None = None) -> Self:
        """`steps` points from start to stop, both exactly; without endpoint, stop is left out. One point is start. ShapeError for negative steps."""
        cls._check_device(device)
        (n,) = shape_of((steps,), "linspace")
        d = to_dtype(dtype) if dtype is not None else dtypes.default_float
        i = cls._iota(n, dtypes.int64)
        gap = (stop - start) / max(n - 1 if endpoint else n, 1)
        x = i.cast(dtypes.float64) * float(gap) + float(start)
        if endpoint and n > 1:
            x = i.eq(n - 1).where(float(stop), x)
        return x.cast(d)

    @classmethod
    def eye(cls, n: int, m: int | None = None, *, dtype: Any = None, device: str | None = None) -> Self:
        """n x m (m: n if not given) with ones on the diagonal."""
        cls._check_device(device)
        rows, columns = shape_of((n, n if m is None else m), "eye")
        i = cls._wrap(UOp(Op.RESHAPE, dtypes.int64, (UOp(Op.IOTA, dtypes.int64, (), rows),), (rows, 1)))
        return i.eq(cls._iota(columns, dtypes.int64)).cast(dtype or dtypes.default_float)

    def full_like(self, fill_value: Any, *, dtype: Any = None) -> Self:
        """fill_value in this shape, and this dtype unless one is given."""
        return self.full(self.shape, fill_value, dtype=dtype or self.dtype)

    def zeros_like(self, *, dtype: Any = None) -> Self:
        """Zeros in this shape and dtype."""
        return self.full_like(0, dtype=dtype)

    def ones_like(self, *, dtype: Any = None) -> Self:
        """Ones in this shape and dtype."""
        return self.full_like(1, dtype=dtype)

    def empty_like(self, *, dtype: Any = None) -> Self:
        """This shape and dtype, contents not defined."""
        return self.full_like(0, dtype=dtype)
