"""Writes pieces into many files and syncs them as they come. Without this, one sync at the end would have to write
gigabytes."""

from pathlib import Path
from typing import Final

from storage.file.disk import Disk

_DIRTY_BYTES_MAX: Final = 4 << 20


class PieceWriter:
    """Writes the files of one snapshot or backup. It blocks, so it is for a thread. Raises DiskFailed.

    Invariant: since the last sync, at most _DIRTY_BYTES_MAX and a piece were written.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._dirty_bytes = 0

    def write(self, path: Path, data: bytes, offset: int) -> None:
        """Write one piece into the file at this path. A missing file is made."""
        fd = self._disk.open_write(path)
        try:
            self._disk.write(fd, data, offset)
            self._disk.start_writing(fd, offset, len(data))
            self._dirty_bytes += len(data)
            if self._dirty_bytes >= _DIRTY_BYTES_MAX:
                self._disk.fdatasync(fd)
                self._dirty_bytes = 0
        finally:
            self._disk.close(fd)
