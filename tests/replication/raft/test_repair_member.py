"""Repairs of what is above the log: a snapshot that is damaged (R10), a member that was just added (R20)."""

from pathlib import Path

from pysyncobj.node import Node

from storage.directory.data_directory import DataDirectory
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.rows import Corrupt
from storage.store import Store
from tests.replication.applied_log import GENESIS as FOUNDED
from tests.replication.applied_log import T0, Log, checkpoint, schedule
from tests.replication.sim_network import SimNetwork
from tests.replication.stock_cluster import stock

COMMANDS = 50


def test_r10_stock_loads_a_damaged_snapshot(tmp_path: Path) -> None:
    """Control: one flipped bit in a dump, and the node starts empty or with other content, says nothing, and leads."""
    dump = tmp_path / "A.dump"
    damaged = 0
    with stock(tmp_path, "A", fullDumpFile=str(dump)) as control:
        node = control.elect("A")
        for number in range(COMMANDS):
            node.put(f"m{number}")
        control.run(0.5)
        whole = list(node.applied)
        assert len(whole) == COMMANDS
        node.forceLogCompaction()
        control.run(0.2)
        good = dump.read_bytes()
        for at in range(0, len(good), 40):
            control.kill("A")
            dump.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            control.start("A")
            assert control.run(3, lambda: bool(control.leaders()))
            damaged += control.nodes["A"].applied != whole
        assert not control.raised
    assert damaged >= 3


def test_r10_a_damaged_checkpoint_is_told_and_never_served(tmp_path: Path) -> None:
    """Ours: one flipped bit anywhere in what a snapshot is made of is found, by `verify` and when it is opened or read;
    none is taken for other content. (A piece on its way is checked with its own checksum, and what was installed as
    this is before it takes its place: tests/storage/directory/test_snapshot_install.py.)"""
    directory = tmp_path / "n1"
    DataDirectory.open(directory, "n1", Disk(), bytes(16)).close()
    log = Log(directory)
    log.apply(FOUNDED)
    log.apply(schedule(*(T0 + number for number in range(COMMANDS))))
    checkpoint(log)
    whole = log.store.records(log.store.pending(T0 // 3_600_000).position)
    log.store.close()
    files = [path for path in sorted((directory / "hours").rglob("*")) if path.is_file()]
    assert files
    for path in files:
        good = path.read_bytes()
        for at in range(0, len(good), len(good) // 12):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            assert verify(directory).faults, f"bit 0 of byte {at} of {path}"
            assert _served(directory) in (None, whole), f"bit 0 of byte {at} of {path}"
        path.write_bytes(good)
    assert _served(directory) == whole


def _served(directory: Path) -> object:
    """What a store says of all messages; None if it refuses to say."""
    try:
        store = Store.open(directory, disk=Disk())
    except Corrupt:
        return None
    try:
        return store.records(store.pending(T0 // 3_600_000).position)
    except Corrupt:
        return None
    finally:
        store.close()


def test_r20_stock_counts_a_new_member_at_once(tmp_path: Path) -> None:
    """Control: one of three is down, an empty fourth is added, and nothing is committed any more."""
    with stock(tmp_path, "ABC", dynamicMembershipChange=True) as control:
        leader = control.elect("A")
        leader.put("before")
        control.run(0.5)
        control.kill("C")
        leader.addNodeToCluster(Node("D"))
        control.run(0.5)
        assert "D" in [node.id for node in leader.private("otherNodes")]
        leader.put("after")
        control.run(20)
        assert leader.applied == ["before"]


def test_r20_a_new_member_counts_when_it_has_caught_up(tmp_path: Path) -> None:
    """Ours: the same faults, and commits go on; it counts when it is given its vote, having all there is."""
    network = SimNetwork(tmp_path)
    leader = network.elect("A")
    network.fill(leader, 1, "before")
    network.kill("C")
    network.join("D")
    network.isolate("D")
    network.change_now(leader, "add", "D")
    network.fill(leader, 3, "after")
    assert not leader.group.peers["D"].voter
    network.heal()
    assert network.run(5, lambda: leader.group.peers["D"].match_index == leader.group.last_index)
    assert [text for text in network.nodes["D"].texts() if text.startswith("after")] == ["after0", "after1", "after2"]
