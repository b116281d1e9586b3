"""A tensor over NumPy arrays whose value the interpreter computes: tests of the API without a compiler."""
from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from morok.dtype import dtypes
from morok.ops.nn import NNOps
from morok.uop import Op, UOp
from morok.uop.interpret import Array, evaluate
from morok.uop.op import BufferArg
from morok.uop.spec import verify

numbers = count()
arrays: dict[UOp, Array] = {}


class Lazy(NNOps):
    """Lists of Python floats become float32; arrays keep their dtype."""

    def __init__(self, data: Any, dtype: Any = None) -> None:
        a = np.asarray(data)
        if not isinstance(data, (np.ndarray, np.generic)) and a.dtype == np.float64:
            a = a.astype(np.float32)
        dt = dtype or getattr(dtypes, a.dtype.name)
        self.uop = UOp(Op.BUFFER, dt, (), BufferArg(next(numbers), a.shape, "CPU"))
        arrays[self.uop] = a

    def _known_values(self) -> Array | None:
        return arrays.get(self.uop, super()._known_values())

    def lazy(self) -> Lazy:
        """The same values, not known before the run."""
        return self._new(UOp(Op.CONTIGUOUS, self.dtype, (self.uop,)))

    def numpy(self, wide: bool = False) -> Array:
        verify("tensor", self.uop)
        return evaluate(self.uop, arrays, wide=wide)


def same(got: NNOps, want: Any, dtype: Any = None, tolerance: float = 0.0) -> None:
    """Shape, dtype and values; NaN equals NaN."""
    value, want = got.numpy(), np.asarray(want)            # type: ignore[attr-defined]
    assert value.shape == got.shape == want.shape
    if dtype is not None:
        assert got.dtype is dtype
    np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)
