"""BEAM from tensor code: right values, a record that another process uses, faults that cost candidates only, interrupts."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from morok import OptStrategy, PrepareConfig, Tensor, knobs, tune
from morok.database import database

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
SCRIPT = """
import sys, numpy as np
from morok import Tensor, tune
from morok.compiler import counters
a = np.arange(60 * 37, dtype=np.float32).reshape(60, 37) % 7 / 10
x = Tensor(a)
got = (x.T @ x + 1).softmax(-1).sum(0).numpy()
b = a.astype(np.float64)
e = b.T @ b + 1
e = np.exp(e - e.max(-1, keepdims=True))
np.testing.assert_allclose(got, (e / e.sum(-1, keepdims=True)).sum(0), rtol=1e-4)
print(tune.counters["searched"], tune.counters["found"], tune.counters["candidates"], counters["compiled"])
"""


def process(tmp_path, **env):
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | {"PYTHONPATH": ROOT, "MOROK_CACHE_DIR": str(tmp_path), **env})


def run(tmp_path, **env):
    p = process(tmp_path, **env)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 0, err
    return [int(n) for n in out.split()]


def records(folder):
    with knobs.scope(MOROK_CACHE_DIR=str(folder)):
        d = database()
        return [json.loads(d.get("schedule", path.name.split(".")[0])) for path, kind, _ in d.records() if kind == "schedule"]


def test_a_search_and_its_record(tmp_path):
    searched, found, candidates, _ = run(tmp_path, BEAM="2", BEAM_TIMEOUT="2")
    assert searched >= 2 and found == 0 and candidates > 2 * searched
    kept = records(tmp_path)
    assert len(kept) == searched and all(r["verified"] and r["trials"] for r in kept)
    for r in kept:                                               # the winner was tried and is right, or is the heuristic one
        tried = {t["opts"]: t for t in r["trials"]}
        assert not tried[r["opts"]]["reason"] and tried[r["opts"]]["worst"] <= 1
    wide = sum(r["width"] >= 2 for r in kept)
    again = run(tmp_path, BEAM="2", BEAM_TIMEOUT="2")
    assert again[1] >= wide and (wide < searched or again == [0, searched, 0, 0])
    assert run(tmp_path)[:3] == [0, 0, 0]                        # without BEAM records are not asked


def test_an_unsound_record_is_a_miss(tmp_path):
    ast_key = "a" * 64
    with knobs.scope(MOROK_CACHE_DIR=str(tmp_path)):
        from morok.uop import Op, UOp
        from morok.dtype import dtypes
        empty = UOp(Op.SINK, dtypes.void, ())
        for data in (b"", b"{", b"[]", b'{"opts": ""}', b'{"opts": "NOPE(1)", "verified": "x", "width": 1}', b'{"opts": "THREAD(0)", "verified": "x", "width": 1}',
                     b'{"opts": "", "verified": "", "width": 1}'):
            database().put("schedule", ast_key, data)
            assert tune.stored(ast_key, empty) is None
        database().put("schedule", ast_key, b'{"opts": "", "verified": "x", "width": 1}')
        assert tune.stored(ast_key, empty) is not None


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_cut_short(tmp_path, sig):
    """No record is damaged, no measuring process stays, and the next run goes on."""
    p = process(tmp_path, BEAM="8", BEAM_TIMEOUT="30")
    time.sleep(3)
    p.send_signal(sig)
    p.communicate(timeout=20)
    assert p.returncode != 0
    before = records(tmp_path)
    assert all(r["opts"] is not None for r in before) and (sig == signal.SIGKILL or before)
    assert run(tmp_path, BEAM="1", BEAM_TIMEOUT="1")[0] >= 1
    time.sleep(0.5)
    left = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True).stdout
    assert not [line for line in left.splitlines() if "morok.runtime.bench" in line and line.split()[0] == "1"]


def test_strategies(tmp_path, rng):
    """realize_with(beam), and kernels that are not searched: nothing to compute, no memory."""
    a = rng.standard_normal((33, 20)).astype(np.float32)
    with knobs.scope(MOROK_CACHE_DIR=str(tmp_path), BEAM_TIMEOUT=1, BEAM_TRIALS=8):
        config = PrepareConfig(OptStrategy.beam(2))
        np.testing.assert_allclose((Tensor(a) * 2).sum(1).realize_with(config).numpy(), (a * 2).sum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)
        assert (Tensor(np.ones((0, 3), np.float32)) + 1).realize_with(config).shape == (0, 3)
        assert Tensor.zeros(0, 3).sum(0).realize_with(config).tolist() == [0, 0, 0]
        indices = rng.integers(-33, 33, 50)
        np.testing.assert_array_equal(Tensor(a)[Tensor(indices)].realize_with(config).numpy(), a[indices])
        np.testing.assert_allclose(Tensor(a).cumsum(0).realize_with(config).numpy(), a.cumsum(0), rtol=1e-4, atol=1e-5)
    assert str(OptStrategy.beam(4)) == "beam(4)" and OptStrategy.beam(4) != OptStrategy.beam(8)
