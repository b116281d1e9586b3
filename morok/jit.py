"""`jit`: a function of tensors is captured once and then runs as one plan.

The first call runs the function on placeholders; what it returns, and the new values of tensors that it changes, become one graph and one plan. A later call
with tensors of the same shapes and dtypes, and equal other arguments, binds their memory to the plan and runs it. For each such signature a small Python
function is written that checks it and makes the results; checks, native call and results take about a microsecond together.
"""
from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from . import knobs
from .errors import JitError
from .ops import trace
from .ops.random import random_words
from .plan import Plan, buffer_bytes, report
from .profile import listeners
from .realize import plan_for
from .runtime.buffer import Buffer, buffer_of, new_buffer_node
from .tensor import Tensor, stored
from .uop import UOp

P = ParamSpec("P")
R = TypeVar("R")
LIMIT = 64                       # signatures that one function remembers
KEPT = 256 << 10                 # results up to so many bytes reuse the memory of earlier results that nobody has any more
MISS = object()                  # what a call gives when its arguments are not those it was written for


class Leaf(NamedTuple):
    """The place of an argument or result in nested tuples, lists and dicts."""
    number: int


def flatten(x: Any, leaves: list[Any]) -> Any:
    """The nesting of x with numbered leaves, which are appended; comparable and hashable."""
    if isinstance(x, (list, tuple)):
        inner = tuple([flatten(v, leaves) for v in x])
        return ("list" if isinstance(x, list) else type(x), inner)
    if isinstance(x, dict):
        return ("dict", tuple([(k, flatten(v, leaves)) for k, v in x.items()]))
    leaves.append(x)
    return Leaf(len(leaves) - 1)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The nested value again, with other leaves."""
    if isinstance(structure, Leaf):
        return leaves[structure.number]
    kind, inner = structure
    if kind == "dict":
        return {k: unflatten(v, leaves) for k, v in inner}
    values = [unflatten(v, leaves) for v in inner]
    return values if kind == "list" else kind(*values) if hasattr(kind, "_fields") else kind(values)


@dataclass(eq=False)
class Entry:
    """One signature: call(*leaves) runs it, or gives MISS."""
    call: Callable[..., Any]
    plan: Plan
    arena: Buffer | None


class Jit(Generic[P, R]):
    """A captured function; see `jit`. entries: how many signatures it knows now."""

    def __init__(self, function: Callable[P, R], donate: Sequence[int]) -> None:
        self.function, self.donate = function, tuple(donate)
        self._entries: OrderedDict[Any, Entry] = OrderedDict()
        self._recent: Callable[..., Any] = lambda *args: MISS
        self._arity = -1
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) == self._arity and not kwargs and not trace.running:
            out = self._recent(*args)
            if out is not MISS:
                return out       # type: ignore[no-any-return]
        return self._general(args, kwargs)      # type: ignore[no-any-return]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @property
    def entries(self) -> int:
        """Signatures that are remembered."""
        return len(self._entries)

    def clear(self) -> None:
        """Forget all that was captured, and free its memory."""
        self._entries.clear()
        self._recent, self._arity = lambda *args: MISS, -1

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if trace.current() is not None:
            return self.function(*args, **kwargs)               # part of another capture
        leaves: list[Any] = []
        structure = flatten((args, kwargs), leaves)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if tensors:
            tensors[0].realize(*tensors[1:])
        key = (structure, tuple([signature(i, x) for i, x in enumerate(leaves)]))
        entry = self._entries.get(key)
        out = MISS if entry is None else entry.call(*leaves)
        if entry is None or out is MISS:
            entry = self._entries[key] = capture(self.function, structure, leaves, self._donated(args, leaves))
            if len(self._entries) > LIMIT:
                self._entries.popitem(last=False)
            out = entry.call(*leaves)
            if out is MISS:
                raise JitError(f"{self.function} changes the shape or dtype of a tensor that it reads from outside, in every call")
        self._entries.move_to_end(key)
        if not kwargs and len(leaves) == len(args):             # no argument is nested
            self._recent, self._arity = entry.call, len(args)
        return out

    def _donated(self, args: tuple[Any, ...], leaves: list[Any]) -> set[int]:
        """The numbers of the leaves in the donated arguments."""
        out = set()
        for i in self.donate:
            if not -len(args) <= i < len(args):
                raise JitError(f"donate: there is no positional argument {i} in a call with {len(args)}")
            inside: list[Any] = []
            flatten(args[i], inside)
            out |= {k for k, x in enumerate(leaves) if any(x is y for y in inside) and isinstance(x, Tensor)}
        return out


def jit(function: Callable[P, R] | None = None, *, donate: Sequence[int] = ()) -> Any:
    """Capture a function of tensors at its first call and run it as one plan afterwards: `@morok.jit`.

    Arguments: tensors, also in nested tuples, lists and dicts, and other values that can be hashed. Results: tensors, likewise nested, in fresh memory.
    Other shapes, dtypes or values are captured anew (the last 64 combinations are remembered). Tensors from outside are read as they are at each call, and
    those that the function changes (assign, +=, x[i] = v) are changed by each call; random numbers are fresh ones. What else the function does in Python
    happens once, at the capture. donate: numbers of positional arguments that the caller gives away, for results to use their memory.
    JitError for reading values inside (`.numpy()`, `if tensor:`) and for arguments that cannot be told apart.
    """
    if function is None:
        return lambda f: Jit(f, donate)
    return Jit(function, donate)


def signature(i: int, x: Any) -> Any:
    """What has to be the same for an argument to run as captured."""
    if isinstance(x, Tensor):
        return Tensor, x._memory.kind
    if isinstance(x, np.ndarray):
        raise JitError(f"argument {i} of a captured function is a NumPy array of shape {x.shape}: wrap it, Tensor(array), so that it is read at each call")
    try:
        hash(x)
    except TypeError:
        raise JitError(f"argument {i} of a captured function is a {type(x).__name__}, which cannot be hashed: pass tensors and plain values") from None
    return type(x), x


# ---- capture -----------------------------------------------------------------------------------------------------
class Result(NamedTuple):
    """Where a value of the plan goes: its slot, and what gets it: a result (None), argument i, or a tensor from outside."""
    slot: int
    target: Any


def capture(function: Callable[..., Any], structure: Any, leaves: list[Any], donated: set[int]) -> Entry:
    """Run the function on placeholders and write the call for this signature."""
    places = {i: new_buffer_node(*x._memory.kind) for i, x in enumerate(leaves) if isinstance(x, Tensor)}
    stand_ins = {i: Tensor(node) for i, node in places.items()}
    args, kwargs = unflatten(structure, [stand_ins.get(i, x) for i, x in enumerate(leaves)])
    while True:
        with trace.capture(Tensor, new_buffer_node) as t:
            results: list[Any] = []
            shape_of_results = flatten(function(*args, **kwargs), results)
            changed = t.changed
            wanted = [x.uop for x in results if isinstance(x, Tensor)] + [value for _, value in changed]
        outside = [x for x, _ in t.read.values() if all(x is not s for s in stand_ins.values())]
        lazy = [x for x in outside if x.uop.memory is None]
        if not lazy:
            break
        lazy[0].realize(*lazy[1:])                              # what it reads must have memory that later calls can look into
    for x in outside:
        x._memory = x.uop.memory                                # which it lost if it was changed inside
    sinks = [stored(u) for u in wanted]
    by_stand_in = {id(s): i for i, s in stand_ins.items()}
    targets = [None] * (len(wanted) - len(changed)) + [by_stand_in.get(id(x), x) for x, _ in changed]
    if not sinks:
        raise JitError("the captured function returns no tensor and changes none")
    plan, inputs = plan_for(sinks)
    plan = plan.copy()
    sources = [source_of(node, places, t.draws, outside) for node in inputs]
    return Writer(plan, leaves, places, sources, len(t.draws), shape_of_results, results,
                  [Result(slot, target) for (slot, _), target in zip(plan.outputs, targets, strict=True)], donated).entry()


def source_of(node: UOp, places: dict[int, UOp], draws: list[UOp], outside: list[Tensor]) -> Any:
    """Where the memory of an input comes from at each call: ("arg", i), ("draw", i), ("state", tensors) or ("constant", buffer)."""
    for i, place in places.items():
        if node is place:
            return "arg", i
    if node in draws:
        return "draw", draws.index(node)
    memory = buffer_of(node)
    holders = [x for x in outside if x._memory is memory]
    return ("state", holders) if holders else ("constant", memory)


class Writer:
    """Writes the call of one signature as a Python function."""

    def __init__(self, plan: Plan, leaves: list[Any], places: dict[int, UOp], sources: list[Any], draws: int, structure: Any, values: list[Any],
                 results: list[Result], donated: set[int]) -> None:
        self.plan, self.leaves, self.places, self.sources, self.draws, self.donated = plan, leaves, places, sources, draws, donated
        self.structure, self.values, self.results = structure, values, results
        self.names: dict[str, Any] = {"MISS": MISS, "Tensor": Tensor, "new": object.__new__, "count": sys.getrefcount, "random_words": random_words,
                                      "listeners": listeners}
        self.arena = Buffer.bytes(plan.scratch) if plan.scratch else None

    def bind(self, value: Any) -> str:
        """A name for an object in the written function."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def entry(self) -> Entry:
        lines = [f"def call({', '.join(f'a{i}' for i in range(len(self.leaves)))}):", *self.check(), *self.run(), *self.finish()]
        exec("\n    ".join(lines), self.names)                  # noqa: S102
        return Entry(self.names["call"], self.plan, self.arena)

    def check(self) -> Iterable[str]:
        """Memory of arguments and of tensors from outside, and that all is as it was captured."""
        yield "try:"
        for i in self.places:
            yield f"    m{i} = a{i}._memory"
        tests = []
        for i, x in enumerate(self.leaves):
            if i in self.places:
                tests.append(f"a{i}.__class__ is Tensor and m{i}.kind == {self.bind(x._memory.kind)}")
            else:
                value = self.bind(x)
                tests.append(f"(a{i} is {value} or a{i}.__class__ is {self.bind(type(x))} and a{i} == {value})")
        self.memory: list[str] = []
        for k, (kind, what) in enumerate(self.sources):
            if kind == "arg":
                self.memory.append(f"m{what}.address")
            elif kind == "draw":
                self.memory.append(f"w + {12 * what}")
            elif kind == "constant":
                self.memory.append(str(what.address))
                self.bind(what)                                 # lives as long as the call
            else:
                first, *others = (self.bind(x) for x in what)
                yield f"    s{k} = {first}._memory"
                tests += [f"s{k}.kind == {self.bind(what[0]._memory.kind)}", *(f"s{k} is {x}._memory" for x in others)]
                self.memory.append(f"s{k}.address")
        yield "    pass"
        yield "except AttributeError:"
        yield "    return MISS"
        if tests:
            yield f"if not ({' and '.join(tests)}): return MISS"

    def run(self) -> Iterable[str]:
        """Memory for the results, then the plan."""
        if self.draws:
            yield f"words = random_words({self.draws})"
            yield "w = words.__array_interface__['data'][0]"
        allocate = self.plan.device.allocate
        first = self.plan.inputs
        self.spares: dict[int, str] = {}
        for k, b in enumerate(self.plan.new, first):
            kind = (b.arg.shape, b.dtype, b.arg.device)

            def fresh(kind: Any = kind) -> Buffer:
                m = allocate(kind[0], kind[1])
                m.kind = kind
                return m
            make = self.bind(fresh)
            donors = [i for i in self.donated if self.leaves[i]._memory.kind == kind]
            if buffer_bytes(b) > KEPT and not donors:
                yield f"o{k} = {make}()"
                continue
            spare = self.spares[k] = self.bind([fresh(), fresh()])
            yield f"o{k} = {spare}[0]"
            yield f"if count(o{k}) != 3:"                       # someone has it: besides the list, this name and the argument
            yield f"    o{k} = {spare}[1]"
            yield f"    if count(o{k}) != 3:"
            yield f"        o{k} = {spare}[0] = {make}()"
            self.donated.difference_update(donors[:1])
            if donors:
                self.spares[-1 - donors[0]] = spare
        base = self.arena.address if self.arena is not None else 0
        addresses = ", ".join([*self.memory, *(f"o{k}.address" for k in range(first, first + len(self.plan.new))), str(base), str(base + self.plan.arena)])
        execute, plan = self.plan.run.execute, self.plan

        def told(*addresses: int) -> None:
            report(plan, plan.run.timed(*addresses))
        told_name = self.bind(told)
        if knobs.debug():
            yield f"{told_name}({addresses})"
        else:
            yield f"if listeners: {told_name}({addresses})"
            yield f"else: {self.bind(execute)}({addresses})"

    def finish(self) -> Iterable[str]:
        """Hand out the results: changed tensors take theirs, the others are new."""
        names: list[str] = []
        for n, (slot, target) in enumerate(self.results):
            memory = f"o{slot}" if slot >= self.plan.inputs else self.memory[slot].removesuffix(".address")
            if target is None:
                yield f"t{n} = new(Tensor); t{n}._memory = {memory}"
                names.append(f"t{n}")
            else:
                x = f"a{target}" if isinstance(target, int) else self.bind(target)
                yield f"{x}.__dict__.clear(); {x}._memory = {memory}"
        for i, spare in [(-1 - k, s) for k, s in self.spares.items() if k < 0]:
            yield f"a{i}.__dict__.clear(); {spare}[1] = m{i}"
        tensors = iter(names)
        leaves = [next(tensors) if isinstance(x, Tensor) else self.bind(x) for x in self.values]
        yield f"return {self.expression(self.structure, leaves)}"

    def expression(self, structure: Any, leaves: list[str]) -> str:
        """Python text that builds the nested results."""
        if isinstance(structure, Leaf):
            return leaves[structure.number]
        kind, inner = structure
        if kind == "dict":
            return "{" + ", ".join(f"{self.bind(k)}: {self.expression(v, leaves)}" for k, v in inner) + "}"
        items = [self.expression(v, leaves) for v in inner]
        if kind == "list":
            return f"[{', '.join(items)}]"
        if kind is tuple:
            return f"({', '.join(items)}{',' if items else ''})"
        return f"{self.bind(kind)}({'*' if hasattr(kind, '_fields') else ''}({', '.join(items)}{',' if items else ''}))"
