"""Copies a file of the delivery log into an export: whole rows, as they stand.

The log is written and not synced, so a power cut may leave any bytes in it. Rows are not checked here; the reader of an
export checks them. The export does not shrink with the log, for rows exported before the power cut are the better copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from storage.export.growing_file import GrowingFile, at_place
from storage.export.manifest import ExportedDeliveries, File
from storage.file.delivery_file import READ_ROWS
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE
from storage.record.delivery_record import DELIVERY


class LogGrowth:
    """The rows of one delivery file that an export lacks. `path` is the node's file. `old` is the manifest's entry of
    the rows exported before, None if there are none.

    `steps` exports the lacking rows as the file `name` into `folder`, which is that of the node's day. A missing file,
    or one without a whole header, adds nothing.
    """

    def __init__(self, path: Path, folder: Path, name: str, old: ExportedDeliveries | None, disk: Disk) -> None:
        self._path = path
        self._folder = folder
        self._name = name
        self._disk = disk
        self.rows = old.rows if old else 0
        """Rows in the export. `steps` brings it and `file` up to date."""
        self.file = File(old.bytes, old.crc32c) if old else File()
        self.rows_new = 0

    def steps(self) -> Iterator[int]:
        """Export the new rows. Yield the bytes of each step. Raises ExportRefused, and DiskFailed for the node's
        file."""
        try:
            fd = self._disk.open_read(self._path)
        except FileNotFoundError:
            return
        try:
            rows = (self._disk.size(fd) - HEADER_SIZE) // DELIVERY.itemsize
            if rows > self.rows or (rows == 0 and not self.file.bytes):
                yield from self._grow(fd, rows)
        finally:
            self._disk.close(fd)

    def _grow(self, fd: int, rows: int) -> Iterator[int]:
        with at_place():
            for place in (self._folder.parent, self._folder, self._folder / "deliveries"):
                self._disk.make_directory(place)
        header = b"" if self.file.bytes else self._disk.read(fd, HEADER_SIZE, 0)
        with closing(GrowingFile(self._folder / "deliveries" / self._name, self._disk, self.file, header)) as target:
            for first in range(self.rows, rows, READ_ROWS):
                size = min(READ_ROWS, rows - first) * DELIVERY.itemsize
                data = self._disk.read(fd, size, HEADER_SIZE + first * DELIVERY.itemsize)
                target.append(data)
                yield len(data)
            self.file = target.known
        self.rows_new = rows - self.rows
        self.rows = rows
