"""Opening a store: the hours of the last checkpoint, and the directories that it does not name.

```
| on disk | what it is | done |
|---|---|---|
| an hour or generation that the record lacks | begun after it, or unlinked by it | a leftover; the journal has it |
| a name that is not an hour's | not the store's | removed |
| a file longer than the record says | appended after the checkpoint, perhaps torn | cut by the look at lengths |
| a file shorter, or missing | durable bytes are gone | Corrupt at the look at lengths |
| header, last unit or last settle record not as written | damage | Corrupt when the hour is first used |
| damage further inside | found by its checksum when read, and by verify | Corrupt then |
```

hour/open_hour.py compares files with the lengths in the record, and says when it does. Leftovers stay in place;
checkpoints remove them (unlinked_hours.py). A node that is killed again and again leaves more leftovers each time, so
past a bound the start removes them. A start also removes them where the disk is short, because the node writes before
its first checkpoint.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from storage.catalog.hour_lengths import HourLengths, HourRows
from storage.checkpoint.unlinked_hours import Directory
from storage.file.disk import Disk
from storage.file.hour_file import directory_name, directory_of
from storage.file.kept_free import is_short
from storage.format.array import I64

_LEFTOVERS_MAX: Final = 1 << 17
"""One and a half times the hours in ten years. The start removes leftovers beyond this number."""


def recover(
    hours: Path, lengths: Mapping[int, HourLengths], first_index: Callable[[int], int], disk: Disk
) -> tuple[HourRows, I64, list[Directory]]:
    """Return the hours of the checkpoint, the global_index of each hour's first unit, [n], and the leftovers in order
    of name.

    `hours` is the directory with the hours' directories. `lengths` are the hours in the checkpoint's record.

    Raises DiskFailed.
    """
    named = HourRows.of(lengths)
    leftovers = _leftovers(hours, named, disk)
    return named, np.array([first_index(hour) for hour in named], np.int64), leftovers


def _leftovers(hours: Path, named: HourRows, disk: Disk) -> list[Directory]:
    """The directories of hours that `named` lacks, up to a bound. Directories past the bound are removed. If the disk
    is short of space, all are removed. Names that are not an hour's are removed too."""
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
