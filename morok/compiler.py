"""One kernel AST → actions → code → loaded machine code; cached by what it was made from."""
from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from . import knobs
from .codegen import lower
from .database import code_version, database, key_of
from .errors import CompileError, OptError
from .optimizer import apply_opts, flops_bytes, hand_coded, parse_opts
from .program import Opt, OptStrategy, Program, Stream
from .runtime.device import Device, Loaded
from .target import Target
from .uop import Axis, AxisKind, Op, UOp, code, ranges, verify

STORED = ("name", "entry", "chunks", "scratch", "nargs", "flops", "bytes")
LIMIT = 512                     # loaded kernels that are remembered


@dataclass(frozen=True)
class Kernel:
    """A loaded kernel: its program, its code in memory, which goes when the kernel does, what it was made from, and the tensor line that made it."""
    program: Program
    code: Loaded
    ast: UOp
    line: str | None

    @property
    def address(self) -> int:
        return self.code.address


_kernels: "OrderedDict[tuple[UOp, Target, OptStrategy, bool], Kernel]" = OrderedDict()
_lock = threading.Lock()
counters = {"compiled": 0, "loaded": 0, "hits": 0}             # by LLVM; from disk; from memory


def kernel_name(ast: UOp) -> str:
    """What people see: r (reduces), s (scans) or e (elementwise) and the extents of the axes, outputs first."""
    kinds = {u.op for u in ast.toposort()}
    letter = "s" if Op.SCAN in kinds else "r" if Op.REDUCE in kinds else "e"
    axes: dict[int, Axis] = {}
    for r in ranges(ast):
        axes.setdefault(r.arg.id, r.arg)
    return "_".join([letter, *(str(a.extent) for a in sorted(axes.values(), key=lambda a: (a.kind is AxisKind.REDUCE, a.id)))])


def get_kernel(ast: UOp, device: Device, strategy: OptStrategy, line: str | None = None, aligned: bool = False) -> Kernel:
    """The loaded kernel for this AST on this device under this strategy, compiled if it is not known yet.

    aligned: the buffers that it stores to begin at multiples of 64 bytes, which STREAM needs.
    """
    key = (ast, device.target, strategy, aligned)
    with _lock:
        if (found := _kernels.get(key)) is not None:
            _kernels.move_to_end(key)
            counters["hits"] += 1
            return found
    record = key_of("kernel", ast.key, device.target, strategy, aligned, code_version(), device.compiler)
    program, machine_code = stored(record) or (None, b"")
    if program is None:
        program = generate(ast, device, strategy, line, aligned)
        try:
            machine_code = device.compile(program)
        except CompileError as e:
            raise CompileError(str(e), e.source, line or "") from None
        database().put("kernel", record, packed(program, machine_code))
        counters["compiled"] += 1
    else:
        counters["loaded"] += 1
    try:
        code = device.load(machine_code, program.entry)
    except CompileError as e:
        raise CompileError(str(e), e.source, line or "") from None
    with _lock:
        kernel = _kernels[key] = Kernel(program, code, ast, line)
        if len(_kernels) > LIMIT:
            _kernels.popitem(last=False)
    return kernel


def packed(program: Program, machine_code: bytes) -> bytes:
    """A record of a compiled kernel: a line of JSON, then the object."""
    facts = {f: getattr(program, f) for f in STORED} | {"opts": " ".join(map(str, program.opts))}
    return json.dumps(facts).encode() + b"\n" + machine_code


def stored(record: str) -> tuple[Program, bytes] | None:
    """A kernel that some process compiled before; its source is left out. Not if the code is to be shown or verified."""
    if knobs.debug() >= 2 or knobs.SPEC.get():
        return None
    data = database().get("kernel", record)
    if data is None:
        return None
    line, _, machine_code = data.partition(b"\n")
    facts = json.loads(line)
    return Program(**{f: facts[f] for f in STORED}, source="", opts=tuple(parse_opts(facts["opts"]))), machine_code


def choose_opts(ast: UOp, device: Device, strategy: OptStrategy, aligned: bool = False) -> list[Opt]:
    """The actions that the strategy takes on this kernel. OptError for a STREAM to a buffer that may not be aligned."""
    if strategy.opts is not None:
        stream = next((o for o in strategy.opts if isinstance(o, Stream)), None)
        if stream is not None and not aligned:
            raise OptError(f"{stream}: needs an output buffer that begins at a multiple of 64 bytes")
        return list(strategy.opts)
    return hand_coded(ast, device.target, aligned) if strategy.name == "heuristic" else []


def generate(ast: UOp, device: Device, strategy: OptStrategy, line: str | None = None, aligned: bool = False) -> Program:
    """AST → Program, without compiling it."""
    start = time.perf_counter()
    opts = choose_opts(ast, device, strategy, aligned)
    optimized = apply_opts(ast, opts)
    if knobs.SPEC.get():
        verify("kernel", ast)
        verify("kernel", optimized)
    entry = f"k_{optimized.key[:24]}"
    program = lower(optimized, device.target, kernel_name(ast), entry)
    flops, size = flops_bytes(ast)
    show(program, ast, optimized, opts)
    return replace(program, opts=tuple(opts), flops=flops, bytes=size, meta={"line": line, "python_seconds": time.perf_counter() - start, "ast": optimized})


def show(program: Program, ast: UOp, optimized: UOp, opts: list[Opt]) -> None:
    """Print what DEBUG asks for of a kernel that is being compiled."""
    level = knobs.debug(program.name)
    if level >= 3:
        print(f"kernel {program.name}:\n{code(ast)}")
        if opts:
            print(f"after {' '.join(map(str, opts))}:\n{code(optimized)}")
    if level >= 2:
        print(program.source)
