"""A leader that is paused and wakes under a new one: its long polls must not be fed by it."""

import asyncio
from pathlib import Path

import pytest

from chaos.history.bounds import Bounds
from chaos.plan.load_plan import Plan
from chaos.scenario.scenario import pauses
from chaos.scenario.trial import Outcome, Trial


@pytest.mark.timeout(120)
def test_leader_paused_three_seconds_under_load(tmp_path: Path) -> None:
    """SIGSTOP 3 s with over 1,000 due a second and long polls pinned to every node, the leader among them.

    What is received of the old term after the first of the new one was chosen before the pause, in at most one write
    per connection; nothing is lost, early, or repeated beyond the bound; and the new leader serves before the old one
    wakes, also those whose polls had been passed on to it.
    """
    plan = Plan(
        rate=1_200, duration_s=600.0, batch=30, due_together_ms=10, lease_ms=8_000, consumers_per_node=4, wait_ms=10_000
    )

    async def trial() -> Outcome:
        async with Trial(tmp_path, plan) as running:
            await running.run(pauses(1, 3.0))
            return await running.judge(Bounds(recovery_ms=2_800, on_time_ms=500))

    outcome = asyncio.run(trial())
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["S"].figure["terms"] == 2
