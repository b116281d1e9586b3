"""The thread team as LLVM IR; `pool.py` holds its other half, and the driver of plans in `driver_ir.py` launches on it.

A claim is `remaining -= 1`: a positive old value owns one chunk of whatever kernel is current. A kernel is not over before its owners have posted to
`pending`, so a late claim is valid or harmless. Sleeping is Dekker's protocol: the worker announces itself in `asleep` and looks at `seq` once more; the
launcher moves `seq` and then looks at `asleep`. Who starts the workers announces it in `starting` and then looks at `wanted`; who stops them clears
`wanted` and then waits for `starting`.
"""
from __future__ import annotations

import os
import signal
import sys
from string import Template

MOST_WORKERS = 255
LAYOUT = {                       # offsets into the team's state; each word that several threads write has 128 bytes for itself
    "REMAINING": 0, "PENDING": 128, "SEQ": 256, "ASLEEP": 384, "STOP": 512,
    "FN": 640, "ARGS": 648, "EXTENT": 656, "CHUNKS": 664, "SPIN": 672,           # the kernel; the polls of an idle worker before it sleeps
    "CANCEL": 680, "WANTED": 688, "WORKERS": 696, "STARTING": 704, "NUMBER": 712,      # chunks are skipped; workers that should be and that are
    "AVOIDED": 720,                                                              # 1 + the processor that the workers have to leave to the caller
    "LOCK": 768, "MUTEX": 896, "COND": 1024,                                     # 1: someone owns the team; a pthread_mutex_t and a pthread_cond_t
    "ALLOWED": 1152,                                                             # a cpu_set_t: where the process may run
    "THREADS": 1280, "SCRATCH": 1280 + 8 * (MOST_WORKERS + 1)}                   # a pthread_t a worker; an address a thread, the caller's first
CPU_SET = 128                    # bytes of a cpu_set_t
SIZE = LAYOUT["SCRATCH"] + 8 * (MOST_WORKERS + 1)
PAUSE = {"x86_64": "pause", "amd64": "pause", "aarch64": "isb", "arm64": "isb"}
SIGNALS = {"BLOCK": int(getattr(signal, "SIG_BLOCK", 0)), "SETMASK": int(getattr(signal, "SIG_SETMASK", 2)), "CLOCK": 6 if sys.platform == "darwin" else 1}


def pool_source(machine: str) -> str:
    """The text for a processor, by the name that `platform.machine()` has for it. Exports launch and halt."""
    code = PAUSE.get(machine.lower())
    pause = f'call void asm sideeffect "{code}", "~{{memory}}"()' if code else "fence seq_cst"
    away = AWAY if hasattr(os, "sched_setaffinity") else "define internal void @send_away(ptr %pool) {\n  ret void\n}\n"
    return TEXT.substitute(LAYOUT | SIGNALS, PAUSE=pause) + Template(away).substitute(LAYOUT, CPU_SET=CPU_SET)


