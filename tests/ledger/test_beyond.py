"""A leader's clock was ahead: its hand-overs are not in the accounts, and the terms show that."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ledger.bucket import SPAN, TERM, Context
from ledger.unrecorded import Open, beyond
from storage.doubt import CLOCKS_MS
from storage.position import HOUR_MS
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


def test_what_a_term_did_by_a_clock_that_was_ahead_was_done_before_the_next_began() -> None:
    """Term 6 led a minute ahead. Nothing that late was searched; by the clocks of 5 and 7 it led between them."""
    terms = np.array(
        [told(5, 1, T, T + 500), told(6, 2, T + 60_000, T + 62_000), told(7, 3, T + 4_000, T + 9_000)], TERM
    )
    led = (2, 0, T + 500 - CLOCKS_MS, T + 4_000 + CLOCKS_MS)

    def spans(moment_ms: int, searched_ms: int) -> list[tuple[int, int, int, int]]:
        rows = beyond(terms, T + moment_ms, T + searched_ms, 0)
        columns = (rows[name].tolist() for name in ("node", "ahead", "from_ms", "until_ms"))
        return list(zip(*columns, strict=True))

    assert spans(10_000, 10_000) == [led, (2, 1, T + 10_001, T + 62_001)]
    assert spans(70_000, 10_000) == [led]
    assert spans(70_000, 62_000) == []
    assert beyond(terms[:2], T + 10_000, T + 10_000, T + 100)["until_ms"].tolist() == [T + 62_001] * 2
    assert beyond(terms[:0], T, T, 0).tolist() == []
    terms["found_ms"][2] = T + 61_000  # what it found dispatched: one of the two clocks is wrong
    assert spans(70_000, 10_000) == [(2, 0, T + 500 - CLOCKS_MS, T + 62_001)]
    later = terms[[0, 2]]
    assert beyond(later, T + 10_000, T + 100, 0).tolist() == [], "a term that is over needs no search of its end"
