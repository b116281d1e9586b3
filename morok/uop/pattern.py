"""Patterns over nodes, and rule tables: matchers are compiled to straight-line Python and indexed by the op of their root."""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from ..dtype import DType
from ..errors import IRError
from .node import UOp
from .op import GroupOp, Op

Rule = tuple["Pat", Callable[..., UOp | None]]
Kind = Callable[[DType], bool]


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()                                         # the argument of a pattern that takes every `arg`


@dataclass(frozen=True)
class Pat:
    """Matches a node: `ops` (None: every op), dtype `kind`, sources and `arg`. `name` captures the node; a name used twice must match one node.

    Sources of a commutative op match in both orders; `ordered` forbids it. Operators build patterns: `Pat.var("x") + 0` matches x + 0 and 0 + x.
    """
    ops: tuple[Op, ...] | None = None
    src: tuple[Pat, ...] | None = None
    name: str | None = None
    kind: Kind | None = None
    arg: Any = ANY
    ordered: bool = False

    @staticmethod
    def var(name: str, kind: Kind | None = None) -> Pat:
        """Any node, captured."""
        return Pat(name=name, kind=kind)

    @staticmethod
    def const(name: str | None = None, value: Any = ANY) -> Pat:
        """A CONST; with `value` only that one (0.0 matches -0.0 too)."""
        return Pat(ops=(Op.CONST,), name=name, arg=value)

    @staticmethod
    def of(op: Op | Iterable[Op], *src: Any, name: str | None = None, arg: Any = ANY) -> Pat:
        """One of some ops on patterns or numbers."""
        return Pat((op,) if isinstance(op, Op) else tuple(op), tuple(_lift(s) for s in src), name, arg=arg)

    def typed(self, kind: Kind) -> Pat:
        """The same pattern on dtypes for which `kind` holds."""
        return replace(self, kind=kind)

    def named(self, name: str) -> Pat:
        """The same pattern, captured."""
        return replace(self, name=name)

    def __add__(self, o: Any) -> Pat: return Pat.of(Op.ADD, self, o)
    def __sub__(self, o: Any) -> Pat: return Pat.of(Op.SUB, self, o)
    def __mul__(self, o: Any) -> Pat: return Pat.of(Op.MUL, self, o)
    def __truediv__(self, o: Any) -> Pat: return Pat.of(Op.DIV, self, o)
    def __floordiv__(self, o: Any) -> Pat: return Pat.of(Op.IDIV, self, o)
    def __mod__(self, o: Any) -> Pat: return Pat.of(Op.MOD, self, o)
    def __and__(self, o: Any) -> Pat: return Pat.of(Op.AND, self, o)
    def __or__(self, o: Any) -> Pat: return Pat.of(Op.OR, self, o)
    def __xor__(self, o: Any) -> Pat: return Pat.of(Op.XOR, self, o)
    def __lshift__(self, o: Any) -> Pat: return Pat.of(Op.SHL, self, o)
    def __rshift__(self, o: Any) -> Pat: return Pat.of(Op.SHR, self, o)
    def __neg__(self) -> Pat: return Pat.of(Op.NEG, self)
    def __invert__(self) -> Pat: return Pat.of(Op.NOT, self)

    def where(self, x: Any, y: Any) -> Pat:
        """WHERE with this pattern as the condition."""
        return Pat.of(Op.WHERE, self, x, y)

    def __str__(self) -> str:
        if self.src is not None:
            return f"{'|'.join(o.name for o in self.ops or ())}({', '.join(map(str, self.src))})"
        return self.name or (repr(self.arg) if self.arg is not ANY else "|".join(o.name for o in self.ops or ()) or "_")


def _lift(x: Any) -> Pat:
    return x if isinstance(x, Pat) else Pat.const(value=x)


