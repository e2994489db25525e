"""A node is replaced under load, on real processes; `python -m chaos.scenario.run replace` does it to every node in
turn."""

import asyncio
from pathlib import Path

import pytest

from chaos.history.bounds import Bounds
from chaos.plan.load_plan import Plan
from chaos.scenario.scenario import replacements
from chaos.scenario.trial import Outcome, Trial


@pytest.mark.timeout(120)
def test_a_founder_gives_way_to_a_new_node(tmp_path: Path) -> None:
    """The new one gets its vote, the old one ends with the exit code of a removed node; nothing acknowledged is lost,
    nothing comes twice, and the files of those that are members now are equal."""

    async def trial() -> Outcome:
        async with Trial(tmp_path, Plan(rate=200, duration_s=600.0, due_together_ms=50), spare=1) as running:
            await running.run(replacements(1))
            assert list(running.cluster.nodes) == ["n2", "n3", "n4"]
            return await running.judge(Bounds(recovery_ms=4_000, on_time_ms=2_000))

    outcome = asyncio.run(trial())
    assert not outcome.broken, outcome.describe()
    assert set(outcome.digests) == {"n2", "n3", "n4"}
