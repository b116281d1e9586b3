"""Random numbers from a counter: Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), the same on every device.

Element i of the call number c under seed s is the block (i, c) enciphered with key s, so it depends on nothing else.
"""
from __future__ import annotations

import itertools
import math
import threading
from typing import Any, Self

import numpy as np

from .. import knobs
from ..dtype import DType, dtypes, to_dtype
from ..errors import DTypeError, ShapeError
from ..helpers import prod
from ..uop import Op, UOp
from . import trace
from .creation import CreationOps, shape_of

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF


class _State(threading.local):
    """Seed and call number of the calling thread."""

    def __init__(self) -> None:
        self.seed = 0
        self.calls = itertools.count()


_state = _State()


def random_words(n: int) -> np.ndarray[Any, Any]:
    """Seed and call number of the next n calls: (n, 3) words."""
    return np.array([(_state.seed & MASK, _state.seed >> 32 & MASK, next(_state.calls) & MASK) for _ in range(n)], np.uint32)


def drawn(capture: trace.Trace) -> UOp:
    """A placeholder for the words of one more call inside a capture."""
    node = capture.fresh((3,), dtypes.uint32, knobs.MOROK_DEVICE.get())
    capture.draws.append(node)
    return node


def threefry(key: tuple[Any, Any], x0: Any, x1: Any) -> tuple[Any, Any]:
    """Two words of 32 bits enciphered; all uint32 tensors (or whatever adds, shifts and xors modulo 2**32)."""
    ks = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x0, x1 = x0 + ks[0], x1 + ks[1]
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0
        x0, x1 = x0 + ks[(i + 1) % 3], x1 + ks[(i + 2) % 3] + (i + 1)
    return x0, x1


def float_dtype(dtype: Any, what: str) -> DType:
    """The float type asked for, or the default one."""
    d = to_dtype(dtype) if dtype is not None else dtypes.default_float
    if not d.is_float:
        raise DTypeError(f"{what} gives floats, not {d.name}; use randint for integers")
    return d


