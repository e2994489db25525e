"""R1 to R4, R11 and R18: what was acknowledged stays, every follower recovers, nothing is sent over and over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pysyncobj.journal
import pytest

from replication.raft.options import GroupOptions
from replication.raft.proposal import Outcome
from tests.replication.sim_network import SimNetwork
from tests.replication.sim_node import SimNode
from tests.replication.stock_cluster import stock


def test_r1_power_cut_after_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: all nodes lose power right after success: stock had synced nothing by then, ours has every command."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append("fdatasync"))
    monkeypatch.setattr(pysyncobj.journal.ResizableFile, "flush", lambda _: synced.append("msync"))
    with stock(tmp_path) as control:
        leader = control.elect("A")
        synced.clear()
        answers: list[Any] = []
        for number in range(20):
            leader.put(str(number), callback=lambda result, error: answers.append(error))
        control.run(1)
        assert answers == [0] * 20
        assert not synced, "control: the stock library has learnt to sync"
    monkeypatch.undo()

    network = SimNetwork(tmp_path)
    node = network.elect()
    for round_ in range(5):
        outcomes: list[tuple[str, Outcome]] = []
        for number in range(4):
            network.propose(node, f"{round_}.{number}", outcomes)
        assert network.answered(outcomes, 4)
        for node_id in network.ids:
            network.kill(node_id)
        for node_id in network.ids:
            network.start(node_id)
        node = network.elect()
        assert [f"{a}.{b}" for a in range(round_ + 1) for b in range(4)] == node.texts()


def test_r1_nothing_leaves_before_its_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: no success, vote or request for one is sent while what it depends on is not durable on the sender's disk."""
    network = SimNetwork(tmp_path)
    early: list[str] = []
    votes: dict[str, int] = {}
    for each in network.nodes.values():
        change = each.journal.setCurrentTerm

        def remember(term: int, vote: str | None, node: SimNode = each, change: Any = change) -> None:
            change(term, vote)
            votes[node.id] = node.journal.write_seq

        monkeypatch.setattr(each.journal, "setCurrentTerm", remember)

    def watch(source: str, target: str, message: dict[str, Any]) -> bool:
        node, kind = network.nodes.get(source), message["type"]
        if node is None:
            return False
        journal = node.journal
        if kind == "next_node_idx" and message["success"] and message["next_node_idx"] - 1 > journal.durable_index:
            early.append(kind)
        if kind in ("request_vote", "response_vote") and journal.durable_seq < votes[source]:
            early.append(kind)
        return kind in ("next_node_idx", "request_vote", "response_vote")

    network.watch = watch
    for node_id in network.ids:
        network.sync_s[node_id] = 0.03
    leader = network.elect()
    for number in range(30):
        network.propose(leader, f"n{number}")
        network.run(0.01)
    network.run(1)
    assert {message["type"] for _now, _source, _target, message in network.seen} == {
        "next_node_idx",
        "request_vote",
        "response_vote",
    }
    assert not early
    assert network.equal()


