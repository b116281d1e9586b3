"""Scalar types: kinds, sizes, limits and promotion."""
from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .errors import DTypeError


class Kind(IntEnum):
    """The ladder of promotion: a value of a higher kind wins over one of a lower."""
    VOID = 0
    BOOL = 1
    UINT = 2
    INT = 3
    FLOAT = 4


@dataclass(frozen=True, eq=False)
class DType:
    """One scalar type. Compared by identity: every type exists once, in `dtypes`."""
    name: str
    kind: Kind
    itemsize: int

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (dtypes, self.name)

    def __lt__(self, other: "DType") -> bool:
        return (self.kind, self.itemsize, self.name) < (other.kind, other.itemsize, other.name)

    @property
    def bits(self) -> int:
        return 1 if self.kind is Kind.BOOL else self.itemsize * 8

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer, not bool."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    @property
    def is_unsigned(self) -> bool:
        return self.kind is Kind.UINT

    @property
    def min(self) -> bool | int | float:
        """The lowest value: -inf for floats."""
        if self.is_float:
            return -math.inf
        if self.is_bool:
            return False
        return 0 if self.is_unsigned else -(1 << (self.bits - 1))

    @property
    def max(self) -> bool | int | float:
        """The highest value: inf for floats."""
        if self.is_float:
            return math.inf
        if self.is_bool:
            return True
        return (1 << (self.bits - (0 if self.is_unsigned else 1))) - 1

    def const(self, v: Any) -> bool | int | float:
        """`v` as the Python value that a CONST of this type holds; floats are rounded, integers wrap, as in every fold."""
        if self.is_float:
            return round_to(float(v), self)
        if self.is_bool:
            return bool(v)
        n = int(v)
        if self is dtypes.index:
            return n
        n &= (1 << self.bits) - 1
        return n - (1 << self.bits) if self.kind is Kind.INT and n >> (self.bits - 1) else n


class dtypes:
    """All scalar types, by name. `index` is the type of loop counters and addresses; its width is chosen at lowering."""
    void = DType("void", Kind.VOID, 0)
    bool = DType("bool", Kind.BOOL, 1)
    uint8 = DType("uint8", Kind.UINT, 1)
    uint16 = DType("uint16", Kind.UINT, 2)
    uint32 = DType("uint32", Kind.UINT, 4)
    uint64 = DType("uint64", Kind.UINT, 8)
    int8 = DType("int8", Kind.INT, 1)
    int16 = DType("int16", Kind.INT, 2)
    int32 = DType("int32", Kind.INT, 4)
    int64 = DType("int64", Kind.INT, 8)
    float16 = DType("float16", Kind.FLOAT, 2)
    bfloat16 = DType("bfloat16", Kind.FLOAT, 2)
    float32 = DType("float32", Kind.FLOAT, 4)
    float64 = DType("float64", Kind.FLOAT, 8)
    index = DType("index", Kind.INT, 8)
    half, float, double = float16, float32, float64             # other names; `float` and `int` are no Python types here
    char, short, int, long, uchar = int8, int16, int32, int64, uint8
    default_float = float32                                     # of Python floats; can be set
    default_int = int64                                         # of Python ints; can be set


NAMED = {d.name: d for d in vars(dtypes).values() if isinstance(d, DType) and d.name not in ("void", "index")}
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64", "short": "int16", "char": "int8", "uchar": "uint8"}


def to_dtype(x: Any) -> DType:
    """The dtype meant by a DType, a name, a Python type or a NumPy dtype. DTypeError lists the good ones."""
    if isinstance(x, DType) and x.name in NAMED:
        return x
    if x is bool or x is int or x is float:
        return {bool: dtypes.bool, int: dtypes.default_int, float: dtypes.default_float}[x]
    name = x if isinstance(x, str) else getattr(x, "name", getattr(x, "__name__", None))
    found = NAMED.get(ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        raise DTypeError(f"unknown dtype {x!r}; known: {', '.join(sorted(NAMED))}")
    return found


def promote(*kinds: DType) -> DType:
    """The dtype of an operation on these, as the Array API has it; where that says nothing: an integer and a float give the float, float16 and
    bfloat16 give float32, uint64 and a signed integer give float64 (as NumPy)."""
    out = kinds[0]
    for d in kinds[1:]:
        out = _promote(out, d)
    return out


least_upper_dtype = promote


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.kind is b.kind:
        if a.itemsize == b.itemsize:
            return dtypes.float32                               # float16 and bfloat16
        return a if a.itemsize > b.itemsize else b
    lo, hi = sorted((a, b), key=lambda d: d.kind)
    if hi.is_float or lo.is_bool or lo.itemsize < hi.itemsize:
        return hi
    return {1: dtypes.int16, 2: dtypes.int32, 4: dtypes.int64, 8: dtypes.float64}[lo.itemsize]      # unsigned with signed of the same size or less


def round_to(v: float, dt: DType) -> float:
    """The nearest value of a float type, ties to even."""
    if dt is dtypes.float64 or not math.isfinite(v):
        return v
    code = "<e" if dt is dtypes.float16 else "<f"
    try:
        v = float(struct.unpack(code, struct.pack(code, v))[0])
    except OverflowError:
        return math.copysign(math.inf, v)
    if dt is dtypes.bfloat16:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        v = float(struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0])
    return v
