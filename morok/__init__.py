"""Morok: a lazy tensor library with a compiler behind it."""
from .dtype import DType, dtypes
from .errors import (CompileError, DeviceError, DTypeError, IndexingError, IRError, JitError, KnobError, MorokError, OptError, ResourceError, ShapeError)
from .profile import KernelRun, profile
from .program import OptStrategy, PrepareConfig
from .jit import jit
from .prepare import ExecutionPlan
from .runtime.buffer import free_cached
from .tensor import Tensor
from .variable import Variable

__all__ = ["CompileError", "DType", "DTypeError", "DeviceError", "ExecutionPlan", "IRError", "IndexingError", "JitError", "KernelRun", "KnobError",
           "MorokError", "OptError", "OptStrategy", "PrepareConfig", "ResourceError", "ShapeError", "Tensor", "Variable", "dtypes", "free_cached",
           "jit", "profile"]
__version__ = "0.1.0"
