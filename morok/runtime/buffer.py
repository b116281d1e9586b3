"""Memory of arrays: own blocks from a free list, or a NumPy array's; and which BUFFER node has which memory."""
from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import threading
from typing import Any

import numpy as np

from .. import knobs
from ..dtype import DType, dtypes
from ..errors import IRError, ResourceError
from ..helpers import prod
from ..uop import BufferArg, Op, UOp
from .host import available_memory

HUGE = 2 << 20                   # size of a huge page; blocks from here on ask for them
CHECKED = 64 << 20               # blocks from here on are refused when the system has not so much
NUMPY = {dtypes.bool: np.dtype(np.bool_), dtypes.bfloat16: np.dtype(np.uint16)} | {
    d: np.dtype(d.name) for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
                                  dtypes.float16, dtypes.float32, dtypes.float64)}


class Block:
    """One piece of memory, aligned to 64 bytes; from 2 MB on to huge pages, as first touch of small pages costs more than most kernels."""
    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        if size >= HUGE:
            self.memory: Any = mmap.mmap(-1, size + HUGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
            self.address = -(-start // HUGE) * HUGE
            if hasattr(mmap, "MADV_HUGEPAGE"):
                self.memory.madvise(mmap.MADV_HUGEPAGE)
        else:
            self.memory = np.empty(size + 64, np.uint8)
            self.address = -(-self.memory.__array_interface__["data"][0] // 64) * 64


class Allocator:
    """Blocks by size class, kept for reuse when they die.

    cached, used, peak: bytes that wait, that are in use, and that ever were at once. fresh, reused: blocks so far. limit: most bytes that are kept.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Block]] = {}                 # the class that was used last stands last
        self._lock = threading.RLock()                          # a buffer may die inside take() when garbage is collected there
        self.cached = self.used = self.peak = self.fresh = self.reused = 0
        self.limit = knobs.MOROK_CACHE_LIMIT.default
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()                          # another thread of the parent may hold the old one

    @staticmethod
    def size_class(size: int) -> int:
        """Sizes rounded up to an eighth of their power of two, at least 64."""
        step = max(64, 1 << max(0, (size - 1).bit_length() - 3))
        return -(-max(size, 1) // step) * step

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes, contents undefined. ResourceError if there is not so much; the allocator can be used afterwards."""
        c = self.size_class(size)
        with self._lock:
            free = self._free.get(c)
            if free:
                block = free.pop()
                self.cached -= c
                self.used += c
                self.peak = max(self.peak, self.used)
                self.reused += 1
                return block
        self.limit = knobs.MOROK_CACHE_LIMIT.get()
        block = self._new(c, size)
        with self._lock:
            self.used += c
            self.peak = max(self.peak, self.used)
            self.fresh += 1
        return block

    def _new(self, c: int, size: int) -> Block:
        for last in (False, True):
            free = available_memory() if c >= CHECKED else c    # memory is mapped lazily: what is not there would kill the process later
            if c <= free:
                try:
                    return Block(c)
                except (MemoryError, OSError, OverflowError, ValueError):
                    free = available_memory()
            if last:
                break
            self.free_cached()
        raise ResourceError("memory in bytes", size, free, "free tensors, or use smaller ones")

    def give(self, block: Block) -> None:
        """Take a block back; what was not used for longest goes to the system when more than `limit` bytes are kept."""
        with self._lock:
            self.used -= block.size
            free = self._free[block.size] = self._free.pop(block.size, [])
            free.append(block)
            self.cached += block.size
            while self.cached > self.limit:
                oldest = next(iter(self._free))
                if self._free[oldest]:
                    self._free[oldest].pop()
                    self.cached -= oldest
                else:
                    del self._free[oldest]

    def free_cached(self) -> None:
        """Return all unused blocks to the system."""
        with self._lock:
            self._free.clear()
            self.cached = 0


allocator = Allocator()


def free_cached() -> None:
    """Return memory that is kept for reuse to the system. MOROK_CACHE_LIMIT says how much is kept at most."""
    allocator.free_cached()


class _Array:
    """What NumPy needs to know of a Buffer's memory; an array made of it keeps this, and so the Buffer, alive."""
    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: "Buffer", shape: tuple[int, ...]) -> None:
        self.buffer = buffer
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": NUMPY[buffer.dtype].str, "data": (buffer.address, False)}


class Buffer:
    """The memory of one array: address, number of elements, dtype. Own memory goes back to the allocator when the Buffer dies.

    kind: shape, dtype and device of the array, once a node has it.
    """
    __slots__ = ("address", "size", "dtype", "kind", "_owner", "_block", "__weakref__")
    kind: Any

    def __init__(self, size: int, dtype: DType, address: int, owner: Any = None, block: Block | None = None) -> None:
        self.size, self.dtype, self.address, self._owner, self._block = size, dtype, address, owner, block
        self.kind = None

    @staticmethod
    def empty(size: int, dtype: DType) -> "Buffer":
        """Fresh memory, contents undefined."""
        block = allocator.take(size * dtype.itemsize)
        return Buffer(size, dtype, block.address, None, block)

    @staticmethod
    def bytes(size: int) -> "Buffer":
        """Fresh memory of so many bytes."""
        return Buffer.empty(size, dtypes.uint8)

    @staticmethod
    def from_numpy(array: np.ndarray[Any, Any], dtype: DType) -> "Buffer":
        """The memory of a C-contiguous array, which is kept alive; no copy."""
        return Buffer(array.size, dtype, array.__array_interface__["data"][0], array)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def numpy(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A view of the memory as an array; bfloat16 shows as its bits, uint16. The view keeps the memory alive."""
        if prod(shape) != self.size:
            raise IRError(f"an array of shape {shape} does not fit a buffer of {self.size} elements")
        return np.asarray(_Array(self, shape))

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None and allocator is not None:
            allocator.give(block)


_uids = itertools.count(1)


def new_buffer_node(shape: tuple[int, ...], dtype: DType, device: str) -> UOp:
    """A BUFFER node for an array of this shape; no memory yet."""
    return UOp(Op.BUFFER, dtype, (), BufferArg(next(_uids), tuple(shape), device))


def attach(node: UOp, buffer: Buffer) -> None:
    """Give a BUFFER node its memory; it lives as long as the node."""
    if buffer.size != prod(node.arg.shape) or buffer.dtype is not node.dtype:
        raise IRError(f"{buffer.size} elements of {buffer.dtype.name} are no memory for {node.dtype.name} {node.arg.shape}")
    kind = (node.arg.shape, node.dtype, node.arg.device)
    if buffer.kind not in (None, kind):
        buffer = Buffer(buffer.size, buffer.dtype, buffer.address, buffer)
    buffer.kind = kind
    node.memory = buffer


def buffer_of(node: UOp) -> Buffer | None:
    """The memory of a BUFFER node, if it has any yet."""
    return node.memory          # type: ignore[no-any-return]
