"""A snapshot taken in, stopped anywhere: the old state or the new one, and the next try gets there."""

import errno
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

import storage.checkpoint.states_due
import storage.directory.snapshot_install
import storage.state.files
from storage.checkpoint.manifest import PIECE, Manifest, Part
from storage.checkpoint.pin import checksum_of
from storage.directory.backup import BackupWriter
from storage.directory.data_directory import DataDirectory, DirectoryRefused
from storage.directory.restore import RestoreOptions, restore
from storage.directory.snapshot_install import (
    INSTALL,
    INSTALLED,
    Install,
    InstallRefused,
    PieceRefused,
)
from storage.directory.verify import digest, verify
from storage.file.disk import Disk, DiskFailed
from storage.format.batches import SettleBatch
from storage.format.position import INDEX_MAX
from storage.format.states import DELIVERED, LEASED
from storage.store import Store
from tests.examples import examples
from tests.storage.faulty_disk import Stopped, StoppingDisk
from tests.storage.installing import committed, fetch, journal, make, pinned, state, take_in
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import (
    ENTRIES,
    HOUR,
    Entry,
    H,
    append,
    batch_of,
    found,
    turn,
    void,
)


def test_whole(quick_path: Path) -> None:
    """A node behind has the leader's content after it, its own LOCK, and nothing is left over."""
    leader, follower = make(quick_path / "a", 30, which=ENTRIES), make(quick_path / "b", 9, which=ENTRIES)
    lock = (follower / "LOCK").read_bytes()
    (follower / "journal" / "old").write_bytes(b"old")
    with pinned(leader) as pin:
        take_in(follower, pin, Disk())
    assert state(follower) == digest(leader)[0]
    assert (follower / "LOCK").read_bytes() == lock
    assert [path.name for path in (follower / "journal").iterdir()] == ["1"]
    assert sorted(path.name for path in follower.iterdir()) == ["LOCK", "catalog", "deliveries", "hours", "journal"]


def test_it_is_synced_without_making_others_wait(quick_path: Path) -> None:
    """A syncfs carries what everybody has written, and the journals of other nodes on that file system wait for it."""
    leader, follower = make(quick_path / "a", 30, which=ENTRIES), make(quick_path / "b", 9, which=ENTRIES)
    disk = StoppingDisk()
    with pinned(leader) as pin:
        take_in(follower, pin, disk)
        files = len(pin.manifest.files)
    assert "syncfs" not in disk.operations
    assert disk.operations.count("fdatasync") >= files


@pytest.mark.parametrize("loss", ["torn", "unsynced"])
def test_stop_at_every_operation(quick_path: Path, loss: str) -> None:
    """A stop in any write, sync, rename or removal leaves the old state before the rename and the new one after it; and
    a second try, with what the first left, gets there."""
    leader, old = make(quick_path / "a", 7), make(quick_path / "old", 4)
    was, wanted = digest(old)[0], digest(leader)[0]
    with pinned(leader) as pin:
        disk = StoppingDisk()
        take_in(shutil.copytree(old, quick_path / "whole"), pin, disk)
        renamed = disk.operations.index("rename") + 1
        assert len(disk.operations) > renamed + 8 > 20, "the workload shrank"
        for stop_at in range(1, len(disk.operations) + 1):
            directory = shutil.copytree(old, quick_path / str(stop_at))
            disk = StoppingDisk(stop_at, torn_bytes=stop_at * 7 % 60 if loss == "torn" else None)
            disk.trust(quick_path)
            with pytest.raises(Stopped):
                take_in(directory, pin, disk)
            if loss == "unsynced":
                disk.lose_unsynced(directory)
            undone = loss == "unsynced" and stop_at == renamed + 1
            after = state(directory)
            assert after == (was if stop_at <= renamed or undone else wanted), f"{stop_at}: {disk.operations[-1]}"
            if after == was:
                take_in(directory, pin, Disk())
                assert state(directory) == wanted
            shutil.rmtree(directory)


