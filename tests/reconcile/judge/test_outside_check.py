"""Receipts and acknowledgements held against a bucket: every row ends in one class, and the classes add up."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import RECEIPT, Bucket
from ledger.columns import Lost, MessageClass
from reconcile.judge.outside_check import (
    ACKNOWLEDGED,
    DUPLICATE_ROW,
    MATCHED,
    OUTSIDE_WINDOW,
    RECEIPTS,
    UNKNOWN_ID,
    lost_messages,
    weigh,
)
from storage.format.position import HOUR_MS
from storage.format.rows import SETTLE, UNIT, UNIT_MOVED
from storage.record.delivery_record import DELIVERY
from storage.record.record import HEADER
from tests.examples import examples

HOUR, FIRST, COUNT = 490_000, 100, 6
MOVED = 3
NONE = np.zeros(0, RECEIPT)


def bucket() -> Bucket:
    """Six units from number 100 on, of which one was born elsewhere; random bits are ten times the number."""
    units, headers = np.zeros(COUNT, UNIT), np.zeros(COUNT, HEADER)
    units["kind"] = 1
    units["flags"][MOVED] = UNIT_MOVED
    headers["size"], headers["random"] = 96, np.arange(FIRST, FIRST + COUNT) * 10
    return Bucket(0, HOUR, FIRST, units, np.zeros(0, SETTLE), headers, np.zeros(0, DELIVERY))


def said(*rows: tuple[int, int]) -> npt.NDArray[np.void]:
    """RECEIPT rows of (number, random bits), all of the same moment."""
    found = np.zeros(len(rows), RECEIPT)
    for at, (number, random) in enumerate(rows):
        found["home"][at], found["random"][at] = HOUR << 40 | number, random
    found["at_ms"] = 5
    return found


@examples(100)
@given(st.lists(st.tuples(st.integers(FIRST - 2, FIRST + COUNT + 2), st.booleans()), max_size=20))
def test_the_classes_add_up(names: list[tuple[int, bool]]) -> None:
    """Rows that match are those of messages born here with their random bits, each once; no row is without a class."""
    rows = said(*((number, number * 10 + (not right)) for number, right in names))
    found = weigh(bucket(), rows, rows, 0)
    born = {number for number in range(FIRST, FIRST + COUNT) if number != FIRST + MOVED}
    matching = {(number, right) for number, right in names if right and number in born}
    for source in (RECEIPTS, ACKNOWLEDGED):
        counts = {name: found.counts.get((source, name), 0) for name in (MATCHED, DUPLICATE_ROW, UNKNOWN_ID)}
        assert counts[MATCHED] == len(matching)
        assert counts[DUPLICATE_ROW] == len(names) - len(set(names))
        assert sum(counts.values()) == len(names)
    assert len(found.receipts) == len(matching)
    assert len(found.never_found) == len(set(names) - matching)
    assert len(found.unmatched) == 2 * len(set(names) - matching)


def test_hand_overs_of_one_message_are_no_duplicate_rows() -> None:
    """A consumer that got a message twice says so with another attempt, or at another time."""
    rows = said((100, 1000), (100, 1000), (100, 1000))
    rows["attempt"], rows["at_ms"] = [1, 2, 1], [5, 5, 9]
    found = weigh(bucket(), rows, NONE, 0)
    assert found.counts == {(RECEIPTS, MATCHED): 3}


def test_before_the_window_nothing_follows() -> None:
    """An hour that may have been unlinked proves nothing: what is not found there is outside the window, not lost."""
    rows = said((FIRST + COUNT, 1))
    found = weigh(bucket(), rows, rows, (HOUR + 1) * HOUR_MS)
    assert found.counts == {(RECEIPTS, OUTSIDE_WINDOW): 1, (ACKNOWLEDGED, OUTSIDE_WINDOW): 1}
    assert len(found.never_found) == 0
    assert found.unmatched.column("class").to_pylist() == [OUTSIDE_WINDOW] * 2


def test_a_bucket_that_no_node_has_matches_nothing() -> None:
    """Receipts that name an hour nobody has are unknown; without record headers a number is enough."""
    empty = Bucket(0, HOUR, 0, np.zeros(0, UNIT), np.zeros(0, SETTLE), None, np.zeros(0, DELIVERY))
    assert weigh(empty, said((0, 1)), NONE, 0).counts == {(RECEIPTS, UNKNOWN_ID): 1}


def test_an_acknowledged_message_that_is_nowhere_is_lost() -> None:
    """It is a row of the ledger, so that the sum of the classes is what was scheduled."""
    columns = lost_messages(said((7, 70), (8, 80)))
    assert columns["class"].tolist() == [MessageClass.LOST] * 2
    assert columns["lost"].tolist() == [Lost.NOT_FOUND] * 2
    assert (columns["home"] & np.uint64(0xFF)).tolist() == [7, 8]
