"""Promotion, weak Python numbers, names of dtypes, limits, casts of constants and of host data."""
from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

from lazy_tensor import Lazy, same
from morok import DTypeError, Tensor
from morok.dtype import NAMED, DType, dtypes, least_upper_dtype, promote, to_dtype

INTS = [dtypes.bool, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
WIDTHS = {"float16": (11, 5), "bfloat16": (8, 8), "float32": (24, 8), "float64": (53, 11)}


def one(d: DType) -> Lazy:
    return Lazy(np.ones(1), d)


@pytest.mark.parametrize("a,b", list(itertools.product(INTS, INTS)))
def test_integers_promote_as_in_the_array_api(a: DType, b: DType) -> None:
    assert promote(a, b).name == np.promote_types(a.name, b.name).name          # uint64 with a signed type is float64, as in NumPy


@pytest.mark.parametrize("a,b", list(itertools.product(FLOATS, FLOATS)))
def test_floats_promote_to_the_least_type_that_holds_both(a: DType, b: DType) -> None:
    need = [max(n) for n in zip(WIDTHS[a.name], WIDTHS[b.name], strict=True)]
    want = next(name for name, has in WIDTHS.items() if has[0] >= need[0] and has[1] >= need[1])
    assert promote(a, b).name == want


@pytest.mark.parametrize("a,b", list(itertools.product(INTS, FLOATS)))
def test_an_integer_and_a_float_give_the_float(a: DType, b: DType) -> None:
    assert promote(a, b) is promote(b, a) is b


def test_promotion_of_many() -> None:
    assert promote(dtypes.int8) is dtypes.int8
    assert promote(dtypes.bool, dtypes.uint8, dtypes.int8) is dtypes.int16
    assert least_upper_dtype(dtypes.float16, dtypes.bfloat16, dtypes.int64) is dtypes.float32


@pytest.mark.parametrize("d", [*INTS, *FLOATS])
def test_python_numbers_are_weak(d: DType) -> None:
    x = one(d)
    assert (x + True).dtype is (True + x).dtype is d
    assert (x + 1).dtype is (1 + x).dtype is (dtypes.int64 if d.is_bool else d)
    assert (x + 1.5).dtype is (1.5 + x).dtype is (d if d.is_float else dtypes.float32)
    assert (x * np.float64(2)).dtype is (x * 2.0).dtype and (x * np.int64(2)).dtype is (x * 2).dtype


@pytest.mark.parametrize("d", [*INTS, *FLOATS])
def test_true_division_gives_floats(d: DType) -> None:
    want = d if d.is_float else dtypes.float32
    assert (one(d) / one(d)).dtype is (one(d) / 2).dtype is (2 / one(d)).dtype is want
    assert one(d).exp().dtype is one(d).reciprocal().dtype is one(d).sigmoid().dtype is want


def test_defaults_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "default_float", dtypes.float64)
    monkeypatch.setattr(dtypes, "default_int", dtypes.int32)
    assert Tensor(1.5).dtype is Tensor([1.5]).dtype is Lazy.zeros(2).dtype is Lazy.rand(2).dtype is dtypes.float64
    assert Tensor(1).dtype is Tensor([1]).dtype is Lazy.arange(3).dtype is Lazy.full((2,), 1).dtype is dtypes.int32
    assert (one(dtypes.int8) / 2).dtype is (one(dtypes.bool) + 0.5).dtype is one(dtypes.int8).exp().dtype is dtypes.float64


@pytest.mark.parametrize("d", [d for d in INTS if not d.is_bool])
def test_integers_that_do_not_fit(d: DType) -> None:
    low, high = int(d.min), int(d.max)
    assert (one(d) * 0 + high).numpy()[0] == high and (one(d) * 0 + low).numpy()[0] == low
    for bad in (low - 1, high + 1, 10 ** 30):
        calls = [lambda bad=bad: one(d) + bad, lambda bad=bad: one(d) < bad, lambda bad=bad: Tensor(bad, dtype=d)]
        if abs(bad) < 2 ** 63:
            calls.append(lambda bad=bad: Tensor([bad], dtype=d))
        for call in calls:
            with pytest.raises(DTypeError) as e:
                call()
            assert str(bad) in str(e.value) and d.name in str(e.value) and str(high) in str(e.value)


def test_numbers_that_no_type_holds() -> None:
    with pytest.raises(DTypeError, match="1329 bits"):
        one(dtypes.float32) + 10 ** 400
    with pytest.raises(DTypeError, match="complex"):
        one(dtypes.float32) + 1j
    with pytest.raises(DTypeError, match="1.5 is no int8"):
        Tensor(1.5, dtype="int8")


