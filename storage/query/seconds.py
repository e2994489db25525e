"""How many units each second of an hour has, and how many of them are open: the slots of the second wheel.

Near hours keep a counter for each second. So of a large near hour only the states are read, a byte a unit, and some due
times. These are of the open units or of the ended ones, whichever are fewer. If both are many, or if one topic is asked
for, the whole index is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from storage.format.array import I64, Mask
from storage.format.chain import SECONDS, seconds_of
from storage.format.predicate import ALL, Predicate
from storage.format.states import IS_OPEN, OPEN_STANDINGS
from storage.hour.hour import Hour
from storage.query.page import CHAIN_UNITS_MIN
from storage.query.selection import SelectedHour, Selection

_GATHER_COST: Final = 8
"""To read a unit by its ordinal takes as long as to read this many units of the index in a row."""
_GATHER_ROWS: Final = 65_536
"""So many units are read by their ordinals before a look at `stopped`."""


class UsedSeconds(NamedTuple):
    """The seconds of an hour that have units, ascending, [n] each. `second` is its number, 0 to 3599."""

    second: I64
    open_units: I64
    units: I64


class HourSeconds(SelectedHour):
    """Counts the units of one hour second by second, as they are when this is made. Make it on the loop's thread, and
    call `run` once, in any thread."""

    def __init__(self, hour: Hour, topic: int | None, now_ms: int) -> None:
        """`topic`: only its units count. None: those of all topics."""
        which = ALL if topic is None else Predicate(frozenset((topic,)))
        super().__init__(hour, Selection(frozenset(OPEN_STANDINGS), which), now_ms, tells_standing=False)
        kept = hour.near and hour.units >= CHAIN_UNITS_MIN and topic is None
        self._counted: I64 | None = hour.heads().count.astype(np.int64) if kept else None

    def run(self, stopped: Callable[[], bool] = lambda: False) -> UsedSeconds:
        """Count them. Once `stopped` is true it stops early, and its result is of no use. Raises Corrupt or DiskFailed.
        If the hour was unlinked meanwhile, these show no damage."""
        try:
            is_open = IS_OPEN[self.states()]
            few = self._few(is_open)
            units, opened = self._all(is_open, stopped) if few is None else self._by_few(*few, stopped)
        finally:
            self.close()
        used = np.flatnonzero(units)
        return UsedSeconds(used, opened[used], units[used])

    def _few(self, is_open: Mask) -> tuple[I64, bool] | None:
        """The rows of the open units (True) or of the ended ones (False), whichever are fewer. None if a pass over the
        index is cheaper, or if the seconds have no counters."""
        if self._counted is None:
            return None
        opened = int(np.count_nonzero(is_open))
        of_open = 2 * opened <= len(is_open)
        if _GATHER_COST * min(opened, len(is_open) - opened) > len(is_open):
            return None
        return np.flatnonzero(is_open == of_open), of_open

    def _by_few(self, rows: I64, of_open: bool, stopped: Callable[[], bool]) -> tuple[I64, I64]:
        assert self._counted is not None, "the seconds have counters"
        few = np.zeros(SECONDS, np.int64)
        for begin in range(0, len(rows), _GATHER_ROWS):
            if stopped():
                break
            units = self.content.unit_rows(rows[begin : begin + _GATHER_ROWS] + self.content.first)
            few += np.bincount(seconds_of(units["due_ms"]), minlength=SECONDS)
        return self._counted, few if of_open else self._counted - few

    def _all(self, is_open: Mask, stopped: Callable[[], bool]) -> tuple[I64, I64]:
        counted, opened, row = np.zeros(SECONDS, np.int64), np.zeros(SECONDS, np.int64), 0
        for units in self.blocks():
            if stopped():
                break
            seconds, keep = seconds_of(units["due_ms"]), is_open[row : row + len(units)]
            if not self.selection.which.takes_all:
                ours = self.selection.which.of_topics(units["topic"])
                seconds, keep = seconds[ours], keep[ours]
            counted += np.bincount(seconds, minlength=SECONDS)
            opened += np.bincount(seconds[keep], minlength=SECONDS)
            row += len(units)
        return counted, opened
