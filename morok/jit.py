"""`jit`: a function of tensors is captured once and then runs as one plan.

The first call runs the function on placeholders; what it returns, and the new values of tensors that it changes, become one graph and one plan. A later call
with tensors of the same shapes and dtypes, and equal other arguments, binds their memory to the plan and runs it. For each such signature a small Python
function is written that checks it and makes the results; checks, native call and results take about a microsecond together.
"""
from __future__ import annotations

import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from . import knobs
from .dtype import DType
from .errors import JitError
from .ops import trace
from .ops.random import random_words
from .plan import Plan, buffer_bytes, inputs_of, report
from .profile import listeners
from .realize import plan_for, stored
from .runtime.buffer import Buffer, new_buffer_node
from .tensor import Tensor
from .uop import UOp
from .variable import Variable, bound, freed, is_symbolic

P = ParamSpec("P")
R = TypeVar("R")
Kind = tuple[tuple[int, ...], DType, str]
LIMIT = 64                       # signatures that one function remembers
KEPT = 256 << 10                 # results up to so many bytes reuse the memory of earlier results that nobody has any more
MISS = object()                  # what a call gives when its arguments are not those it was written for


def count_of_unused() -> int:
    """What this Python counts for an object that a list has and a local variable."""
    spare = [object()]
    o = spare[0]
    return sys.getrefcount(o)


UNUSED = count_of_unused()


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


def numbers(structure: Any) -> list[int]:
    """The numbers of the leaves in a nesting."""
    if isinstance(structure, Leaf):
        return [structure.number]
    kind, inner = structure
    return [n for v in inner for n in numbers(v[1] if kind == "dict" else v)]


@dataclass(eq=False)
class Entry:
    """One signature: call(*leaves) runs it, or gives MISS. outside: the tensors from outside whose memory it looks into."""
    call: Callable[..., Any]
    outside: list[Tensor]

    def run(self, leaves: list[Any]) -> Any:
        """The call; tensors from outside that got new values since the last one are computed before."""
        out = self.call(*leaves)
        if out is MISS and realize([x for x in self.outside if x.__dict__]):      # none that was donated, as the function may not want it any more
            out = self.call(*leaves)
        return out


def realize(tensors: list[Tensor]) -> bool:
    """Compute those that have no memory; whether there were any."""
    lazy = [x for x in tensors if "_memory" not in x.__dict__]
    if lazy:
        lazy[0].realize(*lazy[1:])
    return bool(lazy)


def nothing(*args: Any) -> Any:
    """The call of a function that was never called."""
    return MISS


