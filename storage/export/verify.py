"""`hourwheel verify` of an export: checks that every byte that its manifests name is there and as written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import google_crc32c

from storage.directory.verify import Report
from storage.export.manifest import ExportedHour, File, Partition, read_export
from storage.file.disk import Disk, DiskFailed
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT, Corrupt, FormatRefused
from storage.record.record import RECORD_HEADER_SIZE

_READ_BYTES: Final = 4 << 20


def verify_export(directory: Path, *, disk: Disk | None = None) -> Report:
    """Read all bytes of an export that its manifests name. Faults are in the report, never raised."""
    disk = disk or Disk()
    report = Report()
    try:
        nodes, partitions = read_export(directory, disk)
    except (Corrupt, FormatRefused, DiskFailed) as error:
        report.faults.append(str(error))
        return report
    for node, word in nodes.items():
        report.applied_index = max(report.applied_index, word.applied_index)
        report.notes.append(f"{node} of cluster {word.cluster_id} at index {word.applied_index}")
    for folder, partition in partitions:
        for name, file in _files(partition, report):
            try:
                _check(folder / name, file, disk)
                report.bytes += file.bytes
            except (Corrupt, DiskFailed) as error:
                report.faults.append(str(error))
    return report


def _files(partition: Partition, report: Report) -> Iterator[tuple[str, File]]:
    """Yield (path in the partition, its manifest entry) of every file. Count them in the report."""
    for hour in partition.hours:
        report.hours += 1
        report.units += hour.units
        report.faults += _faults(partition, hour)
        for name, file in (("headers", hour.headers), ("index", hour.index), ("settle", hour.settle)):
            if file.bytes:
                yield f"{hour.folder}/{name}", file
    for log in partition.deliveries:
        report.deliveries += log.rows
        yield log.folder, File(log.bytes, log.crc32c)


def _faults(partition: Partition, hour: ExportedHour) -> list[str]:
    """Return a line for each length that does not fit the number of rows in its entry. No run writes such a
    manifest."""
    kinds = (
        ("headers", hour.headers, hour.units, RECORD_HEADER_SIZE),
        ("index", hour.index, hour.units, UNIT.itemsize),
    )
    faults = []
    for name, file, rows, size in (*kinds, ("settle", hour.settle, hour.settles, SETTLE.itemsize)):
        expected = HEADER_SIZE + rows * size if rows else 0
        if file.bytes != expected:
            where = f"{partition.dt}, {partition.node}, {hour.folder}/{name}"
            faults.append(str(Corrupt(where, 0, "length in the manifest", file.bytes, expected)))
    return faults


def _check(path: Path, file: File, disk: Disk) -> None:
    """Raise Corrupt unless the file begins with the bytes that its entry names."""
    try:
        fd = disk.open_read(path)
    except FileNotFoundError as error:
        raise Corrupt(str(path), 0, "file", "missing", f"{file.bytes} bytes") from error
    try:
        crc, done = 0, 0
        while done < file.bytes:
            data = disk.read(fd, min(_READ_BYTES, file.bytes - done), done)
            if not data:
                raise Corrupt(str(path), done, "length", done, f"at least {file.bytes}")
            crc, done = google_crc32c.extend(crc, data), done + len(data)
    finally:
        disk.close(fd)
    if f"{crc:08x}" != file.crc32c:
        raise Corrupt(str(path), 0, "checksum", f"{crc:08x}", file.crc32c)
