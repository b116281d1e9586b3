"""jit and prepare: right values at every call, results that stay, state from outside, errors that leave no trace, threads, donated memory, plans."""
import copy
import functools
import gc
import importlib
import mmap
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from morok import DTypeError, JitError, OptStrategy, PrepareConfig, Tensor, dtypes, jit, knobs, profile
from morok.ops import trace
from morok.optimizer.actions import parse_opts
from morok.runtime.buffer import Buffer, allocator

MODULE = importlib.import_module("morok.jit")           # morok.jit itself is the function


@pytest.fixture(params=[1, 0], ids=["native", "ctypes"])
def each_call(request):
    """Run a test with native functions and with ctypes."""
    with knobs.scope(MOROK_FASTCALL=request.param):
        yield request.param


@pytest.fixture
def busy():
    """Runs functions at once, each in a thread; Python changes threads every 10 microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with ThreadPoolExecutor() as pool:
        yield lambda *functions: [x.result() for x in [pool.submit(f) for f in functions]]
    sys.setswitchinterval(before)


def t(*values, dtype=np.float32):
    return Tensor(np.array(values, dtype))


def full(size, value):
    return np.full(size, value, np.float32)


def same(*pairs, dtype=np.float32):
    """One pair after the other: a tensor, or a call that gives one, and exactly the values, shape and dtype that it must have."""
    for got, want in pairs:
        x = got if isinstance(got, Tensor) else got()
        want, out = np.asarray(want, dtype), x.numpy()
        assert out.dtype == want.dtype and out.shape == want.shape == x.shape
        np.testing.assert_array_equal(out, want)


def untouched():
    """No capture has left anything behind."""
    assert trace.current() is None and trace.running == 0 and "uop" not in vars(Tensor)


def fails(call, *arguments, error=JitError, match):
    with pytest.raises(error, match=match):
        call(*arguments)


def donated(*tensors):
    for x in tensors:
        fails(x.numpy, match="this tensor was donated")


# ---- values, and results that stay ---------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 7, 64, 70_000])    # 70,000 floats are more than what is kept for reuse
def test_each_call_reads_its_own_data(size, rng, each_call):
    runs = []
    f = jit(lambda x, y: (runs.append(1), x * 2 + y, (x - y).sum())[1:])
    for _ in range(6):
        a, b = (rng.integers(-99, 99, size).astype(np.float32) for _ in range(2))
        same(*zip(f(Tensor(a), Tensor(b)), (a * 2 + b, (a - b).sum()), strict=True))
    assert f.entries == 1 and len(runs) == 1


@pytest.mark.parametrize("size", [3, 70_000])
@pytest.mark.parametrize("hold, want", [(lambda r: r, lambda v: v), (lambda r: Tensor(r.numpy()), lambda v: v), (lambda r: r[1:], lambda v: v[1:]),
                                        (lambda r: Tensor(np.asarray(r.data())), lambda v: v), (lambda r: r * 2, lambda v: v * 2), (copy.copy, lambda v: v),
                                        (lambda r: r.reshape(1, -1), lambda v: v[None]), (lambda r: r.clone(), lambda v: v), (lambda r: r.flip(0), lambda v: v),
                                        (lambda r: (r * 3).realize(), lambda v: v * 3), (lambda r: r.detach().__iadd__(1), lambda v: v + 1)])
def test_results_keep_their_values(size, hold, want):
    """Held as they are, by arrays, by slices, by lazy graphs and by copies; 5 calls' results over 20 more calls."""
    f = jit(lambda x: x + 1)
    held = [hold(f(Tensor(full(size, i)))) for i in range(5)]
    for i in range(20):
        f(Tensor(full(size, -i)))
    same(*((x, want(full(size, i + 1))) for i, x in enumerate(held)))


def test_results_fed_back_through_many_kernels(each_call):
    """With an arena; each result is the next argument, and all are held. A profile sees the kernels."""
    w, x, held = Tensor(np.eye(4, dtype=np.float32)), Tensor(np.eye(4, dtype=np.float32)), []
    f = jit(lambda x: ((x @ w).relu().sum(1, keepdim=True) + x).contiguous() @ w)
    for i in range(8):
        held.append((x, np.eye(4) + (5 ** i - 1) / 4))          # a row has 4 times v, and 1 more: its sum goes to 5 times that
        with profile() as p:
            x = f(x)
        f(x)
        assert 2 <= len(p.kernels) <= 4 and all(k.seconds >= 0 for k in p.kernels)
    same(*held)


# ---- signatures ----------------------------------------------------------------------------------------------------
def test_values_are_told_apart():
    """Shapes and dtypes; 1, True and 1.0, which are equal but x * k is not; 0.0 and -0.0, which are equal, too; NaN, which does not equal itself."""
    f, g, h = jit(lambda x: x + x), jit(lambda x, k: x.cast(dtypes.int8) if k is True else x * k), jit(lambda x, k: 1 / (x * k))
    for _ in range(2):
        for a in (full(2, 3), full(3, 3), full((1, 2), 3), np.ones(2, np.int32), np.ones(2, np.float64), full(1, 3), full((), 3)):
            same((f(Tensor(a)), a + a), dtype=a.dtype)
        for k, dtype in (1, "i4"), (True, "i1"), (1.0, "f4"), (np.float32(1.0), "f4"):
            same((g(t(3, -2, dtype=np.int32), k), [3, -2]), dtype=dtype)
        for zero in (0.0, -0.0, np.float64(0.0), np.float64(-0.0)):
            assert h(t(2.0), zero).item() == (-np.inf if np.signbit(zero) else np.inf)
        assert all(np.isnan(h(t(2.0), float("nan")).item()) for _ in range(3))       # another object each time
    assert (f.entries, g.entries, h.entries) == (7, 4, 5)


