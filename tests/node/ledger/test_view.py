"""Rows of the ledger as people read them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.handover.delivery_log import DELIVERED, FAILED, PULL
from node.ledger.view import HAND_OVERS_MAX, OUTCOMES, UNKNOWN, show_hand_overs
from storage.record.delivery_record import DELIVERY, END, START, Deliveries

#: (kind, term, attempt, at_ms, outcome)
Row = tuple[int, int, int, int, int]


def records_of(rows: list[Row]) -> Deliveries:
    """Records of one message, in the order in which they were found."""
    records = np.zeros(len(rows), DELIVERY)
    for row, (kind, term, attempt, at_ms, outcome) in enumerate(rows):
        record = records[row]
        record["kind"], record["term"], record["attempt"], record["at_ms"] = kind, term, attempt, at_ms
        record["outcome"], record["mode"] = outcome, PULL
    return records


_rows = st.tuples(
    st.sampled_from([START, END]), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.sampled_from([1, 2])
)


@given(st.lists(_rows, max_size=30))
def test_each_hand_over_has_its_last_end(rows: list[Row]) -> None:
    """In order of (term, attempt), then of time."""
    last = {(term, attempt): (at_ms, outcome) for kind, term, attempt, at_ms, outcome in rows if kind == END}
    starts = sorted((term, attempt, at_ms) for kind, term, attempt, at_ms, _ in rows if kind == START)
    shown = show_hand_overs(records_of(rows), str)
    assert [(each.term, each.attempt, each.at_ms) for each in shown] == starts
    for each in shown:
        ended_ms, outcome = last.get((each.term, each.attempt), (0, 0))
        assert (each.ended_ms, each.outcome) == (ended_ms, OUTCOMES[outcome] if outcome else UNKNOWN)


def test_the_newest_hand_overs_are_shown() -> None:
    """95 acks of 10,000 copies of one receipt made a look at its message hold the loop for 0.7 s."""
    rows = [(START, 1, attempt, attempt, 0) for attempt in range(1, 2 * HAND_OVERS_MAX)]
    rows += [(END, 1, attempt, attempt, FAILED) for attempt in range(1, 2 * HAND_OVERS_MAX - 1)]
    rows.append((END, 1, 2 * HAND_OVERS_MAX - 1, 1, DELIVERED))
    shown = show_hand_overs(records_of(rows), str)
    assert [each.attempt for each in shown] == [*range(HAND_OVERS_MAX, 2 * HAND_OVERS_MAX)]
    assert [each.outcome for each in shown] == ["failed"] * (HAND_OVERS_MAX - 1) + ["delivered"]
