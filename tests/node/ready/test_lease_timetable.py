"""Leases that end are looked for when they have ended, and found once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.ready.lease_timetable import LONG_GRID_MS, LONG_LEASE_MS, SHORT_GRID_MS, LeaseTimetable
from storage.format.position import pack


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 2 * LONG_LEASE_MS)), min_size=1))
def test_every_lease_is_looked_for_after_its_end_and_soon(leases: list[tuple[int, int, int]]) -> None:
    """Each leased position lies in a span that is given at the first grid point at or after its end, and not before."""
    now_ms = 1_000_003
    ends = LeaseTimetable()
    positions = [pack(400_000 + hour, index) for hour, index, _ in leases]
    ends_ms = [now_ms + length for _, _, length in leases]
    ends.add(np.array(positions, np.uint64), np.array(ends_ms, np.int64), now_ms)
    missing = set(zip(positions, ends_ms, strict=True))
    while (next_ms := ends.next_ms()) is not None:
        assert ends.ended(next_ms - 1) == []
        for span in ends.ended(next_ms):
            found = {(p, end_ms) for p, end_ms in missing if span.first <= p < span.end and end_ms <= next_ms}
            grid_ms = LONG_GRID_MS if any(end_ms - now_ms > LONG_LEASE_MS for _, end_ms in found) else SHORT_GRID_MS
            assert all(next_ms - end_ms < grid_ms for _, end_ms in found)
            missing -= found
    assert not missing
