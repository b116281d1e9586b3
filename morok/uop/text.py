"""Printers: a tree, readable pseudo-code, and Python source that rebuilds a node; all iterative and linear in the graph's size."""
from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ..dtype import DType, dtypes
from .node import UOp, loop_key
from .op import Axis, AxisKind, Op

INDENT_LIMIT = 32                                     # deeper nodes keep this indentation
INLINE_LIMIT = 90                                     # longer expressions get a name,
SHORT_LIMIT = 30                                      # and positions with several readers already if they are longer than this
INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.IDIV: "//", Op.MOD: "%", Op.AND: "&", Op.OR: "|", Op.XOR: "^", Op.SHL: "<<",
         Op.SHR: ">>", Op.CMPLT: "<", Op.CMPLE: "<=", Op.CMPEQ: "==", Op.CMPNE: "!="}
REDUCED = {Op.ADD: "{0} += {1}", Op.MUL: "{0} *= {1}", Op.MAX: "{0} = max({0}, {1})", Op.MIN: "{0} = min({0}, {1})"}
LETTER = {AxisKind.THREAD: "t", AxisKind.LOOP: "i", AxisKind.SCAN: "s", AxisKind.REDUCE: "r", AxisKind.LOCAL: "l", AxisKind.RLOCAL: "k",
          AxisKind.UPCAST: "u", AxisKind.UNROLL: "v", AxisKind.CHAIN: "c"}


# ---- tree --------------------------------------------------------------------------------------------------------------

def tree(root: UOp) -> str:
    """One node a line under its reader; a node with several readers is printed once, as %n, and then only named."""
    readers = Counter(s for u in root.toposort() for s in u.src)
    number: dict[UOp, int] = {}
    lines: list[str] = []
    stack = [(root, 0)]
    while stack:
        u, depth = stack.pop()
        pad = "  " * min(depth, INDENT_LIMIT)
        if u in number:
            lines.append(f"{pad}%{number[u]}")
            continue
        label = ""
        if readers[u] > 1 and u.src:
            number[u] = len(number)
            label = f"%{number[u]} = "
        lines.append(f"{pad}{label}{_head(u)}")
        stack.extend((s, depth + 1) for s in reversed(u.src))
    return "\n".join(lines)


def _head(u: UOp) -> str:
    arg = "" if u.arg is None else f" {_argument(u.arg)}"
    shape = "" if u.shape is None or u.op is Op.CONST else f" {u.shape}"
    return f"{u.op.name} {u.dtype.name}{shape}{arg}"


def _argument(arg: Any) -> str:
    if isinstance(arg, Axis):
        return f"{arg.kind.name} id={arg.id} phase={arg.phase} order={arg.order} extent={arg.extent}{' vector' if arg.vector else ''}"
    return repr(arg)


# ---- pseudo-code -------------------------------------------------------------------------------------------------------

def code(root: UOp) -> str:
    """A kernel AST as loops, a tensor graph as assignments."""
    kernel = any(u.op in (Op.RANGE, Op.PARAM, Op.SINK) for u in root.toposort())
    return _Loops(root).text() if kernel else _assignments(root)


def _assignments(root: UOp) -> str:
    name = {u: f"t{i}" for i, u in enumerate(root.toposort())}
    lines = []
    for u, at in name.items():
        args = [name[s] for s in u.src] + ([_argument(u.arg)] if u.arg is not None else [])
        lines.append(f"{at} = {u.op.name.lower()}({', '.join(args)})  # {u.dtype.name} {u.shape}")
    return "\n".join(lines)


