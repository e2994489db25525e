"""Who votes: the voter rule for empty and wiped disks, and elections on slow ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replication.raft.proposal import Outcome
from tests.replication.sim_network import SimNetwork


def test_elections_succeed_on_slow_disks(tmp_path: Path) -> None:
    """With a second per fdatasync everywhere a vote takes longer than the timeout; candidates wait longer and win."""
    network = SimNetwork(tmp_path)
    network.run(0.3)
    for node_id in network.ids:
        network.sync_s[node_id] = 1.0
    assert network.elect(seconds=60).group.term < 12


def test_a_wiped_node_does_not_vote_with_amnesia(tmp_path: Path) -> None:
    """One disk wiped, another node down: the two that are left elect nobody and lose nothing."""
    network = SimNetwork(tmp_path)
    node = network.elect("A")
    network.isolate("C")
    texts = [text for text, _outcome in network.fill(node, 20)]  # on A and B only
    network.kill("A")
    network.heal()
    wiped = network.wipe("B")
    network.run(20)
    assert network.leaders() == []
    assert wiped.group.role == "learner"
    assert wiped.journal.getVotedForNodeId() is None
    network.start("A")
    assert network.elect().texts() == texts
    assert network.run(5, network.equal)


def test_a_wiped_node_catches_up_and_votes_again(tmp_path: Path) -> None:
    """A wiped follower becomes a voter once it has an entry committed without it; then it can carry a majority."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    texts = [text for text, _outcome in network.fill(node, 20)]
    first, second = network.others(node)
    wiped = network.wipe(first.id)
    assert not wiped.journal.voter
    assert network.run(5, lambda: wiped.journal.voter)
    assert wiped.texts() == texts
    network.run(0.5)
    assert node.group.peers[wiped.id].voter
    network.kill(second.id)
    network.fill(node, 5, "w")
    wiped = network.restart(wiped.id)
    assert wiped.journal.voter, "the flag is not durable"
    network.fill(node, 5, "v")


def test_a_learner_is_counted_for_nothing(tmp_path: Path) -> None:
    """While a wiped node has no vote, its copy commits nothing and its echo keeps no leader."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.fill(node, 5)
    first, second = network.others(node)
    network.kill(second.id)
    network.wipe(first.id)
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "lonely", outcomes)
    network.run(0.3)
    assert not outcomes
    assert network.run(1, lambda: not node.group.is_leader)
    assert node.group.commit_index < node.group.last_index


def test_a_changed_disk_voids_what_was_acknowledged(tmp_path: Path) -> None:
    """A peer that comes back with another store_id has match index 0, and answers of its former life are void."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.fill(node, 10)
    peer = network.others(node)[0].id
    network.run(0.2)
    assert node.group.peers[peer].match_index == node.group.last_index
    answer: dict[str, Any] = {
        "type": "next_node_idx",
        "term": node.group.term,
        "seq": 1,
        "next_node_idx": node.group.last_index + 1,
        "reset": False,
        "success": True,
        "voter": True,
    }
    node.group.peer_connected(peer, b"another disk")
    assert node.group.peers[peer].match_index == 0
    node.group.receive(peer, answer)
    assert node.group.peers[peer].match_index == 0
    node.group.peer_connected(peer, b"another disk")
    assert network.run(1, lambda: node.group.peers[peer].match_index == node.group.last_index)


def test_a_new_cluster_waits_for_every_peer(tmp_path: Path) -> None:
    """Rule (a): with one configured peer silent from the start nobody votes; when it reports empty all do."""
    network = SimNetwork(tmp_path)
    network.isolate("C")
    network.run(10)
    assert [node.group.role for node in network.nodes.values()] == ["learner"] * 3
    network.heal()
    network.elect()
    assert all(node.journal.voter for node in network.nodes.values())


def test_a_shorter_log_gets_no_pre_vote(tmp_path: Path) -> None:
    """Who lacks entries the asked node has is not encouraged: it could not win, and its term would only disturb."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.fill(node, 5)
    network.run(0.5)
    first, second = network.others(node)
    network.kill(node.id)
    network.mute = set(network.ids)
    network.run(0.5)
    network.watch = lambda source, target, message: message["type"] == "pre_vote_ok"
    ask: dict[str, Any] = {"type": "pre_vote", "term": first.group.term + 1, "last_log_term": first.group.term}
    first.group.receive(second.id, ask | {"last_log_index": first.group.last_index - 1})
    first.group.receive(second.id, ask | {"last_log_index": 10_000, "last_log_term": 0})
    assert not network.seen
    first.group.receive(second.id, ask | {"last_log_index": first.group.last_index})
    assert len(network.seen) == 1


def test_a_candidate_behind_in_terms_is_told(tmp_path: Path) -> None:
    """A node that asks for a term which is over learns the present one, else it might ask for ever."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.run(0.5)
    other = network.others(node)[0]
    network.watch = lambda source, target, message: source == other.id and message["type"] == "stale_term"
    ask = {"type": "pre_vote", "term": other.group.term, "last_log_index": 10_000, "last_log_term": other.group.term}
    other.group.receive(network.others(node)[1].id, ask)
    assert [message["term"] for _now, _source, _target, message in network.seen] == [other.group.term]


@pytest.mark.parametrize("change", [True, False])
def test_nobody_stands_before_it_has_applied_what_is_committed(tmp_path: Path, change: bool) -> None:
    """B knows that an entry is committed, and its disk does not have it yet. Asked to lead, it would count with members
    of before; it stands when it has applied the entry."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 3)
    network.run(0.5)
    node, term = network.nodes["B"], leader.group.term
    network.sync_s["B"] = 1.0
    if change:
        network.change_now(leader, "add", "D")
    else:
        network.fill(leader, 1, "late")
    assert network.run(0.5, lambda: node.group.commit_index == leader.group.commit_index)
    assert node.group.applied_index < node.group.commit_index
    node.group.receive("A", {"type": "timeout_now", "term": term})
    assert (node.group.role, node.group.term) == ("follower", term)
    assert network.run(3, lambda: node.group.applied_index == node.group.commit_index)
    node.group.receive("A", {"type": "timeout_now", "term": term})
    assert (node.group.role, node.group.term) == ("candidate", term + 1)


def test_all_changes_but_the_last_of_a_log_are_committed(tmp_path: Path) -> None:
    """A log with two changes that are not applied: who proposed the second had applied the first (rule 2). The node
    takes that for committed, applies it, and stands with the members that it makes."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 3)
    network.run(0.5)
    node, core, term = network.nodes["B"], network.nodes["B"].group._core, leader.group.term
    for text in ("member add D 1", "between", "member add E 2"):
        core.append(text.encode())
    assert network.nodes["B"].group.applied_index == core.last_index - 3
    node.group.receive("A", {"type": "timeout_now", "term": term})
    assert (node.group.role, node.group.commit_index) == ("follower", core.last_index - 2)
    assert network.run(0.02, lambda: node.learners == ["D"])
    node.group.receive("A", {"type": "timeout_now", "term": term})
    assert (node.group.role, node.group.term) == ("candidate", term + 1)
