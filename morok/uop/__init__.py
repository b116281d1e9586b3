"""The IR: one immutable, interned node type for tensor graph and kernel AST."""
from .node import Shape, UOp, const, loop_key, ranges, toposort
from .op import Axis, AxisKind, BufferArg, GroupOp, Op, ParamArg, StageArg, Where, identity

__all__ = ["Axis", "AxisKind", "BufferArg", "GroupOp", "Op", "ParamArg", "Shape", "StageArg", "UOp", "Where", "const", "identity", "loop_key",
           "ranges", "toposort"]
