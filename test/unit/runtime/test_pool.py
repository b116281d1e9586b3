"""The team of threads under conditions of its own: start and stop at once, exit, signals, sleep."""
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from launch import run as launch
from llvm_kernels import add_one, load

from morok import knobs
from morok.runtime.cpu import CpuDevice

HERE = os.path.dirname(__file__)
TEST = os.path.dirname(os.path.dirname(HERE))


def run(code):
    start = f"import sys; sys.path[:0] = {[HERE, TEST]!r}\nfrom launch import run\nfrom llvm_kernels import *\nfrom morok.runtime import get_device\nimport numpy as np\ncpu = get_device('CPU')\n"
    env = os.environ | {"MOROK_THREADS": "4", "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.dirname(HERE)))}
    return subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=60, env=env)


def test_a_team_can_be_stopped_at_any_time():
    """Workers that have not even started, spin, work or sleep all see the stop."""
    cpu = CpuDevice()
    code, x = load(cpu, add_one), np.zeros(64, np.int64)
    for i in range(150):
        cpu = CpuDevice()
        with knobs.scope(MOROK_THREADS=2 + i % 4):
            launch(cpu, code, [x.ctypes.data], 64, 0)
        if i % 50 == 1:
            time.sleep(0.02)
        (team,) = cpu._pools.values()
        assert team.workers == 1 + i % 4
        team.stop()
        assert team.workers == 0
    assert (x == 150).all()


def test_workers_wake_up_after_a_pause():
    cpu = CpuDevice()
    code, x = load(cpu, add_one), np.zeros(500, np.int64)
    with knobs.scope(MOROK_THREADS=3):
        for _ in range(20):
            time.sleep(0.005)                    # longer than they spin
            launch(cpu, code, [x.ctypes.data], 500, 0)
    cpu._pools[3].stop()
    assert (x == 20).all()


def test_a_stopped_team_leaves_the_work_to_the_caller():
    cpu = CpuDevice()
    code, x = load(cpu, add_one), np.zeros(500, np.int64)
    with knobs.scope(MOROK_THREADS=3):
        launch(cpu, code, [x.ctypes.data], 500, 0)
        cpu._pools[3].stop()
        cpu._pools[3].stop()
        launch(cpu, code, [x.ctypes.data], 500, 0)
    assert (x == 2).all()


@pytest.mark.parametrize("code", [
    "code, x = load(cpu, add_one), np.zeros(99, np.int64); run(cpu, code, [x.ctypes.data], 99, 0)",                # just started
    "code, x = load(cpu, add_one), np.zeros(99, np.int64)\nfor _ in range(100): run(cpu, code, [x.ctypes.data], 99, 0)\nassert (x == 100).all()",
    "import threading\ncode, x = load(cpu, add_one), np.zeros(99, np.int64)\ndef loop():\n  while True: run(cpu, code, [x.ctypes.data], 99, 0)\n"
    "for _ in range(2): threading.Thread(target=loop, daemon=True).start()\nimport time; time.sleep(0.2)",          # daemon threads are inside kernels
    "import atexit\ncode, x = load(cpu, add_one), np.zeros(99, np.int64)\natexit.register(lambda: run(cpu, code, [x.ctypes.data], 99, 0))\n"
    "run(cpu, code, [x.ctypes.data], 99, 0)",                                                              # a kernel after the stop
], ids=["start", "run", "daemons", "atexit"])
def test_exit(code):
    for _ in range(3):
        done = run(code)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_signals_reach_python():
    """Workers block signals: an interrupt ends a loop of launches at once, with the usual exception."""
    done = run("import os, signal, threading\ncode, x = load(cpu, add_one), np.zeros(99, np.int64)\nrun(cpu, code, [x.ctypes.data], 99, 0)\n"
               "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
               "def loop():\n  while True: run(cpu, code, [x.ctypes.data], 99, 0)\n"         # CPython 3.11 misses a handler around a bare loop
               "try: loop()\nexcept KeyboardInterrupt: print('interrupted')")
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted")
