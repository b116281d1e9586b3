"""At least 3,000 random programs a run equal NumPy float64, with the optimizer and without; their graphs print, and what is printed makes them again."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from graphs import program

import morok.uop as uop
from morok import dtypes, knobs
from morok.uop.text import reproduce

FIRST = int(os.environ.get("MOROK_TEST_SEED", "0"))
CHUNK, CHUNKS = 100, 30


def again_from(text):
    """The node that the printed form makes."""
    scope = {**vars(uop), "dtypes": dtypes}
    *lines, last = text.strip().split("\n")
    exec("\n".join(lines), scope)
    name = last.split("=")[0].strip() if "=" in last and not last.startswith("UOp") else None
    if name is None:
        return eval(last, scope)
    exec(last, scope)
    return scope[name]


READ = """
import json, sys
from test_graphs import again_from
for text, key in json.load(sys.stdin):
    if again_from(text).key != key: sys.exit("another key for:\\n" + text)
"""


def test_printed_graphs_are_the_same_in_another_process():
    """Where none of their nodes exist yet, and where Python orders sets in another way."""
    outputs = [p.t.uop for seed in range(FIRST, FIRST + 200) for p in program(seed)]
    here = os.path.dirname(os.path.abspath(__file__))
    env = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    done = subprocess.run([sys.executable, "-c", READ], input=json.dumps([(reproduce(u), u.key) for u in outputs]), capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_programs_differ_and_are_no_empty_work():
    """What the number of programs promises: nearly all are of their own kind, have elements and take some work."""
    made = [program(seed) for seed in range(FIRST, FIRST + 500)]
    assert len({p[-1].t.uop.key for p in made}) >= 0.98 * len(made)
    assert sum(p[-1].a.size > 0 for p in made) >= 0.95 * len(made)
    assert sum(len(p[-1].t.uop.toposort()) >= 5 for p in made) >= 0.9 * len(made)
    assert sum(any(0 in u.shape for q in p for u in q.t.uop.toposort()) for p in made) >= 5


@pytest.mark.parametrize("chunk", [*range(CHUNKS), *(pytest.param(c, marks=pytest.mark.slow) for c in range(CHUNKS, 2 * CHUNKS))])
def test_random_programs(chunk):
    for seed in range(FIRST + chunk * CHUNK, FIRST + (chunk + 1) * CHUNK):
        for noopt in (0, 1):
            pairs = program(seed)
            if not noopt:
                for p in pairs:
                    copy = again_from(reproduce(p.t.uop))
                    assert copy is p.t.uop and copy.key == p.t.uop.key, f"seed {seed}: the printed graph makes another one"
            with knobs.scope(MOROK_NOOPT=noopt):
                try:
                    pairs[0].t.realize(*(p.t for p in pairs[1:]))
                    for p in pairs:
                        np.testing.assert_array_equal(p.t.numpy().astype(np.float64), p.a)
                except Exception as e:
                    raise AssertionError(f"seed {seed}, MOROK_NOOPT={noopt}: {e}") from e
