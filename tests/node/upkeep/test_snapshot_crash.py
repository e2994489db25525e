"""A node taking a snapshot over, stopped at every operation of its disk: the old state whole, or the new one whole."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from node.environment import Environment
from node.node import Node
from node.runtime.config import Config, parse_config
from replication.journal.install import Promises
from storage.checkpoint.manifest import Manifest, Part
from storage.checkpoint.pin import checksum_of
from storage.directory.snapshot_install import Install
from storage.directory.verify import digest
from storage.file.disk import Disk, DiskFailed
from storage.store import Store
from tests.node.restarting import fill
from tests.node.single_node import run_node
from tests.storage.faulty_disk import Stopped, StoppingDisk

PROMISES = Promises(40, "n3", voter=True)
"""What the node has promised since its last entry: it must survive the change of its journal."""


class DyingDisk(StoppingDisk):
    """Once it has stopped, nothing reaches it any more."""

    def __init__(self, torn_bytes: int = 0) -> None:
        super().__init__(torn_bytes=torn_bytes)
        self.dead = False

    def arm(self, stop_at: int) -> None:
        """Stop in this operation from now on; 0: never."""
        self.operations.clear()
        self._stop_at = stop_at

    def _step(self, operation: str) -> None:
        if self.dead:
            raise Stopped(operation)
        try:
            super()._step(operation)
        except Stopped:
            self.dead = True
            raise


class OnDisk(Environment):
    """The real world, but for this disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def disk(self) -> Disk:
        return self._disk


def config_of(directory: Path) -> Config:
    """Of a node among three, though it is alone here."""
    ports = {f"n{i}": (f"127.0.0.1:{7000 + i}", f"127.0.0.1:{7010 + i}") for i in (1, 2, 3)}
    peers = [{"id": node_id, "http": http, "raft": raft} for node_id, (http, raft) in ports.items()]
    http, raft = ports["n1"]
    raw = {"node_id": "n1", "data_dir": str(directory), "http": {"listen": http}, "raft": {"listen": raft}}
    return parse_config({**raw, "peers": peers}, {})


@contextmanager
def opened(directory: Path, disk: Disk | None = None) -> Iterator[Node]:
    """A node that does not run."""
    node = Node(config_of(directory), OnDisk(disk or Disk()))
    try:
        yield node
    finally:
        node.group.let_go()


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with little in it, which has promised something since; the same one later, with more."""
    base = tmp_path_factory.mktemp("states")
    leader, old = base / "leader", base / "old"

    async def play(node: Node) -> None:
        await fill(node, 30, size=100)

    run_node(leader, play)
    shutil.copytree(leader, old)
    run_node(leader, play)
    with opened(old) as node:
        node.group.journal.setCurrentTerm(PROMISES.term, PROMISES.vote)
        node.group.journal.set_voter(PROMISES.voter)
        node.group.journal.sync_now()
    return old, leader


def fetched(directory: Path, leader: Path) -> Manifest:
    """Everything of the leader's checkpoint is beside the node's own state, verified."""
    store = Store.open(leader, disk=Disk())
    pin = store.pin()
    assert pin is not None
    manifest = pin.prepare()
    install = Install(directory, manifest, Disk())
    for name, offset, size in manifest.pieces():
        data = pin.read(name, offset, size)
        install.put([Part(name, offset, size)], 0, data, checksum_of(data))
    install.verify()
    pin.release()
    store.close()
    return manifest


def take_over(directory: Path, disk: Disk, manifest: Manifest, *, stop_at: int = 0) -> None:
    """What the end of a node that has fetched a snapshot does, up to this operation."""
    node = Node(config_of(directory), OnDisk(disk))
    try:
        if isinstance(disk, DyingDisk):
            disk.arm(stop_at)
        node.group.snapshots.whole = (Install(directory, manifest, disk), manifest)
        node.group.snapshots.put_in_place()
    finally:
        node.group.let_go()


def check(directory: Path, old: Path, new: Path, manifest: Manifest) -> bool:
    """The directory opens, holds one of the two, with the journal that goes with it and every promise. Whether it is
    the new one."""
    with opened(directory) as node:
        is_new = node.group.machine.applied_index == manifest.applied_index
        assert Promises.of(node.group.journal) == PROMISES
        assert node.group.raft.term == PROMISES.term
        if is_new:
            assert (node.group.journal.first_index, node.group.journal.last_index) == (manifest.applied_index,) * 2
            assert node.group.journal.term_at(manifest.applied_index) == manifest.applied_term
        else:
            assert node.group.journal.first_index == 1
        assert not (directory / "installed").exists()
    assert digest(directory) == digest(new if is_new else old)
    return is_new


@pytest.mark.parametrize("torn_bytes", [0, 50])
def test_stopped_at_every_operation(tmp_path: Path, states: tuple[Path, Path], torn_bytes: int) -> None:
    """Up to the rename the old state is there, from it on the new one; a second try from the old comes through."""
    old, new = states
    ready = tmp_path / "ready"
    shutil.copytree(old, ready)
    manifest = fetched(ready, new)
    found: list[bool] = []
    for stop_at in count(1):
        directory = tmp_path / "node"
        shutil.copytree(ready, directory)
        disk = DyingDisk(torn_bytes)
        try:
            take_over(directory, disk, manifest, stop_at=stop_at)
        except Stopped:
            found.append(check(directory, old, new, manifest))
        else:
            break
        if not found[-1]:
            manifest = fetched(directory, new)
            take_over(directory, Disk(), manifest)
            assert check(directory, old, new, manifest)
        shutil.rmtree(directory)
    assert found == sorted(found), "old, then new"
    assert found.count(True) >= 1
    assert found.count(False) >= 5


def test_stopped_at_every_operation_of_the_start_behind_it(tmp_path: Path, states: tuple[Path, Path]) -> None:
    """A start that is to put the folders in their places and dies is followed by one that does."""
    old, new = states
    ready = tmp_path / "ready"
    shutil.copytree(old, ready)
    manifest = fetched(ready, new)
    take_over(ready, Disk(), manifest)
    for stop_at in count(1):
        directory = tmp_path / "node"
        shutil.copytree(ready, directory)
        disk = DyingDisk()
        disk.arm(stop_at)
        try:
            with opened(directory, disk):
                disk.arm(0)
        except Stopped:
            assert check(directory, old, new, manifest)
        else:
            assert stop_at > 10
            break
        shutil.rmtree(directory)


def test_a_disk_that_fails_leaves_the_old_state_and_ends_the_node(tmp_path: Path, states: tuple[Path, Path]) -> None:
    """A rename that the disk refuses is final, as any failed write; the directory opens as it was."""
    old, new = states
    directory = tmp_path / "node"
    shutil.copytree(old, directory)
    manifest = fetched(directory, new)
    with opened(directory) as node:
        node.group.snapshots.whole = (Install(directory, manifest, node.group.disk), manifest)
        (directory / "installed").write_bytes(b"in the way")
        with pytest.raises(DiskFailed, match="rename"):
            node.group.snapshots.put_in_place()
    (directory / "installed").unlink()
    assert not check(directory, old, new, manifest)
