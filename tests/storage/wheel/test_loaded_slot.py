"""A loaded slot: many small arrivals beside one big read."""

import pytest

from storage.wheel.loaded_slot import LoadedSlot
from tests.storage.wheel.test_second_wheel import columns, listed


def test_many_arrivals_leave_few_runs() -> None:
    """A thousand single arrivals are kept in at most log2(1000) + 1 runs, so taking stays cheap."""
    slot = LoadedSlot(3600)
    units = [(3_600_000 + index * 7 % 1000, (1 << 40) + index) for index in range(1000)]
    for unit in units:
        slot.arrive(columns([unit]))
    assert len(slot._runs) <= 11
    assert len(slot) == 1000
    due = slot.take(3_600_999)
    assert due is not None
    assert listed(due) == sorted(units)
    assert slot.first_ms is None


def test_a_load_nobody_asked_for_is_refused() -> None:
    """Loading a slot twice would give its units twice."""
    slot = LoadedSlot(3600)
    with pytest.raises(AssertionError):
        slot.load(columns([(3_600_000, 1 << 40)]))


def test_an_empty_read_opens_the_slot() -> None:
    """A second whose units were all settled reads empty; what arrived meanwhile is there."""
    slot = LoadedSlot(3600)
    slot.loading = True
    unit = (3_600_000, 1 << 40)
    slot.arrive(columns([unit]))
    slot.load(columns([]))
    due = slot.take(3_600_000)
    assert due is not None
    assert listed(due) == [unit]
    assert slot.dispatched == 1
