"""Beam search over schedules: complete schedules, one change at a time, the promising ones compiled, checked and timed by the injected `measure`."""
from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..program import Opt
from ..target import Target
from ..uop import UOp
from .cost import CostModel, features
from .space import applied, canonical, neighbours

Opts = tuple[Opt, ...]
BATCH = 3                        # candidates measured a round, as a multiple of the width
CHANCE = 0.2                     # of them picked without regard to the prediction
GAIN = 0.99                      # a round that brings less improvement than this,
PATIENCE = 2                     # so many times in a row, ends the search


class Trial(Protocol):
    """What became of a candidate: samples in seconds, or the reason why it was rejected."""
    samples: list[float]
    reason: str

    @property
    def best(self) -> float: ...


Measure = Callable[[Opts, UOp], Trial]


@dataclass
class Search:
    """A search and all that it tried. trials: by schedule; may hold those of an earlier search, which are not measured again."""
    ast: UOp
    target: Target
    aligned: bool
    width: int
    trials: dict[Opts, Trial] = field(default_factory=dict)
    model: CostModel = field(default_factory=CostModel)
    finished: bool = False
    tried: int = 0

    def best(self, n: int = 1) -> list[Opts]:
        """The n quickest schedules that are right."""
        good = [o for o, t in self.trials.items() if not t.reason and t.samples]
        return sorted(good, key=lambda o: (self.trials[o].best, len(o), str(o)))[:n]

    def run(self, seeds: Sequence[Opts], measure: Measure, deadline: float, most: int, seed: int, progress: Callable[["Search"], None]) -> None:
        """Search until nothing gets better, the deadline (of time.perf_counter), or so many trials. The seeds are tried whatever the time."""
        rng = random.Random(seed)
        expanded: set[Opts] = set()
        known: set[UOp] = set()
        for s in map(canonical, seeds):
            ast = applied(self.ast, s)
            if ast is not None:
                self.attempt(s, ast, measure)
                known.add(ast)
                progress(self)
        best, idle = self.shortest(), 0
        while time.perf_counter() < deadline and self.tried < most:
            batch = self.proposals(expanded, known, rng)
            if not batch:
                self.finished = True
                return
            for opts, ast in batch:
                if time.perf_counter() >= deadline or self.tried >= most:
                    return
                self.attempt(opts, ast, measure)
                progress(self)
            now = self.shortest()
            idle = 0 if now < best * GAIN else idle + 1
            best = min(best, now)
            if idle >= PATIENCE:
                self.finished = True
                return

    def shortest(self) -> float:
        return min((t.best for t in self.trials.values()), default=float("inf"))

    def proposals(self, expanded: set[Opts], known: set[UOp], rng: random.Random) -> list[tuple[Opts, UOp]]:
        """The next candidates: changes of the best schedules, those of which most is expected, and a few others."""
        pool: list[tuple[float, str, Opts, UOp]] = []
        for base in self.best(self.width):
            for opts in neighbours(self.ast, base, self.target, self.aligned):
                if opts in self.trials or opts in expanded:
                    continue
                ast = applied(self.ast, opts)
                if ast is None or ast in known:
                    expanded.add(opts)
                    continue
                pool.append((self.model.predict(features(ast, self.target)), str(opts), opts, ast))
        unique = {p[3]: p for p in sorted(pool, reverse=True, key=lambda p: p[:2])}
        ordered = sorted(unique.values(), key=lambda p: p[:2])
        count = BATCH * self.width
        sure = ordered[:max(1, round(count * (1 - CHANCE)))]
        rest = ordered[len(sure):]
        chosen = sure + rng.sample(rest, min(len(rest), count - len(sure)))
        known.update(p[3] for p in chosen)
        return [(p[2], p[3]) for p in chosen]

    def attempt(self, opts: Opts, ast: UOp, measure: Measure) -> None:
        """Measure a schedule, unless it was before, and learn from it."""
        if opts not in self.trials:
            self.trials[opts] = measure(opts, ast)
            self.tried += 1
        t = self.trials[opts]
        if t.samples and not t.reason:
            self.model.learn(features(ast, self.target), t.best)


def is_quicker(a: Sequence[float], b: Sequence[float], margin: float, seed: int = 0) -> bool:
    """Whether the times a are below the times b by more than the margin, for 95 of 100 resamplings of both (bootstrap of the medians)."""
    rng = np.random.default_rng(seed)
    x, y = np.array(a), np.array(b)
    draws = [np.median(rng.choice(v, (400, len(v))), 1) for v in (x, y)]
    return bool(np.quantile(draws[0] / draws[1], 0.95) < 1 - margin)
