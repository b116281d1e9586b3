"""The native runtime in this process: the team's and the driver's code, loaded once, and functions of Python's own kind made from it."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .driver_ir import CAPSULE, FROM_PYTHON, driver_source
from .pool_ir import pool_source

EXPORTS = ("run", "execute", "drop", "halt")
METH_FASTCALL = 0x80
_NAME = ctypes.create_string_buffer(CAPSULE)        # a capsule keeps only the address of its name


class _MethodDef(ctypes.Structure):
    """PyMethodDef of CPython's C API."""
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def native_source(machine: str) -> str:
    """The text of the runtime for a processor, by the name that `platform.machine()` has for it."""
    return pool_source(machine) + driver_source()


def python_symbols() -> dict[str, int]:
    """Addresses of what the runtime calls in the interpreter."""
    return {s: ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, s)) for s in FROM_PYTHON}


class Native:
    """The runtime's functions. symbol: the address of one of EXPORTS; library: what keeps the code in memory, which is until the process ends."""

    def __init__(self, symbol: Callable[[str], int], library: object) -> None:
        self.symbol = symbol
        leak(library)                               # capsules may die after all modules
        self.run = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(symbol("run"))
        self._drop = symbol("drop")
        self._execute = _MethodDef(b"execute", symbol("execute"), METH_FASTCALL, b"execute(*addresses): run on this memory, or that of the last run")
        leak(self._execute)
        api = ctypes.pythonapi
        self._capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_New", api))
        self._method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)(("PyCMethod_New", api))

    def function(self, plan: int) -> Callable[..., None]:
        """execute(*addresses) of the plan at this address. It takes over one reference to the plan's owner."""
        capsule = self._capsule(plan, ctypes.addressof(_NAME), self._drop)
        return self._method(ctypes.addressof(self._execute), capsule, None, None)       # type: ignore[no-any-return]


def leak(thing: Any) -> None:
    """Keep an object until the process ends, whatever becomes of the modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
