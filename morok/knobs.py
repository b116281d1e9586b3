"""Every environment variable that morok reads: type, default, meaning, and whether it changes generated code."""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import KnobError

T = TypeVar("T", int, str)
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One variable, read from the environment at each use. names: the first is the one to use, the others are understood too."""
    names: tuple[str, ...]
    kind: str                    # "int", "bool" or "str"
    default: T
    help: str
    in_cache_key: bool = False
    least: int = 0

    def get(self) -> T:
        """The value now. Raises KnobError if the text in the environment is none."""
        for name in self.names:
            if name in _scoped:
                return _scoped[name]    # type: ignore[return-value]
            text = os.environ.get(name)
            if text is not None:
                return self.parse(name, text)
        return self.default

    def parse(self, name: str, text: str) -> T:
        if self.kind == "str":
            return text      # type: ignore[return-value]
        if self.kind == "bool":
            if text.strip().lower() in _TRUE + _FALSE:
                return int(text.strip().lower() in _TRUE)    # type: ignore[return-value]
            raise KnobError(f"environment variable {name}={text!r} is no truth value; use 1 or 0")
        try:
            value = int(text)
        except ValueError:
            raise KnobError(f"environment variable {name}={text!r} is no whole number; for example {name}={max(self.least, 1)}") from None
        if value < self.least:
            raise KnobError(f"environment variable {name}={text!r} is too small; the least value is {self.least}")
        return value         # type: ignore[return-value]


_scoped: dict[str, int | str] = {}
DEBUG = Knob(("DEBUG",), "int", 0, "1: a line per kernel; 2: its generated code too; 3: its loops too")
MOROK_NOOPT = Knob(("MOROK_NOOPT", "NOOPT"), "bool", 0, "compile every kernel without optimizer actions", True)
MOROK_THREADS = Knob(("MOROK_THREADS",), "int", 0, "threads that kernels run on; 0: as many as this process may use", True)
MOROK_DEVICE = Knob(("MOROK_DEVICE", "DEVICE"), "str", "CPU", "device of new tensors")
MOROK_CACHE_LIMIT = Knob(("MOROK_CACHE_LIMIT",), "int", 1 << 30, "bytes of freed memory that are kept for reuse")
SPEC = Knob(("SPEC",), "bool", 0, "verify graphs and kernels between stages")
ALL: "tuple[Knob[int] | Knob[str], ...]" = (DEBUG, MOROK_NOOPT, MOROK_THREADS, MOROK_DEVICE, MOROK_CACHE_LIMIT, SPEC)


@contextmanager
def scope(**values: int | str) -> Iterator[None]:
    """Set knobs inside a block: `with scope(MOROK_NOOPT=1): ...`. An unknown name is a KnobError."""
    known = {n: k for k in ALL for n in k.names}
    for name in values:
        if name not in known:
            raise KnobError(f"unknown knob {name!r}; known: {', '.join(sorted(known))}")
    old = {known[n].names[0]: _scoped.get(known[n].names[0]) for n in values}
    _scoped.update({known[n].names[0]: v for n, v in values.items()})
    try:
        yield
    finally:
        for name, v in old.items():
            if v is None:
                _scoped.pop(name, None)
            else:
                _scoped[name] = v