def test_other_values():
    """Strings, shapes, dtypes, functions, None; a keyword is not a default."""
    f, g, x = jit(lambda x, how, *rest: getattr(x, how)(*rest)), jit(lambda x, op, n=None: op(x) if n is None else op(x) * n), t(1, 2, 3)
    for _ in range(2):
        same((f(x, "sum"), 6), (f(x, "max"), 3), (f(x, "reshape", 3, 1), [[1], [2], [3]]), (f(x, "reshape", (1, 3)), [[1, 2, 3]]))
        same((f(x, "cast", dtypes.int8), [1, 2, 3]), dtype=np.int8)
        same((g(x, abs), [1, 2, 3]), (g(x, Tensor.exp2), [2, 4, 8]), (g(x, abs, None), [1, 2, 3]), (g(x, abs, n=2), [2, 4, 6]), (g(x, abs, 2), [2, 4, 6]))
    assert f.entries == g.entries == 5
    same(*((g(x, abs, k), [k, 2 * k, 3 * k]) for k in [*range(70), *range(70)]))
    assert g.entries == MODULE.LIMIT == 64


def test_the_last_entry_lives_without_being_remembered():
    """A call with keywords pushes out the entry that plain calls still use: its arena must not go to others."""
    f = jit(lambda x, k=0: ((x.sum(1, keepdim=True) + k).contiguous() * x).sum())
    x = Tensor(np.eye(8, dtype=np.float32))
    memory = (x.sum(1, keepdim=True).contiguous() * x).sum().prepare().memory
    held = [(f(x), 8), *((f(x, k=k), 8 * (k + 1)) for k in range(MODULE.LIMIT))]
    taken = [Buffer.bytes(memory.arena + memory.scratch) for _ in range(50)]
    [b.numpy((b.size,)).fill(171) for b in taken]
    same((f(x), 8), *held)
    assert memory.arena > 0 and all((b.numpy((b.size,)) == 171).all() for b in taken)


def test_clear_frees_memory_at_once():
    f, x = jit(lambda x: (x.sum(1, keepdim=True).contiguous() + x, x + 1)), Tensor(full((100, 100), 1)).realize()
    f(x)
    gc.collect()                                                # so that it is not about to happen by itself
    before = allocator.used
    f.clear()
    assert f.entries == 0 and before - allocator.used >= 4 * 40_000
    same((f(x)[1], full((100, 100), 2)))


# ---- nested arguments and results ----------------------------------------------------------------------------------
class Point(NamedTuple):
    x: object
    y: object


def test_nested_arguments(each_call):
    f = jit(lambda a, b, **kw: a[0] + a[1]["k"][0] * b.x - kw["c"] * b.y)
    same(*((f([t(i), {"k": (t(2), "unused"), "n": None}], Point(t(3), 4), c=t(i + 1)), [i + 6 - 4 * (i + 1)]) for i in range(4)))
    assert f.entries == 1
    same((f([t(1), {"k": [t(2)]}], Point(t(3), 4), c=t(0)), [7]))                    # a list in place of the tuple, without n
    assert f.entries == 2


@pytest.mark.parametrize("order", ["lx", "tx", "dx", "xl", "lt", "nl"])
def test_as_many_leaves_in_another_nesting(order):
    """v[0] of a list is a tensor, of a tensor its first row."""
    f, a = jit(lambda v: v[0][0] * 5 if isinstance(v[0], list) else v[0] * 2), np.arange(4, dtype=np.float32).reshape(2, 2)
    x = Tensor(a)
    cases = {"l": ([x], a * 2), "t": ((x,), a * 2), "d": ({0: x}, a * 2), "x": (x, a[0] * 2), "n": ([[x]], a * 5)}
    same(*((f(cases[c][0]), cases[c][1]) for c in order * 2))
    g = jit(lambda a, b: (b[0] if isinstance(b, list) else b) + (100 if isinstance(a, tuple) else a))        # nested or not, two arguments and two leaves
    for _ in range(2):
        same((g((), [t(1, 2), 5]), [101, 102]), (g(t(1, 2), t(10, 20)), [11, 22]))


def test_nested_results(each_call):
    key = object()
    f = jit(lambda x: ({"list": [x + 1, (x + 2, [])], key: Point(x * 2, "text"), 3: {}}, None, 7, (), (x,), 2.5, True))
    for i in range(3):
        d, none, seven, empty, one, half, true = f(t(i))
        same((d["list"][0], [i + 1]), (d["list"][1][0], [i + 2]), (d[key].x, [2 * i]), (one[0], [i]))
        assert type(d[key]) is Point and d[key].y == "text" and d["list"][1][1] == [] and list(d) == ["list", key, 3] and d[3] == {}
        assert (none, seven, empty, half, true) == (None, 7, (), 2.5, True) and type(seven) is int and type(one) is tuple and true is True
        d["list"].append("mine")                                # a list of its own at each call


