"""R5 to R8: one vote per node and term, a term that moves only when a majority misses its leader, one leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from replication.raft.proposal import Outcome
from tests.replication.sim_network import SimNetwork
from tests.replication.stock_cluster import stock


def test_r5_a_vote_counts_once(tmp_path: Path) -> None:
    """R5: the same vote delivered twice makes a leader of five in stock, and counts once in ours."""
    with stock(ids="ABCDE") as control:
        control.isolate("A")
        node = control.nodes["A"]
        node._SyncObj__raftElectionDeadline = 0
        control.tick(ids="A")
        for _ in range(2):
            node.link.deliver("B", {"type": "response_vote", "term": node.raftCurrentTerm})
        assert node._isLeader(), "control: the stock library counts voters now"

    network = SimNetwork(tmp_path, "ABCDE")
    network.run(0.3)  # all are voters
    network.watch = lambda source, target, message: target == "A" and message["type"] == "response_vote"
    network.cut |= {(other, "A") for other in "BCDE"}
    candidate = network.nodes["A"]
    network.run(0.2)
    for other in "BC":
        candidate.group.receive(other, {"type": "pre_vote_ok", "term": candidate.group.term + 1})
    while candidate.group.role != "candidate":
        network.run(0.05)
        for other in "BC":
            candidate.group.receive(other, {"type": "pre_vote_ok", "term": candidate.group.term + 1})
    for _ in range(3):
        candidate.group.receive("B", {"type": "response_vote", "term": candidate.group.term})
    assert candidate.group.role == "candidate"
    candidate.group.receive("C", {"type": "response_vote", "term": candidate.group.term})
    assert candidate.group.role == "leader"


def test_r5_answers_of_another_term_are_dropped(tmp_path: Path) -> None:
    """R5: an acknowledgement of an earlier term, late, raises the match index in stock and does nothing in ours."""
    with stock() as control:
        leader = control.elect("A")
        leader.put("x")
        control.run(0.3)
        control.elect("B")
        control.isolate("A")
        leader = control.nodes["B"]
        leader.put("y" * 10)
        control.held |= {("C", "B")}
        control.tick(ids="B")
        before = leader.private("raftMatchIndex")[leader.link.nodes["C"]]
        answer = {"type": "next_node_idx", "next_node_idx": before + 5, "reset": False, "success": True}
        leader.link.deliver("C", answer)
        after = leader.private("raftMatchIndex")[leader.link.nodes["C"]]
        assert after == before + 4, "control: the stock library looks at the term of an answer now"

    network = SimNetwork(tmp_path)
    node = network.elect()
    other = next(node_id for node_id in network.ids if node_id != node.id)
    network.run(0.5)
    network.isolate(node.id)
    network.propose(node, "alone")
    before = node.group.peers[other].match_index
    answer = {
        "type": "next_node_idx",
        "term": node.group.term - 1,
        "seq": 1,
        "next_node_idx": node.group.last_index + 1,
        "reset": False,
        "success": True,
        "voter": True,
    }
    node.group.receive(other, answer)
    assert node.group.peers[other].match_index == before
    assert node.group.commit_index < node.group.last_index


@pytest.mark.parametrize("seed", range(5))
def test_r6_a_paused_follower_keeps_the_term(tmp_path: Path, seed: int) -> None:
    """R6: a follower paused for 6 s deposes stock's leader on waking; ours keeps leader and term."""
    with stock(seed=seed) as control:
        control.elect("A")
        control.run(1)
        term = control.nodes["A"].raftCurrentTerm
        control.paused = {"B"}
        control.run(6)
        control.paused = set()
        control.guard(control.nodes["B"].doTick, 0.0)  # the timer is looked at before the sockets
        control.run(3)
        assert control.nodes["A"].raftCurrentTerm > term, "control: the stock library keeps the term now"

    network = SimNetwork(tmp_path, seed=seed)
    leader = network.elect()
    network.run(1)
    term = leader.group.term
    other = next(node_id for node_id in network.ids if node_id != leader.id)
    network.pause(other)
    network.run(6)
    network.resume(other)
    network.run(3)
    assert [node.group.term for node in network.nodes.values()] == [term] * 3
    assert network.leaders() == [leader.id]


