"""Which units of an hour were born elsewhere, and where: those that came while it was in use, in memory.

A retry's ack names the place; the one record that tells how the message ended stands at home. Of units that came
before or have ended since, and of hours that nobody used for a while, index and record header tell (hour.py), unit by
unit: to read all of an hour of ten million holds a node for a third of a second.
"""

import numpy as np

from storage.format.array import I64, U64

_NONE_AT: I64 = np.empty(0, np.int64)
_NONE_HOME: U64 = np.empty(0, np.uint64)


class HomesElsewhere:
    """Homes by global_index of the moved units from `begin` on. Rises with each append, so a look-up is one binary
    search; 16 bytes each."""

    __slots__ = ("_at", "_home", "begin", "count")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self._at, self._home = _NONE_AT, _NONE_HOME
        self.count = 0

    def add(self, at: I64, homes: U64) -> None:
        """Moved units, ascending, behind all there are."""
        start, self.count = self.count, self.count + len(at)
        if self.count > len(self._at):
            room = np.zeros(max(self.count, 2 * len(self._at), 64), np.int64)
            room[:start] = self._at[:start]
            self._at = room
            self._home = np.concatenate([self._home[:start], np.zeros(len(room) - start, np.uint64)])
        self._at[start : self.count] = at
        self._home[start : self.count] = homes

    def forget(self, end: int) -> None:
        """Let go of the units before this one, which have ended: few ask where those were born."""
        if end > self.begin:
            row = int(self._at[: self.count].searchsorted(end))
            self._at, self._home = self._at[row : self.count].copy(), self._home[row : self.count].copy()
            self.count -= row
            self.begin = end

    def find(self, at: I64, places: U64) -> U64:
        """The homes of the units at these places, which have these global indexes: of one born there, or not known
        here, its place."""
        if not self.count:
            return places
        known = self._at[: self.count]
        row = np.minimum(known.searchsorted(at), self.count - 1)
        return np.where(known[row] == at, self._home[row], places)