def test_the_function_may_change_its_lists():
    """They are its own; and it runs once, though w was not computed yet."""
    w, given = t(1) * 10, [t(1), t(2), t(3)]
    f = jit(lambda v: v.pop() * w + v.pop())
    same(*((f(given), [32]) for _ in range(3)))
    assert len(given) == 3


def test_results_that_are_one_tensor(each_call):
    """An argument, twice, and one new tensor twice: values of their own, and memory that is not free before the last of them is gone."""
    f = jit(lambda x: (lambda y: (x, x, y, y, x * 2))(x * 2))
    for i in range(5):
        x = t(i)
        a, b, c, d, e = f(x)
        a += 5
        c += 1
        held = f(t(50))
        same((x, [i]), (a, [i + 5]), (b, [i]), (c, [2 * i + 1]), (d, [2 * i]), (e, [2 * i]))
        del a, c, e
        f(t(60)), f(t(70))
        same((b, [i]), (d, [2 * i]), (held[2], [100]))


def test_a_tensor_passed_twice():
    """If it is changed, both names see that, as without jit; and calls with two tensors are not mixed up with this one."""
    f, change = jit(lambda x, y: x * y + y), jit(lambda x, y: (x.__iadd__(1), y * 10)[1])
    for _ in range(2):
        a, b = t(3), t(4)
        same((f(a, a), [12]), (f(a, b), [16]), (f(b, a), [15]))
        same((lambda: change(a, b), [40]), (a, [4]), (lambda: change(a, a), [50]), (a, [5]), (lambda: change(b, a), [50]), (b, [5]))
    assert change.entries == 2


def test_keywords_and_defaults():
    @jit
    def f(x, k=2, *, y=None, **more):
        return x * k + (0 if y is None else y) + sum(more.values())
    for _ in range(2):
        same((f(t(1)), [2]), (f(t(1), 3), [3]), (f(t(1), k=4), [4]), (f(x=t(1), y=t(10)), [12]), (f(t(1), y=t(10), a=t(100), b=1000), [1112]),
             (f(t(5), b=1000, y=t(20), a=t(200)), [1230]))
    fails(f, error=TypeError, match="missing")
    untouched()


class Model:
    def __init__(self, w):
        self.w = t(w)

    @jit
    def step(self, g):
        """Update the weights."""
        self.w -= g

    __call__ = jit(lambda self, x: x * self.w)
    twice = staticmethod(jit(lambda x: x * 2))


def test_methods(each_call):
    a, b = Model(2), Model(3)
    for i in range(3):
        same((a(t(1)), [2 - i]), (b(t(1)), [3 + i]))
        assert a.step(t(1)) is b.step(t(-1)) is None
    same((a.w, [-1]), (b.w, [6]), (a.twice(t(4)), [8]))
    assert Model.step.__doc__ == "Update the weights." and Model.step.__name__ == "step"


def test_other_callables_and_classes():
    same((jit(functools.partial(lambda a, x: x + a, 5))(t(1)), [6]), (jit(Tensor.exp2)(t(3)), [8]), (jit()(lambda x: x * 3)(t(2)), [6]))
    inner = jit(lambda x: x + 1)
    outer, x = jit(inner, donate=(0,)), t(1).contiguous().realize()
    same((outer(x), [2]), (inner(t(7)), [8]))
    donated(x)
    assert outer.entries == inner.entries == 1 and inner.donate == ()

    class Mine(Tensor):
        plus = Tensor.__add__
    f = jit(lambda x: x.plus(1) if isinstance(x, Mine) else x - 1)
    for _ in range(2):
        out = f(Mine(full(1, 4)))
        same((out, [5]), (f(t(4)), [3]))
        assert type(out) is Mine


# ---- all kinds of tensors ------------------------------------------------------------------------------------------
def test_lazy_and_constant_arguments_and_results(each_call):
    f, g = jit(lambda x, y: x + y), jit(lambda x: (Tensor(3.0), Tensor.zeros(2), Tensor([1.0, 2.0]), x * 0 + 1))
    for i in range(4):
        x = t(i) * 2
        y = x + 1                                               # shares its graph with x
        same((f(x, y), [4 * i + 1]), (f(x.reshape(1, 1), y[0]), [[4 * i + 1]]), (f(x, x.detach()), [4 * i]))
        same((f(Tensor(3.0), Tensor(4.0 * i)), 3 + 4 * i), (f(Tensor.ones(2, 2), Tensor.full((2,), i)), full((2, 2), i + 1)))
        same((jit(lambda: Tensor(2.0) + i)(), 2 + i), *zip(g(t(9)), (3, [0, 0], [1, 2], [1]), strict=True))
    assert f.entries == 4


def test_memory_of_numpy_is_shared():
    """Of arguments, and of an array that becomes a tensor inside; that lives as long as the function."""
    a, kept = full(2, 1), []
    f, g, x = (lambda b: (kept.append(weakref.ref(b)), jit(lambda x: x * 2 + Tensor(b)))[1])(full(2, 1)), jit(lambda x: x * 2), Tensor(a)
    for i in range(3):
        a[:], kept[0]()[:] = i, 10 * i
        same((f(x), [12 * i] * 2))
    odd = np.frombuffer(b"." + full(3, 7).tobytes(), np.uint8)[1:].view(np.float32)         # not aligned
    same((g(Tensor(odd)), [14] * 3), (g(Tensor(np.arange(6, dtype=np.float32)[::2])), [0, 4, 8]))


