"""The follower's edges: what a message proves, what is committed already, and echoes that wait for nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replication.raft.context import Diverged
from replication.wire.frame import Message
from tests.replication.sim_network import SimNetwork
from tests.replication.sim_node import SimNode


def settled(tmp_path: Path, count: int = 10) -> tuple[SimNetwork, SimNode, SimNode]:
    """(network, leader, follower) with that many commands applied everywhere."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.fill(leader, count)
    network.run(0.5)
    return network, leader, network.others(leader)[0]


def append(leader: SimNode, previous: int, entries: list[tuple[bytes, int, int]], commit: int) -> Message:
    """An append_entries of the leader's term behind its entry `previous`."""
    return {
        "type": "append_entries",
        "term": leader.group.term,
        "seq": 1,
        "commit_index": commit,
        "prevLogIdx": previous,
        "prevLogTerm": leader.journal.term_at(previous),
        "entries": entries,
    }


def handled(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """What reaches the library from now on."""
    seen: list[Message] = []
    handle = node.group._core.handle

    def spy(peer: str, message: Message) -> None:
        seen.append(message)
        handle(peer, message)

    monkeypatch.setattr(node.group._core, "handle", spy)
    return seen


def test_the_commit_index_is_what_the_message_proves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is told no higher commit index than the last entry the message itself vouches for."""
    _network, leader, follower = settled(tmp_path)
    end, term = leader.group.last_index, leader.group.term
    seen = handled(follower, monkeypatch)
    follower.group.receive(leader.id, append(leader, end, [(b"one", end + 1, term)], 1_000))
    assert seen[-1]["commit_index"] == end + 1
    follower.group.receive(leader.id, append(leader, end, [], 1_000))
    assert seen[-1]["commit_index"] == end + 1, "what is committed stays so"


def test_a_heartbeat_commits_what_was_proven_only(tmp_path: Path) -> None:
    """A heartbeat's commit index counts up to what this term's leader proved; an unproven tail stays uncommitted."""
    network, old, _follower = settled(tmp_path)
    network.isolate(old.id)
    for number in range(5):
        network.propose(old, f"orphan{number}")
    network.run(2)
    new = network.leader()
    assert new is not old
    network.fill(new, 20)
    committed = old.group.commit_index
    beat: dict[str, Any] = {
        "type": "heartbeat",
        "wall_ms": 0,
        "term": new.group.term,
        "stamp_us": 1,
        "commit_index": new.group.commit_index,
        "last_index": new.group.last_index,
        "low_water": 0,
        "released": False,
        "median_ms": 0,
        "durable_index": new.journal.durable_index,
        "check_index": 0,
        "agreed_index": 0,
        "agreed_sum": b"",
        "wish_ms": 0,
        "median_slack_ms": 0,
    }
    old.group.receive(new.id, beat)
    assert old.group.leader_id == new.id
    assert old.group.commit_index == committed
    old.group.receive(new.id, append(new, committed, [], 1_000))  # proves no more than it has to
    old.group.receive(new.id, beat)
    assert old.group.last_index > committed
    assert old.group.commit_index == committed
    network.heal()
    assert network.run(2, network.equal)


def test_what_is_committed_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old message comes again: the library sees it begin behind what is committed, and nothing is written."""
    _network, leader, follower = settled(tmp_path)
    commit = follower.group.commit_index
    entries = follower.group._core.entries(3, 4)
    writes = follower.journal.write_seq
    seen = handled(follower, monkeypatch)
    follower.group.receive(leader.id, append(leader, 2, entries, 5))
    assert (seen[-1]["prevLogIdx"], seen[-1]["entries"]) == (commit, [])
    assert follower.journal.write_seq == writes
    assert follower.group.commit_index == commit
    follower.group.receive(leader.id, append(leader, 2, follower.group._core.entries(3, 1_000), commit))
    assert (seen[-1]["prevLogIdx"], seen[-1]["entries"]) == (commit, [])


def test_another_term_before_the_commit_index_ends_the_node(tmp_path: Path) -> None:
    """A leader whose previous entry differs from a committed one here contradicts what cannot be."""
    _network, leader, follower = settled(tmp_path)
    message = append(leader, 5, [], 5) | {"prevLogTerm": 99}
    follower.group.receive(leader.id, message)
    assert isinstance(follower.fatal, Diverged)
    assert "entry 5" in str(follower.fatal)


def test_what_was_acknowledged_in_this_term_is_not_forgotten_for_less(tmp_path: Path) -> None:
    """Entries that were acknowledged may be committed by now, by this very acknowledgement. No snapshot that ends
    before them may take their place, whatever makes the leader offer it; what another term acknowledged is its."""
    network, leader, follower = settled(tmp_path)
    other = next(node for node in network.others(leader) if node is not follower)
    end, term = leader.group.last_index, leader.group.term
    entries = [(b"%d" % index, index, term) for index in range(end + 1, end + 4)]
    follower.group.receive(leader.id, append(leader, end, entries, end))
    assert (follower.group.last_index, follower.group.commit_index) == (end + 3, end)
    offers = range(end, end + 5)
    assert [follower.group.may_install(leader.id, term, index) for index in offers] == [False, False, False, True, True]
    assert not follower.group.may_install(other.id, term, end + 3)
    lost = append(leader, end, [], end) | {"term": term + 1, "prevLogIdx": end + 90, "prevLogTerm": term + 1}
    follower.group.receive(other.id, lost)
    assert [follower.group.may_install(other.id, term + 1, index) for index in offers] == [False] + [True] * 4
    assert not follower.group.may_install(leader.id, term, end + 3)


def test_echoes_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    """With a write under way for a second the echo leaves at once; the acknowledgement of the entry waits."""
    network, leader, follower = settled(tmp_path)
    network.sync_s[follower.id] = 1.0
    network.watch = lambda source, target, message: source == follower.id
    network.propose(leader, "slow")
    network.run(0.5)
    kinds = [message["type"] for _now, _source, _target, message in network.seen]
    assert kinds.count("echo") >= 9
    assert "next_node_idx" not in kinds
    network.run(1)
    assert "next_node_idx" in [message["type"] for _now, _source, _target, message in network.seen]


def test_a_follower_that_hears_its_leader_grants_nothing(tmp_path: Path) -> None:
    """Neither a vote nor a pre-vote goes to anybody while the leader was heard within the minimum timeout."""
    network, leader, follower = settled(tmp_path)
    other = next(node for node in network.others(leader) if node is not follower)
    network.watch = lambda source, target, message: source == follower.id and message["type"] != "echo"
    term = leader.group.term
    ask = {"term": term + 1, "last_log_index": 1_000, "last_log_term": term}
    follower.group.receive(other.id, {"type": "pre_vote"} | ask)
    follower.group.receive(other.id, {"type": "request_vote", "transfer": False} | ask)
    network.run(0.2)
    assert not network.seen
    assert follower.group.term == term
    network.isolate(leader.id)
    network.mute = set(network.ids)
    network.run(0.41)
    follower.group.receive(other.id, {"type": "pre_vote"} | ask)
    follower.group.receive(other.id, {"type": "request_vote", "transfer": False} | ask)
    network.run(0.1)
    kinds = [message["type"] for _now, _source, _target, message in network.seen]
    assert kinds == ["pre_vote_ok", "response_vote"]
