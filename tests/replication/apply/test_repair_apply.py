"""R12, R13 and R19: what apply and the proposer may rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pysyncobj.version
import pytest
from pysyncobj import SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from replication.raft import pysyncobj_core as core
from replication.raft.proposal import NOT_LEADER, OVERLOADED, UNKNOWN, Outcome
from replication.raft.pysyncobj_core import LibraryRefused, check_library
from tests.replication.sim_network import SimNetwork
from tests.replication.stock_cluster import stock


def test_r12_an_exception_in_apply_ends_the_node(tmp_path: Path) -> None:
    """R12: a command that raises leaves stock's nodes alive and deaf for ever; ours die at once and say why."""
    with stock() as control:
        leader = control.elect("A")
        leader.put("raise")
        control.run(1)
        answers: list[Any] = []
        leader.put("after", callback=lambda result, error: answers.append(error))
        control.run(20)
        assert len(control.raised) > 100
        assert not answers, "control: the stock library survives a command that raises"
        assert "after" not in control.nodes["B"].applied

    network = SimNetwork(tmp_path)
    node = network.elect()
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "good", outcomes)
    network.propose(node, "raise", outcomes)
    network.propose(node, "never", outcomes)
    network.run(10)
    deaths = [str(each.fatal) for each in network.nodes.values() if each.fatal is not None]
    assert deaths == ["poison", "poison"], "the third is alone, and learns of no commit"
    for each in network.nodes.values():
        assert each.texts() in ([], ["good"])
        assert not each.group.is_leader
    assert outcomes[0][1].result == 1
    network.propose(node, "late", outcomes)
    assert outcomes[-1] == ("late", Outcome(error=NOT_LEADER))


def test_r13_outcomes_are_true(tmp_path: Path) -> None:
    """R13: stock says LEADER_CHANGED for a command that commits, so a retry doubles it; ours never lies."""
    with stock() as control:
        control.elect("A")
        follower = control.nodes["B"]
        answers: list[int] = []
        control.held.add(("A", "B"))
        follower.put("job", callback=lambda result, error: answers.append(error))
        control.tick(ids="B")
        control.tick(ids="A")
        control.tick(0.11, ids="A")
        control.tick(ids="C")
        control.deliver("C", "A")
        control.isolate("A")
        control.queues["A", "B"].clear()
        control.held.clear()
        control.elect("C")
        control.run(1)
        assert answers == [5], "control: the stock library no longer says LEADER_CHANGED"
        assert control.nodes["C"].applied == ["job"]

    network = SimNetwork(tmp_path)
    node = network.elect("A")
    network.run(0.5)
    network.cut = {("B", "A"), ("C", "A"), ("A", "C")}  # B gets the command, its answer does not come back
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "job", outcomes)
    network.run(0.05)
    network.isolate("A")
    network.mute = {"C"}
    assert network.run(5, lambda: network.nodes["B"].group.established)
    assert not outcomes, "an outcome was given though nobody could know it"
    assert network.nodes["B"].texts() == ["job"]
    network.heal()
    assert network.answered(outcomes, 1)
    assert outcomes[0][1].error is None
    assert outcomes[0][1].result == 1


def test_r13_overwritten_is_not_leader(tmp_path: Path) -> None:
    """R13: a command whose place in the log went to another leader's entry did not happen, and that is said."""
    network = SimNetwork(tmp_path)
    node = network.elect()
    network.run(0.5)
    network.isolate(node.id)
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "gone", outcomes)
    network.run(2)
    network.heal()
    assert network.answered(outcomes, 1)
    assert outcomes[0][1].error == NOT_LEADER
    network.run(1)
    assert all(each.texts() == [] for each in network.nodes.values())


def test_r13_unknown_after_the_deadline_and_at_the_end(tmp_path: Path) -> None:
    """R13: an outcome nobody can know is `unknown`: after the deadline, and for all that is open when a node stops."""
    network = SimNetwork(tmp_path, outcome_s=2.0)
    node = network.elect()
    network.isolate(node.id)
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "first", outcomes)
    network.run(1.9)
    assert not outcomes
    network.run(0.2)
    assert [outcome.error for _text, outcome in outcomes] == [UNKNOWN]
    network.heal()
    node = network.elect()
    network.propose(node, "second", outcomes)
    network.kill(node.id)
    assert [outcome.error for _text, outcome in outcomes] == [UNKNOWN, UNKNOWN]


def test_r13_only_the_leader_proposes(tmp_path: Path) -> None:
    """R13: a follower refuses at once; a leader with too much open refuses too, and takes more when it has room."""
    network = SimNetwork(tmp_path, max_pending_bytes=1000)
    node = network.elect()
    follower = next(each for each in network.nodes.values() if each is not node)
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(follower, "no", outcomes)
    assert outcomes.pop() == ("no", Outcome(error=NOT_LEADER))
    network.propose(node, "x" * 900, outcomes)
    network.propose(node, "y" * 200, outcomes)
    assert outcomes.pop() == ("y" * 200, Outcome(error=OVERLOADED))
    assert network.answered(outcomes, 1)
    assert node.group.pending_bytes == 0
    network.propose(node, "y" * 200, outcomes)
    assert network.answered(outcomes, 2)
    assert outcomes[1][1].error is None


class _Silent(Transport):  # type: ignore[misc]  # pysyncobj has no types
    def __init__(self) -> None:
        super().__init__(None, None, [])


class _Before(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def put(self) -> None:
        """A command."""


class _After(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def cancel(self) -> None:
        """A command of a newer version, which sorts before the other."""

    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def put(self) -> None:
        """The same command as before."""


def test_r19_commands_are_named_by_their_bytes(tmp_path: Path) -> None:
    """R19: adding a method moves the number of another in stock's log; ours applies the bytes that were proposed."""
    conf = SyncObjConf(autoTick=False)
    before = _Before(Node("A"), [], conf, transport=_Silent())
    after = _After(Node("A"), [], conf, transport=_Silent())
    assert before._methodToID["put_v0"] != after._methodToID["put_v0"], "control: stock names methods now"

    network = SimNetwork(tmp_path)
    node = network.elect()
    blobs = [b"\x00\x01", b"\x01\x01", b"\x02pickle", b"\x03version", bytes(range(256))]
    for blob in blobs:
        node.group.propose(blob, lambda outcome: None)
    network.run(1)
    for each in network.nodes.values():
        assert each.fatal is None
        assert [command for _index, _term, command in each.applied] == blobs


def test_r19_settings_and_version_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """R19: stock swallows a setting it does not know; ours refuses to start, also on a version it was not read on."""
    SyncObjConf(autoTick=False, raftMinTimeOut=9)  # control: a misspelt key passes silently
    check_library()
    monkeypatch.setitem(core._CONFIG, "raftMinTimeOut", 9)
    with pytest.raises(LibraryRefused, match="raftMinTimeOut"):
        check_library()
    monkeypatch.undo()
    monkeypatch.setattr(pysyncobj.version, "VERSION", "0.3.18")
    with pytest.raises(LibraryRefused, match=r"0\.3\.18"):
        check_library()
