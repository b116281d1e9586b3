"""Optimized kernel AST → LLVM IR text: `lower`."""
from __future__ import annotations

from ..dtype import dtypes
from ..program import Program
from ..target import Target
from ..uop import AxisKind, GroupOp, Op, UOp
from .lower import Lower
from .prepare import prepare

__all__ = ["lower"]


def lower(ast: UOp, target: Target, name: str, entry: str = "") -> Program:
    """Generate the code of one kernel. `entry` is the exported symbol, `name` what people see; default: the same."""
    ast = prepare(ast)
    low = Lower(lane_width(ast, target.vector_bytes), ast)
    source, nargs = low.function(entry or name)
    threads = [u.arg.extent for u in ast.toposort() if u.op is Op.RANGE and u.arg.kind is AxisKind.THREAD]
    return Program(name=name, entry=entry or name, source=source, chunks=threads[0] if threads else 1, scratch=low.scratch, nargs=nargs)


def lane_width(ast: UOp, vector_bytes: int) -> int:
    """Lanes of a register: as many as the element type that most of the kernel computes in has in a native vector."""
    sizes = {max(u.dtype.itemsize, 4) if u.dtype.is_float else u.dtype.itemsize for u in ast.toposort()
             if (u.op in GroupOp.ALU or u.op in (Op.LOAD, Op.REDUCE, Op.SCAN)) and u.dtype not in (dtypes.index, dtypes.bool, dtypes.void)}
    if not sizes:
        sizes = {1}
    if 4 in sizes or (8 in sizes and len(sizes) > 1):
        return vector_bytes // 4
    return vector_bytes // max(sizes)
