"""How many lanes a vector register of a kernel has."""
from __future__ import annotations

from ..dtype import dtypes
from .node import UOp
from .op import GroupOp, Op


def lane_width(ast: UOp, vector_bytes: int) -> int:
    """As many as the element type that most of the kernel computes in has in a native vector; half types are computed in float32."""
    sizes = {max(u.dtype.itemsize, 4) if u.dtype.is_float else u.dtype.itemsize for u in ast.toposort()
             if (u.op in GroupOp.ALU or u.op in (Op.LOAD, Op.REDUCE, Op.SCAN)) and u.dtype not in (dtypes.index, dtypes.bool, dtypes.void)}
    if not sizes:
        sizes = {1}
    if 4 in sizes or (8 in sizes and len(sizes) > 1):
        return vector_bytes // 4
    return vector_bytes // max(sizes)
