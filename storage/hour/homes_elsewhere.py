"""The homes of an hour's moved units, in memory, for units that came while the hour was in use.

The ack of a retried message names its place, and the end is also recorded at its home. So the home must be found. The
homes of other units are read from index and record header, unit by unit (hour.py). Such a unit came before, has ended
since, or stands in an hour out of use. A read of a whole hour of ten million units would hold a node for a third of a
second.
"""

import numpy as np

from storage.format.array import I64, U64

_NONE_AT: I64 = np.empty(0, np.int64)
_NONE_HOME: U64 = np.empty(0, np.uint64)


class HomesElsewhere:
    """Homes of the moved units with global indexes from `begin` on, 16 bytes each. Each append adds higher global
    indexes, so a look-up is one binary search."""

    __slots__ = ("_at", "_home", "begin", "count")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self._at, self._home = _NONE_AT, _NONE_HOME
        self.count = 0

    def add(self, at: I64, homes: U64) -> None:
        """Add moved units: global indexes `at`, which rise and are above all earlier ones, and their homes."""
        start, self.count = self.count, self.count + len(at)
        if self.count > len(self._at):
            room = np.zeros(max(self.count, 2 * len(self._at), 64), np.int64)
            room[:start] = self._at[:start]
            self._at = room
            self._home = np.concatenate([self._home[:start], np.zeros(len(room) - start, np.uint64)])
        self._at[start : self.count] = at
        self._home[start : self.count] = homes

    def forget(self, end: int) -> None:
        """Drop the homes of the units before global_index `end`. These have ended, and few requests need their
        homes."""
        if end > self.begin:
            row = int(self._at[: self.count].searchsorted(end))
            self._at, self._home = self._at[row : self.count].copy(), self._home[row : self.count].copy()
            self.count -= row
            self.begin = end

    def find(self, at: I64, places: U64) -> U64:
        """The homes of the units with the global indexes `at`, which stand at `places`. A unit born there, or not known
        here, gives its place."""
        if not self.count:
            return places
        known = self._at[: self.count]
        row = np.minimum(known.searchsorted(at), self.count - 1)
        return np.where(known[row] == at, self._home[row], places)
