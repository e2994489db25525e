"""A new state is a row: the ledger takes a message in it for open, and for neither overdue nor lost."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ledger.columns import Flag, Lost, MessageClass, ended_class
from storage.format.registry import BadRow
from storage.format.states import DEAD, FORWARDED, STATES
from tests.ledger.life import AWAY, Life
from tests.storage.new_state import COMMITTED, HALF, added

LATE = {"lost_after_ms": 60_000}


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """Both states are there."""
    with added(HALF, COMMITTED):
        yield


@pytest.mark.parametrize(
    "life",
    [
        Life().settle(HALF.number, -59_000),
        Life().settle(FORWARDED, -9, when=AWAY, code=500).away(HALF.number, -8).stands_away(10, 10),
        Life().settle(HALF.number, -59_000).settle(COMMITTED.number, -9).settle(HALF.number, -8),
    ],
    ids=["at home", "elsewhere", "again"],
)
def test_what_is_held_waits(life: Life) -> None:
    """Though it is due for ten minutes, and nobody handed it over."""
    judged = life.judged(**LATE)
    assert (judged.kind, judged.lost) == (MessageClass.PENDING, Lost.NONE)
    assert not judged.flags & Flag.OVERDUE
    assert judged.row["settled_ms"] == 0


def test_what_is_pending_again_does_not() -> None:
    """As a message that nothing ever befell."""
    for life in (Life(), Life().settle(HALF.number, -59_000).settle(COMMITTED.number, -58_000)):
        judged = life.judged(**LATE)
        assert (judged.kind, judged.lost) == (MessageClass.LOST, Lost.NEVER_HANDED_OVER)
        assert judged.flags & Flag.OVERDUE


def test_each_state_that_ends_a_message_has_a_class() -> None:
    """One without is refused, by name."""
    assert {row.name: MessageClass(ended_class(row)).name for row in STATES.values() if ended_class(row)} == {
        "delivered": "DELIVERED_ONCE", "cancelled": "CANCELLED", "dead": "DEAD", "expired": "EXPIRED"
    }  # fmt: skip
    skipped = replace(STATES[DEAD], number=20, name="skipped", word="skipped")
    with pytest.raises(BadRow, match='state skipped: the ledger has no class for what is "skipped"'):
        ended_class(skipped)
    with added(replace(skipped, word="dead")):
        judged = Life().made(3).settle(20, 31_000, code=500).judged()
        assert judged.kind == MessageClass.DEAD
        assert judged.row["settled_ms"] > 0
    assert np.count_nonzero([ended_class(HALF), ended_class(COMMITTED)]) == 0
