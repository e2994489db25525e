"""Messages scheduled twice are found by what is alike in them, within a minute, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import TWIN, Bucket, Rows
from ledger.columns import Cause, Flag, MessageClass
from ledger.judge import judge
from ledger.scheduled_twice import CROWD, find_twins, twin_rows
from storage.format.position import INDEX_BITS
from storage.format.rows import SETTLE, UNIT, UNIT_MOVED
from storage.format.states import CANCELLED, DELIVERED
from storage.record.delivery_record import DELIVERY, START
from storage.record.record import HEADER
from tests.examples import examples
from tests.ledger.life import HOUR, T, context_of

ORIGIN = HOUR << INDEX_BITS


def two(**second: Any) -> tuple[Rows, Rows]:
    """Units and headers of two equal messages scheduled 2 s apart, but for what is said of the second."""
    units, headers = np.zeros(2, UNIT), np.zeros(2, HEADER)
    units["kind"], units["due_ms"], units["topic"] = 1, T, 3
    headers["size"], headers["topic"], headers["asked_due_ms"], headers["payload_crc"] = 104, 3, T, 9
    headers["body_len"], headers["created_ms"] = 8, [T - 9_000, T - 7_000]
    for name, value in second.items():
        (units if name in ("flags", "tags") else headers)[name][1] = value
    return units, headers


@pytest.mark.parametrize(
    ("second", "twin"),
    [
        ({}, True),
        ({"created_ms": T + 51_000}, True),
        ({"created_ms": T + 51_001}, False),
        ({"created_ms": T - 9_000}, False),
        ({"topic": 4}, False),
        ({"asked_due_ms": T + 1}, False),
        ({"payload_crc": 10}, False),
        ({"body_len": 9}, False),
        ({"tags_len": 2}, False),
        ({"tags": 1}, False),
        ({"key_len": 3}, False),
        ({"flags": UNIT_MOVED}, False),
        ({"size": 0}, False),
    ],
)
def test_what_is_alike(second: dict[str, Any], twin: bool) -> None:
    """Topic, due time, tags and payload; scheduled by another entry, within a minute; without a key, born here."""
    rows = twin_rows(HOUR, 0, *two(**second))
    found = find_twins(np.zeros(0, TWIN), rows, 60_000)
    assert found.home.tolist() == ([ORIGIN + 1] if twin else [])
    before = find_twins(rows[:1], rows[1:], 60_000)
    assert before.home.tolist() == ([ORIGIN + 1] if twin else [])
    assert before.other.tolist() == ([ORIGIN] if twin else [])


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30), st.integers(0, 30))
def test_twins_are_those_of_the_plain_rule(messages: list[tuple[int, int]], split: int) -> None:
    """Likeness and time of creation decide; where the bucket begins does not."""
    messages.sort(key=lambda each: each[1])  # units of an hour stand in order of creation
    rows = np.zeros(len(messages), TWIN)
    rows["home"] = np.arange(len(messages))
    rows["likeness"] = [like * 0x9E3779B97F4A7C15 % 2**64 for like, _ in messages]
    rows["created_ms"] = [20_000 * at for _, at in messages]
    expected = {}
    for home, (like, at) in enumerate(messages):
        alike = [(when, other) for other, (its, when) in enumerate(messages) if its == like]
        earlier = [each for each in alike if each[0] < at]
        if like and earlier and len(alike) <= CROWD and 20_000 * (at - max(earlier)[0]) <= 60_000:
            expected[home] = max(earlier)[1]
    cut = min(split, len(messages))
    found = find_twins(rows[:cut], rows[cut:], 60_000)
    assert dict(zip(found.home.tolist(), found.other.tolist(), strict=True)) == {
        home: other for home, other in expected.items() if home >= cut
    }


def _judged(handed: tuple[bool, bool]) -> Any:
    units, headers = two()
    at = np.flatnonzero(handed)
    settles, starts = np.zeros(len(at), SETTLE), np.zeros(len(at), DELIVERY)
    settles["global_index"], settles["what"], settles["at_ms"] = at, DELIVERED, T + 20
    starts["home"], starts["kind"], starts["mode"] = ORIGIN + at.astype(np.uint64), START, 1
    starts["at_ms"], starts["asked_due_ms"], starts["node"] = T + 3 + at, T, 1
    for rows in (settles, starts):
        rows["term"], rows["attempt"] = 5, 1
    return judge(Bucket(0, HOUR, 0, units, settles, headers, starts), context_of())


def test_both_handed_over_is_a_duplicate() -> None:
    """Each is a message of its own that was delivered once; together they are one too many."""
    ledger = _judged((True, True))
    assert ledger.messages["class"].tolist() == [MessageClass.DELIVERED_ONCE] * 2
    assert ledger.messages["flags"].tolist() == [0, Flag.SCHEDULED_TWICE]
    assert ledger.messages["duplicates"].tolist() == [0, 0]
    extra = ledger.duplicates
    assert (extra["home"].tolist(), extra["other"].tolist()) == ([ORIGIN + 1], [ORIGIN])
    assert extra["cause"].tolist() == [Cause.SCHEDULED_TWICE]
    assert (extra["at_ms"].tolist(), extra["before_ms"].tolist()) == ([T + 4], [T + 3])


@pytest.mark.parametrize("handed", [(True, False), (False, True)])
def test_one_that_was_not_handed_over_is_no_duplicate(handed: tuple[bool, bool]) -> None:
    """It is marked all the same."""
    ledger = _judged(handed)
    assert ledger.messages["flags"][1] & Flag.SCHEDULED_TWICE
    assert len(ledger.duplicates["home"]) == 0


def test_one_that_was_taken_back_is_repeated_by_nobody() -> None:
    """A producer that cancels and schedules again means the second one: it is no repeat, and nothing to suppress."""
    units, headers = two()
    settles = np.zeros(1, SETTLE)
    settles["what"], settles["at_ms"] = CANCELLED, T - 8_000
    ledger = judge(Bucket(0, HOUR, 0, units, settles, headers, np.zeros(0, DELIVERY)), context_of(until_ms=T - 1))
    assert ledger.messages["class"].tolist() == [MessageClass.CANCELLED, MessageClass.PENDING]
    assert ledger.messages["flags"].tolist() == [0, 0]
