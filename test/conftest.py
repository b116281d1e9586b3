"""Fixtures that all tests share: a seeded generator whose seed is printed, and knobs that are set for one test."""
import os
import tempfile
import zlib

import numpy as np
import pytest

from morok import knobs

os.environ["MOROK_CACHE_DIR"] = tempfile.mkdtemp(prefix="morok-test-")      # nothing that was compiled before, also in processes that tests start


@pytest.fixture
def rng(request):
    """Random numbers, the same for a test in every run; MOROK_TEST_SEED changes them."""
    seed = int(os.environ.get("MOROK_TEST_SEED", "0")) ^ zlib.crc32(request.node.nodeid.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def verified(request):
    """Graphs and kernels are verified between stages, but where times are measured."""
    if request.node.get_closest_marker("timing"):
        yield
    else:
        with knobs.scope(SPEC=1):
            yield


@pytest.fixture(params=[0, 1], ids=["optimized", "noopt"])
def both_ways(request):
    """Run a test with the optimizer and without it."""
    with knobs.scope(MOROK_NOOPT=request.param):
        yield request.param
