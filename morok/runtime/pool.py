"""Worker threads in native code: chunks of a kernel are claimed from one counter, so that a slow core holds nobody up.

The pool is LLVM IR compiled at first use. Its state is a block of memory; every word that two threads write has 128 bytes for itself.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable

REMAINING, PENDING, SEQ, ASLEEP, STOP = 0, 128, 256, 384, 512
FN, ARGS, EXTENT, CHUNKS, SPIN = 640, 648, 656, 664, 672
MUTEX, COND, THREADS, SCRATCH, SIZE = 768, 896, 1024, 3072, 3072 + 8 * 257
MOST_WORKERS = 255
SPIN_TURNS = 20000               # polls of an idle worker before it sleeps: some tens of microseconds

_PAUSE = {"x86_64": "pause", "amd64": "pause", "aarch64": "isb", "arm64": "isb"}


def _at(name: str, offset: int) -> str:
    return f"%{name} = getelementptr i8, ptr %pool, i64 {offset}"


def source(machine: str) -> str:
    """The pool as LLVM IR. A claim is `remaining -= 1`: a positive old value owns one chunk of whatever kernel is current. A kernel is not over before
    its owners have posted to `pending`, so a late claim is valid or harmless. Sleeping is Dekker's protocol: the worker announces itself in `asleep` and
    looks at `seq` once more; the launcher moves `seq` and then looks at `asleep`."""
    code = _PAUSE.get(machine.lower())
    pause = f'call void asm sideeffect "{code}", "~{{memory}}"()' if code else "fence seq_cst"
    return f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @drain(ptr %pool, i64 %who) {{
entry:
  {_at("rem", REMAINING)}
  {_at("pend", PENDING)}
  {_at("pfn", FN)}
  {_at("pargs", ARGS)}
  {_at("pext", EXTENT)}
  {_at("pn", CHUNKS)}
  {_at("tab", SCRATCH)}
  %slot = getelementptr ptr, ptr %tab, i64 %who
  br label %claim
claim:
  %r = atomicrmw sub ptr %rem, i64 1 acq_rel
  %mine = icmp sgt i64 %r, 0
  br i1 %mine, label %run, label %out
run:
  %fn = load ptr, ptr %pfn
  %args = load ptr, ptr %pargs
  %ext = load i64, ptr %pext
  %n = load i64, ptr %pn
  %scratch = load ptr, ptr %slot
  %k = sub i64 %n, %r
  %k1 = add i64 %k, 1
  %a = mul i64 %k, %ext
  %start = udiv i64 %a, %n
  %b = mul i64 %k1, %ext
  %end = udiv i64 %b, %n
  call void %fn(ptr %args, i64 %start, i64 %end, ptr %scratch)
  %left = atomicrmw sub ptr %pend, i64 1 acq_rel
  br label %claim
out:
  ret void
}}

define void @launch(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %chunks) {{
entry:
  {_at("rem", REMAINING)}
  {_at("pend", PENDING)}
  {_at("seq", SEQ)}
  {_at("asleep", ASLEEP)}
  {_at("pfn", FN)}
  {_at("pargs", ARGS)}
  {_at("pext", EXTENT)}
  {_at("pn", CHUNKS)}
  {_at("m", MUTEX)}
  {_at("c", COND)}
  store ptr %fn, ptr %pfn
  store ptr %args, ptr %pargs
  store i64 %extent, ptr %pext
  store i64 %chunks, ptr %pn
  store atomic i64 %chunks, ptr %pend seq_cst, align 8
  store atomic i64 %chunks, ptr %rem seq_cst, align 8
  %old = atomicrmw add ptr %seq, i32 1 seq_cst
  %sl = load atomic i32, ptr %asleep seq_cst, align 4
  %any = icmp ne i32 %sl, 0
  br i1 %any, label %wake, label %work
wake:
  %1 = call i32 @pthread_mutex_lock(ptr %m)
  %2 = call i32 @pthread_cond_broadcast(ptr %c)
  %3 = call i32 @pthread_mutex_unlock(ptr %m)
  br label %work
work:
  call void @drain(ptr %pool, i64 0)
  br label %wait
wait:
  %i = phi i32 [0, %work], [%i1, %again]
  %left = load atomic i64, ptr %pend acquire, align 8
  %fin = icmp eq i64 %left, 0
  br i1 %fin, label %out, label %more
more:
  {pause}
  %i1 = add i32 %i, 1
  %long = icmp ugt i32 %i1, 4000
  br i1 %long, label %give, label %again
give:
  %4 = call i32 @sched_yield()
  br label %again
again:
  br label %wait
out:
  ret void
}}

define ptr @worker(ptr %arg) {{
entry:
  %ppool = getelementptr ptr, ptr %arg, i64 0
  %pool = load ptr, ptr %ppool
  %pid = getelementptr ptr, ptr %arg, i64 1
  %id = load i64, ptr %pid
  {_at("seq", SEQ)}
  {_at("asleep", ASLEEP)}
  {_at("stop", STOP)}
  {_at("pspin", SPIN)}
  {_at("m", MUTEX)}
  {_at("c", COND)}
  br label %loop
loop:
  %seen = load atomic i32, ptr %seq seq_cst, align 4
  call void @drain(ptr %pool, i64 %id)
  %turns = load i32, ptr %pspin
  br label %spin
spin:
  %i = phi i32 [0, %loop], [%i1, %idle]
  %now = load atomic i32, ptr %seq acquire, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %check, label %idle
idle:
  {pause}
  %i1 = add i32 %i, 1
  %tired = icmp uge i32 %i1, %turns
  br i1 %tired, label %lie, label %spin
lie:
  %1 = call i32 @pthread_mutex_lock(ptr %m)
  %2 = atomicrmw add ptr %asleep, i32 1 seq_cst
  br label %sleep
sleep:
  %s = load atomic i32, ptr %seq seq_cst, align 4
  %same = icmp eq i32 %s, %seen
  br i1 %same, label %nap, label %rise
nap:
  %3 = call i32 @pthread_cond_wait(ptr %c, ptr %m)
  br label %sleep
rise:
  %4 = atomicrmw sub ptr %asleep, i32 1 seq_cst
  %5 = call i32 @pthread_mutex_unlock(ptr %m)
  br label %check
check:
  %st = load atomic i32, ptr %stop acquire, align 4
  %halt = icmp ne i32 %st, 0
  br i1 %halt, label %out, label %loop
out:
  ret ptr null
}}

define i64 @start(ptr %pool, i64 %n, ptr %records) {{
entry:
  {_at("m", MUTEX)}
  {_at("c", COND)}
  {_at("th", THREADS)}
  %1 = call i32 @pthread_mutex_init(ptr %m, ptr null)
  %2 = call i32 @pthread_cond_init(ptr %c, ptr null)
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %made]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %make, label %out
make:
  %t = getelementptr ptr, ptr %th, i64 %i
  %rec = getelementptr [2 x ptr], ptr %records, i64 %i
  %rc = call i32 @pthread_create(ptr %t, ptr null, ptr @worker, ptr %rec)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %out
made:
  %i1 = add i64 %i, 1
  br label %loop
out:
  ret i64 %i
}}

define void @halt(ptr %pool, i64 %n) {{
entry:
  {_at("seq", SEQ)}
  {_at("stop", STOP)}
  {_at("m", MUTEX)}
  {_at("c", COND)}
  {_at("th", THREADS)}
  store atomic i32 1, ptr %stop seq_cst, align 4
  %old = atomicrmw add ptr %seq, i32 1 seq_cst
  %1 = call i32 @pthread_mutex_lock(ptr %m)
  %2 = call i32 @pthread_cond_broadcast(ptr %c)
  %3 = call i32 @pthread_mutex_unlock(ptr %m)
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %join]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %join, label %out
join:
  %t = getelementptr ptr, ptr %th, i64 %i
  %h = load ptr, ptr %t
  %4 = call i32 @pthread_join(ptr %h, ptr null)
  %i1 = add i64 %i, 1
  br label %loop
out:
  ret void
}}
"""