class _Loops:
    """Statements in dependence order, each inside the loops that it varies over. Lanes are printed as loops."""

    def __init__(self, root: UOp) -> None:
        self.nodes = root.toposort()
        self.readers = Counter(s for u in self.nodes for s in u.src)
        self.expr: dict[UOp, str] = {}
        self.lines: list[str] = []
        self.open: list[UOp] = []
        self.names: Counter[str] = Counter()

    def text(self) -> str:
        for u in self.nodes:
            self._visit(u)
        root = self.nodes[-1]
        if root.op not in (Op.STORE, Op.SINK, Op.PARAM):
            self._line(root.free, f"result = {_bare(self.expr[root])}")
        return "\n".join(self.lines)

    def _visit(self, u: UOp) -> None:
        op, expr = u.op, self.expr
        if op is Op.RANGE:
            expr[u] = self._name(LETTER[u.arg.kind] + str(u.arg.id), bare=True)
        elif op is Op.STORE:
            self._line(u.free, f"{expr[u.src[0]]} = {_bare(expr[u.src[1]])}{self._guard(u.src[0])}")
        elif op is Op.REDUCE:
            expr[u] = self._name("acc")
            self._line(u.src[0].free.union(u.src[1:]), REDUCED[u.arg].format(expr[u], _bare(expr[u.src[0]])))
        elif op is Op.STAGE:
            expr[u] = self._name(u.arg.where.name.lower())
            self._line(u.src[0].free.union(u.src[1].free, u.src[2:]), f"{expr[u]}[{_bare(expr[u.src[1]])}] = {_bare(expr[u.src[0]])}")
        elif op is not Op.SINK:
            text = self._expression(u)
            short = SHORT_LIMIT if self.readers[u] > 1 and u.dtype is dtypes.index else 0 if self.readers[u] > 1 else INLINE_LIMIT
            if len(text) > short and u.src and op is not Op.INDEX:
                expr[u] = self._name("x")
                self._line(u.free, f"{expr[u]} = {_bare(text)}")
            else:
                expr[u] = text

    def _name(self, stem: str, bare: bool = False) -> str:
        """A name that is not in use: i0, then i0_1; acc0, acc1 if not `bare`."""
        n = self.names[stem]
        self.names[stem] += 1
        return (f"{stem}_{n}" if n else stem) if bare else f"{stem}{n}"

    def _line(self, free: frozenset[UOp], text: str) -> None:
        want = sorted(free, key=loop_key)
        same = 0
        while same < min(len(want), len(self.open)) and want[same] is self.open[same]:
            same += 1
        for depth, r in enumerate(want[same:], same):
            kind = r.arg.kind.name.lower() + (" vector" if r.arg.vector else "")
            self.lines.append(f"{'  ' * depth}for {self.expr[r]} in range({r.arg.extent}):  # {kind}")
        self.open = want
        self.lines.append("  " * len(want) + text)

    def _guard(self, index: UOp) -> str:
        return f" if {_bare(self.expr[index.src[2]])}" if len(index.src) > 2 else ""

    def _expression(self, u: UOp) -> str:
        op, a = u.op, [self.expr[s] for s in u.src]
        if op is Op.CONST:
            return str(u.arg)
        if op is Op.PARAM:
            return f"p{u.arg.slot}"
        if op is Op.INDEX:
            return f"{a[0]}[{_bare(a[1])}]"
        if op is Op.LOAD:
            guard = self._guard(u.src[0])
            return f"({a[0]}{guard} else 0)" if guard else a[0]
        if op in INFIX:
            return f"({a[0]} {INFIX[op]} {a[1]})"
        if op is Op.WHERE:
            return f"({a[1]} if {_bare(a[0])} else {a[2]})"
        name = u.dtype.name if op is Op.CAST else f"scan_{u.arg.name.lower()}" if op is Op.SCAN else op.name.lower()
        return f"{name}({', '.join(map(_bare, a))})"


def _bare(text: str) -> str:
    """Without the parentheses that enclose all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text


# ---- source that rebuilds the node -------------------------------------------------------------------------------------

def reproduce(root: UOp) -> str:
    """Python source whose last line assigns `u`, the same node: exec it with the names of `morok.uop` and `dtypes`."""
    name = {u: f"u{i}" for i, u in enumerate(root.toposort())}
    lines = []
    for u, at in name.items():
        src = "".join(f"{name[s]}, " for s in u.src).rstrip(" ") if len(u.src) == 1 else ", ".join(name[s] for s in u.src)
        arg = "" if u.arg is None else f", {_source(u.arg)}"
        lines.append(f"{at} = UOp({u.op!r}, {u.dtype!r}, ({src}){arg})")
    return "\n".join([*lines, f"u = {name[root]}"])


def _source(arg: Any) -> str:
    """An argument as Python source."""
    if isinstance(arg, AxisKind):
        return f"AxisKind.{arg.name}"
    if isinstance(arg, float) and not math.isfinite(arg):
        return ("-" if math.copysign(1, arg) < 0 else "") + f'float("{abs(arg)}")'
    if isinstance(arg, tuple):
        items = [_source(a) for a in arg]
        if type(arg) is tuple:
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return f"{type(arg).__name__}({', '.join(items)})"
    if isinstance(arg, (Op, DType, int, float, str)):
        return repr(arg)
    return str(arg)                                   # Where.LOCAL
