"""kill -9 under load, on real processes: each role a few times here, 20 times each in `make chaos-scenarios`.

Time bounds are wide, because the machine runs other things beside; bounds on messages are the promises themselves.
"""

import asyncio
from pathlib import Path

import pytest

from chaos.bounds import Bounds
from chaos.plan import Plan
from chaos.scenario import Script, kills, slow_followers
from chaos.trial import Outcome, Trial

FOREVER_S = 600.0
BOUNDS = Bounds(recovery_ms=4_000, on_time_ms=500)


def run(directory: Path, plan: Plan, script: Script, *, slow: bool = False) -> Outcome:
    """The trial's outcome; its history stays in `directory`."""

    async def trial() -> Outcome:
        async with Trial(directory, plan, slow=slow) as running:
            await running.run(script)
            return await running.judge(BOUNDS)

    return asyncio.run(trial())


def count(outcome: Outcome, promise: str, name: str) -> int:
    """A count of a verdict's figures."""
    value = outcome.verdicts[promise].figure[name]
    assert isinstance(value, int)
    return value


@pytest.mark.timeout(200)
def test_either_role_killed_again_and_again(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing comes early, duplicates span at most 50 ms; files are equal afterwards."""

    async def both(trial: Trial) -> None:
        await kills("leader", 3)(trial)
        await kills("follower", 2)(trial)

    plan = Plan(
        rate=500,
        duration_s=FOREVER_S,
        batch=10,
        lease_ms=5_000,
        cancel_share=0.02,
        push_share=0.4,
        push_fail_share=0.05,
    )
    outcome = run(tmp_path, plan, both)
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["S"].figure["terms"] == 4
    assert outcome.verdicts["R"].figure["faults"] == 5
    assert count(outcome, "P", "webhooks") > 1_000
    assert count(outcome, "D", "retried") > 10


@pytest.mark.timeout(200)
def test_cancels_and_reschedules_race_the_due_time_while_leaders_die(tmp_path: Path) -> None:
    """A cancel or reschedule that was answered 200 is never followed by the start of a hand-over."""
    plan = Plan(
        rate=200,
        duration_s=FOREVER_S,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.4,
        reschedule_share=0.4,
        push_share=0.5,
        push_fail_share=0.05,
    )
    outcome = run(tmp_path, plan, kills("leader", 2))
    assert not outcome.broken, outcome.describe()
    assert count(outcome, "U", "raced") > 500
    assert count(outcome, "U", "cancelled") > 20
    assert count(outcome, "U", "moved") > 20


@pytest.mark.timeout(200)
def test_strict_topics_repeat_nothing_and_never_doubt(tmp_path: Path) -> None:
    """The leader killed under strict pulls and pushes, with cancels and reschedules that race the due time: no failover
    duplicate; what comes again does so at the end of its lease."""
    plan = Plan(
        rate=300,
        duration_s=FOREVER_S,
        batch=10,
        lease_ms=3_000,
        cancel_share=0.2,
        reschedule_share=0.2,
        push_share=0.5,
        push_fail_share=0.05,
        strict=True,
    )
    outcome = run(tmp_path, plan, kills("leader", 2))
    assert not outcome.broken, outcome.describe()
    assert count(outcome, "D", "failover") == 0
    assert count(outcome, "P", "webhooks") > 300
    assert count(outcome, "U", "cancelled") > 20


@pytest.mark.timeout(200)
def test_leader_killed_while_followers_commit_slowly(tmp_path: Path) -> None:
    """Commits take 100 ms, twice the stop rule: hand-over pauses rather than let the duplicates span more."""
    plan = Plan(rate=300, duration_s=FOREVER_S, batch=10, lease_ms=5_000)
    outcome = run(tmp_path, plan, slow_followers(100, kills("leader", 2)), slow=True)
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["R"].figure["faults"] == 2
