"""The leader's rules that no random run would show to be missing: figure 8, batches, heartbeats that are not late."""

from __future__ import annotations

import itertools
from pathlib import Path

from replication.wire.frame import Message
from tests.replication.sim_network import SimNetwork


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting(tmp_path: Path) -> None:
    """Figure 8: a majority holds an old leader's entry; it is committed with the first of the new term, not before."""
    network = SimNetwork(tmp_path)
    old = network.elect("A")
    network.run(0.5)
    network.cut = {("B", "A"), ("A", "C"), ("C", "A")}  # B gets the entry, A never learns that
    network.propose(old, "old")
    network.run(0.05)
    index = old.group.last_index
    network.isolate("A")
    network.mute = {"C"}
    assert network.run(5, lambda: network.nodes["B"].group.is_leader)
    new = network.nodes["B"]
    network.hold("C", "B")
    network.run(0.1)  # its own first entry is durable here, and nowhere else
    assert new.group._core.noop_index == index + 1
    follower = new.group._leading._progress.followers["C"]
    follower.voter, follower.match = True, index  # as if C had answered for the old entry only
    new.group.tick()
    assert new.group.is_leader
    assert new.group.commit_index < index
    network.release("C", "B")
    assert network.run(2, lambda: new.texts() == ["old"])
    assert new.group.commit_index > index
    network.run(0.5)
    assert network.nodes["C"].texts() == ["old"]


def test_batches_keep_their_size(tmp_path: Path) -> None:
    """What waits goes in batches of at most max_batch_bytes and max_batch_entries, larger entries alone, in order."""
    network = SimNetwork(tmp_path, max_batch_bytes=10_000, max_batch_entries=20)
    leader = network.elect()
    other = network.others(leader)[0]
    network.run(0.5)
    sizes = [9_000, 900, 200, 30_000, 10] + [10] * 60
    network.watch = lambda source, target, message: target == other.id and bool(message.get("entries"))
    for size in sizes:
        network.propose(leader, "x" * size)
    network.run(1)
    batches = [[len(entry[0]) for entry in message["entries"]] for _now, _source, _target, message in network.seen]
    assert [size for batch in batches for size in batch] == sizes
    assert batches[:3] == [[9_000, 900], [200], [30_000]]
    assert all(sum(batch) <= 10_000 or len(batch) == 1 for batch in batches)
    assert all(len(batch) <= 20 for batch in batches)
    assert network.equal()


def test_heartbeats_keep_their_beat_under_load(tmp_path: Path) -> None:
    """While large entries flow, heartbeats leave every 50 ms, give or take a tick, stamped with the time of sending."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    other = network.others(leader)[0]
    stamps: list[float] = []

    def watch(source: str, target: str, message: Message) -> bool:
        if target == other.id and message["type"] == "heartbeat":
            assert network.now - 1e-6 <= message["stamp_us"] / 1e6 <= network.now
            stamps.append(network.now)
        return False

    network.watch = watch
    for _ in range(50):
        network.propose(leader, "x" * 100_000)
        network.run(0.02)
    gaps = [after - before for before, after in itertools.pairwise(stamps)]
    assert max(gaps) < 0.0701
    assert min(gaps) > 0.0499


def test_an_idle_leader_writes_nothing(tmp_path: Path) -> None:
    """Without proposals the log does not grow and no disk is written, once the commit index is kept."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.fill(leader, 3)
    network.run(3)
    before = [(node.journal.last_index, node.journal.write_seq) for node in network.nodes.values()]
    network.run(10)
    assert [(node.journal.last_index, node.journal.write_seq) for node in network.nodes.values()] == before


def test_low_water_is_what_every_peer_has(tmp_path: Path) -> None:
    """The low water rises with the slowest peer and is told to all; a peer that is away holds it."""
    network = SimNetwork(tmp_path)
    leader = network.elect()
    network.fill(leader, 5)
    network.run(0.5)
    assert leader.group.low_water == leader.group.last_index
    away = network.others(leader)[0]
    network.kill(away.id)
    held = leader.group.low_water
    network.fill(leader, 5)
    network.run(0.5)
    assert leader.group.low_water == held
    assert [node.group.low_water for node in network.nodes.values()] == [held, held]
    network.start(away.id)
    network.run(1)
    assert leader.group.low_water == leader.group.last_index