def test_sizes(each_call):
    f, g = jit(lambda x: (x + 1, x, x.sum())), jit(lambda x: x * 2)
    for shape in [(), (0,), (3, 0, 2), (1,), (2, 3), (5, 13)] * 2:
        a = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        same(*zip(f(Tensor(a)), (a + 1, a, a.sum()), strict=True))
        same((g(Tensor(np.zeros((0, 4), np.int8))), np.zeros((0, 4))), dtype=np.int8)


@pytest.mark.parametrize("name", "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split())
def test_dtypes(name):
    f, dtype = jit(lambda x, y: (x, x.maximum(y), x.where(y, y) if x.dtype.is_bool else x + y)), getattr(dtypes, name)
    numpy = np.float32 if name == "bfloat16" else np.dtype(name)
    for a, b in ([1, 0, 1], [0, 0, 1]), ([0, 1, 0], [1, 1, 0]):
        a, b = np.array(a, numpy), np.array(b, numpy)
        out = f(Tensor(a, dtype=dtype), Tensor(b, dtype=dtype))
        same(*zip(out, (a, np.maximum(a, b), b if name == "bool" else a + b), strict=True), dtype=numpy)
        assert all(x.dtype is dtype for x in out)


# ---- tensors from outside ------------------------------------------------------------------------------------------
CHANGES = {"assign": lambda w, v: w.assign(v), "+=": lambda w, v: w.__iadd__(v - w), "x[i] = v": lambda w, v: (w.__setitem__(0, v[0]), w.__setitem__(1, v[1])),
           "x[:] = v": lambda w, v: w.__setitem__(slice(None), v), "realized": lambda w, v: w.assign(v).realize(), "number": lambda w, v: w.assign(v[0].item())}
MAKES = {"array": lambda v: Tensor(full(2, v)), "lazy": lambda v: t(v, v) + 0, "realized": lambda v: (t(v, v) * 1).realize(), "view": lambda v: t(9, v, v)[1:],
         "constant": lambda v: Tensor(float(v)).expand(2), "result": lambda v: jit(lambda x: x + 0)(t(v, v)), "detached": lambda v: t(v, v).detach()}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", MAKES)
def test_a_tensor_from_outside_that_others_change(make, change):
    runs, w = [], MAKES[make](3)
    f = jit(lambda x: (runs.append(1), x.expand(w.shape) * w)[1])
    same((f(t(1, 2)), [3, 6]))
    for i in (5, 6, 7):
        CHANGES[change](w, t(i, i))
        same((f(t(1, 2)), [i, 2 * i]), (f(t(1, 1)), [i, i]), (w, [i, i]))
    assert len(runs) == f.entries == 1                          # what it does in Python happens once
    untouched()


@pytest.mark.parametrize("make", MAKES)
def test_a_tensor_from_outside_that_the_function_changes(make, each_call):
    w, runs, want = MAKES[make](3), [], full(2, 3)
    alias, lazy, before, w.label = w.detach(), w * 10, w.clone(), "weights"
    f = jit(lambda x: (runs.append(1), w * 1, w.assign(w + x), w.__setitem__(0, w[0] * 2), w.__imul__(2), w)[1::4])
    for i in range(4):
        old, new = f(t(i, 1))
        same((old, want))
        want = (want + np.array([i, 1])) * np.array([4, 2])
        same((new, want), (w, want))
        new += 1                                                # a value of its own
        same((w, want))
    same((alias, [3, 3]), (before, [3, 3]), (lazy, [30, 30]))
    assert len(runs) == 1 and w.label == "weights"


def test_an_argument_that_the_function_changes(each_call):
    step = jit(lambda w, g, s: (w.__isub__(g), s["m"].__setitem__(0, 5), (w * 10).sum())[-1])
    for i in range(3):
        a, m = full(2, 4), t(1, 2)
        w = Tensor(a)
        alias = w.detach()
        same((step(w, t(i, 0), {"m": m}), (8 - i) * 10), (w, [4 - i, 4]), (m, [5, 2]), (alias, [4, 4]))
        assert a.tolist() == [4, 4]                             # tensors are values: the array keeps its own
    assert step.entries == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_functions_share_state(order, each_call):
    """Whichever is captured first; and w, which a call made, changes outside as well."""
    w, n, want = jit(lambda x: x + 0)(t(1, 1)), Tensor(0.0), np.ones(2)
    train = jit(lambda x: [w.assign(w * 2 + x), n.assign(n + 1)] and None)
    evaluate = jit(lambda x: ((w * x).sum(), n * 1.0))
    for i in range(6):
        for which in order:
            if which:
                want = want * 2 + np.array([i, 1])
                assert train(t(i, 1)) is None
            else:
                same(*zip(evaluate(t(1, 10)), (want @ [1, 10], i + order[0]), strict=True))
        if i == 3:
            w += 1
            want = want + 1
    same((w, want))
    assert train.entries == evaluate.entries == 1


def test_names_and_values(each_call):
    """Tensors that are swapped; two names for one memory at the capture, of which one changes then."""
    a, b, c = t(1), t(2), t(3) * 1

    rotate = jit(lambda: (lambda old: [a.assign(b), b.assign(c), c.assign(old)] and None)(a.detach()))
    for i in range(7):
        assert [x.item() for x in (a, b, c)] == [i % 3 + 1, (i + 1) % 3 + 1, (i + 2) % 3 + 1]
        rotate()
    w = t(1, 2)
    v = w.detach()
    f = jit(lambda x: x * w + v)
    for change, want in ((lambda: None, [2, 4]), (lambda: w.__iadd__(10), [12, 14]), (lambda: v.assign(w), [22, 24]), (lambda: v.assign(t(0, 0)), [11, 12])):
        change()
        same((f(t(1, 1)), want))


def test_an_argument_that_is_the_state():
    """Without jit a change of the one is seen in the other: an error, unless there is none."""
    w = t(1, 2).realize()
    read, change, change_argument = jit(lambda x: x + w), jit(lambda x: (w.__iadd__(1), x * 1)[1]), jit(lambda x: (x.__iadd__(1), w * 10)[1])
    same((read(t(10, 10)), [11, 12]), (read(w), [2, 4]), (change(t(5, 5)), [5, 5]), (change_argument(t(7, 7)), [20, 30]))
    fails(change, w, match="in one way")
    fails(change_argument, w, match="in one way")
    same((w, [2, 3]), (lambda: change(t(6, 6)), [6, 6]), (w, [3, 4]), (lambda: change_argument(t(7, 7)), [30, 40]))


# ---- random numbers ------------------------------------------------------------------------------------------------
def uniform(seed, call, n):
    """Tensor.rand by hand: Threefry-2x32 of the blocks (i, call), the upper 24 bits of the first word."""
    k = [np.uint32(seed), np.uint32(0), np.uint32(seed ^ 0x1BD11BDA)]
    a, b = np.arange(n, dtype=np.uint32) + k[0], full(n, call).astype(np.uint32) + k[1]
    for i in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            a = a + b
            b = (b << np.uint32(r) | b >> np.uint32(32 - r)) ^ a
        a, b = a + k[(i + 1) % 3], b + k[(i + 2) % 3] + np.uint32(i + 1)
    return (a >> 8).astype(np.float32) * np.float32(2**-24)


def test_random_numbers(monkeypatch, each_call):
    """Fresh ones at each call. A draw counts also if its value is not wanted or comes from a function inside."""
    monkeypatch.setattr(Tensor, "training", True)
    inner = jit(lambda x: x.dropout(0.25))
    f = jit(lambda x: (x[:5] * 0 + Tensor.rand(5), Tensor.rand(9), inner(x), Tensor.rand(2))[::3] + (inner(x),))
    for seed in (3, 4):
        Tensor.manual_seed(seed)
        for call in range(0, 16, 5):
            want = uniform(seed, call, 5), uniform(seed, call + 3, 2), np.where(uniform(seed, call + 4, 200) >= 0.25, 4, 0)
            same(*zip(f(Tensor(full(200, 3))), want, strict=True))
        same((Tensor.rand(3), uniform(seed, 20, 3)))            # and without jit it goes on


def test_random_numbers_as_without_jit():
    def draw(x):
        return Tensor.randn(3), x.rand_like(), Tensor.randint(4, low=0, high=100), Tensor.uniform(3, low=-1, high=1), Tensor.randn(2, dtype=dtypes.float64)
    runs = []
    for f in (draw, jit(draw)):
        Tensor.manual_seed(11)
        runs.append([y.numpy() for _ in range(3) for y in f(t(1))])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(runs[1][0], runs[1][5])


# ---- errors --------------------------------------------------------------------------------------------------------
READS = {"numpy": lambda x: x.numpy(), "item": lambda x: x.item(), "bool": lambda x: bool(x), "tolist": lambda x: x.tolist(), "float": lambda x: float(x),
         "if": lambda x: 1 if x > 0 else 2, "asarray": lambda x: np.asarray(x), "format": lambda x: f"{x:.2f}", "data": lambda x: x.data(),
         "list": lambda x: Tensor([x, 1.0]), "in": lambda x: 3.0 in x.reshape(1), "deepcopy": lambda x: copy.deepcopy(x), "prepare": lambda x: x.prepare(),
         "seed": lambda x: Tensor.manual_seed(1), "int": lambda x: int(x), "index": lambda x: range(3)[x.cast(dtypes.int32)]}
PLACES = {"argument": lambda x, w, z: x, "outside": lambda x, w, z: w, "outside, not computed": lambda x, w, z: z, "computed": lambda x, w, z: x * 2,
          "alias": lambda x, w, z: w.detach(), "mixed": lambda x, w, z: w + 1, "random": lambda x, w, z: Tensor.rand()}


@pytest.mark.parametrize("place", PLACES)
def test_reading_values_inside(place):
    """An error that changes nothing; without the fault the function can be called."""
    for read in READS.values():
        w, z, faults = Tensor(2.0).realize(), Tensor(4.0) + 1, [read]
        alias = w.detach()
        f = jit(lambda x: (w.assign(w + x), *[fault(PLACES[place](x, w, z)) for fault in faults], w * z)[-1])
        fails(f, Tensor(3.0), match="inside a function")
        untouched()
        faults.clear()
        same((w, 2), (alias, 2), (z, 5), (lambda: f(Tensor(3.0)), 25), (w, 5), (lambda: f(Tensor(1.0)), 30))
        assert f.entries == 1


def test_values_made_inside_can_be_read():
    """They are the same in all calls; put into a tensor from outside they are its value only after the call."""
    f = jit(lambda x: x * Tensor([1, 2, 3]).sum().item() + x[Tensor([True, False])].sum() + len(Tensor([4.0]).tolist()))
    same(*((f(t(i, 1)), [6 * i + i + 1, 6 + i + 1]) for i in range(3)))
    w = t(1, 2).realize()
    g = jit(lambda x, k: (w.assign(Tensor([5.0, 6.0])), x * w.numpy()[1] * (1 // k))[1])
    fails(g, t(1), 0, error=ZeroDivisionError, match="zero")
    same((w, [1, 2]), (jit(lambda: w + 0)(), [1, 2]), (lambda: g(t(2), 1), [12]), (w, [5, 6]))


@pytest.mark.parametrize("argument, message", [(np.zeros(3), r"NumPy array of shape \(3,\): wrap it, Tensor\(array\)"), ([np.zeros(())], "NumPy array of"),
                                               ({1, 2}, "set, which cannot be hashed"), ({"k": bytearray(3)}, "bytearray, which cannot be hashed")])
def test_arguments_that_cannot_be_told_apart(argument, message):
    f = jit(lambda x, y: x + 1)
    same((f(t(1), 2), [2]))
    fails(f, t(1), argument, match=f"argument 1 of a captured function is a {message}")
    fails(lambda: f(t(1), y=argument), match=f"argument 1 of a captured function is a {message}")
    assert f.entries == 1
    same((f(t(1), frozenset([1])), [2]))


def test_an_exception_in_the_middle(each_call):
    w, v, x, divisors = t(1), t(2) * 2, t(7), [0, 1, 0]
    f = jit(lambda x, k: (w.assign(x), v.__setitem__(0, w[0] + k), x.__iadd__(1), 1 // divisors.pop(0), v * 10)[-1])
    fails(f, x, 1, error=ZeroDivisionError, match="zero")
    untouched()
    same((w, [1]), (v, [4]), (x, [7]), (lambda: f(x, 1), [80]), (w, [7]), (v, [8]), (x, [8]))
    fails(f, x, 2, error=ZeroDivisionError, match="zero")
    same((w, [7]), (v, [8]), (x, [8]), (lambda: f(x, 1), [90]))
    assert f.entries == 1


def test_tensors_kept_from_inside():
    """They have no value; no operation on them, and no other captured function, makes one up. There must be some result."""
    kept, box = [], Model(0)                                    # box.w becomes another tensor in Python, at the capture only
    f = jit(lambda x: (kept.extend([x, x + 1, x.detach(), Tensor.rand(1), x[0]]), setattr(box, "w", box.w + x), x * 2)[-1])
    same((f(t(1)), [2]))
    for x in [*kept, box.w]:
        for use in (lambda x: x.numpy(), lambda x: x.realize(), lambda x: (x + 1).tolist(), lambda x: x.prepare(), jit(lambda x: x + 1),
                    lambda x: jit(lambda y: y + x)(t(5)), lambda x: copy.copy(x)):
            fails(use, x, match="made inside a captured function")
    for result in (None, 3, (), {"a": []}, "text"):
        fails(jit(lambda x: result), t(1), match="returns no tensor and changes none")
    same((f(t(4)), [8]))
    untouched()


# ---- captures in captures, threads ---------------------------------------------------------------------------------
def test_captures_in_captures(each_call):
    """The inner function is part of the outer one, also if it raises, or is the same one."""
    w = t(1)
    inner, wrong = jit(lambda x, n: x * n + w, donate=(0,)), jit(lambda x: x[5])

    @jit
    def outer(x):
        y = inner(x, 2)
        w.assign(w + 1)
        try:
            return wrong(x)
        except IndexError:
            return inner(y, 3), x
    for i in range(3):
        same(*zip(outer(t(i)), ([(2 * i + i + 1) * 3 + i + 2], [i]), strict=True))
    assert inner.entries == 0 and outer.entries == 1
    same((inner(t(5), 2), [14]), (outer(t(5))[0], [(10 + 4) * 3 + 5]))         # by itself it is captured, and reads the new w
    fails(wrong, t(1), error=IndexError, match="out of range")
    untouched()
    power = jit(lambda x, n: x * power(x, n - 1) if n else x * 0 + 1)
    same(*((power(t(i), n), [i ** n]) for i in range(3) for n in (3, 2)))
    assert power.entries == 2


def test_one_function_in_two_threads(busy, each_call):
    """500 calls each, with one argument or two in turn, so that entries change under way; every other result is held."""
    f = jit(lambda x, y=None: (x + 1).sum(0) if y is None else x * y)

    def work(k):
        held = []
        for i in range(500):
            a = full(4, k * 1000 + i)
            if i % 3 == k:
                same((f(Tensor(a), Tensor(a)), a * a))
            else:
                held.append((f(Tensor(a)), (a + 1).sum()))
        same(*held)
    busy(lambda: work(0), lambda: work(1))
    assert f.entries == 2


def test_entries_pushed_out_by_another_thread(busy, monkeypatch):
    monkeypatch.setattr(MODULE, "LIMIT", 2)
    f = jit(lambda x, k: x + k)

    def work(first):
        for i in range(60):
            same((f(t(i), (first + i) % 4), [i + (first + i) % 4]))
            if i % 20 == 19:
                f.clear()
    busy(lambda: work(0), lambda: work(2))
    assert f.entries <= 2


def test_different_functions_in_two_threads(busy):
    """Captures and calls of one thread meet those of the other, on a tensor that both read."""
    w = t(2, 3)

    def work(k):
        for i in range(k, k + 25):
            f = jit(lambda x, i=i: x * w + i)
            same(*((f(t(n, n)), [2 * n + i, 3 * n + i]) for n in range(20)))
    busy(lambda: work(0), lambda: work(100))
    untouched()


def test_a_capture_keeps_its_changes_to_itself(busy):
    """While one thread captures a function that changes w, others see and use the old w."""
    w, x, inside, go = t(1, 1).realize(), t(5, 5), threading.Event(), threading.Event()
    change = jit(lambda x: (w.assign(x), inside.set(), go.wait(20), w * 2)[-1])
    read = jit(lambda x: x + w)
    same((read(x), [6, 6]))

    def look():
        try:
            assert inside.wait(20)
            same((w, [1, 1]), (w + 1, [2, 2]), (read(x), [6, 6]), (jit(lambda x: x - w)(x), [4, 4]))
        finally:
            go.set()
    busy(look, lambda: same((change(x), [10, 10])))
    same((w, [5, 5]), (read(x), [10, 10]))
    untouched()


def test_a_thread_that_looks_does_not_disturb(busy):
    """Reading w while another thread steps must not bring back an old value, nor meet one that is half made."""
    w, seen = t(0), []
    step = jit(lambda: [w.assign(w + 1)] and None)
    step()
    busy(lambda: [step() for _ in range(4000)], lambda: [seen.append(w.item()) for _ in range(4000)])
    assert w.item() == 4001 and seen == sorted(seen)


# ---- donated memory ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [3, 70_000])
def test_donated_state(size, each_call):
    """50 steps; the results take turns in the memory of the state, and those that are no state keep theirs."""
    step = jit(lambda s, g: (s + g, g * 2), donate=(0,))
    state, places, held = Tensor(full(size, 1)), set(), []
    for i in range(50):
        before = state
        state, other = step(state, Tensor(full(size, i)))
        held.append((other, full(size, 2 * i)))
        places.add(state._memory.address)
        donated(before)
        same((state, full(size, 1 + i * (i + 1) // 2)))
    same(*held)
    assert len(places) <= 4


def test_what_a_donated_tensor_says():
    step, s = jit(lambda s: s + 1, donate=(0,)), t(1).contiguous().realize()
    step(s)
    for use in (lambda: s.numpy(), lambda: s + 1, lambda: s.shape, lambda: step(s), lambda: s.assign(t(1)), lambda: s.realize(), lambda: jit(lambda: s + 1)(),
                lambda: repr(s), lambda: s.prepare(), lambda: s.__iadd__(1), lambda: jit(lambda x: x + s)(t(1))):
        fails(use, match="this tensor was donated")
    untouched()


def test_memory_that_others_have_is_not_taken(each_call):
    """Aliases, graphs, plans, captured functions and arrays that share the donated memory keep their values."""
    step, a = jit(lambda s: s + 1, donate=(0,)), full(2, 1)
    s, frozen = Tensor(a), Tensor(full(2, 5).tobytes(), dtype=dtypes.float32)
    for _ in range(6):
        s, frozen = step(s), step(frozen)
    alias, lazy, plan, outside = s.detach(), s * 10, (s * 100).prepare(), s.detach()
    read = jit(lambda x: x + outside)
    read(t(0, 0))
    for _ in range(6):
        s = step(s)
    plan.execute()
    same((s, [13, 13]), (frozen, [11, 11]), (alias, [7, 7]), (lazy, [70, 70]), (plan.outputs[0], [700, 700]), (read(t(1, 1)), [8, 8]))
    assert a.tolist() == [1, 1]                                 # the array's memory was not the tensor's to give


def test_what_is_donated_and_what_is_not():
    """Nested arguments, negative numbers, what is changed and returned; not the second of two arguments that were one at the first call."""
    step, state, old = jit(lambda k, s: {"w": s["w"] + k, "m": [s["m"][0] * 2]}, donate=(-1,)), {"w": t(1, 1), "m": [t(3)]}, []
    change, s = jit(lambda s, x: (s.__iadd__(x), s * 2), donate=(0,)), t(1)
    for i in range(8):
        old += [state["w"], state["m"][0], s]
        state, (s, twice) = step(t(1, 1), state), change(s, t(1))
        same((state["w"], [i + 2, i + 2]), (state["m"][0], [3 * 2 ** (i + 1)]), (s, [i + 2]), (twice, [2 * i + 4]))
    donated(*old)
    f, g, one, a = jit(lambda a, b: (a + b, a - b), donate=(0,)), jit(lambda a: a.sum(), donate=(0,)), t(1), t(1, 2)
    f(one, one)
    for _ in range(3):
        x, y = t(5), t(3)
        same(*zip(f(x, y), ([8], [2]), strict=True), (y, [3]))
        donated(x)
    same((g(a), 3), (a, [1, 2]))                                # no result can use it
    for call, message in (lambda: step(k=t(1), s=state), "argument -1 in a call with 0"), (lambda: jit(lambda x: x, donate=(3,))(t(1)), "argument 3"):
        fails(call, match=f"donate: there is no positional {message}")


# ---- plans ---------------------------------------------------------------------------------------------------------
def test_a_plan_reads_its_inputs_at_each_run(each_call):
    a, b, f = full(2, 1), full(2, 10), jit(lambda x: x + 1)
    x = Tensor(a)
    p, q = (x * 2 + Tensor(b)).prepare(), (f(t(1, 2)) * 10).prepare()
    out, = p.outputs
    for i in range(4):
        a[:] = i, i + 1
        f(t(-i, -i))                                            # must not take the memory of the result that q reads
        assert p.execute() is q.execute() is None
        same((out, [2 * i + 10, 2 * i + 12]), (q.outputs[0], [20, 30]))
    lazy = out + 1
    a[:] = 0
    x.assign(t(9, 9))                                           # a new value of the tensor, not of the memory that the plan reads
    p.execute()
    same((lazy, [11, 11]), (out, [10, 10]))                     # what is made of an output reads it when it is computed
    assert p.outputs[0] is out and sorted(y.numpy()[0] for y in p.inputs) == [0, 10]


def test_prepare_batch_and_the_facts(rng):
    a = rng.integers(-9, 9, (8, 8)).astype(np.float32)
    x = Tensor(a)
    s = x.sum(1, keepdim=True)
    p = Tensor.prepare_batch([x + s, s, (s.contiguous() * x).sum(), x])
    for _ in range(2):
        p.execute()
        sums = a.sum(1, keepdims=True)
        same(*zip(p.outputs, (a + sums, sums, (sums * a).sum(), a), strict=True))
        a += 1
    runs, m = p.execute_profiled(), p.memory
    assert [r.name for r in runs] == [k.name for k in p.kernels] and all(r.seconds >= 0 for r in runs) and len(runs) >= 2
    for k in p.kernels:
        assert k.name and k.text and "define" in k.source and k.assembly and k.bytes > 0 and "test_jit.py:" in k.line
        assert len(parse_opts(" ".join(k.opts))) == len(k.opts)
    assert m.inputs == 256 and m.outputs >= 256 + 32 + 4 + 256 and m.peak == m.inputs + m.outputs + m.arena + m.scratch and "peak" in str(m)
    plain = (x + 1).prepare(PrepareConfig(OptStrategy.none()))
    plain.execute()
    same((plain.outputs[0], a + 1))
    assert plain.kernels and all(k.opts == () and k.assembly for k in plain.kernels)
    fails(Tensor.prepare_batch, [], error=DTypeError, match="at least one")


def test_plans_of_what_needs_no_computing(each_call):
    a, empty = full(2, 5), np.zeros((0, 3), np.float32)
    x = Tensor(a)
    for y, want in ((Tensor(3.0), 3), (Tensor.ones(2, 2), np.ones((2, 2))), (x, a), ((x * 1).realize(), a), (Tensor(empty), empty), (Tensor(empty) + 1, empty),
                    (x.reshape(2, 1), a.reshape(2, 1)), (jit(lambda x: x + 0)(x), a)):
        p = y.prepare()
        for run in (p.execute, p.execute_profiled):
            run()
            same((p.outputs[0], want))
    p = x.prepare()
    p.execute()
    a[:] = 9
    same((p.outputs[0], [5, 5]))                                # memory of its own


def test_release(each_call):
    p = (Tensor(full(50_000, 1)) + 1).prepare()
    p.execute()
    before, (out,) = allocator.used, p.outputs
    p.release()
    p.release()
    fails(p.execute, match="released")
    fails(p.execute_profiled, match="released")
    same((out, full(50_000, 2)))
    assert p.kernels and all(k.source for k in p.kernels)
    del out
    p.outputs = ()
    assert before - allocator.used >= 200_000


@pytest.mark.parametrize("end", [lambda p: None, lambda p: p.release()])
def test_who_holds_execute_holds_the_memory(end, each_call):
    """The function of a plan that was dropped or released writes into memory that is still its own."""
    x = Tensor(np.eye(8, dtype=np.float32))
    p = Tensor.prepare_batch([(x.sum(1, keepdim=True).contiguous() * x).sum(), x + 1])
    sizes, execute = [m.nbytes for m in p._memory], p.execute
    end(p)
    del p, x
    gc.collect()
    taken = [Buffer.bytes(n) for n in sizes for _ in range(50)]
    [b.numpy((b.size,)).fill(171) for b in taken]
    execute()
    assert all((b.numpy((b.size,)) == 171).all() for b in taken)


def test_one_plan_in_two_threads(busy, each_call):
    a = np.arange(64, dtype=np.float32)
    x = Tensor(a)
    p = ((x.sum() + x).contiguous().sum() + x).prepare()
    work = lambda: [p.execute() if i % 5 else p.execute_profiled() for i in range(200)]
    busy(work, work)
    same((p.outputs[0], a.sum() * 65 + a))


# ---- memory --------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_calls_need_no_more_memory(each_call):
    """10,000 calls of functions with state, random numbers, donated, nested and large arguments."""
    w, x, big, state = t(0), t(1), Tensor(full(70_000, 1)), t(1)
    f = jit(lambda x: (w.assign(w + x), w * 2 + Tensor.rand(1), [x])[1:])
    g, h, large = jit(lambda s: s + 1, donate=(0,)), jit(lambda d: {"a": d["a"] + 1}), jit(lambda x: x + 1)

    def work(n):
        nonlocal state
        for i in range(n):
            f(x)
            state = g(state)
            if i % 5 == 0:
                h({"a": x}), large(big)

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    work(500)
    before = resident()
    work(10_000)
    assert resident() - before < 1 << 20
    same((w, [10_500]), (state, [10_501]))
