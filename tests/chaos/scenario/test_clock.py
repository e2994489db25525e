"""Wall clocks that step, drift and are hours off, on real processes; judged by the harness's own clock."""

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from chaos.history.bounds import Bounds
from chaos.history.event import HandedOver
from chaos.plan.load_plan import Plan
from chaos.scenario.scenario import TWO_HOURS_MS, clock_steps
from chaos.scenario.trial import Outcome, Trial

PLAN = Plan(rate=150, duration_s=600.0, batch=10, due_together_ms=50, lease_ms=8_000)


@pytest.mark.timeout(120)
def test_a_leader_whose_clock_steps_yields_and_nothing_is_early(tmp_path: Path) -> None:
    """+10 s and -10 s: it hands leadership over; +300 ms and a drift: it leads on. Early is at most what the clock was
    slewed meanwhile, 500 ppm of a few seconds; late only as long as the hand-over of leadership took.
    """

    async def trial() -> Outcome:
        async with Trial(tmp_path, PLAN, skewed=True) as running:
            await running.run(clock_steps(4, 0.75))
            return await running.judge(Bounds(skew_ms=10, late_ms=1_000, on_time_ms=500))

    outcome = asyncio.run(trial())
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["S"].figure["terms"] == 3
    assert outcome.verdicts["D"].figure["failover"] == 0


@pytest.mark.timeout(120)
def test_a_leader_two_hours_ahead_and_the_way_back(tmp_path: Path) -> None:
    """While the third node is down and the others were restarted, so that they know no median, nobody can say whose
    clock is wrong: the one ahead leads, two hours early. When the third is back it is outvoted and hands over, the tick
    is set back, and all is on time again. Nothing is lost: what the wrong leader took and did not hand over any more is
    due at the time that its 201 named.
    """
    plan = replace(PLAN, drain_s=3.0)
    after: list[int] = []

    async def script(trial: Trial) -> None:
        nemesis, cluster, calm = trial.nemesis, trial.cluster, int(plan.rate * 1.5)
        await trial.served(calm)
        ahead, leadership = await nemesis.set_clock("follower", TWO_HOURS_MS)
        third = next(node_id for node_id in cluster.nodes if node_id not in (ahead, leadership.node_id))
        await cluster.stop(third)
        await trial.served(calm)
        wrong = leadership
        while wrong.node_id != ahead:  # neither remembers the median, and of two nobody can say: whoever is first leads
            for node_id in (leadership.node_id, ahead):
                await cluster.stop(node_id)
            for node_id in (ahead, leadership.node_id):
                cluster.start(node_id)
            wrong = await nemesis.leader(wrong.term)
        await trial.served(calm)
        cluster.start(third)
        back = await nemesis.leader()
        while back.node_id == ahead:
            back = await nemesis.leader(back.term)
        await trial.served(calm)
        after.append(back.term)
        nemesis.true_clock(ahead, "follower")
        await trial.served(calm)

    async def left(trial: Trial) -> None:
        """What was acknowledged and has not come out: scheduled, two hours ahead, as the answer said."""
        handed_over = {event.number for event in trial.history.of(HandedOver)}
        url = next(iter(trial.cluster.nodes.values())).url
        async with aiohttp.ClientSession() as http:
            for number, answer in trial.history.acknowledged().items():
                if number not in handed_over:
                    assert answer.due_ms > answer.wall_ms + TWO_HOURS_MS - 10_000
                    async with http.get(f"{url}/v1/messages/{answer.message_id}") as found:
                        assert (await found.json())["state"] == "scheduled"

    async def trial() -> tuple[Outcome, list[HandedOver]]:
        async with Trial(tmp_path, plan, skewed=True) as running:
            await running.run(script)
            await left(running)
            return await running.judge(Bounds(skew_ms=TWO_HOURS_MS, on_time_ms=500)), running.history.of(HandedOver)

    outcome, hand_overs = asyncio.run(trial())
    broken = [line for line in outcome.broken if not line.startswith("L:")]
    assert not broken, outcome.describe()
    true_again = [event.wall_ms - event.asked_due_ms for event in hand_overs if event.term >= after[0]]
    assert len(true_again) > 500
    assert min(true_again) >= -10
    assert max(true_again) < 2_000
