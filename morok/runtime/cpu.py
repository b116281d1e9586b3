"""The CPU: LLVM IR text → object code → this process; launches on the caller's thread or on the team."""
from __future__ import annotations

import ctypes
import itertools
import os
import platform
import threading

import llvmlite.binding as llvm

from .. import knobs
from ..dtype import DType
from ..errors import CompileError
from ..helpers import prod
from ..program import Program
from ..target import Target
from .buffer import Buffer
from .device import Device, Loaded
from .pool import Pool, Scratch, source

PASSES = ("sroa", "instruction_combine", "simplify_cfg")       # the code comes vectorized: only stack slots have to become registers
PARTS = 4                        # chunks a thread, so that a slow core takes fewer
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as f:
            quota, period = f.read().split()[:2]
        if quota != "max":
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return cores


def cache_size(level: int, default: int) -> int:
    """Size in bytes of a data cache of the first core, as the system tells it."""
    base = "/sys/devices/system/cpu/cpu0/cache"
    try:
        for entry in sorted(os.listdir(base)):
            path = os.path.join(base, entry)
            if entry.startswith("index") and _word(path, "level") == str(level) and _word(path, "type") in ("Data", "Unified"):
                size = _word(path, "size")
                return int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        pass
    return default


def _word(path: str, name: str) -> str:
    with open(os.path.join(path, name), encoding="ascii") as f:
        return f.read().strip()


def host_target() -> Target:
    """The machine that this process runs on."""
    features = llvm.get_host_cpu_features()
    wide = bool(features.get("avx512f")) and not features.get("prefer-256-bit")
    vector = 64 if wide else 32 if features.get("avx2") else 16
    registers = 32 if wide or platform.machine().lower() in ("aarch64", "arm64") else 16
    threads = knobs.MOROK_THREADS.get() or usable_cores()
    return Target("CPU", llvm.get_default_triple(), llvm.get_host_cpu_name(), features.flatten(), vector, registers, threads,
                  cache_size(1, 32 << 10), cache_size(2, 512 << 10), cache_size(3, 16 << 20))


class CpuDevice(Device):
    """The processor itself."""
    name = "CPU"

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self.target = host_target()
        self._machine = llvm.Target.from_triple(self.target.triple).create_target_machine(
            cpu=self.target.cpu, features=self.target.features, opt=3, jit=True, reloc="pic")
        self._jit = llvm.create_lljit_compiler(self._machine)
        self._lock = threading.RLock()
        self._libraries = itertools.count()
        self._pool: Pool | None = None
        self._alone = threading.local()
        os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Workers do not survive a fork: the child starts its own team at its first threaded kernel."""
        self._pool, self._lock, self._alone = None, threading.RLock(), threading.local()

    # ---- code ------------------------------------------------------------------------------------------
    def _optimized(self, program: Program) -> llvm.ModuleRef:
        try:
            module = llvm.parse_assembly(program.source)
            module.verify()
        except RuntimeError as e:
            raise CompileError(f"LLVM refused the code of kernel {program.name}: {e}", program.source) from None
        passes = llvm.create_new_module_pass_manager()
        for p in PASSES:
            getattr(passes, f"add_{p}_pass")()
        passes.run(module, llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options()))
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
            builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(entry)
            library = builder.link(self._jit, f"{entry}_{next(self._libraries)}")
            return Loaded(int(library[entry]), library)

    # ---- memory and launches -----------------------------------------------------------------------------
    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        return Buffer.empty(prod(shape), dtype)

    def run(self, address: int, args: list[int], chunks: int, scratch: int) -> None:
        table = (ctypes.c_void_p * len(args))(*args)
        if chunks > 1 and self.target.threads > 1:
            pool = self.pool()
            if pool.owner.acquire(blocking=False):
                try:
                    pool.launch(address, ctypes.addressof(table), chunks, min(chunks, PARTS * self.target.threads), scratch)
                    return
                finally:
                    pool.owner.release()
        if not hasattr(self._alone, "scratch"):
            self._alone.scratch = Scratch()
        _ENTRY(address)(ctypes.addressof(table), 0, chunks, self._alone.scratch.grow(scratch))

    def pool(self) -> Pool:
        """The team, started at its first use."""
        with self._lock:
            if self._pool is None:
                code = self.compile(Program("pool", "launch", source(platform.machine())))
                name = f"lib_pool_{os.getpid()}_{id(self)}"
                builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
                for symbol in ("launch", "start", "halt"):
                    builder = builder.export_symbol(symbol)
                self._team_code = library = builder.link(self._jit, name)
                self._pool = Pool(self.target.threads, lambda s: int(library[s]))
            return self._pool
