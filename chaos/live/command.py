"""`hourwheel chaos run`, without its options: checks what the machine permits, runs the plan, writes the report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uvloop

from chaos.live.faults.loop_disk import missing, own_mounts
from chaos.live.network.choose import choose_ground
from chaos.live.report import lines_of, write_report
from chaos.live.result import Result
from chaos.live.run import LOAD, LiveRun, Setup
from chaos.plan.fault_plan import FaultPlan


def run_plan(
    plan: FaultPlan, directory: Path, rate: float, strict: bool, hostile: bool, say: Callable[[str], None]
) -> bool:
    """Run the plan in `directory`, which is empty, at `rate` messages a second. If `hostile`, attacks of single clients
    run beside it. Return True if every promise held.

    Blocks until the run is over. Call it before any thread is started: this process gets mounts of its own. Raises
    ClusterFailed when the cluster does not heal.
    """
    lacking = missing()
    if not lacking:
        try:
            own_mounts()
        except OSError as error:
            lacking = f"mounts of its own: {error}"
    (directory / "plan.txt").write_text(plan.render(), encoding="utf-8")
    load = replace(LOAD, rate=rate, strict=strict)

    async def run() -> Result:
        chosen = await choose_ground(directory, plan.seed)
        say(f"{plan.nodes} nodes on {chosen.cluster_network.name}; {len(plan.faults)} faults in {plan.seconds:g} s")
        for why in filter(None, (chosen.why, lacking and f"no disks of their own for nodes: there is no {lacking}")):
            say(f"this machine: {why}")
        setup = Setup(no_disks=lacking, hostile=hostile)
        async with LiveRun(plan, load, directory, chosen.cluster_network, setup, say) as live:
            await live.run()
            return await live.judge()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run())
    title = f"hourwheel chaos run, seed {plan.seed}: {plan.nodes} nodes, {rate:,.0f} messages/s"
    write_report(plan, result, directory, title)
    for line in lines_of(plan, result):
        say(line)
    return not result.broken
