"""One file of an export: it grows behind the length and checksum that a manifest gives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import google_crc32c

from storage.export.manifest import File
from storage.file.disk import Disk, DiskFailed


class ExportRefused(Exception):
    """The export cannot be written, or what lies there is not to be continued. Says where and why."""


@contextmanager
def at_place() -> Iterator[None]:
    """What fails in here is the place that is exported to, and no fault of the node: ExportRefused, not DiskFailed."""
    try:
        yield
    except DiskFailed as error:
        why = f"{error.operation} {error.path}: errno {error.errno}"
        raise ExportRefused(f"the export cannot be written: {why}") from error


class GrowingFile:
    """Open for appending. Raises ExportRefused for all that is wrong with it."""

    def __init__(self, path: Path, disk: Disk, known: File, header: bytes) -> None:
        """`known` is what the manifest says of it; one that it does not list begins with `header`. What is behind goes:
        it is of a run that was stopped."""
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
        """What a manifest is to say of it, once it is durable."""
        return File(self._end, f"{self._crc:08x}")

    def append(self, data: bytes) -> None:
        """Write behind all there is; durable when the caller syncs."""
        with at_place():
            self._disk.write(self._fd, data, self._end)
        self._crc = google_crc32c.extend(self._crc, data)
        self._end += len(data)

    def expect_last(self, row: bytes) -> None:
        """Raises ExportRefused unless this is the last row there is."""
        with at_place():
            found = self._disk.read(self._fd, len(row), self._end - len(row))
        if found != row:
            raise ExportRefused(
                f"{self._path}: the row at byte {self._end - len(row)} is another in the node's directory. They are "
                "not of one history: export to another directory"
            )

    def close(self) -> None:
        """Let go of it."""
        with at_place():
            self._disk.close(self._fd)
