"""Rows that name a unit more than once: each waits for those before it, and only if it says something else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replication.apply.message.attempt_order import fence, first_of_each, rounds

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=30)


@given(ROWS)
def test_every_row_is_in_one_round_behind_those_it_must_wait_for(rows: list[tuple[int, int]]) -> None:
    """Each row is judged once or repeats one that is; no unit comes twice in a round; a unit's rows keep order."""
    position = np.array([row[0] for row in rows], np.uint64)
    claim = np.array([row[1] for row in rows], np.uint64)
    judged: list[int] = []
    repeats: list[int] = []
    for turn in rounds(position, claim):
        assert len(turn.rows) == len(set(position[turn.rows].tolist()))
        assert turn.rows.tolist() == sorted(turn.rows.tolist())
        for repeat, repeated in zip(turn.repeats.tolist(), turn.repeated.tolist(), strict=True):
            assert repeat > repeated in turn.rows
            assert rows[repeat] == rows[repeated]
        judged += turn.rows.tolist()
        repeats += turn.repeats.tolist()
    assert sorted(judged + repeats) == list(range(len(rows)))
    for unit in range(5):
        of_unit = [row for row in judged if rows[row][0] == unit]
        assert of_unit == sorted(of_unit)


def test_one_receipt_ten_thousand_times_is_one_round() -> None:
    """A client cannot make apply go in rounds by sending the same thing again and again."""
    assert len(list(rounds(np.full(10_000, 7, np.uint64), np.full(10_000, 3, np.uint64)))) == 1


def test_the_fence_orders_by_term_then_attempt() -> None:
    """A hand-over of a later term is newer whatever its attempt."""
    fences = fence(np.array([1, 1, 2], np.uint32), np.array([1, 65_535, 0], np.uint16))
    assert fences.tolist() == sorted(set(fences.tolist()))


def test_first_of_each() -> None:
    """True where a position stands for the first time."""
    assert first_of_each(np.array([5, 3, 5, 3, 4], np.uint64)).tolist() == [True, True, False, False, True]
