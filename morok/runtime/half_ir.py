"""Conversions between float16 and float32 as LLVM IR, for processors without an instruction: LLVM calls these names, which no C library need have."""

HALF_NAMES = ("__extendhfsf2", "__truncsfhf2")
HALF = """
define float @__extendhfsf2(half %x) {
  %h = bitcast half %x to i16
  %bits = zext i16 %h to i32
  %sign = and i32 %bits, 32768
  %top = shl i32 %sign, 16
  %abs = and i32 %bits, 32767
  %moved = shl i32 %abs, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000       ; 2**112: the difference of the exponents' biases; exact, also for denormals
  %finite = bitcast float %scaled to i32
  %special = icmp uge i32 %abs, 31744
  %same = or i32 %moved, 2139095040                      ; infinities and NaNs keep their bits
  %value = select i1 %special, i32 %same, i32 %finite
  %all = or i32 %value, %top
  %r = bitcast i32 %all to float
  ret float %r
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %abs = and i32 %bits, 2147483647
  %odd = lshr i32 %abs, 13
  %last = and i32 %odd, 1
  %r0 = add i32 %abs, -939520001                         ; the bias moved, and half a unit less one added: ties go to even
  %r1 = add i32 %r0, %last
  %normal = lshr i32 %r1, 13
  %f = bitcast i32 %abs to float
  %g = fadd float %f, 0.5                                ; the unit of 0.5 is that of the denormals
  %gbits = bitcast float %g to i32
  %denormal = sub i32 %gbits, 1056964608
  %is_denormal = icmp ult i32 %abs, 947912704
  %v0 = select i1 %is_denormal, i32 %denormal, i32 %normal
  %is_large = icmp uge i32 %abs, 1199566848              ; 65520 and above
  %v1 = select i1 %is_large, i32 31744, i32 %v0
  %is_nan = icmp ugt i32 %abs, 2139095040
  %v2 = select i1 %is_nan, i32 32256, i32 %v1
  %all = or i32 %v2, %sign
  %short = trunc i32 %all to i16
  %r = bitcast i16 %short to half
  ret half %r
}
"""
