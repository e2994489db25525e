"""Trust by itself: it counts from sending, needs a majority of voters, and cannot be argued up."""

from __future__ import annotations

import pytest

from replication.trust import NEVER, Trust


def trust(peers: str = "bc") -> Trust:
    """A window of 0.25 s and a fallback of 0.35 s; leading since 100."""
    one = Trust(list(peers), window_s=0.25, fallback_s=0.35)
    one.lead(100.0)
    return one


def test_nothing_before_the_first_echo() -> None:
    """A fresh leader is not trusted: that it was elected says nothing about now."""
    assert trust().until(100.0) == NEVER


def test_it_counts_from_sending_not_from_receipt() -> None:
    """An echo that comes late extends trust from when its heartbeat was sent."""
    one = trust()
    one.echoed("b", 101.0, 109.0)
    assert one.until(109.0) == pytest.approx(101.25)


def test_it_needs_a_majority() -> None:
    """Of five, two echoes besides the leader's own now; the older of the best two decides."""
    one = trust("bcde")
    one.echoed("b", 101.0, 101.1)
    assert one.until(101.1) == NEVER
    one.echoed("c", 100.5, 101.1)
    assert one.until(101.1) == pytest.approx(100.75)
    one.echoed("d", 100.9, 101.1)
    assert one.until(101.1) == pytest.approx(101.15)


def test_a_group_of_one_trusts_itself() -> None:
    """Nobody else can be elected."""
    assert trust("").until(107.0) == pytest.approx(107.25)


def test_stamps_only_grow_and_never_come_from_the_future() -> None:
    """An old echo takes nothing back; a stamp later than now is nobody's echo."""
    one = trust()
    one.echoed("b", 101.0, 101.1)
    one.echoed("b", 100.0, 101.2)
    one.echoed("c", 150.0, 101.2)
    assert one.until(101.2) == pytest.approx(101.25)


def test_a_new_term_and_a_new_disk_begin_with_nothing() -> None:
    """What was echoed in an earlier term, or by a disk that is gone, does not count."""
    one = trust()
    one.echoed("b", 101.0, 101.1)
    one.forget("b")
    assert one.until(101.1) == NEVER
    one.echoed("b", 101.0, 101.1)
    one.lead(101.2)
    assert one.until(101.2) == NEVER


def test_stepping_down() -> None:
    """Without a majority's echo for the fallback time a leader does not hold; a pause of its own gives it once more."""
    one = trust()
    assert one.holds(100.3)
    assert not one.holds(100.36)
    one.echoed("b", 100.4, 100.41)
    assert one.holds(100.7)
    assert not one.holds(130.0)
    one.resumed(130.0)
    assert one.holds(130.3)
    assert one.until(130.3) == pytest.approx(100.65), "patience is not trust"
    assert not one.holds(130.36)
