"""A plan whose faults wait for calm, and calm does not come."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from chaos.live.run import LiveRun
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan


def test_a_plan_that_was_not_over_in_its_time_is_told_of(tmp_path: Path) -> None:
    """It is a violation: its last fault may have come and never been over, or none came."""

    async def run(over: bool) -> list[str]:
        plan = FaultPlan.parse("plan seed=1 nodes=3 seconds=1\n+1 kill leader for=+1", "live")
        live = LiveRun(replace(plan, seconds=0.05), Plan(), tmp_path)
        turns_over = asyncio.Event()
        if over:
            turns_over.set()
        live.nemesis = cast(Any, SimpleNamespace(turns_over=turns_over))
        await live._until_over(None)
        return live._unfinished

    assert asyncio.run(run(True)) == []
    assert asyncio.run(run(False)) == ["the plan was not over after 0.05 s"]
