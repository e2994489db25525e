"""Every kind of file says its version: each that this build knows is read, a newer build's is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

import storage.catalog.catalog
from replication.command.entry import version_of
from replication.journal.journal import Journal
from storage.catalog.catalog import Catalog
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.checkpoint.manifest import Manifest
from storage.directory.data_directory import DataDirectory, DirectoryRefused
from storage.directory.verify import verify
from storage.export.manifest import Partition, decode
from storage.file.delivery_file import DeliveryWriter, delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.format.level import LEVELS
from storage.format.rows import HEADER_SIZE, READS, FileHeader, FormatRefused
from storage.record.delivery_record import DELIVERY, PUSH, START
from tests.storage.workload import CLUSTER_ID, HOUR, run

MAGICS = sorted(READS)


def with_version(data: bytes, version: int) -> bytes:
    """The same file as of another version."""
    header = data[:8] + version.to_bytes(2, "little") + data[10:60]
    checksum = int(google_crc32c.value(header))
    return header + checksum.to_bytes(4, "little") + data[HEADER_SIZE:]


def content(path: Path) -> dict[str, bytes]:
    """Every file below the path, but for LMDB's table of readers, which each opening writes."""
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb"}


@pytest.mark.parametrize("magic", MAGICS)
def test_each_known_version_of_a_header_comes_back_and_no_other(magic: bytes) -> None:
    """Whatever its kind, the header says which version the file is of, and the reader knows a range of them."""
    oldest, newest = READS[magic]
    assert oldest == 1
    for version in range(oldest, newest + 1):
        header = FileHeader(magic, 0, 7, CLUSTER_ID, version)
        assert FileHeader.decode(header.encode(), "f") == header
        header.expect(FileHeader(magic, 0, 7, CLUSTER_ID), "f")
        assert with_version(FileHeader(magic, 0, 7, CLUSTER_ID).encode(), version) == header.encode()
    for version in (0, newest + 1, 258, (1 << 16) - 1):
        with pytest.raises(FormatRefused, match=f"some/file: version {version}; this build supports"):
            FileHeader.decode(FileHeader(magic, 0, 7, CLUSTER_ID, version).encode(), "some/file")


def _journal(path: Path) -> Path:
    journal = Journal.open(path, disk=Disk(), version_of=version_of)
    journal.add(b"\x01", 1, 1)
    journal.sync_now()
    journal.close()
    return path / f"{1:020d}.seg"


def _open_journal(file: Path) -> None:
    Journal.open(file.parent, disk=Disk()).close()


def _deliveries(path: Path) -> Path:
    log = DeliveryWriter(path, Disk(), group=0, cluster_id=CLUSTER_ID)
    rows = np.zeros(1, DELIVERY)
    rows["at_ms"], rows["kind"], rows["mode"] = HOUR * 3_600_000, START, PUSH
    log.append(rows, HOUR * 3_600_000)
    log.close()
    return path / delivery_files(path, Disk())[0].name


def _read_deliveries(file: Path) -> None:
    list(read_delivery_file(file, Disk()))


def _manifest(path: Path) -> Path:
    record = CheckpointRecord(
        applied_index=1, applied_term=1, tick=0, local_index=0, state_applied_index=0, max_now_ms=0
    )
    (path / "MANIFEST").write_bytes(Manifest(CLUSTER_ID, 0, record, 4096).encode())
    return path / "MANIFEST"


def _read_manifest(file: Path) -> None:
    Manifest.decode(file.read_bytes())


KINDS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], None]]] = {
    "journal": (_journal, _open_journal),
    "deliveries": (_deliveries, _read_deliveries),
    "snapshot manifest": (_manifest, _read_manifest),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_file_is_refused_by_its_reader(kind: str, tmp_path: Path) -> None:
    """By name, and it stays as it is; at its own version it is read."""
    make, read = KINDS[kind]
    file = make(tmp_path)
    read(file)
    newer = READS[FileHeader.decode(file.read_bytes(), "f").magic][1] + 1
    file.write_bytes(with_version(file.read_bytes(), newer))
    before = content(tmp_path)
    with pytest.raises(FormatRefused, match=f"version {newer}"):
        read(file)
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["log", "index", "settle"])
def test_a_newer_file_of_an_hour_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """Verify names it, and changes nothing."""
    run(tmp_path, Disk())
    Journal.open(_made(tmp_path / "journal"), disk=Disk(), cluster_id=CLUSTER_ID).close()
    (tmp_path / "deliveries").mkdir()
    file = next(path for path in sorted((tmp_path / "hours").rglob(name)) if path.stat().st_size > HEADER_SIZE)
    file.write_bytes(with_version(file.read_bytes(), 2))
    before = content(tmp_path)
    assert [fault for fault in verify(tmp_path).faults if f"{file.parent.name}/{name}: version 2" in fault]
    assert content(tmp_path) == before


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_catalog_of_a_newer_build_is_refused_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format of the catalog, and the version of the checkpoint record in it."""
    monkeypatch.setattr(storage.catalog.catalog, "FORMAT", 2)
    Catalog.open(tmp_path / "format", Disk()).close()
    monkeypatch.undo()
    run(_made(tmp_path / "record"), Disk())
    monkeypatch.setattr(CheckpointRecord, "version", property(lambda _: 4))
    run(_made(tmp_path / "newer"), Disk())
    monkeypatch.undo()
    for path, words in ((tmp_path / "format", "catalog format 2"), (tmp_path / "newer" / "catalog", "version 4")):
        before = content(path)
        with pytest.raises(FormatRefused, match=words):
            Catalog.open(path, Disk())
        assert content(path) == before
    Catalog.open(tmp_path / "record" / "catalog", Disk()).close()


def test_an_export_of_a_newer_build_is_refused() -> None:
    """Its manifests say a format."""
    with pytest.raises(FormatRefused, match=r"n1\.json: format 2"):
        decode(json.dumps({"format": 2, "checksum": "0"}).encode(), Partition, "n1.json")


def test_a_directory_with_a_newer_journal_is_refused_before_anything_changes(tmp_path: Path) -> None:
    """The hours would be cut back to their checkpoint otherwise, before the journal is looked at."""
    directory = DataDirectory.open(tmp_path / "d", "n1", Disk(), b"s" * 16)
    file = _journal(directory.journal)
    directory.close()
    whole = file.read_bytes()
    for data in (whole[:10], b"", bytes(70)):  # damage is told by recovery, which knows what a crash may leave
        file.write_bytes(data)
        DataDirectory.open(tmp_path / "d", "n1", Disk(), b"s" * 16).close()
    file.write_bytes(with_version(whole, LEVELS[1] + 1))
    before = content(tmp_path)
    with pytest.raises(FormatRefused, match=rf"\.seg: version {LEVELS[1] + 1}; this build supports 1 to {LEVELS[1]}"):
        DataDirectory.open(tmp_path / "d", "n1", Disk(), b"s" * 16)
    assert content(tmp_path) == before
    lock = tmp_path / "d" / "LOCK"
    fields = json.loads(lock.read_bytes())
    lock.write_text(json.dumps(fields | {"format": 2}) + "\n")
    with pytest.raises(DirectoryRefused, match="has format 2, this build knows up to 1: use a newer build"):
        DataDirectory.open(tmp_path / "d", "n1", Disk(), b"s" * 16)
