"""Worker threads in native code: chunks of a kernel are claimed from one counter, so that a slow core holds nobody up."""
from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
from collections.abc import Callable

import numpy as np

from ..errors import ResourceError
from .pool_ir import LAYOUT, MOST_WORKERS, SIZE

SPIN_TURNS = 20000               # polls of an idle worker before it sleeps: less than a millisecond
_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p


class Scratch:
    """64-byte aligned memory of one thread, grown on demand."""

    def __init__(self) -> None:
        self.size, self.address, self._memory = -1, 0, np.empty(0, np.uint8)

    def grow(self, size: int) -> int:
        """Address of at least `size` bytes; what was there before is lost."""
        if size > self.size:
            try:
                self._memory = np.empty(size + 64, np.uint8)
            except MemoryError:
                raise ResourceError("scratch memory of a kernel in bytes", size, self.size) from None
            self.size, self.address = size, -(-self._memory.__array_interface__["data"][0] // 64) * 64
        return self.address


class Pool:
    """`threads - 1` workers and the calling thread. One caller owns the team at a time; others run their kernels alone.

    symbol: address of a function that `pool_source` exports; code: what keeps these functions in memory.
    """

    def __init__(self, threads: int, symbol: Callable[[str], int], code: object = None) -> None:
        self.threads, self.owner = threads, threading.Lock()
        self._state = ctypes.create_string_buffer(SIZE + 128)
        self._base = -(-ctypes.addressof(self._state) // 128) * 128
        wanted = min(threads - 1, MOST_WORKERS)
        self._scratch = [Scratch() for _ in range(wanted + 1)]
        self._records = (_POINTER * (2 * max(wanted, 1)))()
        for i in range(wanted):
            self._records[2 * i], self._records[2 * i + 1] = self._base, i + 1
        _WORD.from_address(self._base + LAYOUT["SPIN"]).value = SPIN_TURNS
        self._code = code
        self._launch = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _WORD, _WORD)(symbol("launch"))
        self._halt = ctypes.CFUNCTYPE(None, _POINTER, _WORD)(symbol("halt"))
        self._pid = os.getpid()
        self.workers = self._start(symbol("start"), wanted)
        atexit.register(self.stop)

    def _start(self, address: int, wanted: int) -> int:
        """Start the workers with all signals blocked, so that these reach the threads of Python; how many there are now."""
        start = ctypes.CFUNCTYPE(_WORD, _POINTER, _WORD, _POINTER)(address)
        old = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            return int(start(self._base, wanted, ctypes.addressof(self._records)))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def launch(self, entry: int, args: int, extent: int, chunks: int, scratch: int) -> None:
        """Run [0, extent) of a kernel in `chunks` parts on the team. The caller holds `owner`."""
        if scratch > self._scratch[-1].size:
            for i, s in enumerate(self._scratch):
                _POINTER.from_address(self._base + LAYOUT["SCRATCH"] + 8 * i).value = s.grow(scratch)
        self._launch(self._base, entry, args, extent, chunks)

    def stop(self) -> None:
        """End the workers; only in the process that started them. Kernels launched later run on the caller alone."""
        atexit.unregister(self.stop)
        if self.workers and os.getpid() == self._pid:
            self._halt(self._base, self.workers)
        self.workers = 0
