"""Makes the files of an hour, and looks at those of a checkpoint before their first use: in any thread.

| looked at | of | when |
|---|---|---|
| lengths: longer is cut, shorter is Corrupt | the first START_HOURS hours | at the start |
| the same | all others | PIECE_HOURS in each checkpoint's thread |
| the same; header, last unit and last settle record | any hour | when its files are opened for the first time |

Each hour has a directory, and a look at one reads blocks of the disk when none is in memory: 80,000 took 11 s.
A start looks at the hours of a year; the others wait until they are used or a checkpoint comes by.

Invariant: an hour's files are cut before anything is written to them, once, under a lock. So no cut takes what came
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
"""Hours whose lengths a start looks at, the earliest: half a second where the disk has to be read."""

PIECE_HOURS: Final = 2_048
"""Hours whose lengths one checkpoint looks at."""


class HourOpening:
    """Opens hours by number, generation of the directory and global_index of the first unit."""

    def __init__(self, disk: Disk, directory: Path, group: int, recovered: HourRows, firsts: I64) -> None:
        """Raises Corrupt or DiskFailed, of the hours that a start looks at."""
        self.cluster_id: bytes | None = None
        self._disk = disk
        self._directory = directory
        self._group = group
        self._recovered = recovered
        self._firsts = firsts
        self._cut = np.zeros(len(recovered), np.bool_)
        self._checked = np.zeros(len(recovered), np.bool_)
        self._lock = Lock()
        self._looked = min(START_HOURS, len(recovered))  # places below it have had their turn
        self._look(range(self._looked))

    @property
    def unlooked(self) -> int:
        """Hours whose lengths wait for a checkpoint, those used meanwhile among them."""
        return len(self._recovered) - self._looked

    def look_on(self, numbers: I64, firsts: I64) -> None:
        """Look at the lengths of the next PIECE_HOURS hours, but of those that are gone: `numbers` are all hours there
        are, rising, with the global_index of each one's first unit. One call at a time. Raises Corrupt or DiskFailed.
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
        """The files of an hour that was begun or recovered. Raises Corrupt, FormatRefused or DiskFailed."""
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
        if place is not None and not self._checked[place] and self._firsts[place] == first:  # not one begun since
            self._look([place])
            check_files(files, self._recovered[hour])
            self._checked[place] = True  # two threads may look at the same time: both find the same
        return files

    def _look(self, places: Iterable[int]) -> None:
        """Bring the files of these hours to their lengths, where that was not done yet."""
        for place in places:
            with self._lock:
                if not self._cut[place]:
                    _cut(self._directory, self._recovered.rows[place].item(), self._disk)
                    self._cut[place] = True


def _cut(hours: Path, row: tuple[int, ...], disk: Disk) -> None:
    """Cut the files of an hour to the lengths in its row. Raises Corrupt where one is shorter, or DiskFailed."""
    number, generation, log_len, index_len, settle_len, *_ = row
    directory = f"{hours}/{directory_name(number, generation)}"
    for name, length in (("log", log_len), ("index", index_len), ("settle", settle_len)):
        size = disk.length(f"{directory}/{name}")
        if size != (length or None):
            _mend(Path(directory) / name, size, length, disk)


def _mend(path: Path, size: int | None, length: int, disk: Disk) -> None:
    """Bring a file to its length, 0 for none."""
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
    """Whether the record's lengths, the headers, the last unit and the last settle record tell the same.
    Raises Corrupt or FormatRefused."""
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
