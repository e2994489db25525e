"""The 50 ms rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.handover.lease_book import HandOver, LeaseBook
from node.write.leader_commands import NOTHING_RIDES
from storage.format.rows import UNIT
from storage.tables.topic import subscription_of

STOP_MS = 50


def hand_over(at_ms: int, *positions: int) -> HandOver:
    """Hand-overs at a moment."""
    at = np.array(positions or (1,), np.uint64)
    units = np.zeros(len(at), UNIT)
    units["due_ms"] = at_ms
    return HandOver(subscription_of(1), at, np.ones(len(at), np.uint16), units, at_ms + 30_000, at_ms)


def test_leases_leave_on_the_beat_and_stop_counting_when_committed() -> None:
    """Open until collected, in order; hand-over stops 50 ms after the oldest and goes on when it is committed."""
    book = LeaseBook(stop_ms=STOP_MS, beat_ms=20)
    assert book.due_ms is None
    assert book.collect() == NOTHING_RIDES
    book.add(hand_over(1000, 1, 2))
    book.add(hand_over(1010, 3))
    assert book.due_ms == 1020
    lease = book.collect().lease
    assert lease is not None
    assert lease.position.tolist() == [1, 2, 3]
    assert lease.handed_over_ms.tolist() == [1000, 1000, 1010]
    assert lease.lease_end_ms.tolist() == [31_000, 31_000, 31_010]
    assert book.due_ms is None
    book.add(hand_over(1049, 4))
    assert not book.allows(1050)
    assert [h.handed_over_ms for h in book.committed()] == [1000, 1010]
    assert book.allows(1098)
    assert not book.allows(1099)


def test_leases_of_a_refused_entry_go_in_the_next() -> None:
    """What came back is collected again, before what was handed over since."""
    book = LeaseBook(stop_ms=STOP_MS, beat_ms=20)
    book.add(hand_over(1000, 1))
    book.collect()
    book.add(hand_over(1005, 2))
    book.returned()
    assert book.due_ms == 1020
    lease = book.collect().lease
    assert lease is not None
    assert lease.position.tolist() == [1, 2]


def test_a_hand_over_against_the_rule_is_an_error_of_ours() -> None:
    """The bound holds by construction: it cannot be broken by a caller that forgets to ask."""
    book = LeaseBook(stop_ms=STOP_MS, beat_ms=20)
    book.add(hand_over(1000))
    with pytest.raises(AssertionError, match="stop rule"):
        book.add(hand_over(1050))


@given(st.lists(st.tuples(st.sampled_from(["hand over", "collect", "commit"]), st.integers(-60, 60))))
def test_uncommitted_hand_overs_span_less_than_50_ms(steps: list[tuple[str, int]]) -> None:
    """Whatever the order of events and whichever way the clock goes: what a crash could repeat lies within 50 ms."""
    book, now_ms = LeaseBook(stop_ms=STOP_MS, beat_ms=20), 100_000
    sent: list[list[int]] = [[]]  # per batch the times of its hand-overs; the last one is open
    for what, move_ms in steps:
        now_ms += move_ms
        if what == "hand over" and book.allows(now_ms):
            book.add(hand_over(now_ms))
            sent[-1].append(now_ms)
        elif what == "collect" and book.collect().awaited:
            sent.append([])
        elif what == "commit" and len(sent) > 1:
            assert [h.handed_over_ms for h in book.committed()] == sent.pop(0)
        uncommitted = [at_ms for batch in sent for at_ms in batch]
        assert not uncommitted or max(uncommitted) - min(uncommitted) < STOP_MS
    if not any(sent):
        assert book.allows(now_ms), "nothing is uncommitted, so nothing stops a hand-over"
