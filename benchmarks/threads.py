"""From how much work on a second thread pays, when the team is awake (it has just run) and when it sleeps.

The heuristics' THREAD_WORK and the plans' WAKE_SECONDS come from here: a short plan uses a team that is awake, and does not wake one that sleeps.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from morok import OptStrategy, PrepareConfig, Tensor, knobs
from morok.optimizer.heuristics import THREAD_WORK, work
from morok.optimizer.kernel import Kernel
from morok.program import Opt, Thread, Upcast
from morok.runtime import get_device
from morok.runtime.buffer import new_buffer_node
from morok.schedule import schedule

ROWS, ROUNDS = 64, 40
PAUSE = 0.004                    # seconds: workers have gone to sleep by then


def polynomial(columns: int) -> Tensor:
    """A kernel over (ROWS, columns) that arithmetic holds up, not memory."""
    x = Tensor(np.linspace(0, 1, ROWS * columns, dtype=np.float32).reshape(ROWS, columns))
    y = x
    for c in (0.5, 0.25, 0.125, 0.3, 0.7, 0.1):
        y = y * x + c
    return y


def timed(run: Callable[[], None], pause: float, wake: Callable[[], None]) -> float:
    """Median microseconds of a call: with a pause before each, or of calls in a row after something long enough to wake the team."""
    times = []
    for _ in range(0 if pause else 5):
        wake()
    for _ in range(ROUNDS if pause else 4 * ROUNDS):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print a row for each size, and the least work from which on the team is quicker."""
    threads = get_device("CPU").target.threads
    if threads < 2:
        print("one core: there is no second thread to pay for")
        return
    print(f"{threads} threads; median us of a call\n{'work':>10} {'alone':>9} {'awake':>9} {'asleep':>9} {'alone, after a pause':>22}")
    long = polynomial(1 << 15).prepare().execute
    pays: dict[str, int | None] = {"awake": None, "asleep": None}
    for columns in (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384):
        y = polynomial(columns)
        amount = work(Kernel(schedule([y.uop], new_buffer_node).items[0].ast))
        vector: list[Opt] = [Upcast(0, 32, True)]
        with knobs.scope(MOROK_THREADS=threads):
            alone, team = (y.prepare(PrepareConfig(OptStrategy.explicit(opts))).execute for opts in (vector, [*vector, Thread(0)]))
        cells = timed(alone, 0, long), timed(team, 0, long), timed(team, PAUSE, long), timed(alone, PAUSE, long)
        print(f"{amount:10} {cells[0]:9.1f} {cells[1]:9.1f} {cells[2]:9.1f} {cells[3]:22.1f}")
        for name, with_team, without in (("awake", cells[1], cells[0]), ("asleep", cells[2], cells[3])):
            if with_team >= without:
                pays[name] = None
            elif pays[name] is None:
                pays[name] = amount
    print("\n".join(f"a second thread that is {name} pays from {amount} operations on" for name, amount in pays.items()))
    print(f"the heuristics use one from {THREAD_WORK} on")


if __name__ == "__main__":
    main()
