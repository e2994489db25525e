"""Where the ledger looks for hand-overs, and since when an account counts as whole."""

import numpy as np
import pytest

from ledger.bucket import ABROAD, PLACE
from ledger.columns import Flag
from node.ledger_accounts import Accounts
from node.ledger_judging import AFTER_MS, BEFORE_MS, _covered_from, hand_over_time, judge_story
from node.ledger_reading import Story
from storage.format import DEAD, FORWARDED, LEASED, SETTLE, UNIT
from storage.message_trail import TrailRows
from storage.record import HEADER

DUE_MS = 1_772_326_320_111
BACK_MS = DUE_MS - 3_128_000


def story(*settled: tuple[int, int]) -> Story:
    """One message, and what became of it: (at ms, what)."""
    units = np.zeros(1, UNIT)
    units["due_ms"], units["kind"] = DUE_MS, 1
    settles = np.zeros(len(settled), SETTLE)
    settles["at_ms"], settles["what"] = zip(*settled, strict=True)
    trail = TrailRows(units, np.zeros(1, HEADER), settles, np.arange(len(settled)))
    return Story(np.array([0], np.uint64), trail, np.zeros(0, PLACE), np.zeros(0, ABROAD))


def test_from_before_it_fell_due_until_after_it_ended() -> None:
    """Or until now, whichever is earlier."""
    now_ms = DUE_MS + 10_000_000
    time = hand_over_time(story((DUE_MS + 5, DEAD)), now_ms)
    assert (time.from_ms, time.until_ms) == (DUE_MS - BEFORE_MS, DUE_MS + 5 + AFTER_MS + 1)
    assert hand_over_time(story((DUE_MS + 5, FORWARDED)), now_ms).until_ms == now_ms + 1


def test_from_when_it_was_settled_by_a_clock_that_was_set_back() -> None:
    """Seed 32046: it died while all clocks were ahead, and was redriven when they were right. Times that are not told
    are none."""
    time = hand_over_time(story((DUE_MS + 5, FORWARDED), (BACK_MS, FORWARDED), (0, DEAD)), DUE_MS + 5_000_000)
    assert time.from_ms == BACK_MS - BEFORE_MS
    assert time.until_ms > DUE_MS + 5


@pytest.mark.parametrize(
    ("leased_ms", "first_ms", "removed", "from_ms"),
    [
        (0, DUE_MS, False, 0),
        (DUE_MS, DUE_MS, False, 0),
        (DUE_MS, DUE_MS, True, DUE_MS + 1),
        (DUE_MS - 10_000, DUE_MS, False, DUE_MS + 1),
        (0, 0, False, 0),
    ],
)
def test_52812_an_account_does_not_cover_the_millisecond_of_its_first_record(
    leased_ms: int, first_ms: int, removed: bool, from_ms: int
) -> None:
    """A hand-over stood last in a file that went by age, and the next file began in the same millisecond: the message
    was delivered, and `lost`."""
    told = story((leased_ms, LEASED) if leased_ms else (DUE_MS, DEAD))
    told.trail.settles["node"] = 1
    assert _covered_from(told, 1, first_ms, removed) == from_ms


@pytest.mark.parametrize(("first_ms", "inside"), [(DUE_MS - 1, True), (DUE_MS, False)])
def test_what_fell_due_in_the_millisecond_of_the_first_record_is_outside_the_window(
    first_ms: int, inside: bool
) -> None:
    """Files before it went by age, and the last of their records may be of the same millisecond."""
    accounts = Accounts(begun={1: (first_ms, True)}, until_ms=DUE_MS + 10_000)
    judged = judge_story(story((DUE_MS, LEASED)), accounts, moment_ms=DUE_MS + 9_000, members=[1], topics={})
    assert (judged.messages["flags"] & np.uint32(Flag.OUTSIDE_WINDOW) == 0).tolist() == [inside]
