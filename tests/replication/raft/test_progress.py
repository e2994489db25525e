"""The leader's book by itself: one append at a time, only down while backing off, a majority of disks."""

from __future__ import annotations

import pytest

from replication.raft.progress import Progress


def progress(peers: str = "bc", last: int = 10) -> Progress:
    """A leader that begins with a log of `last` entries."""
    one = Progress(list(peers), resend_s=1.0, idle_s=0.5)
    one.lead(last)
    return one


def answer(one: Progress, peer: str, seq: int, next_index: int, *, success: bool, last: int = 100) -> bool:
    """The peer's answer: a success, or a reset."""
    return one.answered(peer, seq=seq, next_index=next_index, reset=not success, success=success, last_index=last)


def test_one_append_is_on_its_way() -> None:
    """Nothing more is due until the answer comes; then at once if there is more to send."""
    one = progress()
    follower = one.followers["b"]
    assert one.due(follower, 11, 5.0)
    seq = one.sent(follower, 10, 5.0)
    assert not one.due(follower, 99, 5.9)
    assert answer(one, "b", seq, 12, success=True)
    assert (follower.match, follower.next) == (11, 12)
    assert one.due(follower, 12, 5.9)
    assert not one.due(follower, 11, 5.4)
    assert one.due(follower, 11, 5.6), "an empty one now and then"


def test_an_unanswered_append_is_repeated_ever_less_often() -> None:
    """Given up after the resend time, then after twice as long each time; an answer resets that."""
    one = progress()
    follower = one.followers["b"]
    now = 5.0
    for wait in (1.0, 2.0, 4.0, 8.0):
        seq = one.sent(follower, 10, now)
        assert not one.due(follower, 11, now + wait - 0.1)
        assert one.due(follower, 11, now + wait + 0.1)
        now += wait + 0.1
    seq = one.sent(follower, 10, now)
    answer(one, "b", seq, 12, success=True)
    one.sent(follower, 11, now)
    assert one.due(follower, 12, now + 1.1)


def test_backing_off_only_goes_down() -> None:
    """While logs disagree the next index never rises, whatever the follower says; success ends it."""
    one = progress(last=50)
    follower = one.followers["b"]
    seq = one.sent(follower, 50, 1.0)
    answer(one, "b", seq, 40, success=False)
    assert (follower.next, follower.backing_off) == (40, True)
    assert one.due(follower, 51, 1.0)
    seq = one.sent(follower, 39, 1.0)
    answer(one, "b", seq, 60, success=False)
    assert follower.next == 39
    seq = one.sent(follower, 38, 1.0)
    answer(one, "b", seq, 39, success=True)
    assert (follower.next, follower.match, follower.backing_off) == (39, 38, False)


def test_answers_to_something_else_move_nothing() -> None:
    """An answer to an append that was given up raises match, being true, but does not free the one on its way."""
    one = progress(last=50)
    follower = one.followers["b"]
    first = one.sent(follower, 50, 1.0)
    second = one.sent(follower, 50, 9.0)
    assert not answer(one, "b", first, 30, success=False)
    assert (follower.next, follower.seq) == (51, second)
    assert answer(one, "b", first, 52, success=True)
    assert (follower.match, follower.seq) == (51, second)
    assert not answer(one, "b", second + 1, 60, success=True)
    assert not answer(one, "b", second, 200, success=True, last=100)
    assert not answer(one, "b", second, 0, success=True)
    assert follower.match == 51


def test_a_forgotten_disk() -> None:
    """After `forget` match is zero, answers of before are void, and the peer is no voter until it says so."""
    one = progress()
    follower = one.followers["b"]
    follower.voter = True
    seq = one.sent(follower, 10, 1.0)
    answer(one, "b", seq, 12, success=True)
    one.forget("b")
    assert (one.followers["b"].match, one.followers["b"].voter) == (0, False)
    assert not answer(one, "b", seq, 12, success=True)
    assert one.followers["b"].match == 0
    seq = one.sent(one.followers["b"], 11, 2.0)
    answer(one, "b", seq, 2, success=False)
    assert one.followers["b"].next == 2


def test_a_new_connection_frees_what_was_on_its_way() -> None:
    """What was sent on a lost connection is sent again at once on the next."""
    one = progress()
    follower = one.followers["b"]
    one.sent(follower, 10, 1.0)
    one.reconnected("b", 100)
    assert one.due(follower, 10, 1.0)


@pytest.mark.parametrize(
    ("own", "matches", "voters", "expected"),
    [
        (9, [5, 7], "bc", 7),
        (3, [5, 7], "bc", 5),
        (9, [5, 7], "b", 5),
        (9, [5, 7], "", 0),
        (9, [], "", 9),
        (9, [4], "b", 4),
        (9, [2, 4, 6, 8], "bcde", 6),
        (1, [2, 4, 6, 8], "bcde", 4),
        (9, [3, 5, 7], "bcd", 5),
    ],
)
def test_a_majority_of_disks(own: int, matches: list[int], voters: str, expected: int) -> None:
    """The index a majority has on disk: the own copy counts as far as it is durable, learners not at all."""
    peers = "bcde"[: len(matches)]
    one = progress(peers)
    for peer, match in zip(peers, matches, strict=True):
        one.followers[peer].match = match
        one.followers[peer].voter = peer in voters
    assert one.majority_index(own) == expected
