"""The measuring process: runs candidates of one kernel on memory of its own, checks them against the unoptimized kernel, and times them.

Started by `runtime/measure.py`, which kills it when a candidate takes too long. Messages are pickled tuples, each after its
length, on standard input and output. Buffers stand between guard bytes, outputs are poisoned before a run, inputs are compared after it.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from .. import knobs
from ..dtype import DType, dtypes
from ..program import Program
from .buffer import NUMPY, Block
from .device import Launch, Loaded, Runnable

GUARD = 4096                     # bytes before and after each buffer
NAN, MARK = 0xFF, 0x5B           # what they are around inputs, NaN in every float type; and around outputs, so that no copied NaN looks like it
POISON = 0xA5                    # what outputs are filled with: a kernel that leaves some of them out is found
DRAWS = 3                        # inputs that a candidate must be right on: two random ones, one with special values in it
PART_SECONDS = 0.3               # of the unoptimized kernel, for each draw, where it is too slow to run as a whole
FLUSH = 64 << 20                 # bytes that are written to empty the caches


@dataclass(frozen=True)
class Param:
    """A buffer of the kernel. reads, writes: what the kernel does with it."""
    dtype: DType
    size: int
    reads: bool
    writes: bool


@dataclass(frozen=True)
class Task:
    """What candidates have to compute. terms: the longest reduction; tolerance follows from it and the dtype."""
    params: tuple[Param, ...]
    terms: int
    seed: int
    threads: int


class Memory:
    """One buffer between its guards, and what it holds before each draw."""

    def __init__(self, param: Param, rngs: list[np.random.Generator], alone: bool) -> None:
        self.param, self.nbytes = param, param.size * param.dtype.itemsize
        self._block = Block(self.nbytes + 2 * GUARD)
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * (self.nbytes + 2 * GUARD)).from_address(self._block.address))
        self.mark = MARK if param.writes else NAN
        raw[:] = self.mark
        self.before, self.bytes, self.after = raw[:GUARD], raw[GUARD:GUARD + self.nbytes], raw[GUARD + self.nbytes:]
        self.address = self._block.address + GUARD
        self.draws = [draw(param, rng, special=i == DRAWS - 1, alone=alone) for i, rng in enumerate(rngs)] if param.reads else []
        self.loaded = -1

    def prepare(self, i: int) -> None:
        """The contents before a run on draw i."""
        if self.param.reads and (self.loaded != i or self.param.writes):
            self.bytes[:] = self.draws[i].view(np.uint8)
            self.loaded = i
        if self.param.writes and not self.param.reads:
            self.bytes[:] = POISON

    def fault(self, i: int) -> str:
        """What a run did to this buffer that it may not do."""
        if not (self.before == self.mark).all() or not (self.after == self.mark).all():
            self.before[:], self.after[:] = self.mark, self.mark
            return "wrote outside of a buffer"
        if self.param.reads and not self.param.writes and not np.array_equal(self.bytes, self.draws[i].view(np.uint8)):
            self.loaded = -1
            return "changed an input"
        return ""


def draw(param: Param, rng: np.random.Generator, special: bool, alone: bool) -> np.ndarray[Any, Any]:
    """Random contents: floats around 0 or small whole numbers; a few infinities, NaN, zeros of both signs and tiny ones among them if special.

    alone: no sums of elements are made, which could overflow in one order and not in another; so huge ones too.
    """
    n, kind = param.size, NUMPY[param.dtype]
    if param.dtype.is_bool:
        return rng.integers(0, 2, n).astype(kind)
    if param.dtype.is_int:
        low = 0 if param.dtype.is_unsigned else -4
        return rng.integers(low, 100, n).astype(kind)
    x = rng.standard_normal(n).astype(np.float32)
    if special and n:
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40, *([3e38, 1e30] if alone else [])], np.float32)
        at = rng.integers(0, n, max(len(values), n // 500))
        x[at] = np.resize(values, len(at))
    if param.dtype is dtypes.bfloat16:
        return (x.view(np.uint32) >> 16).astype(kind)
    with np.errstate(over="ignore"):
        return x.astype(kind)


def as_float(raw: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The values, in float32 where that holds them."""
    x = raw.view(NUMPY[dtype])
    return (x.astype(np.uint32) << 16).view(np.float32) if dtype is dtypes.bfloat16 else x.astype(np.float32) if dtype.itemsize < 4 else x


