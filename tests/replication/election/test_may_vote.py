"""The rules of elections by themselves: quiet times, rounds, patience, and who may vote."""

from __future__ import annotations

import pytest

from replication.election.may_vote import Census, Election, RegainVote
from replication.election.silence import Silence
from replication.raft.members import Roster


def election(size: int = 3, random: float = 0.5, now: float = 100.0) -> Election:
    """One with timeouts of 0.4 to 0.8 s and a fixed draw: 0.6 s."""
    return Election(Roster("a", "bcdefghi"[: size - 1]), min_s=0.4, max_s=0.8, random=lambda: random, now=now)


def test_a_started_node_is_quiet() -> None:
    """For one minimum timeout after the start no vote is given: what was promised before a crash still holds."""
    one = election()
    assert not one.may_grant(100.39)
    assert one.may_grant(100.41)


def test_a_heard_leader_keeps_everybody_quiet() -> None:
    """Within the minimum timeout of hearing a leader no vote is given and none is asked for."""
    one = election(random=0.0)
    one.heard_leader(110.0)
    assert not one.may_grant(110.39)
    assert not one.due(110.39)
    assert one.may_grant(110.41)
    assert one.due(110.41)


def test_a_silence_that_runs_never_becomes_shorter() -> None:
    """A node keeps the silence that it promised to its end, though it promises less to a leader that it hears later.
    The leader of before may still count on it, after a restart too."""
    silence = Silence(0.4, 3.0, 100.0)
    one = Election(Roster("a", "bc"), min_s=0.4, max_s=0.8, random=lambda: 0.5, now=100.0, silence=silence)
    one.heard_leader(100.5)
    assert not one.may_grant(102.9)
    assert one.may_grant(103.1)
    silence.want(1.6, 110.0)
    one.heard_leader(110.0)
    silence.want(0.0, 110.1)
    one.heard_leader(110.1)
    assert not one.may_grant(111.5)
    assert one.may_grant(111.7)


def test_a_reluctant_node_stands_after_the_others() -> None:
    """One timeout more, drawn or not; its votes are given as ever."""
    one = election(random=0.0)
    one.reluctant = True
    one.heard_leader(110.0)
    assert not one.due(111.19)
    assert one.may_grant(110.41)
    assert one.due(111.21)
    one.reluctant = False
    one.heard_leader(112.0)
    assert one.due(112.41)


def test_a_round_needs_a_majority_of_its_own_term() -> None:
    """Pre-votes count once per peer and only for the term that was asked for; the round ends with the majority."""
    one = election(5)
    assert one.due(100.7)
    assert not one.ask(8, 100.7)
    assert not one.pre_voted("b", 7)
    assert not one.pre_voted("b", 8)
    assert not one.pre_voted("b", 8)
    assert one.pre_voted("c", 8)
    assert not one.pre_voted("d", 8)


def test_hearing_a_leader_voids_a_round() -> None:
    """Pre-votes that come after a leader was heard, or a vote given, start no election."""
    one = election()
    one.ask(8, 100.7)
    one.heard_leader(100.8)
    assert not one.pre_voted("b", 8)
    one.ask(8, 102.0)
    one.granted(102.1)
    assert not one.pre_voted("b", 8)


def test_a_failed_round_is_tried_again_soon() -> None:
    """A round costs nothing, so the next comes within half a minimum timeout."""
    one = election()
    one.ask(8, 101.0)
    assert not one.due(101.09)
    assert one.due(101.2)


def test_one_is_a_majority_of_one() -> None:
    """A group of one needs nobody."""
    assert election(1).ask(1, 101.0)


def test_patience_doubles_until_a_leader_is_heard() -> None:
    """Each election without a leader waits twice as long, up to sixteen times; a leader resets it."""
    one = election()
    now = 101.0
    for factor in (1, 2, 4, 8, 16, 16):
        one.campaigned(now)
        assert not one.due(now + 0.59 * factor)
        assert one.due(now + 0.61 * factor)
        now += 0.61 * factor
    one.heard_leader(now)
    one.granted(now + 1)
    assert one.due(now + 1.61)


def test_a_vote_counts_once_per_election() -> None:
    """The second vote of a peer in one election is none; in the next it counts again."""
    one = election()
    one.campaigned(101.0)
    assert one.first_vote("b")
    assert not one.first_vote("b")
    one.campaigned(103.0)
    assert one.first_vote("b")


def test_census_needs_every_peer() -> None:
    """Rule (a) holds when all have reported empty, and never once any has not."""
    census = Census(["b", "c"])
    assert not census.all_empty
    census.answered("b", True)
    census.answered("b", True)
    assert not census.all_empty
    census.answered("c", True)
    assert census.all_empty
    census.answered("b", False)
    census.answered("b", True)
    assert not census.all_empty
    assert Census([]).all_empty


def test_census_asks_now_and_then() -> None:
    """Peers are asked every 100 ms, not with every tick."""
    census = Census(["b"])
    assert [census.due(5.0 + step / 50) for step in range(10)] == [step in (0, 5) for step in range(10)]


@pytest.mark.parametrize(
    ("term", "commit", "durable", "reached"),
    [(7, 10, 20, False), (7, 11, 20, True), (7, 11, 10, False), (8, 11, 20, False), (6, 11, 20, False)],
)
def test_catch_up(term: int, commit: int, durable: int, reached: bool) -> None:
    """Rule (b) holds with a committed entry beyond the leader's first word, in its term, that is durable here."""
    regain = RegainVote()
    regain.heartbeat(7, 10)
    regain.heartbeat(7, 5)  # only its first word counts
    assert regain.reached(term, commit, durable) is reached


def test_catch_up_begins_anew_with_each_leader() -> None:
    """What one leader said does not count for the next: its log may end elsewhere."""
    regain = RegainVote()
    assert not regain.reached(7, 100, 100)
    regain.heartbeat(7, 10)
    regain.heartbeat(8, 50)
    assert not regain.reached(8, 50, 100)
    assert regain.reached(8, 51, 100)
