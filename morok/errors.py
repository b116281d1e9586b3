"""The exception tree; every message says what was asked, what was found and what to do.

    MorokError
      ShapeError     (ValueError)          shapes, axes and sizes that do not fit
      DTypeError     (TypeError)           a dtype that an operation cannot take
      IndexingError  (IndexError)          an index outside its axis, known before the run
      DeviceError    (RuntimeError)        unknown or unavailable device
      KnobError      (ValueError)          a malformed environment value
      OptError       (ValueError)          an optimizer action that does not apply to this kernel
      ResourceError  (MemoryError)         more memory or registers than there is: name, required, limit
      CompileError   (RuntimeError)        the code generator or LLVM refused a kernel: source and log
      JitError       (RuntimeError)        a function that cannot be captured, or a tensor whose memory was given away
      IRError        (AssertionError)      a broken invariant inside morok: our bug
"""
from __future__ import annotations


class MorokError(Exception):
    """Base of all errors that morok raises on purpose."""


class ShapeError(MorokError, ValueError):
    """Shapes, axes or sizes do not fit the operation."""


class DTypeError(MorokError, TypeError):
    """A dtype that the operation cannot take."""


class IndexingError(MorokError, IndexError):
    """An index lies outside its axis and this is known before the run."""


class DeviceError(MorokError, RuntimeError):
    """A device that is unknown or not usable here."""


class KnobError(MorokError, ValueError):
    """An environment value that cannot be read as its type."""


class OptError(MorokError, ValueError):
    """An optimizer action that does not apply to this kernel."""


class ResourceError(MorokError, MemoryError):
    """More of a resource was asked for than there is."""

    def __init__(self, name: str, required: int, limit: int, advice: str = "") -> None:
        self.name, self.required, self.limit = name, required, limit
        super().__init__(f"{name}: {required} needed, the limit is {limit}" + (f"; {advice}" if advice else ""))


class CompileError(MorokError, RuntimeError):
    """A kernel did not compile; `source` is the generated text, `line` the tensor code that asked for it."""

    def __init__(self, message: str, source: str = "", line: str = "") -> None:
        self.source, self.line = source, line
        super().__init__(message + (f"\n  made by the tensor code at {line}" if line else ""))


class JitError(MorokError, RuntimeError):
    """A function that morok.jit cannot capture, or a tensor whose memory was given to a call."""


class IRError(MorokError, AssertionError):
    """An invariant of the compiler does not hold: a bug in morok, with the node and the pass that met it."""
