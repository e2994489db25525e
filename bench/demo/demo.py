"""`make demo`: three real nodes, 20,000 messages over 10 s, half pushed and half pulled. The leader is killed with -9
half-way.

It answers a newcomer's first questions: is any message lost, early or delivered twice, and how long is the pause.
Producers, consumers and checkers are those of the chaos tests. The pushed half is judged from the log of the process
that received it. If an outcome is unknown, clients send again with their keys. So `scheduled` counts the messages that
were answered 201. Exit status 1 if a message is lost or early.
"""

import argparse
import asyncio
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.client.receivers import PUSH_SETTINGS, Receivers
from bench.demo.display import Display, display
from bench.demo.pushed import Part, Pushed, judge
from chaos.check.engine.recovery import recoveries
from chaos.check.message.duplicates import check_duplicates
from chaos.check.message.lost import check_lost
from chaos.check.message.unscheduled import check_unscheduled
from chaos.check.message.window import check_window
from chaos.cluster.cluster import Cluster
from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.load.workload import Workload
from chaos.plan.fault_plan import Fault, FaultPlan
from chaos.plan.load_plan import Plan

KILL_SHARE = 0.5
SHOW_S = 0.1
NOTHING_WRONG, SOMETHING_WRONG = 0, 1


@dataclass(frozen=True)
class Result:
    """The figures of a run, in the order in which the last line of the output has them. All but `pull` and `push` are
    totals of both halves."""

    scheduled: int
    delivered: int
    replaced: int
    lost: int
    early: int
    duplicates: int
    duplicate_span_ms: float
    after_lease: int
    pull: Part
    push: Part

    @property
    def exit_status(self) -> int:
        """1 if a message is lost or early, otherwise 0."""
        return SOMETHING_WRONG if self.lost or self.early else NOTHING_WRONG


def total(pull: Part, push: Part) -> Result:
    """Return the figures of both halves and their totals. `duplicate_span_ms` is the wider one of the two."""
    return Result(
        scheduled=pull.scheduled + push.scheduled,
        delivered=pull.delivered + push.delivered,
        replaced=pull.replaced + push.replaced,
        lost=pull.lost + push.lost,
        early=pull.early + push.early,
        duplicates=pull.duplicates + push.duplicates,
        duplicate_span_ms=max(pull.duplicate_span_ms, push.duplicate_span_ms),
        after_lease=pull.after_lease + push.after_lease,
        pull=pull,
        push=push,
    )


def pulled(history: History) -> Part:
    """Return the figures of the pulled half from its history, by the checkers."""
    bounds = Bounds()
    checks = (check_lost, check_window, check_duplicates, check_unscheduled)
    lost, window, again, ended = (check(history, bounds).figure for check in checks)
    lateness = window["lateness_ms"]
    assert isinstance(lateness, dict)
    gaps = [row.new_term_ms for row in recoveries(history, bounds)]
    return Part(
        scheduled=_count(lost["acknowledged"]),
        delivered=_count(lost["delivered"]),
        replaced=_count(ended["cancelled"]),
        lost=_count(lost["lost"]),
        early=_count(window["early"]),
        duplicates=_count(again["failover"]),
        duplicate_span_ms=_count(again["span_ms"]),
        after_lease=_count(again["after_lease"]),
        lateness_ms={name: lateness[name] for name in ("p50", "p99") if name in lateness},
        failover_gap_ms=round(gaps[0], 1) if gaps and gaps[0] is not None else None,
    )


def _count(figure: object) -> int:
    assert isinstance(figure, int)
    return figure


def show(found: Result) -> None:
    """Print the table, then the JSON line that ends the output."""
    rows = (
        ("scheduled (acknowledged)", "scheduled"),
        ("delivered", "delivered"),
        ("replaced by a newer one with their key", "replaced"),
        ("lost", "lost"),
        ("early", "early"),
        ("delivered again by the failover", "duplicates"),
        ("time that those span, ms", "duplicate_span_ms"),
        ("again at the end of a lease, the answer lost with the leader", "after_lease"),
    )
    table = Table("", "pulled", "pushed")
    for name, field in rows:
        table.add_row(name, str(getattr(found.pull, field)), str(getattr(found.push, field)))
    for name, key in (("lateness p50, ms", "p50"), ("lateness p99, ms (failover included)", "p99")):
        table.add_row(name, str(found.pull.lateness_ms.get(key)), str(found.push.lateness_ms.get(key)))
    gaps = (found.pull.failover_gap_ms, found.push.failover_gap_ms)
    table.add_row("kill -9 to the next delivery, ms", *map(str, gaps))
    Console().print(table)
    print(json.dumps(asdict(found)))


