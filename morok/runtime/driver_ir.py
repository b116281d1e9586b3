"""The driver of plans as LLVM IR: one call runs all kernels of a plan, and is a function of Python's own kind (METH_FASTCALL).

A plan is a table of steps and a table of addresses. A run takes the plan (one at a time: others wait, without the lock of the interpreter), writes the
addresses of this run's memory into the table, and walks the steps. Long plans drop the lock of the interpreter and look for signals every 20 ms.
"""
from __future__ import annotations

from string import Template

from .pool_ir import LAYOUT, SIGNALS

PLAN = {                         # words of a plan: what it is made of, then the state of its run; `plan.py` fills them in
    "POOL": 0, "STEPS": 8, "COUNT": 16, "TABLE": 24, "FLAGS": 32, "SLOTS": 40, "PLACES": 48, "PLACE": 56, "BUSY": 64, "BOUND": 72, "TIMES": 80, "OWNER": 88}
PLAN_WORDS = 12
STEP_WORDS = 5                   # function; offset of its arguments in the table, in bytes; extent; parts for the team; 1: long enough to look for signals
TEAM, FREE, POLL, WAKE = 1, 2, 4, 8      # flags of a plan: runs on the team; drops the lock of the interpreter; looks for signals; wakes the team for it
INTERVAL = 20_000_000            # nanoseconds between looks for signals
CAPSULE = b"morok.plan"
FROM_PYTHON = ("PyCapsule_GetPointer", "PyErr_CheckSignals", "PyErr_SetString", "PyEval_RestoreThread", "PyEval_SaveThread", "PyExc_RuntimeError",
               "PyExc_TypeError", "PyLong_AsLongLong", "PyThread_get_thread_ident", "Py_DecRef", "Py_IncRef", "_Py_NoneStruct")
MESSAGES = {"nested": "this plan is already running in this thread", "count": "execute() takes no address, or one a slot",
            "unbound": "this plan has not been given its memory yet"}


def driver_source() -> str:
    """Exports run (for ctypes), execute (for Python) and drop (a destructor of capsules). Goes with `pool_source` into one module."""
    names = PLAN | {f"P{k}": v for k, v in LAYOUT.items()} | SIGNALS
    messages = "\n".join(f'@{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"' for name, text in MESSAGES.items())
    return TEXT.substitute(names, MESSAGES=messages, TEAM=TEAM, FREE=FREE, POLLS=POLL, WAKE=WAKE, INTERVAL=INTERVAL, CAPSULE=CAPSULE.decode(),
                           LENGTH=len(CAPSULE) + 1, STEP=8 * STEP_WORDS)


