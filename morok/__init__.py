"""Morok: a lazy tensor library with a compiler behind it."""
from .dtype import DType, dtypes
from .errors import (CompileError, DeviceError, DTypeError, IndexingError, IRError, KnobError, MorokError, OptError, ResourceError, ShapeError)
from .profile import KernelRun, profile
from .program import OptStrategy, PrepareConfig
from .tensor import Tensor

__all__ = ["CompileError", "DType", "DTypeError", "DeviceError", "IRError", "IndexingError", "KernelRun", "KnobError", "MorokError", "OptError", "OptStrategy",
           "PrepareConfig", "ResourceError", "ShapeError", "Tensor", "dtypes", "profile"]
__version__ = "0.1.0"
