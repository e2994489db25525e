"""A backup is whole or not there; what is restored from it is another cluster with the same messages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import Buffer

from storage.checkpoint.manifest import Manifest
from storage.directory.backup import (
    MANIFEST,
    PART,
    BackupRefused,
    BackupWriter,
    Room,
    is_backup,
    read_manifest,
    verify_backup,
)
from storage.directory.data_directory import DataDirectory, DirectoryRefused
from storage.directory.restore import RestoreOptions, restore
from storage.directory.verify import digest, verify
from storage.file.disk import Disk, DiskFailed
from storage.store import Store
from storage.tables.members import LEARNER, REMOVED, VOTER, Member
from storage.tables.overdue import OverdueRule
from tests.storage.faulty_disk import Stopped, StoppingDisk
from tests.storage.installing import FEW, make, pinned
from tests.storage.workload import CLUSTER_ID, ENTRIES, HOUR, Entry, append, unlink

NEW_ID = bytes(range(100, 116))


def joined(*ids: str) -> Entry:
    """An entry that makes these nodes members."""

    def entry(store: Store) -> None:
        for number, node_id in enumerate(ids, 1):
            address = f"10.0.0.{number}:7500"
            store.catalog.members.put(
                Member(number=number, id=node_id, raft=address, http=address, role=VOTER, since_index=1)
            )

    return entry


def back_up(directory: Path, parent: Path, disk: Disk | None = None) -> Path:
    """Write a backup of a directory's last checkpoint."""
    with pinned(directory) as pin:
        writer = BackupWriter(pin, parent, "n1", disk or Disk())
        for piece in writer.pieces():
            writer.copy(*piece)
        writer.finish()
    return writer.path


@pytest.fixture
def backup(quick_path: Path) -> Path:
    """A backup of a cluster of three with a few messages."""
    source = make(quick_path / "source", 8, which=[*FEW, joined("n1", "n2", "n3")])
    return back_up(source, quick_path / "backups")


def journal(directory: Path, manifest: Manifest) -> None:
    """Stands for the journal that is begun with a restored directory."""
    (directory / "1").write_text(f"{manifest.applied_index}")


def options(node_id: str = "n1", **more: object) -> RestoreOptions:
    """Of a restore."""
    return RestoreOptions(node_id=node_id, cluster_id=NEW_ID, store_id=bytes(16), now_ms=1, **more)  # type: ignore[arg-type]


def test_backup_is_the_checkpoint(quick_path: Path) -> None:
    """It has the digest of the directory it was made of, verify accepts and does not change it, and it has no LOCK."""
    source = make(quick_path / "source", 30, which=ENTRIES)
    path = back_up(source, quick_path / "backups")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    report = verify_backup(path)
    assert report.sound, report.faults
    assert report.units > 20
    assert digest(path) == digest(source)
    assert is_backup(path, Disk())
    assert not is_backup(source, Disk())
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert sorted(file.name for file in path.iterdir()) == ["MANIFEST", "catalog", "hours"]
    assert path.name == f"{CLUSTER_ID.hex()[:8]}-{30:020}-n1"


def test_the_same_checkpoint_twice(quick_path: Path, backup: Path) -> None:
    """A second backup at the same index is refused and leaves the first alone."""
    with pytest.raises(BackupRefused, match="is there already"):
        back_up(quick_path / "source", quick_path / "backups")
    assert verify_backup(backup).sound


@pytest.mark.parametrize("loss", ["torn", "unsynced"])
def test_backup_stopped_at_every_operation(quick_path: Path, loss: str) -> None:
    """A stop in any write, sync or rename leaves no directory that passes for a backup, or a whole one; the next backup
    is not hindered by what is left."""
    source = make(quick_path / "source", 7)
    disk = StoppingDisk()
    back_up(source, quick_path / "whole", disk)
    for stop_at in range(1, len(disk.operations) + 1):
        parent = quick_path / str(stop_at)
        stopping = StoppingDisk(stop_at, torn_bytes=stop_at if loss == "torn" else None)
        with pytest.raises(Stopped):
            back_up(source, parent, stopping)
        if loss == "unsynced" and parent.exists():
            stopping.lose_unsynced(parent)
        whole = [path for path in parent.glob("*") if not path.name.endswith(PART)]
        assert all(verify_backup(path).sound for path in whole)
        for path in whole:
            shutil.rmtree(path)
        assert verify_backup(back_up(source, parent)).sound
        shutil.rmtree(parent)


def test_a_finished_backup_outlives_a_power_cut(quick_path: Path) -> None:
    """When `finish` has returned, every name and byte of it is on the disk."""
    source, disk = make(quick_path / "source", 7), StoppingDisk()
    path = back_up(source, quick_path / "backups", disk)
    disk.lose_unsynced(path.parent)
    report = verify_backup(path)
    assert report.faults == []
    assert digest(path) == digest(source)


