"""Tensors from data and from rules: what they hold, what is shared or copied, and the way back to Python and NumPy."""
from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lazy_tensor import Lazy, same
from morok import DeviceError, DTypeError, ShapeError, Tensor
from morok.dtype import dtypes
from morok.runtime.buffer import buffer_of
from morok.uop import Op

f32, i64 = np.float32, np.int64


def address(t: Tensor) -> int:
    found = buffer_of(t.uop)
    assert found is not None
    return found.address


def ops(t: Any) -> set[Op]:
    return {u.op for u in t.uop.toposort()}


# ---- from data -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("data,name,shape", [
    (True, "bool", ()), (3, "int64", ()), (2.5, "float32", ()), ([], "float32", (0,)), ([[], []], "float32", (2, 0)), ([1, 2], "int64", (2,)),
    ((1, 2.5), "float32", (2,)), ([[True, False]], "bool", (1, 2)), ([True, 2], "int64", (2,)), (np.float16(2), "float16", ()), (np.bool_(True), "bool", ()),
    (np.array(7, np.uint8), "uint8", ()), (np.zeros((0, 3)), "float64", (0, 3)), (b"\x01\xff", "uint8", (2,)), (memoryview(b"\x01\xff"), "uint8", (2,))])
def test_dtype_and_shape_of_data(data: Any, name: str, shape: tuple[int, ...]) -> None:
    t = Tensor(data)
    assert (t.dtype.name, t.shape, t.ndim) == (name, shape, len(shape))
    want = np.frombuffer(data, np.uint8) if isinstance(data, (bytes, memoryview)) else np.asarray(data)
    np.testing.assert_array_equal(t.numpy(), want)


def test_facts() -> None:
    t = Tensor(np.zeros((2, 3), np.float64))
    assert (t.numel(), t.element_size(), t.nbytes(), t.size(), t.size(-1), t.device) == (6, 8, 48, (2, 3), 3, "CPU")


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"])
def test_an_array_is_shared(name: str) -> None:
    a = np.arange(6).astype(name).reshape(2, 3)
    t = Tensor(a)
    assert address(t) == a.ctypes.data and t.dtype.name == name
    a[1, 2] = 0
    assert not t.numpy()[1, 2]


@pytest.mark.parametrize("a", [np.arange(4)[::-1], np.arange(6).reshape(2, 3).T, np.arange(8)[::2], np.arange(4).astype(">i4"), np.broadcast_to(f32(3), (2, 2)),
                               np.frombuffer(b"x" + np.arange(9, dtype=f32).tobytes(), f32, 9, 1), np.asfortranarray(np.ones((2, 3)))])
def test_other_layouts_are_copied(a: Any) -> None:
    t = Tensor(a)
    assert address(t) != a.ctypes.data and address(t) % a.dtype.itemsize == 0
    np.testing.assert_array_equal(t.numpy(), a)


def test_a_read_only_array_and_the_life_of_memory() -> None:
    a = np.arange(5.0)
    a.flags.writeable = False
    assert address(Tensor(a)) == a.ctypes.data
    t = Tensor(np.arange(1000.0))          # nothing else keeps the array
    np.testing.assert_array_equal(t.numpy(), np.arange(1000.0))


