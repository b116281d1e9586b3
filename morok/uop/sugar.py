"""Operators and constructors on nodes, so that rules and kernels read like arithmetic. Sources must have one dtype; Python numbers adapt."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes
from .op import Op

if TYPE_CHECKING:
    from .node import UOp


class Sugar:
    """Mixin of UOp."""
    __slots__ = ()
    if TYPE_CHECKING:
        op: Op
        dtype: DType
        shape: tuple[int, ...] | None

    def _make(self, op: Op, dtype: DType, src: tuple[Any, ...], arg: Any = None) -> "UOp":
        return type(self)(op, dtype, src, arg)       # type: ignore[call-arg, return-value]

    def _lift(self, x: Any) -> "UOp":
        if isinstance(x, Sugar):
            return x                                 # type: ignore[return-value]
        return self._make(Op.CONST, self.dtype, (), x)

    def alu(self, op: Op, *others: Any) -> "UOp":
        """An elementwise op of self and others; comparisons give bool."""
        from_compare = op in (Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.CMPNE)
        return self._make(op, dtypes.bool if from_compare else self.dtype, (self, *(self._lift(o) for o in others)))

    def __add__(self, o: Any) -> "UOp": return self.alu(Op.ADD, o)
    def __radd__(self, o: Any) -> "UOp": return self._lift(o).alu(Op.ADD, self)
    def __sub__(self, o: Any) -> "UOp": return self.alu(Op.SUB, o)
    def __rsub__(self, o: Any) -> "UOp": return self._lift(o).alu(Op.SUB, self)
    def __mul__(self, o: Any) -> "UOp": return self.alu(Op.MUL, o)
    def __rmul__(self, o: Any) -> "UOp": return self._lift(o).alu(Op.MUL, self)
    def __truediv__(self, o: Any) -> "UOp": return self.alu(Op.DIV, o)
    def __floordiv__(self, o: Any) -> "UOp": return self.alu(Op.IDIV, o)
    def __mod__(self, o: Any) -> "UOp": return self.alu(Op.MOD, o)
    def __and__(self, o: Any) -> "UOp": return self.alu(Op.AND, o)
    def __or__(self, o: Any) -> "UOp": return self.alu(Op.OR, o)
    def __xor__(self, o: Any) -> "UOp": return self.alu(Op.XOR, o)
    def __lshift__(self, o: Any) -> "UOp": return self.alu(Op.SHL, o)
    def __rshift__(self, o: Any) -> "UOp": return self.alu(Op.SHR, o)
    def __neg__(self) -> "UOp": return self.alu(Op.NEG)
    def __invert__(self) -> "UOp": return self.alu(Op.NOT)
    def __lt__(self, o: Any) -> "UOp": return self.alu(Op.CMPLT, o)
    def __le__(self, o: Any) -> "UOp": return self.alu(Op.CMPLE, o)
    def __gt__(self, o: Any) -> "UOp": return self._lift(o).alu(Op.CMPLT, self)
    def __ge__(self, o: Any) -> "UOp": return self._lift(o).alu(Op.CMPLE, self)
    def eq(self, o: Any) -> "UOp": return self.alu(Op.CMPEQ, o)
    def ne(self, o: Any) -> "UOp": return self.alu(Op.CMPNE, o)
    def maximum(self, o: Any) -> "UOp": return self.alu(Op.MAX, o)
    def minimum(self, o: Any) -> "UOp": return self.alu(Op.MIN, o)

    def where(self, x: "UOp", y: Any) -> "UOp":
        """x where self (bool) holds, else y."""
        return x._make(Op.WHERE, x.dtype, (self, x, x._lift(y)))

    def fma(self, y: Any, z: Any) -> "UOp":
        """self * y + z, rounded once."""
        return self.alu(Op.FMA, y, z)

    def cast(self, dtype: DType) -> "UOp":
        return self if dtype is self.dtype else self._make(Op.CAST, dtype, (self,))     # type: ignore[return-value]

    def bitcast(self, dtype: DType) -> "UOp":
        return self if dtype is self.dtype else self._make(Op.BITCAST, dtype, (self,))  # type: ignore[return-value]

    def const_like(self, value: Any) -> "UOp":
        """A scalar constant of this node's dtype."""
        return self._lift(value)

    def index(self, idx: "UOp", valid: "UOp | None" = None) -> "UOp":
        """The address of element `idx` of this PARAM or STAGE."""
        return self._make(Op.INDEX, self.dtype, (self, idx) if valid is None else (self, idx, valid))

    def load(self) -> "UOp":
        return self._make(Op.LOAD, self.dtype, (self,))

    def store(self, value: "UOp") -> "UOp":
        return self._make(Op.STORE, dtypes.void, (self, value))
