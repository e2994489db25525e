"""Makes the files of an hour, and looks at those of a checkpoint before their first use: in any thread.

A start looks at lengths alone (recovery.py); header, last unit and last settle record are compared with the checkpoint
when the hour's files are opened for the first time. 87,600 hours would take ten seconds to look at.
"""

from pathlib import Path

import numpy as np

from storage.array import I64
from storage.disk import Disk
from storage.format import Corrupt
from storage.hour_file import HourFiles
from storage.hour_lengths import HourLengths, HourRows, settle_count


class HourOpening:
    """Opens hours by number, generation of the directory and global_index of the first unit."""

    def __init__(self, disk: Disk, directory: Path, group: int, recovered: HourRows, firsts: I64) -> None:
        self.cluster_id: bytes | None = None
        self._disk = disk
        self._directory = directory
        self._group = group
        self._recovered = recovered
        self._firsts = firsts
        self._checked = np.zeros(len(recovered), np.bool_)

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
            check_files(files, self._recovered[hour])
            self._checked[place] = True  # two threads may look at the same time: both find the same
        return files


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
