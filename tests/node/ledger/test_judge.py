"""Where the ledger looks for hand-overs, and since when an account counts as whole."""

import numpy as np
import pytest

from ledger.bucket import ABROAD, PLACE
from ledger.columns import Flag, MessageClass
from node.ledger.ask_members import Accounts
from node.ledger.judge import AFTER_MS, BEFORE_MS, _covered_from, hand_over_time, judge_story
from node.ledger.read import HourMessages
from storage.format.rows import SETTLE, UNIT
from storage.format.states import DEAD, DELIVERED, FORWARDED, LEASED
from storage.query.message_records import MessageRecords
from storage.record.delivery_record import DELIVERY, GOES_ON, START, TERM_ENDED
from storage.record.record import HEADER
from tests.storage.new_state import HALF, added

DUE_MS = 1_772_326_320_111
SET_BACK_MS = DUE_MS - 3_128_000
WHOLE_MS = DUE_MS + 10_001
"""Since when a log tells all whose first record left was written when the message was due."""


def hour_messages(*settled: tuple[int, int]) -> HourMessages:
    """One message, and what became of it: (at ms, what)."""
    units = np.zeros(1, UNIT)
    units["due_ms"], units["kind"] = DUE_MS, 1
    settles = np.zeros(len(settled), SETTLE)
    settles["at_ms"], settles["what"] = zip(*settled, strict=True)
    trail = MessageRecords(units, np.zeros(1, HEADER), settles, np.arange(len(settled)))
    return HourMessages(0, np.array([0], np.uint64), trail, np.zeros(0, PLACE), np.zeros(0, ABROAD))


def test_from_before_it_fell_due_until_after_it_ended() -> None:
    """Or until now, whichever is earlier."""
    now_ms = DUE_MS + 10_000_000
    time = hand_over_time(hour_messages((DUE_MS + 5, DEAD)), now_ms)
    assert (time.from_ms, time.until_ms) == (DUE_MS - BEFORE_MS, DUE_MS + 5 + AFTER_MS + 1)
    assert hand_over_time(hour_messages((DUE_MS + 5, FORWARDED)), now_ms).until_ms == now_ms + 1
    with added(HALF):
        assert hand_over_time(hour_messages((DUE_MS + 5, HALF.number)), now_ms).until_ms == now_ms + 1


def test_from_when_it_was_settled_by_a_clock_that_was_set_back() -> None:
    """Seed 32046: it died while all clocks were ahead, and was redriven when they were right. Times that are not told
    are none."""
    time = hand_over_time(
        hour_messages((DUE_MS + 5, FORWARDED), (SET_BACK_MS, FORWARDED), (0, DEAD)), DUE_MS + 5_000_000
    )
    assert time.from_ms == SET_BACK_MS - BEFORE_MS
    assert time.until_ms > DUE_MS + 5


@pytest.mark.parametrize(
    ("leased_ms", "first_ms", "removed", "from_ms"),
    [
        (0, DUE_MS, False, 0),
        (DUE_MS, DUE_MS, False, 0),
        (DUE_MS, DUE_MS, True, WHOLE_MS),
        (DUE_MS - 10_000, DUE_MS, False, WHOLE_MS),
        (0, 0, False, 0),
    ],
)
def test_52812_an_account_does_not_cover_the_time_of_its_first_record(
    leased_ms: int, first_ms: int, removed: bool, from_ms: int
) -> None:
    """A hand-over stood last in a file that went by age, and the next file began in the same millisecond: the message
    was delivered, and `lost`."""
    told = hour_messages((leased_ms, LEASED) if leased_ms else (DUE_MS, DEAD))
    told.trail.settles["node"] = 1
    assert _covered_from(told, 1, first_ms, removed) == from_ms


@pytest.mark.parametrize(("before_ms", "inside"), [(10_001, True), (10_000, False), (0, False)])
def test_what_fell_due_at_the_time_of_the_first_record_is_outside_the_window(before_ms: int, inside: bool) -> None:
    """Files before it went by age, and records of theirs may be later by 10 s."""
    accounts = Accounts(begun={1: (DUE_MS - before_ms, True)}, until_ms=DUE_MS + 10_000)
    judged = judge_story(hour_messages((DUE_MS, LEASED)), accounts, moment_ms=DUE_MS + 9_000, members=[1], topics={})
    assert (judged.messages["flags"] & np.uint32(Flag.OUTSIDE_WINDOW) == 0).tolist() == [inside]


def test_a_hand_over_that_went_by_age_behind_a_clock_that_went_back_is_not_lost() -> None:
    """The node was started again, and its clock was 400 ms lower: the file that went held later times than the next."""
    told = hour_messages((DUE_MS, LEASED), (DUE_MS + 5, DELIVERED))
    for name, value in (("node", 1), ("term", 5), ("attempt", 1)):
        told.trail.settles[name] = value
    edges = np.zeros(2, DELIVERY)
    edges["kind"], edges["term"], edges["node"] = (GOES_ON, TERM_ENDED), 5, 1
    edges["at_ms"] = DUE_MS - 400, DUE_MS + 8_000
    accounts = Accounts(edges=edges, begun={1: (DUE_MS - 400, True)}, until_ms=DUE_MS + 10_000)
    judged = judge_story(told, accounts, moment_ms=DUE_MS + 9_000, members=[1], topics={})
    assert judged.messages["class"].tolist() != [MessageClass.LOST]


@pytest.mark.parametrize(("moment_ms", "hidden"), [(DUE_MS + 2_000, True), (DUE_MS + 2_900, False)])
def test_a_hand_over_of_a_time_to_come_is_missing_until_then(moment_ms: int, hidden: bool) -> None:
    """A leader 0.9 s ahead of the next one: nobody could search for what it did when that one looked."""
    edges = np.zeros(2, DELIVERY)
    edges["kind"], edges["term"], edges["node"] = START, (5, 6), (1, 2)
    edges["at_ms"] = DUE_MS + 2_900, DUE_MS + 2_000
    accounts = Accounts(edges=edges, begun={1: (DUE_MS - 90_000, False), 2: (DUE_MS, False)}, until_ms=moment_ms)
    judged = judge_story(hour_messages((DUE_MS, LEASED)), accounts, moment_ms=moment_ms, members=[1, 2], topics={})
    assert bool(judged.gaps) is hidden
