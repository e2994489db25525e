"""A file of an export. It grows behind the length and checksum that a manifest gives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import google_crc32c

from storage.export.manifest import File
from storage.file.disk import Disk, DiskFailed


class ExportRefused(Exception):
    """Raised if the export cannot be written, or if the existing export must not be continued. Says where and why."""


@contextmanager
def at_place() -> Iterator[None]:
    """Turn a DiskFailed that is raised within into ExportRefused, because the fault is of the export's directory and
    not of the node."""
    try:
        yield
    except DiskFailed as error:
        why = f"{error.operation} {error.path}: errno {error.errno}"
        raise ExportRefused(f"the export cannot be written: {why}") from error


class GrowingFile:
    """A file of an export, open for appending. Any fault of the file or its disk raises ExportRefused."""

    def __init__(self, path: Path, disk: Disk, known: File, header: bytes) -> None:
        """`known` is the manifest's entry for the file. A file that the manifest does not list begins with `header`.
        Bytes behind the entry's length are cut, for a stopped run left them."""
        self._path = path
        self._disk = disk
        self._end = known.bytes
        self._crc = int(known.crc32c, 16)
        with at_place():
            self._fd = disk.open_write(path)
            try:
                self._take_up(header)
            except BaseException:
                disk.close(self._fd)
                raise

    def _take_up(self, header: bytes) -> None:
        size = self._disk.size(self._fd)
        if size < self._end:
            raise ExportRefused(
                f"{self._path} has {size} bytes, the manifest gives it {self._end}: it was damaged. Remove this day of "
                f"this node to export again what the node still has"
            )
        if size > self._end:
            self._disk.truncate(self._fd, self._end)
        if not self._end:
            self.append(header)
        elif self._disk.read(self._fd, len(header), 0) != header:
            raise ExportRefused(f"{self._path} begins otherwise than the node's file: it was damaged")

    @property
    def known(self) -> File:
        """The manifest's entry for the file, once its bytes are durable."""
        return File(self._end, f"{self._crc:08x}")

    def append(self, data: bytes) -> None:
        """Write these bytes at the end of the file. They are durable once the caller has synced."""
        with at_place():
            self._disk.write(self._fd, data, self._end)
        self._crc = google_crc32c.extend(self._crc, data)
        self._end += len(data)

    def expect_last(self, row: bytes) -> None:
        """Raise ExportRefused unless the file ends with this row."""
        with at_place():
            found = self._disk.read(self._fd, len(row), self._end - len(row))
        if found != row:
            raise ExportRefused(
                f"{self._path}: the row at byte {self._end - len(row)} is another in the node's directory. They are "
                "not of one history: export to another directory"
            )

    def close(self) -> None:
        """Close the file."""
        with at_place():
            self._disk.close(self._fd)
