"""A leader that is paused and wakes under a new one: its long polls must not be fed by it."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import pauses, plan
from tests.chaos.scenario.carried_out import carried_out


@pytest.mark.timeout(120)
def test_leader_paused_three_seconds_under_load(tmp_path: Path) -> None:
    """SIGSTOP 3 s with over 1,000 due a second and long polls pinned to every node, the leader among them.

    What is received of the old term after the first of the new one was chosen before the pause, in at most one write
    per connection; nothing is lost, early, or repeated beyond the bound; and the new leader serves before the old one
    wakes, also those whose polls had been passed on to it.
    """
    load = Plan(rate=1_200, batch=30, due_together_ms=10, lease_ms=8_000, consumers_per_node=4, wait_ms=10_000)
    result = carried_out(tmp_path, plan(pauses(1, 3.0)), load, replace(ONE_BY_ONE, recovery_ms=2_800, on_time_ms=500))
    assert result.figure("S")["terms"] == 2
