"""Every environment variable that morok reads: type, default, meaning, and whether it changes generated code."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from .errors import KnobError

T = TypeVar("T", int, str)
_environment: Any = getattr(os.environ, "_data", os.environ)       # looked at several times a run: os.environ itself takes 2 µs, mostly for its exception
_encoded = cache(getattr(os.environ, "encodekey", str))
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One variable, read from the environment at each use. names: the first is the one to use, the others are understood too."""
    names: tuple[str, ...]
    kind: str                    # a key of PARSERS
    default: T
    help: str
    in_cache_key: bool = False

    def get(self) -> T:
        """The value now. Raises KnobError if the text in the environment is none."""
        inner = _scoped.get()
        if inner and self.names[0] in inner:
            return inner[self.names[0]]         # type: ignore[no-any-return]
        for name in self.names:
            text = _environment.get(_encoded(name))
            if text is not None:
                return self.parse(os.environ[name], f"environment variable {name}")
        return self.default

    def parse(self, text: str, source: str) -> T:
        """The value that a text means. Raises KnobError, which names `source`, the text and what is allowed."""
        parser, allowed = PARSERS[self.kind]
        try:
            return parser(text.strip())         # type: ignore[no-any-return]
        except ValueError:
            raise KnobError(f"{source}={text!r} is not understood; allowed is {allowed}") from None


def _bool(text: str) -> int:
    if (word := text.lower()) not in (*_TRUE, *_FALSE):
        raise ValueError
    return int(word in _TRUE)


def _count(text: str) -> int:
    if (n := int(text)) < 0:
        raise ValueError
    return n


def _level(text: str) -> str:
    level, _, only = text.partition("@")
    return f"{_count(level or '0')}@{only.strip()}"


PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "bool": (_bool, "1 or 0 (also true, yes, on, false, no, off)"),
    "count": (_count, "a whole number, 0 or more"),
    "level": (_level, "a level, 0 or more, such as 2, or a level for kernels whose name contains a word, such as 3@r_32"),
    "text": (str, "any text"),
}

DEBUG = Knob(("DEBUG",), "level", "0@", "1: a line per kernel that runs; 2: generated code as well; 3: loops, before and after the optimizer, as well")
MOROK_NOOPT = Knob(("MOROK_NOOPT", "NOOPT"), "bool", 0, "compile every kernel without optimizer actions", True)
BEAM = Knob(("BEAM", "MOROK_BEAM"), "count", 0, "width of a search for the actions of each kernel; 0: hand-written rules pick them")
BEAM_TIMEOUT = Knob(("BEAM_TIMEOUT",), "count", 30, "seconds that the search for one kernel may take")
BEAM_TRIALS = Knob(("BEAM_TRIALS",), "count", 1000, "candidates that the search for one kernel may try")
BEAM_SEED = Knob(("BEAM_SEED",), "count", 0, "where the random choices of a search begin")
MOROK_THREADS = Knob(("MOROK_THREADS",), "count", 0, "threads that kernels run on; 0: as many as this process may use", True)
MOROK_DEVICE = Knob(("MOROK_DEVICE", "DEVICE"), "text", "CPU", "device of new tensors", True)
MOROK_CACHE_LIMIT = Knob(("MOROK_CACHE_LIMIT",), "count", 1 << 30, "bytes of freed memory that are kept for reuse")
MOROK_CACHE_DIR = Knob(("MOROK_CACHE_DIR",), "text", "", "folder of compiled kernels; by default morok in the user's cache folder")
XDG_CACHE_HOME = Knob(("XDG_CACHE_HOME",), "text", "", "the user's cache folder; by default .cache in the home folder")
MOROK_DISK_LIMIT = Knob(("MOROK_DISK_LIMIT",), "count", 1 << 30, "bytes of that folder; 0: it is not used")
MOROK_FASTCALL = Knob(("MOROK_FASTCALL",), "bool", 1, "run plans through a native function of Python; 0: through ctypes")
SPEC = Knob(("SPEC",), "bool", 0, "verify graphs and kernels between stages")
ALL: "tuple[Knob[int] | Knob[str], ...]" = (
    DEBUG, MOROK_NOOPT, BEAM, BEAM_TIMEOUT, BEAM_TRIALS, BEAM_SEED, MOROK_THREADS, MOROK_DEVICE, MOROK_CACHE_LIMIT, MOROK_CACHE_DIR, XDG_CACHE_HOME,
    MOROK_DISK_LIMIT, MOROK_FASTCALL, SPEC)
_BY_NAME: "dict[str, Knob[int] | Knob[str]]" = {name: k for k in ALL for name in k.names}
_scoped: ContextVar[dict[str, Any] | None] = ContextVar("morok_knobs", default=None)     # values by first name, set by `scope`


def debug(kernel: str | None = None) -> int:
    """The DEBUG level that holds for a kernel of this name; without a name, for any."""
    level, _, only = DEBUG.get().partition("@")
    return int(level) if kernel is None or only in kernel else 0


@contextmanager
def scope(**values: int | str) -> Iterator[None]:
    """Set knobs inside a block, for this thread: `with scope(MOROK_NOOPT=1): ...`. KnobError for an unknown name or a value that it cannot have."""
    inner = dict(_scoped.get() or {})
    for name, value in values.items():
        if name not in _BY_NAME:
            raise KnobError(f"unknown knob {name!r}; known: {', '.join(sorted(_BY_NAME))}")
        inner[_BY_NAME[name].names[0]] = _BY_NAME[name].parse(str(int(value) if isinstance(value, bool) else value), name)
    token = _scoped.set(inner)
    try:
        yield
    finally:
        _scoped.reset(token)
