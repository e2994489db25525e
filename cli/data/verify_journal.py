"""The journal's part of `hourwheel verify`: the reader that a start uses, on a disk that changes nothing.

A second reader of the journal could come to other results than the first. So the code of recovery decides here too. A
torn tail is a note here, and is cut off at the next start. Damage is a fault in both. The one difference is that its
repairs change nothing on the disk.
"""

from dataclasses import dataclass, field
from pathlib import Path

from replication.journal.recovery import recover
from storage.file.disk import Disk, DiskFailed
from storage.format.rows import Corrupt, FormatRefused


class ReadOnlyDisk(Disk):
    """A disk that reads, and changes no file. `cut` counts the bytes that a start would cut off."""

    def __init__(self) -> None:
        self.cut = 0

    def open_write(self, path: Path) -> int:
        """Open the file for reading only."""
        return self.open_read(path)

    def write(self, fd: int, data: object, offset: int) -> None:
        """Leaves the file as it is."""

    def fdatasync(self, fd: int) -> None:
        """Do nothing, because nothing was written."""

    def truncate(self, fd: int, length: int) -> None:
        """Count the bytes that would be cut off, and leave the file as it is."""
        self.cut += self.size(fd) - length

    def unlink(self, path: Path) -> None:
        """Leaves the file where it is."""


@dataclass
class JournalReport:
    """The report on a journal, as `storage.directory.verify.Report` is one on a directory."""

    bytes: int = 0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_journal(directory: Path) -> JournalReport:
    """Reads every segment below `directory`. Faults are in the report, never raised; the first one ends the reading."""
    disk, report = ReadOnlyDisk(), JournalReport()
    if not any(directory.glob("*.seg")):
        report.notes.append("no journal yet")
        return report
    report.bytes = sum(path.stat().st_size for path in directory.glob("*.seg"))
    try:
        found = recover(directory, disk, 0, None)
    except (Corrupt, FormatRefused, DiskFailed) as error:
        report.faults.append(str(error))
        return report
    for segment in found.segments:
        disk.close(segment.fd)
    if disk.cut:
        report.notes.append(f"{disk.cut} bytes of a torn write at the journal's end, which the next start cuts")
    return report
