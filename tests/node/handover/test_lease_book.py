"""The 50 ms rule and the ends of leases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.handover.lease_book import LONG_GRID_MS, LONG_LEASE_MS, SHORT_GRID_MS, HandOver, LeaseBook, LeaseEnds
from node.write.leader_commands import NOTHING_RIDES
from storage.catalog.topic import subscription_of
from storage.format.position import pack
from storage.format.rows import UNIT

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


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 2 * LONG_LEASE_MS)), min_size=1))
def test_every_lease_is_looked_for_after_its_end_and_soon(leases: list[tuple[int, int, int]]) -> None:
    """Each leased position lies in a span that is given at the first grid point at or after its end, and not before."""
    now_ms = 1_000_003
    ends = LeaseEnds()
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