@pytest.mark.parametrize("d", [*INTS, *FLOATS])
def test_names_of_dtypes(d: DType) -> None:
    assert to_dtype(d) is to_dtype(d.name) is d and getattr(dtypes, d.name) is d
    assert pickle.loads(pickle.dumps(d)) is d
    if d is not dtypes.bfloat16:
        t = np.dtype(d.name)
        assert to_dtype(t) is to_dtype(t.type) is to_dtype(t.newbyteorder(">")) is d


def test_other_names() -> None:
    assert [to_dtype(t) for t in (bool, int, float)] == [dtypes.bool, dtypes.int64, dtypes.float32]
    assert [to_dtype(n) for n in ("half", "double", "long", "uchar")] == [dtypes.float16, dtypes.float64, dtypes.int64, dtypes.uint8]
    assert (dtypes.float, dtypes.int, dtypes.half) == (dtypes.float32, dtypes.int32, dtypes.float16)
    for bad in ("float8", "", None, 3, complex, np.complex64, dtypes.index, dtypes.void):
        with pytest.raises(DTypeError) as e:
            to_dtype(bad)
        assert all(n in str(e.value) for n in NAMED)


def test_limits() -> None:
    assert (dtypes.int8.min, dtypes.int8.max, dtypes.uint16.min, dtypes.uint16.max) == (-128, 127, 0, 65535)
    assert (dtypes.int64.min, dtypes.uint64.max, dtypes.float16.max, dtypes.bool.max) == (-2 ** 63, 2 ** 64 - 1, math.inf, True)


FLOAT_VALUES = [math.nan, math.inf, -math.inf, 0.0, 0.9, -0.9, 127.5, 128.0, -128.9, -129.0, 300.0, 3e9, -3e9, 1e19, -1e19, 1e300]


@pytest.mark.parametrize("d", INTS)
def test_float_to_integer_saturates_everywhere(d: DType) -> None:
    """Folded, computed and on the host; the want is made of Python integers."""
    def want(v: float) -> int | bool:
        if d.is_bool:
            return v != 0
        return 0 if math.isnan(v) else int(d.min) if v <= d.min else int(d.max) if v >= d.max else int(v)
    expected = [want(v) for v in FLOAT_VALUES]
    x = np.array(FLOAT_VALUES)
    assert [Tensor(v, dtype="float64").cast(d).numpy().item() for v in FLOAT_VALUES] == expected
    assert Lazy(x).cast(d).numpy().tolist() == expected
    assert Tensor(x, dtype=d).tolist() == Tensor(FLOAT_VALUES, dtype=d).tolist() == expected
    assert Tensor(x).cast(d).tolist() == expected


def test_integer_to_integer_wraps() -> None:
    x = np.array([-129, -1, 0, 128, 255, 256, 2 ** 40 + 7])
    for d in INTS[1:]:
        want = [int(d.const(int(v))) for v in x]
        assert Lazy(x).cast(d).numpy().tolist() == want == [Tensor(int(v)).cast(d).item() for v in x]


def test_constants_are_rounded_once() -> None:
    odd = 2 ** 54 + 2 ** 30 + 1           # by way of float64 it would seem to lie between two float32
    assert Tensor(odd).cast("float32").item() == np.float32(np.int64(odd)) == 2 ** 54 + 2 ** 31
    assert Tensor(1 + 2.0 ** -11 + 2.0 ** -40, dtype="float64").half().item() == 1 + 2.0 ** -10


def test_bitcast() -> None:
    x = np.array([1.0, -0.0, np.inf], np.float32)
    same(Lazy(x).bitcast("uint32"), [0x3F800000, 0x80000000, 0x7F800000], dtypes.uint32)
    same(Lazy(x).bitcast(dtypes.int32).bitcast(dtypes.float32), x, dtypes.float32)
    same(Lazy(np.array([0x3F80], np.uint16)).bitcast("bfloat16"), [1.0])
    for bad in ("int64", "float16"):
        with pytest.raises(DTypeError, match="4 bytes"):
            Lazy(x).bitcast(bad)
    with pytest.raises(DTypeError, match="bool"):
        Lazy(np.array([2], np.uint8)).bitcast("bool")


def test_short_names_of_casts() -> None:
    x = one(dtypes.float32)
    got = [x.float(), x.double(), x.half(), x.bfloat16(), x.int(), x.long(), x.bool()]
    assert [t.dtype.name for t in got] == ["float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"]
    assert x.is_floating_point() and not x.int().is_floating_point()