class _RowsRead(Disk):
    """Counts the bytes that are read of settle records."""

    def __init__(self) -> None:
        self.bytes = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read, and count it."""
        self.bytes += size * os.readlink(f"/proc/self/fd/{fd}").endswith("/settle")
        return super().read(fd, size, offset)


def ended(count: int) -> Entry:
    """An entry of so many messages of one hour, each leased and delivered at once."""

    def apply(store: Store) -> None:
        positions = store.append(batch_of(HOUR * H + np.arange(count)))
        for what in (LEASED, DELIVERED):
            store.settle(SettleBatch.of(positions, what=what, at_ms=1, when=500, term=1, attempt=1))

    return apply


@pytest.mark.parametrize("again", [False, True], ids=["", "begun again"])
def test_a_look_behind_it_does_not_read_an_hour(quick_path: Path, again: bool) -> None:
    """Seed 5149: a node took a snapshot over, and the first ack behind it read all settle records of a large hour, on
    the loop: a snapshot has no states files, and the next checkpoint was far. A restored cluster began likewise."""
    former: list[Entry] = [append(1, 2), lambda store: store.unlink(HOUR)] if again else []
    leader = make(quick_path / "a", 3 + len(former), which=[found, turn(100), *former, ended(10_000)])
    follower = make(quick_path / "b", 1)
    with pinned(leader) as pin:
        take_in(follower, pin, Disk())
        writer = BackupWriter(pin, quick_path, "n1", Disk())
        for piece in writer.pieces():
            writer.copy(*piece)
        writer.finish()
    options = RestoreOptions(node_id="n1", cluster_id=bytes(16), store_id=bytes(16), now_ms=1, raft="h:1", http="h:2")
    restore(writer.path, quick_path / "c", options, lambda directory, _: (directory / "1").touch(), Disk())
    for directory in (follower, quick_path / "c"):
        DataDirectory.open(directory, "n1", Disk(), bytes(16)).close()
        disk = _RowsRead()
        store = Store.open(directory, disk=disk)
        first, end = store.span(HOUR)
        assert (first & INDEX_MAX, end - first) == (2 * again, 10_000)
        assert store.states(np.array([first, end - 1], np.uint64)).state.tolist() == [DELIVERED] * 2
        assert disk.bytes < 1_000, "20,000 records are 960 KB"
        store.close()
        assert verify(directory).sound


def test_states_files_outlive_a_power_cut_behind_it(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are durable before the rename, like all else of it; what a try left of them is in nobody's way."""
    for module in (storage.state.files, storage.checkpoint.states_due, storage.directory.snapshot_install):
        monkeypatch.setattr(module, "TAIL_MIN", 1)
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 4)
    disk = StoppingDisk()
    disk.trust(quick_path)
    with pinned(leader) as pin:
        install = Install(follower, pin.manifest, disk)
        fetch(pin, install)
        install.verify()
        (follower / INSTALL / "hours" / str(HOUR) / "states.0-1").write_bytes(b"of another try")
        committed(follower, pin, disk)
    disk.lose_unsynced(follower)
    assert state(follower) == digest(leader)[0]
    assert [path.name for path in (follower / "hours" / str(HOUR)).glob("states.*")] == ["states.0-1"]


def test_own_hours_and_an_earlier_try_are_used(quick_path: Path) -> None:
    """Of what the node has itself only the growth is sent, and of what an earlier try brought nothing; the catalog
    has to come once."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 6)
    with pinned(leader) as pin:
        catalog = pin.manifest.catalog_len
        grown = sum(
            (leader / name).stat().st_size - (follower / name).stat().st_size
            for name, _ in pin.manifest.files
            if name.startswith("hours/") and (follower / name).exists()
        )
        fresh = sum(
            length
            for name, length in pin.manifest.files
            if not (follower / name).exists() and name.startswith("hours/")
        )
        install = Install(follower, pin.manifest, Disk())
        assert install.bytes_lacking == pin.manifest.total_bytes
        assert fetch(pin, install, together=False) == catalog + grown + fresh
        assert install.bytes_lacking == 0
        again = Install(follower, pin.manifest, Disk())
        assert again.bytes_lacking == 0
        assert fetch(pin, again) == 0
        again.verify()


class _FailingSync(Disk):
    """The first sync fails. What was written of its file is readable on, and is not written by a later sync."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self._dirty: set[str] = set()
        self._fails = True

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Write; it is to be synced."""
        super().write(fd, data, offset)
        self._dirty.add(os.readlink(f"/proc/self/fd/{fd}"))

    def fdatasync(self, fd: int) -> None:
        """Sync what is to be synced."""
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path not in self._dirty:
            return
        self._dirty.discard(path)
        if self._fails:
            self._fails = False
            self.lost.add(path)
            raise DiskFailed("fdatasync", path, errno.EIO)
        self.lost.discard(path)


def test_what_a_failed_sync_left_is_written_again(quick_path: Path) -> None:
    """Seed 36975: a sync failed, and the node ended. The next try found the bytes, right as they were in the kernel's
    cache, and synced nothing: after a power cut the catalog was empty."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 6)
    disk = _FailingSync()
    with pinned(leader) as pin:
        install = Install(follower, pin.manifest, disk)
        fetch(pin, install)
        with pytest.raises(DiskFailed):
            install.verify()
        assert disk.lost
        again = Install(follower, pin.manifest, disk)
        assert fetch(pin, again) == 0
        again.verify()
    assert not disk.lost


