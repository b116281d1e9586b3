"""Sizes that are known only when a plan runs: `Variable`, and the `Size` that stands for it in a shape."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from .errors import ShapeError


@dataclass(frozen=True)
class Variable:
    """A whole number between lo and hi, both included, that is an axis' size: `x[:n]`. One compiled plan serves all its values.

    value: what it is, if it is bound. ShapeError for limits that are no sizes.
    """
    name: str
    lo: int
    hi: int
    value: int | None = None
    used: ClassVar[bool] = False         # some exists: shapes have to be looked at

    def __post_init__(self) -> None:
        if not all(isinstance(n, int) for n in (self.lo, self.hi)) or not 0 <= self.lo <= self.hi or self.hi < 1:
            raise ShapeError(f"Variable {self.name!r} goes from {self.lo!r} to {self.hi!r}: limits are whole numbers with 0 <= lo <= hi and hi >= 1")
        Variable.used = True

    def bind(self, value: int) -> "Variable":
        """The same size with a value. ShapeError if that is outside of the limits."""
        if not hasattr(value, "__index__") or isinstance(value, bool) or not self.lo <= value <= self.hi:
            raise ShapeError(f"Variable {self.name!r} goes from {self.lo} to {self.hi}, and cannot be {value!r}")
        return replace(self, value=int(value))

    @property
    def free(self) -> "Variable":
        """Without its value."""
        return self if self.value is None else replace(self, value=None)

    @property
    def size(self) -> "Size":
        """What stands for it in a shape."""
        return Size(self)

    def __repr__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


class Size(int):
    """The size of a symbolic axis. As a number it is the largest that it can be; it equals no plain number, and cannot be calculated with."""
    variable: Variable

    def __new__(cls, variable: Variable) -> "Size":
        s = super().__new__(cls, variable.hi)
        s.variable = variable
        return s

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.variable == other.variable

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.variable)

    def __repr__(self) -> str:
        return repr(self.variable)

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (self.variable,)

    def _refuse(self, *_: object) -> NoReturn:
        raise ShapeError(f"the size {self} is known only when the plan runs, so it cannot be calculated with")

    def __add__(self, other: int) -> int:
        return self if type(other) is int and other == 0 else self._refuse()

    __radd__ = __sub__ = __add__
    __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __rsub__ = __neg__ = __pow__ = _refuse


def is_symbolic(shape: Iterable[int]) -> bool:
    """Whether some size is known only at the run."""
    return Variable.used and any(type(n) is Size for n in shape)


def freed(shape: tuple[int, ...], given: Sequence[Variable]) -> tuple[int, ...]:
    """The shape with the sizes that are bound to these variables free of their values."""
    return tuple([n.variable.free.size if type(n) is Size and n.variable in given else n for n in shape])


def bound(shape: tuple[int, ...], given: Sequence[Variable]) -> tuple[int, ...]:
    """The shape with the values of these variables."""
    values = {v.free: v for v in given}
    return tuple([values.get(n.variable, n.variable).size if type(n) is Size else n for n in shape])


def static(x: Any) -> Any:
    """The argument of a node with plain numbers in place of sizes, tuples through and through."""
    if type(x) is Size:
        return int(x)
    if isinstance(x, tuple):
        inner = [static(v) for v in x]
        return type(x)(*inner) if hasattr(x, "_fields") else tuple(inner)
    return x


def real(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the values of its bound sizes. ShapeError for one that has none."""
    for n in shape:
        if type(n) is Size and n.variable.value is None:
            raise ShapeError(f"the size {n} of shape {shape} has no value here: bind it, x[:{n}.bind(5)], or prepare a plan and execute_with_vars({n}=5)")
    return tuple([n.variable.value if type(n) is Size else n for n in shape])        # type: ignore[misc]
