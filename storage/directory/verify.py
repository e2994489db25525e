"""`hourwheel verify`: checks that a closed data directory holds what was written, byte for byte, and hashes it.

Verify reads all data of the last checkpoint and reports all faults, not just the first. It changes nothing. Where all
hours are sound it also follows every forward: a moved message must live in exactly one place. Bytes that a crash left
behind the checkpoint (longer files, hours it does not name) are no fault. The next start cuts them, and the report says
how many there are. The journal has a verification of its own. The node's delivery log is read too.

The digest is a hash of the replicated content. Two nodes that applied the same entries have the same digest, whatever
their flushes, LMDB pages and file systems look like.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage.catalog.catalog import Catalog
from storage.catalog.catalog_file import require_sound
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.hour_lengths import HourLengths
from storage.directory.verify_hour import HourCheck
from storage.directory.verify_moves import move_faults
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk, DiskFailed
from storage.file.hour_file import HourFile, HourFiles, directory_name
from storage.file.silence_file import read_silence
from storage.format.array import U64
from storage.format.rows import Corrupt, FormatRefused

_READ_BYTES: Final = 4 << 20
UNWRITTEN: Final = "are zeros, as a power cut leaves them"
"""The end of the note that counts rows of zeros in a delivery log."""


@dataclass(slots=True)
class Report:
    """The result of verify, with counts of what was read. `faults` and `notes` are lines for people. A fault means that
    bytes are not as written."""

    applied_index: int = 0
    hours: int = 0
    units: int = 0
    deliveries: int = 0
    bytes: int = 0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """True if there is no fault."""
        return not self.faults


@contextmanager
def _catalog(directory: Path, disk: Disk) -> Iterator[Catalog]:
    catalog = Catalog.open(directory / "catalog", disk, read_only=True)
    try:
        yield catalog
    finally:
        catalog.close()


def verify(directory: Path, *, disk: Disk | None = None, group: int = 0) -> Report:
    """Check hours and catalog of a directory that no process has open. Faults are in the report, never raised."""
    disk = disk or Disk()
    report = Report()
    try:
        require_sound(directory / "catalog" / "data.mdb", disk)
        with _catalog(directory, disk) as catalog:
            report.faults += catalog.faults()
            _verify_hours(directory / "hours", catalog, disk, group, report)
        _verify_deliveries(directory / "deliveries", disk, report)
        read_silence(directory, disk)
    except (Corrupt, FormatRefused, DiskFailed) as error:
        report.faults.append(str(error))
    return report


def _verify_hours(hours: Path, catalog: Catalog, disk: Disk, group: int, report: Report) -> None:
    record, genesis = catalog.record, catalog.genesis
    names = disk.list_directory(hours) if disk.exists(hours) else []
    if record is None:
        report.notes.append(f"no checkpoint yet; {len(names)} hours begun, which the next start rebuilds")
        return
    report.applied_index = record.applied_index
    named = {directory_name(number, lengths.generation) for number, lengths in record.hours.items()}
    extra = [name for name in names if name not in named]
    if extra:
        report.notes.append(f"{len(extra)} hours that the checkpoint does not name, which the node removes")
    if genesis is None:
        if record.hours:
            report.faults.append(f"corrupt: {hours.parent / 'catalog'}: {len(record.hours)} hours and no genesis")
        return
    behind = 0
    forwarded: list[U64] = []
    arrived: list[U64] = []
    for number, lengths in sorted(record.hours.items()):
        first = catalog.first_index(number)
        files = _open(disk, hours, number, lengths, group, genesis.cluster_id, first)
        check = HourCheck(number, files, lengths)
        check.run()
        report.faults += check.faults
        report.hours += 1
        report.units += lengths.units
        report.bytes += check.bytes
        behind += check.bytes_behind
        if not report.faults:
            forwarded.append(check.forwarded())
            arrived.append(check.arrived())
    if not report.faults:
        report.faults += move_faults(forwarded, arrived)
    if behind:
        report.notes.append(f"{behind} bytes behind the checkpoint, which the next start cuts")


def _open(
    disk: Disk, hours: Path, number: int, lengths: HourLengths, group: int, cluster_id: bytes, first: int = 0
) -> HourFiles:
    generation = lengths.generation
    return HourFiles(disk, hours, number, group=group, cluster_id=cluster_id, generation=generation, first=first)


def _verify_deliveries(deliveries: Path, disk: Disk, report: Report) -> None:
    """Read the delivery log. Rows of zeros are a note and no fault: the log is not synced, so a power cut leaves some.
    A page that a disk lost looks the same."""
    unwritten, first = 0, ""
    for file in delivery_files(deliveries, disk):
        try:
            for rows, zeros in read_delivery_file(deliveries / file.name, disk):
                report.deliveries += len(rows)
                report.bytes += rows.nbytes
                unwritten += zeros
                first = first or (file.name if zeros else "")
        except (Corrupt, FormatRefused) as fault:
            report.faults.append(str(fault))
    if unwritten:
        report.notes.append(f"{unwritten} rows of the delivery log {UNWRITTEN}, the first in {first}")


def digest(directory: Path, *, disk: Disk | None = None, group: int = 0) -> tuple[str, int]:
    """Return (hash of the replicated content in hex, applied index) of a closed directory's last checkpoint.

    Before the first checkpoint that is the hash of nothing, at index 0, for everything stands in the journal. Raises
    Corrupt if files are shorter than the checkpoint says. The digest hashes bytes as they are; only verify checks them.
    """
    disk = disk or Disk()
    hasher = hashlib.blake2b(digest_size=32)
    with _catalog(directory, disk) as catalog:
        record, genesis = catalog.record, catalog.genesis
        if record is None:
            return hasher.hexdigest(), 0
        _hash_state(hasher, record)
        for number, lengths in sorted(record.hours.items()):
            cluster_id = genesis.cluster_id if genesis else bytes(16)
            files = _open(disk, directory / "hours", number, lengths, group, cluster_id)
            counts = (lengths.units, lengths.unsettled, lengths.forwarded, lengths.moved)
            hasher.update(f"hour {number} {counts}\n".encode())
            _hash_file(hasher, files.log, lengths.log_len)
            _hash_file(hasher, files.index, lengths.index_len)
            _hash_file(hasher, files.settle, lengths.settle_len)
            files.close()
        for table, key, value in catalog.dump():
            for part in (table, key, value):
                hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest(), record.applied_index


def _hash_state(hasher: "hashlib.blake2b", record: CheckpointRecord) -> None:
    state = (record.applied_index, record.tick, record.local_index, record.state_applied_index, record.max_now_ms)
    hasher.update(f"state {state}\n".encode())


def _hash_file(hasher: "hashlib.blake2b", file: HourFile, length: int) -> None:
    hasher.update(f"{file.path.name} {length}\n".encode())
    for offset in range(0, length, _READ_BYTES):
        hasher.update(file.read(min(_READ_BYTES, length - offset), offset))
