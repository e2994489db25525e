"""Elections that few nodes, or one, must win by themselves, and what a leader keeps of an earlier reign."""

from __future__ import annotations

from pathlib import Path

from replication.raft.promise import NOTHING
from replication.raft.proposal import Outcome
from tests.replication.sim_network import SimNetwork

SLOW_S = 0.05


def test_the_only_voter_leads_when_its_vote_is_on_disk(tmp_path: Path) -> None:
    """Its own vote is a majority, but a learner hears of no term that a power cut could take back. (It led at once;
    cut off its power before the sync, and the learner knew of a term that it did not: it took itself for an old copy,
    gave up the only vote there is, and nobody led for ever. Nor is one term to be led twice.)"""
    network = SimNetwork(tmp_path, "A")
    leader = network.elect("A")
    network.join("B")
    network.change_now(leader, "add", "B")
    network.fill(leader, 3)
    network.run(1)
    network.sync_s["A"] = SLOW_S
    network.restart("A")
    before = network.nodes["A"].group.term
    assert network.run(5, lambda: network.nodes["A"].group.term > before)
    network.run(SLOW_S * 0.8)
    assert network.nodes["B"].group.term == before
    node = network.restart("A")
    assert node.group.term == before, "the power was cut before the new term was on disk"
    network.run(1)
    assert node.journal.voter
    assert node.group._promises._admitted == NOTHING
    network.elect("A")
    network.fill(node, 2, "after")
    assert network.run(5, network.equal)


def test_a_drained_node_stands_when_nobody_else_can_win(tmp_path: Path) -> None:
    """B is drained and has what A and it have committed, C has not; A dies. C is refused for its shorter log, so B
    stands after a while, though it shall not lead, and C has all of it soon. (They waited for A for ever.)"""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 3)
    network.run(0.5)
    network.says["B"] = {"retiring"}
    network.isolate("C")
    network.fill(leader, 5, "late")
    network.kill("A")
    network.heal()
    assert network.elect(seconds=10).id == "B"
    assert network.run(1, network.equal)
    assert "late4" in network.nodes["C"].texts()
    network.says["B"] = {"retiring", "leaving"}
    network.nodes["B"].group.resign()
    assert network.elect(seconds=10).id == "C", "now that it can"


def test_a_node_that_is_about_to_end_does_not_stand(tmp_path: Path) -> None:
    """It would be gone before it could do anything; the others have their majority, or not."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.says["B"] = network.says["C"] = {"retiring", "leaving"}
    network.kill(leader.id)
    network.run(10)
    assert network.leaders() == []


def test_a_change_that_was_lost_is_under_way_no_more(tmp_path: Path) -> None:
    """A proposes a change behind entries that reach nobody, and loses them. When it leads again nothing is under way.
    (It refused every change and transfer until its new log was as long as the lost one: at rest, for ever.)"""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 3)
    network.isolate("A")
    for number in range(20):
        network.propose(leader, f"lost{number}")
    network.change(leader, "remove", "C")
    assert leader.group.changing
    assert network.run(10, lambda: any(network.nodes[node_id].group.established for node_id in "BC"))
    network.heal()
    network.run(2)
    network.leader().group.resign()
    assert network.elect("A") is leader
    assert not leader.group.changing
    outcomes: list[tuple[str, Outcome]] = []
    network.change(leader, "remove", "C", outcomes)
    assert network.answered(outcomes, 1)
    assert outcomes[0][1].error is None


def test_who_leads_no_more_lets_nobody_go(tmp_path: Path) -> None:
    """Leadership may be lost while the last entry is waited for. (The former leader then sent heartbeats in its
    successor's term; the successor took it for a second leader of the term, and ended.)"""
    network = SimNetwork(tmp_path)
    former = network.elect("A")
    former.group.resign()
    leader = network.elect("B")
    network.run(0.2)
    former.group.let_go()
    network.run(1)
    assert leader.fatal is None
    assert network.leader() is leader
    assert all(node.group.leader_id == "B" for node in network.nodes.values())
    network.fill(leader, 2)


def test_who_was_let_go_before_is_not_for_good(tmp_path: Path) -> None:
    """A majority was about to leave and stayed after all; the next time that one leaves the leader is asked anew."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.says["B"] = network.says["C"] = {"leaving"}
    network.run(0.15)
    leader.group.let_go()
    assert network.run(0.01, lambda: network.nodes["B"].group.released)
    network.says["B"] = network.says["C"] = set()
    network.run(0.15)
    assert not leader.group.outnumbered
    leader.group.let_go(False)
    network.says["B"] = network.says["C"] = {"leaving"}
    network.run(0.15)
    assert leader.group.outnumbered
    assert not any(network.nodes[node_id].group.released for node_id in "BC")
