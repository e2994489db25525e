"""What a checkpoint keeps: its oldest hour, and what hours weigh that only open messages hold.

An hour goes as a whole, when every unit in it is settled (docs/adr/0009-place-and-home.md). So one message that nobody
takes keeps all that was delivered in its hour. The arrays are made once a checkpoint; a question is a binary search.
"""

import numpy as np

from storage.array import I64
from storage.checkpoint import CheckpointRecord

_HOUR_MS = 3_600_000


class KeptHours:
    """The hours of one checkpoint that hold an open unit. Never changed, so any thread may ask."""

    def __init__(self, record: CheckpointRecord | None) -> None:
        """Passes over all hours in steps of the interpreter, so a thread that does it holds nobody up."""
        hours = record.hours if record is not None else {}
        self.oldest: int | None = min(hours, default=None)
        """The number of the oldest hour, None if there is none."""
        opened = sorted(hour for hour, lengths in hours.items() if lengths.unsettled)
        sizes = (hours[hour].log_len + hours[hour].index_len + hours[hour].settle_len for hour in opened)
        self._hours: I64 = np.fromiter(opened, np.int64, len(opened))
        self._bytes: I64 = np.fromiter(sizes, np.int64, len(opened)).cumsum()

    def open_bytes(self, before_ms: int) -> int:
        """Bytes of the hours that ended before this time and hold a message that is still open."""
        past = int(np.searchsorted(self._hours, before_ms // _HOUR_MS, "left"))
        return int(self._bytes[past - 1]) if past else 0
