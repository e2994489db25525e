"""kill -9 under load, on real processes: each role a few times here, 20 times each in `make chaos-scenarios`.

Time bounds are wide, because the machine runs other things beside; bounds on messages are the promises themselves.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.history.event import Acked, Cancelled, Rescheduled
from chaos.live.result import Result
from chaos.live.run import LiveRun, Story
from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import kills, plan, slowed
from tests.chaos.scenario.agreeing import Told, ask, check_agreement
from tests.chaos.scenario.carried_out import carried_out

CALM_S = 0.5
"""The load goes on between faults; so long is long enough to see that it is served."""
BOUNDS = replace(ONE_BY_ONE, recovery_ms=4_000, on_time_ms=500, acknowledged_share=0.85)
"""Wide too: of the few thousand messages of a trial, a machine that stands still for a second costs a tenth."""


def until_in_time(more_than: int) -> Story:
    """On a slow machine most cancels and reschedules come too late: the load goes on until more of each did not."""

    async def enough(live: LiveRun) -> None:

        def in_time() -> int:
            cancelled = {each.number for each in live.history.of(Cancelled) if each.outcome == "cancelled"}
            moved = {each.number for each in live.history.of(Rescheduled) if each.outcome == "moved"}
            return min(len(cancelled), len(moved))

        await live.nemesis.turns_over.wait()
        while in_time() <= more_than:
            await live.nemesis.service.served(live.load.batch)

    return enough


def run_and_reconcile(
    directory: Path, faults: FaultPlan, load: Plan, story: Story | None = None
) -> tuple[Result, dict[str, Any]]:
    """A run's result, and what the nodes' files say: clients, API and files agree on every message and repeat."""
    told: list[Told] = []

    async def more(live: LiveRun) -> None:
        told.append(await ask(live))

    result = carried_out(directory, faults, load, BOUNDS, more, story=story)
    return result, check_agreement(directory, result.history, told[0], BOUNDS)


def spans_ms(document: dict[str, Any]) -> dict[tuple[int, int], float]:
    """Of the hand-overs that each change of terms repeated."""
    return {(change["from_term"], change["to_term"]): change["span_ms"] for change in document["term_changes"]}


def count(result: Result, promise: str, name: str) -> int:
    """A count of a verdict's figures."""
    value = result.figure(promise)[name]
    assert isinstance(value, int)
    return value


@pytest.mark.timeout(200)
def test_either_role_killed_again_and_again(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing comes early, duplicates span at most 50 ms; files are equal afterwards, and
    clients, API and files say the same of every message."""
    lines = [*kills(2, "leader", calm_s=CALM_S), *kills(2, "follower", "last", calm_s=CALM_S)]
    load = Plan(
        rate=250,
        due_together_ms=50,
        batch=10,
        lease_ms=5_000,
        cancel_share=0.02,
        push_share=0.4,
        push_fail_share=0.05,
    )
    result, document = run_and_reconcile(tmp_path, plan(lines), load)
    assert count(result, "S", "terms") == 3
    assert count(result, "R", "faults") == 4
    assert count(result, "P", "webhooks") > 600
    assert count(result, "D", "retried") > 10
    acks = [event.result for event in result.history.of(Acked)]
    assert acks.count("acked") > 0.9 * len(acks) > 300
    spans = spans_ms(document)
    assert set(spans) <= {(1, 2), (2, 3)}
    assert all(span <= 50 for span in spans.values())


@pytest.mark.timeout(200)
def test_cancels_and_reschedules_race_the_due_time_while_leaders_die(tmp_path: Path) -> None:
    """A cancel or reschedule that was answered 200 is never followed by the start of a hand-over."""
    load = Plan(
        rate=150,
        due_together_ms=50,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.4,
        reschedule_share=0.4,
        push_share=0.5,
        push_fail_share=0.05,
    )
    result = carried_out(tmp_path, plan(kills(2, "leader", calm_s=CALM_S)), load, BOUNDS, story=until_in_time(20))
    assert count(result, "U", "raced") > 400
    assert count(result, "U", "cancelled") > 20
    assert count(result, "U", "moved") > 20


@pytest.mark.timeout(200)
def test_strict_topics_repeat_nothing_and_doubt_plans_alone(tmp_path: Path) -> None:
    """The leader killed under strict pulls and pushes, with cancels and reschedules that race the due time: no failover
    duplicate; what comes again does so at the end of its lease. Clients, API and files say the same of all of it."""
    load = Plan(
        rate=150,
        due_together_ms=50,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.2,
        reschedule_share=0.2,
        push_share=0.5,
        push_fail_share=0.05,
        strict=True,
    )
    faults = plan(kills(2, "leader", calm_s=CALM_S))
    result, document = run_and_reconcile(tmp_path, faults, load, until_in_time(20))
    assert count(result, "D", "failover") == 0
    assert document["causes"]["failover"] == 0
    assert count(result, "P", "webhooks") > 150
    assert count(result, "U", "cancelled") > 20


@pytest.mark.timeout(200)
def test_leader_killed_while_followers_commit_slowly(tmp_path: Path) -> None:
    """Commits take 100 ms, twice the stop rule: hand-over pauses rather than let the duplicates span more."""
    load = Plan(rate=200, batch=10, due_together_ms=50, lease_ms=5_000)
    result = carried_out(tmp_path, plan(slowed(kills(2, "leader", calm_s=CALM_S), 0.1)), load, BOUNDS)
    assert result.fired == {"slow": 1, "kill": 2}
