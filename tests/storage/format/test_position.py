"""Positions and the hours that they are in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.format.position import in_hours, pack
from tests.examples import examples

PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, (1 << 40) - 1)), max_size=8)


@examples(100)
@given(PLACES)
def test_each_hour_has_its_rows_and_their_indexes(places: list[tuple[int, int]]) -> None:
    """Hours rise, rows stay in order, every row comes once; of one hour all rows are a slice, however many."""
    positions = np.array([pack(hour, index) for hour, index in places], np.uint64)
    found = list(in_hours(positions))
    assert [hour for hour, _, _ in found] == sorted({hour for hour, _ in places})
    rows_of_all = np.arange(len(places))
    for hour, rows, indexes in found:
        assert isinstance(rows, slice) == (len(found) == 1)
        assert rows_of_all[rows].tolist() == [row for row, place in enumerate(places) if place[0] == hour]
        assert indexes.tolist() == [places[row][1] for row in rows_of_all[rows].tolist()]
        assert indexes.dtype == np.int64
