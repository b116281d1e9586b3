"""The parent's side of the measuring process: starts it, asks it, and kills it when an answer takes too long; then the next question starts a new one."""
from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..program import Program
from .bench import Task, receive, send

START_SECONDS = 60.0             # for starting, filling the buffers, and the unoptimized kernel
FLOOR_SECONDS = 2.0              # no candidate is given less
MOST_TIMES = 50                  # a candidate may take so many times the best so far, for all the runs that check it


class Lost(Exception):
    """The measuring process ended, or was ended; the text says how."""


@dataclass
class Trial:
    """What became of a candidate: its samples in seconds, or why it was rejected."""
    samples: list[float] = field(default_factory=list)
    reason: str = ""
    worst: float = 0.0

    @property
    def best(self) -> float:
        """The shortest time; infinite if it was rejected."""
        return min(self.samples) if self.samples and not self.reason else float("inf")


class Measurer:
    """Measures candidates of one kernel. reference: says what is right; oracle: what parts of that are compared with, if it is not the unoptimized kernel."""

    def __init__(self, task: Task, reference: tuple[Program, bytes], oracle: tuple[Program, bytes] | None = None, limit: float = START_SECONDS) -> None:
        self.task, self._reference, self._oracle, self._limit = task, reference, oracle, limit
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: set[int] = set()
        self.codes: dict[int, tuple[Program, bytes]] = {}
        self.reference_seconds = 0.0
        self._start()

    def _start(self) -> None:
        code = f"import sys; sys.path[:0] = {[str(Path(__file__).resolve().parents[2])]!r}; from morok.runtime.bench import main; main()"
        self._process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                         start_new_session=True)
        self._loaded = set()
        self._ask(self._limit, "open", self.task)
        self._ask(self._limit, "load", -1, *self._reference)
        if self._oracle is not None:
            self._ask(self._limit, "load", -2, *self._oracle)
        self._ask(self._limit, "reference", -1, None if self._oracle is None else -2)
        self.reference_seconds = self._ask(self._limit, "run", -1)

    def _ask(self, seconds: float, *message: Any) -> Any:
        """An answer within so many seconds. Lost if there is none, RuntimeError if the process says that it failed."""
        p: Any = self._process
        assert p is not None and p.stdin is not None and p.stdout is not None
        try:
            send(p.stdin, message)
            ready, _, _ = select.select([p.stdout], [], [], seconds)
            if not ready:
                raise Lost(f"no answer within {seconds:.1f} s")
            kind, answer = receive(p.stdout)
        except (EOFError, OSError):
            p.wait()
            code = p.returncode
            raise Lost(f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}") from None
        if kind == "failed":
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        """End the process, whatever it does."""
        p, self._process = self._process, None
        if p is not None:
            if p.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            for stream in (p.stdin, p.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):   # what was not sent yet does not matter
                        stream.close()

    def _question(self, seconds: float, *message: Any) -> Any:
        """`_ask`; the process is started if there is none, and ended if it does not answer."""
        if self._process is None:
            self._start()
        try:
            return self._ask(seconds, *message)
        except Lost:
            self.close()
            raise

    def _load(self, number: int) -> None:
        if self._process is None:
            self._start()
        if number not in self._loaded:
            self._question(FLOOR_SECONDS, "load", number, *self.codes[number])
            self._loaded.add(number)

    def trial(self, number: int, program: Program, code: bytes, best: float, seconds: float = 0.05, flush: bool = False) -> Trial:
        """Check a candidate, then time it for about so long. best: seconds of the best so far, from which its time limit follows."""
        self.codes[number] = program, code
        limit = max(FLOOR_SECONDS, MOST_TIMES * min(best, self.reference_seconds))
        try:
            self._load(number)
            reason, worst = self._question(limit, "verdict", number)
            if reason:
                return Trial([], reason, worst)
            return Trial(self._question(limit, "samples", number, seconds, 3, 200, 3 * best, flush), "", worst)
        except Lost as e:
            return Trial([], str(e))
        except RuntimeError as e:
            return Trial([], str(e))

    def race(self, numbers: list[int], rounds: int, seconds: float, flush: bool = False) -> dict[int, list[float]]:
        """Times of candidates that took turns. Raises Lost if one of them does not answer now."""
        for n in numbers:
            self._load(n)
        start = time.perf_counter()
        times: dict[int, list[float]] = self._question(FLOOR_SECONDS + 10 * seconds, "race", numbers, rounds, seconds, flush)
        self.race_seconds = time.perf_counter() - start
        return times

    def __enter__(self) -> "Measurer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
