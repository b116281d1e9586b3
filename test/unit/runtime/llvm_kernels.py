"""Small kernels in LLVM IR, written by hand, for tests of the runtime."""
from morok.program import Program

# a loop over the chunks that a kernel was given; BODY does one, at address %at of args[0]
LOOP = """
define void @NAME(ptr %args, i64 %start, i64 %end, ptr %scratch) {
entry:
  %p = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %at = getelementptr i64, ptr %p, i64 %i
BODY
  %next = add i64 %i, 1
  br label %loop
out:
  ret void
}
"""


def over_chunks(name, body):
    return LOOP.replace("NAME", name).replace("BODY", body)


ADD_ONE = over_chunks("add_one", """
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at""")
# each element of args[0] becomes the address of the scratch memory that its thread had; the scratch is written to its last byte
SCRATCH = over_chunks("where", """
  call void @llvm.memset.p0.i64(ptr %scratch, i8 7, i64 100000, i1 false)
  %addr = ptrtoint ptr %scratch to i64
  store i64 %addr, ptr %at""") + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
# args[0]: 4 doubles in and out; what LLVM may make calls of: remainder, rounding, copies
CALLS = """
define void @calls(ptr %args, i64 %start, i64 %end, ptr %scratch) {
  %p = load ptr, ptr %args
  %x = load double, ptr %p
  %r = frem double %x, 3.0
  %p1 = getelementptr double, ptr %p, i64 1
  store double %r, ptr %p1
  %e = call double @llvm.roundeven.f64(double %x)
  %p2 = getelementptr double, ptr %p, i64 2
  store double %e, ptr %p2
  %f = fptrunc double %x to float
  %fr = frem float %f, 2.0
  %d = fpext float %fr to double
  %p3 = getelementptr double, ptr %p, i64 3
  store double %d, ptr %p3
  call void @llvm.memcpy.p0.p0.i64(ptr %scratch, ptr %p, i64 4000, i1 false)
  ret void
}
declare double @llvm.roundeven.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
add_one = Program("add_one", "add_one", ADD_ONE)
where = Program("where", "where", SCRATCH, scratch=100000)
calls = Program("calls", "calls", CALLS, scratch=4000)


def load(device, program):
    """The machine code of a program; it lives as long as the result."""
    return device.load(device.compile(program), program.entry)
