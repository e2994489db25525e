"""A leader's clock was ahead: its hand-overs are not in the accounts, and the terms show that."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ledger.bucket import SPAN, TERM, Context, Rows
from ledger.unrecorded import Open, beyond
from storage.catalog.doubt import CLOCKS_MS
from storage.format.position import HOUR_MS
from tests.ledger.life import T, told


def test_what_ended_before_it_was_created_may_have_gone_out_since_ever() -> None:
    """Who created it had a clock that was an hour ahead; clocks of two leaders apart are no such thing."""
    none = np.zeros(0, np.int64)
    bucket: Any = SimpleNamespace(
        units={"due_ms": np.array([T, T, T + HOUR_MS])}, places={"home": none.view(np.uint64), "due_ms": none}
    )
    columns: Any = {
        "home": np.arange(3, dtype=np.uint64),
        "due_ms": np.array([T, T, T + HOUR_MS]),
        "created_ms": np.array([T, T + 900, T + HOUR_MS]),
        "settled_ms": np.array([T + 5, T + 100, T + 5]),
    }
    opened = Open(bucket, columns, Context(from_ms=0, until_ms=T + 9_000))
    assert (opened.from_ms - T).tolist() == [0, 900, -T]
    (span,) = np.array([(1, 0, 0, T - 5, T)], SPAN)
    assert opened.within(span).tolist() == [False, False, True]


def spans(terms: Rows, moment_ms: int, searched_ms: int = HOUR_MS, window_ms: int = 0) -> list[tuple[int, ...]]:
    """(node, ahead, from, until) after T; the clocks of what was searched and of the moment are after T too."""
    rows = beyond(terms, T + moment_ms, T + searched_ms, T + window_ms if window_ms else 0)
    times = ((rows[name] - T).tolist() for name in ("from_ms", "until_ms"))
    return list(zip(rows["node"].tolist(), rows["ahead"].tolist(), *times, strict=True))


def test_what_a_term_did_by_a_clock_that_was_ahead_was_done_before_the_next_began() -> None:
    """Term 6 led a minute ahead. By the clocks of 5 and 7 it led between them. Until that time has come, or where
    nobody searched so late, its hand-overs are not in the accounts."""
    terms = np.array(
        [told(5, 1, T, T + 500), told(6, 2, T + 60_000, T + 62_000), told(7, 3, T + 4_000, T + 9_000)], TERM
    )
    led = (2, 0, 500 - CLOCKS_MS, 4_000 + CLOCKS_MS)
    assert spans(terms, 10_000) == [led, (2, 1, 10_001, 62_001)]
    assert spans(terms, 70_000, 10_000) == [led]
    assert spans(terms, 70_000, 62_000) == []
    assert spans(terms, 10_000, window_ms=3_000) == [(2, 0, 3_000, 4_000 + CLOCKS_MS), (2, 1, 10_001, 62_001)]
    assert spans(terms[:2], 10_000) == [], "it may lead still, and the others be behind"
    assert spans(terms[:0], 0) == []
    first = terms.copy()
    first["first_ms"][0] = first["acted_ms"][0] = T + 61_000
    assert spans(first, 70_000, 10_000)[-1] == (2, 0, -T, 4_000 + CLOCKS_MS), "5 was ahead as well"
    terms["found_ms"][2] = T + 61_000  # what it found dispatched: one of the two clocks is wrong
    assert spans(terms, 70_000, 10_000) == [(2, 0, 500 - CLOCKS_MS, 62_001)]


def test_clocks_of_two_leaders_apart_leave_no_gap_once_that_time_has_come() -> None:
    """A leader was 0.9 s ahead of the next one, as two right clocks may be: a gap for that second, in which nobody can
    search yet. What an old message is searched for does not lie so late."""
    terms = np.array([told(5, 1, T, T + 2_900), told(6, 2, T + 2_000, T + 9_000)], TERM)
    assert spans(terms, 2_500) == [(1, 0, -T, 2_901), (1, 1, 2_501, 2_901)]
    assert spans(terms, 3_000) == []
    assert spans(terms, 9_000, 1_000) == []
    terms["acted_ms"][0] += 100
    assert spans(terms, 9_000, 1_000) == []
    terms["acted_ms"][0] += 1
    assert spans(terms, 9_000, 1_000) == [(1, 0, -T, 3_000)]


def test_a_time_has_come_when_it_is_reached() -> None:
    """The next term has begun, and what the one before did is behind, from that millisecond on."""
    terms = np.array([told(5, 1, T, T + 2_900), told(6, 2, T + 2_000, T + 9_000)], TERM)
    assert spans(terms[:2], 1_999) == []
    assert spans(terms, 2_000) == [(1, 0, -T, 2_901), (1, 1, 2_001, 2_901)]
    assert spans(terms, 2_899) == [(1, 0, -T, 2_901), (1, 1, 2_900, 2_901)]
    assert spans(terms, 2_900) == []


def test_a_leader_that_handed_nothing_over_led_from_when_it_began() -> None:
    """The next leader's clock was ahead. What it did came after the begin of this term."""
    terms = np.array(
        [told(5, 1, T + 800, T + 900), told(6, 2, T + 60_000, T + 62_000), told(7, 3, T + 4_000, T + 9_000)], TERM
    )
    terms["acted_ms"][0] = 0
    assert spans(terms, 70_000, 10_000) == [(2, 0, 800 - CLOCKS_MS, 4_000 + CLOCKS_MS)]


def test_a_leader_that_stood_still_hands_over_nothing_when_it_goes_on() -> None:
    """It was stopped, and another was elected. Seconds later it writes the end of its term, in the file of the next
    hour: its clock was right."""
    terms = np.array([told(5, 1, T, T + 9_000), told(6, 2, T + 4_000, T + 8_000)], TERM)
    terms["acted_ms"][0] = T + 1_000
    assert spans(terms, 20_000, 2_000) == []


def test_nobody_knows_a_clock_to_be_ahead_before_another_leads() -> None:
    """The reconciliation asks for a moment before both terms began: what they did lies behind it."""
    terms = np.array([told(5, 1, T, T + 5_900), told(6, 2, T + 5_000, T + 9_000)], TERM)
    assert spans(terms, 3_000) == []
