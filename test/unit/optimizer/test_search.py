"""The search space and the beam: only schedules that apply, deterministic, right after every step; faults cost a candidate and no more."""
import math
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from kernels import KERNELS, data, matmul, sum_rows

from morok.optimizer import apply_opts, hand_coded, parse_opts
from morok.optimizer.beam import Search, is_quicker
from morok.optimizer.cost import CostModel, features, rank_correlation
from morok.optimizer.space import applied, canonical, neighbours
from morok.program import Chain, Padto, Stage, Thread, Upcast
from morok.target import Target
from morok.uop.interpret import run_kernel

TARGET = Target(threads=2)


@dataclass
class Trial:
    samples: list = field(default_factory=list)
    reason: str = ""

    @property
    def best(self):
        return min(self.samples) if self.samples and not self.reason else math.inf


@pytest.mark.parametrize("name", list(KERNELS))
def test_neighbours_keep_the_values(name, rng):
    """Schedules one change away from the raw and the heuristic kernel, a sample of them, by interpretation; their text says them again."""
    ast, sizes = KERNELS[name]()

    def result(kernel):
        arrays = data(0, *sizes)
        arrays[0][:] = np.nan
        run_kernel(kernel, arrays)
        return arrays[0]
    want = result(ast)
    for start in ((), canonical(tuple(hand_coded(ast, TARGET)))):
        found = list(neighbours(ast, start, TARGET, True))
        assert len(set(found)) == len(found) > 5 and start not in found
        good = [(o, a) for o in found if (a := applied(ast, o)) is not None]
        assert len(good) > len(found) / 4
        for i in rng.permutation(len(good))[:4]:
            opts, kernel = good[i]
            assert apply_opts(ast, parse_opts(" ".join(map(str, opts)))) is kernel
            np.testing.assert_allclose(result(kernel), want, rtol=2e-5, atol=2e-5)


def test_what_can_be_proposed():
    ast, _ = matmul(64, 64, 64)
    found = set(neighbours(ast, (), TARGET, False))
    assert {(Upcast(1, 8, True),), (Thread(0),), (Upcast(0, 4),), (Stage(2, 1),)} <= found
    assert any(isinstance(o[0], Padto) for o in found)
    assert not any(isinstance(o, Thread) for opts in neighbours(ast, (), Target(threads=1), False) for o in opts)
    later = set(neighbours(ast, (Upcast(1, 8, True), Thread(0)), TARGET, False))
    assert (Thread(0),) in later and (Upcast(1, 16, True), Thread(0)) in later                       # one less, another amount
    assert canonical((Thread(0), Stage(1, 0), Padto(1, 8))) == (Padto(1, 8), Thread(0), Stage(1, 0))


def search(measure, width=4, trials=60, seed=0, seconds=60.0):
    ast, _ = matmul(64, 64, 64)
    s = Search(ast, TARGET, False, width)
    s.run([canonical(tuple(hand_coded(ast, TARGET))), ()], measure, time.perf_counter() + seconds, trials, seed, lambda _: None)
    return s


def chains(opts, ast):
    """A machine on which chains are quicker, the longer the better."""
    return Trial([1.0 / (1 + sum(math.log2(o.n) for o in opts if isinstance(o, Chain)))])


def test_the_beam_climbs_and_is_deterministic():
    a, b, c = search(chains), search(chains), search(chains, seed=1)
    assert list(a.trials) == list(b.trials) and list(a.trials) != list(c.trials)
    first = next(iter(a.trials.values())).best
    assert a.shortest() < first and a.tried <= 60
    assert a.best()[0] == min(a.trials, key=lambda o: (a.trials[o].best, len(o), str(o)))


def test_rejected_candidates_never_win():
    def measure(opts, ast):
        return Trial([], "wrong") if any(isinstance(o, Upcast) for o in opts) else Trial([1.0 + len(opts)])
    s = search(measure)
    assert s.best()[0] == () and all(not s.trials[o].reason for o in s.best(10))


def test_the_deadline_holds_inside_a_round():
    def slow(opts, ast):
        time.sleep(0.05)
        return Trial([1.0])
    start = time.perf_counter()
    s = search(slow, width=8, trials=1000, seconds=0.5)
    assert time.perf_counter() - start < 1.5 and not s.finished and s.tried >= 2


def test_an_earlier_search_is_continued():
    """What was tried is not measured again."""
    first = search(chains, trials=20)
    ast, _ = matmul(64, 64, 64)
    again = Search(ast, TARGET, False, 4, dict(first.trials))
    measured = []
    again.run([()], lambda o, a: measured.append(o) or chains(o, a), time.perf_counter() + 60, 20, 0, lambda _: None)
    assert not set(measured) & set(first.trials) and len(measured) <= 20 and again.shortest() <= first.shortest()


def test_the_model_learns_the_order():
    """After some measured times the prediction ranks the rest of them as they are."""
    ast, _ = sum_rows(64, 1024)
    kernels = [a for o in neighbours(ast, (), TARGET, False) if (a := applied(ast, o)) is not None]
    truth = {a: math.exp(features(a, TARGET)[1] * 2 - 10) for a in kernels}                # loads are all that counts
    model = CostModel()
    for a in kernels[::2]:
        model.learn(features(a, TARGET), truth[a])
    rest = kernels[1::2]
    assert rank_correlation([model.predict(features(a, TARGET)) for a in rest], [truth[a] for a in rest]) > 0.7
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1) and rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)


def test_a_winner_is_surely_quicker(rng):
    base = 1.0 + 0.05 * np.abs(rng.standard_normal(40))
    assert is_quicker(base * 0.9, base, 0.01) and not is_quicker(base, base, 0.01) and not is_quicker(base * 0.995, base, 0.01)
