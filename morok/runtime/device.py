"""What every device offers: memory, a compiler for generated code, launches."""
from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ..dtype import DType
from ..program import Program
from ..target import Target
from .buffer import Buffer


@dataclass(frozen=True)
class Loaded:
    """Machine code in this process: the address of its entry, and what keeps it there."""
    address: int
    owner: Any


class Device(ABC):
    """A place where buffers live and kernels run."""
    name: str

    @property
    @abstractmethod
    def target(self) -> Target:
        """What code is generated for."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Fresh memory for an array, contents undefined. Raises ResourceError if there is not enough."""

    @abstractmethod
    def compile(self, program: Program) -> bytes:
        """Machine code of a program. Raises CompileError with the source."""

    @abstractmethod
    def load(self, code: bytes, entry: str) -> Loaded:
        """Bring machine code into this process; it stays there as long as the result lives."""

    @abstractmethod
    def run(self, address: int, args: list[int], chunks: int, scratch: int) -> None:
        """Launch a kernel on arguments at these addresses and wait for it."""
