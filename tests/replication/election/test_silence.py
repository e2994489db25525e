"""What a node owes a leader: longer at once, shorter only when it has run out, and never more than its disk says."""

from __future__ import annotations

import pytest

from replication.election.patience import RARE, SPAN_S, Patience
from replication.election.silence import LOWER_S, STEPS, Silence


def test_nothing_longer_is_told_before_the_disk_has_it() -> None:
    """One write at a time; what is told follows it."""
    silence, asked = Silence(0.4, 0.4, 0.0), list[float]()
    silence.on_keep = asked.append
    silence.want(0.5, 1.0)
    silence.want(0.7, 1.0)
    assert asked == [pytest.approx(0.6)]
    assert silence.promise_s == 0.4
    silence.kept(asked[0])
    silence.want(0.7, 1.1)
    assert silence.promise_s == pytest.approx(0.6)
    assert asked[1:] == [0.8]


def test_it_grows_to_the_last_step_at_most() -> None:
    """Whatever a leader wishes."""
    silence = Silence(0.4, 0.4, 0.0)
    silence.on_keep = silence.kept
    silence.want(1e6, 1.0)
    silence.want(1e6, 1.0)
    assert silence.promise_s == 0.4 * STEPS[-1]


def test_the_disk_says_less_only_long_after_the_longer_silence_ran_out() -> None:
    """It is owed for the last heartbeat for which it was told."""
    silence, asked = Silence(0.4, 1.6, 0.0), list[float]()
    silence.on_keep = asked.append
    silence.want(1.6, 1.0)
    assert silence.owe(10.0) == 11.6
    silence.want(0.0, 10.1)
    assert silence.owe(10.1) == 10.5
    silence.want(0.0, 11.5 + LOWER_S)
    assert (asked, silence.kept_s) == ([], 1.6)
    silence.want(0.0, 11.6 + LOWER_S)
    assert (asked, silence.kept_s) == ([0.4], 0.4)
    silence.want(1.6, 11.7 + LOWER_S)
    assert silence.promise_s == 0.4, "the write of the shorter one is still under way"
    silence.kept(0.4)
    silence.want(1.6, 11.8 + LOWER_S)
    assert asked == [0.4, 1.6]


def test_where_an_older_build_could_be_started_it_does_not_grow() -> None:
    """It would not look at what the disk says."""
    silence, asked = Silence(0.4, 0.4, 0.0), list[float]()
    silence.on_keep, silence.may_grow = asked.append, lambda: False
    silence.want(1.6, 1.0)
    assert (asked, silence.promise_s) == ([], 0.4)


def test_lateness_counts_when_it_comes_again_and_again() -> None:
    """The worst of the last seconds but for the rare ones, twice over."""
    patience = Patience(0.4)
    for moment in range(RARE):
        patience.saw(5.0, float(moment))
    assert patience.silence_s(2.0) == 0
    patience.saw(0.2, 2.0)
    assert patience.silence_s(2.0) == 0, "the usual silence bridges that"
    patience.saw(0.3, 3.0)
    assert patience.silence_s(3.0) == 0.6
    assert patience.silence_s(3.1 + SPAN_S) == 0