def test_dtype_argument() -> None:
    assert Tensor([1, 2], dtype="float16").tolist() == [1.0, 2.0] and Tensor([0.0, np.nan, 2.5], dtype=bool).tolist() == [False, True, True]
    assert Tensor([-1.5, 2.5], dtype="int8").tolist() == [-1, 2]
    assert Tensor(np.array([1.0, 1 + 2.0 ** -8]), dtype="bfloat16").tolist() == [1.0, 1.0] and Tensor(3, dtype="float64").dtype is dtypes.float64
    x = Tensor([1, 2])
    assert Tensor(x, dtype="int8").dtype is dtypes.int8 and Tensor(x).uop is x.uop
    assert Tensor([Tensor([1, 2]), Tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_bytes_are_elements_as_they_lie_in_memory() -> None:
    assert Tensor(b"\x01\x02\x03\x04", dtype="uint16").tolist() == [0x0201, 0x0403]
    assert Tensor(b"\x80\x3f", dtype="bfloat16").tolist() == [1.0]
    with pytest.raises(ShapeError, match="3 bytes"):
        Tensor(b"abc", dtype="int16")


@pytest.mark.parametrize("data,error", [([[1], [2, 3]], ShapeError), (["a"], DTypeError), ([1j], DTypeError), (None, DTypeError), ("abc", DTypeError), (object(), DTypeError),
                                        (np.array(["a"]), DTypeError), (np.array([1j]), DTypeError), ([2 ** 70], DTypeError), ([None, 1.0], DTypeError)])
def test_bad_data(data: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Tensor(data)


# ---- constants -----------------------------------------------------------------------------------------------------------
def test_constants() -> None:
    same(Lazy.full((2, 3), 7), np.full((2, 3), 7), dtypes.int64)
    same(Lazy.full(2, 1.5, dtype="float64"), [1.5, 1.5], dtypes.float64)
    same(Lazy.full((), True), True, dtypes.bool)
    same(Lazy.full((2,), np.int8(3)), [3, 3], dtypes.int64)
    same(Lazy.zeros(2, 3), np.zeros((2, 3)), dtypes.float32)
    same(Lazy.ones((3,), dtype="int8"), [1, 1, 1], dtypes.int8)
    same(Lazy.zeros([0, 2]), np.zeros((0, 2)))
    assert Lazy.empty(2, 2, dtype="uint8").shape == (2, 2) and Lazy.empty().shape == ()
    x = Lazy(np.zeros((2, 1), np.uint8))
    same(x.full_like(9), [[9], [9]], dtypes.uint8)
    same(x.ones_like(dtype="float64"), [[1], [1]], dtypes.float64)
    same(x.zeros_like(), [[0], [0]], dtypes.uint8)
    assert x.empty_like().shape == x.rand_like(dtype="float32").shape == x.shape
    for bad in (-1, 2.0, True, None, "2"):
        with pytest.raises(ShapeError, match="sizes"):
            Lazy.zeros(bad)
    with pytest.raises(DTypeError, match="-1"):
        Lazy.full((2,), -1, dtype="uint8")


def test_constants_and_sequences_take_no_memory() -> None:
    assert ops(Lazy.full((10 ** 6, 10 ** 6), 2.0)) == {Op.CONST, Op.RESHAPE, Op.EXPAND}
    for t in (Lazy.arange(10 ** 9), Lazy.linspace(0, 1, 10 ** 9), Lazy.eye(10 ** 5)):
        assert Op.IOTA in ops(t) and not ops(t) & {Op.BUFFER, Op.CONTIGUOUS}


# ---- sequences -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("args", [(5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (0, 10, 3), (-5, 5, 4), (2 ** 62, 2 ** 62 + 3), (5, -6, -5), (0, -1, -1), (3, 3)])
def test_whole_sequences(args: tuple[int, ...]) -> None:
    same(Lazy.arange(*args), np.arange(*args), dtypes.int64)
    if max(map(abs, args)) < 100:
        same(Lazy.arange(*args, dtype="int8"), np.arange(*args, dtype=np.int8), dtypes.int8)
        same(Lazy.arange(*args, dtype="float16"), np.arange(*args), dtypes.float16)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("start,stop,step", [(0.0, 1.0, 0.1), (0.5, 3.0, 1), (1.0, -1.0, -0.3), (0, 2.5, 0.5), (1e6, 1e6 + 2, 1 / 3), (2.0, 1.0, 0.5), (-0.7, 100, 0.7)])
def test_float_sequences(start: float, stop: float, step: float, dtype: str) -> None:
    """start + i * step, rounded: of the exact value in float32, of float64 arithmetic (one or two roundings) in float64."""
    got = Lazy.arange(start, stop, step, dtype=dtype).numpy()
    n = max(0, math.ceil((stop - start) / step))
    exact = [Fraction(start) + i * Fraction(step) for i in range(n)]
    assert got.shape == (n,)
    if dtype == "float32":
        assert got.tolist() == [float(f32(float(v))) for v in exact]
    np.testing.assert_allclose(got, [float(v) for v in exact], rtol=1e-7 if dtype == "float32" else 4e-16, atol=2e-16 * max(abs(start), abs(step)))


def test_limits_of_sequences() -> None:
    same(Lazy.arange(-128, 128, dtype="int8"), np.arange(-128, 128), dtypes.int8)
    same(Lazy.arange(-100, 101, 200, dtype="int8"), [-100, 100], dtypes.int8)
    assert Lazy.arange(2 ** 64 - 3, 2 ** 64, dtype="uint64").numpy().tolist() == [2 ** 64 - 3, 2 ** 64 - 2, 2 ** 64 - 1]
    same(Lazy.arange(np.int64(3)), [0, 1, 2], dtypes.int64)
    same(Lazy.arange(3.0), [0, 1, 2], dtypes.float32)
    same(Lazy.arange(1.0, 4.0, dtype="int16"), [1, 2, 3], dtypes.int16)
    for call, error in [(lambda: Lazy.arange(129, dtype="int8"), DTypeError), (lambda: Lazy.arange(-1, 2, dtype="uint8"), DTypeError),
                        (lambda: Lazy.arange(0, 1, 0.5, dtype="int32"), DTypeError), (lambda: Lazy.arange(0, 5, 0), ShapeError),
                        (lambda: Lazy.arange(math.inf), ShapeError), (lambda: Lazy.arange(0, math.nan), ShapeError), (lambda: Lazy.arange("3"), ShapeError)]:
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100, 1001])
def test_linspace_meets_both_ends(steps: int, dtype: str, rng: np.random.Generator) -> None:
    for start, stop in [(0.1, 0.7), (5, -5), (1, 1), (0, 1e-3), (-1e3, 1e3), *rng.uniform(-10, 10, (5, 2)).tolist()]:
        x = Lazy.linspace(start, stop, steps, dtype=dtype).numpy()
        assert x.dtype == dtype and x.shape == (steps,)
        assert x[0] == np.dtype(dtype).type(start) and (steps == 1 or x[-1] == np.dtype(dtype).type(stop))
        d = np.diff(x.astype(np.float64))
        assert (d >= 0).all() if stop >= start else (d <= 0).all()
        np.testing.assert_allclose(x, np.linspace(start, stop, steps), rtol=np.finfo(dtype).eps, atol=np.finfo(dtype).eps * abs(stop - start))


def test_linspace_without_end_and_empty() -> None:
    same(Lazy.linspace(0, 1, 4, endpoint=False), [0, 0.25, 0.5, 0.75], dtypes.float32)
    same(Lazy.linspace(2, 10, 1, endpoint=False), [2], dtypes.float32)
    same(Lazy.linspace(2, 10, 0), np.zeros(0), dtypes.float32)
    same(Lazy.linspace(0, 10, 5, dtype="int32"), [0, 2, 5, 7, 10], dtypes.int32)
    with pytest.raises(ShapeError, match="linspace"):
        Lazy.linspace(0, 1, -1)


@pytest.mark.parametrize("n,m", [(3, None), (2, 4), (4, 2), (0, None), (0, 3), (1, 1)])
def test_eye(n: int, m: int | None) -> None:
    same(Lazy.eye(n, m), np.eye(n, m), dtypes.float32)
    same(Lazy.eye(n, m, dtype="bool"), np.eye(n, m, dtype=bool), dtypes.bool)


def test_an_unknown_device_is_told_at_once() -> None:
    for make in (lambda d: Tensor([1], device=d), lambda d: Tensor.zeros(2, device=d), lambda d: Tensor.full((2,), 1, device=d), lambda d: Tensor.empty(2, device=d),
                 lambda d: Tensor.arange(2, device=d), lambda d: Tensor.linspace(0, 1, 2, device=d), lambda d: Tensor.eye(2, device=d), lambda d: Tensor.rand(2, device=d),
                 lambda d: Tensor.randn(2, device=d), lambda d: Tensor.randint(2, device=d), lambda d: Tensor.uniform(2, device=d), lambda d: Tensor([1]).to(d)):
        assert make("CPU").device == "CPU"
        with pytest.raises(DeviceError, match="TPU"):
            make("TPU")


# ---- the way back ---------------------------------------------------------------------------------------------------------
def test_numpy_is_a_copy() -> None:
    t = Tensor(np.arange(3))
    t.numpy()[0] = 9
    assert t.tolist() == [0, 1, 2]


def test_values_are_computed_once() -> None:
    t = Tensor([1, 2, 3]) + 1
    assert t.numpy().tolist() == [2, 3, 4] and t.uop.op is Op.BUFFER
    before = t.uop
    assert t.numpy().tolist() == [2, 3, 4] and t.realize() is t and t.uop is before
    a, b = Tensor([1]) + 1, Tensor([2]) * 3
    assert a.realize(b) is a and b.uop.op is Op.BUFFER and (a.item(), b.item()) == (2, 6)


def test_conversions() -> None:
    x = Tensor([[1, 2], [3, 4]])
    assert x.tolist() == [[1, 2], [3, 4]] and x.data().tolist() == [[1, 2], [3, 4]] and x.data().format in ("l", "q") and x.data().readonly
    assert Tensor(2.5).item() == 2.5 and Tensor([[True]]).item() is True and type(Tensor([3]).item()) is int
    assert (int(Tensor([7])), float(Tensor(0.5)), [10, 20, 30][Tensor(1)], bool(Tensor([0.0])), len(x)) == (7, 0.5, 20, False, 2)
    assert [r.tolist() for r in x] == [[1, 2], [3, 4]] and f"{Tensor(math.pi):.3f}" == "3.142" and repr(x) == f"{x}" == "<Tensor int64 (2, 2) on CPU>"
    assert np.asarray(x).dtype == i64 and np.array(x, dtype=f32).dtype == f32 and 3 in x and 5 not in x
    bf = Tensor([1.0, 3.0], dtype="bfloat16")
    assert bf.numpy().dtype == f32 and bf.tolist() == [1.0, 3.0] and bf.dtype is dtypes.bfloat16
    for call, error in [(lambda: Tensor([]).item(), ShapeError), (lambda: bool(x), ShapeError), (lambda: len(Tensor(1)), ShapeError), (lambda: iter(Tensor(1)), ShapeError),
                        (lambda: [1][Tensor(0.0)], DTypeError), (lambda: float(x), ShapeError)]:
        with pytest.raises(error):
            call()


def test_arrays_and_tensors_together() -> None:
    a, t = np.array([1.0, 2.0], f32), Tensor([3.0, 4.0])
    for got, want in [(a + t, [4, 6]), (t + a, [4, 6]), (a * t, [3, 8]), (f32(2) * t, [6, 8]), (a < t, [True, True]), (t - [1, 2], [2, 2])]:
        assert isinstance(got, Tensor) and got.tolist() == want
    assert (f32(2) * t).dtype is dtypes.float32


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "bool"])
def test_copies_and_pickles_hold_the_values(name: str) -> None:
    t = Tensor([1, 0, 1], dtype=name) + 0 if name != "bool" else Tensor([True, False, True])
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert other.tolist() == t.tolist() and other.dtype is t.dtype