TEXT = Template("""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

; Claim and run chunks until none is left. The caller of the kernel (who 0) looks at signals between its chunks; an interrupt cancels the rest.
define internal i32 @drain(ptr %pool, i64 %who, ptr %clock) {
entry:
  %rem = getelementptr i8, ptr %pool, i64 $REMAINING
  %pend = getelementptr i8, ptr %pool, i64 $PENDING
  %pfn = getelementptr i8, ptr %pool, i64 $FN
  %pargs = getelementptr i8, ptr %pool, i64 $ARGS
  %pext = getelementptr i8, ptr %pool, i64 $EXTENT
  %pn = getelementptr i8, ptr %pool, i64 $CHUNKS
  %pcancel = getelementptr i8, ptr %pool, i64 $CANCEL
  %tab = getelementptr i8, ptr %pool, i64 $SCRATCH
  %slot = getelementptr ptr, ptr %tab, i64 %who
  %polls = icmp ne ptr %clock, null
  br label %claim
claim:
  %bad = phi i32 [0, %entry], [%worse, %ran]
  %r = atomicrmw sub ptr %rem, i64 1 acq_rel
  %mine = icmp sgt i64 %r, 0
  br i1 %mine, label %run, label %out
run:
  %cancel = load atomic i64, ptr %pcancel monotonic, align 8
  %go = icmp eq i64 %cancel, 0
  br i1 %go, label %work, label %ran
work:
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
  br i1 %polls, label %look, label %ran
look:
  %p = call i32 @poll(ptr %clock)
  %stop = icmp ne i32 %p, 0
  br i1 %stop, label %give, label %ran
give:
  store atomic i64 1, ptr %pcancel monotonic, align 8
  br label %ran
ran:
  %worse = phi i32 [%bad, %run], [%bad, %work], [%bad, %look], [%p, %give]
  %left = atomicrmw sub ptr %pend, i64 1 acq_rel
  br label %claim
out:
  ret i32 %bad
}

; One kernel on the team; the caller owns it. Not 0: a signal handler has raised.
define internal i32 @launch(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %chunks, ptr %clock) {
entry:
  %rem = getelementptr i8, ptr %pool, i64 $REMAINING
  %pend = getelementptr i8, ptr %pool, i64 $PENDING
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %asleep = getelementptr i8, ptr %pool, i64 $ASLEEP
  %pfn = getelementptr i8, ptr %pool, i64 $FN
  %pargs = getelementptr i8, ptr %pool, i64 $ARGS
  %pext = getelementptr i8, ptr %pool, i64 $EXTENT
  %pn = getelementptr i8, ptr %pool, i64 $CHUNKS
  %pcancel = getelementptr i8, ptr %pool, i64 $CANCEL
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  store ptr %fn, ptr %pfn
  store ptr %args, ptr %pargs
  store i64 %extent, ptr %pext
  store i64 %chunks, ptr %pn
  store atomic i64 0, ptr %pcancel monotonic, align 8
  store atomic i64 %chunks, ptr %pend seq_cst, align 8
  store atomic i64 %chunks, ptr %rem seq_cst, align 8
  %old = atomicrmw add ptr %seq, i32 1 seq_cst
  %sl = load atomic i32, ptr %asleep seq_cst, align 4
  %any = icmp ne i32 %sl, 0
  br i1 %any, label %wake, label %work
wake:
  call void @send_away(ptr %pool)
  %1 = call i32 @pthread_mutex_lock(ptr %m)
  %2 = call i32 @pthread_cond_broadcast(ptr %c)
  %3 = call i32 @pthread_mutex_unlock(ptr %m)
  br label %work
work:
  %bad = call i32 @drain(ptr %pool, i64 0, ptr %clock)
  br label %wait
wait:
  %i = phi i32 [0, %work], [%i1, %again]
  %left = load atomic i64, ptr %pend acquire, align 8
  %fin = icmp eq i64 %left, 0
  br i1 %fin, label %out, label %more
more:
  $PAUSE
  %i1 = add i32 %i, 1
  %long = icmp ugt i32 %i1, 4000
  br i1 %long, label %give, label %again
give:
  %4 = call i32 @sched_yield()
  br label %again
again:
  br label %wait
out:
  ret i32 %bad
}

define internal ptr @worker(ptr %pool) {
entry:
  %pnumber = getelementptr i8, ptr %pool, i64 $NUMBER
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %asleep = getelementptr i8, ptr %pool, i64 $ASLEEP
  %stop = getelementptr i8, ptr %pool, i64 $STOP
  %pspin = getelementptr i8, ptr %pool, i64 $SPIN
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  %before = atomicrmw add ptr %pnumber, i64 1 seq_cst
  %id = add i64 %before, 1
  br label %loop
loop:
  %seen = load atomic i32, ptr %seq seq_cst, align 4
  %0 = call i32 @drain(ptr %pool, i64 %id, ptr null)
  %st = load atomic i32, ptr %stop seq_cst, align 4          ; set before seq moves: a worker that has seen the move sees it too
  %halt = icmp ne i32 %st, 0
  br i1 %halt, label %out, label %rest
rest:
  %turns = load i32, ptr %pspin
  br label %spin
spin:
  %i = phi i32 [0, %rest], [%i1, %idle]
  %now = load atomic i32, ptr %seq acquire, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %loop, label %idle
idle:
  $PAUSE
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
  br label %loop
out:
  ret ptr null
}

; Start the workers that are wanted, with all signals blocked, so that these reach the threads of Python. The caller owns the team.
define internal void @start(ptr %pool) {
entry:
  %all = alloca [32 x i64], align 16
  %old = alloca [32 x i64], align 16
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  %th = getelementptr i8, ptr %pool, i64 $THREADS
  %pw = getelementptr i8, ptr %pool, i64 $WANTED
  %pworkers = getelementptr i8, ptr %pool, i64 $WORKERS
  %starting = getelementptr i8, ptr %pool, i64 $STARTING
  store atomic i64 1, ptr %starting seq_cst, align 8
  %n = load atomic i64, ptr %pw seq_cst, align 8
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %init
init:
  %1 = call i32 @pthread_mutex_init(ptr %m, ptr null)
  %2 = call i32 @pthread_cond_init(ptr %c, ptr null)
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 256, i1 false)
  %3 = call i32 @pthread_sigmask(i32 $BLOCK, ptr %all, ptr %old)
  br label %loop
loop:
  %i = phi i64 [0, %init], [%i1, %made]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %make, label %done
make:
  %t = getelementptr ptr, ptr %th, i64 %i
  %rc = call i32 @pthread_create(ptr %t, ptr null, ptr @worker, ptr %pool)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %done
made:
  %i1 = add i64 %i, 1
  br label %loop
done:
  %4 = call i32 @pthread_sigmask(i32 $SETMASK, ptr %old, ptr null)
  store atomic i64 %i, ptr %pworkers seq_cst, align 8
  %5 = cmpxchg ptr %pw, i64 %n, i64 %i seq_cst seq_cst        ; fewer than wanted: not tried again
  br label %out
out:
  store atomic i64 0, ptr %starting seq_cst, align 8
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @halt(ptr %pool) {
entry:
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %stop = getelementptr i8, ptr %pool, i64 $STOP
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  %th = getelementptr i8, ptr %pool, i64 $THREADS
  %pw = getelementptr i8, ptr %pool, i64 $WANTED
  %pworkers = getelementptr i8, ptr %pool, i64 $WORKERS
  %starting = getelementptr i8, ptr %pool, i64 $STARTING
  store atomic i64 0, ptr %pw seq_cst, align 8
  br label %wait
wait:
  %busy = load atomic i64, ptr %starting seq_cst, align 8
  %idle = icmp eq i64 %busy, 0
  br i1 %idle, label %tell, label %pause
pause:
  %0 = call i32 @sched_yield()
  br label %wait
tell:
  %n = load atomic i64, ptr %pworkers seq_cst, align 8
  %none = icmp eq i64 %n, 0
  br i1 %none, label %out, label %end
end:
  store atomic i32 1, ptr %stop seq_cst, align 4
  %old = atomicrmw add ptr %seq, i32 1 seq_cst
  %1 = call i32 @pthread_mutex_lock(ptr %m)
  %2 = call i32 @pthread_cond_broadcast(ptr %c)
  %3 = call i32 @pthread_mutex_unlock(ptr %m)
  br label %loop
loop:
  %i = phi i64 [0, %end], [%i1, %join]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %join, label %gone
join:
  %t = getelementptr ptr, ptr %th, i64 %i
  %h = load ptr, ptr %t
  %4 = call i32 @pthread_join(ptr %h, ptr null)
  %i1 = add i64 %i, 1
  br label %loop
gone:
  store atomic i64 0, ptr %pworkers seq_cst, align 8
  br label %out
out:
  ret void
}
""")

