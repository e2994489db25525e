"""Who stops when nodes differ: the minority, the leader if it is that, and nobody where there is no majority."""

import pytest

from replication.raft.agreement import ASK_AGAIN, ROUND_S, Agreement, OddOneOut
from replication.raft.state_hashes import StateHashes

RIGHT, WRONG, OTHER = b"r" * 16, b"w" * 16, b"o" * 16
PEERS = ("n2", "n3")


def leader(held: bytes = RIGHT, index: int = 7) -> tuple[Agreement, StateHashes]:
    """Of a leader n1 that stands at this hash after entry `index` and has asked for it."""
    sums = StateHashes()
    sums.note(index, held)
    agreement = Agreement("n1", sums)
    agreement.lead()
    agreement.tick(1.0, PEERS, PEERS)
    assert agreement.asked == index
    return agreement, sums


def test_one_that_agrees_makes_a_majority_of_three() -> None:
    """With one of three down too; the leader alone is none."""
    agreement, _ = leader()
    assert agreement.agreed_index == 0
    agreement.answered("n3", 7, RIGHT, PEERS)
    assert (agreement.agreed_index, agreement.agreed_sum, agreement.split) == (7, RIGHT, None)


def test_a_follower_that_differs_is_named_and_told() -> None:
    """The leader goes on; the follower finds in the next heartbeat that the majority stands elsewhere, hears it from
    them, and stops."""
    agreement, _ = leader()
    agreement.answered("n2", 7, WRONG, PEERS)
    assert "n1 at 727272727272, n2 at 777777777777" in str(agreement.split)
    agreement.answered("n3", 7, RIGHT, PEERS)
    assert (agreement.agreed_index, agreement.split, agreement.differing) == (7, None, ("n2",))
    follower, _ = leader(WRONG)
    assert follower.heard(agreement.agreed_index, agreement.agreed_sum) == 7
    follower.told("n2", 7, agreement.sum_at(7), PEERS, 2)
    with pytest.raises(OddOneOut, match=f"node n1 .* entry 7 .* {WRONG.hex()}.* {RIGHT.hex()}.*remove it"):
        follower.told("n3", 7, RIGHT, PEERS, 2)


def test_a_leader_that_lies_stops_nobody() -> None:
    """The others stand where this node does, or elsewhere than each other, or cannot tell: no majority against it."""
    follower, sums = leader()
    assert follower.heard(7, b"") == 7
    follower.told("n2", 7, WRONG, PEERS, 2)
    for held in (RIGHT, OTHER, b""):
        follower.told("n3", 7, held, PEERS, 2)
    follower.told("n9", 7, WRONG, PEERS, 2)
    sums.note(8, RIGHT)
    assert follower.heard(8, WRONG) == 7
    assert follower.heard(8, RIGHT) == 0
    follower.told("n2", 7, WRONG, PEERS, 2)
    follower.told("n3", 7, WRONG, PEERS, 2)
    assert follower.agreed_index == 8


def test_who_is_asked_long_enough_is_asked_about_a_newer_entry() -> None:
    """One of the others may have forgotten that one."""
    follower, sums = leader()
    sums.note(8, RIGHT)
    assert {follower.heard(7, WRONG) for _ in range(ASK_AGAIN)} == {7}
    assert follower.heard(8, WRONG) == 8


def test_a_leader_that_differs_stops() -> None:
    """As soon as a majority that agrees is heard, and not before."""
    agreement, _ = leader(WRONG)
    agreement.answered("n2", 7, RIGHT, PEERS)
    with pytest.raises(OddOneOut, match="node n1 differs"):
        agreement.answered("n3", 7, RIGHT, PEERS)


def test_without_a_majority_nobody_stops_and_it_is_said() -> None:
    """Two that differ, or three opinions: the split stays until a round ends with a majority."""
    agreement, sums = leader()
    agreement.answered("n2", 7, WRONG, PEERS)
    agreement.answered("n3", 7, OTHER, PEERS)
    assert agreement.split is not None
    assert set(agreement.split.sums) == {"n1", "n2", "n3"}
    assert agreement.agreed_index == 0
    sums.note(9, RIGHT)
    agreement.tick(1.1, PEERS, PEERS)
    assert agreement.asked == 9
    assert "entry 7" in str(agreement.split)
    agreement.answered("n2", 9, RIGHT, PEERS)
    assert agreement.agreed_index == 9
    assert not agreement.split


