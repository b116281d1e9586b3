"""Scalar types: kinds, sizes, limits and promotion."""
from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


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
        """`v` as the Python value that a CONST of this type holds; integers wrap, as in every fold."""
        if self.is_float:
            return float(v)
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
    default_float = float32
    default_int = int64
