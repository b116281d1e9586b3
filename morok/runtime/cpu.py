"""The CPU: LLVM IR text → object code → this process; launches on the caller's thread or on the team."""
from __future__ import annotations

import ctypes
import itertools
import os
import platform
import threading
from dataclasses import replace

import llvmlite.binding as llvm

from .. import knobs
from ..dtype import DType
from ..errors import CompileError
from ..helpers import prod
from ..program import Program
from ..target import Target
from .buffer import Buffer
from .device import Device, Loaded
from .half_ir import HALF, HALF_NAMES
from .host import cache_size, usable_cores
from .pool import Pool, Scratch
from .pool_ir import pool_source

PASSES = ("sroa", "instruction_combine", "simplify_cfg")       # the code comes vectorized: only stack slots have to become registers
PARTS = 4                        # chunks a thread, so that a slow core takes fewer
SERVES = 64                      # LLVM's pass builder and JIT keep up to 9 KiB of each kernel they served until they go themselves; so they go after this many
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


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
        self._pool: Pool | None = None
        self._pool_code = b""
        self._alone = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Workers do not survive a fork: the child starts its own team at its first threaded kernel."""
        self._pool, self._lock, self._alone = None, threading.RLock(), threading.local()

    @property
    def target(self) -> Target:
        """The machine, with the number of threads that MOROK_THREADS asks for now."""
        threads = knobs.MOROK_THREADS.get() or self._cores
        if threads != self._target.threads:
            self._target = replace(self._target, threads=threads)
        return self._target

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

    def _link(self, code: bytes, name: str, *symbols: str) -> llvm.ResourceTracker:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
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

    def run(self, address: int, args: list[int], chunks: int, scratch: int) -> None:
        table = (ctypes.c_void_p * len(args))(*args)
        if chunks > 1 and (threads := self.target.threads) > 1:
            pool = self._team(threads)
            if pool.owner.acquire(blocking=False):
                try:
                    pool.launch(address, ctypes.addressof(table), chunks, min(chunks, PARTS * threads), scratch)
                    return
                finally:
                    pool.owner.release()
        if not hasattr(self._alone, "scratch"):
            self._alone.scratch = Scratch()
        _ENTRY(address)(ctypes.addressof(table), 0, chunks, self._alone.scratch.grow(scratch))

    def _team(self, threads: int) -> Pool:
        """The team, started at its first use, and anew when the number of threads has changed."""
        if self._pool is not None and self._pool.threads == threads:
            return self._pool
        with self._lock:
            if self._pool is not None and self._pool.threads != threads:
                with self._pool.owner:
                    self._pool.stop()
                self._pool = None
            if self._pool is None:
                self._pool_code = self._pool_code or self.compile(Program("pool", "launch", pool_source(platform.machine())))
                library = self._link(self._pool_code, "pool", "start", "launch", "halt")
                self._pool = Pool(threads, lambda symbol: int(library[symbol]), library)
            return self._pool
