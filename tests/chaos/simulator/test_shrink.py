"""Shrinking a plan: the fewest lines with which it still fails."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chaos.plan.draw import draw_plan
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.shrink import fewest, shrink_plan


@given(st.lists(st.integers(0, 1000), unique=True, max_size=40), st.data())
def test_what_is_needed_together_is_what_is_left(items: list[int], data: st.DataObject) -> None:
    """Whatever part of the items fails only as a whole, exactly that is found, in its order."""
    needed = data.draw(st.sets(st.sampled_from(items))) if items else set()

    def fails(tried: Sequence[int]) -> bool:
        return needed <= set(tried)

    assert fewest(items, fails) == [item for item in items if item in needed]


def test_any_of_several_causes_is_enough() -> None:
    """Two lines that each fail alone: one of them is left."""
    assert fewest(list(range(20)), lambda tried: 3 in tried or 17 in tried) in ([3], [17])


def test_plan_shrinks_within_its_tries() -> None:
    """When the tries are used up, the smallest plan found so far; with enough of them, the smallest there is."""
    plan = draw_plan(1, 60)
    wanted = plan.faults[5]
    runs: list[FaultPlan] = []

    def fails(tried: FaultPlan) -> bool:
        runs.append(tried)
        return wanted in tried.faults

    assert shrink_plan(plan, fails, tries=100).faults == (wanted,)
    runs.clear()
    few = shrink_plan(plan, fails, tries=3)
    assert len(runs) == 3
    assert wanted in few.faults