TEXT = Template("""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_SetString(ptr, ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @usleep(i32)
@PyExc_RuntimeError = external global ptr
@PyExc_TypeError = external global ptr
@_Py_NoneStruct = external global i8
@name = private constant [$LENGTH x i8] c"$CAPSULE\\00"
$MESSAGES

define internal i64 @now() {
  %t = alloca [2 x i64], align 16
  %1 = call i32 @clock_gettime(i32 $CLOCK, ptr %t)
  %s = load i64, ptr %t
  %p = getelementptr i8, ptr %t, i64 8
  %n = load i64, ptr %p
  %b = mul i64 %s, 1000000000
  %r = add i64 %b, %n
  ret i64 %r
}

; clock: { time of the last look, state of the thread if the lock of the interpreter is dropped }. Not 0: a signal handler has raised.
define internal i32 @poll(ptr %clock) {
entry:
  %last = load i64, ptr %clock
  %now = call i64 @now()
  %dt = sub i64 %now, %last
  %due = icmp ugt i64 %dt, $INTERVAL
  br i1 %due, label %look, label %no
look:
  store i64 %now, ptr %clock
  %pts = getelementptr i8, ptr %clock, i64 8
  %ts = load ptr, ptr %pts
  %free = icmp ne ptr %ts, null
  br i1 %free, label %take, label %held
take:
  call void @PyEval_RestoreThread(ptr %ts)
  %a = call i32 @PyErr_CheckSignals()
  %ts2 = call ptr @PyEval_SaveThread()
  store ptr %ts2, ptr %pts
  ret i32 %a
held:
  %b = call i32 @PyErr_CheckSignals()
  ret i32 %b
no:
  ret i32 0
}

; All steps. clock is null if nobody looks for signals.
define internal i32 @drive(ptr %plan, ptr %clock) {
entry:
  %ppool = getelementptr i8, ptr %plan, i64 $POOL
  %pool = load ptr, ptr %ppool
  %psteps = getelementptr i8, ptr %plan, i64 $STEPS
  %steps = load ptr, ptr %psteps
  %pn = getelementptr i8, ptr %plan, i64 $COUNT
  %n = load i64, ptr %pn
  %end = getelementptr [$STEP x i8], ptr %steps, i64 %n
  %ptable = getelementptr i8, ptr %plan, i64 $TABLE
  %table = load ptr, ptr %ptable
  %pplaces = getelementptr i8, ptr %plan, i64 $PLACES
  %places = load i64, ptr %pplaces
  %plast = getelementptr ptr, ptr %table, i64 %places
  %pscratch = getelementptr i8, ptr %plast, i64 -8                 ; the last address of the table: scratch for steps that run alone
  %scratch = load ptr, ptr %pscratch
  %ptimes = getelementptr i8, ptr %plan, i64 $TIMES
  %times = load ptr, ptr %ptimes
  %timed = icmp ne ptr %times, null
  %polls = icmp ne ptr %clock, null
  br i1 %timed, label %first, label %ready
first:
  %t0 = call i64 @now()
  store i64 %t0, ptr %times
  br label %ready
ready:
  %pflags = getelementptr i8, ptr %plan, i64 $FLAGS
  %flags = load i64, ptr %pflags
  %f1 = and i64 %flags, $TEAM
  %wants = icmp ne i64 %f1, 0
  br i1 %wants, label %weigh, label %loop
weigh:                                   ; a short plan uses the team if it is awake, and does not wake it
  %f8 = and i64 %flags, $WAKE
  %worth = icmp ne i64 %f8, 0
  %pasleep = getelementptr i8, ptr %pool, i64 $PASLEEP
  %sleepers = load atomic i32, ptr %pasleep monotonic, align 4
  %pthere = getelementptr i8, ptr %pool, i64 $PWORKERS
  %there = load atomic i64, ptr %pthere monotonic, align 8
  %awake = icmp eq i32 %sleepers, 0
  %some = icmp ne i64 %there, 0
  %ready2 = and i1 %awake, %some
  %use = or i1 %worth, %ready2
  br i1 %use, label %ask, label %loop
ask:                                     ; the team has one owner; who comes second runs the plan alone
  %lock = getelementptr i8, ptr %pool, i64 $PLOCK
  %x = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %x, 1
  br i1 %got, label %own, label %loop
own:
  %pw = getelementptr i8, ptr %pool, i64 $PWANTED
  %wanted = load atomic i64, ptr %pw seq_cst, align 8
  %pworkers = getelementptr i8, ptr %pool, i64 $PWORKERS
  %workers = load atomic i64, ptr %pworkers seq_cst, align 8
  %missing = icmp ne i64 %wanted, %workers
  br i1 %missing, label %begin, label %loop
begin:
  call void @start(ptr %pool)
  br label %loop
loop:
  %team = phi i1 [false, %ready], [false, %weigh], [false, %ask], [true, %own], [true, %begin], [%team, %next]
  %s = phi ptr [%steps, %ready], [%steps, %weigh], [%steps, %ask], [%steps, %own], [%steps, %begin], [%s1, %next]
  %pt = phi ptr [%times, %ready], [%times, %weigh], [%times, %ask], [%times, %own], [%times, %begin], [%pt1, %next]
  %fin = icmp eq ptr %s, %end
  br i1 %fin, label %out, label %step
step:
  %fn = load ptr, ptr %s
  %poff = getelementptr i8, ptr %s, i64 8
  %off = load i64, ptr %poff
  %args = getelementptr i8, ptr %table, i64 %off
  %pext = getelementptr i8, ptr %s, i64 16
  %extent = load i64, ptr %pext
  %pparts = getelementptr i8, ptr %s, i64 24
  %parts = load i64, ptr %pparts
  %many = icmp ne i64 %parts, 1
  br i1 %many, label %split, label %serial
serial:
  call void %fn(ptr %args, i64 0, i64 %extent, ptr %scratch)
  %plong = getelementptr i8, ptr %s, i64 32
  %long = load i64, ptr %plong
  %longer = icmp ne i64 %long, 0
  %asks = and i1 %longer, %polls
  br i1 %asks, label %look, label %after
look:
  %p = call i32 @poll(ptr %clock)
  %stop = icmp ne i32 %p, 0
  br i1 %stop, label %out, label %after
split:
  br i1 %team, label %together, label %alone
together:
  %q = call i32 @launch(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %parts, ptr %clock)
  %stop2 = icmp ne i32 %q, 0
  br i1 %stop2, label %out, label %after
alone:
  br i1 %polls, label %part, label %whole
whole:
  call void %fn(ptr %args, i64 0, i64 %extent, ptr %scratch)
  br label %after
part:
  %k = phi i64 [0, %alone], [%k1, %go]
  %k1 = add i64 %k, 1
  %a = mul i64 %k, %extent
  %from = udiv i64 %a, %parts
  %b = mul i64 %k1, %extent
  %to = udiv i64 %b, %parts
  call void %fn(ptr %args, i64 %from, i64 %to, ptr %scratch)
  %r = call i32 @poll(ptr %clock)
  %stop3 = icmp ne i32 %r, 0
  br i1 %stop3, label %out, label %go
go:
  %more = icmp ult i64 %k1, %parts
  br i1 %more, label %part, label %after
after:
  br i1 %timed, label %note, label %next
note:
  %pt2 = getelementptr i8, ptr %pt, i64 8
  %t = call i64 @now()
  store i64 %t, ptr %pt2
  br label %next
next:
  %pt1 = phi ptr [%pt, %after], [%pt2, %note]
  %s1 = getelementptr i8, ptr %s, i64 $STEP
  br label %loop
out:
  %rc = phi i32 [0, %loop], [-1, %look], [-1, %together], [-1, %part]
  br i1 %team, label %release, label %ret
release:
  %lock2 = getelementptr i8, ptr %pool, i64 $PLOCK
  store atomic i32 0, ptr %lock2 release, align 4
  br label %ret
ret:
  ret i32 %rc
}

; One run. bases: the addresses of its memory, one a slot; n: how many there are, or 0 to run on those of the last run. Not 0: an exception is set.
define i32 @run(ptr %plan, ptr %bases, i64 %n) {
entry:
  %clock = alloca [2 x i64], align 16
  %busy = getelementptr i8, ptr %plan, i64 $BUSY
  %me = call i64 @PyThread_get_thread_ident()
  %x = cmpxchg ptr %busy, i64 0, i64 %me acquire monotonic
  %got = extractvalue { i64, i1 } %x, 1
  br i1 %got, label %mine, label %taken
taken:
  %who = extractvalue { i64, i1 } %x, 0
  %self = icmp eq i64 %who, %me
  br i1 %self, label %again, label %wait
again:
  %e1 = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %e1, ptr @nested)
  ret i32 -1
wait:                                     ; another thread runs this plan
  %i = phi i64 [0, %taken], [%i1, %doze], [%i1, %woke]
  %ts = call ptr @PyEval_SaveThread()
  %y = call i32 @sched_yield()
  br label %try
try:
  %x2 = cmpxchg ptr %busy, i64 0, i64 %me acquire monotonic
  %got2 = extractvalue { i64, i1 } %x2, 1
  br i1 %got2, label %have, label %rest
have:
  call void @PyEval_RestoreThread(ptr %ts)
  br label %mine
rest:
  %i1 = add i64 %i, 1
  %tired = icmp ugt i64 %i1, 100
  br i1 %tired, label %nap, label %doze
doze:
  call void @PyEval_RestoreThread(ptr %ts)
  br label %wait
nap:
  %z = call i32 @usleep(i32 100)
  call void @PyEval_RestoreThread(ptr %ts)
  %sig = call i32 @PyErr_CheckSignals()
  %raised = icmp ne i32 %sig, 0
  br i1 %raised, label %bad, label %woke
woke:
  br label %wait
bad:
  ret i32 -1
mine:
  %pbound = getelementptr i8, ptr %plan, i64 $BOUND
  %ptable = getelementptr i8, ptr %plan, i64 $TABLE
  %table = load ptr, ptr %ptable
  %pplaces = getelementptr i8, ptr %plan, i64 $PLACES
  %places = load i64, ptr %pplaces
  %pplace = getelementptr i8, ptr %plan, i64 $PLACE
  %place = load ptr, ptr %pplace
  %none = icmp eq i64 %n, 0
  br i1 %none, label %check, label %size
size:
  %pslots = getelementptr i8, ptr %plan, i64 $SLOTS
  %slots = load i64, ptr %pslots
  %fits = icmp eq i64 %slots, %n
  br i1 %fits, label %patch, label %wrong
wrong:
  %e2 = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %e2, ptr @count)
  br label %fail
patch:
  %j = phi i64 [0, %size], [%j1, %patch]
  %pj = getelementptr [16 x i8], ptr %place, i64 %j
  %slot = load i64, ptr %pj
  %pjo = getelementptr i8, ptr %pj, i64 8
  %offset = load i64, ptr %pjo
  %pb = getelementptr i64, ptr %bases, i64 %slot
  %base = load i64, ptr %pb
  %address = add i64 %base, %offset
  %dst = getelementptr i64, ptr %table, i64 %j
  store i64 %address, ptr %dst
  %j1 = add i64 %j, 1
  %last = icmp eq i64 %j1, %places
  br i1 %last, label %patched, label %patch
patched:
  store i64 1, ptr %pbound
  br label %go
check:
  %bound = load i64, ptr %pbound
  %ok = icmp ne i64 %bound, 0
  br i1 %ok, label %go, label %blank
blank:
  %e3 = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %e3, ptr @unbound)
  br label %fail
go:
  %pflags = getelementptr i8, ptr %plan, i64 $FLAGS
  %flags = load i64, ptr %pflags
  %pts = getelementptr i8, ptr %clock, i64 8
  store ptr null, ptr %pts
  %f4 = and i64 %flags, $POLLS
  %polls = icmp ne i64 %f4, 0
  br i1 %polls, label %arm, label %mode
arm:
  %now = call i64 @now()
  store i64 %now, ptr %clock
  br label %mode
mode:
  %watch = phi ptr [null, %go], [%clock, %arm]
  %f2 = and i64 %flags, $FREE
  %frees = icmp ne i64 %f2, 0
  br i1 %frees, label %free, label %held
held:
  %r1 = call i32 @drive(ptr %plan, ptr %watch)
  br label %done
free:
  %st = call ptr @PyEval_SaveThread()
  store ptr %st, ptr %pts
  %r2 = call i32 @drive(ptr %plan, ptr %watch)
  %st2 = load ptr, ptr %pts
  call void @PyEval_RestoreThread(ptr %st2)
  br label %done
fail:
  br label %done
done:
  %r = phi i32 [%r1, %held], [%r2, %free], [-1, %fail]
  store atomic i64 0, ptr %busy release, align 8
  ret i32 %r
}

; execute(*addresses) → None; self is the capsule of the plan
define ptr @execute(ptr %self, ptr %args, i64 %n) {
entry:
  %bases = alloca i64, i64 %n, align 16
  %plan = call ptr @PyCapsule_GetPointer(ptr %self, ptr @name)
  %bad = icmp eq ptr %plan, null
  br i1 %bad, label %err, label %next
next:
  %i = phi i64 [0, %entry], [%i1, %in]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %arg, label %go
arg:
  %pa = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %pa
  %v = call i64 @PyLong_AsLongLong(ptr %a)
  %odd = icmp eq i64 %v, -1                ; no address, and the sign of an exception
  br i1 %odd, label %err, label %in
in:
  %pb = getelementptr i64, ptr %bases, i64 %i
  store i64 %v, ptr %pb
  %i1 = add i64 %i, 1
  br label %next
go:
  %r = call i32 @run(ptr %plan, ptr %bases, i64 %n)
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %err, label %good
good:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
err:
  ret ptr null
}

; the capsule of a plan dies: let go of the objects that its memory and its code belong to
define void @drop(ptr %capsule) {
  %plan = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @name)
  %powner = getelementptr i8, ptr %plan, i64 $OWNER
  %owner = load ptr, ptr %powner
  call void @Py_DecRef(ptr %owner)
  ret void
}
""")
