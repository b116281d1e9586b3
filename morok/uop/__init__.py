"""The IR: one immutable, interned node type for tensor graph and kernel AST."""
from .bounds import bounds
from .node import Shape, UOp, const, loop_key, ranges, toposort
from .op import Axis, AxisKind, BufferArg, GroupOp, Op, ParamArg, StageArg, Where, identity
from .pattern import Pat, Rules
from .rewrite import rewrite
from .spec import verify
from .symbolic import simplify, simplify_under, split_and
from .text import code, reproduce, tree

__all__ = ["Axis", "AxisKind", "BufferArg", "GroupOp", "Op", "ParamArg", "Pat", "Rules", "Shape", "StageArg", "UOp", "Where", "bounds", "code", "const",
           "identity", "loop_key", "ranges", "reproduce", "rewrite", "simplify", "simplify_under", "split_and", "toposort", "tree", "verify"]
