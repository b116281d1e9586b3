"""Reading and writing by position against NumPy, and the public bug reports in this area."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import DTypeError, IndexingError, ShapeError
from morok.uop import Op

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
X = Lazy(A)
I2, I3 = np.array([2, 0]), np.array([[1, -1, 0], [2, 3, -4]])

BASIC: list[Any] = [
    0, -1, (1, 2, 3), (0, -1), slice(None), slice(1, None), slice(None, None, -1), (slice(None), slice(None, None, 2)),
    (slice(2, 0, -1), 1), (..., 2), (1, ..., 2),
    (..., slice(3, 0, -2)), None, (None, 1, None), (slice(None), None, ..., None), (slice(5, 1),), slice(-2, None),
    (slice(0, -1), 0, slice(-3, -1)), (...,), (),
    (slice(None, None, 7),), (0, slice(100), slice(-100, 2)), np.int64(1)]
ADVANCED: list[Any] = [
    [0, 2], I2, (slice(None), I3), (I2, I2), (I2, slice(None), I2), (0, slice(None), I2), (slice(None), 0, I2), (I2, 1),
    (slice(None), I2, I2), (..., I2), (None, I2),
    (I2, None, I2), (slice(None), None, I2), (slice(None, None, -1), I2, slice(1, 3)), (I2[:, None], I2),
    (slice(1, 2), I3, slice(None, None, 2)), ([True, False, True],),
    (slice(None), [True, False, True, True], 0), np.nonzero(A % 7 == 0), (0, I2, None, I2),
    (I3 % 3, slice(None), I3), [1], (slice(None), [0]), [[0], [1]],
    (slice(None), np.zeros((2, 0), np.int64)), np.array(1), (np.array(1), slice(None), I2), A > 20, (0, A[0] > 3),
    (..., [False, True, False, True, True])]


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=repr)
def test_reading(index: Any) -> None:
    same(X[index], A[index])


@pytest.mark.parametrize("index", ADVANCED, ids=repr)
def test_reading_is_at_most_one_gather(index: Any) -> None:
    ops = [u.op for u in X[index].uop.toposort()]
    assert ops.count(Op.GATHER) == 1 and Op.REDUCE_AXES not in ops


@pytest.mark.parametrize("index", BASIC + ADVANCED, ids=repr)
def test_writing(index: Any) -> None:
    rng = np.random.default_rng(0)
    for value in (7, rng.standard_normal(A[index].shape).astype(np.float32), rng.standard_normal(A[index].shape[-1:]).astype(np.float32)):
        ours, theirs = Lazy(A), A.copy()
        ours[index] = value if isinstance(value, int) else Lazy(value)
        theirs[index] = value
        same(ours, theirs, dtypes.float32)
    same(X, A)


def test_writing_slices_is_elementwise() -> None:
    for index in BASIC:
        x = Lazy(A)
        x[index] = Lazy([1.0])
        assert not {u.op for u in x.uop.toposort()} & {Op.GATHER, Op.REDUCE_AXES, Op.CAT}


@pytest.mark.parametrize("lazy", [False, True])
def test_index_types(lazy: bool) -> None:
    wrap: Callable[[Lazy], Lazy] = Lazy.lazy if lazy else lambda t: t
    a = np.arange(300)
    for dt in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        i = np.array([100, 2, 0], dt)
        same(Lazy(a)[wrap(Lazy(i))], a[i])
    same(Lazy(a)[wrap(Lazy(np.array([-1, -128], np.int8)))], [299, 172])
    same(Lazy(a)[wrap(Lazy(np.array(5)))], 5)


def test_late_invalid_indices_read_zero() -> None:
    x = Lazy([10, 20, 30])
    same(x[Lazy([0, 3, -1, -4, 2**40]).lazy()], [10, 0, 30, 0, 0])
    same(x[Lazy(np.array([2**64 - 1, 1, 2**63], np.uint64)).lazy()], [0, 20, 0])
    same(x.gather(0, Lazy([3, -3]).lazy()), [0, 10])


def test_gather_negative_and_outside() -> None:
    x = Lazy([10.0, 20.0, 30.0])
    same(x[[0, -1, -3]], [10, 30, 10])
    same(x.gather(0, Lazy([-1, 1])), [30, 20])
    same(x[Lazy(np.array([2], np.uint8))], [30])
    same(x[Lazy(np.zeros(0, np.int64))], np.zeros(0))
    for bad in ([3], [-4], [0, 3], Lazy([3]), Lazy([-4])):
        with pytest.raises(IndexingError, match="axis 0 of size 3") as caught:
            x[bad]
        assert isinstance(caught.value, IndexError)
    m = Lazy(np.arange(6).reshape(2, 3))
    same(m[[1, 0], [2, -1]], [5, 2])
    same(m[:, [2, 2, 0]], [[2, 2, 0], [5, 5, 3]])
    same(m[[[0], [1]], [0, 2]], [[0, 2], [3, 5]], dtypes.int64)


@pytest.mark.parametrize(("index", "error", "match"), [
    (3, IndexingError, "index 3 .*axis 0 of size 3"), ((0, -5), IndexingError, "index -5 .*axis 1 of size 4"),
    ((0, 0, 0, 0), IndexingError, "too many"),
    ((..., 0, ...), IndexingError, "Ellipsis"), ("a", IndexingError, "str"), (1.5, IndexingError, "float"),
    (slice(None, None, 0), IndexingError, "step"),
    (slice(0.5), IndexingError, "slice"), (True, IndexingError, "bool"), (Lazy([0.0, 1.0]), DTypeError, "float32"),
    ([True, False], IndexingError, "mask"),
    (([0, 1], [0, 1, 2]), ShapeError, "broadcast"), (slice(Lazy([1]), None), IndexingError, "slice"),
    ((slice(None), [4]), IndexingError, "index 4 .*axis 1 of size 4")])
def test_index_errors(index: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        X[index]
    with pytest.raises(error, match=match):
        x = Lazy(A)
        x[index] = 1


def test_masks_that_are_not_computed() -> None:
    x = Lazy(A)
    late = (x > 20).lazy()
    with pytest.raises(IndexingError, match="where or masked_fill"):
        x[late]
    x[late] = -1
    same(x, np.where(A > 20, -1, A))
    y = Lazy(A)
    y[(Lazy([1, 0, 1]) > 0).lazy()] = Lazy(A[0, 0])
    same(y, np.where(np.array([True, False, True])[:, None, None], A[0, 0], A))
    with pytest.raises(IndexingError, match="how many"):
        y[late] = Lazy([1.0, 2.0])


def test_slices_with_negative_steps() -> None:
    x = Lazy(np.arange(6, dtype=np.float32))
    same(2 * x[::-1], [10, 8, 6, 4, 2, 0])
    y = Lazy(np.zeros(6, np.float32))
    y[::-1] = 2 * x[::-1]
    same(y, [0, 2, 4, 6, 8, 10])
    z = Lazy(np.ones(6, np.float32))
    z[::-2] += x[::2]
    same(z, [1, 5, 1, 3, 1, 1])
    m = Lazy(np.arange(12, dtype=np.float32).reshape(3, 4))
    same(m[0:-1, 0], [0, 4])
    same(m[::-1, ::-2], [[11, 9], [7, 5], [3, 1]])
    same((m[::-1] * m[:, ::-1]).sum(), 220)
    same(m[:, ::-1].max(1), [3, 7, 11])
    same(m[::-1].T @ Lazy(np.ones(3, np.float32)), [12, 15, 18, 21])
    same(m[5:1], np.zeros((0, 4)))
    same(m[-2:, -3:-1], [[5, 6], [9, 10]])


def test_writes_are_values() -> None:
    x = Lazy([1, 2, 3])
    r = x * 10
    x[:1] = 9
    same(r, [10, 20, 30])
    same(x, [9, 2, 3])
    b = Lazy([1, 2, 3, 4, 5, 6])
    left, right = b[:3], b[3:]
    b[:3] = right
    b[3:] = left
    same(b, [4, 5, 6, 1, 2, 3])
    s, q = Lazy(np.arange(5)), Lazy(np.arange(5))
    s[1:] = s[:-1]
    q[:-1] = q[1:]
    same(s, [0, 0, 1, 2, 3])
    same(q, [1, 2, 3, 4, 4])


def test_written_values() -> None:
    x = Lazy(np.array([1, 2, 3], np.int8))
    x[0] = 2.9
    x[1:] = Lazy([300, -1])
    same(x, [2, 44, -1], dtypes.int8)
    x[[0, 1, 0, 0]] = Lazy([1, 2, 3, 4])
    same(x, [4, 2, -1])
    x[Lazy([-1, 7]).lazy()] = 5
    same(x, [4, 2, 5])
    x[()] = Lazy([[[7, 8, 9]]])
    same(x, [7, 8, 9])
    for bad in (Lazy([1, 2]), Lazy(np.ones((2, 3)))):
        with pytest.raises(ShapeError, match="broadcast"):
            x[:] = bad
    with pytest.raises(ShapeError, match="broadcast"):
        x[[0, 1]] = Lazy([1, 2, 3])


def test_gather_and_kin() -> None:
    i = np.array([[[0, 2, 1]], [[2, -2, 0]]])
    for dim in range(3):
        at = list(np.indices(i.shape))
        at[dim] = i
        same(X.gather(dim, Lazy(i)), A[tuple(at)])
    same(X.take_along_dim(Lazy(np.argsort(-A, 1)), 1), np.take_along_axis(A, np.argsort(-A, 1), 1))
    same(X.take_along_dim(Lazy([[[1]]]), -1), np.take_along_axis(A, np.array([[[1]]]), -1))
    same(X.take_along_dim(Lazy([59, 0])), [59, 0])
    same(X.index_select(1, Lazy([3, 0, 3])), A[:, [3, 0, 3]])
    for bad in (Lazy([1]), Lazy(np.zeros((4, 1, 1), np.int64))):
        with pytest.raises(ShapeError, match="gather"):
            X.gather(1, bad)
    with pytest.raises(IndexingError, match="index 4 .*size 4"):
        X.gather(1, Lazy([[[4]]]))
    with pytest.raises(DTypeError):
        X.gather(1, Lazy([[[0.0]]]))


def test_one_hot() -> None:
    h = Lazy(np.array([0, 44, 255], np.uint8)).one_hot(300)
    same(h.sum(1), [1, 1, 1], dtypes.int64)
    same(h.argmax(1), [0, 44, 255])
    same(Lazy([-1, 2, 3]).one_hot(3), [[0, 0, 0], [0, 0, 1], [0, 0, 0]], dtypes.int64)
    same(Lazy(np.array([2**64 - 1, 1], np.uint64)).one_hot(2), [[0, 0], [0, 1]])
    same(Lazy([[1], [0]]).one_hot(), [[[0, 1]], [[1, 0]]])
    with pytest.raises(ShapeError, match="num_classes"):
        Lazy([1]).lazy().one_hot()
    with pytest.raises(DTypeError):
        Lazy([1.0]).one_hot(3)


def test_masked() -> None:
    same(X.masked_fill(Lazy(A > 7), -1), np.where(A > 7, -1, A), dtypes.float32)
    same(X.masked_select(Lazy(A > 7)), A[A > 7])
    same(X.masked_select(Lazy(A[0, 0] > 2)), A[np.broadcast_to(A[0, 0] > 2, A.shape)])
    with pytest.raises(DTypeError):
        X.masked_fill(Lazy([1.0]), 0)
    with pytest.raises(IndexingError):
        X.masked_select((X > 7).lazy())


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices, Nones, one Ellipsis, masks and integer arrays that broadcast, in any order."""
    out: list[Any] = []
    block, axis, dots = tuple(rng.choice([1, 2, 3], rng.integers(0, 3))), 0, False
    while axis < len(shape) and rng.random() < 0.85:
        n, kind = shape[axis], rng.integers(0, 8)
        if kind == 0:
            out.append(None)
            continue
        if kind == 1 and not dots:
            dots = True
            out.append(Ellipsis)
            axis += int(rng.integers(0, len(shape) - axis + 1))
            continue
        if kind in (2, 3) and n:
            out.append(int(rng.integers(-n, n)))
        elif kind in (4, 5):
            bounds = [None if rng.random() < 0.4 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
            out.append(slice(*bounds, int(rng.choice([1, 2, 3, -1, -2]))))
        elif kind == 6 and n:
            out.append(rng.integers(-n, n, tuple(int(rng.choice([1, m])) for m in block)))
        elif kind == 7 and n:
            out.append(rng.random(n) < 0.5)
        else:
            out.append(slice(None))
        axis += 1
    return tuple(out)


@pytest.mark.parametrize("seed", range(8))
def test_random_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5], rng.integers(0, 5), p=[.05, .2, .25, .3, .2]))
        a, index = rng.standard_normal(shape).astype(np.float32), random_index(rng, shape)
        try:
            want = a[index]
        except IndexError:                                    # masks that do not broadcast with the other arrays
            with pytest.raises((IndexingError, ShapeError)):
                Lazy(a)[index]
            continue
        same(Lazy(a)[index], want)
        ours, theirs = Lazy(a), a.copy()
        value = rng.standard_normal(want.shape[int(rng.integers(0, want.ndim + 1)):]).astype(np.float32)
        ours[index] = Lazy(value)
        theirs[index] = value
        same(ours, theirs)
