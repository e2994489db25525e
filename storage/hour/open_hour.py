"""Opens the files of hours, and checks the files that the last checkpoint names before their first use. For any thread.

- A start looks at the lengths of the first START_HOURS hours.
- Each checkpoint's thread looks at the lengths of PIECE_HOURS others.
- The first open of an hour's files looks at lengths, header, last unit and last settle record.

A file longer than in the checkpoint is cut, a shorter one is Corrupt. Each hour has a directory, and a look at one
reads blocks of the disk when none is in memory: 80,000 took 11 s. So a start looks at the hours of a year. The others
wait for their first use or for a checkpoint.

Invariant: an hour's files are cut before anything is written to them, once, under a lock. So no cut takes bytes written
after the start.
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np

from storage.catalog.hour_lengths import HourLengths, HourRows, settle_count
from storage.file.disk import Disk
from storage.file.hour_file import HourFiles, directory_name
from storage.format.array import I64
from storage.format.rows import Corrupt

START_HOURS: Final = 8_760
"""Hours whose lengths a start looks at, the earliest ones. Takes half a second if the disk has to be read."""

PIECE_HOURS: Final = 2_048
"""Hours whose lengths one checkpoint looks at."""


class HourOpening:
    """Opens the files of hours. Files of the hours in the checkpoint (`recovered`) are first cut to its lengths and
    checked."""

    def __init__(self, disk: Disk, directory: Path, group: int, recovered: HourRows, firsts: I64) -> None:
        """Cut the files of the first START_HOURS hours. `firsts` has the global_index of each hour's first unit, [n].
        Raises Corrupt or DiskFailed."""
        self.cluster_id: bytes | None = None
        self._disk = disk
        self._directory = directory
        self._group = group
        self._recovered = recovered
        self._firsts = firsts
        self._cut = np.zeros(len(recovered), np.bool_)
        self._checked = np.zeros(len(recovered), np.bool_)
        self._lock = Lock()
        self._looked = min(START_HOURS, len(recovered))  # places below it were looked at
        self._look(range(self._looked))

    @property
    def unlooked(self) -> int:
        """The number of hours in the checkpoint whose lengths no start or checkpoint has looked at. Hours that were
        used meanwhile count too."""
        return len(self._recovered) - self._looked

    def look_on(self, numbers: I64, firsts: I64) -> None:
        """Look at the lengths of the next PIECE_HOURS hours of the checkpoint. Hours that were unlinked meanwhile are
        left out.

        `numbers` are all existing hours, rising, `firsts` the global_index of each one's first unit. One call at a
        time. Raises Corrupt or DiskFailed.
        """
        piece = np.arange(self._looked, min(self._looked + PIECE_HOURS, len(self._recovered)))
        hours = self._recovered.rows["hour"][piece].astype(np.int64)
        at = numbers.searchsorted(hours)
        found = np.flatnonzero(at < len(numbers))
        at, piece, hours = at[found], piece[found], hours[found]
        there = (numbers[at] == hours) & (firsts[at] == self._firsts[piece])
        self._look(piece[there].tolist())
        self._looked = min(self._looked + PIECE_HOURS, len(self._recovered))

    def open(self, hour: int, generation: int, first: int) -> HourFiles:
        """Open the files of an hour by its number, its directory's generation and its first unit's global_index. Raises
        Corrupt, FormatRefused or DiskFailed."""
        assert self.cluster_id is not None, "no hour before genesis"
        files = HourFiles(
            self._disk,
            self._directory,
            hour,
            group=self._group,
            cluster_id=self.cluster_id,
            generation=generation,
            first=first,
        )
        place = self._recovered.place(hour)
        if place is not None and not self._checked[place] and self._firsts[place] == first:  # not begun since
            self._look([place])
            check_files(files, self._recovered[hour])
            self._checked[place] = True  # two threads may look at the same time: both find the same
        return files

    def _look(self, places: Iterable[int]) -> None:
        """Check the lengths of these hours' files and cut files that are too long, unless that was done before."""
        for place in places:
            with self._lock:
                if not self._cut[place]:
                    _cut(self._directory, self._recovered.rows[place].item(), self._disk)
                    self._cut[place] = True


def _cut(hours: Path, row: tuple[int, ...], disk: Disk) -> None:
    """Cut the files of an hour to the lengths in its row. Raises Corrupt if one is shorter, or DiskFailed."""
    number, generation, log_len, index_len, settle_len, *_ = row
    directory = f"{hours}/{directory_name(number, generation)}"
    for name, length in (("log", log_len), ("index", index_len), ("settle", settle_len)):
        size = disk.length(f"{directory}/{name}")
        if size != (length or None):
            _mend(Path(directory) / name, size, length, disk)


def _mend(path: Path, size: int | None, length: int, disk: Disk) -> None:
    """Cut a file to `length`, or remove it if that is 0. Raises Corrupt if it is shorter or missing."""
    name = f"{path.parent.name}/{path.name}"
    if size is None and length:
        raise Corrupt(name, 0, "file", "missing", f"{length} bytes, as in the checkpoint")
    if size is None:
        return
    if size < length:
        raise Corrupt(name, size, "length", size, f"{length}, as in the checkpoint")
    if not length:
        disk.unlink(path)
        return
    fd = disk.open_write(path)
    disk.truncate(fd, length)
    disk.close(fd)


def check_files(files: HourFiles, lengths: HourLengths) -> None:
    """Raise Corrupt or FormatRefused unless the record's lengths, the headers, the last unit and the last settle record
    agree."""
    for file, length in ((files.log, lengths.log_len), (files.index, lengths.index_len)):
        if length:
            file.check_header()
    following = files.index.first + lengths.units
    index_len = files.index.offset(following) if lengths.units else 0
    if lengths.index_len != index_len:
        raise Corrupt("catalog, checkpoint record", 0, f"index of {files.index.name}", lengths.index_len, index_len)
    if lengths.units:
        last = files.index.read_rows(following - 1, 1)[0]
        end = int(last["offset"]) + int(last["size"])
        if end != lengths.log_len:
            raise Corrupt(files.index.name, files.index.offset(following - 1), "end of log", end, lengths.log_len)
    if lengths.settle_len:
        files.settle.check_header()
    settles = settle_count(lengths)
    if settles:
        files.settle.read_rows(settles - 1, 1)