def epsilon(dtype: DType) -> float:
    return 2.0 ** -8 if dtype is dtypes.bfloat16 else float(np.finfo(NUMPY[dtype]).eps)


def worst_error(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: DType, terms: int) -> float:
    """The largest error over what is allowed: integers exactly; floats within their rounding for a sum of so many terms. NaN and infinities have to agree."""
    if not dtype.is_float:
        return 0.0 if np.array_equal(got, want) else np.inf
    if np.array_equal(got, want):
        return 0.0
    a, b = as_float(got.view(np.uint8), dtype), as_float(want.view(np.uint8), dtype)
    if not np.isfinite(b).all():
        odd = ~np.isfinite(b)
        if not np.array_equal(a[odd], b[odd], equal_nan=True):
            return np.inf
        a, b = a[~odd], b[~odd]
    if not len(b):
        return 0.0
    size = np.abs(b)
    allowed = 4 * epsilon(dtype) + 4 * epsilon(dtypes.float64 if dtype is dtypes.float64 else dtypes.float32) * terms ** 0.5
    with np.errstate(invalid="ignore"):
        worst = float(np.max(np.abs(a - b) / (size + size.mean() + np.finfo(np.float32).tiny))) / allowed
    return worst if worst == worst else np.inf


class Bench:
    """Candidates of one task, by number."""

    def __init__(self, task: Task) -> None:
        from . import get_device
        self._knobs = knobs.scope(MOROK_THREADS=task.threads, DEBUG=0)
        self._knobs.__enter__()                                  # for as long as the process lives
        self.task, self.device = task, get_device("CPU")
        seeds = np.random.SeedSequence(task.seed).spawn(DRAWS * len(task.params))
        self.memory = [Memory(p, [np.random.default_rng(s) for s in seeds[i * DRAWS:(i + 1) * DRAWS]], task.terms == 1) for i, p in enumerate(task.params)]
        self.plans: dict[int, tuple[Runnable, list[int], Any]] = {}
        self.entries: dict[int, tuple[Loaded, list[int], int]] = {}
        self.wanted: list[list[np.ndarray[Any, Any]]] = []
        self._flush = np.zeros(0, np.uint8)

    def load(self, number: int, program: Program, code: bytes) -> None:
        loaded = self.device.load(code, program.entry)
        launch = Launch(program, loaded, tuple((k, 0) for k in range(len(self.memory))), 0.01)
        plan = self.device.plan([launch], len(self.memory) + 1)
        scratch = Block(max(64, program.scratch))
        addresses = [*(m.address for m in self.memory), scratch.address]
        self.plans[number] = plan, addresses, scratch
        self.entries[number] = loaded, addresses, program.chunks

    def run(self, number: int) -> float:
        """Seconds of one run."""
        plan, addresses, _ = self.plans[number]
        times = plan.timed(*addresses)
        return times[1] - times[0]

    def reference(self, number: int, oracle: int | None) -> None:
        """What the candidates have to give is what this one gives.

        oracle: the unoptimized kernel with its outer loop as THREAD axis, where it is too slow to run as a whole: parts of it are compared.
        RuntimeError if they differ.
        """
        self.wanted = [[m.copy() for m in self.outputs(number, i)] for i in range(DRAWS)]
        for i in range(DRAWS if oracle is not None else 0):
            self.compare_parts(oracle, i)                        # type: ignore[arg-type]

    def compare_parts(self, oracle: int, i: int) -> None:
        """The first and the last chunk, and others for as long as there is time."""
        loaded, addresses, chunks = self.entries[oracle]
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(loaded.address)
        table = (ctypes.c_void_p * len(self.memory))(*addresses[:-1])
        for m in self.memory:
            m.prepare(i)
        before = [m.bytes.copy() for m in self.memory if m.param.writes]
        end = time.perf_counter() + PART_SECONDS
        for k in dict.fromkeys([0, chunks - 1, *np.random.default_rng(i).permutation(chunks).tolist()]):
            entry(table, k, k + 1, addresses[-1])
            if time.perf_counter() > end:
                break
        for m, old, want in zip((m for m in self.memory if m.param.writes), before, self.wanted[i], strict=True):
            kind = NUMPY[m.param.dtype]
            at = (m.bytes != old).reshape(-1, kind.itemsize).any(1)
            if not at.any() or worst_error(m.bytes.view(kind)[at], want.view(kind)[at], m.param.dtype, self.task.terms) > 1:
                raise RuntimeError("the heuristic schedule and the unoptimized kernel give different values")
            m.loaded = -1

    def outputs(self, number: int, i: int) -> list[np.ndarray[Any, Any]]:
        """The outputs of a run on draw i."""
        for m in self.memory:
            m.prepare(i)
        self.run(number)
        return [m.bytes for m in self.memory if m.param.writes]

    def verdict(self, number: int) -> tuple[str, float]:
        """Why a candidate is wrong, or nothing; and its worst error, as a part of what is allowed."""
        kinds = [m.param.dtype for m in self.memory if m.param.writes]
        worst = 0.0
        for i in range(DRAWS):
            got = self.outputs(number, i)
            for m in self.memory:
                if fault := m.fault(i):
                    return fault, np.inf
            worst = max(worst, *(worst_error(a, b, d, self.task.terms) for a, b, d in zip(got, self.wanted[i], kinds, strict=True)))
            if worst > 1:
                return f"wrong values: {worst:.3g} times the allowed error", worst
            if i == 0:
                first = [a.copy() for a in got]
                if not all(map(np.array_equal, first, self.outputs(number, i))):
                    return "two runs on the same inputs differ", worst
        return "", worst

    def samples(self, number: int, seconds: float, least: int, most: int, stop_above: float, flush: bool) -> list[float]:
        """Times of runs; of few if they are far above `stop_above`."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < least or (time.perf_counter() < end and len(times) < most):
            if flush:
                self.flush()
            times.append(self.run(number))
            if len(times) >= 2 and min(times) > stop_above:
                break
        return times

    def flush(self) -> None:
        """Fill the caches with other things."""
        if not len(self._flush):
            self._flush = np.zeros(FLUSH, np.uint8)
        self._flush += 1

    def race(self, numbers: list[int], rounds: int, seconds: float, flush: bool) -> dict[int, list[float]]:
        """Candidates take turns, a run each a round, from another start each round."""
        times: dict[int, list[float]] = {n: [] for n in numbers}
        end = time.perf_counter() + seconds
        for k in range(rounds):
            for n in numbers[k % len(numbers):] + numbers[:k % len(numbers)]:
                if flush:
                    self.flush()
                times[n].append(self.run(n))
            if time.perf_counter() > end and k >= 2:
                break
        return times


def receive(stream: BinaryIO) -> Any:
    """The next message; EOFError when there is none."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (n,) = struct.unpack("<q", head)
    return pickle.loads(stream.read(n))                          # noqa: S301  # from the process that started this one, or was started by it


def send(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer until the other side is gone. An exception is an answer too."""
    bench: Bench | None = None
    while True:
        try:
            name, *args = receive(source)
        except EOFError:
            return
        try:
            if name == "open":
                bench, answer = Bench(*args), None
            else:
                answer = getattr(bench, name)(*args)
            send(target, ("ok", answer))
        except Exception as e:
            send(target, ("failed", f"{type(e).__name__}: {e}"))


def main() -> None:
    """The process. Whatever prints in it does not print between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