class Scratch:
    """64-byte aligned memory of one thread, grown on demand."""

    def __init__(self) -> None:
        self.size, self.address, self._memory = 0, 0, ctypes.create_string_buffer(0)

    def grow(self, size: int) -> int:
        """Address of at least `size` bytes; what was there before is lost."""
        if size > self.size:
            self._memory = ctypes.create_string_buffer(size + 64)
            self.size, self.address = size, -(-ctypes.addressof(self._memory) // 64) * 64
        return self.address


class Pool:
    """`threads - 1` workers and the calling thread. One caller owns the team at a time; others run their kernels alone."""

    def __init__(self, threads: int, symbol: Callable[[str], int]) -> None:
        self.workers = min(threads - 1, MOST_WORKERS)
        self._state = ctypes.create_string_buffer(SIZE + 128)
        self.base = -(-ctypes.addressof(self._state) // 128) * 128
        self.owner = threading.Lock()
        self.scratch = [Scratch() for _ in range(self.workers + 1)]
        self._records = (ctypes.c_void_p * (2 * max(self.workers, 1)))()
        for i in range(self.workers):
            self._records[2 * i], self._records[2 * i + 1] = self.base, i + 1
        ctypes.c_int32.from_address(self.base + SPIN).value = SPIN_TURNS
        word = ctypes.c_int64
        self._launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, word, word)(symbol("launch"))
        self._halt = ctypes.CFUNCTYPE(None, ctypes.c_void_p, word)(symbol("halt"))
        start = ctypes.CFUNCTYPE(word, ctypes.c_void_p, word, ctypes.c_void_p)(symbol("start"))
        self.workers = start(self.base, self.workers, ctypes.addressof(self._records))
        self._pid = os.getpid()
        atexit.register(self.stop)

    def launch(self, entry: int, args: int, extent: int, chunks: int, scratch: int) -> None:
        """Run [0, extent) of a kernel in `chunks` parts on the team. The caller holds `owner`."""
        for i, s in enumerate(self.scratch):
            ctypes.c_void_p.from_address(self.base + SCRATCH + 8 * i).value = s.grow(scratch)
        self._launch(self.base, entry, args, extent, chunks)

    def stop(self) -> None:
        """End the workers; only in the process that started them."""
        if self.workers and os.getpid() == self._pid:
            self._halt(self.base, self.workers)
            self.workers = 0