class _Full(Disk):
    """The place for backups is full."""

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Never."""
        raise DiskFailed("write", "/backups", 28)


class _Small(Disk):
    """The place for backups has no room."""

    def free_bytes(self, path: Path) -> int:
        """A few bytes."""
        return 100


@pytest.mark.parametrize(("disk", "why"), [(_Full(), "errno 28"), (_Small(), "100 bytes free")])
def test_full_disk_fails_the_backup_alone(quick_path: Path, disk: Disk, why: str) -> None:
    """A disk that takes no backup is an error of the backup, not of the node."""
    source = make(quick_path / "source", 7)
    with pytest.raises(BackupRefused, match=why):
        back_up(source, quick_path / "backups", disk)


class _Spare(Disk):
    """A file system with room for the backup and not for the reserve too."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared

    def free_bytes(self, path: Path) -> int:
        """More than the backup needs."""
        return 1 << 30

    def same_file_system(self, one: Path, other: Path) -> bool:
        """As the case says."""
        return self._shared


def test_a_backup_leaves_the_node_its_reserve(quick_path: Path) -> None:
    """A backup beside the data does not take the room the node keeps for its work; on a disk of its own it may."""
    source, parent = make(quick_path / "source", 7), quick_path / "backups"
    room = Room(source, 1 << 30, parent, 1.0)
    with pinned(source) as pin:
        with pytest.raises(BackupRefused, match="keeps 1073741824 of them for the node"):
            BackupWriter(pin, parent, "n1", _Spare(shared=True), room=room)
        assert not parent.exists()
        BackupWriter(pin, parent, "n1", _Spare(shared=False), room=room).abandon()


def test_every_flipped_byte_is_found(quick_path: Path, backup: Path) -> None:
    """A bit flipped anywhere in a backup is found by verify, and a restore from it is refused with nothing left."""
    files = sorted(path for path in backup.rglob("*") if path.is_file())
    for path in files:
        sound = path.read_bytes()
        for at in range(0, len(sound), max(1, len(sound) // 40)):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
            assert not verify_backup(backup).sound, f"byte {at} of {path}"
            with pytest.raises(BackupRefused):
                restore(backup, quick_path / "new", options(), journal, Disk())
            assert not (quick_path / "new").exists()
        path.write_bytes(sound)
    assert verify_backup(backup).sound


def _remove(name: str) -> Callable[[Path], None]:
    return lambda backup: (backup / name).unlink()


def _cut(backup: Path) -> None:
    path = backup / "hours" / str(HOUR) / "log"
    path.write_bytes(path.read_bytes()[:-1])


def _no_sums(backup: Path) -> None:
    manifest = Manifest.decode((backup / MANIFEST).read_bytes())
    offer = Manifest(manifest.cluster_id, manifest.group, manifest.record, manifest.catalog_len)
    (backup / MANIFEST).write_bytes(offer.encode())


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (_remove(MANIFEST), "no MANIFEST"),
        (_remove("catalog/data.mdb"), "missing"),
        (_remove(f"hours/{HOUR}/log"), "missing"),
        (_cut, "the manifest gives it"),
        (_no_sums, "no checksums"),
        (lambda backup: (backup / MANIFEST).write_bytes(b"not ours"), "header"),
    ],
)
def test_partial_or_foreign(quick_path: Path, backup: Path, damage: Callable[[Path], None], why: str) -> None:
    """A backup with something missing, or a directory that is none, is refused by name, and nothing is left."""
    damage(backup)
    target = quick_path / "new"
    target.mkdir()
    with pytest.raises(BackupRefused, match=why):
        restore(backup, target, options(), journal, Disk())
    assert not list(target.iterdir())
    assert not verify_backup(backup).sound


def test_data_directory_is_no_backup(quick_path: Path) -> None:
    """Named as such: the two look alike."""
    source = make(quick_path / "source", 4)
    with pytest.raises(BackupRefused, match="a data directory, no backup"):
        restore(source, quick_path / "new", options(), journal, Disk())


