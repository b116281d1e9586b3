"""The function that is being captured in this thread, if one is: which tensors from outside it reads and changes, and what random numbers it draws.

While captures run, the class of tensors has a descriptor in place of the attribute `uop`, which sees every access; at other times nobody pays for this.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..dtype import DType
from ..errors import JitError
from ..uop import UOp

Fresh = Callable[[tuple[int, ...], DType, str], UOp]
running = 0                      # captures in all threads: while there are none, nobody has to ask further


class Trace:
    """What happens to tensors while a function is captured."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh                                           # makes BUFFER nodes, here placeholders without memory
        self.made: dict[int, Any] = {}                               # tensors from inside by id, kept until the end so that ids stay apart
        self.read: dict[int, tuple[Any, UOp]] = {}                   # tensors from outside that were read or changed, and their graphs before
        self.draws: list[UOp] = []                                   # one placeholder a call for random numbers

    @property
    def changed(self) -> list[tuple[Any, UOp]]:
        """Tensors from outside that have another graph now."""
        return [(t, t.__dict__["uop"]) for t, before in self.read.values() if t.__dict__["uop"] is not before]

    def undo(self) -> None:
        """Give the tensors from outside their old graphs again."""
        for t, before in self.read.values():
            t.__dict__["uop"] = before


class _Local(threading.local):
    trace: Trace | None = None


_local = _Local()
_lock = threading.Lock()


def current() -> Trace | None:
    """The capture that runs in this thread."""
    return _local.trace if running else None


class _Watch:
    """The attribute `uop` while captures run: the value is where it always is, in the tensor's dictionary."""

    def __get__(self, t: Any, owner: type) -> UOp:
        if t is None or "uop" not in t.__dict__:
            raise AttributeError("uop")                              # the class answers, as without a capture
        now: UOp = t.__dict__["uop"]
        if (trace := _local.trace) is not None and id(t) not in trace.made:
            trace.read.setdefault(id(t), (t, now))
        return now

    def __set__(self, t: Any, value: UOp) -> None:
        if (trace := _local.trace) is not None and id(t) not in trace.made:
            if "uop" in t.__dict__:
                trace.read.setdefault(id(t), (t, t.__dict__["uop"]))
            else:
                trace.made[id(t)] = t
        t.__dict__["uop"] = value


@contextmanager
def capture(cls: type, fresh: Fresh) -> Iterator[Trace]:
    """A block of captured code on tensors of a class; those from outside have their old values afterwards."""
    global running
    with _lock:
        running += 1
        cls.uop = _Watch()                                           # type: ignore[attr-defined]
    t = _local.trace = Trace(fresh)
    try:
        yield t
    finally:
        _local.trace = None
        with _lock:
            running -= 1
            if not running:
                del cls.uop                                          # type: ignore[attr-defined]
        t.undo()


def forbid(what: str) -> None:
    """JitError inside a capture."""
    if current() is not None:
        raise JitError(f"{what} inside a function that morok.jit captures: its tensors have no values yet, and what Python made of them would be kept for all "
                       "calls. Return the tensor and read it outside, or use where() for a choice between values")
