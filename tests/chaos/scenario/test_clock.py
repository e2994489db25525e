"""Wall clocks that step, drift and are hours off, on real processes; judged by the harness's own clock."""

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from chaos.history.event import HandedOver
from chaos.live.result import Result
from chaos.live.run import PLAIN, LiveRun
from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.fault_plan import Fault, FaultPlan
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import LONGEST_S, TWO_HOURS_S, clock_steps, plan
from tests.chaos.scenario.carried_out import carried_out

LOAD = Plan(rate=150, batch=10, due_together_ms=50, lease_ms=8_000)
TWO_HOURS_MS = 1_000 * TWO_HOURS_S


@pytest.mark.timeout(120)
def test_a_leader_whose_clock_steps_yields_and_nothing_is_early(tmp_path: Path) -> None:
    """+10 s and -10 s: it hands leadership over; +300 ms and a drift: it leads on. Early is at most what the clock was
    slewed meanwhile, 500 ppm of a few seconds; late only as long as the hand-over of leadership took.
    """

    bounds = replace(ONE_BY_ONE, skew_ms=10, late_ms=1_000, on_time_ms=500)
    result = carried_out(tmp_path, plan(clock_steps(4, 0.75)), LOAD, bounds)
    assert result.figure("S")["terms"] == 3
    assert result.figure("D")["failover"] == 0


@pytest.mark.timeout(120)
def test_a_leader_two_hours_ahead_and_the_way_back(tmp_path: Path) -> None:
    """While the third node is down and the others were restarted, so that they know no median, nobody can say whose
    clock is wrong: the one ahead leads, two hours early. When the third is back it is outvoted and hands over, the tick
    is set back, and all is on time again. Nothing is lost: what the wrong leader took and did not hand over any more is
    due at the time that its 201 named.
    """
    load = replace(LOAD, drain_s=3.0)
    after: list[int] = []

    async def story(live: LiveRun) -> None:
        nemesis, watch, calm = live.nemesis, live.nemesis.watch, int(load.rate * 1.5)
        served = nemesis.service.served
        await served(calm)
        leadership = await watch.wait_leader()
        async with nemesis.on(Fault(0, "jump", "follower", 0, (("by", float(TWO_HOURS_S)),))) as (ahead,):
            third = next(node_id for node_id in live.cluster.nodes if node_id not in (ahead, leadership.node_id))
            async with nemesis.on(Fault(0, "stop", third, 0)):
                await served(calm)
                wrong = leadership
                # Neither remembers the median, and of two nobody can say: whoever is first leads.
                while wrong.node_id != ahead:
                    stop, first = (Fault(0, "stop", node_id, 0) for node_id in (leadership.node_id, ahead))
                    async with nemesis.on(stop), nemesis.on(first):
                        pass
                    wrong = await watch.wait_leader(wrong.term)
                await served(calm)
            back = await watch.wait_leader()
            while back.node_id == ahead:
                back = await watch.wait_leader(back.term)
            await served(calm)
            after.append(back.term)
        await served(calm)

    async def left(live: LiveRun) -> None:
        """What was acknowledged and has not come out: scheduled, two hours ahead, as the answer said."""
        handed_over = {event.number for event in live.history.of(HandedOver)}
        url = next(iter(live.cluster.nodes.values())).url
        async with aiohttp.ClientSession() as http:
            for number, answer in live.history.acknowledged().items():
                if number not in handed_over:
                    assert answer.due_ms > answer.wall_ms + TWO_HOURS_MS - 10_000
                    async with http.get(f"{url}/v1/messages/{answer.message_id}") as found:
                        assert (await found.json())["state"] == "scheduled"

    async def run() -> Result:
        bounds = replace(ONE_BY_ONE, skew_ms=TWO_HOURS_MS, on_time_ms=500)
        setup = replace(PLAIN, bounds=bounds, kinds=frozenset({"jump"}))
        async with LiveRun(FaultPlan(1, 3, LONGEST_S), load, tmp_path, setup=setup) as live:
            await live.run(story)
            await left(live)
            return await live.judge()

    result = asyncio.run(run())
    hand_overs = result.history.of(HandedOver)
    assert not [verdict for verdict in result.verdicts if not verdict.holds and verdict.promise != "L"], (
        result.describe()
    )
    true_again = [event.wall_ms - event.asked_due_ms for event in hand_overs if event.term >= after[0]]
    assert len(true_again) > 500
    assert min(true_again) >= -10
    assert max(true_again) < 2_000
