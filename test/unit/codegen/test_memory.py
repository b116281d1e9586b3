"""Loads and stores: rows at loaded places are requested one iteration ahead, and only where that pays."""
import numpy as np
import pytest

from morok import Tensor
from morok.compiler import generate
from morok.program import OptStrategy, Padto, PrepareConfig, Thread, Upcast
from morok.runtime import get_device
from morok.runtime.buffer import new_buffer_node
from morok.schedule import schedule


def source_of(t: Tensor) -> str:
    (item,) = schedule([t.uop], new_buffer_node).items
    return generate(item.ast, get_device("CPU"), OptStrategy.heuristic()).source


def at(n: int, count: int = 64) -> Tensor:
    return Tensor(np.arange(count) * 7 % n)


@pytest.mark.parametrize("rows, width, requests", [(4000, 128, True), (4000, 64, True), (100, 128, False), (40000, 16, False)],
                         ids=["512 bytes", "256 bytes", "small table", "short rows"])
def test_rows_of_a_large_table_are_requested_in_advance(rows, width, requests):
    table = Tensor.zeros(rows, width).contiguous().realize()
    assert ("llvm.prefetch" in source_of(table[at(rows)])) == requests


def test_places_that_follow_from_the_loops_are_not_requested():
    """The processor foresees these itself."""
    x = Tensor.zeros(4000, 128).contiguous().realize()
    assert "llvm.prefetch" not in source_of(x[::3] + 1) + source_of(x.flip(0) + 1) + source_of(x.sum(0))


@pytest.mark.parametrize("opts", [[], [Upcast(1, 8, True)], [Upcast(0, 2), Upcast(1, 128, True)], [Upcast(1, 128, True), Thread(0)],
                                  [Padto(0, 3), Upcast(1, 128, True)]], ids=str)
def test_rows_requested_in_advance_have_the_right_values(opts, rng):
    """The last row's successor does not exist; negative places count from the end."""
    a = rng.standard_normal((1000, 128)).astype("float32")
    places = np.concatenate([rng.integers(-1000, 1000, 125), [-1, 999, 0]])
    config = PrepareConfig(strategy=OptStrategy.explicit(opts))
    np.testing.assert_array_equal(Tensor(a)[Tensor(places)].realize_with(config).numpy(), a[places])
