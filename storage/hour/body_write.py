"""Writes bodies to the delay log of an hour, near or far: record and index row of each message.

A near hour is written with each entry (hour.py), a far one when its staged bytes are written (stage_write.py).
Long before that, the body is durable with its Raft entry (replication/journal/sync.py).
"""

import numpy as np

from storage.file.hour_file import HourFiles
from storage.file.sync_pace import SyncPace
from storage.format.array import U64
from storage.format.rows import Units


def write_bodies(
    files: HourFiles, words: U64, offset: int, units: Units, first: int, pace: SyncPace | None = None
) -> None:
    """Write records, with their bodies, at byte `offset` of the log. Write their units, with chain and checksum, into
    the index from global_index `first` on.

    The log comes first, so no unit points behind its end. For `pace` see HourFile.write. Raises DiskFailed.
    """
    files.log.write(words.view(np.uint8).data, offset, pace)
    files.index.write_rows(units, first, pace)
