"""Schedules by search: candidates compiled here, checked and timed in the measuring process, the winner kept on disk for all processes."""
from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from . import knobs
from .compiler import generate
from .database import code_version, database, key_of
from .errors import CompileError, OptError
from .optimizer import apply_opts, flops_bytes, hand_coded, parse_opts
from .optimizer.beam import Opts, Search, is_quicker
from .optimizer.kernel import Kernel
from .optimizer.space import applied, canonical
from .program import OptStrategy, Program, Thread
from .runtime.bench import Param, Task
from .runtime.device import Device
from .runtime.measure import Lost, Measurer, Trial
from .uop import Op, UOp

MARGIN = 0.01                    # a schedule replaces the heuristic one if it is quicker by more than this, surely
FINALISTS = 4                    # schedules that run against the heuristic one at the end, in turns
RACE_ROUNDS, RACE_SECONDS = 30, 1.5
SLOW_FLOPS = 2e8                 # kernels with more are not run unoptimized as a whole: the heuristic schedule is compared with parts of that
MOST_BYTES = 2 << 30             # kernels on more memory are not searched
counters = {"searched": 0, "found": 0, "candidates": 0}


def tuned(ast: UOp, device: Device, width: int, aligned: bool) -> Opts:
    """The actions that a search with this width has found, or finds now. Those of the heuristics where no search is possible."""
    heuristic = canonical(tuple(hand_coded(ast, device.target, aligned)))
    task = task_of(ast, device)
    if task is None:
        return heuristic
    key = key_of("schedule", ast.key, device.target, aligned, code_version(), device.compiler)
    record = stored(key, ast)
    if record is not None and record["width"] >= width:
        counters["found"] += 1
        return tuple(parse_opts(record["opts"]))
    search = Search(ast, device.target, aligned, width, {} if record is None else earlier(record))
    return find(search, heuristic, task, device, key)


def task_of(ast: UOp, device: Device) -> Task | None:
    """What the measuring process needs to know; None for a kernel that is not worth a search or too large for one."""
    reads: set[int] = set()
    writes: set[int] = set()
    params: dict[int, UOp] = {}
    for u in ast.toposort():
        if u.op is Op.PARAM:
            params[u.arg.slot] = u
        elif u.op in (Op.LOAD, Op.STORE) and u.src[0].src[0].op is Op.PARAM:
            (reads if u.op is Op.LOAD else writes).add(u.src[0].src[0].arg.slot)
    size = sum(p.arg.size * p.dtype.itemsize for p in params.values())
    if size > MOST_BYTES or not all(p.arg.size for p in params.values()):
        return None
    terms = max((math.prod(r.arg.extent for r in u.src[1:]) for u in ast.toposort() if u.op in (Op.REDUCE, Op.SCAN)), default=1)
    return Task(tuple(Param(params[k].dtype, params[k].arg.size, k in reads, k in writes) for k in sorted(params)), terms, knobs.BEAM_SEED.get(),
                device.target.threads)


def find(search: Search, heuristic: Opts, task: Task, device: Device, key: str) -> Opts:
    """Search, let the best run against the heuristic schedule, and keep the winner. What was tried is kept also of a search that is interrupted."""
    start = time.perf_counter()
    counters["searched"] += 1
    winner = heuristic
    slow = flops_bytes(search.ast)[0] > SLOW_FLOPS
    outer = next((o for r in Kernel(search.ast).outputs if applied(search.ast, o := (Thread(r.arg.id),)) is not None), None) if slow else None
    reference, oracle = (compiled(search.ast, o, device, search.aligned) for o in ((heuristic, outer) if outer else ((), ())))
    if isinstance(reference, Trial) or isinstance(oracle, Trial):
        return heuristic
    try:
        measurer = Measurer(task, reference, oracle if outer else None)
    except (Lost, RuntimeError) as e:
        warnings.warn(f"no search for kernel {reference[0].name}: the measuring process says {e}", RuntimeWarning, stacklevel=2)
        return heuristic
    seen: set[str] = set()
    with measurer, line(search, heuristic) as bar:
        numbers: dict[Opts, int] = {}

        def measure(opts: Opts, ast: UOp) -> Trial:
            counters["candidates"] += 1
            made = compiled(search.ast, opts, device, search.aligned)
            if isinstance(made, Trial):
                return made
            text = made[0].source.replace(made[0].entry, "")
            if text in seen:
                return Trial([], "same code as another candidate")
            seen.add(text)
            numbers[opts] = len(numbers)
            return measurer.trial(numbers[opts], *made, search.shortest())
        try:
            deadline = start + knobs.BEAM_TIMEOUT.get()
            search.run([heuristic, *([] if outer else [()])], measure, deadline, knobs.BEAM_TRIALS.get(), knobs.BEAM_SEED.get(),
                       lambda s: show(bar, s, heuristic))
            winner = final(search, heuristic, numbers, measurer, lambda o: compiled(search.ast, o, device, search.aligned))
        finally:
            database().put("schedule", key, record_of(search, winner if search.finished or winner != heuristic else best_or(search, heuristic), heuristic,
                                                      time.perf_counter() - start))
    return winner


