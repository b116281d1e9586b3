"""The examples run, check their own results, and print what their readers look for."""
import os
import pathlib
import re
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


def test_code_in_the_readme(capsys):
    """All of it runs, one block after the other, and prints what it says."""
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", pathlib.Path(ROOT, "README.md").read_text(), re.S)
    for block in blocks:
        exec(block, names)                                              # noqa: S102
    out = capsys.readouterr().out
    assert len(blocks) == 3 and all(text in out for text in ("<Tensor float32 (32, 10) on CPU>", "[1.0, 1.0, 1.0]", "[9, 9, 9]", "(n=10, 8)", "r_32_10_64"))
    x, n = names["x"], names["np"]
    y = n.eye(32, 10, dtype=n.float32)
    before = names["w"].numpy()
    loss = names["step"](x, names["Tensor"](y), 0.1).item()
    p = n.exp(x.numpy() @ before)
    p /= p.sum(1, keepdims=True)
    assert abs(loss + (n.log(p) * y).sum(1).mean()) < 1e-5 and not n.array_equal(names["w"].numpy(), before)
