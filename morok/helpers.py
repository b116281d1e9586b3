"""Small functions on the standard library only; imports nothing else from morok but errors."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def prod(xs: Iterable[int]) -> int:
    """Product of integers; 1 for none."""
    return math.prod(map(int, xs))           # a symbolic size counts as the largest that it can be


def dedup(xs: Iterable[T]) -> list[T]:
    """The elements in order of first appearance, each once."""
    return list(dict.fromkeys(xs))


def ceildiv(a: int, b: int) -> int:
    """a / b rounded up; b > 0."""
    return -(-a // b)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array of this shape."""
    out: list[int] = []
    step = 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))
