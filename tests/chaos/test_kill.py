"""kill -9 under load, on real processes: each role a few times here, 20 times each in `make chaos`.

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


@pytest.mark.timeout(200)
def test_either_role_killed_again_and_again(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing comes early, duplicates span at most 50 ms; files are equal afterwards."""

    async def both(trial: Trial) -> None:
        await kills("leader", 3)(trial)
        await kills("follower", 2)(trial)

    plan = Plan(rate=500, duration_s=FOREVER_S, batch=10, lease_ms=5_000, cancel_share=0.02)
    outcome = run(tmp_path, plan, both)
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["S"].figure["terms"] == 4
    assert outcome.verdicts["R"].figure["faults"] == 5


@pytest.mark.timeout(200)
def test_leader_killed_while_followers_commit_slowly(tmp_path: Path) -> None:
    """Commits take 100 ms, twice the stop rule: hand-over pauses rather than let the duplicates span more."""
    plan = Plan(rate=300, duration_s=FOREVER_S, batch=10, lease_ms=5_000)
    outcome = run(tmp_path, plan, slow_followers(100, kills("leader", 2)), slow=True)
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["R"].figure["faults"] == 2
