"""Leadership moved on purpose under load, on real processes; 20 times in `make chaos`."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from chaos.bounds import Bounds
from chaos.checker import judge
from chaos.event import Event, Transferred
from chaos.history import History
from chaos.plan import Plan
from chaos.scenario import transfers
from chaos.trial import Outcome, Trial
from tests.chaos.planted import at, good, hand_over


def test_a_transfer_that_repeats_pauses_or_goes_astray_is_red() -> None:
    """T: the good history with a transfer in place of its kill is judged by it: three repeats, and the pause."""
    moved = {"source": "n1", "target": "n2", "asked": "n2", "term_before": 1, "term_after": 2, "took_ms": 30}
    transfer = msgspec.convert(moved | at(1_500) | {"type": "Transferred"}, Transferred)

    def verdict(event: Event, repeats: bool, gap_ms: int = 600) -> list[str]:
        events = [each for each in good() if repeats or each != hand_over(getattr(each, "number", 0), 1_501, 2, 2)]
        return next(
            each.faults for each in judge(History([*events, event]), Bounds(gap_ms=gap_ms)) if each.promise == "T"
        )

    assert not verdict(transfer, repeats=False)
    assert len(verdict(transfer, repeats=True)) == 3
    assert "no hand-over for 510 ms" in verdict(transfer, repeats=False, gap_ms=100)[0]
    assert "n3 leads" in verdict(msgspec.structs.replace(transfer, target="n3"), repeats=False)[0]
    assert "term 1 afterwards" in verdict(msgspec.structs.replace(transfer, term_after=1), repeats=False)[0]


@pytest.mark.timeout(120)
def test_transfers_under_load(tmp_path: Path) -> None:
    """Six, asked of leader and followers, to a named node and to the best: nothing lost, early or twice."""

    async def trial() -> Outcome:
        plan = Plan(rate=1_000, duration_s=600.0, batch=10, lease_ms=8_000)
        async with Trial(tmp_path, plan) as running:
            await running.run(transfers(6))
            return await running.judge(Bounds(on_time_ms=500, acknowledged_share=0.999))

    outcome = asyncio.run(trial())
    assert not outcome.broken, outcome.describe()
    assert outcome.verdicts["T"].figure["transfers"] == 6
    assert outcome.verdicts["S"].figure["terms"] == 7
