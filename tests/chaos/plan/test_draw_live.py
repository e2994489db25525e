"""Plans drawn for real processes: a function of the seed, in the language, with every kind in every long run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.plan.draw_live import LAST_S, REPLACED_MAX, draw_plan
from chaos.plan.fault_plan import FaultPlan, kinds_of


@given(seed=st.integers(0, 2**32), seconds=st.floats(10, 700), nodes=st.sampled_from([3, 5]))
def test_a_drawn_plan_is_written_and_read(seed: int, seconds: float, nodes: int) -> None:
    """What is drawn is a plan that real processes carry out, and its text is read as the same plan."""
    plan = draw_plan(seed, round(seconds, 3), nodes)
    again = FaultPlan.parse(plan.render(), "live")
    assert again.faults == plan.faults
    assert (again.seed, again.nodes) == (seed, nodes)
    assert all(fault.at_s < seconds - LAST_S for fault in plan.faults)
    assert draw_plan(seed, round(seconds, 3), nodes) == plan


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_have_every_kind(seed: int) -> None:
    """Each kind comes, and a node is replaced as often as there are spare ones."""
    kinds = [fault.kind for fault in draw_plan(seed, 600, 3).faults]
    assert set(kinds) == set(kinds_of("live"))
    assert kinds.count("replace") <= REPLACED_MAX
    assert 80 <= len(kinds) <= 150


def test_only_the_kinds_asked_for() -> None:
    """A run of some kinds has no others."""
    assert {fault.kind for fault in draw_plan(7, 120, 3, ["kill", "pause"]).faults} == {"kill", "pause"}
