"""A hand-over is bounded in units and in bytes, and never empty for want of bytes."""

import numpy as np
import numpy.typing as npt

from node.handover.hand_over_builder import HandOverBuilder
from storage.format.rows import UNIT
from storage.tables.topic import subscription_of


def rows(*sizes: int) -> npt.NDArray[np.void]:
    """Index rows of these sizes, due at 10, 20, ..."""
    made = np.zeros(len(sizes), UNIT)
    made["size"] = sizes
    made["due_ms"] = np.arange(1, len(sizes) + 1) * 10
    return made


def add(taking: HandOverBuilder, *sizes: int) -> int:
    """Offer units of these sizes, positions from 1."""
    n = len(sizes)
    return taking.add(np.arange(1, n + 1, dtype=np.uint64), np.ones(n, np.uint16), rows(*sizes))


def test_it_takes_what_fits_and_says_when_it_is_full() -> None:
    """The unit that would pass the bound stays, and so does everything behind it."""
    taking = HandOverBuilder(10, 100)
    assert add(taking, 40, 60) == 2
    assert not taking.full
    assert add(taking, 8) == 0
    assert taking.full
    hand_over = taking.hand_over(7, 99, 5)
    assert (hand_over.position.tolist(), hand_over.due_ms.tolist()) == ([1, 2], [10, 20])
    assert (taking.units, taking.bytes) == (8, 0)


def test_the_first_unit_is_taken_whatever_its_size() -> None:
    """A message at the limit must not stand in its topic's way for ever."""
    taking = HandOverBuilder(10, 100)
    assert add(taking, 500, 1) == 1
    assert taking.full
    assert len(taking.hand_over(subscription_of(7), 99, 5)) == 1


def test_an_empty_hand_over_has_columns_of_length_zero() -> None:
    """Nothing taken is a hand-over of nothing."""
    empty = HandOverBuilder(0, 100).hand_over(subscription_of(7), 99, 5)
    assert len(empty) == len(empty.attempt) == len(empty.due_ms) == 0
    assert empty.attempt.dtype == np.uint16