class RandomOps(CreationOps):
    """Random tensors; the state is a seed, 0 at first, and the number of calls made since it was set. Every thread has its own."""

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Start the sequence of this thread again from `seed` (any whole number; 64 bits of it count)."""
        trace.forbid("manual_seed()")
        _state.seed, _state.calls = int(seed), itertools.count()

    @classmethod
    def _words(cls, shape: tuple[int, ...]) -> tuple[Self, Self]:
        """Two fresh uint32 words per element. Seed and call number are data, not constants: all calls of one shape share their kernel."""
        n = prod(shape)
        if n > MASK:
            raise ShapeError(f"{n} random elements in one call; at most {MASK}")
        now = trace.current()
        state: Self = cls(random_words(1)[0]) if now is None else cls._wrap(drawn(now))                  # type: ignore[call-arg]
        k0, k1, call = (state._word(i)._broadcast_to(shape) for i in range(3))
        i = cls._wrap(UOp(Op.RESHAPE, dtypes.uint32, (UOp(Op.IOTA, dtypes.uint32, (), n),), shape))
        a, b = threefry((k0, k1), i, call)
        return a, b

    def _word(self, i: int) -> Self:
        """Element i of a vector, as a scalar."""
        one = UOp(Op.SHRINK, self.dtype, (self.uop,), ((i, 1, 1),))
        return self._new(UOp(Op.RESHAPE, self.dtype, (one,), ()))

    @classmethod
    def _unit(cls, word: Self, low: Self | None = None) -> Self:
        """Words as numbers in [0, 1): 24 bits in float32, with a second word 53 bits in float64."""
        if low is None:
            return (word >> 8).cast(dtypes.float32) * 2.0 ** -24
        return ((word >> 5).cast(dtypes.float64) * 2.0 ** 26 + (low >> 6).cast(dtypes.float64)) * 2.0 ** -53

    @classmethod
    def rand(cls, *shape: Any, dtype: Any = None, device: str | None = None) -> Self:
        """Uniform in [0, 1), in steps of 2**-53 (float64), 2**-24, 2**-11 (float16) or 2**-8 (bfloat16). DTypeError if dtype is no float."""
        cls._check_device(device)
        d = float_dtype(dtype, "rand")
        a, b = cls._words(shape_of(shape, "rand"))
        if d.itemsize == 2:                                     # fewer bits, so that rounding never gives 1
            bits = 11 if d is dtypes.float16 else 8
            return ((a >> (32 - bits)).cast(dtypes.float32) * 2.0 ** -bits).cast(d)
        return (cls._unit(a, b) if d is dtypes.float64 else cls._unit(a)).cast(d)

    @classmethod
    def randn(cls, *shape: Any, dtype: Any = None, device: str | None = None) -> Self:
        """Normal with mean 0 and deviation 1, by the method of Box and Muller; at most 6.7 (float64: 8.6) from 0. DTypeError if dtype is no float."""
        cls._check_device(device)
        d, sizes = float_dtype(dtype, "randn"), shape_of(shape, "randn")
        a, b = cls._words(sizes)
        if d is dtypes.float64:
            unit, turn = 1.0 - cls._unit(a, b), cls._unit(*cls._words(sizes))
        else:
            unit, turn = (a.cast(dtypes.float32) + 1.0) * 2.0 ** -32, cls._unit(b)       # in (0, 1], fine near 0
        return ((unit.log() * -2.0).sqrt() * (turn * (2 * math.pi)).cos()).cast(d)

    @classmethod
    def randint(cls, *shape: Any, low: int = 0, high: int = 10, dtype: Any = dtypes.int32, device: str | None = None) -> Self:
        """Whole numbers in [low, high), each equally likely to within (high - low) / 2**64.

        DTypeError if dtype is no integer or cannot hold them, ShapeError if there are none.
        """
        cls._check_device(device)
        d = to_dtype(dtype)
        if not d.is_int:
            raise DTypeError(f"randint gives integers, not {d.name}; use rand or uniform for floats")
        if not low < high:
            raise ShapeError(f"randint: low {low} must be less than high {high}")
        if low < d.min or high - 1 > d.max:
            raise DTypeError(f"randint: [{low}, {high}) does not fit {d.name}, which holds {d.min} to {d.max}")
        a, b = cls._words(shape_of(shape, "randint"))
        wide = (a.cast(dtypes.uint64) << 32) | b.cast(dtypes.uint64)
        offset = wide if high - low > dtypes.uint64.max else wide % (high - low)
        return (offset + int(dtypes.uint64.const(low))).cast(d)         # modulo 2**64, which the cast keeps

    @classmethod
    def uniform(cls, *shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None, device: str | None = None) -> Self:
        """Uniform in [low, high); whole numbers if dtype is an integer. ShapeError if low is above high."""
        d = to_dtype(dtype) if dtype is not None else dtypes.default_float
        if d.is_int:
            return cls.randint(*shape, low=int(low), high=int(high), dtype=d, device=device)
        float_dtype(d, "uniform")
        if not low <= high:
            raise ShapeError(f"uniform: low {low} must not be above high {high}")
        u = cls.rand(*shape, dtype=d if d.itemsize > 2 else dtypes.float32, device=device)
        x = (u * (high - low) + low).cast(d)
        return (x < float(high)).where(x, float(low))           # rounding may have given `high`

    @classmethod
    def normal(cls, *shape: Any, mean: float = 0.0, std: float = 1.0, dtype: Any = None, device: str | None = None) -> Self:
        """Normal with this mean and deviation. DTypeError if dtype is no float."""
        return cls.randn(*shape, dtype=dtype, device=device) * std + mean

    def rand_like(self, *, dtype: Any = None) -> Self:
        """`rand` in this shape and dtype."""
        return self.rand(*self.shape, dtype=dtype or self.dtype)

    def randn_like(self, *, dtype: Any = None) -> Self:
        """`randn` in this shape and dtype."""
        return self.randn(*self.shape, dtype=dtype or self.dtype)

    def dropout(self, p: float = 0.5) -> Self:
        """Elements zeroed with probability p, the others divided by 1 - p, while `Tensor.training` is set; else self. ShapeError if p is not in [0, 1]."""
        if not 0 <= p <= 1:
            raise ShapeError(f"dropout: p is a probability, not {p!r}")
        if not getattr(type(self), "training", False) or p == 0:
            return self
        if p == 1:
            return self.zeros_like()
        keep = self.rand(*self.shape, dtype=dtypes.float32) >= p
        return keep.where(self, 0) * (1 / (1 - p))