def test_another_leaders_snapshot_goes_on_from_the_first(quick_path: Path) -> None:
    """What a try for one checkpoint left serves the next checkpoint; what that does not name goes."""
    newer, older = make(quick_path / "a", 30, which=ENTRIES), make(quick_path / "c", 12, which=ENTRIES)
    follower = make(quick_path / "b", 1, which=ENTRIES)
    with pinned(older) as pin:
        fetch(pin, Install(follower, pin.manifest, Disk()))
    assert (follower / INSTALL / "hours" / str(HOUR + 1)).exists()
    with pinned(newer) as pin:
        install = Install(follower, pin.manifest, Disk())
        assert not (follower / INSTALL / "hours" / str(HOUR + 1)).exists(), "unlinked since"
        assert fetch(pin, install) < pin.manifest.total_bytes - 1000
        install.verify()
        journal(install, Disk())
        install.commit()
    assert state(follower) == digest(newer)[0]


def test_what_was_left_is_not_believed(quick_path: Path) -> None:
    """Bytes of an earlier try that are not the leader's are sent again, wherever they differ."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 1)
    with pinned(leader) as pin:
        fetch(pin, Install(follower, pin.manifest, Disk()))
        for name, length in pin.manifest.files:
            path = follower / INSTALL / name
            data = bytearray(path.read_bytes())
            data[length // 2] ^= 1
            path.write_bytes(bytes(data) + b"longer")
        install = Install(follower, pin.manifest, Disk())
        with pytest.raises(InstallRefused):
            install.verify()
        assert fetch(pin, install) == pin.manifest.total_bytes
        install.verify()


def large(count: int) -> Entry:
    """An entry of so many messages of 100 KB."""
    due = [HOUR * H + number for number in range(count)]
    bodies = [bytes([number]) * 100_000 for number in range(count)]
    return lambda store: void(store.append(batch_of(due, bodies=bodies)))


def test_files_of_several_pieces(quick_path: Path) -> None:
    """A file of more than one piece that the node has half of: the rest is sent, from the byte where it ends; and it
    goes through a backup and back as well."""
    leader = make(quick_path / "a", 4, which=[found, turn(0), large(14), large(17)])
    follower = make(quick_path / "b", 3, which=[found, turn(0), large(14)])
    name = f"hours/{HOUR}/log"
    before = (follower / name).stat().st_size
    with pinned(leader) as pin:
        assert len([piece for piece in pin.manifest.pieces() if piece[0] == name]) == 3
        assert before % PIECE > 0
        sent = fetch(pin, Install(follower, pin.manifest, Disk()))
        assert sent <= pin.manifest.total_bytes - before
        take_in(follower, pin, Disk())
        writer = BackupWriter(pin, quick_path, "n1", Disk())
        for piece in writer.pieces():
            writer.copy(*piece)
        writer.finish()
    assert state(follower) == digest(leader)[0]
    options = RestoreOptions(node_id="n1", cluster_id=bytes(16), store_id=bytes(16), now_ms=1, raft="h:1", http="h:2")
    restore(writer.path, quick_path / "c", options, lambda directory, _: (directory / "1").touch(), Disk())
    restored = (quick_path / "c" / name).read_bytes()
    assert restored[64:] == (leader / name).read_bytes()[64:]


DAMAGE = st.sampled_from(["gone", "cut", "longer", "flipped", "zeroed", "sound"])


@given(st.lists(DAMAGE, min_size=24, max_size=24), st.integers(0, 2**20), st.booleans())
@examples(20)
def test_whatever_was_left(states: list[str], at: int, together: bool) -> None:
    """Whatever an earlier try and the node's own hours look like, the outcome is the leader's content, byte for byte;
    and what was sound in either is not sent, unless it comes together with other files."""
    with quick_directory() as path, pinned(make(path / "a", 7)) as pin:
        follower = make(path / "b", 6)
        fetch(pin, Install(follower, pin.manifest, Disk()))
        names = [name for name, _ in pin.manifest.files]
        for (place, name), state in zip(itertools.product((INSTALL, "."), names), states, strict=False):
            if (follower / place / name).exists() and not (place == "." and name.startswith("catalog")):
                _damage(follower / place / name, state, at)
        install = Install(follower, pin.manifest, Disk())
        sent = fetch(pin, install, together=together)
        install.verify()
        sound = sum(
            length for (name, length), state in zip(pin.manifest.files, states, strict=False) if state == "sound"
        )
        assert together or sent <= pin.manifest.total_bytes - sound
        for name, _, _ in pin.manifest.pieces():
            assert (follower / INSTALL / name).read_bytes() == pin.read(name, 0, pin.manifest.lengths[name])


def _damage(path: Path, state: str, at: int) -> None:
    data = bytearray(path.read_bytes())
    at %= len(data)
    if state == "gone":
        path.unlink()
        return
    if state == "flipped":
        data[at] ^= 1 << at % 8
    elif state == "zeroed":
        data[at:] = bytes(len(data) - at)
    elif state == "longer":
        data += b"more"
    path.write_bytes(data[:at] if state == "cut" else data)


def test_pieces_refused(quick_path: Path) -> None:
    """A piece with a wrong checksum, out of its file or of no file changes nothing."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 1)
    with pinned(leader) as pin:
        install = Install(follower, pin.manifest, Disk())
        name, length = pin.manifest.files[-1]
        data = pin.read(name, 0, length)
        for file, offset, piece, crc in (
            (name, 0, data, checksum_of(data) ^ 1),
            (name, 1, data, checksum_of(data)),
            (name, -1, data, checksum_of(data)),
            (name, 0, b"", 0),
            ("LOCK", 0, data, checksum_of(data)),
            ("hours/../LOCK", 0, data, checksum_of(data)),
        ):
            with pytest.raises(PieceRefused):
                install.put([Part(file, offset, len(piece))], 0, piece, crc)
        assert install.bytes_lacking == pin.manifest.total_bytes
        with pytest.raises(InstallRefused, match="has 0 of"):
            install.verify()
        install.discard()
        assert not (follower / INSTALL).exists()
    assert state(follower) == digest(make(quick_path / "c", 1))[0]


def test_manifest_of_another_checkpoint(quick_path: Path) -> None:
    """Files that are sound but are not what the manifest says do not get in."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 1)
    with pinned(leader) as pin:
        for wrong in (
            Manifest(bytes(16), 0, pin.manifest.record, pin.manifest.catalog_len),
            Manifest(pin.manifest.cluster_id, 1, pin.manifest.record, pin.manifest.catalog_len),
        ):
            install = Install(follower, wrong, Disk())
            fetch(pin, install)
            with pytest.raises(InstallRefused):
                install.verify()


def test_tools_leave_an_unfinished_switch_alone(quick_path: Path) -> None:
    """Between the rename and the next start a tool is told so; the start, only of the right node, puts it in place."""
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 4)
    with pinned(leader) as pin:
        committed(follower, pin, Disk())
    with pytest.raises(DirectoryRefused, match="not yet in place"):
        DataDirectory.inspect(follower, Disk())
    with pytest.raises(DirectoryRefused, match="belongs to node n1"):
        DataDirectory.open(follower, "n2", Disk(), bytes(16))
    assert (follower / INSTALLED).exists()
    assert state(follower) == digest(leader)[0]
