"""The CPU: LLVM IR text → object code → this process; launches on the caller's thread or on the team."""
from __future__ import annotations

import itertools
import os
import platform
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import llvmlite.binding as llvm

from .. import knobs
from ..database import code_version, database, key_of
from ..dtype import DType
from ..errors import CompileError
from ..helpers import prod
from ..program import Program
from ..target import Target
from .buffer import Buffer
from .device import Device, Launch, Loaded
from .half_ir import HALF, HALF_NAMES
from .host import cache_size, usable_cores
from .native import EXPORTS, Native, native_source, python_symbols
from .plan import NativePlan, plans
from .pool import Pool

PASSES = ("sroa", "instruction_combine", "simplify_cfg")       # the code comes vectorized: only stack slots have to become registers
SERVES = 64                      # LLVM's pass builder and JIT keep up to 9 KiB of each kernel they served until they go themselves; so they go after this many


def host_target() -> Target:
    """The machine that this process runs on."""
    features = llvm.get_host_cpu_features()
    wide = bool(features.get("avx512f")) and not features.get("prefer-256-bit")
    vector = 64 if wide else 32 if features.get("avx2") else 16
    registers = 32 if wide or features.get("avx512vl") or platform.machine().lower() in ("aarch64", "arm64") else 16
    return Target("CPU", llvm.get_default_triple(), llvm.get_host_cpu_name(), features.flatten(), vector, registers, usable_cores(),
                  cache_size(1, 32 << 10), cache_size(2, 512 << 10), cache_size(3, 16 << 20))


class CpuDevice(Device):
    """The processor itself. target: what code is generated for, if not for this machine as it is; it must be able to run that."""
    name = "CPU"

    def __init__(self, target: Target | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self._target = target or host_target()
        self._cores = self._target.threads
        self._machine = llvm.Target.from_triple(self._target.triple).create_target_machine(
            cpu=self._target.cpu, features=self._target.features, opt=3, jit=True, reloc="pic")
        self._lock = threading.RLock()
        self._modules, self._libraries = itertools.count(), itertools.count()
        self._half: llvm.ResourceTracker | None = None
        if self._target.triple.startswith("x86_64") and "+f16c" not in self._target.features.split(","):
            self._half = self._link(self.compile(Program("half", "half", HALF)), "half", *HALF_NAMES)
        self._pools: dict[int, Pool] = {}
        self._native: Native | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Neither workers nor other threads survive a fork: what they held is free, and the child starts its own team at its first threaded plan."""
        self._lock = threading.RLock()
        for pool in self._pools.values():
            pool.after_fork()
        for plan in list(plans):
            plan.after_fork()

    @property
    def target(self) -> Target:
        """The machine, with the number of threads that MOROK_THREADS asks for now."""
        threads = knobs.MOROK_THREADS.get() or self._cores
        if threads != self._target.threads:
            self._target = replace(self._target, threads=threads)
        return self._target

    @property
    def compiler(self) -> str:
        return "llvm " + ".".join(map(str, llvm.llvm_version_info))

    # ---- code ------------------------------------------------------------------------------------------
    def _optimized(self, program: Program) -> llvm.ModuleRef:
        try:
            module = llvm.parse_assembly(program.source)
            module.verify()
        except RuntimeError as e:
            raise CompileError(f"LLVM refused the code of kernel {program.name}: {e}", program.source) from None
        if next(self._modules) % SERVES == 0:
            self._passes = llvm.create_new_module_pass_manager()
            for p in PASSES:
                getattr(self._passes, f"add_{p}_pass")()
            self._builder = llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options())
        self._passes.run(module, self._builder)
        return module

    def compile(self, program: Program) -> bytes:
        with self._lock:
            return bytes(self._machine.emit_object(self._optimized(program)))

    def assembly(self, program: Program) -> str:
        """The machine code of a program as text."""
        with self._lock:
            return str(self._machine.emit_assembly(self._optimized(program)))

    def load(self, code: bytes, entry: str) -> Loaded:
        with self._lock:
            library = self._link(code, entry, entry)
            return Loaded(int(library[entry]), library)

    def _link(self, code: bytes, name: str, *symbols: str, imports: Mapping[str, int] = MappingProxyType({})) -> llvm.ResourceTracker:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for s, address in imports.items():
            builder.import_symbol(s, address)
        if self._half is not None:
            for s in HALF_NAMES:
                builder.import_symbol(s, self._half[s])
        for s in symbols:
            builder.export_symbol(s)
        number = next(self._libraries)
        if number % SERVES == 0:
            self._jit = llvm.create_lljit_compiler(self._machine)  # kernels keep the one that holds them
        try:
            return builder.link(self._jit, f"{name}_{number}")
        except RuntimeError as e:
            raise CompileError(f"LLVM cannot load the code of {name}: {e}; the log on the standard error stream names what is missing") from None

    # ---- memory and launches -----------------------------------------------------------------------------
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        return Buffer.empty(prod(shape), dtype)

    def plan(self, launches: Sequence[Launch], slots: int) -> NativePlan:
        with self._lock:
            native = self.native
            threads = self.target.threads
            if threads > 1 and threads not in self._pools and any(x.program.chunks > 1 for x in launches):
                self._pools[threads] = Pool(threads, native.symbol)
            return NativePlan(native, self._pools.get(threads) if threads > 1 else None, launches, slots, bool(knobs.MOROK_FASTCALL.get()))

    @property
    def native(self) -> Native:
        """The driver of plans, compiled and loaded at its first use."""
        if self._native is None:
            program = Program("runtime", "runtime", native_source(platform.machine()))
            key = key_of("runtime", program.source, self._target, code_version(), self.compiler)
            code = database().get_or("object", key, lambda: self.compile(program))
            library = self._link(code, "runtime", *EXPORTS, imports=python_symbols())
            self._native = Native(lambda symbol: int(library[symbol]), library)
        return self._native
