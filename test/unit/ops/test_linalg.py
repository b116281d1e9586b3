"""Matrix products and einsum against NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lazy_tensor import Lazy, same

from morok.dtype import dtypes
from morok.errors import DTypeError, ShapeError
from morok.uop import Op

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("a", "b"), [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
                                      ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1, 4), (4, 1)), ((3, 0), (0, 2)),
                                      ((0, 3), (3, 2))])
def test_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = normal(*a), normal(*b)
    want = x.astype(np.float64) @ y.astype(np.float64)
    for got in (Lazy(x) @ Lazy(y), Lazy(x).dot(Lazy(y)), Lazy(y).matmul(Lazy(x), reverse=True)):
        same(got, want, dtypes.float32, 1e-6)


@pytest.mark.parametrize(("a", "b"), [((3, 4), (3, 4)), ((4,), (3,)), ((), (3,)), ((3,), ()), ((2, 3, 4), (3, 4, 5))])
def test_shape_errors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        Lazy(normal(*a)) @ Lazy(normal(*b))
    assert str(caught.value).startswith(f"cannot matmul {a} and {b}: ")


def test_one_reduction_in_the_order_m_n_k() -> None:
    ops = [u for u in (Lazy(normal(3, 4)) @ Lazy(normal(4, 5))).uop.toposort() if u.op in (Op.MUL, Op.REDUCE_AXES, Op.CONTIGUOUS)]
    assert [(u.op, u.shape) for u in ops] == [(Op.MUL, (3, 5, 4)), (Op.REDUCE_AXES, (3, 5, 1))]


def test_dtypes() -> None:
    half = Lazy(np.ones(4096, np.float16))
    same(half.dot(half), 4096, dtypes.float16)
    same(half.dot(half, dtype=dtypes.float32), 4096, dtypes.float32)
    assert all(u.dtype is dtypes.float32 for u in half.dot(half).uop.toposort() if u.op in (Op.MUL, Op.REDUCE_AXES))
    same(half.cast(dtypes.bfloat16).dot(half), 4096, dtypes.float32)
    same(Lazy(np.array([100, 100], np.int8)).dot(Lazy(np.array([100, 1], np.int8)), dtype=dtypes.int32), 10100, dtypes.int32)
    same(Lazy([1, 2]) @ Lazy([3, 4]), 11, dtypes.int64)
    same(Lazy([1, 2]) @ Lazy([3.5, 4.0]), 11.5, dtypes.float32)
    same(Lazy(np.array([1.0, 2.0])) @ Lazy([3.5, 4.0]), 11.5, dtypes.float64)


def test_linear_and_outer() -> None:
    x, w, b = normal(2, 3), normal(3, 4), normal(4)
    same(Lazy(x).linear(Lazy(w), Lazy(b)), x.astype(np.float64) @ w + b, None, 1e-6)
    same(Lazy(x).linear(Lazy(x[0])), x * x[0])
    same(Lazy(b).outer(Lazy(x[0])), np.outer(b, x[0]))
    with pytest.raises(ShapeError, match="vectors"):
        Lazy(x).outer(Lazy(b))


def test_strided_operands() -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.float32).reshape(4, 2)
    A, B = Lazy(a), Lazy(b)
    same(A[:, ::2] @ B[::2], [[8, 10], [24, 34], [40, 58]])
    same(A.T @ A, [[80, 92, 104, 116], [92, 107, 122, 137], [104, 122, 140, 158], [116, 137, 158, 179]])
    same(A[::-1] @ B, [[124, 162], [76, 98], [28, 34]])
    same(A[2:3] @ B, [[124, 162]])
    same(A[:, 1:3].T @ A[:, 0], [92, 104])
    same(Lazy(np.arange(24, dtype=np.float32).reshape(1, 3, 8))[:, 2, :] @ Lazy(np.ones((8, 1), np.float32)), [[156]])
    same(Lazy([1.0]).expand(2, 4) @ B, [[12, 16], [12, 16]])
    same(A[:3, :3].diagonal() @ A[:, 0], 100)


def test_einsum_with_repeats() -> None:
    x = Lazy(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    y, m = Lazy(np.arange(12, dtype=np.float32).reshape(2, 3, 2)), Lazy(np.arange(9, dtype=np.float32).reshape(3, 3))
    same(Lazy.einsum("iij->ij", x), [[0, 1, 2], [9, 10, 11]])
    same(Lazy.einsum("iij->i", x), [3, 30])
    same(Lazy.einsum("iij->j", x), [9, 11, 13])
    same(Lazy.einsum("iij,j->ij", x, Lazy([1.0, 10.0, 100.0])), [[0, 10, 200], [9, 100, 1100]])
    same(Lazy.einsum("iji->j", y), [7, 11, 15])
    same(Lazy.einsum("ii", m), 12)
    same(Lazy.einsum("ii->", m), 12)
    same(Lazy.einsum("ii->i", m), [0, 4, 8])
    same(Lazy.einsum("...ij,...jk->...ik", Lazy(np.ones((1, 2, 3), np.float32)), y), [[[6, 9], [6, 9]], [[24, 27], [24, 27]]])
    same(Lazy.einsum("i,j->ji", Lazy([1.0, 2.0]), Lazy([3.0, 4.0, 5.0])), [[3, 6], [4, 8], [5, 10]])
    same(Lazy.einsum("ij->", m), 36)
    same(Lazy.einsum("b...->...", x), [[6, 8, 10], [12, 14, 16]])


@pytest.mark.parametrize(("formula", "shapes"), [
    ("ij,jk", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,jk,kl->ljki", [(2, 3), (3, 4), (4, 5)]),
    ("ba", [(2, 3)]), ("iii->i", [(3, 3, 3)]), ("...i,...i->...", [(2, 3), (4, 1, 3)]), ("i...", [(2, 3, 4)]), ("a,a,a", [(4,), (4,),
    (4,)]), (",i->i", [(), (3,)]),
    (" i j , j -> i ", [(2, 3), (3,)]), ("bhid,bhjd->bhij", [(2, 1, 3, 4), (2, 5, 3, 4)]), ("ijk->kij", [(2, 3, 4)])])
def test_einsum(formula: str, shapes: list[tuple[int, ...]]) -> None:
    xs = [normal(*s) for s in shapes]
    same(Lazy.einsum(formula, *map(Lazy, xs)), np.einsum(formula, *[x.astype(np.float64) for x in xs]), dtypes.float32, 1e-6)


@pytest.mark.parametrize(("formula", "shapes", "match"), [
    ("ij,jk->ik", [(2, 3)], "2 operands"), ("ij,jk->ik", [(2, 3), (4, 5)], "'j' has size 3 and 4"), ("ij->ik", [(2, 3)], "'k'"),
    ("ij->ii", [(2, 3)], "'i'"),
    ("i", [(2, 3)], "has 2"), ("ii", [(2, 3)], "'i'"), ("i1", [(2, 3)], "letters"), ("ij", [], "at least one")])
def test_einsum_errors(formula: str, shapes: list[tuple[int, ...]], match: str) -> None:
    with pytest.raises(ShapeError, match=match):
        Lazy.einsum(formula, *[Lazy(normal(*s)) for s in shapes])


def test_einsum_of_halves() -> None:
    half = Lazy(np.ones((2, 4096), np.float16))
    same(Lazy.einsum("ij,ij->i", half, half), [4096, 4096], dtypes.float16)
    same(Lazy.einsum("ij->i", half, dtype=dtypes.float64), [4096, 4096], dtypes.float64)


def test_a_list_multiplies() -> None:
    same(Lazy([1.0, 2.0]) @ [3.0, 4.0], 11)
    with pytest.raises(DTypeError):
        Lazy([1.0]) @ "x"
