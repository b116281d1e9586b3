"""The generator against published vectors and a second implementation, and the distributions that are made of it."""
from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from lazy_tensor import Lazy
from morok import DTypeError, ShapeError, Tensor
from morok.dtype import dtypes
from morok.ops.random import threefry
from morok.uop import Op

MASK = 0xFFFFFFFF


@pytest.fixture(autouse=True)
def _seed() -> None:
    Lazy.manual_seed(1234)


def words(*values: int) -> list[Lazy]:
    return [Lazy(np.array([v], np.uint32)) for v in values]


@pytest.mark.parametrize("key,counter,want", [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)), ((MASK, MASK), (MASK, MASK), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0))])
def test_published_vectors(key: tuple[int, int], counter: tuple[int, int], want: tuple[int, int]) -> None:
    """The known answers of Threefry-2x32 with 20 rounds that come with the authors' code."""
    k0, k1, c0, c1 = words(*key, *counter)
    assert tuple(int(w.numpy()[0]) for w in threefry((k0, k1), c0, c1)) == want


def cipher(key: tuple[int, int], x: int, y: int) -> tuple[int, int]:
    """The same in plain integers."""
    ks = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = (x + ks[0]) & MASK, (y + ks[1]) & MASK
    for i in range(20):
        r = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) & MASK
        y = ((y << r | y >> (32 - r)) & MASK) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = (x + ks[n % 3]) & MASK, (y + ks[(n + 1) % 3] + n) & MASK
    return x, y


@pytest.mark.parametrize("seed", [0, 42, 2 ** 32 + 5, 2 ** 64 - 1, -1])
def test_words_are_the_cipher_of_element_and_call(seed: int) -> None:
    Lazy.manual_seed(seed)
    key = (seed & MASK, seed >> 32 & MASK)
    for call in range(2):
        a, b = Lazy._words((2, 3))
        got = list(zip(a.numpy().ravel().tolist(), b.numpy().ravel().tolist(), strict=True))
        assert got == [cipher(key, i, call) for i in range(6)]


@pytest.mark.parametrize("name,args,options", [
    ("rand", (3, 5), {}), ("rand", (17,), {"dtype": "float64"}), ("rand", (9,), {"dtype": "float16"}), ("randint", (40,), {"low": -5, "high": 6}),
    ("uniform", (12,), {"low": 2, "high": 3}), ("randint", (6,), {"low": 0, "high": 2 ** 64, "dtype": "uint64"})])
def test_compiled_numbers_are_the_interpreted_ones(name: str, args: Any, options: Any) -> None:
    want = [getattr(Lazy, name)(*args, **options).numpy() for _ in range(2)]
    Tensor.manual_seed(1234)
    for w in want:
        np.testing.assert_array_equal(getattr(Tensor, name)(*args, **options).numpy(), w)


def test_compiled_normal_numbers_agree() -> None:
    want = Lazy.randn(200).numpy()
    Tensor.manual_seed(1234)
    np.testing.assert_allclose(Tensor.randn(200).numpy(), want, rtol=2e-6, atol=2e-6)


def test_seeds_and_calls() -> None:
    a, b = Lazy.rand(50).numpy(), Lazy.rand(50).numpy()
    Lazy.manual_seed(1234)
    again = Lazy.rand(50)
    assert (again.numpy() == a).all() and (again.numpy() == a).all() and (a != b).mean() > 0.9       # a tensor's values do not change
    Lazy.manual_seed(1235)
    assert (Lazy.rand(50).numpy() != a).mean() > 0.9
    Lazy.manual_seed(1234)
    assert (Lazy.rand(5, 10).numpy().ravel() == a).all()


def test_every_thread_has_its_own_sequence() -> None:
    Lazy.manual_seed(7)
    first = Lazy.rand(4).numpy()
    got = []

    def work() -> None:
        Lazy.manual_seed(7)
        got.append(Lazy.rand(4).numpy())
        got.append(Lazy.rand(4).numpy())
    t = threading.Thread(target=work)
    t.start()
    t.join()
    assert (got[0] == first).all() and (got[1] == Lazy.rand(4).numpy()).all()