class Jit(Generic[P, R]):
    """A captured function; see `jit`. entries: how many signatures it knows now."""

    def __init__(self, function: Callable[P, R], donate: Sequence[int]) -> None:
        functools.update_wrapper(self, function)                # first, as it copies what the function has in its dictionary
        self.function, self.donate = function, tuple(donate)
        self._entries: OrderedDict[Any, Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._recent: tuple[int, Callable[..., Any]] = -1, nothing                # the last call and its number of arguments, none of them nested

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        arity, call = self._recent
        if len(args) == arity and not kwargs and not trace.running:
            out = call(*args)
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
        with self._lock:
            self._entries.clear()
            self._recent = -1, nothing

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if trace.current() is not None:
            return self.function(*args, **kwargs)               # part of another capture
        leaves: list[Any] = []
        structure = flatten((args, kwargs), leaves)
        realize([x for x in leaves if isinstance(x, Tensor)])
        same = first_places(leaves)
        sizes = [x for x in leaves if isinstance(x, Variable)] if Variable.used else []
        key = (structure, tuple([signature(i, x, sizes) for i, x in enumerate(leaves)]), tuple(same))
        of_args = structure[1][0][1]
        entry = self._entries.get(key)
        out = MISS if entry is None else entry.run(leaves)
        if entry is None or out is MISS:
            entry = capture(self.function, structure, leaves, same, self._donated(of_args, same))
            out = entry.run(leaves)
            if out is MISS:
                raise JitError(f"another thread changed a tensor that {self.function} reads from outside while it was captured")
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            if len(self._entries) > LIMIT:
                self._entries.popitem(last=False)
            if not kwargs and all(isinstance(s, Leaf) for s in of_args):
                self._recent = len(args), entry.call
        return out

    def _donated(self, of_args: Sequence[Any], same: list[int]) -> set[int]:
        """The numbers of the leaves in the donated arguments."""
        out = set()
        for i in self.donate:
            if not -len(of_args) <= i < len(of_args):
                raise JitError(f"donate: there is no positional argument {i} in a call with {len(of_args)}")
            out |= {same[n] for n in numbers(of_args[i])}
        return out


def jit(function: Callable[P, R] | None = None, *, donate: Sequence[int] = ()) -> Any:
    """Capture a function of tensors at its first call and run it as one plan afterwards: `@morok.jit`.

    Arguments: tensors, also in nested tuples, lists and dicts, bound variables (one capture serves all their values), and what can be hashed.
    Results: tensors, likewise nested, in fresh memory.
    Other shapes, dtypes or values are captured anew (the last 64 combinations are remembered). Tensors from outside are read as they are at each call, and
    those that the function changes (assign, +=, x[i] = v) are changed by each call; random numbers are fresh ones. What else the function does in Python
    happens once, at the capture. donate: numbers of positional arguments that the caller gives away, for results to use their memory.
    JitError for reading values inside (`.numpy()`, `if tensor:`) and for arguments that cannot be told apart.
    """
    if function is None:
        return lambda f: Jit(f, donate)
    return Jit(function, donate)


def first_places(leaves: list[Any]) -> list[int]:
    """For each leaf its number, or that of the leaf before it that is the same tensor: if the function changes one, it sees that in the other."""
    first: dict[int, int] = {}
    return [first.setdefault(id(x), i) if isinstance(x, Tensor) else i for i, x in enumerate(leaves)]


def exact(x: Any) -> bool:
    """Equal values of x can be told apart (0.0 and -0.0), or are not equal to themselves (NaN), so that their texts have to be compared."""
    return isinstance(x, (float, complex, np.inexact)) and bool(x != x or x == 0)


def free_kind(kind: Kind, sizes: Sequence[Variable]) -> Kind:
    """Shape, dtype and device, with the sizes that are arguments of the call free of their values."""
    return (freed(kind[0], sizes), kind[1], kind[2]) if sizes else kind


def signature(i: int, x: Any, sizes: Sequence[Variable]) -> Any:
    """What has to be the same for an argument to run as captured."""
    if isinstance(x, Tensor):
        return type(x), free_kind(x._memory.kind, sizes)
    if isinstance(x, Variable):
        if x.value is None:
            raise JitError(f"argument {i} of a captured function is the size {x} without a value: pass {x}.bind(...)")
        return Variable, x.free
    if isinstance(x, np.ndarray):
        raise JitError(f"argument {i} of a captured function is a NumPy array of shape {x.shape}: wrap it, Tensor(array), so that it is read at each call")
    try:
        hash(x)
    except TypeError:
        raise JitError(f"argument {i} of a captured function is a {type(x).__name__}, which cannot be hashed: pass tensors and plain values") from None
    return type(x), repr(x) if exact(x) else x


# ---- capture -----------------------------------------------------------------------------------------------------
class Result(NamedTuple):
    """Where a value of the plan goes: its slot, and what gets it: a result (None), argument i, or a tensor from outside."""
    slot: int
    target: Any
    shape: tuple[int, ...]


def capture(function: Callable[..., Any], structure: Any, leaves: list[Any], same: list[int], donated: set[int]) -> Entry:
    """Run the function on placeholders and write the call for this signature. same: see `first_places`."""
    sizes = [x for x in leaves if isinstance(x, Variable)]
    places = {i: new_buffer_node(*free_kind(x._memory.kind, sizes)) for i, x in enumerate(leaves) if isinstance(x, Tensor) and same[i] == i}
    stand_ins = {i: type(leaves[i])._wrap(node) for i, node in places.items()}
    args, kwargs = unflatten(structure, [stand_ins.get(same[i], x.free if isinstance(x, Variable) else x) for i, x in enumerate(leaves)])
    with trace.capture(Tensor, new_buffer_node) as t:
        results: list[Any] = []
        shape_of_results = flatten(function(*args, **kwargs), results)
        wanted = [x.uop for x in results if isinstance(x, Tensor)]
        changed = t.changed
    by_stand_in = {id(s): i for i, s in stand_ins.items()}
    outside = [(x, before) for x, before in t.read.values() if id(x) not in by_stand_in]
    targets = [None] * len(wanted) + [by_stand_in.get(id(x), x) for x, _ in changed]
    sinks = [stored(u) for u in wanted] + [stored(u) for _, u in changed]
    if not sinks:
        raise JitError("the captured function returns no tensor and changes none")
    groups, others = apart(stand_ins, [x for x, _ in outside], {id(x) for x, _ in changed})
    if any(leaves[i] is x for i, found in others.items() for x in found):
        raise JitError("an argument is also a tensor that the captured function knows from outside, and one of them is changed: use it in one way")
    plan, inputs = plan_for(sinks)
    plan = plan.copy()
    by_size = {x.free: i for i, x in enumerate(leaves) if isinstance(x, Variable)}
    sources = [("size", by_size[node.arg.uid]) if node.arg.uid in by_size else source_of(node, places, t.draws, outside) for node in inputs]
    return Writer(plan, leaves, same, places, sources, len(t.draws), shape_of_results, results,
                  [Result(slot, target, u.shape or ()) for (slot, _), target, u in zip(plan.outputs, targets, sinks, strict=True)],
                  donated, groups, others).entry()


def apart(stand_ins: dict[int, Tensor], outside: list[Tensor], moved: set[int]) -> tuple[list[list[int]], dict[int, list[Tensor]]]:
    """What another call must not give as one tensor, as one is changed and the other would see that: arguments, and arguments and tensors from outside."""
    groups: dict[Any, list[int]] = {}
    others: dict[int, list[Tensor]] = {}
    for i, s in stand_ins.items():
        kind = s.shape, s.dtype
        groups.setdefault(kind, []).append(i)
        found = [x for x in outside if (id(s) in moved or id(x) in moved) and (x.shape, x.dtype) == kind]
        others |= {i: found} if found else {}
    return [g for g in groups.values() if len(g) > 1 and any(id(stand_ins[i]) in moved for i in g)], others


def source_of(node: UOp, places: dict[int, UOp], draws: list[UOp], outside: list[tuple[Tensor, UOp]]) -> Any:
    """Where the memory of an input comes from at each call: ("arg", i), ("draw", i), ("state", (kind, tensors)) or ("constant", buffer)."""
    for i, place in places.items():
        if node is place:
            return "arg", i
    if node in draws:
        return "draw", draws.index(node)
    memory, = inputs_of([node])
    holders = [x for x, before in outside if before is node]
    return ("state", (memory.kind, holders)) if holders else ("constant", memory)


class Writer:
    """Writes the call of one signature as a Python function."""

    def __init__(self, plan: Plan, leaves: list[Any], same: list[int], places: dict[int, UOp], sources: list[Any], draws: int, structure: Any,
                 values: list[Any], results: list[Result], donated: set[int], groups: list[list[int]], others: dict[int, list[Tensor]]) -> None:
        self.plan, self.leaves, self.same, self.places, self.sources, self.draws, self.donated = plan, leaves, same, places, sources, draws, donated
        self.structure, self.values, self.results, self.groups, self.others = structure, values, results, groups, others
        self.names: dict[str, Any] = {"MISS": MISS, "Tensor": Tensor, "new": object.__new__, "count": sys.getrefcount, "random_words": random_words,
                                      "listeners": listeners, "Variable": Variable, "free_kind": free_kind, "bound": bound, "array": np.array,
                                      "int64": np.int64}
        self.sizes = f"({''.join(f'a{i}, ' for i, x in enumerate(leaves) if isinstance(x, Variable))})"

    def class_of(self, x: Tensor) -> str:
        """A name for the class of a tensor."""
        return "Tensor" if type(x) is Tensor else self.bind(type(x))

    def bind(self, value: Any) -> str:
        """A name for an object in the written function."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def entry(self) -> Entry:
        lines = [f"def call({', '.join(f'a{i}' for i in range(len(self.leaves)))}):", *self.check(), *self.run(), *self.finish()]
        exec("\n    ".join(lines), self.names)                  # noqa: S102
        return Entry(self.names.pop("call"), [x for kind, what in self.sources if kind == "state" for x in what[1]])

    def check(self) -> Iterable[str]:
        """Memory of arguments and of tensors from outside, and that all is as it was captured."""
        yield "try:"
        for i in self.places:
            yield f"    m{i} = a{i}._memory"
        tests = []
        for i, x in enumerate(self.leaves):
            if i in self.places:
                kind = x._memory.kind
                its = f"free_kind(m{i}.kind, {self.sizes})" if is_symbolic(kind[0]) else f"m{i}.kind"
                tests.append(f"a{i}.__class__ is {self.class_of(x)} and {its} == {self.bind(self.places[i].arg[1:2] + kind[1:])}")
            elif isinstance(x, Variable):
                tests.append(f"a{i}.__class__ is Variable and a{i}.value is not None and a{i}.free == {self.bind(x.free)}")
            elif self.same[i] != i:
                tests.append(f"a{i} is a{self.same[i]}")
            else:
                value = self.bind(x)
                equal = f"repr(a{i}) == {repr(x)!r}" if exact(x) else f"a{i} == {value}"
                tests.append(f"(a{i} is {value} or a{i}.__class__ is {self.bind(type(x))} and {equal})")
        tests += [f"len({{{', '.join(f'id(a{i})' for i in group)}}}) == {len(group)}" for group in self.groups]
        for i, found in self.others.items():
            tests.append(f"id(a{i}) not in {self.bind(frozenset(map(id, found)))}")
            self.bind(found)                                    # lives as long as the call, so that its ids stay its own
        self.memory: list[str] = []
        for k, (kind, what) in enumerate(self.sources):
            if kind == "arg":
                self.memory.append(f"m{what}.address")
            elif kind == "size":
                self.memory.append(f"v{what}.__array_interface__['data'][0]")
            elif kind == "draw":
                self.memory.append(f"w + {12 * what}")
            elif kind == "constant":
                self.memory.append(str(what.address))
                self.bind(what)                                 # lives as long as the call
            else:
                first, *others = (self.bind(x) for x in what[1])
                yield f"    s{k} = {first}._memory"
                tests += [f"s{k}.kind == {self.bind(what[0])}", *(f"s{k} is {x}._memory" for x in others)]
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
        for i in {what for kind, what in self.sources if kind == "size"}:
            yield f"v{i} = array(a{i}.value, int64)"
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
            yield f"if count(o{k}) != {UNUSED}:"                # someone has it, besides the list and this name
            yield f"    o{k} = {spare}[1]"
            yield f"    if count(o{k}) != {UNUSED}:"
            yield f"        o{k} = {spare}[0] = {make}()"
            self.donated.difference_update(donors[:1])
            if donors:
                self.spares[-1 - donors[0]] = spare
        base = 0
        if self.plan.scratch:
            arena = Buffer.bytes(self.plan.scratch)
            self.bind(arena)                                    # lives as long as the call
            base = arena.address
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
        classes = [self.class_of(x) for x in self.values if isinstance(x, Tensor)]
        for n, (slot, target, shape) in enumerate(self.results):
            if is_symbolic(shape):
                b = self.plan.new[slot - self.plan.inputs]
                yield f"o{slot}.kind = bound({self.bind(shape)}, {self.sizes}), {self.bind(b.dtype)}, {self.bind(b.arg.device)}"
            memory = f"o{slot}" if slot >= self.plan.inputs else self.memory[slot].removesuffix(".address")
            if target is None:
                yield f"t{n} = new({classes[n]}); t{n}._memory = {memory}"
                names.append(f"t{n}")
            else:
                x = f"a{target}" if isinstance(target, int) else self.bind(target)
                yield f"{x}._memory = {memory}; {x}.__dict__.pop('uop', None)"       # in this order: another thread may be reading it
        for i, spare in [(-1 - k, s) for k, s in self.spares.items() if k < 0]:
            yield f"a{i}.__dict__.clear()"
            yield f"if m{i}._block is not None and {spare}[0] is not m{i}: {spare}[1] = m{i}"        # not a NumPy array's
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
