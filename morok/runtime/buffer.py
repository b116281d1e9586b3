"""Memory of arrays: own blocks from a free list, or a NumPy array's; and which BUFFER node has which memory."""
from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
import weakref
from typing import Any

import numpy as np

from .. import knobs
from ..dtype import DType, dtypes
from ..errors import ResourceError
from ..helpers import prod
from ..uop import BufferArg, Op, UOp

HUGE = 2 << 20                   # size of a huge page; blocks from here on ask for them
NUMPY = {dtypes.bool: np.dtype(np.bool_), dtypes.bfloat16: np.dtype(np.uint16)} | {
    d: np.dtype(d.name) for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
                                  dtypes.float16, dtypes.float32, dtypes.float64)}


class Block:
    """One piece of memory, aligned to 64 bytes."""
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
            self.memory = ctypes.create_string_buffer(size + 64)
            self.address = -(-ctypes.addressof(self.memory) // 64) * 64


class Allocator:
    """Blocks by size class, kept for reuse when they die: first-touch page faults cost more than most kernels."""

    def __init__(self) -> None:
        self._free: dict[int, list[Block]] = {}
        self._lock = threading.RLock()                          # a buffer may die inside take() when garbage is collected there
        self.cached = self.used = self.fresh = self.reused = 0

    @staticmethod
    def size_class(size: int) -> int:
        """Sizes rounded up to an eighth of their power of two, at least 64."""
        step = max(64, 1 << max(0, (size - 1).bit_length() - 3))
        return -(-max(size, 1) // step) * step

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes."""
        c = self.size_class(size)
        with self._lock:
            free = self._free.get(c)
            if free:
                self.cached -= c
                self.used += c
                self.reused += 1
                return free.pop()
        check_available(c)
        try:
            block = Block(c)
        except (MemoryError, OSError, OverflowError, ValueError):
            self.release()
            try:
                block = Block(c)
            except (MemoryError, OSError, OverflowError, ValueError):
                raise ResourceError("memory in bytes", size, available(), "free tensors, or use smaller ones") from None
        with self._lock:
            self.used += c
            self.fresh += 1
        return block

    def give(self, block: Block) -> None:
        """Take a block back."""
        with self._lock:
            self.used -= block.size
            if self.cached + block.size <= knobs.MOROK_CACHE_LIMIT.get():
                self._free.setdefault(block.size, []).append(block)
                self.cached += block.size

    def release(self) -> None:
        """Return all unused blocks to the system."""
        with self._lock:
            self._free.clear()
            self.cached = 0


def available() -> int:
    """Bytes that can be had without swapping, as the system tells it; a large number where it does not."""
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 1 << 62


def check_available(size: int) -> None:
    """Refuse what cannot be had: lazily mapped memory would be granted now and kill the process later."""
    if size >= 64 << 20 and size > (limit := available()):
        allocator.release()
        raise ResourceError("memory in bytes", size, limit, "free tensors, or use smaller ones")


allocator = Allocator()


class Buffer:
    """The memory of one array: address, number of elements, dtype. Own memory goes back to the allocator when the Buffer dies."""
    __slots__ = ("address", "size", "dtype", "_owner", "_block", "__weakref__")

    def __init__(self, size: int, dtype: DType, address: int, owner: Any = None, block: Block | None = None) -> None:
        self.size, self.dtype, self.address, self._owner, self._block = size, dtype, address, owner, block

    @staticmethod
    def empty(size: int, dtype: DType) -> "Buffer":
        """Fresh memory, contents undefined."""
        block = allocator.take(size * dtype.itemsize)
        return Buffer(size, dtype, block.address, None, block)

    @staticmethod
    def from_numpy(array: np.ndarray[Any, Any], dtype: DType) -> "Buffer":
        """The memory of a C-contiguous array, which is kept alive; no copy."""
        return Buffer(array.size, dtype, array.__array_interface__["data"][0], array)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def numpy(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """A view of the memory as an array; bfloat16 shows as its bits, uint16. The view keeps the memory alive."""
        if self.size == 0:
            return np.empty(shape, NUMPY[self.dtype])
        raw: Any = (ctypes.c_char * self.nbytes).from_address(self.address)
        raw._buffer = self
        view: np.ndarray[Any, Any] = np.frombuffer(raw, NUMPY[self.dtype], self.size)
        return view.reshape(shape)

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None and allocator is not None:
            allocator.give(block)


_uids = itertools.count(1)
_memory: "weakref.WeakKeyDictionary[UOp, Buffer]" = weakref.WeakKeyDictionary()


def new_buffer_node(shape: tuple[int, ...], dtype: DType, device: str) -> UOp:
    """A BUFFER node for an array of this shape; no memory yet."""
    return UOp(Op.BUFFER, dtype, (), BufferArg(next(_uids), tuple(shape), device))


def attach(node: UOp, buffer: Buffer) -> None:
    """Give a BUFFER node its memory; it lives as long as the node."""
    if buffer.size != prod(node.arg.shape):
        raise ResourceError("elements of a buffer", prod(node.arg.shape), buffer.size)
    _memory[node] = buffer


def buffer_of(node: UOp) -> Buffer | None:
    """The memory of a BUFFER node, if it has any yet."""
    return _memory.get(node)
