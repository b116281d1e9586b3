"""The thread team as LLVM IR, compiled at its first use; `pool.py` holds its other half.

A claim is `remaining -= 1`: a positive old value owns one chunk of whatever kernel is current. A kernel is not over before its owners have posted to
`pending`, so a late claim is valid or harmless. Sleeping is Dekker's protocol: the worker announces itself in `asleep` and looks at `seq` once more; the
launcher moves `seq` and then looks at `asleep`.
"""
from __future__ import annotations

from string import Template

MOST_WORKERS = 255
LAYOUT = {                       # offsets into the team's state; each word that several threads write has 128 bytes for itself
    "REMAINING": 0, "PENDING": 128, "SEQ": 256, "ASLEEP": 384, "STOP": 512,
    "FN": 640, "ARGS": 648, "EXTENT": 656, "CHUNKS": 664, "SPIN": 672,           # the kernel; the polls of an idle worker before it sleeps
    "MUTEX": 768, "COND": 896,                                                   # a pthread_mutex_t and a pthread_cond_t
    "THREADS": 1024, "SCRATCH": 1024 + 8 * (MOST_WORKERS + 1)}                   # a pthread_t a worker; an address a thread, the caller's first
SIZE = LAYOUT["SCRATCH"] + 8 * (MOST_WORKERS + 1)
PAUSE = {"x86_64": "pause", "amd64": "pause", "aarch64": "isb", "arm64": "isb"}


def pool_source(machine: str) -> str:
    """The text for a processor, by the name that `platform.machine()` has for it. Exports start, launch and halt."""
    code = PAUSE.get(machine.lower())
    pause = f'call void asm sideeffect "{code}", "~{{memory}}"()' if code else "fence seq_cst"
    return TEXT.substitute(LAYOUT, PAUSE=pause)


TEXT = Template("""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @drain(ptr %pool, i64 %who) {
entry:
  %rem = getelementptr i8, ptr %pool, i64 $REMAINING
  %pend = getelementptr i8, ptr %pool, i64 $PENDING
  %pfn = getelementptr i8, ptr %pool, i64 $FN
  %pargs = getelementptr i8, ptr %pool, i64 $ARGS
  %pext = getelementptr i8, ptr %pool, i64 $EXTENT
  %pn = getelementptr i8, ptr %pool, i64 $CHUNKS
  %tab = getelementptr i8, ptr %pool, i64 $SCRATCH
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
}

define void @launch(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %chunks) {
entry:
  %rem = getelementptr i8, ptr %pool, i64 $REMAINING
  %pend = getelementptr i8, ptr %pool, i64 $PENDING
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %asleep = getelementptr i8, ptr %pool, i64 $ASLEEP
  %pfn = getelementptr i8, ptr %pool, i64 $FN
  %pargs = getelementptr i8, ptr %pool, i64 $ARGS
  %pext = getelementptr i8, ptr %pool, i64 $EXTENT
  %pn = getelementptr i8, ptr %pool, i64 $CHUNKS
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
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
  ret void
}

define ptr @worker(ptr %arg) {
entry:
  %ppool = getelementptr ptr, ptr %arg, i64 0
  %pool = load ptr, ptr %ppool
  %pid = getelementptr ptr, ptr %arg, i64 1
  %id = load i64, ptr %pid
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %asleep = getelementptr i8, ptr %pool, i64 $ASLEEP
  %stop = getelementptr i8, ptr %pool, i64 $STOP
  %pspin = getelementptr i8, ptr %pool, i64 $SPIN
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  br label %loop
loop:
  %seen = load atomic i32, ptr %seq seq_cst, align 4
  call void @drain(ptr %pool, i64 %id)
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

define i64 @start(ptr %pool, i64 %n, ptr %records) {
entry:
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  %th = getelementptr i8, ptr %pool, i64 $THREADS
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
}

define void @halt(ptr %pool, i64 %n) {
entry:
  %seq = getelementptr i8, ptr %pool, i64 $SEQ
  %stop = getelementptr i8, ptr %pool, i64 $STOP
  %m = getelementptr i8, ptr %pool, i64 $MUTEX
  %c = getelementptr i8, ptr %pool, i64 $COND
  %th = getelementptr i8, ptr %pool, i64 $THREADS
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
}
""")
