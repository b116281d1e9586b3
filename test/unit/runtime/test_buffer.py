"""Buffers and their allocator: reuse, limits, alignment, lifetimes, and what happens when there is too little."""
import gc
import threading

import numpy as np
import pytest

from morok import IRError, ResourceError, dtypes, knobs
from morok.dtype import NAMED
from morok.runtime import buffer as module
from morok.runtime.buffer import HUGE, NUMPY, Allocator, Buffer, allocator, attach, buffer_of, free_cached, new_buffer_node


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 4096, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 3])
def test_blocks_are_large_enough_and_aligned(size):
    block = Allocator().take(size)
    assert block.size >= size and block.address % 64 == 0
    assert block.size < HUGE or block.address % HUGE == 0
    b = Buffer(block.size, dtypes.uint8, block.address, block).numpy((block.size,))
    b[:] = 3
    assert b[-1] == 3


def test_size_classes_waste_at_most_a_quarter():
    for n in [*range(1, 5000, 7), *(3 ** k for k in range(8, 25))]:
        c = Allocator.size_class(n)
        assert n <= c <= max(64, n + 64, n * 5 / 4) and Allocator.size_class(c) == c


def test_dead_blocks_are_used_again():
    a = Allocator()
    first = a.take(1000)
    address = first.address
    a.give(first)
    assert (a.used, a.cached) == (0, first.size)
    again = a.take(1001)
    assert again.address == address and (a.used, a.cached, a.fresh, a.reused) == (again.size, 0, 1, 1)


def test_two_living_blocks_never_share_memory():
    a, held, rng = Allocator(), [], np.random.default_rng(1)
    for _ in range(2000):
        if held and rng.random() < 0.5:
            a.give(held.pop(rng.integers(len(held))))
        else:
            held.append(a.take(int(rng.integers(1, 5000))))
    spans = sorted((b.address, b.address + b.size) for b in held)
    assert all(e <= s for (_, e), (s, _) in zip(spans, spans[1:], strict=False))
    assert a.used == sum(b.size for b in held)


def test_what_was_not_used_for_longest_goes_first():
    with knobs.scope(MOROK_CACHE_LIMIT=3000):
        a = Allocator()
        blocks = [a.take(n) for n in (1024, 1536, 1280)]
        for b in blocks:
            a.give(b)
        assert a.cached == 1536 + 1280
        assert a.take(1536) is blocks[1] and a.take(1024) is not blocks[0]


def test_nothing_is_kept_at_limit_0():
    with knobs.scope(MOROK_CACHE_LIMIT=0):
        a = Allocator()
        a.give(a.take(100))
        assert (a.cached, a.used) == (0, 0)


def test_free_cached():
    a = Allocator()
    a.give(a.take(3 * HUGE))
    a.free_cached()
    assert a.cached == 0 and a.take(3 * HUGE).size and a.reused == 0


@pytest.mark.parametrize("size", [1 << 50, 1 << 61, 1 << 70])
def test_too_much_is_refused_and_the_allocator_stays_usable(size):
    a = Allocator()
    with pytest.raises(ResourceError) as e:
        a.take(size)
    assert e.value.required == size and 0 < e.value.limit < size and str(size) in str(e.value)
    assert a.used == 0 and a.take(1000).size >= 1000


def test_kept_blocks_are_given_up_before_a_refusal(monkeypatch):
    a, held = Allocator(), 80 << 20
    monkeypatch.setattr(module, "available_memory", lambda: (100 << 20) - a.cached)
    a.give(a.take(held))
    assert a.cached >= held
    assert a.take(90 << 20).size and a.cached == 0


def test_memory_returns_when_a_buffer_dies():
    gc.collect()
    before = allocator.used
    b = Buffer.empty(1000, dtypes.float32)
    assert allocator.used == before + Allocator.size_class(4000)
    del b
    assert allocator.used == before


def test_kept_memory_can_be_given_back():
    del [Buffer.empty(1 << 20, dtypes.uint8) for _ in range(3)][:]
    assert allocator.cached >= 1 << 20
    free_cached()
    assert allocator.cached == 0


def test_a_view_keeps_the_memory():
    b = Buffer.empty(1000, dtypes.int32)
    view = b.numpy((10, 100))
    view[:] = 5
    part = view[3]
    del b, view
    others = [Buffer.empty(1000, dtypes.int32) for _ in range(5)]
    for o in others:
        o.numpy((1000,))[:] = 0
    assert (part == 5).all()


def test_views_have_the_dtype():
    assert set(NUMPY) == set(NAMED.values())
    for d, n in NUMPY.items():
        v = Buffer.empty(6, d).numpy((2, 3))
        assert v.dtype == n and v.shape == (2, 3) and n.itemsize == d.itemsize and v.flags.writeable
    assert Buffer.empty(0, dtypes.int8).numpy((0, 3)).shape == (0, 3) and Buffer.empty(1, dtypes.bool).numpy(()).shape == ()
    with pytest.raises(IRError, match="6 elements"):
        Buffer.empty(6, dtypes.int8).numpy((7,))


def test_arrays_are_shared_and_kept_alive():
    x = np.arange(10, dtype=np.float64)
    b = Buffer.from_numpy(x, dtypes.float64)
    x[3] = 7
    assert b.address == x.ctypes.data and b.numpy((10,))[3] == 7 and b.nbytes == 80
    del x
    gc.collect()
    assert b.numpy((10,))[9] == 9


def test_memory_of_a_node_lives_as_long_as_the_node():
    gc.collect()
    before = allocator.used
    node = new_buffer_node((3, 4), dtypes.float32, "CPU")
    assert buffer_of(node) is None and node is not new_buffer_node((3, 4), dtypes.float32, "CPU")
    attach(node, Buffer.empty(12, dtypes.float32))
    assert buffer_of(node).size == 12 and allocator.used > before
    del node
    assert allocator.used == before


@pytest.mark.parametrize("size, dtype", [(11, dtypes.float32), (12, dtypes.int32)])
def test_memory_that_does_not_fit_a_node(size, dtype):
    with pytest.raises(IRError):
        attach(new_buffer_node((3, 4), dtypes.float32, "CPU"), Buffer.empty(size, dtype))


def test_many_threads():
    a, failed = Allocator(), []

    def work(seed):
        rng, held = np.random.default_rng(seed), []
        for _ in range(1000):
            if held and rng.random() < 0.5:
                block, mark = held.pop()
                if Buffer(64, dtypes.uint8, block.address, block).numpy((64,))[0] != mark:
                    failed.append(seed)
                a.give(block)
            else:
                block = a.take(int(rng.integers(64, 1000)))
                Buffer(64, dtypes.uint8, block.address, block).numpy((64,))[:] = seed
                held.append((block, seed))
        for block, _ in held:
            a.give(block)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and a.used == 0
