"""Random programs in tensor code and in NumPy float64, side by side. Values are small whole numbers, so that float32 is exact and results must be equal."""
import math
import random

import numpy as np

from morok import Tensor

SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64]
LIMIT = 1000                     # values are brought back below this
MOST = 20_000                    # elements


class Pair:
    """A tensor and the array that it must equal."""

    def __init__(self, t, a):
        assert tuple(t.shape) == a.shape, (t.shape, a.shape)
        self.t, self.a = t, a

    @property
    def shape(self):
        return self.a.shape

    @property
    def is_int(self):
        return self.t.dtype.is_int


def source(r):
    shape = tuple(r.choice(SIZES) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])))
    while math.prod(shape) > 4000:
        shape = tuple(max(1, n // 2) for n in shape)
    g = np.random.default_rng(r.randrange(1 << 30))
    a = g.integers(-4, 5, shape)
    dtype = r.choice([np.float32, np.float32, np.float32, np.int32, np.int64])
    if r.random() < 0.08:
        value = int(g.integers(-3, 4))
        return Pair(Tensor.full(shape, float(value) if dtype is np.float32 else value), np.full(shape, value, np.float64))
    if r.random() < 0.06 and shape:
        n = math.prod(shape)
        return Pair((Tensor.arange(n) % 7).reshape(shape), (np.arange(n) % 7).reshape(shape).astype(np.float64))
    return Pair(Tensor(a.astype(dtype)), a.astype(np.float64))


def tamed(p):
    """Values below LIMIT, by a modulus."""
    if p.a.size and np.abs(p.a).max() >= LIMIT:
        return Pair(p.t % 11, np.mod(p.a, 11))
    return p


# ---- ops: (random, pair, pool) → pair --------------------------------------------------------------------
def elementwise(r, p, pool):
    k = r.randrange(13)
    if k == 0:
        return Pair(p.t + 3, p.a + 3)
    if k == 1:
        return Pair(p.t * -2, p.a * -2)
    if k == 2:
        return Pair(p.t.abs(), np.abs(p.a))
    if k == 3:
        return Pair(-p.t, -p.a)
    if k == 4:
        return Pair(p.t.relu(), np.maximum(p.a, 0))
    if k == 5:
        return Pair(p.t.clip(-2, 5), np.clip(p.a, -2, 5))
    if k == 6:
        return Pair((p.t > 1).where(p.t, 7), np.where(p.a > 1, p.a, 7))
    if k == 7:
        return Pair(p.t // 3, np.floor_divide(p.a, 3))
    if k == 8:
        return Pair(p.t % 5, np.mod(p.a, 5))
    if k == 9:                                              # whole numbers below LIMIT are exact in these too
        return Pair(p.t.cast(r.choice(["int16", "float16"])).cast(p.t.dtype), p.a)
    if k == 10:
        return Pair(p.t.ne(0).logical_and(p.t < 4).cast("int32"), ((p.a != 0) & (p.a < 4)).astype(np.float64))
    if k == 11:
        return Pair((p.t.cast("float32") * 0.25).floor(), np.floor(p.a * 0.25))
    return Pair(p.t.cast(r.choice(["int32", "int64", "float32", "float64"])), p.a)


def binary(r, p, pool):
    q = r.choice(pool)
    try:
        np.broadcast_shapes(p.shape, q.shape)
    except ValueError:
        q = Pair(q.t.sum(), np.asarray(q.a.sum()))
        q = tamed(q)
    if math.prod(np.broadcast_shapes(p.shape, q.shape)) > MOST:
        return p
    k = r.randrange(6)
    if k == 0:
        return Pair(p.t + q.t, p.a + q.a)
    if k == 1:
        return Pair(p.t - q.t, p.a - q.a)
    if k == 2:
        return Pair(p.t * q.t, p.a * q.a)
    if k == 3:
        return Pair(p.t.maximum(q.t), np.maximum(p.a, q.a))
    if k == 4:
        return Pair((p.t < q.t).where(p.t, q.t), np.where(p.a < q.a, p.a, q.a))
    return Pair((p.t <= q.t).cast("int32"), (p.a <= q.a).astype(np.float64))


def reshape(r, p, pool):
    n = p.a.size
    if n == 0:
        return p
    left, shape = n, []
    while left > 1 and len(shape) < 4:
        f = r.choice([d for d in range(1, left + 1) if left % d == 0])
        shape.append(f)
        left //= f
    shape.append(left)
    r.shuffle(shape)
    return Pair(p.t.reshape(tuple(shape)), p.a.reshape(shape))


def permute(r, p, pool):
    axes = list(range(p.a.ndim))
    r.shuffle(axes)
    return Pair(p.t.permute(tuple(axes)), p.a.transpose(axes)) if axes else p


def expand(r, p, pool):
    shape = tuple(r.choice([2, 3, 5, 9]) if n == 1 and r.random() < 0.6 else n for n in p.shape)
    if math.prod(shape) > MOST:
        return p
    return Pair(p.t.expand(shape), np.broadcast_to(p.a, shape))


def pad(r, p, pool):
    pads = tuple((r.randrange(3), r.randrange(3)) for _ in p.shape)
    value = r.choice([0, 0, 2])
    return Pair(p.t.pad(pads, value=value), np.pad(p.a, pads, constant_values=value)) if pads and math.prod(n + 4 for n in p.shape) <= MOST else p


def slices(r, p, pool):
    idx = []
    for n in p.shape:
        if r.random() < 0.2 and n:
            idx.append(r.randrange(-n, n))
        else:
            a, b, s = r.randint(-n - 1, n + 1), r.randint(-n - 1, n + 1), r.choice([1, 1, 2, 3, -1, -2])
            idx.append(slice(r.choice([None, a]), r.choice([None, b]), s))
    if r.random() < 0.2:
        idx.insert(r.randint(0, len(idx)), None)
    return Pair(p.t[tuple(idx)], p.a[tuple(idx)])


def flip(r, p, pool):
    axes = [i for i in range(p.a.ndim) if r.random() < 0.5]
    return Pair(p.t.flip(tuple(axes)), np.flip(p.a, axes)) if axes else p


def cat(r, p, pool):
    if not p.a.ndim or p.a.size > MOST // 4:
        return p
    axis, n = r.randrange(p.a.ndim), r.choice([2, 2, 3, 9])
    parts = [p if r.random() < 0.5 else Pair(p.t * 2 + i, p.a * 2 + i) for i in range(n)]
    return Pair(parts[0].t.cat(*(q.t for q in parts[1:]), dim=axis), np.concatenate([q.a for q in parts], axis))


def stack(r, p, pool):
    if p.a.size > MOST // 4 or p.a.ndim > 4:
        return p
    axis = r.randint(0, p.a.ndim)
    return Pair(p.t.stack(p.t + 1, -p.t, dim=axis), np.stack([p.a, p.a + 1, -p.a], axis))


def repeat(r, p, pool):
    times = tuple(r.choice([1, 1, 2, 3]) for _ in p.shape)
    return Pair(p.t.repeat(times), np.tile(p.a, times)) if times and p.a.size * math.prod(times) <= MOST else p


def chunk(r, p, pool):
    """The parts of an axis, in another order."""
    if not p.a.ndim or 0 in p.shape:
        return p
    axis = r.randrange(p.a.ndim)
    size = r.randint(1, p.shape[axis])
    parts, arrays = p.t.split(size, dim=axis), np.split(p.a, range(size, p.shape[axis], size), axis)
    assert len(parts) == len(arrays)
    order = r.sample(range(len(parts)), min(len(parts), 4))
    if len(order) == 1:
        return Pair(parts[order[0]], arrays[order[0]])
    return Pair(parts[order[0]].cat(*(parts[i] for i in order[1:]), dim=axis), np.concatenate([arrays[i] for i in order], axis))


def reduce(r, p, pool):
    axes = tuple(i for i in range(p.a.ndim) if r.random() < 0.5)
    if not axes:
        return p
    keep, k = r.random() < 0.5, r.randrange(6)
    if k == 0 or any(p.shape[a] == 0 for a in axes):
        return Pair(p.t.sum(axes, keepdim=keep), p.a.sum(axes, keepdims=keep))
    if k == 1:
        return Pair(p.t.max(axes, keepdim=keep), p.a.max(axes, keepdims=keep))
    if k == 2:
        return Pair(p.t.min(axes, keepdim=keep), p.a.min(axes, keepdims=keep))
    if k == 3:
        return Pair(p.t.argmax(axes[0], keepdim=keep), np.argmax(p.a, axes[0], keepdims=keep).astype(np.float64))
    if k == 4:
        return Pair(p.t.sign().prod(axes, keepdim=keep), np.sign(p.a).prod(axes, keepdims=keep))
    return Pair((p.t > 0).any(axes, keepdim=keep).cast("int32"), (p.a > 0).any(axes, keepdims=keep).astype(np.float64))


def normalize(r, p, pool):
    """A row minus its largest, as softmax has it: a reduction and its own input in one kernel."""
    if not p.a.ndim or 0 in p.shape:
        return p
    axis = r.randrange(p.a.ndim)
    return Pair(p.t - p.t.max(axis, keepdim=True), p.a - p.a.max(axis, keepdims=True))


def cumsum(r, p, pool):
    if not p.a.ndim:
        return p
    axis = r.randrange(p.a.ndim)
    return Pair(p.t.cumsum(axis), p.a.cumsum(axis))


def index(r, p, pool):
    if not p.a.ndim or 0 in p.shape:
        return p
    axis = r.randrange(p.a.ndim)
    n = p.shape[axis]
    shape = tuple(r.choice([1, 2, 5]) for _ in range(r.choice([1, 1, 2])))
    at = np.random.default_rng(r.randrange(1 << 30)).integers(-n, n, shape)
    if math.prod(p.shape) // n * at.size > MOST:
        return p
    idx = (slice(None),) * axis + (at,)
    return Pair(p.t[(slice(None),) * axis + (Tensor(at),)], p.a[idx])


def assign(r, p, pool):
    if not p.a.ndim or 0 in p.shape:
        return p
    t, a = p.t.clone(), p.a.copy()
    idx = tuple(slice(r.randrange(n), None, r.choice([1, 2])) if r.random() < 0.7 else slice(None, None, -1) for n in p.shape)
    value = r.choice([5, None])
    t[idx] = value if value is not None else t[idx] * 3
    a[idx] = value if value is not None else a[idx] * 3
    return Pair(t, a)


def triangle(r, p, pool):
    if p.a.ndim < 2:
        return p
    k = r.randint(-2, 2)
    return Pair(p.t.tril(k), np.tril(p.a, k)) if r.random() < 0.5 else Pair(p.t.triu(k), np.triu(p.a, k))


def matmul(r, p, pool):
    if p.a.ndim < 2 or 0 in p.shape:
        return p
    g = np.random.default_rng(r.randrange(1 << 30))
    w = g.integers(-2, 3, (p.shape[-1], r.choice([1, 3, 8, 17]))).astype(np.float64)
    if math.prod(p.shape[:-1]) * w.shape[1] > MOST:
        return p
    return Pair(p.t @ Tensor(w.astype(np.float32)), p.a @ w)


OPS = [elementwise] * 5 + [binary] * 4 + [reshape, reshape, permute, permute, expand, pad, slices, slices, flip, cat, stack, repeat, chunk, reduce, reduce, reduce, normalize, cumsum, index,
                                          assign, triangle, matmul]


def program(seed):
    """A few outputs of one random program. All but a few have elements and take several ops."""
    r = random.Random(seed)
    while True:
        pool = [source(r) for _ in range(r.choice([1, 2, 2, 3]))]
        for _ in range(r.randint(3, 9)):
            p = tamed(r.choice(OPS)(r, r.choice(pool[-3:]), pool))
            if p.a.size <= MOST:
                pool.append(p)
        out = pool[-1:] if r.random() < 0.7 else pool[-2:]
        if (out[-1].a.size and len(out[-1].t.uop.toposort()) >= 5) or r.random() < 0.05:
            return out
