"""Plans of one kind of fault carried out on real processes; no promise is broken, and every fault came."""

import asyncio
from dataclasses import replace
from pathlib import Path

from chaos.check.engine.yields import check_yields
from chaos.history.bounds import Bounds
from chaos.live.result import Result, otherwise
from chaos.live.run import PLAIN, LiveRun, Story
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan


def carried_out(
    directory: Path,
    plan: FaultPlan,
    load: Plan,
    bounds: Bounds,
    more: Story | None = None,
    *,
    story: Story | None = None,
) -> Result:
    """The plan's faults under this load, beside a story if there is one; `more` is waited for after the load, while the
    nodes still run."""

    async def run() -> Result:
        setup = replace(PLAIN, bounds=bounds, further=(check_yields,))
        async with LiveRun(plan, load, directory, setup=setup) as live:
            await live.run(story)
            if more is not None:
                await more(live)
            return await live.judge()

    result = asyncio.run(run())
    assert not result.broken, result.describe()
    assert not otherwise(plan, result)
    return result