def test_r6_a_partial_partition_keeps_the_term(tmp_path: Path) -> None:
    """R6: of five nodes two cannot reach the leader: terms race in stock, the term stays and commits go on in ours."""
    with stock(ids="ABCDE", leaderFallbackTimeout=0.35) as control:  # kinder to stock than its 30 s
        control.elect("A")
        control.run(1)
        term = control.nodes["A"].raftCurrentTerm
        control.cut = {("A", "D"), ("D", "A"), ("A", "E"), ("E", "A")}
        control.run(60)
        risen = max(node.raftCurrentTerm for node in control.nodes.values()) - term
        assert risen > 5, f"control: the stock library rose by {risen} terms only"

    network = SimNetwork(tmp_path, "ABCDE")
    leader = network.elect("A")
    network.run(1)
    term = leader.group.term
    network.cut = {("A", "D"), ("D", "A"), ("A", "E"), ("E", "A")}
    outcomes: list[tuple[str, Outcome]] = []
    for number in range(60):
        network.propose(leader, f"n{number}", outcomes)
        network.run(1)
    assert [outcome.error for _text, outcome in outcomes] == [None] * 60
    assert [node.group.term for node in network.nodes.values()] == [term] * 5
    network.heal()
    assert network.run(2, network.equal)


def test_r6_a_follower_that_hears_nothing_keeps_the_term(tmp_path: Path) -> None:
    """R6: a link that works in one direction only moves no term: the others still hear their leader."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1)
    term = leader.group.term
    deaf = next(node_id for node_id in network.ids if node_id != leader.id)
    network.cut = {(other, deaf) for other in network.ids if other != deaf}
    network.run(20)
    assert [node.group.term for node in network.nodes.values()] == [term] * 3
    network.heal()
    network.run(1)
    assert network.leaders() == [leader.id]
    assert leader.group.term == term


def test_r7_a_cut_off_leader_steps_down(tmp_path: Path) -> None:
    """R7: a leader cut off from all stays leader for 30 s in stock, ours is gone before the next is elected."""
    with stock() as control:
        control.elect("A")
        control.run(1)
        control.isolate("A")
        control.run(5)
        assert len(control.leaders()) == 2, "control: the stock library's old leader steps down now"

    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1)
    network.isolate(leader.id)
    both: list[list[str]] = []

    def elected() -> bool:
        if len(network.leaders()) > 1:
            both.append(network.leaders())
        return any(node_id != leader.id for node_id in network.leaders())

    assert network.run(5, elected)
    assert not both
    assert leader.group.role == "follower"


def test_r8_a_stale_leader_is_told(tmp_path: Path) -> None:
    """R8: stock does not answer append_entries of an earlier term; ours says so and the stale leader steps down."""
    with stock() as control:
        control.elect("A")
        control.run(1)
        control.isolate("A")
        control.elect("B")
        control.cut = {("A", "B"), ("B", "A")}
        control.sent.clear()
        for _ in range(50):  # A still leads for 30 s and speaks to C
            control.tick()
        told = [message for source, target, message in control.sent if (source, target) == ("C", "A")]
        assert not told, "control: the stock library answers a stale leader now"
        assert "A" in control.leaders()

    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.run(1)
    term = leader.group.term
    other = next(node for node in network.nodes.values() if node is not leader)
    network.isolate(leader.id)
    other.group.receive(
        leader.id, {"type": "stale_term", "term": term + 3}
    )  # as if it had heard of a term that nobody leads
    assert other.group.term == term + 3
    network.cut.clear()
    network.watch = lambda source, target, message: message["type"] == "stale_term"
    assert leader.group.is_leader
    assert network.run(0.2, lambda: not leader.group.is_leader)
    assert leader.group.term == term + 3
    assert network.seen
    assert network.elect().group.term > term + 3