def test_tensors_are_hashed_by_identity() -> None:
    a, b = Tensor([1]), Tensor([1])
    assert len({a, b, a}) == 2 and a in {a: 1} and (a == b).tolist() == [True] and (a != b).tolist() == [False]


# ---- in place ---------------------------------------------------------------------------------------------------------------
def test_in_place_operators() -> None:
    t = s = Tensor(np.array([7, -8], np.int32))
    before = t * 10
    t += 1
    t *= 3
    t -= 2
    assert t is s and t.tolist() == [22, -23] and t.dtype is dtypes.int32 and before.tolist() == [70, -80]
    t //= 4
    t %= 4
    assert t.tolist() == [1, 2]
    t <<= 3
    assert t.tolist() == [8, 16]
    t >>= 1
    t |= 1
    assert t.tolist() == [5, 9]
    t ^= 4
    t &= 12
    assert t.tolist() == [0, 12]
    t **= 2
    assert t.tolist() == [0, 144]
    x = Tensor([1.0, 2.0], dtype="float16")
    x /= 4
    x += Tensor([1, 2])
    assert x.tolist() == [1.25, 2.5] and x.dtype is dtypes.float16


def test_in_place_operators_keep_dtype_and_shape() -> None:
    t = Tensor([1, 2])
    with pytest.raises(DTypeError, match="use //= or cast"):
        t /= 2
    with pytest.raises(DTypeError, match="float32"):
        t += 0.5
    with pytest.raises(DTypeError, match="int64"):
        t8 = Tensor([1], dtype="int8")
        t8 += Tensor([1])
    with pytest.raises(ShapeError, match=r"\(2, 2\)"):
        t += Tensor([[1, 2], [3, 4]])
    assert t.tolist() == [1, 2]


def test_assign() -> None:
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    old = t + 0
    assert t.assign([5, 6]) is t and t.tolist() == [[5, 6], [5, 6]] and old.tolist() == [[1, 2], [3, 4]]
    assert t.assign(t.T + 1).tolist() == [[6, 6], [7, 7]] and t.assign(0).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        t.assign([1, 2, 3])
    with pytest.raises(DTypeError, match="float64"):
        t.assign(Tensor(np.zeros((2, 2))))


def test_copies_of_the_value() -> None:
    t = Tensor([1, 2])
    u, v = t.clone(), t.detach()
    t += 1
    assert u.tolist() == v.tolist() == [1, 2]
    assert (t + 1).contiguous().uop.op is Op.CONTIGUOUS and Tensor(np.arange(2)).contiguous().uop.op is Op.BUFFER


def test_a_node_remembers_the_line_that_made_it() -> None:
    here = (Tensor([1.25]) * 8.125).uop.line
    assert here is not None and "test_creation.py:" in here
