"""Worker threads in native code: chunks of a kernel are claimed from one counter, so that a slow core holds nobody up."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable

from ..errors import ResourceError
from .buffer import Block
from .pool_ir import CPU_SET, LAYOUT, MOST_WORKERS, SIZE

SPIN_TURNS = 20000               # polls of an idle worker before it sleeps: less than a millisecond
_WORD = ctypes.c_int64


class Pool:
    """`threads - 1` workers and the calling thread, started by the first plan that needs them. One plan owns the team at a time; others run alone.

    symbol: address of a function that `pool_source` exports. The state stays in memory until the process ends, as plans point to it.
    """

    def __init__(self, threads: int, symbol: Callable[[str], int]) -> None:
        self.threads = threads
        self._state = ctypes.create_string_buffer(SIZE + 128)
        self.address = -(-ctypes.addressof(self._state) // 128) * 128
        self._halt = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(symbol("halt"))
        self._lock = threading.Lock()
        self._scratch: list[Block] = []
        self._size = 0
        self._pid = os.getpid()
        self._word("SPIN").value = SPIN_TURNS
        self._word("WANTED").value = min(threads - 1, MOST_WORKERS)
        for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
            if cpu < 8 * CPU_SET:
                ctypes.c_uint8.from_address(self.address + LAYOUT["ALLOWED"] + cpu // 8).value |= 1 << cpu % 8
        atexit.register(self.stop)

    def _word(self, name: str) -> ctypes.c_int64:
        return _WORD.from_address(self.address + LAYOUT[name])

    @property
    def workers(self) -> int:
        """How many have been started and not stopped."""
        return self._word("WORKERS").value

    def reserve(self, size: int) -> None:
        """Give every thread at least `size` bytes of scratch, aligned to 64. What was given before stays, as a kernel may be using it."""
        with self._lock:
            if size <= self._size:
                return
            size = max(size, 2 * self._size)
            try:
                blocks = [Block(size) for _ in range(min(self.threads, MOST_WORKERS + 1))]
            except (MemoryError, OSError):
                raise ResourceError("scratch memory of a kernel in bytes", size * self.threads, self._size) from None
            self._scratch += blocks
            self._size = size
            for i, block in enumerate(blocks):
                _WORD.from_address(self.address + LAYOUT["SCRATCH"] + 8 * i).value = block.address

    def stop(self) -> None:
        """End the workers; only in the process that started them. Kernels launched later run on the caller alone."""
        atexit.unregister(self.stop)
        if os.getpid() == self._pid:
            self._halt(self.address)

    def after_fork(self) -> None:
        """In a child process: no worker lives here, and the thread that owned the team may be gone. The next plan starts new workers."""
        self._lock = threading.Lock()
        if self._pid != os.getpid():
            wanted = self._word("WANTED").value
            ctypes.memset(self.address, 0, LAYOUT["ALLOWED"])
            self._word("SPIN").value, self._word("WANTED").value = SPIN_TURNS, wanted
            self._pid = os.getpid()
