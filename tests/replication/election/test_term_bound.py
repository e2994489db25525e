"""Terms end, and nobody raises them by much: by the credit alone, and in a whole group."""

from __future__ import annotations

from pathlib import Path

import pytest

from replication.election.term_bound import CREDIT, REFILL_S, TermBound
from replication.group import StartRefused
from replication.wire.frame import Message
from replication.wire.frame_bound import TERM_MAX
from tests.replication.sim_network import SimNetwork

VOTE = {"last_log_index": 1 << 40, "last_log_term": 1}
BEAT = {
    "stamp_us": 1,
    "wall_ms": 1,
    "commit_index": 1,
    "last_index": 1,
    "low_water": 1,
    "released": False,
    "median_ms": 1,
    "durable_index": 1,
    "check_index": 0,
    "agreed_index": 0,
    "agreed_sum": b"",
}
APPEND = {"seq": 1, "commit_index": 1, "prevLogIdx": 1, "prevLogTerm": 0, "entries": [(b"xx", 2, 0)]}
OFFER = {"number": 1, "index": 1 << 40, "bytes": 1, "manifest_bytes": 1, "crc": 1}


def test_the_credit_bounds_a_jump_and_all_of_them_together() -> None:
    """2^20 at once, then 16 a second; a node without a term takes any."""
    bound = TermBound(0.0)
    assert bound.allows(5, 5 + CREDIT, 0.0)
    assert not bound.allows(5, 6 + CREDIT, 0.0)
    bound.rose(5, 5 + CREDIT, 0.0)
    assert not bound.allows(5 + CREDIT, 6 + CREDIT, 0.0)
    assert bound.allows(5 + CREDIT, 5 + CREDIT + REFILL_S, 1.0)
    assert bound.allows(5 + CREDIT, 5, 1.0), "an older term raises nothing"
    assert bound.allows(0, TERM_MAX, 1.0)
    bound.rose(0, TERM_MAX, 1.0)
    assert bound.allows(7, 7 + 2 * REFILL_S, 2.0), "the first term cost nothing"
    assert not bound.allows(5, 6 + CREDIT, 1e9), "credit does not grow past what it was"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "stale_term"},
        {"type": "request_vote", "transfer": True, **VOTE},
        {"type": "request_vote", "transfer": False, **VOTE},
        {"type": "response_vote"},
        {"type": "pre_vote", **VOTE},
        {"type": "pre_vote_ok"},
        {"type": "heartbeat", **BEAT},
        {"type": "append_entries", **APPEND},
        {"type": "timeout_now"},
        {"type": "standing", "index": 1, "known_term": 0, "known_index": 0},
        {"type": "next_node_idx", "seq": 1, "next_node_idx": 9, "reset": True, "success": True, "voter": True},
        {"type": "snapshot_offer", **OFFER},
    ],
    ids=lambda message: str(message["type"]),
)
def test_a_jump_of_the_term_is_heard_by_nobody(tmp_path: Path, message: Message) -> None:
    """Each kind that names a term, with one too far beyond ours: no node moves, and the leader leads on."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1.0)
    term = leader.group.term
    for jump in (CREDIT + 17, TERM_MAX - term):
        for node in network.nodes.values():
            others = [peer for peer in network.nodes if peer != node.id]
            for peer in others:
                node.group.receive(peer, message | {"term": term + jump})
    network.run(1.0)
    assert {node.group.term for node in network.nodes.values()} == {term}
    assert leader.group.is_leader
    assert all(node.group.failure is None for node in network.nodes.values())


def test_a_node_back_from_long_absence_is_heard(tmp_path: Path) -> None:
    """A cluster that is a million terms further is followed: that is what the credit is for."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1.0)
    far = leader.group.term + 1_000_000
    follower = next(node for node in network.nodes.values() if node is not leader)
    follower.group.receive(leader.id, {"type": "heartbeat", "term": far, **BEAT})
    assert follower.group.term == far
    assert follower.group.leader_id == leader.id


def test_nobody_takes_a_second_leader_in_a_term(tmp_path: Path) -> None:
    """A follower stays with the leader of its term; one that a majority echoes is that leader and does not stop."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1.0)
    follower, other = (node for node in network.nodes.values() if node is not leader)
    for node in (follower, leader):
        for message in ({"type": "heartbeat", **BEAT}, {"type": "append_entries", **APPEND}):
            node.group.receive(other.id, message | {"term": leader.group.term})
    assert follower.group.leader_id == leader.id
    assert leader.group.is_leader
    assert leader.group.failure is None


def test_a_journal_at_the_end_of_the_terms_is_refused_by_name(tmp_path: Path) -> None:
    """A start on a journal whose term has no next one is refused, with the command that helps."""
    network = SimNetwork(tmp_path, "A")
    node = network.elect()
    node.journal.setCurrentTerm(TERM_MAX, None)
    node.group._core._SyncObj__raftCurrentTerm = TERM_MAX
    with pytest.raises(StartRefused, match="hourwheel node journal-term"):
        node.group.start_at(1)
