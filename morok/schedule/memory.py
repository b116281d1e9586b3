"""Where buffers lie that only live inside a plan: one arena, parts of which serve several buffers after each other."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALIGN = 64                   # bytes: a cache line, and the widest vector register


class Life(NamedTuple):
    """A buffer's first and last step, both included, and its size in bytes."""
    first: int
    last: int
    size: int


class Layout(NamedTuple):
    """An offset for each buffer, and the size of the arena; all multiples of ALIGN."""
    offsets: tuple[int, ...]
    size: int


def place(lives: Sequence[Life]) -> Layout:
    """Offsets at which no two buffers that live at the same step overlap: largest first, each at the lowest place that is free all its life."""
    n = len(lives)
    first, last, size = np.array([(a, b, -(-max(s, 1) // ALIGN) * ALIGN) for a, b, s in lives], np.int64).reshape(n, 3).T
    offset = np.zeros(n, np.int64)
    placed = np.zeros(n, bool)
    for i in sorted(range(n), key=lambda i: (-size[i], first[i])):
        near = np.flatnonzero(placed & (first <= last[i]) & (last >= first[i]))
        at = 0
        for j in near[np.argsort(offset[near], kind="stable")]:
            if offset[j] - at >= size[i]:
                break
            at = max(at, int(offset[j] + size[j]))
        offset[i], placed[i] = at, True
    return Layout(tuple(offset.tolist()), int((offset + size).max()) if n else 0)