def test_calls_of_one_shape_share_their_graph() -> None:
    """Seed and call number lie in memory, so that a loop that draws numbers compiles one kernel."""
    a = Lazy.randn(8)
    Lazy.manual_seed(99)
    b = Lazy.randn(8)
    (p,), (q,) = ([u for u in t.uop.toposort() if u.op is Op.BUFFER] for t in (a, b))
    assert a.uop is not b.uop and a.uop.substitute({p: q}) is b.uop


@pytest.mark.parametrize("name,eps", [("float16", 2.0 ** -11), ("bfloat16", 2.0 ** -8), ("float32", 2.0 ** -24), ("float64", 2.0 ** -53)])
def test_numbers_lie_in_the_unit_interval(name: str, eps: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of all ones give the number next to 1; all zeros give 0."""
    x = Lazy.rand(1000, dtype=name)
    v = x.numpy().astype(np.float64)
    assert x.dtype.name == name and v.min() >= 0 and v.max() < 1 and (v / eps == np.floor(v / eps)).all()
    for word, want in ((MASK, 1 - eps), (0, 0.0)):
        monkeypatch.setattr(Lazy, "_words", classmethod(lambda cls, shape, word=word: tuple(words(word, word))))
        assert Lazy.rand(1, dtype=name).numpy()[0] == want


def check_uniform(u: Any, cells: int = 16) -> None:
    """Mean, variance, dependence of neighbours and counts per cell, each within 5 deviations of what is expected."""
    u, n = u.astype(np.float64).ravel(), u.size
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n) and abs(u.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    assert abs(np.mean((u[1:] - 0.5) * (u[:-1] - 0.5))) < 5 / 12 / math.sqrt(n)
    chi(np.bincount((u * cells).astype(int), minlength=cells))


def chi(counts: Any) -> None:
    expected, free = counts.sum() / len(counts), len(counts) - 1
    assert abs(((counts - expected) ** 2 / expected).sum() - free) < 5 * math.sqrt(2 * free)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers_are_uniform(name: str) -> None:
    x = Lazy.rand(20000, dtype=name).numpy().astype(np.float64)
    check_uniform(x + {"float16": 2.0 ** -12, "bfloat16": 2.0 ** -9}.get(name, 0))
    check_uniform(Lazy.rand(100, 200).numpy().T)
    check_uniform((Lazy.uniform(20000, low=-3, high=5).numpy() + 3) / 8)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_normal_numbers_are_normal(name: str) -> None:
    n = 40000
    x = Lazy.randn(n, dtype=name).numpy().astype(np.float64)
    assert abs(x.mean()) < 5 / math.sqrt(n) and abs(x.var() - 1) < 5 * math.sqrt(2 / n)
    assert abs((x ** 3).mean()) < 5 * math.sqrt(15 / n) and abs((x ** 4).mean() - 3) < 5 * math.sqrt(96 / n)
    for at in (-2, -1, 0.3, 1, 2.5):
        p = 0.5 * (1 + math.erf(at / math.sqrt(2)))
        assert abs((x < at).mean() - p) < 5 * math.sqrt(p * (1 - p) / n) + (0.002 if name == "bfloat16" else 0)
    assert abs(np.mean(x[1:] * x[:-1])) < 5 / math.sqrt(n) and abs(x).max() < 6.7
    y = Lazy.normal(n, mean=3, std=0.5).numpy().astype(np.float64)
    assert abs(y.mean() - 3) < 2.5 / math.sqrt(n) and abs(y.std() - 0.5) < 5 * 0.5 / math.sqrt(2 * n)


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_normal_numbers_are_finite_at_the_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in (0, MASK):
        monkeypatch.setattr(Lazy, "_words", classmethod(lambda cls, shape, word=word: tuple(words(word, word))))
        assert abs(float(Lazy.randn(1, dtype=name).numpy()[0])) < 8.7


@pytest.mark.parametrize("low,high,name", [(0, 10, "int32"), (-5, 6, "int64"), (250, 256, "uint8"), (-128, 128, "int8"), (7, 8, "int16"), (2 ** 63 - 3, 2 ** 63, "int64"),
                                          (2 ** 64 - 3, 2 ** 64, "uint64"), (-2 ** 63, -2 ** 63 + 2, "int64")])
def test_integers_are_in_range_and_equally_likely(low: int, high: int, name: str) -> None:
    x = Lazy.randint(8000, low=low, high=high, dtype=name)
    found, counts = np.unique(x.numpy(), return_counts=True)
    assert x.dtype.name == name and found.tolist() == list(range(low, high))
    if len(counts) > 1:
        chi(counts)


def test_integers_of_the_whole_range() -> None:
    for name, low, high in (("int64", -2 ** 63, 2 ** 63), ("uint64", 0, 2 ** 64)):
        x = [int(v) for v in Lazy.randint(4000, low=low, high=high, dtype=name).numpy()]
        chi(np.bincount([(v - low) >> 60 for v in x], minlength=16))
    assert Lazy.randint(3).dtype is dtypes.int32 and Lazy.uniform(50, low=0, high=3, dtype="int8").numpy().max() == 2


def test_uniform_never_gives_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 + (1 - 2**-24) is rounded to 2."""
    monkeypatch.setattr(Lazy, "_words", classmethod(lambda cls, shape: tuple(words(MASK, MASK))))
    for name in ("float16", "bfloat16", "float32", "float64"):
        assert 1 <= Lazy.uniform(1, low=1, high=2, dtype=name).numpy()[0] < 2
        assert Lazy.uniform(1, low=3, high=3, dtype=name).numpy()[0] == 3


def test_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Lazy(np.full(20000, 3.0, np.float32))
    assert x.dropout(0.25) is x
    monkeypatch.setattr(Lazy, "training", True, raising=False)
    y = x.dropout(0.25).numpy()
    assert sorted(set(y.tolist())) == [0.0, 4.0] and abs((y == 0).mean() - 0.25) < 5 * math.sqrt(0.1875 / 20000)
    assert x.dropout(0.0) is x and not x.dropout(1.0).numpy().any() and x.dropout().dtype is dtypes.float32
    assert Lazy(np.full(9, math.nan, np.float32)).dropout(1.0).numpy().tolist() == [0.0] * 9
    with pytest.raises(ShapeError, match="probability"):
        x.dropout(1.5)


def test_shapes_and_dtypes() -> None:
    assert Lazy.rand().shape == () and Lazy.randn((2, 3)).shape == (2, 3) and Lazy.randint([4], high=2).shape == (4,) and Lazy.rand(0, 3).numpy().shape == (0, 3)
    x = Lazy(np.zeros((2, 3), np.float16))
    assert x.rand_like().dtype is x.randn_like().dtype is dtypes.float16 and x.randn_like(dtype="float64").dtype is dtypes.float64 and x.rand_like().shape == (2, 3)
    assert Lazy.normal(3, dtype="float64").dtype is dtypes.float64


@pytest.mark.parametrize("call,error,text", [
    (lambda: Lazy.rand(2, dtype="int32"), DTypeError, "randint"), (lambda: Lazy.randn(2, dtype="int8"), DTypeError, "floats"), (lambda: Lazy.rand(-1), ShapeError, "-1"),
    (lambda: Lazy.randint(2, dtype="float32"), DTypeError, "integers"), (lambda: Lazy.randint(2, low=3, high=3), ShapeError, "low 3"),
    (lambda: Lazy.randint(2, high=300, dtype="uint8"), DTypeError, "255"), (lambda: Lazy.uniform(2, low=1, high=0), ShapeError, "low 1"),
    (lambda: Lazy.uniform(2, dtype="bool"), DTypeError, "floats"), (lambda: Lazy.rand(2 ** 32), ShapeError, "at most")])
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