def test_r1_leader_counts_its_own_copy_when_durable(tmp_path: Path) -> None:
    """R1: one follower's acknowledgement and a leader whose disk is slow are no majority of disks."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    silent = next(node_id for node_id in network.ids if node_id != leader.id)
    network.isolate(silent)
    network.sync_s[leader.id] = 0.2
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(leader, "alone", outcomes)
    network.run(0.15)
    assert not outcomes
    assert leader.group.commit_index < leader.group.last_index
    assert network.run(0.2, lambda: bool(outcomes))
    assert outcomes[0][1].error is None


def test_r2_acknowledged_entries_survive_late_resends(tmp_path: Path) -> None:
    """R2: latency and one leader kill: stock cuts acknowledged entries on the follower that is then elected."""
    with stock() as control:
        leader = control.elect("A")
        for number in range(8):
            leader.put(f"s{number}")
        for _ in range(6):
            control.tick()
        for other in "AB":
            control.cut |= {(other, "C"), ("C", other)}
        control.held |= {("A", "B"), ("B", "A")}
        done: list[tuple[int, int]] = []
        for number in range(10):
            text = f"L{number}" + "x" * 30_000
            leader.put(text, callback=lambda result, error, number=number: done.append((number, error)))
        control.tick(0.01, "A")
        control.tick(0.11, "A")
        control.deliver("A", "B")
        control.deliver("B", "A", 2)
        control.tick(0.11, "A")
        control.deliver("B", "A")
        control.tick(0.01, "A")
        control.tick(0.01, "A")
        control.deliver("A", "B", 1)
        control.kill("A")
        control.held.clear()
        control.cut.clear()
        control.queues.clear()
        survivor = control.elect("B")
        kept = {text[:2] for text in survivor.applied}
        lost = [number for number, error in done if error == 0 and f"L{number}" not in kept]
        assert lost, "control: the stock library no longer loses acknowledged entries"

    network = SimNetwork(tmp_path, max_batch_bytes=40_000, resend_s=0.05)
    node = network.elect("A")
    network.cut |= {("A", "C"), ("C", "A"), ("B", "C"), ("C", "B")}
    network.delay_s = lambda: 0.08  # longer than the resend time: B gets every batch several times, late
    outcomes: list[tuple[str, Outcome]] = []
    for number in range(10):
        network.propose(node, f"L{number}" + "x" * 30_000, outcomes)
    network.watch = lambda source, target, message: bool(message.get("entries"))
    network.run(5, lambda: len(outcomes) == 10)
    batches = [message["prevLogIdx"] for _now, _source, _target, message in network.seen]
    assert len(batches) > len(set(batches)), "nothing was sent twice: the test has lost its point"
    network.kill("A")
    network.cut.clear()
    survivor_node = network.elect()
    acknowledged = [text for text, outcome in outcomes if outcome.error is None]
    assert acknowledged
    assert set(acknowledged) <= set(survivor_node.texts())


def test_r2_commit_index_covers_only_what_the_message_proves(tmp_path: Path) -> None:
    """R2: what is kept behind a message's last entry may be another leader's: it is not committed by that message."""
    network = SimNetwork(tmp_path)
    old = network.elect("A")
    network.run(0.5)
    network.isolate("A")
    for number in range(5):
        network.propose(old, f"orphan{number}")
    network.run(0.05)
    orphan_end = old.group.last_index
    network.run(3)
    new = network.leader()
    assert new.id != "A"
    for number in range(10):
        network.propose(new, f"n{number}")
    network.run(0.5)
    previous = orphan_end - 5
    term = old.journal.term_at(previous)
    assert new.journal.term_at(orphan_end) != old.journal.term_at(orphan_end)
    assert term is not None
    message = {
        "type": "append_entries",
        "term": new.group.term,
        "seq": 1,
        "commit_index": new.group.commit_index,
        "prevLogIdx": previous,
        "prevLogTerm": term,
        "entries": [],
    }
    old.group.receive(new.id, message)
    assert old.group.last_index == orphan_end
    assert old.group.commit_index <= previous
    network.heal()
    network.run(2)
    assert network.equal()
    assert not any(text.startswith("orphan") for text in old.texts())


def test_r3_every_entry_is_sent_once(tmp_path: Path) -> None:
    """R3: with answers 50 ms away stock sends entries many times over; ours sends each once per follower."""
    with stock() as control:
        leader = control.elect("A")
        control.sent.clear()
        control.held = {("B", "A"), ("C", "A")}
        for number in range(60):
            leader.put(f"{number}" + "x" * 5_000)
        control.tick(0.01)
        for _ in range(12):  # one answer in 110 ms
            control.tick(0.11)
            control.deliver("B", "A", 1)
        sent = sum(len(message.get("entries", ())) for source, target, message in control.sent if target == "B")
        assert sent > 120, f"control: the stock library sends 60 entries {sent} times"

    network = SimNetwork(tmp_path, max_batch_bytes=60_000)
    node = network.elect()
    other = next(node_id for node_id in network.ids if node_id != node.id)
    network.delay_s = lambda: 0.025
    network.watch = lambda source, target, message: target == other and bool(message.get("entries"))
    outcomes: list[tuple[str, Outcome]] = []
    for number in range(60):
        network.propose(node, f"{number}" + "x" * 5_000, outcomes)
        network.run(0.02)
    network.run(1)
    assert len(outcomes) == 60
    assert all(outcome.error is None for _text, outcome in outcomes)
    assert sum(len(message["entries"]) for _now, _source, _target, message in network.seen) == 60


def test_r4_follower_with_a_conflict_and_a_backlog_recovers(tmp_path: Path) -> None:
    """R4: one orphaned entry on A and a backlog over one batch: stock never recovers, ours does at once."""
    with stock() as control:
        control.elect("A")
        control.run(0.2)
        control.isolate("A")
        control.nodes["A"].put("orphan")
        control.tick(ids="A")
        control.tick(ids="A")
        leader = control.elect("B")
        for number in range(150):
            leader.put(f"{number}" + "x" * 1_000)
        control.run(0.5)
        control.cut.clear()
        control.queues.clear()
        for _ in range(1000):
            for each in control.nodes.values():
                each._SyncObj__raftElectionDeadline = control.now + 99
            control.tick()
        assert len(control.nodes["A"].applied) < 150, "control: the stock library recovers now"

    network = SimNetwork(tmp_path, max_batch_bytes=20_000)
    old = network.elect("A")
    network.isolate("A")
    network.propose(old, "orphan")
    network.run(2)
    new = network.leader()
    for number in range(150):
        network.propose(new, f"{number}" + "x" * 1_000)
    network.run(1)
    network.watch = lambda source, target, message: target == "A" and message["type"] == "append_entries"
    network.heal()
    assert network.run(0.5, network.equal)
    assert len(old.applied) == 150
    assert len(network.seen) < 30


def test_r11_commit_index_past_the_log(tmp_path: Path) -> None:
    """R11: the log's tail is lost, the commit index is not: a leader of stock acknowledges alone, ours does not."""
    with stock(tmp_path) as control:
        leader = control.elect("A")
        for number in range(50):
            leader.put(str(number))
        control.run(1)
        for each in control.nodes.values():
            each.private("raftLog").onOneSecondTimer()
        for node_id in "ABC":
            control.kill(node_id)
            _cut_stock_journal(tmp_path / f"{node_id}.journal", records=20)
        control.start()
        leader = control.elect("A")
        control.isolate("A")
        answers: list[int] = []
        leader.put("ghost", callback=lambda result, error: answers.append(error))
        control.tick(ids="A")
        control.tick(ids="A")
        assert answers == [0], "control: the stock library no longer acknowledges alone"

    network = SimNetwork(tmp_path)
    node = network.elect()
    for number in range(50):
        network.propose(node, f"n{number}")
    network.run(3)
    for node_id in network.ids:
        network.kill(node_id)
        newest = max((tmp_path / node_id).glob("*.seg"))
        os.truncate(newest, newest.stat().st_size * 2 // 3)
    for node_id in network.ids:
        network.start(node_id)
        assert network.nodes[node_id].group.commit_index <= network.nodes[node_id].group.last_index
    node = network.elect()
    network.isolate(node.id)
    outcomes: list[tuple[str, Outcome]] = []
    network.propose(node, "ghost", outcomes)
    network.run(4)
    assert not outcomes
    network.run(3)
    assert outcomes[0][1].error == "unknown"


def _cut_stock_journal(path: Path, *, records: int) -> None:
    """Keep the first records only, as if the rest had never left the page cache."""
    data = bytearray(path.read_bytes())
    offset = 40
    for _ in range(records):
        offset += int.from_bytes(data[offset : offset + 4], "little") + 8
    data[36:40] = offset.to_bytes(4, "little")
    path.write_bytes(data)


def test_r18_large_entries_go_whole(tmp_path: Path) -> None:
    """R18: stock ends a chunked entry by the wrong length and raises in the follower; ours never chunks."""
    with stock() as control:
        leader = control.elect("A")
        leader.put("x" * (131_072 - 41))
        control.run(1)
        assert control.raised, "control: the stock library chunks correctly now"

    network = SimNetwork(tmp_path, max_batch_bytes=50_000, max_entry_bytes=200_000)
    node = network.elect()
    network.watch = lambda source, target, message: bool(message.get("entries"))
    sizes = [131_031, 131_052, 131_072, 140_000, 196_548, 200_000]
    outcomes: list[tuple[str, Outcome]] = []
    for size in sizes:
        network.propose(node, "x" * size, outcomes)
    network.run(1)
    assert [len(text) for text in node.texts()] == sizes
    assert network.equal()
    assert all(len(message["entries"]) == 1 for _now, _source, _target, message in network.seen)
    with pytest.raises(ValueError, match="200001 bytes"):
        network.propose(node, "x" * 200_001)
    with pytest.raises(ValueError, match="fit into one frame"):
        GroupOptions("A", (), max_entry_bytes=16 << 20)
