"""kill -9 under load, on real processes: each role a few times here, 20 times each in `make chaos-scenarios`.

Time bounds are wide, because the machine runs other things beside; bounds on messages are the promises themselves.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chaos.history.bounds import Bounds
from chaos.history.event import Cancelled, Rescheduled
from chaos.plan.load_plan import Plan
from chaos.scenario.scenario import Script, kills, slow_followers
from chaos.scenario.trial import Outcome, Trial
from tests.chaos.scenario.agreeing import Told, ask, check_agreement

FOREVER_S = 600.0
CALM_S = 0.5
"""The load goes on between faults; so long is long enough to see that it is served."""
BOUNDS = Bounds(recovery_ms=4_000, on_time_ms=500, acknowledged_share=0.85)
"""Wide too: of the few thousand messages of a trial, a machine that stands still for a second costs a tenth."""


def run(directory: Path, plan: Plan, script: Script, *, slow: bool = False) -> Outcome:
    """The trial's outcome; its history stays in `directory`."""

    async def trial() -> Outcome:
        async with Trial(directory, plan, slow=slow) as running:
            await running.run(script)
            return await running.judge(BOUNDS)

    return asyncio.run(trial())


def run_and_reconcile(directory: Path, plan: Plan, script: Script) -> tuple[Outcome, dict[str, Any]]:
    """The same, and what the nodes' files say: clients, API and files agree on every message and every repeat."""

    async def trial() -> tuple[Trial, Told, Outcome]:
        async with Trial(directory, plan) as running:
            await running.run(script)
            return running, await ask(running), await running.judge(BOUNDS)

    running, told, outcome = asyncio.run(trial())
    assert not outcome.broken, outcome.describe()
    return outcome, check_agreement(directory, running, told, BOUNDS)


def spans_ms(document: dict[str, Any]) -> dict[tuple[int, int], float]:
    """Of the hand-overs that each change of terms repeated."""
    return {(change["from_term"], change["to_term"]): change["span_ms"] for change in document["term_changes"]}


def count(outcome: Outcome, promise: str, name: str) -> int:
    """A count of a verdict's figures."""
    value = outcome.verdicts[promise].figure[name]
    assert isinstance(value, int)
    return value


@pytest.mark.timeout(200)
def test_either_role_killed_again_and_again(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing comes early, duplicates span at most 50 ms; files are equal afterwards, and
    clients, API and files say the same of every message."""

    async def both(trial: Trial) -> None:
        await kills("leader", 2, CALM_S)(trial)
        await kills("follower", 2, CALM_S)(trial)

    plan = Plan(
        rate=250,
        duration_s=FOREVER_S,
        due_together_ms=50,
        batch=10,
        lease_ms=5_000,
        cancel_share=0.02,
        push_share=0.4,
        push_fail_share=0.05,
    )
    outcome, document = run_and_reconcile(tmp_path, plan, both)
    assert outcome.verdicts["S"].figure["terms"] == 3
    assert outcome.verdicts["R"].figure["faults"] == 4
    assert count(outcome, "P", "webhooks") > 600
    assert count(outcome, "D", "retried") > 10
    spans = spans_ms(document)
    assert set(spans) <= {(1, 2), (2, 3)}
    assert all(span <= 50 for span in spans.values())


@pytest.mark.timeout(200)
def test_cancels_and_reschedules_race_the_due_time_while_leaders_die(tmp_path: Path) -> None:
    """A cancel or reschedule that was answered 200 is never followed by the start of a hand-over."""
    plan = Plan(
        rate=150,
        duration_s=FOREVER_S,
        due_together_ms=50,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.4,
        reschedule_share=0.4,
        push_share=0.5,
        push_fail_share=0.05,
    )

    async def enough(trial: Trial) -> None:
        """A slow machine comes too late with most of them: it goes on until some were in time."""

        def in_time() -> int:
            cancelled = {each.number for each in trial.history.of(Cancelled) if each.outcome == "cancelled"}
            moved = {each.number for each in trial.history.of(Rescheduled) if each.outcome == "moved"}
            return min(len(cancelled), len(moved))

        await kills("leader", 2, CALM_S)(trial)
        while in_time() <= 20:
            await trial.served(plan.batch)

    outcome = run(tmp_path, plan, enough)
    assert not outcome.broken, outcome.describe()
    assert count(outcome, "U", "raced") > 400
    assert count(outcome, "U", "cancelled") > 20
    assert count(outcome, "U", "moved") > 20


@pytest.mark.timeout(200)
def test_strict_topics_repeat_nothing_and_doubt_plans_alone(tmp_path: Path) -> None:
    """The leader killed under strict pulls and pushes, with cancels and reschedules that race the due time: no failover
    duplicate; what comes again does so at the end of its lease. Clients, API and files say the same of all of it."""
    plan = Plan(
        rate=150,
        duration_s=FOREVER_S,
        due_together_ms=50,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.2,
        reschedule_share=0.2,
        push_share=0.5,
        push_fail_share=0.05,
        strict=True,
    )
    outcome, document = run_and_reconcile(tmp_path, plan, kills("leader", 2, CALM_S))
    assert count(outcome, "D", "failover") == 0
    assert document["causes"]["failover"] == 0
    assert count(outcome, "P", "webhooks") > 150
    assert count(outcome, "U", "cancelled") > 20


@pytest.mark.timeout(200)
def test_leader_killed_while_followers_commit_slowly(tmp_path: Path) -> None:
    """Commits take 100 ms, twice the stop rule: hand-over pauses rather than let the duplicates span more."""
    plan = Plan(rate=200, duration_s=FOREVER_S, batch=10, due_together_ms=50, lease_ms=5_000)
    outcome = run(tmp_path, plan, slow_followers(100, kills("leader", 2, CALM_S)), slow=True)
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["R"].figure["faults"] == 2
