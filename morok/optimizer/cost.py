"""A guess at a kernel's time from its loops, made better by the times that were measured: it says which candidates are worth compiling."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtype import dtypes
from ..target import Target
from ..uop import AxisKind, GroupOp, Op, UOp
from ..uop.lanes import lane_width
from .kernel import Kernel, access

RIDGE = 0.3                      # how much evidence it takes to move away from the guess


def features(ast: UOp, target: Target) -> np.ndarray:
    """Logarithms of what a scheduled kernel does: vector operations, memory accesses, registers beyond those that there are, parallelism, code size."""
    k, width = Kernel(ast), lane_width(ast, target.vector_bytes)
    ops = loads = gathers = 0.0
    size = 0
    for u in k.topo:
        if u.dtype is dtypes.index or u.op not in (*GroupOp.ALU, Op.LOAD, Op.STORE, Op.REDUCE):
            continue
        free = u.free | (set(u.src[1:]) if u.op is Op.REDUCE else frozenset())
        lanes = math.prod(r.arg.extent for r in free if r.arg.kind.is_lane)
        vector = next((r for r in free if r.arg.vector), None)
        registers = lanes / min(width, vector.arg.extent) if vector is not None else lanes
        runs = math.prod(r.arg.extent for r in free if not r.arg.kind.is_lane)
        price = 12 if u.op in GroupOp.TRANSCENDENTAL else 1
        size += int(registers) * price
        if u.op in (Op.LOAD, Op.STORE):
            step = access(u.src[0]).strides.get(vector, 0) if vector is not None else 0
            loads += runs * registers
            gathers += runs * lanes if vector is not None and step not in (0, 1) else 0
        else:
            ops += runs * registers * price
    accumulators = [math.prod(r.arg.extent for r in u.free | set(u.src[1:]) if r.arg.kind in (AxisKind.UPCAST, AxisKind.UNROLL)) / width for u in k.reduces]
    over = max(0.0, sum(accumulators) + 3 - target.registers)
    chains = min(accumulators, default=8)
    threads = next((r.arg.extent for r in k.ranges if r.arg.kind is AxisKind.THREAD), 1)
    parallel = min(threads, target.threads)
    staged = sum(u.op is Op.STAGE for u in k.topo)
    return np.array([math.log(ops + loads + 4 * gathers + 1), math.log(loads + 1), math.log(gathers + 1), over / target.registers,
                     math.log(max(1.0, min(chains, 8))), math.log(parallel), staged, math.log(size + 1), max(0.0, math.log(max(size, 1) / 400)), 1.0])


PRIOR = np.array([1.0, 0.0, 0.0, 1.5, -0.35, -1.0, -0.15, 0.0, 0.5, -20.0])      # log seconds a unit of each feature


class CostModel:
    """Predicted log seconds: a prior guess, corrected by ridge regression on what was measured in this search."""

    def __init__(self) -> None:
        self.weights = PRIOR.copy()
        self._x: list[np.ndarray] = []
        self._y: list[float] = []

    def predict(self, x: np.ndarray) -> float:
        return float(self.weights @ x)

    def learn(self, x: np.ndarray, seconds: float) -> None:
        """A measured time. What failed is told as a long one."""
        self._x.append(x)
        self._y.append(math.log(seconds))
        a, b = np.array(self._x), np.array(self._y)
        scale = np.maximum(np.abs(a).max(0), 1e-3)
        left = (a / scale).T @ (a / scale) + RIDGE * np.eye(len(PRIOR))
        self.weights = PRIOR + np.linalg.solve(left, (a / scale).T @ (b - a @ PRIOR)) / scale

    def rank_correlation(self) -> float:
        """Spearman's, of the predictions made now and the measured times; NaN for fewer than three."""
        return rank_correlation([self.predict(x) for x in self._x], self._y)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    if len(a) < 3:
        return math.nan
    ranks = [np.argsort(np.argsort(np.array(v))) for v in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
