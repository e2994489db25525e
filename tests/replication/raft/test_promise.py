"""An old copy of a data directory that is put back: the others remember what it promised, and it does not vote."""

import logging
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.raft.promise import NOTHING, Promises
from replication.wire.frame import Message
from tests.replication.sim_network import SimNetwork


def _save(network: SimNetwork, node_id: str) -> Path:
    """A copy of the node's directory as it is on its disk now."""
    copy = network.directory / f"{node_id}.copy"
    shutil.copytree(network.directory / node_id, copy)
    return copy


def _put_back(network: SimNetwork, node_id: str, copy: Path) -> None:
    """The node is stopped, and started on the copy: with the same store id, hence the same disk to all who look."""
    network.kill(node_id)
    shutil.rmtree(network.directory / node_id)
    shutil.copytree(copy, network.directory / node_id)
    network.start(node_id)


def _lose_the_leader_beside_an_old_copy(network: SimNetwork) -> bool:
    """C is cut off and lacks what A and B have acknowledged. B is put back to before that and meets A for a moment;
    then A dies and C is back. Whether what was acknowledged is lost."""
    leader = network.elect("A")
    network.fill(leader, 3, "early")
    network.run(1)
    copy = _save(network, "B")
    network.isolate("C")
    network.fill(leader, 5)
    _put_back(network, "B", copy)
    network.run(0.004)
    network.kill("A")
    network.heal()
    network.run(10)
    leaders = [node for node in network.nodes.values() if node.group.established]
    return any("m0" not in node.texts() for node in leaders)


def test_an_old_copy_elects_nobody_without_what_it_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for the node that has it all; then nothing is lost, and it votes again."""
    caplog.set_level(logging.ERROR)
    network = SimNetwork(tmp_path)
    assert not _lose_the_leader_beside_an_old_copy(network)
    assert not network.nodes["B"].journal.voter
    assert network.nodes["B"].group.role == "learner"
    assert "this data directory is an old copy: it stands at term 1, entry 5, and A knows" in caplog.text
    network.start("A")
    network.elect()
    assert network.run(10, lambda: network.nodes["B"].journal.voter and network.equal())
    assert [text for text in network.nodes["B"].texts() if text.startswith("m")] == [f"m{i}" for i in range(5)]


def test_without_the_memory_of_the_others_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same faults, and what was acknowledged is gone."""
    monkeypatch.setattr(Promises, "_standing", lambda self, peer, message: None)
    assert _lose_the_leader_beside_an_old_copy(SimNetwork(tmp_path))


def test_a_leader_takes_back_what_it_believed_of_an_old_copy(tmp_path: Path) -> None:
    """Entries that only the copy's former life had do not count for a majority any more."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 2)
    copy = _save(network, "B")
    network.fill(leader, 8, "late")
    network.run(0.2)
    assert leader.group.peers["B"].match_index == leader.group.last_index
    network.isolate("C")
    _put_back(network, "B", copy)
    network.run(0.004)
    assert leader.group.peers["B"].match_index < leader.group.last_index
    assert not leader.group.peers["B"].voter
    network.heal()
    assert network.run(10, lambda: leader.group.peers["B"].voter)
    assert network.equal()


def test_a_forgotten_vote_is_remembered_by_who_got_it(tmp_path: Path) -> None:
    """B voted for A and has forgotten it: A says so before B could vote for another in that term."""
    network = SimNetwork(tmp_path)
    network.elect("B")
    network.run(0.5)
    copy = _save(network, "B")
    before = network.nodes["B"].group.term
    network.isolate("C")
    network.nodes["B"].group.resign()
    network.elect("A")
    _put_back(network, "B", copy)
    assert network.nodes["B"].group.term == before
    assert network.run(0.004, lambda: not network.nodes["B"].journal.voter)


def test_a_restart_a_power_cut_and_a_wiped_disk_are_no_old_copies(tmp_path: Path) -> None:
    """What a node showed was durable before; a wiped one has another store id, and is handled by the rule for that."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    for node_id in ("B", "C", "B"):
        network.fill(leader, 5)
        network.propose(leader, "on its way")
        network.restart(node_id)
        network.run(2)
        assert network.nodes[node_id].journal.voter
    network.wipe("C")
    assert network.run(20, lambda: network.nodes["C"].journal.voter)
    assert all(node.group._promises._admitted == NOTHING for node in network.nodes.values())


