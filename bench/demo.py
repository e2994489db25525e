"""`make demo`: three real nodes, 20,000 messages over 10 s, and the leader killed with -9 half-way.

It shows what a newcomer asks first: does anything get lost, come early, come twice, and how long is the pause.
Producers and consumers are those of the chaos tests and so are the checkers, so what is printed here is what the tests
hold. Clients send again with their keys when an outcome is unknown, hence `scheduled` counts acknowledged messages.
Exit status 1 when anything is lost or early.
"""

import argparse
import asyncio
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from chaos.availability import recoveries
from chaos.bounds import Bounds
from chaos.checker import check_duplicates, check_lost, check_window
from chaos.cluster import Cluster
from chaos.history import History
from chaos.nemesis import Nemesis
from chaos.plan import Plan
from chaos.workload import Outstanding, Workload

KILL_SHARE = 0.5
SHOW_S = 0.1
LINE_EVERY_S = 1.0
NOTHING_WRONG, SOMETHING_WRONG = 0, 1


class Display(Protocol):
    """Shows the run while it goes on."""

    def say(self, text: str) -> None:
        """An event worth a line."""

    def update(self, outstanding: Outstanding) -> None:
        """The counts moved."""


class Lines:
    """For anything but a terminal: a plain line a second and one per event."""

    def __init__(self, count: int) -> None:
        self._count, self._start, self._next = count, time.monotonic(), 0.0

    def say(self, text: str) -> None:
        """An event, with the seconds since the start."""
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", flush=True)

    def update(self, outstanding: Outstanding) -> None:
        """At most a line a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_EVERY_S
            self.say(f"scheduled {outstanding.acknowledged_count}/{self._count}, delivered {outstanding.over_count}")


class Bars:
    """For a terminal: two bars, events above them."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self._start = progress, time.monotonic()
        self._scheduled = progress.add_task("scheduled", total=count)
        self._delivered = progress.add_task("delivered", total=count)

    def say(self, text: str) -> None:
        """An event, with the seconds since the start."""
        self._progress.console.print(f"{time.monotonic() - self._start:6.1f} s  {text}", markup=False, highlight=False)

    def update(self, outstanding: Outstanding) -> None:
        """Moves the bars."""
        self._progress.update(self._scheduled, completed=outstanding.acknowledged_count)
        self._progress.update(self._delivered, completed=outstanding.over_count)


@contextmanager
def display(count: int) -> Iterator[Display]:
    """The form that fits stdout."""
    if not sys.stdout.isatty():
        yield Lines(count)
        return
    columns = (TextColumn("{task.description:>10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console()) as progress:
        yield Bars(progress, count)


@dataclass(frozen=True)
class Result:
    """The figures of a run, in the order of the last line."""

    scheduled: int
    delivered: int
    lost: int
    duplicates: int
    duplicate_span_ms: int
    early: int
    lateness_ms: dict[str, float]
    failover_gap_ms: float | None

    @property
    def exit_status(self) -> int:
        """1 when anything is lost or early."""
        return SOMETHING_WRONG if self.lost or self.early else NOTHING_WRONG


def result(history: History) -> Result:
    """Figures from the history, by the checkers."""
    bounds = Bounds()
    lost, window, again = (check(history, bounds).figure for check in (check_lost, check_window, check_duplicates))
    lateness = window["lateness_ms"]
    assert isinstance(lateness, dict)
    gaps = [row.new_term_ms for row in recoveries(history, bounds)]
    return Result(
        scheduled=_count(lost["acknowledged"]),
        delivered=_count(lost["delivered"]),
        lost=_count(lost["lost"]),
        duplicates=_count(again["duplicates"]),
        duplicate_span_ms=_count(again["span_ms"]),
        early=_count(window["early"]),
        lateness_ms={name: lateness[name] for name in ("p50", "p99") if name in lateness},
        failover_gap_ms=round(gaps[0], 1) if gaps and gaps[0] is not None else None,
    )


def _count(figure: object) -> int:
    assert isinstance(figure, int)
    return figure


def show(found: Result) -> None:
    """The table, then the one JSON line that ends the output."""
    rows = (
        ("scheduled (acknowledged)", found.scheduled),
        ("delivered", found.delivered),
        ("lost", found.lost),
        ("early", found.early),
        ("handed over again", found.duplicates),
        ("hand-over time those span, ms", found.duplicate_span_ms),
        ("lateness p50, ms", found.lateness_ms.get("p50")),
        ("lateness p99, ms (failover included)", found.lateness_ms.get("p99")),
        ("kill -9 to the next hand-over, ms", found.failover_gap_ms),
    )
    table = Table(show_header=False)
    for name, value in rows:
        table.add_row(name, str(value))
    Console().print(table)
    print(json.dumps(vars(found)))


async def kill_leader(nemesis: Nemesis, cluster: Cluster, shown: Display, after_s: float) -> None:
    """Kills the leader when its time has come and says who leads then."""
    await asyncio.sleep(after_s)
    leadership = await nemesis.leader()
    shown.say(
        f"kill -9 {leadership.node_id}, the leader of term {leadership.term} (pid {cluster.pid(leadership.node_id)})"
    )
    _, after = await nemesis.kill("leader")
    shown.say(f"{after.node_id} leads term {after.term}")


async def keep_showing(shown: Display, outstanding: Outstanding) -> None:
    """Updates the display until cancelled."""
    while True:
        shown.update(outstanding)
        await asyncio.sleep(SHOW_S)


async def run(directory: Path, plan: Plan, kill_at_s: float) -> Result:
    """The whole demo in `directory`."""
    history = History()
    count = plan.count
    async with Cluster(directory) as cluster:
        print(f"starting 3 nodes in {directory}: " + ", ".join(node.url for node in cluster.nodes.values()))
        cluster.start()
        await cluster.wait_ready()
        nemesis = Nemesis(cluster, history)
        leadership = await nemesis.leader()
        workload = Workload(list(cluster.nodes.values()), plan, history)
        with display(count) as shown:
            shown.say(f"ready; {leadership.node_id} leads term {leadership.term}")
            shown.say(
                f"{count} messages over {plan.duration_s:g} s, consumers on all nodes, leader killed at {kill_at_s:g} s"
            )
            async with asyncio.TaskGroup() as beside:
                showing = beside.create_task(keep_showing(shown, workload.outstanding))
                beside.create_task(kill_leader(nemesis, cluster, shown, kill_at_s))
                complete = await workload.run()
                showing.cancel()
            shown.update(workload.outstanding)
            shown.say(
                "all delivered" if complete else f"not all delivered {plan.drain_s:g} s after the last was scheduled"
            )
    history.write(directory / "history.ndjson")
    return result(history)


def main() -> None:
    """Three nodes, a steady stream of messages, the leader killed half-way."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-data"), help="made anew; kept for looking at")
    parser.add_argument("--count", type=int, default=20_000, help="messages")
    parser.add_argument("--seconds", type=float, default=10.0, help="over which they are scheduled")
    options = parser.parse_args()
    directory: Path = options.dir
    if directory.exists():
        if not (directory / "n1" / "node.toml").exists() and any(directory.iterdir()):
            parser.error(f"{directory} holds something that is not a demo's")
        shutil.rmtree(directory)
    rate = options.count / options.seconds
    plan = Plan(topic="demo", rate=rate, duration_s=options.seconds, batch=20, keyed_share=1.0, lease_ms=5_000)
    found = asyncio.run(run(directory, plan, options.seconds * KILL_SHARE))
    show(found)
    sys.exit(found.exit_status)


if __name__ == "__main__":
    main()
