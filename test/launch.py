"""One kernel, once, in a plan of its own."""
import numpy as np

from morok.program import Program
from morok.runtime.device import Launch


def run(device, code, addresses, chunks=1, scratch=0, seconds=0.001):
    """Run machine code on these addresses; seconds: what it is said to take, enough to wake the team."""
    launch = Launch(Program("test", "test", "", chunks=chunks, scratch=scratch), code, tuple((k, 0) for k in range(len(addresses))), seconds)
    memory = np.empty(scratch + 64, np.uint8)
    device.plan([launch], len(addresses) + 1).execute(*addresses, -(-memory.ctypes.data // 64) * 64)
