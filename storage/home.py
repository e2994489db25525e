"""Which units of an hour were born elsewhere, and where: the newest of those that came while it was in use, in memory.

A retry's ack names the place; the one record that tells how the message ended stands at home. Of units that came
before, and of hours that nobody used for a while, index and record header tell (hour.py), unit by unit: to read all of
an hour of ten million holds a node for a third of a second.
"""

from typing import Final

import numpy as np

from storage.array import I64, U64

_NONE_AT: I64 = np.empty(0, np.int64)
_NONE_HOME: U64 = np.empty(0, np.uint64)


HOMES_MAX: Final = 1 << 16
"""So many are held, 1 MiB; where one more comes, the older half goes."""


class Homes:
    """Homes by global_index of the moved units from `begin` on. Rises with each append, so a look-up is one binary
    search; 16 bytes each."""

    __slots__ = ("_at", "_count", "_home", "begin")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self._at, self._home = _NONE_AT, _NONE_HOME
        self._count = 0

    def add(self, at: I64, homes: U64) -> None:
        """Moved units, ascending, behind all there are."""
        if self._count + len(at) > HOMES_MAX:
            self._keep(max(0, HOMES_MAX // 2 - len(at)))
            at, homes = at[-HOMES_MAX:], homes[-HOMES_MAX:]
            self.begin = int(at[0]) if not self._count else int(self._at[0])
        start, self._count = self._count, self._count + len(at)
        if self._count > len(self._at):
            room = np.zeros(max(self._count, min(2 * len(self._at), HOMES_MAX), 64), np.int64)
            room[:start] = self._at[:start]
            self._at = room
            self._home = np.concatenate([self._home[:start], np.zeros(len(room) - start, np.uint64)])
        self._at[start : self._count] = at
        self._home[start : self._count] = homes

    def _keep(self, newest: int) -> None:
        """So many of them."""
        for column in (self._at, self._home):
            column[:newest] = column[self._count - newest : self._count].copy()
        self._count = newest

    def find(self, at: I64, places: U64) -> U64:
        """The homes of the units at these places, which have these global indexes: of one born there, or not known
        here, its place."""
        if not self._count:
            return places
        known = self._at[: self._count]
        row = np.minimum(known.searchsorted(at), self._count - 1)
        return np.where(known[row] == at, self._home[row], places)
