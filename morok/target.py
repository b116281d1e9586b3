"""What generated code has to know about a machine."""
from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A machine to generate code for. Sizes in bytes; `features` are the resolved instruction sets, never the word "native"."""
    device: str = "CPU"
    triple: str = ""
    cpu: str = ""
    features: str = ""
    vector_bytes: int = 32
    registers: int = 16          # vector registers
    threads: int = 1
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 16 << 20

    @property
    def key(self) -> str:
        """Short hash of everything that changes generated code."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]
