"""Trust by itself: it counts from sending, needs a majority of voters, and cannot be argued up."""

from __future__ import annotations

import pytest

from replication.election.trust import NEVER, STRETCH_MAX, Trust

SILENCE_S = 0.4


def trust(peers: str = "bc") -> Trust:
    """A window of 0.25 s and a fallback of 0.35 s; leading since 100."""
    one = Trust(list(peers), window_s=0.25, fallback_s=0.35, silence_s=SILENCE_S)
    one.lead(100.0)
    return one


def test_nothing_before_the_first_echo() -> None:
    """A fresh leader is not trusted: that it was elected says nothing about now."""
    assert trust().until(100.0) == NEVER


def test_it_counts_from_sending_not_from_receipt() -> None:
    """An echo that comes late extends trust from when its heartbeat was sent."""
    one = trust()
    one.echoed("b", 101.0, SILENCE_S, 109.0)
    assert one.until(109.0) == pytest.approx(101.25)


def test_it_needs_a_majority() -> None:
    """Of five, two echoes besides the leader's own now; the older of the best two decides."""
    one = trust("bcde")
    one.echoed("b", 101.0, SILENCE_S, 101.1)
    assert one.until(101.1) == NEVER
    one.echoed("c", 100.5, SILENCE_S, 101.1)
    assert one.until(101.1) == pytest.approx(100.75)
    one.echoed("d", 100.9, SILENCE_S, 101.1)
    assert one.until(101.1) == pytest.approx(101.15)


def test_a_group_of_one_trusts_itself() -> None:
    """Nobody else can be elected."""
    assert trust("").until(107.0) == pytest.approx(107.25)


def test_stamps_only_grow_and_never_come_from_the_future() -> None:
    """An old echo takes nothing back; a stamp later than now is nobody's echo."""
    one = trust()
    one.echoed("b", 101.0, SILENCE_S, 101.1)
    one.echoed("b", 100.0, SILENCE_S, 101.2)
    one.echoed("c", 150.0, SILENCE_S, 101.2)
    assert one.until(101.2) == pytest.approx(101.25)


def test_a_new_term_and_a_new_disk_begin_with_nothing() -> None:
    """What was echoed in an earlier term, or by a disk that is gone, does not count."""
    one = trust()
    one.echoed("b", 101.0, SILENCE_S, 101.1)
    one.forget("b")
    assert one.until(101.1) == NEVER
    one.echoed("b", 101.0, SILENCE_S, 101.1)
    one.lead(101.2)
    assert one.until(101.2) == NEVER


def test_stepping_down() -> None:
    """Without a majority's echo for the fallback time a leader does not hold; a pause of its own gives it once more."""
    one = trust()
    assert one.holds(100.3)
    assert not one.holds(100.36)
    one.echoed("b", 100.4, SILENCE_S, 100.41)
    assert one.holds(100.7)
    assert not one.holds(130.0)
    one.resumed(130.0)
    assert one.holds(130.3)
    assert one.until(130.3) == pytest.approx(100.65), "patience is not trust"
    assert not one.holds(130.36)


def test_a_voter_that_owes_less_gives_less_and_one_that_owes_more_gives_more() -> None:
    """Trust is the same share of what is owed; past STRETCH_MAX it does not follow."""
    one = trust()
    one.echoed("b", 101.0, 0.2, 101.1)
    assert one.until(101.1) == pytest.approx(101.125)
    one.echoed("c", 101.01, 0.8, 101.1)
    assert one.until(101.1) == pytest.approx(101.51)
    one.echoed("c", 101.02, 60.0, 101.1)
    assert one.until(101.1) == pytest.approx(101.02 + 0.25 * STRETCH_MAX)


def test_of_a_majority_the_one_that_gives_least_decides() -> None:
    """Of five: two others are needed. The newest stamp of one that owes little may give less than an older one."""
    one = trust("bcde")
    one.echoed("b", 101.0, 0.1, 101.0)
    one.echoed("c", 100.9, 0.4, 101.0)
    assert one.until(101.0) == pytest.approx(101.0625)
    one.echoed("d", 100.95, 0.4, 101.0)
    assert one.until(101.0) == pytest.approx(101.15)


def test_what_was_owed_is_owed_although_a_later_echo_says_less() -> None:
    """The voter keeps quiet until the longer silence has run out."""
    one = trust()
    one.echoed("b", 101.0, 1.6, 101.0)
    one.echoed("b", 101.1, 0.4, 101.1)
    assert one.until(101.1) == pytest.approx(102.0)


def test_heartbeats_keep_pace_with_the_voter_that_owes_least() -> None:
    """Or trust would end between two of them. Whose echo never came does not count."""
    one = trust()
    assert one.pace == 1
    one.echoed("b", 101.0, 0.1, 101.1)
    assert one.pace == pytest.approx(0.25)
    one.echoed("c", 101.0, 9.0, 101.1)
    one.set_members(["b", "c"], ["c"], own=True)
    assert one.pace == 1


def test_a_change_of_members_counts_at_once() -> None:
    """One echo is a majority of three and none of five; with no other voter the leader's own moment is one."""
    one = trust()
    one.echoed("b", 101.0, SILENCE_S, 101.1)
    one.set_members(["b", "c", "d", "e"], ["b", "c", "d", "e"], own=True)
    assert one.until(101.1) == NEVER
    one.set_members(["b"], [], own=True)
    assert one.until(101.1) == pytest.approx(101.35)
    one.set_members(["b", "c"], ["b", "c"], own=True)
    assert one.until(101.1) == pytest.approx(101.25)
