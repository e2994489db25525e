"""What a Fail says of each row: given up for its own reason, unless it was decided otherwise."""

import numpy as np

from node.port.failure_code import MAX_AGE
from node.settle.fail_columns import FailColumns
from node.settle.retry import Dead, Retry
from replication.command.handover import AGAIN, DEAD, RETRY


def test_each_row_has_what_was_decided_and_one_that_was_not_is_dead_by_its_own_reason() -> None:
    """Tried again, counted or not; given up for another reason than its failure's; and not looked at."""
    fails = FailColumns(np.array([500, 501, 502, 503], np.uint16))
    fails.note(0, Retry(10))
    fails.note(1, Retry(20), counts=False)
    fails.note(2, Dead(MAX_AGE))
    place, term, attempt = np.arange(4, dtype=np.uint64), np.ones(4, np.uint32), np.ones(4, np.uint16)
    fail = fails.fail(place, term, attempt, random=place, said=["a", "b", "c", "d"])
    assert fail.fate.tolist() == [RETRY, AGAIN, DEAD, DEAD]
    assert fail.due_ms.tolist() == [10, 20, 0, 0]
    assert fail.code.tolist() == [500, 501, MAX_AGE, 503]
    assert fail.texts == (b"a", b"b", b"c", b"d")
    assert FailColumns(np.zeros(0, np.uint16)).fail(place[:0], term[:0], attempt[:0], random=place[:0]).texts == ()