# A worker that is woken tends to land on the processor of who wakes it, and waits there for the caller to finish, often for milliseconds.
AWAY = """
declare i32 @sched_getcpu()
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)
define internal void @send_away(ptr %pool) {
entry:
  %set = alloca [$CPU_SET x i8], align 16
  %cpu = call i32 @sched_getcpu()
  %mark = add i32 %cpu, 1
  %pavoid = getelementptr i8, ptr %pool, i64 $AVOIDED
  %before = load i32, ptr %pavoid
  %same = icmp eq i32 %before, %mark
  %wild = icmp ugt i32 %cpu, 1023
  %skip = or i1 %same, %wild
  br i1 %skip, label %out, label %move
move:
  store i32 %mark, ptr %pavoid
  %allowed = getelementptr i8, ptr %pool, i64 $ALLOWED
  call void @llvm.memcpy.p0.p0.i64(ptr %set, ptr %allowed, i64 $CPU_SET, i1 false)
  %byte = lshr i32 %cpu, 3
  %place = getelementptr i8, ptr %set, i32 %byte
  %low = and i32 %cpu, 7
  %low8 = trunc i32 %low to i8
  %bit = shl i8 1, %low8
  %others = xor i8 %bit, -1
  %old = load i8, ptr %place
  %new = and i8 %old, %others
  store i8 %new, ptr %place
  %pworkers = getelementptr i8, ptr %pool, i64 $WORKERS
  %n = load i64, ptr %pworkers
  %th = getelementptr i8, ptr %pool, i64 $THREADS
  br label %loop
loop:
  %i = phi i64 [0, %move], [%i1, %one]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %out
one:
  %t = getelementptr ptr, ptr %th, i64 %i
  %h = load ptr, ptr %t
  %1 = call i32 @pthread_setaffinity_np(ptr %h, i64 $CPU_SET, ptr %set)      ; fails if nothing is left, and then nothing changes
  %i1 = add i64 %i, 1
  br label %loop
out:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