def test_restored_is_another_cluster(quick_path: Path, backup: Path) -> None:
    """The same hours and topics under a new cluster id, in every header and in the genesis; this node the only voter,
    the others learners under their old numbers; the rest of the row as it was."""
    target = quick_path / "new"
    manifest = restore(backup, target, options(overdue=OverdueRule(last_ms=1_000)), journal, Disk())
    assert manifest == read_manifest(backup, Disk())
    report = verify(target)
    assert report.sound, report.faults
    DataDirectory.open(target, "n1", Disk(), bytes(16)).close()
    assert (target / "journal" / "1").read_text() == "8"
    old, new = Store.open(quick_path / "source", disk=Disk()), Store.open(target, disk=Disk())
    try:
        assert new.cluster_id == NEW_ID
        assert old.catalog.genesis is not None
        assert new.catalog.genesis is not None
        assert new.catalog.genesis.secret == old.catalog.genesis.secret
        assert new.hours() == old.hours()
        assert new.unit_count == old.unit_count
        assert new.applied_index == old.applied_index == 8
        assert [each.name for each in new.catalog.topics()] == [each.name for each in old.catalog.topics()]
        roles = {member.id: (member.number, member.role) for member in new.catalog.members.all()}
        assert roles == {"n1": (1, VOTER), "n2": (2, LEARNER), "n3": (3, LEARNER)}
        assert new.catalog.overdue_rule == OverdueRule(last_ms=1_000)
        assert old.catalog.overdue_rule is None
    finally:
        old.close()
        new.close()
    assert sorted(path.name for path in target.iterdir()) == ["LOCK", "catalog", "deliveries", "hours", "journal"]


def test_what_the_backup_holds_of_an_hour_that_was_begun_again(quick_path: Path) -> None:
    """Its units are numbered on from those that went with the hour; all up to its end were in the backup."""
    again = [append(5_000, 6_000), unlink(0), append(7_000)]
    source = make(quick_path / "source", 11, which=[*FEW, joined("n1"), *again])
    restore(back_up(source, quick_path / "backups"), quick_path / "new", options(), journal, Disk())
    old, new = Store.open(quick_path / "source", disk=Disk()), Store.open(quick_path / "new", disk=Disk())
    try:
        first = old.catalog.first_index(HOUR)
        assert first > 0
        assert new.catalog.restored is not None
        assert new.catalog.restored.ends[HOUR] == first + 1
    finally:
        old.close()
        new.close()


def test_restored_under_another_id_and_alone(quick_path: Path, backup: Path) -> None:
    """A node that the old cluster never had needs addresses, gets the next number, and may be the only member left."""
    with pytest.raises(BackupRefused, match=r"no address of n9 .it knows n1, n2, n3.: give --raft and --http"):
        restore(backup, quick_path / "new", options("n9"), journal, Disk())
    assert not (quick_path / "new").exists()
    restore(backup, quick_path / "new", options("n9", raft="h:1", http="h:2", alone=True), journal, Disk())
    store = Store.open(quick_path / "new", disk=Disk())
    roles = {member.id: (member.number, member.role) for member in store.catalog.members.all()}
    assert roles == {"n1": (1, REMOVED), "n2": (2, REMOVED), "n3": (3, REMOVED), "n9": (4, VOTER)}
    store.close()


def test_directory_in_use(quick_path: Path, backup: Path) -> None:
    """A directory that holds anything is left alone."""
    before = sorted(path for path in (quick_path / "source").rglob("*"))
    with pytest.raises(BackupRefused, match="is not empty"):
        restore(backup, quick_path / "source", options(), journal, Disk())
    assert sorted(path for path in (quick_path / "source").rglob("*")) == before
    with pytest.raises(BackupRefused, match="does not exist"):
        restore(backup, quick_path / "no" / "where", options(), journal, Disk())
    with pytest.raises(BackupRefused, match="is within the backup"):
        restore(backup, backup / "data", options(), journal, Disk())
    assert verify_backup(backup).sound
    assert not (backup / "data").exists()


@pytest.mark.parametrize("loss", ["torn", "unsynced"])
def test_restore_stopped_at_every_operation(quick_path: Path, backup: Path, loss: str) -> None:
    """A stop anywhere leaves a directory that no node starts on, or the whole one; the next restore, into the first,
    gets there."""
    disk = StoppingDisk()
    restore(backup, quick_path / "whole", options(), journal, disk)
    wanted = digest(quick_path / "whole")
    for stop_at in range(1, len(disk.operations) + 1):
        target = quick_path / str(stop_at) / "data"
        target.parent.mkdir()
        stopping = StoppingDisk(stop_at, torn_bytes=stop_at if loss == "torn" else None)
        with pytest.raises(Stopped):
            restore(backup, target, options(), journal, stopping)
        if loss == "unsynced":
            stopping.lose_unsynced(target.parent)
        if (target / "LOCK").exists():
            DataDirectory.open(target, "n1", Disk(), bytes(16)).close()
        else:
            if target.exists() and any(target.iterdir()):
                with pytest.raises(DirectoryRefused):
                    DataDirectory.open(target, "n1", Disk(), bytes(16))
            restore(backup, target, options(), journal, Disk())
        assert digest(target) == wanted
        assert verify(target).sound
        shutil.rmtree(target.parent)
