"""Opening a store: the files of the hours are brought back to the last checkpoint.

| on disk | what it is | done |
|---|---|---|
| an hour or generation the record does not name | begun after it, or unlinked by it | a leftover; the journal has it |
| what is called otherwise than an hour | not the store's | removed |
| a file longer than the record says | appended after the checkpoint, perhaps torn | cut |
| a file shorter, or missing | durable bytes are gone | Corrupt |
| header, last unit or last settle record not as written | damage | Corrupt when the hour is first used |
| damage further inside | found by its checksum when read, and by verify | Corrupt then |

Only lengths are looked at, which a start of 87,600 hours does in a second. Reading every byte would take minutes at
50 M messages; what is served is checked as it is read. Leftovers stay where they are: checkpoints remove them
(unlinked_hours.py). A node that is killed over and over leaves more each time, so past a bound the start removes them.
So it does where the disk is short: the node writes before its first checkpoint.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from storage.array import I64
from storage.disk import Disk
from storage.format import Corrupt
from storage.hour_file import directory_name, directory_of
from storage.hour_lengths import HourLengths, HourRows
from storage.room import is_short
from storage.unlinked_hours import Directory

_LEFTOVERS_MAX: Final = 1 << 17
"""Half as many again as there are hours in ten years."""


def recover(
    hours: Path, lengths: Mapping[int, HourLengths], first_index: Callable[[int], int], disk: Disk
) -> tuple[HourRows, I64, list[Directory]]:
    """The hours of the checkpoint, their files cut to it; the global_index of each one's first unit; and the leftovers,
    by name. Raises Corrupt or DiskFailed."""
    named = HourRows.of(lengths)
    leftovers = _leftovers(hours, named, disk)
    _cut(hours, named, disk)
    return named, np.array([first_index(hour) for hour in named], np.int64), leftovers


def _leftovers(hours: Path, named: HourRows, disk: Disk) -> list[Directory]:
    """The directories of hours and generations that are not named, up to the bound; the rest is removed. On a disk that
    is short all are."""
    numbers, generations = (named.rows[name].tolist() for name in ("hour", "generation"))
    kept = {directory_name(*directory) for directory in zip(numbers, generations, strict=True)}
    leftovers: list[Directory] = []
    most = 0 if is_short(hours, disk) else _LEFTOVERS_MAX
    for name in disk.list_directory(hours):
        if name in kept:
            continue
        directory = directory_of(name)
        if directory is None or len(leftovers) == most:
            disk.remove_tree(hours / name)
        else:
            leftovers.append(directory)
    return leftovers


def _cut(hours: Path, named: HourRows, disk: Disk) -> None:
    """Cut the files of these hours to their lengths."""
    for number, generation, log_len, index_len, settle_len, *_ in named.rows.tolist():
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
