"""Handwritten digits, classified by nearest neighbours and after a projection on principal components; the same in NumPy beside it."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import morok
from morok import Tensor

COMPONENTS, ROUNDS, NEIGHBOURS = 16, 16, 3


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """1797 images of 8x8 pixels, real handwriting: two thirds to learn from, one third to classify."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = digits.data[order].astype(np.float32), digits.target[order].astype(np.int64)
    n = len(y) * 2 // 3
    return x[:n], y[:n], x[n:], y[n:]


# ---- in tensor code --------------------------------------------------------------------------------------
def distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances of all rows of a (n, d) to all rows of b (m, d): (n, m)."""
    return a.square().sum(1, keepdim=True) - 2 * (a @ b.T) + b.square().sum(1)


def vote(d: Tensor, labels: Tensor) -> Tensor:
    """The class that most of the nearest neighbours have; the nearest decides between equals."""
    votes = Tensor.zeros(d.shape[0], 10)
    for k in range(NEIGHBOURS):
        nearest = d.argmin(1)
        votes = votes + labels[nearest].one_hot(10) * (1.0 + (0.1 if k == 0 else 0.0))
        d = (Tensor.arange(d.shape[1]) == nearest.unsqueeze(1)).where(float("inf"), d)
    return votes.argmax(1)


def principal_components(x: Tensor) -> Tensor:
    """The strongest directions (d, COMPONENTS) of centred x (n, d), by orthogonal iteration on the covariance."""
    covariance = x.T @ x / x.shape[0]
    power = (covariance @ covariance / covariance.square().sum().sqrt()).realize()     # two steps of the iteration in one
    v = Tensor.eye(x.shape[1])[:, :COMPONENTS].contiguous()
    for _ in range(ROUNDS):
        v = iterate(power, v)
    return v


@morok.jit
def iterate(power: Tensor, v: Tensor) -> Tensor:
    return orthogonal(power @ v)


def orthogonal(v: Tensor) -> Tensor:
    """Columns of unit length at right angles, spanning the same space: v times the inverse root of its Gram matrix, by Newton's iteration."""
    v = v / v.square().sum().sqrt()
    for _ in range(16):
        v = v * 1.5 - v @ (v.T @ v) * 0.5
    return v


def classify(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictions by neighbours in pixel space, and by neighbours among the projections."""
    x, y, t = Tensor(train), Tensor(labels), Tensor(test)
    mean = x.mean(0).realize()
    v = principal_components((x - mean).realize())
    near = vote(distances(t, x), y)
    projected = vote(distances((t - mean) @ v, (x - mean) @ v), y)
    near.realize(projected)
    return near.numpy(), projected.numpy()


# ---- the same in NumPy -----------------------------------------------------------------------------------
def numpy_vote(d: np.ndarray, labels: np.ndarray) -> Any:
    votes = np.zeros((len(d), 10), np.float32)
    d = d.copy()
    for k in range(NEIGHBOURS):
        nearest = d.argmin(1)
        votes += np.eye(10, dtype=np.float32)[labels[nearest]] * (1.0 + (0.1 if k == 0 else 0.0))
        d[np.arange(len(d)), nearest] = np.inf
    return votes.argmax(1)


def numpy_classify(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def dist(a: np.ndarray, b: np.ndarray) -> Any:
        return (a * a).sum(1, keepdims=True) - 2 * (a @ b.T) + (b * b).sum(1)
    mean = train.mean(0)
    x = train - mean
    covariance, v = x.T @ x / len(x), np.eye(x.shape[1], dtype=np.float32)[:, :COMPONENTS]
    power = covariance @ covariance / np.sqrt((covariance * covariance).sum())
    for _ in range(ROUNDS):
        v = power @ v
        v = v / np.sqrt((v * v).sum())
        for _ in range(16):
            v = v * 1.5 - v @ (v.T @ v) * 0.5
    return numpy_vote(dist(test, train), labels), numpy_vote(dist((test - mean) @ v, x @ v), labels)


# ---- the report ------------------------------------------------------------------------------------------
def best(f: Callable[[], Any], rounds: int = 3) -> float:
    """Least seconds of a few runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Classify, compare with NumPy, print accuracy and times."""
    train, labels, test, truth = data()
    print(f"{len(labels)} digits to learn from, {len(truth)} to classify, {train.shape[1]} pixels each")
    start = time.perf_counter()
    near, projected = classify(train, labels, test)
    first = time.perf_counter() - start
    want_near, want_projected = numpy_classify(train, labels, test)
    for name, got, want in (("nearest neighbours", near, want_near), (f"the same on {COMPONENTS} components", projected, want_projected)):
        print(f"{name:28} accuracy {np.mean(got == truth):.1%}, agrees with NumPy on {np.mean(got == want):.1%}")
        assert np.mean(got == truth) > 0.95 and np.mean(got == want) > 0.99
    with morok.profile() as p:
        classify(train, labels, test)
    print(f"\nkernels of one run ({len(p.kernels)} launches, {p.seconds * 1e3:.1f} ms in kernels); the longest, by name:")
    total: dict[str, list[morok.KernelRun]] = {}
    for k in p.kernels:
        total.setdefault(k.name, []).append(k)
    for name, runs in sorted(total.items(), key=lambda x: -sum(k.seconds for k in x[1]))[:12]:
        seconds = sum(k.seconds for k in runs)
        print(f"  {name:24} x{len(runs):4} {seconds * 1e3:8.3f} ms  {sum(k.flops for k in runs) / seconds * 1e-9:7.1f} GFLOP/s  {' '.join(runs[0].opts)}")
    ours, theirs = best(lambda: classify(train, labels, test)), best(lambda: numpy_classify(train, labels, test))
    print(f"\nwhole computation: morok {ours * 1e3:.1f} ms (the first run, with compilation, {first:.2f} s), NumPy {theirs * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
