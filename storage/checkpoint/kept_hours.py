"""Figures for the metrics: the oldest hour of a checkpoint, and the bytes of hours in which a message has not ended.

An hour's files are removed together, when every unit in it is settled for good (docs/adr/0009-place-and-home.md). So
one message that no consumer takes keeps the bytes of all delivered messages of its hour.
"""

import numpy as np

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.hour_lengths import HourRows
from storage.format.array import I64

_HOUR_MS = 3_600_000


class KeptHours:
    """The hours of one checkpoint with a message that has not ended, and their bytes. It never changes, so any thread
    may ask."""

    def __init__(self, record: CheckpointRecord | None) -> None:
        rows = HourRows.of(record.hours if record is not None else {}).rows
        self.oldest: int | None = int(rows["hour"][0]) if len(rows) else None
        """The number of the oldest hour, None if there is none."""
        held = rows[rows["unsettled"] > 0]
        self._hours: I64 = held["hour"].astype(np.int64)
        self._bytes: I64 = (held["log_len"] + held["index_len"] + held["settle_len"]).astype(np.int64).cumsum()

    def open_bytes(self, before_ms: int) -> int:
        """The number of bytes of those hours that ended at or before `before_ms` and hold a message that has not
        ended."""
        past = int(np.searchsorted(self._hours, before_ms // _HOUR_MS, "left"))
        return int(self._bytes[past - 1]) if past else 0
