"""Sorted runs against sorted lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.format.position import INDEX_BITS
from storage.wheel.slot import DueUnits
from storage.wheel.sorted_run import Run
from tests.storage.wheel.test_second_wheel import columns, listed

TICK = 7 * 3600 + 11
BASE = 7 << INDEX_BITS
UNITS = st.sets(st.tuples(st.integers(TICK * 1000, TICK * 1000 + 999), st.integers(BASE, BASE + 50)), min_size=1)


def run_of(units: set[tuple[int, int]]) -> Run:
    """A run of these units."""
    return Run.of(TICK, columns(sorted(units)))


@given(units=UNITS, until_ms=st.integers(TICK * 1000 - 5, TICK * 1000 + 2000))
def test_take_cuts_at_the_millisecond(units: set[tuple[int, int]], until_ms: int) -> None:
    """take gives exactly what is due by then, and leaves the rest."""
    run = run_of(units)
    head = run.take(until_ms)
    assert listed(head.units()) == sorted(unit for unit in units if unit[0] <= until_ms)
    assert listed(run.units()) == sorted(unit for unit in units if unit[0] > until_ms)
    if len(run):
        assert run.first_ms == min(due for due, _ in units if due > until_ms)


@given(first=UNITS, second=UNITS, until_ms=st.integers(TICK * 1000, TICK * 1000 + 999))
def test_merge_and_without_are_union_and_difference(
    first: set[tuple[int, int]], second: set[tuple[int, int]], until_ms: int
) -> None:
    """What is left of two runs: without() is the difference, merge() of disjoint ones the union, both in order."""
    one, other = run_of(first), run_of(second)
    one.take(until_ms)
    left = {unit for unit in first if unit[0] > until_ms}
    rest = one.without(other)
    assert listed(rest.units()) == sorted(left - second)
    assert listed(Run.merge([other, rest]).units()) == sorted(left | second)


@pytest.mark.parametrize(
    "units",
    [
        [(TICK * 1000 + 5, BASE), (TICK * 1000 + 4, BASE + 1)],
        [(TICK * 1000 + 5, BASE), (TICK * 1000 + 5, BASE)],
        [(TICK * 1000 - 1, BASE)],
        [(TICK * 1000 + 1000, BASE)],
        [(TICK * 1000, BASE + (1 << INDEX_BITS))],
    ],
    ids=["out of order", "twice", "second before", "second after", "another hour"],
)
def test_units_that_are_no_run_are_refused(units: list[tuple[int, int]]) -> None:
    """A reader that gives a second's units out of order, twice, or of another second breaks an invariant of ours."""
    with pytest.raises(AssertionError):
        Run.of(TICK, columns(units))


def test_a_run_of_nothing_is_refused() -> None:
    """There is no empty run: what holds nothing is not kept."""
    with pytest.raises(AssertionError):
        Run.of(TICK, DueUnits.empty())