class Rules:
    """A table of (pattern, callback). The callback takes the captured nodes by name and gives the new node, or None where it does not apply.

    Rules of one root op are tried in order; the first answer counts. Tables are joined by `+`.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_op: dict[Op, list[Rule]] = {}
        self._buckets: dict[Op, list[tuple[Callable[[UOp], UOp | None], str]]] = {}
        for pat, fn in self.rules:
            if pat.ops is None:
                raise IRError(f"the root of a rule needs an op: {pat}")
            for op in pat.ops:
                self._by_op.setdefault(op, []).append((pat, fn))

    def bucket(self, op: Op) -> list[tuple[Callable[[UOp], UOp | None], str]]:
        """Matchers of the rules for nodes of this op; made at the first use, so that importing a table costs little."""
        found = self._buckets.get(op)
        if found is None:
            found = self._buckets[op] = []
            for pat, fn in self._by_op.get(op, ()):
                name = f"{pat}" if fn.__name__ == "<lambda>" else fn.__name__
                variants = dict.fromkeys(_compile(v, op) for v in _orders(replace(pat, ops=(op,))))
                found += [(code.bind(fn), name) for code in variants]
        return found

    def __add__(self, other: Rules) -> Rules:
        return Rules(self.rules + other.rules)

    def __call__(self, u: UOp) -> UOp | None:
        """The first rule's answer for this node, its sources as they are."""
        for match, _ in self.bucket(u.op):
            if (v := match(u)) is not None and v is not u:
                return v
        return None

    def find(self, u: UOp) -> tuple[UOp, str] | None:
        """The same, with the name of the rule."""
        for match, name in self.bucket(u.op):
            if (v := match(u)) is not None and v is not u:
                return v, name
        return None


def _orders(p: Pat) -> Iterator[Pat]:
    """The pattern with the sources of its commutative ops in every order."""
    if not p.src:
        yield p
        return
    swaps = not p.ordered and len(p.src) == 2 and all(o in GroupOp.COMMUTATIVE for o in p.ops or (Op.SUB,))
    for src in itertools.product(*(list(_orders(s)) for s in p.src)):
        yield replace(p, src=src)
        if swaps:
            yield replace(p, src=src[::-1])


@dataclass(frozen=True)
class _Code:
    """Text of a matcher and the objects that it names."""
    text: str
    objects: tuple[Any, ...]

    def bind(self, fn: Callable[..., UOp | None]) -> Callable[[UOp], UOp | None]:
        scope: dict[str, Any] = {f"o{i}": o for i, o in enumerate(self.objects)} | {"fn": fn}
        exec(_parse(self.text), scope)                          # four times as fast as walking the pattern
        return scope["match"]                                   # type: ignore[no-any-return]


@functools.cache
def _parse(text: str) -> CodeType:
    """Few texts serve many rules: what tells them apart are the objects."""
    return compile(text, "<rule>", "exec")


def _compile(root: Pat, op: Op) -> _Code:
    lines, objects, names = ["def match(u):"], [], {}           # type: tuple[list[str], list[Any], dict[str, str]]

    def ref(o: Any) -> str:
        objects.append(o)
        return f"o{len(objects) - 1}"

    def need(cond: str) -> None:
        lines.append(f"    if not ({cond}): return None")

    def walk(p: Pat, at: str) -> None:
        if p.ops is not None and p is not root:
            need(f"{at}.op is {ref(p.ops[0])}" if len(p.ops) == 1 else f"{at}.op in {ref(frozenset(p.ops))}")
        if p.arg is not ANY:
            need(f"{at}.arg == {ref(p.arg)}")
        if p.kind is not None:
            need(f"{ref(p.kind)}({at}.dtype)")
        if p.name is not None and names.setdefault(p.name, at) != at:
            need(f"{at} is {names[p.name]}")
        if p.src is not None:
            need(f"len({at}.src) == {len(p.src)}")
            for i, s in enumerate(p.src):
                lines.append(f"    {at}_{i} = {at}.src[{i}]")
                walk(s, f"{at}_{i}")

    walk(root, "u")
    lines.append(f"    return fn({', '.join(f'{n}={at}' for n, at in names.items())})")
    return _Code("\n".join(lines), tuple(objects))
