"""What every device offers: memory, a compiler for generated code, plans of kernels that run in one call."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..dtype import DType
from ..program import Program
from ..target import Target
from .buffer import Buffer


@dataclass(frozen=True)
class Loaded:
    """Machine code in this process: the address of its entry, and what keeps it there."""
    address: int
    owner: Any


@dataclass(frozen=True)
class Launch:
    """One step of a plan: the kernel's program and code, for each argument its slot and an offset in bytes, and the seconds it is expected to take."""
    program: Program
    code: Loaded
    args: tuple[tuple[int, int], ...]
    seconds: float


class Runnable(Protocol):
    """A plan of a device. execute(*addresses) runs it, one address a slot, the last of them scratch; without any, on the memory of the last run."""
    slots: int
    scratch: int                 # bytes of the last slot
    execute: Callable[..., None]

    def bind(self, *addresses: int) -> None:
        """The memory for runs without addresses: one address a slot."""

    def timed(self, *addresses: int) -> list[float]:
        """`execute`, and when it began and each step ended, in seconds. Concurrent runs of one plan are not told apart."""


class Device(ABC):
    """A place where buffers live and kernels run."""
    name: str

    @property
    @abstractmethod
    def target(self) -> Target:
        """What code is generated for."""

    @property
    @abstractmethod
    def compiler(self) -> str:
        """Name and version of what `compile` uses."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Fresh memory for an array, contents undefined. Raises ResourceError if there is not enough."""

    @abstractmethod
    def compile(self, program: Program) -> bytes:
        """Machine code of a program. Raises CompileError with the source."""

    @abstractmethod
    def assembly(self, program: Program) -> str:
        """The machine code of a program as text."""

    @abstractmethod
    def load(self, code: bytes, entry: str) -> Loaded:
        """Bring machine code into this process; it stays there as long as the result lives."""

    @abstractmethod
    def plan(self, launches: Sequence[Launch], slots: int) -> Runnable:
        """Kernels that run one after the other on memory in so many slots."""