def best_or(search: Search, heuristic: Opts) -> Opts:
    """The best of a search that was cut short, if it is far enough ahead to be believed."""
    best = search.best()
    mine = search.trials.get(heuristic)
    return best[0] if best and (mine is None or search.trials[best[0]].best < 0.9 * mine.best) else heuristic


def compiled(ast: UOp, opts: Opts, device: Device, aligned: bool) -> tuple[Program, bytes] | Trial:
    """The code of a candidate, or why there is none."""
    try:
        program = generate(ast, device, OptStrategy.explicit(opts), None, aligned)
        return program, device.compile(program)
    except (CompileError, OptError) as e:
        return Trial([], f"{type(e).__name__}: {e}")


def final(search: Search, heuristic: Opts, numbers: dict[Opts, int], measurer: Measurer, make: Any) -> Opts:
    """The best schedules and the heuristic one take turns; one that is surely quicker wins, else the heuristic one stays."""
    runners = [o for o in search.best(FINALISTS + 1) if o != heuristic][:FINALISTS]
    if not runners or search.trials[heuristic].reason:
        return runners[0] if runners else heuristic
    for o in (heuristic, *runners):
        if o not in numbers:                                    # known from an earlier search
            numbers[o] = len(numbers)
            measurer.codes[numbers[o]] = make(o)
    try:
        times = measurer.race([numbers[o] for o in (heuristic, *runners)], RACE_ROUNDS, RACE_SECONDS)
    except (Lost, RuntimeError):
        return heuristic
    mine = times[numbers[heuristic]]
    surely = [o for o in runners if is_quicker(times[numbers[o]], mine, MARGIN)]
    return min(surely, key=lambda o: sorted(times[numbers[o]])[len(times[numbers[o]]) // 2], default=heuristic)


# ---- records -------------------------------------------------------------------------------------------------------
def record_of(search: Search, winner: Opts, heuristic: Opts, seconds: float) -> bytes:
    """One line of JSON: the winner, how hard was searched, and every candidate with its times or why it was rejected."""
    trials = [{"opts": text(o), "samples": sorted(t.samples)[:20], "reason": t.reason, "worst": getattr(t, "worst", 0.0)} for o, t in search.trials.items()]
    return json.dumps({"opts": text(winner), "heuristic": text(heuristic), "width": search.width if search.finished else 0, "seconds": seconds,
                       "verified": "against the unoptimized kernel", "correlation": search.model.rank_correlation(), "trials": trials}).encode()


def text(opts: Iterable[object]) -> str:
    return " ".join(map(str, opts))


def stored(key: str, ast: UOp) -> dict[str, Any] | None:
    """A record that was verified and whose actions still apply."""
    data = database().get("schedule", key)
    try:
        record: dict[str, Any] = json.loads(data or b"null")
        if record and record["verified"] and record["width"] >= 0:
            apply_opts(ast, parse_opts(record["opts"]))
            return record
    except (ValueError, KeyError, TypeError):
        pass                                                    # not ours or not whole: a miss (OptError is a ValueError)
    return None


def earlier(record: dict[str, Any]) -> dict[Opts, Any]:
    """The trials of an earlier search."""
    return {tuple(parse_opts(t["opts"])): Trial(t["samples"], t["reason"], t["worst"]) for t in record["trials"]}


# ---- the progress line ---------------------------------------------------------------------------------------------
def line(search: Search, heuristic: Opts) -> Any:
    """A line that shows how far the search is; only on a terminal."""
    return tqdm(total=knobs.BEAM_TIMEOUT.get(), unit="s", disable=not sys.stderr.isatty(), leave=False, bar_format="{desc} {elapsed} of {total:.0f}s")


def show(bar: Any, search: Search, heuristic: Opts) -> None:
    wrong = sum(bool(t.reason) for t in search.trials.values())
    best, mine = search.shortest(), search.trials[heuristic].best if heuristic in search.trials else math.inf
    gain = mine / best if best and math.isfinite(mine) else 1.0
    bar.set_description_str(f"{search.tried} tried, {wrong} rejected, best {best * 1e3:.3f} ms, {gain:.2f} times the heuristic's speed")
