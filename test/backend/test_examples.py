"""The examples run, check their own results, and print what their readers look for."""
import os
import pathlib
import subprocess
import sys
import time

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
ROOT = str(EXAMPLES.parent)


def run(name):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mlp():
    out = run("mlp.py")
    assert "<Tensor float32 (32, 10) on CPU>" in out and "each row sums to 1.0" in out


def test_digits_in_a_minute():
    pytest.importorskip("sklearn")
    start = time.perf_counter()
    out = run("digits.py")
    assert time.perf_counter() - start < 60
    assert out.count("accuracy") == 2 and "GFLOP/s" in out and "NumPy" in out


def test_every_example_has_a_test():
    assert {p.name for p in EXAMPLES.glob("*.py")} == {"mlp.py", "digits.py"}
