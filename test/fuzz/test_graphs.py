"""At least 3,000 random programs a run equal NumPy float64, with the optimizer and without; their graphs print, and what is printed makes them again."""
import os

import numpy as np
import pytest
from graphs import program

import morok.uop as uop
from morok import dtypes, knobs
from morok.uop.text import reproduce

FIRST = int(os.environ.get("MOROK_TEST_SEED", "0"))
CHUNK, CHUNKS = 100, 30


def again(u):
    """The node that the printed form makes."""
    scope = {**vars(uop), "dtypes": dtypes}
    text = reproduce(u)
    *lines, last = text.strip().split("\n")
    exec("\n".join(lines), scope)
    name = last.split("=")[0].strip() if "=" in last and not last.startswith("UOp") else None
    if name is None:
        return eval(last, scope)
    exec(last, scope)
    return scope[name]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    for seed in range(FIRST + chunk * CHUNK, FIRST + (chunk + 1) * CHUNK):
        for noopt in (0, 1):
            pairs = program(seed)
            if not noopt:
                for p in pairs:
                    copy = again(p.t.uop)
                    assert copy is p.t.uop and copy.key == p.t.uop.key, f"seed {seed}: the printed graph makes another one"
            with knobs.scope(MOROK_NOOPT=noopt):
                try:
                    pairs[0].t.realize(*(p.t for p in pairs[1:]))
                    for p in pairs:
                        np.testing.assert_array_equal(p.t.numpy().astype(np.float64), p.a)
                except Exception as e:
                    raise AssertionError(f"seed {seed}, MOROK_NOOPT={noopt}: {e}") from e
