"""Records that layers pass to each other: actions, scheduled kernels, compiled programs."""
from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .uop import UOp


@dataclass(frozen=True)
class Opt:
    """One optimizer action; its text form is NAME(field,field,...)."""

    def __str__(self) -> str:
        values = [getattr(self, f.name) for f in fields(self)]
        return f"{type(self).__name__.upper()}({','.join(str(int(v)) if isinstance(v, bool) else str(v) for v in values)})"


@dataclass(frozen=True)
class Upcast(Opt):
    """n lanes of output axis `axis`; vector: these lanes lie in vector registers."""
    axis: int
    n: int
    vector: bool = False


@dataclass(frozen=True)
class Unroll(Opt):
    """n lanes of reduce axis `axis`, one accumulator each; vector: they lie in vector registers."""
    axis: int
    n: int
    vector: bool = False


@dataclass(frozen=True)
class Chain(Opt):
    """n terms of reduce axis `axis` into one accumulator."""
    axis: int
    n: int


@dataclass(frozen=True)
class Local(Opt):
    """Inner block of n of axis `axis`: an output axis runs inside the reduction loops, a reduce axis is blocked."""
    axis: int
    n: int


@dataclass(frozen=True)
class Stage(Opt):
    """Keep the tile of the operand in param `slot` that the loops inside axis `axis` read in local scratch."""
    slot: int
    axis: int


@dataclass(frozen=True)
class Thread(Opt):
    """Run output axis `axis` outermost, in chunks, on all threads."""
    axis: int


@dataclass(frozen=True)
class Swap(Opt):
    """Exchange the nesting of two output loops."""
    axis: int
    other: int


@dataclass(frozen=True)
class Padto(Opt):
    """Round the extent of `axis` up to a multiple of n; what is outside is masked."""
    axis: int
    n: int


@dataclass(frozen=True)
class Stream(Opt):
    """Store number `store` writes whole lines past the caches; its buffer must be aligned to 64 bytes."""
    store: int


@dataclass(frozen=True)
class BufferView:
    """A kernel argument: a BUFFER node and an offset into it, in elements."""
    buffer: "UOp"
    offset: int = 0


@dataclass(frozen=True)
class ScheduleItem:
    """One kernel to run. `views[k]` is what PARAM slot k points to; slots 0..outputs-1 are written."""
    ast: "UOp"
    views: tuple[BufferView, ...]
    outputs: int = 1
    line: str | None = None


@dataclass(frozen=True)
class Program:
    """Generated code of one kernel, ready to compile.

    entry: symbol of `void entry(ptr args, i64 start, i64 end, ptr scratch)`; args[k] is the address of PARAM slot k; [start, end) is a part of
    [0, chunks); scratch is private to the calling thread, 64-byte aligned and at least `scratch` bytes.
    """
    name: str
    entry: str
    source: str
    chunks: int = 1
    scratch: int = 0
    nargs: int = 0
    opts: tuple[Opt, ...] = ()
    flops: int = 0
    bytes: int = 0
    meta: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class OptStrategy:
    """How the actions of a kernel are chosen: `none()`, `heuristic()`, `explicit(opts)` or `beam(width)`."""
    name: str = "heuristic"
    opts: tuple[Opt, ...] | None = None
    width: int = 0

    @staticmethod
    def none() -> "OptStrategy":
        """No actions: every kernel is compiled as it was scheduled."""
        return OptStrategy("none")

    @staticmethod
    def heuristic() -> "OptStrategy":
        """Actions picked by hand-written rules, without timing."""
        return OptStrategy("heuristic")

    @staticmethod
    def explicit(opts: "list[Opt] | tuple[Opt, ...]") -> "OptStrategy":
        """Exactly these actions, on every kernel."""
        return OptStrategy("explicit", tuple(opts))

    @staticmethod
    def beam(width: int = 8) -> "OptStrategy":
        """A search that compiles, checks and times candidates, and keeps so many from one round to the next; its result is kept on disk."""
        return OptStrategy("beam", None, width)

    def __str__(self) -> str:
        return self.name + (f"({self.width})" if self.width else "") if self.opts is None else " ".join(map(str, self.opts))


@dataclass(frozen=True)
class PrepareConfig:
    """How a graph is made ready to run. strategy: how kernels are optimized; None: what MOROK_NOOPT says."""
    strategy: OptStrategy | None = None
