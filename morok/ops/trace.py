"""The function that is being captured in this thread, if one is: which tensors from outside it reads and changes, and what random numbers it draws.

While captures run, the class of tensors has a descriptor in place of the attribute `uop`, which sees every access; at other times nobody pays for this.
A capture keeps new values of tensors from outside to itself, so that neither other threads nor whoever comes after an exception see them.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..dtype import DType
from ..errors import JitError
from ..uop import Op, UOp

Fresh = Callable[[tuple[int, ...], DType, str], UOp]
running = 0                      # captures in all threads: while there are none, nobody has to ask further


class Trace:
    """What happens to tensors while a function is captured."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh                                           # makes BUFFER nodes, here placeholders without memory
        self.made: dict[int, Any] = {}                               # tensors from inside by id, kept until the end so that ids stay apart
        self.read: dict[int, tuple[Any, UOp]] = {}                   # tensors from outside that were read or changed, and their graphs before
        self.now: dict[int, UOp] = {}                                # their graphs in the capture
        self.draws: list[UOp] = []                                   # one placeholder a call for random numbers

    @property
    def changed(self) -> list[tuple[Any, UOp]]:
        """Tensors from outside that have another graph now."""
        return [(t, self.now[i]) for i, (t, before) in self.read.items() if self.now[i] is not before]

    def meet(self, t: Any) -> None:
        """A tensor from outside is touched for the first time. It is computed, as later calls have to find memory there."""
        _local.trace = None
        try:
            before = t.uop
            if before.op is not Op.BUFFER or before.memory is not None:          # no placeholder
                before = t.realize().uop
        finally:
            _local.trace = self
        self.read[id(t)], self.now[id(t)] = (t, before), before


class _Local(threading.local):
    trace: Trace | None = None


_local = _Local()
_lock = threading.Lock()


def current() -> Trace | None:
    """The capture that runs in this thread."""
    return _local.trace if running else None


class _Watch:
    """The attribute `uop` while captures run: in the tensor's dictionary as always, but for tensors from outside of the capture of this thread."""

    def __get__(self, t: Any, owner: type) -> UOp:
        if t is None or "uop" not in t.__dict__:
            raise AttributeError("uop")                              # the class answers, as without a capture
        trace = _local.trace
        if trace is None or id(t) in trace.made:
            return t.__dict__["uop"]                                 # type: ignore[no-any-return]
        if id(t) not in trace.now:
            trace.meet(t)
        return trace.now[id(t)]

    def __set__(self, t: Any, value: UOp) -> None:
        trace = _local.trace
        if trace is not None and id(t) not in trace.made:
            if "uop" in t.__dict__ or "_memory" in t.__dict__:
                if id(t) not in trace.now:
                    trace.meet(t)
                trace.now[id(t)] = value
                return
            trace.made[id(t)] = t
        t.__dict__["uop"] = value


@contextmanager
def capture(cls: type, fresh: Fresh) -> Iterator[Trace]:
    """A block of captured code on tensors of a class."""
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


def forbid(what: str) -> None:
    """JitError inside a capture."""
    if current() is not None:
        raise JitError(f"{what} inside a function that morok.jit captures: its tensors have no values yet, and what Python made of them would be kept for all "
                       "calls. Return the tensor and read it outside, or use where() for a choice between values")
