"""Movement methods against NumPy."""
from __future__ import annotations

import math

import numpy as np
import pytest
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import DTypeError, ShapeError
from morok.uop import Op

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = Lazy(A)


@pytest.mark.parametrize("shape", [(6, 4), (-1,), (2, -1, 2), (24, 1, 1), (None, 12)])
def test_reshape(shape: tuple[int | None, ...]) -> None:
    same(X.reshape(shape), A.reshape([A.shape[i] if s is None else s for i, s in enumerate(shape)]))
    same(X.view(*shape), A.reshape([A.shape[i] if s is None else s for i, s in enumerate(shape)]))


def test_reshape_merges() -> None:
    assert X.reshape(6, 4).reshape(2, 12).uop.src == (X.uop,)
    assert X.reshape(6, 4).reshape(2, 3, 4).uop is X.uop


@pytest.mark.parametrize("shape", [(5, 5), (-1, -1), (-1, 7), (-2, -12), (2, 3, 4, None)])
def test_reshape_errors(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\)"):
        X.reshape(shape)


def test_reshape_of_nothing() -> None:
    same(Lazy(np.ones((0, 4), np.float32)).reshape(2, 0, 2), np.ones((2, 0, 2)))
    with pytest.raises(ShapeError):
        Lazy(np.ones((0, 4), np.float32)).reshape(0, -1)


def test_orders() -> None:
    same(X.permute(2, 0, 1), A.transpose(2, 0, 1))
    same(X.permute((0, -1, 1)), A.transpose(0, 2, 1))
    same(X.transpose(), A.transpose(1, 0, 2))
    same(X.transpose(-2, -1), A.transpose(0, 2, 1))
    same(X.mT, A.transpose(0, 2, 1))
    same(Lazy(A[0]).T, A[0].T)
    same(Lazy(A[0, 0]).T, A[0, 0])
    same(X.flip(0, 2), A[::-1, :, ::-1])
    same(X.flip((-1,)), A[..., ::-1])
    for bad in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with pytest.raises(ShapeError):
            X.permute(bad)
    with pytest.raises(ShapeError, match="twice"):
        X.flip(0, -3)


def test_sizes_of_one() -> None:
    one = Lazy(A.reshape(1, 2, 1, 12))
    same(one.squeeze(), A.reshape(2, 12))
    same(one.squeeze(0), A.reshape(2, 1, 12))
    same(one.squeeze(1), A.reshape(1, 2, 1, 12))
    same(one.squeeze((0, 2)), A.reshape(2, 12))
    same(X.unsqueeze(0).unsqueeze(-1), A[None, ..., None])
    same(X.unsqueeze(-2), A[:, :, None])
    with pytest.raises(ShapeError):
        X.unsqueeze(4)
    same(X.flatten(), A.reshape(-1))
    same(X.flatten(1), A.reshape(2, 12))
    same(Lazy(np.float32(3)).flatten(), [3])
    same(X.unflatten(2, (2, -1)), A.reshape(2, 3, 2, 2))
    with pytest.raises(ShapeError):
        X.unflatten(2, (3, -1))


def test_expand() -> None:
    same(Lazy([1, 2]).reshape(2, 1).expand(3, -1, 4), np.broadcast_to(np.array([1, 2])[:, None], (3, 2, 4)))
    with pytest.raises(ShapeError, match="expand"):
        X.expand(2, 3, 5)
    with pytest.raises(ShapeError):
        X.expand(3, 4)


def test_shrink_split_chunk() -> None:
    same(X.shrink(((0, 1), None, (1, 3))), A[:1, :, 1:3])
    assert X.shrink((None, None, (0, 4))) is X
    for bad in (((0, 1),), (None, (0, 4), None), (None, (2, 1), None)):
        with pytest.raises(ShapeError, match="shrink"):
            X.shrink(bad)
    for got, cuts in ((X.split(3, 2), [3]), (X.split([1, 0, 3], 2), [1, 1]), (X.chunk(2, 2), [2]), (X.chunk(3, 2), [2]), (X.chunk(9, 0), [1])):
        for g, w in zip(got, np.split(A, cuts, 0 if cuts == [1] else 2), strict=True):
            same(g, w)
    with pytest.raises(ShapeError, match="add up"):
        X.split([1, 2], 2)


@pytest.mark.parametrize("padding", [((1, 2), None, (0, 3)), ((-1, 2), (0, 0), (-1, -2)), ((0, 0), (-3, 2), (0, 0))])
@pytest.mark.parametrize("value", [0, 7, -math.inf, math.nan])
def test_pad(padding: tuple[tuple[int, int] | None, ...], value: float) -> None:
    pairs = [p or (0, 0) for p in padding]
    flat = [n for p in reversed(pairs) for n in p]
    kept = A[tuple(slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, A.shape, strict=True))]
    want = np.pad(kept, [(max(b, 0), max(a, 0)) for b, a in pairs], constant_values=value)
    same(X.pad(padding, value=value), want)
    same(X.pad(flat, value=value), want)


