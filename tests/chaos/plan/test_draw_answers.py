"""Plans for what is said: laid over the plan of a seed, which stays as it was."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.plan.draw import LAST_S, draw_plan
from chaos.plan.draw_answers import SKEW_BESIDE_WRONG_MS, SKEW_MS, STORMS, with_asks
from chaos.plan.fault_plan import FaultPlan
from tests.examples import examples


@examples(100)
@given(seed=st.integers(0, 2**31), nodes=st.sampled_from([3, 5]))
def test_asks_are_laid_over_a_plan(seed: int, nodes: int) -> None:
    """All its faults are there, and more, all of them under load; what was rendered is read back."""
    plain = draw_plan(seed, 60, nodes)
    asked = with_asks(plain)
    assert FaultPlan.parse(asked.render()) == asked
    if plain.older or plain.crowd:
        assert asked == plain
        return
    assert set(plain.faults) < set(asked.faults)
    wrong = any(fault.kind in ("jump", "drift") for fault in asked.faults)
    assert asked.skew == (SKEW_BESIDE_WRONG_MS if wrong else SKEW_MS)
    assert all(fault.at_s < 60 for fault in asked.faults)


def test_every_storm_comes() -> None:
    """Each kind that only storms have, and in one of a few seeds more than one storm."""
    plans = [(plan, with_asks(plan)) for plan in (draw_plan(seed, 60) for seed in range(60))]
    more = [len(asked.faults) - len(plain.faults) for plain, asked in plans]
    kinds = {fault.kind for _, asked in plans for fault in asked.faults}
    assert kinds >= {"drain", "catch"}
    assert max(more) > max(map(len, STORMS))
    assert LAST_S < 60
    backups = [asked.backup for _, asked in plans if asked.backup]
    assert 5 < len(backups) < 30
    assert max(backups) < 60