def test_a_leader_that_is_met_again_is_no_old_copy(tmp_path: Path) -> None:
    """Its heartbeats said what its disk has. So that is a promise of its own, and its greeting says no less."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 5)
    network.run(0.5)
    term = leader.group.term
    network.isolate("B")
    network.heal()
    network.run(0.5)
    assert leader.journal.voter
    assert leader.group.is_leader
    assert leader.group.term == term


def test_a_leader_put_back_is_known_by_its_heartbeats(tmp_path: Path) -> None:
    """It led alone when it wrote what is lost, so nobody acknowledged that, and no answer of its own says it."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 2)
    network.run(0.2)
    copy = _save(network, "A")
    network.fill(leader, 8, "late")
    network.run(0.2)
    _put_back(network, "A", copy)
    network.run(0.004)
    assert not network.nodes["A"].journal.voter


def test_a_copy_that_is_heard_before_it_can_be_told_is_told_all_the_same() -> None:
    """It dials at once, and who remembers dials it a moment later: a greeting over a direction that is not up yet is
    dropped, and the copy's own word must not take its place."""
    core = type("Core", (), {"term": 7})()
    journal = type("Journal", (), {"last_index": 10})()
    said: dict[str, list[Message]] = {"copy": [], "other": []}
    alarms: list[str] = []
    reaches = False

    def to_copy(_: str, message: Message) -> bool:
        if reaches:
            said["copy"].append(message)
        return reaches

    def to_other(_: str, message: Message) -> bool:
        said["other"].append(message)
        return True

    copy = Promises(core, journal, to_other, lambda: alarms.append("copy"), alarms.append)
    other = Promises(core, journal, to_copy, lambda: alarms.append("other"), lambda _: alarms.append("forget"))
    other.showed("copy", 9, 20)
    other.greet("copy", b"s")  # the copy has dialled; nobody has dialled the copy
    copy.greet("other", b"o")
    other.handlers["standing"]("copy", said["other"].pop())
    assert alarms == ["forget"]
    reaches = True
    other.greet("copy", b"s")
    copy.handlers["standing"]("other", said["copy"].pop())
    assert alarms == ["forget", "copy"]
    for _ in range(2):  # said once: further connections, and the copy that has caught up, change nothing
        other.greet("copy", b"s")
        copy.handlers["standing"]("other", said["copy"].pop())
        copy.greet("other", b"o")
        other.handlers["standing"]("copy", said["other"].pop())
        copy.made(9, 30)
    assert alarms == ["forget", "copy"]
    other.greet("copy", b"s")
    assert (said["copy"][-1]["known_term"], said["copy"][-1]["known_index"]) == (7, 10), "it has it all again"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.booleans()), max_size=20), st.integers(0, 20))
def test_standing_is_never_below_what_was_shown(made: list[tuple[int, int, bool]], restart: int) -> None:
    """Whatever was made and shown, in whatever order it is heard: a node that kept its promises is never taken for an
    old copy; one that lost the greatest always is, by whoever heard it."""
    core = type("Core", (), {"term": 0})()
    journal = type("Journal", (), {"last_index": 0})()
    sent: list[dict[str, int]] = []
    alarms: list[str] = []

    def send(peer: str, message: dict[str, int]) -> bool:
        sent.append(message)
        return True

    node = Promises(core, journal, send, lambda: alarms.append("n"), print)
    other = Promises(core, journal, send, print, alarms.append)
    for term, index, heard in made:
        node.made(term, index)
        if heard:
            other.showed("n", term, index)
    other.greet("n", b"s")
    node.handlers["standing"]("o", sent[-1])
    node.greet("o", b"s")
    other.handlers["standing"]("n", sent[-1])
    assert alarms == []
    greatest = max((promise[:2] for promise in made if promise[2]), default=NOTHING)
    if greatest > NOTHING:
        node.own = max((promise[:2] for promise in made if promise[:2] < greatest), default=NOTHING)
        other.greet("n", b"s")
        node.handlers["standing"]("o", sent[-1])
        node.greet("o", b"s")
        other.handlers["standing"]("n", sent[-1])
        assert alarms == ["n", "n"]