def test_pad_values_inside_stay() -> None:
    special = np.array([np.inf, -np.inf, np.nan, -0.0], np.float32)
    got = Lazy(special).pad((1, 1), value=-math.inf).numpy()
    np.testing.assert_array_equal(got[1:-1].view(np.uint32), special.view(np.uint32))
    assert math.copysign(1, Lazy([1.0]).pad((1, 0), value=-0.0).numpy()[0]) == -1


def test_pad_of_nothing_and_errors() -> None:
    same(Lazy(np.zeros(0, np.float32)).pad((2, 2), value=7), [7, 7, 7, 7])
    same(Lazy(np.array([3], np.int32)).pad((1, 1), value=dtypes.int32.min), [-2**31, 3, -2**31], dtypes.int32)
    for bad in ((1,), (1, 1) * 4, ((1, 1),)):
        with pytest.raises(ShapeError, match="pad"):
            X.pad(bad)
    with pytest.raises(DTypeError, match="int32"):
        Lazy(np.array([3], np.int32)).pad((1, 1), value=-math.inf)
    with pytest.raises(ShapeError, match="negative"):
        Lazy([1.0]).pad((-1, -1))


@pytest.mark.parametrize(("mode", "theirs"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_pad_modes(mode: str, theirs: str) -> None:
    pairs = ((1, 0), (2, 1), (0, 3))
    same(X.pad(pairs, mode=mode), np.pad(A, pairs, mode=theirs))        # type: ignore[arg-type, call-overload]


def test_pad_mode_errors() -> None:
    with pytest.raises(ShapeError, match="reflect"):
        X.pad((0, 4), mode="reflect")
    with pytest.raises(ShapeError, match="circular"):
        X.pad((0, 5), mode="circular")
    with pytest.raises(ShapeError, match="mirror"):
        X.pad((0, 1), mode="mirror")                                    # type: ignore[arg-type]


def test_cat() -> None:
    same(X.cat(X, dim=1), np.concatenate([A, A], 1))
    same(Lazy.cat([X, X, X], dim=-1), np.concatenate([A, A, A], -1))    # type: ignore[arg-type]
    many = X.cat(*[X] * 5)
    assert many.uop.op is Op.CAT and len(many.uop.src) == 6
    same(Lazy(np.ones((2, 0))).cat(Lazy(np.ones((2, 3))), dim=1), np.ones((2, 3)))
    same(Lazy(np.ones((0, 3))).cat(Lazy(np.ones((0, 3)))), np.ones((0, 3)))
    same(Lazy(np.array([1], np.int32)).cat(Lazy([2.5])), [1, 2.5], dtypes.float32)
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\).*\(24,\).*dim 0"):
        X.cat(X.flatten())
    with pytest.raises(ShapeError, match="dim 0"):
        X.cat(X.transpose(-1, -2))


def test_stack_repeat_roll() -> None:
    for dim in (0, 1, 3, -1):
        same(X.stack(X, X, dim=dim), np.stack([A, A, A], dim))
    with pytest.raises(ShapeError, match="equal"):
        X.stack(X.flatten())
    same(X.repeat(2, 1, 3), np.tile(A, (2, 1, 3)))
    same(X.repeat((2, 1, 1, 0)), np.tile(A, (2, 1, 1, 0)))
    same(X.repeat_interleave(2, 1), np.repeat(A, 2, 1))
    same(X.repeat_interleave(3), np.repeat(A, 3))
    same(X.roll(5, 1), np.roll(A, 5, 1))
    same(X.roll((-1, 2), (0, 2)), np.roll(A, (-1, 2), (0, 2)))
    same(X.roll(7), np.roll(A, 7))
    with pytest.raises(ShapeError):
        X.repeat(2, 2)
    with pytest.raises(ShapeError):
        X.roll((1, 2), 0)


@pytest.mark.parametrize("diagonal", range(-4, 6))
def test_triangles(diagonal: int) -> None:
    same(X.tril(diagonal), np.tril(A, diagonal))
    same(X.triu(diagonal), np.triu(A, diagonal))
    m = np.full((3, 5), np.nan, np.float32)
    same(Lazy(m).tril(diagonal), np.where(np.tri(3, 5, diagonal, bool), m, 0))
    for a, b in ((0, 1), (2, 0), (-1, -2)):
        same(X.diagonal(diagonal, a, b), np.diagonal(A, diagonal, a, b))


def test_diag_unfold_meshgrid() -> None:
    same(Lazy([1, 2, 3]).diag(), np.diag([1, 2, 3]))
    same(Lazy(A[0]).diag(), np.diag(A[0]))
    same(X.unfold(2, 2, 1), np.lib.stride_tricks.sliding_window_view(A, 2, 2))
    same(X.unfold(1, 2, 2), np.lib.stride_tricks.sliding_window_view(A, 2, 1)[:, ::2])
    with pytest.raises(ShapeError, match="unfold"):
        X.unfold(0, 3, 1)
    with pytest.raises(ShapeError):
        Lazy([1]).triu()
    for indexing in ("ij", "xy"):
        ours = Lazy([1, 2, 3]).meshgrid(Lazy([4, 5]), indexing=indexing)        # type: ignore[arg-type]
        for got, want in zip(ours, np.meshgrid([1, 2, 3], [4, 5], indexing=indexing), strict=True):    # type: ignore[call-overload]
            same(got, want)
