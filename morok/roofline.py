"""What this machine can do at most: operations a second out of registers, bytes a second out of memory; measured once and kept on disk."""
from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .compiler import get_kernel
from .database import code_version, database, key_of
from .dtype import dtypes
from .program import Opt, OptStrategy, Thread, Upcast
from .runtime.buffer import Buffer
from .runtime.device import Device, Launch
from .uop import Axis, AxisKind, Op, ParamArg, UOp

STEPS = 64                       # multiply-adds of each element
SMALL, LARGE = 1 << 18, 1 << 25  # elements: of the arithmetic, in the caches; of the copy, beyond them
SECONDS = 0.15                   # for each of the two


class Roofline(NamedTuple):
    """Most operations and most bytes a second, with all threads."""
    flops: float
    bytes: float

    def seconds(self, flops: int, size: int) -> float:
        """The least time for so much work that goes through memory."""
        return max(flops / self.flops, size / self.bytes)


def roofline(device: Device) -> Roofline:
    """The roofline of a device; measured if this machine's is not on disk."""
    key = key_of("roofline", device.target, code_version(), device.compiler)
    found = database().get_or("roofline", key, lambda: json.dumps(measure(device)).encode())
    return Roofline(*json.loads(found))


def measure(device: Device) -> Roofline:
    """Time multiply-adds in registers, and a copy between two arrays that no cache holds."""
    threads: list[Opt] = [Thread(0)] if device.target.threads > 1 else []
    flops = 2 * STEPS * SMALL / best(device, arithmetic(SMALL), [Upcast(0, 64, True), *threads], SMALL)
    return Roofline(flops, 8 * LARGE / best(device, elementwise(LARGE, lambda x: x), None, LARGE))


def arithmetic(n: int) -> UOp:
    def steps(x: UOp) -> UOp:
        y = x
        for _ in range(STEPS):
            y = UOp(Op.FMA, x.dtype, (y, x, x))
        return y
    return elementwise(n, steps)


def elementwise(n: int, f: Callable[[UOp], UOp]) -> UOp:
    """out[i] = f(in[i]) over n float32."""
    r = UOp(Op.RANGE, dtypes.index, (), Axis(0, 0, (0,), n, AxisKind.LOOP))
    out, source = (UOp(Op.PARAM, dtypes.float32, (), ParamArg(slot, n)) for slot in (0, 1))
    return UOp(Op.SINK, dtypes.void, (out.index(r).store(f(source.index(r).load())),))


def best(device: Device, ast: UOp, opts: Sequence[Opt] | None, n: int) -> float:
    """Least seconds of many runs."""
    kernel = get_kernel(ast, device, OptStrategy.heuristic() if opts is None else OptStrategy.explicit(list(opts)), aligned=True)
    memory = [Buffer.empty(n, dtypes.float32) for _ in range(2)]
    memory[1].numpy((n,))[:] = 0
    plan = device.plan([Launch(kernel.program, kernel.code, ((0, 0), (1, 0)), 0.0)], 3)
    least, end = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        times = plan.timed(memory[0].address, memory[1].address, 0)
        least = min(least, times[1] - times[0])
    return least
