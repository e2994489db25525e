"""All records of some units of one hour: the units, the headers of their records, their settle records.

The read captures the hour's content at one moment, on the loop's thread, and may then run in another thread. If the
hour has its states in memory, these name the newest settle record of a unit. For pages that were released, the states
files name it. Its older settle records are found by following `previous`. If the hour has no states in memory, one pass
over the settle file finds the newest ones. No cache is filled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import I64
from storage.format.rows import SETTLE, Corrupt, Settles, Units, join_rows, take_rows
from storage.hour.hour import Hour

QUICK_UNITS: Final = 32
QUICK_PAGES: Final = 4


class MessageRecords(NamedTuple):
    """The records found. `units` and `headers` (dtype HEADER), [n], are of the units asked for, in their order.

    `settles` has all settle records of these units in the order of the hour's settle file. `ordinals` has the ordinal
    of each of them in that file.
    """

    units: Units
    headers: npt.NDArray[np.void]
    settles: Settles
    ordinals: I64


class MessageRecordsRead:
    """Reads all records of the units with the global indexes `at`, which ascend. Make it on the loop's thread, and call
    `run` once, in any thread."""

    def __init__(self, hour: Hour, at: I64) -> None:
        self._hour = hour.snapshot()
        self._at = at
        held = hour.states_held
        self._newest = held.newest_of(at) if held is not None else None

    @property
    def quick(self) -> bool:
        """True if `run` takes less time than to start it in another thread."""
        return self._newest is not None and len(self._at) <= QUICK_UNITS and self._newest.pages <= QUICK_PAGES

    def run(self) -> MessageRecords:
        """Read the records. Raises Corrupt or DiskFailed. Corrupt is no damage if the hour was unlinked meanwhile."""
        hour = self._hour
        try:
            newest = self._read_newest() if self._newest is None else self._newest.run()
            settles, ordinals = self._follow(newest[newest > 0])
            return MessageRecords(hour.unit_rows(self._at), hour.header_rows(self._at), settles, ordinals)
        finally:
            hour.close()

    def _read_newest(self) -> I64:
        """1 + the ordinal of each unit's newest settle record, 0 without one."""
        newest = np.zeros(len(self._at), np.int64)
        if not len(self._at):
            return newest
        hour = self._hour
        staged = zip(hour.staged_settles.starts, hour.staged_settles.arrays, strict=True)
        for parts in (hour.files.settle.blocks(hour.saved_settles), staged):
            for first, rows in parts:
                index = rows["global_index"].astype(np.int64)
                place = np.minimum(self._at.searchsorted(index), len(self._at) - 1)
                named = np.flatnonzero(self._at[place] == index)
                newest[place[named]] = first + named + 1  # numpy assigns in order, so the last one stays
        return newest

    def _follow(self, following: I64) -> tuple[Settles, I64]:
        """Return these settle records and all earlier ones of the same units, in file order, and their ordinals.
        `following` names each record by 1 + its ordinal."""
        parts, ordinals = [np.empty(0, SETTLE)], [np.empty(0, np.int64)]
        while len(following):
            rows = self._hour.settle_rows(following - 1)
            previous = rows["previous"].astype(np.int64)
            ahead = np.flatnonzero(previous >= following)
            if len(ahead):
                row, file = int(ahead[0]), self._hour.files.settle
                offset = file.offset(int(following[row]) - 1)
                raise Corrupt(file.name, offset, "previous", int(previous[row]), f"at most {int(following[row]) - 1}")
            parts.append(rows)
            ordinals.append(following - 1)
            following = previous[previous > 0]
        settles, where = join_rows(parts, SETTLE), np.concatenate(ordinals)
        order = np.argsort(where)
        return take_rows(settles, order), where[order]
