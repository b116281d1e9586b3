"""A library in a process of its own, which prepares rows and times calls when its turn comes.

Thread pools spin for a while after each call. In one process, or in turns too short to wait for that, one library's idle threads take the cores from
the next: a product of 256x256 matrices was seen at 16 ms where alone it takes 0.2. So each has its process, and a turn begins with a pause.
"""
from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from cases import Case, cases

NAMES = ("morok", "jit", "numpy", "torch", "jax")       # jit: Morok with the function captured
PAUSE = 0.06                     # seconds until the threads of the library before are asleep
Call = Callable[[], Any]


class Library:
    """The parent's side. version: of the library, or None where it is not installed."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, name), daemon=True)
        self._process.start()
        theirs.close()
        self.version: str | None = self._pipe.recv()

    def _ask(self, *message: Any) -> Any:
        self._pipe.send(message)
        return self._pipe.recv()

    def prepare(self, row: str) -> float | None:
        """Make the inputs of a row and run it; the largest error against float64, None where this library has not the row."""
        return self._ask("prepare", row)        # type: ignore[no-any-return]

    def take_turn(self, seconds: float) -> list[float]:
        """Seconds of the calls of one turn, at least two."""
        return self._ask("time", seconds)       # type: ignore[no-any-return]

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(5)


def serve(pipe: Connection, name: str) -> None:
    """The child's side: answer until the pipe is closed."""
    try:
        module = load(name)
    except ImportError:
        pipe.send(None)
        return
    pipe.send(module.__version__)
    rows = {c.name: c for c in cases(module if name == "torch" else None, module if name == "jax" else None)}
    call: Call | None = None
    while True:
        try:
            kind, value = pipe.recv()
        except EOFError:
            return
        if kind == "prepare":
            call = None                         # the last row's memory is let go before this row's is taken
            call, wrong = prepared(name, module, rows[value])
            pipe.send(wrong)
        else:
            assert call is not None
            pipe.send(timed(call, value))


def load(name: str) -> Any:
    """The library, set up to use all cores that this process may."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    module = __import__("morok" if name == "jit" else name)
    if name == "torch":
        module.set_grad_enabled(False)
        module.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    if name == "jax":
        import jax.numpy  # noqa: F401
        module.config.update("jax_enable_x64", True)        # integers of 64 bits, as the others have them
    return module


def prepared(name: str, module: Any, case: Case) -> tuple[Call | None, float | None]:
    """What is timed, from inputs that are there to an output that is there, and its error. "morok" builds its graph in each call; "jit" and JAX are captured."""
    f = getattr(case, "morok" if name == "jit" else name)
    if f is None:
        return None, None
    arrays = case.inputs()
    if name == "morok":
        tensors = [module.Tensor(a).realize() for a in arrays]
        call: Call = lambda: f(*tensors).realize()
    elif name == "jit":
        tensors, captured = [module.Tensor(a).realize() for a in arrays], module.jit(f)
        call = lambda: captured(*tensors)
    elif name == "numpy":
        call = lambda: f(*arrays)
    elif name == "torch":
        inputs = [module.from_numpy(a) for a in arrays]
        call = lambda: f(*inputs)
    else:
        on_device, jitted = [module.numpy.asarray(a) for a in arrays], module.jit(f)
        call = lambda: jitted(*on_device).block_until_ready()
    return call, error(case, arrays, call())


def error(case: Case, arrays: list[np.ndarray], got: Any) -> float:
    """The largest error, relative to an element plus the mean size of all."""
    want = np.asarray(case.reference(*(a.astype(np.float64) for a in arrays)), np.float64)
    found = np.asarray(got.numpy() if hasattr(got, "numpy") else got, np.float64)
    return float(np.max(np.abs(found - want) / (np.abs(want) + np.abs(want).mean() + 1e-30)))


def timed(call: Call, seconds: float) -> list[float]:
    """Call for so long after a pause and a call that wakes this library's own threads."""
    time.sleep(PAUSE)
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 2 or (time.perf_counter() < end and len(times) < 100_000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def middle(times: list[float]) -> float:
    return statistics.median(times)