def test_who_was_wiped_or_removed_has_no_opinion_any_more() -> None:
    """A split ends with the one that differed; with two others that differ it goes on. (Two of three differed and the
    third lacked a snapshot, which is withheld meanwhile; the operator emptied one of the two, and then both waited for
    a snapshot for as long as the leader ran.)"""
    agreement, sums = leader()
    agreement.answered("n2", 7, WRONG, PEERS)
    agreement.answered("n3", 7, OTHER, PEERS)
    agreement.forget("n2")
    assert "n3 at 6f6f6f6f6f6f" in str(agreement.split)
    agreement.forget("n3")
    assert agreement.split is None
    sums.note(8, RIGHT)
    agreement.tick(1.0 + ROUND_S, PEERS, PEERS)
    agreement.answered("n2", 8, RIGHT, PEERS)
    assert (agreement.agreed_index, agreement.split) == (8, None)


def test_a_learner_that_differs_is_told_and_counts_for_nothing() -> None:
    """Its word makes no majority, neither for the leader nor against it."""
    agreement, _ = leader()
    for learner in ("n4", "n5"):
        agreement.answered(learner, 7, WRONG, PEERS)
    assert agreement.agreed_index == 0
    agreement.answered("n2", 7, RIGHT, PEERS)
    assert (agreement.agreed_index, agreement.differing) == (7, ("n4", "n5"))


def test_of_four_two_are_no_majority() -> None:
    """Half is not more than half."""
    agreement, _ = leader()
    peers = ("n2", "n3", "n4")
    agreement.answered("n2", 7, RIGHT, peers)
    assert agreement.agreed_index == 0
    agreement.answered("n3", 7, RIGHT, peers)
    assert agreement.agreed_index == 7


def test_a_round_waits_for_who_is_connected_and_for_a_second() -> None:
    """One that lags is asked again later; answers to an earlier question count for nothing."""
    agreement, sums = leader()
    sums.note(8, RIGHT)
    agreement.answered("n2", 7, RIGHT, PEERS)
    agreement.tick(1.5, PEERS, PEERS)
    assert agreement.asked == 7
    agreement.tick(1.6, PEERS, ("n2",))
    assert agreement.asked == 8
    sums.note(9, RIGHT)
    agreement.tick(1.6 + ROUND_S, PEERS, PEERS)
    assert agreement.asked == 9
    agreement.answered("n2", 8, WRONG, PEERS)
    assert agreement.split is None


def test_a_single_node_agrees_with_itself() -> None:
    """It has nobody to compare with, and may hand its state on."""
    sums = StateHashes()
    sums.note(3, RIGHT)
    agreement = Agreement("n1", sums)
    agreement.lead()
    agreement.tick(1.0, (), ())
    assert agreement.agreed_index == 3


def test_a_follower_without_that_entry_says_nothing_and_stays() -> None:
    """It has not applied it, or long ago: the next rounds will ask."""
    agreement = Agreement("n1", StateHashes())
    assert agreement.sum_at(7) == b""
    assert agreement.heard(7, RIGHT) == 0
    assert agreement.agreed_index == 0


def test_hashes_of_different_versions_are_never_compared() -> None:
    """An upgrade condemns nobody: neither a follower whose hash is of another version, nor the leader among two such,
    and what they say to a follower that asks is no witness. They agree with nobody either."""
    newer = b"\x02" + WRONG
    agreement, _ = leader()
    for peer in PEERS:
        agreement.answered(peer, 7, newer, PEERS)
    assert (agreement.agreed_index, agreement.split, agreement.differing) == (0, None, ())
    follower, sums = leader()
    assert follower.heard(7, newer) == 0
    assert follower.heard(7, WRONG) == 7
    for peer in PEERS:
        follower.told(peer, 7, newer, PEERS, 2)
    sums.note(8, RIGHT, 2)
    assert follower.heard(8, b"\x02" + RIGHT) == 0
    assert follower.agreed_index == 8
