"""Masked accesses: right values at every tail, and never wider than a register of the machine (LLVM 22 drops masks when it splits wider ones)."""
import re

import numpy as np
import pytest

from morok import Tensor
from morok.compiler import generate
from morok.program import OptStrategy
from morok.runtime import get_device
from morok.runtime.buffer import new_buffer_node
from morok.schedule import schedule

SIZES = {"float": 4, "double": 8, "half": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_rows_at_a_loaded_index(dtype, rng, both_ways):
    """The guard of the index is one bit for all lanes, that of the tail one a lane; a half of the last register is off throughout."""
    for n in (217, 33, 7, 65, 100):
        a = rng.integers(-4, 5, (16, n)).astype(dtype)
        at = np.array([13, 4, -2])
        np.testing.assert_array_equal(Tensor(a)[Tensor(at)].sum((0, 1)).numpy(), a[at].astype(np.int64).sum())
        np.testing.assert_array_equal((Tensor(a)[Tensor(at)] + 1).numpy(), a[at] + 1)


def test_no_masked_access_is_wider_than_a_register():
    device, seen = get_device("CPU"), 0
    for dtype in ("int8", "int64", "float32", "float64"):
        x = Tensor(np.ones((16, 217), dtype))
        for t in (x[Tensor(np.array([1, 2]))].sum((0, 1)), (x + 1).cumsum(1), x.max(1), x.cast("float64") * 2, x.pad(((0, 0), (3, 5))) + 1):
            for item in schedule([t.uop], new_buffer_node).items:
                source = generate(item.ast, device, OptStrategy.heuristic()).source
                for n, ty in re.findall(r"@llvm\.masked\.(?:load|store)\.v(\d+)\w+\.p0\((?:ptr|<\d+ x (\w+)>)", source):
                    ty = ty or re.search(rf"<{n} x (\w+)> @llvm\.masked\.load", source)[1]
                    assert int(n) * SIZES[ty] <= device.target.vector_bytes
                    seen += 1
    assert seen > 5
