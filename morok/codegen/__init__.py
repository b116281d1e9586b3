"""Optimized kernel AST → LLVM IR text: `lower`."""
from __future__ import annotations

from ..program import Program
from ..target import Target
from ..uop import AxisKind, Op, UOp
from ..uop.lanes import lane_width
from .lower import Lower
from .prepare import prepare

__all__ = ["lower"]


def lower(ast: UOp, target: Target, name: str, entry: str = "") -> Program:
    """Generate the code of one kernel. `entry` is the exported symbol, `name` what people see; default: the same."""
    ast = prepare(ast)
    low = Lower(lane_width(ast, target.vector_bytes), target.vector_bytes, ast)
    source, nargs = low.function(entry or name)
    threads = [u.arg.extent for u in ast.toposort() if u.op is Op.RANGE and u.arg.kind is AxisKind.THREAD]
    return Program(name=name, entry=entry or name, source=source, chunks=threads[0] if threads else 1, scratch=low.scratch, nargs=nargs)

