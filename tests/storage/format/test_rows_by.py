"""Rows by key."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.format.rows_by import rows_by


@given(st.lists(st.integers(0, 5)))
def test_rows_by_key_in_their_order(keys: list[int]) -> None:
    """Each distinct key once, rising, with all its rows in the order in which they stood."""
    column = np.array(keys, np.uint32)
    rows = np.arange(len(keys))
    found = {key: rows[which].tolist() for key, which in rows_by(column)}
    assert list(found) == sorted(set(keys))
    assert found == {key: [row for row, k in enumerate(keys) if k == key] for key in set(keys)}
