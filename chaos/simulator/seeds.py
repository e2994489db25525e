"""Runs the plans of many seeds in several processes. Counts the faults, reports violations, and shows the command that
repeats a failing run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from types import FrameType
from typing import Final

from chaos.history.totals import Totals
from chaos.plan.draw import draw_plan
from chaos.plan.draw_answers import with_asks
from chaos.plan.fault_plan import FaultPlan, kinds_of
from chaos.simulator.result import Run
from chaos.simulator.run import run_plan
from chaos.simulator.shrink import shrink_plan

#: The newest log lines that are kept of a run that broke a promise.
LOG_LINES: Final = 400
SAME_S: Final = 1.0
Print = Callable[[str], None]


@dataclass
class Tally:
    """The sums of a number of runs. `failed` and `not_counted` have seeds."""

    runs: int = 0
    counted: int = 0
    failed: list[int] = field(default_factory=list)
    not_counted: list[int] = field(default_factory=list)
    hand_overs: int = 0
    changes: int = 0
    simulated_s: float = 0.0
    worked_s: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    totals: Totals = field(default_factory=Totals)

    def add(self, run: Run) -> None:
        """Add one run."""
        self.runs += 1
        self.hand_overs += run.hand_overs
        self.changes += run.changes
        self.simulated_s += run.simulated_s
        self.worked_s += run.took_s
        self.fired += run.fired
        self.passed += run.passed
        self.totals.add(run.totals)
        if run.broken:
            self.failed.append(run.plan.seed)
        elif run.counts:
            self.counted += 1
        else:
            self.not_counted.append(run.plan.seed)

    def lines(self) -> list[str]:
        """Lines for people: how often each fault fired, what the runs met, and how sure they are that no promise
        breaks."""
        lines = ["fault         fired  passed over"]
        lines += [f"{kind:<12} {self.fired[kind]:>6} {self.passed[kind]:>12}" for kind in kinds_of("simulator")]
        lines += self.totals.lines()
        lines.append(
            f"{self.runs} runs, {self.counted} of them count; {self.hand_overs} deliveries, {self.changes} changes of "
            f"leader, {self.fired.total()} faults of {len(self.fired)} kinds"
        )
        lines.append(
            f"{self.simulated_s:.0f} cluster-seconds in {self.worked_s:.0f} s of a core: "
            f"{self.simulated_s / max(self.worked_s, 1e-9):.1f} a second"
        )
        if self.not_counted:
            lines.append(f"too little happened in {len(self.not_counted)}: seeds {_some(self.not_counted)}")
        if self.failed:
            lines.append(f"VIOLATIONS in {len(self.failed)}: seeds {_some(self.failed)}")
        elif self.counted:
            lines.append(f"no violation in {self.counted} runs that count: less than {3 / self.counted:.2%} at 95 %")
        return lines


def _some(seeds: Sequence[int]) -> str:
    told = ", ".join(map(str, sorted(seeds)[:20]))
    return told + (", ..." if len(seeds) > 20 else "")


def plans_of(seeds: Iterable[int], seconds: float, nodes: int | None) -> Iterator[FaultPlan]:
    """The plan of each seed, as the command line draws it: with the additions of `with_asks`
    (chaos/plan/draw_answers.py)."""
    return (with_asks(draw_plan(seed, seconds, nodes)) for seed in seeds)


def run_seeds(
    plans: Iterable[FaultPlan], jobs: int, show: Callable[[Run], None], stopped: Callable[[], bool] = lambda: False
) -> Tally:
    """Run all plans, `jobs` at a time in processes of their own (1: in this process). `show` gets each run at its end.
    Once `stopped` returns True no run begins, but for a few that the worker processes have taken already. Runs
    under way come to their end and count."""
    tally = Tally()
    for run in _runs(takewhile(lambda _: not stopped(), plans), jobs, stopped):
        tally.add(run)
        show(run)
    return tally


def _runs(plans: Iterable[FaultPlan], jobs: int, stopped: Callable[[], bool]) -> Iterator[Run]:
    if jobs == 1:
        yield from map(_run, plans)
        return
    left = iter(plans)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_work, max_tasks_per_child=50) as pool:
        at_work: set[Future[Run]] = {pool.submit(_run, plan) for plan in islice(left, 2 * jobs)}
        while at_work:
            done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
            at_work |= {pool.submit(_run, plan) for plan in islice(left, len(done))}
            yield from (future.result() for future in done)
            if stopped():
                at_work = {future for future in at_work if not future.cancel()}


def _work() -> None:
    """Set up a worker process: ignore signals. The terminal sends a Ctrl-C to all processes, and `timeout` sends its
    signal to all. The process that counts the runs handles them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Yield a function that is True once a SIGINT or SIGTERM has asked to stop. Another signal more than SAME_S later
    ends the process. A signal that comes sooner is the same one, also sent by a `make` or `timeout` in between."""
    asked_s: float | None = None
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked_s
        now_s = time.monotonic()
        if asked_s is not None and now_s - asked_s > SAME_S:
            for worker in multiprocessing.active_children():
                worker.kill()
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)
        asked_s = asked_s or now_s

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: asked_s is not None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(plan: FaultPlan) -> Run:
    run = run_plan(plan)
    return replace(run, log=run.log[-LOG_LINES:] if run.broken else [])


def explain(run: Run, show: Print, *, shrink_tries: int, directory: Path) -> None:
    """Show a failing run: its plan, its violations, and the command that repeats it. Then shrink the plan with at most
    `shrink_tries` runs, write it to `directory`, and show it."""
    plan = run.plan
    show(f"\nseed {plan.seed}: BROKEN. What is wrong, and where it was seen first:")
    for line in run.broken:
        show(line)
    show(plan.render())
    show(f"again: hourwheel chaos sim --seed {plan.seed} --seconds {plan.seconds:g}{' --crowd' * bool(plan.crowd)}")
    if not shrink_tries or not plan.faults:
        return
    began_s = time.monotonic()
    broken = run.promises
    small = shrink_plan(plan, lambda tried: bool(_run(tried).promises & broken), shrink_tries)
    path = directory / f"seed-{plan.seed}.plan"
    path.write_text(small.render())
    show(f"shrunk from {len(plan.faults)} faults to {len(small.faults)} in {time.monotonic() - began_s:.0f} s:")
    show(small.render())
    show(f"again: hourwheel chaos sim --plan {path}")


def cores() -> int:
    """How many processes this machine runs at once."""
    return len(os.sched_getaffinity(0))
