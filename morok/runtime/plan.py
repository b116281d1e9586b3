"""A plan in native form: a table of kernels and a table of the addresses they work on, run by one call."""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence

from .device import Launch
from .driver_ir import FREE, PLAN, PLAN_WORDS, POLL, STEP_WORDS, TEAM, WAKE
from .native import Native
from .pool import Pool

PARTS = 4                        # chunks a thread, so that a slow core takes fewer
FREE_SECONDS = 20e-6             # plans that are expected to take longer let other Python threads run meanwhile,
LONG_SECONDS = 5e-3              # and from here on look for signals, if this is not a step too short to be worth a look
WAKE_SECONDS = 500e-6            # threaded steps that are expected to take longer, all together, wake a team that sleeps: that costs some 15 us
PART_SECONDS = 0.05              # a chunk is not expected to take longer, so that an interrupt is soon seen
_Words = ctypes.c_int64


class NativePlan:
    """Kernels that run one after the other. `execute(*addresses)`: one address a slot, the last of them scratch; without any, those of the last run.

    slots: how many addresses a run needs. scratch: bytes of the last slot's memory. Raises what a signal handler raises.
    """

    def __init__(self, native: Native, pool: Pool | None, launches: Sequence[Launch], slots: int, fast: bool) -> None:
        self.slots = slots
        self.scratch = max((x.program.scratch for x in launches), default=0)
        team = [pool is not None and x.program.chunks > 1 for x in launches]
        if pool is not None and any(team):
            pool.reserve(max(x.program.scratch for x, t in zip(launches, team, strict=True) if t))
        seconds = sum(x.seconds for x in launches)
        flags = TEAM * any(team) | FREE * (seconds > FREE_SECONDS) | POLL * (seconds > LONG_SECONDS)
        flags |= WAKE * (sum(x.seconds for x, t in zip(launches, team, strict=True) if t) > WAKE_SECONDS)
        steps: list[int] = []
        places: list[tuple[int, int]] = []
        for x, together in zip(launches, team, strict=True):
            parts = 1
            if x.program.chunks > 1:
                parts = min(x.program.chunks, max(PARTS * (pool.threads if pool is not None and together else 1), int(x.seconds / PART_SECONDS)))
            steps += [x.code.address, 8 * len(places), x.program.chunks, parts, x.seconds > LONG_SECONDS / 10]
            places += x.args
        places.append((slots - 1, 0))
        assert len(steps) == STEP_WORDS * len(launches) and all(0 <= s < slots for s, _ in places)
        step_words = (_Words * max(1, len(steps)))(*steps)
        table = (_Words * len(places))()
        place_words = (_Words * (2 * len(places)))(*(w for p in places for w in p))
        self._words = words = (_Words * PLAN_WORDS)()
        for name, value in (("POOL", pool.address if pool else 0), ("STEPS", ctypes.addressof(step_words)), ("COUNT", len(launches)),
                            ("TABLE", ctypes.addressof(table)), ("FLAGS", flags), ("SLOTS", slots), ("PLACES", len(places)),
                            ("PLACE", ctypes.addressof(place_words))):
            words[PLAN[name] // 8] = value
        self._table, self._places = table, places
        self._times = (_Words * (len(launches) + 1))()           # as long-lived as the plan: another thread may still be writing
        owner = (words, step_words, table, place_words, self._times, tuple(x.code for x in launches), pool)       # what must live as long as anyone can run it
        self.execute: Callable[..., None] = native_function(native, words, owner) if fast else ctypes_function(native, words, owner)
        plans.add(self)

    def bind(self, *addresses: int) -> None:
        """The memory for runs without addresses: one address a slot."""
        self._table[:] = [addresses[slot] + offset for slot, offset in self._places]
        self._words[PLAN["BOUND"] // 8] = 1

    def timed(self, *addresses: int) -> list[float]:
        """`execute`, and when it began and each step ended, in seconds. Concurrent runs of one plan are not told apart."""
        self._words[PLAN["TIMES"] // 8] = ctypes.addressof(self._times)
        try:
            self.execute(*addresses)
        finally:
            self._words[PLAN["TIMES"] // 8] = 0
        return [t * 1e-9 for t in self._times]

    def after_fork(self) -> None:
        """In a child process: whoever was running this plan is gone."""
        self._words[PLAN["BUSY"] // 8] = 0


plans: "weakref.WeakSet[NativePlan]" = weakref.WeakSet()


def native_function(native: Native, words: "ctypes.Array[ctypes.c_int64]", owner: object) -> Callable[..., None]:
    """A built-in function of Python, made from native code: some 30 ns a call."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    words[PLAN["OWNER"] // 8] = id(owner)
    return native.function(ctypes.addressof(words))


def ctypes_function(native: Native, words: "ctypes.Array[ctypes.c_int64]", owner: object) -> Callable[..., None]:
    """The same through ctypes, for interpreters whose calling convention the native code does not know."""
    address = ctypes.addressof(words)

    def execute(*addresses: int, _owner: object = owner) -> None:
        native.run(address, (_Words * len(addresses))(*addresses), len(addresses))
    return execute
