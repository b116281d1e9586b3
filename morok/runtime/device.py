"""What every device offers: memory, a compiler for generated code, launches."""
from __future__ import annotations

from abc import ABC, abstractmethod

from ..dtype import DType
from ..program import Program
from ..target import Target
from .buffer import Buffer


class Device(ABC):
    """A place where buffers live and kernels run."""
    name: str
    target: Target

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """Fresh memory for an array, contents undefined. Raises ResourceError if there is not enough."""

    @abstractmethod
    def compile(self, program: Program) -> bytes:
        """Machine code of a program. Raises CompileError with the source."""

    @abstractmethod
    def load(self, code: bytes, entry: str) -> int:
        """Bring machine code into this process; the address of `entry`."""

    @abstractmethod
    def run(self, address: int, args: list[int], chunks: int, scratch: int) -> None:
        """Launch a kernel on arguments at these addresses and wait for it."""