async def kill_leader(nemesis: LiveNemesis, shown: Display, after_s: float, killed: asyncio.Future[float]) -> None:
    """Kill the leader after `after_s`, and say which node leads then. `killed` gets the moment of the kill
    (time.monotonic) once another node leads. The killed node stays down until this is cancelled."""
    await asyncio.sleep(after_s)
    led = await nemesis.watch.wait_leader()
    shown.say(f"kill -9 {led.node_id}, the leader of term {led.term} (pid {nemesis.cluster.pid(led.node_id)})")
    killed_s = time.monotonic()
    async with nemesis.on(Fault(after_s, "kill", led.node_id, 0)):
        after = await nemesis.watch.wait_leader(led.term)
        shown.say(f"{after.node_id} leads term {after.term}")
        killed.set_result(killed_s)
        await asyncio.Event().wait()


async def keep_showing(shown: Display, workload: Workload, pushed: Pushed) -> None:
    """Update the display until cancelled."""
    while True:
        _update(shown, workload, pushed)
        await asyncio.sleep(SHOW_S)


def _update(shown: Display, workload: Workload, pushed: Pushed) -> None:
    outstanding = workload.outstanding
    scheduled = outstanding.acknowledged_count + len(pushed.acknowledged)
    shown.update(scheduled, outstanding.over_count, pushed.received_count)


async def run(directory: Path, plan: Plan, kill_at_s: float, picture: Path | None = None) -> Result:
    """Run the whole demo in `directory`. `plan` is of both halves together."""
    history = History()
    half = replace(plan, topic="pulled", rate=plan.rate / 2, wishes=True)
    async with Cluster(directory, settings=PUSH_SETTINGS) as cluster:
        print(f"starting 3 nodes in {directory}: " + ", ".join(node.url for node in cluster.nodes.values()))
        cluster.start()
        await cluster.wait_ready()
        await cluster.wait_raised()  # at a lower level no message replaces another
        nodes = list(cluster.nodes.values())
        workload = Workload(nodes, half, history)
        with Receivers(directory / "receiver.ndjson") as receivers:
            pushed = Pushed(nodes, replace(half, topic="pushed", seed=plan.seed + 1, wishes=False), receivers)
            await _play(cluster, history, workload, pushed, plan, kill_at_s)
    history.write(directory / "history.ndjson")
    killed_ms = history.faults()[0].wall_ms
    if picture is not None:
        from bench.demo.picture import deliveries, draw  # matplotlib is no part of the demo

        draw(deliveries(history.of(HandedOver), receivers.received), killed_ms, picture)
    return total(pulled(history), judge(pushed.acknowledged, receivers.received, killed_ms))


async def _play(
    cluster: Cluster, history: History, workload: Workload, pushed: Pushed, plan: Plan, kill_at_s: float
) -> None:
    """Run both halves at once, and kill the leader meanwhile. Return when all messages have come, or `drain_s` after
    the last was scheduled."""
    nemesis = LiveNemesis(cluster, history, FaultPlan(plan.seed, len(cluster.nodes), plan.duration_s))
    nemesis.register(ProcessFaults(nemesis))
    killed: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    async with nemesis:
        leadership = await nemesis.watch.wait_leader()
        with display(plan.count) as shown:
            shown.say(f"ready; {leadership.node_id} leads term {leadership.term}")
            shown.say(
                f"{plan.count} messages over {plan.duration_s:g} s: half pulled by consumers on all nodes, half pushed "
                f"to {pushed.receivers.urls[0]}; leader killed at {kill_at_s:g} s"
            )
            shown.say("beside them messages that replace or extend the holder of their key, and atomic batches")
            async with asyncio.TaskGroup() as beside:
                showing = beside.create_task(keep_showing(shown, workload, pushed))
                killing = beside.create_task(kill_leader(nemesis, shown, kill_at_s, killed))
                complete = await asyncio.gather(workload.run(), pushed.run())
                await pushed.settled(await killed)
                await nemesis.rest()  # the killed node is not started for the end
                killing.cancel()
                showing.cancel()
            _update(shown, workload, pushed)
            late = f"not all delivered {plan.drain_s:g} s after the last was scheduled"
            shown.say("all delivered" if all(complete) else late)


def main() -> None:
    """Run three nodes and a steady stream of messages, half pushed and half pulled, and kill the leader half-way."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=Path("demo-data"), help="made anew; kept for looking at")
    parser.add_argument("--count", type=int, default=20_000, help="messages")
    parser.add_argument("--seconds", type=float, default=10.0, help="over which they are scheduled")
    parser.add_argument("--picture", type=Path, help="also draw deliveries, lateness and duplicates there (.png, .svg)")
    options = parser.parse_args()
    directory: Path = options.dir
    if directory.exists():
        if not (directory / "n1" / "node.toml").exists() and any(directory.iterdir()):
            parser.error(f"{directory} holds something that is not a demo's")
        shutil.rmtree(directory)
    rate = options.count / options.seconds
    plan = Plan(rate=rate, duration_s=options.seconds, batch=20, keyed_share=1.0, lease_ms=5_000)
    found = asyncio.run(run(directory, plan, options.seconds * KILL_SHARE, options.picture))
    show(found)
    sys.exit(found.exit_status)
