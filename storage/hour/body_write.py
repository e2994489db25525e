"""Writes bodies to the delay log of an hour, near or far: record and index row of each message.

A near hour comes here with each entry (hour.py), a far one when its stage is written (stage_write.py). Long before, the
body is durable with its Raft entry (replication/journal/sync.py).
"""

import numpy as np

from storage.file.hour_file import HourFiles
from storage.file.sync_pace import SyncPace
from storage.format.array import U64
from storage.format.rows import Units


def write_bodies(
    files: HourFiles, words: U64, offset: int, units: Units, first: int, pace: SyncPace | None = None
) -> None:
    """Write records, with their bodies, at `offset` of the log. Write their linked, sealed units from number `first` of
    the index.

    The log comes first, so no unit points behind its end. Raises DiskFailed.
    """
    files.log.write(words.view(np.uint8).data, offset, pace)
    files.index.write_rows(units, first, pace)
