"""The selected messages of an hour in the order of their units, from a given one on: the work of an operation.

No sort, and no chain: the index is read in a row. So what is done with the messages reads their units in a row too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from storage.format.array import I64
from storage.hour.hour import Hour
from storage.query.selection import SelectedHour, Selection


class Members(NamedTuple):
    """Messages by the global_index of the units where they stand, rising. `next`: the global_index from which on the
    others are still to be found. None if there are no others."""

    at: I64
    next: int | None


class HourMembers(SelectedHour):
    """Finds the selected messages of one hour whose global_index is in [first, end). Make it on the loop's thread, and
    call `run` once, in any thread."""

    def __init__(self, hour: Hour, selection: Selection, now_ms: int, first: int, end: int, most: int) -> None:
        """`most`: once so many are found, the rest is left. A few more may be found."""
        super().__init__(hour, selection, now_ms, tells_standing=False)
        self._first, self._end, self._most = first, end, most

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Members:
        """Find them. Once `stopped` is true it stops early, and its result is of no use. Raises Corrupt or DiskFailed.
        If the hour was unlinked meanwhile, these show no damage."""
        try:
            return self._members(stopped)
        finally:
            self.close()

    def _members(self, stopped: Callable[[], bool]) -> Members:
        parts, count, row, states = [np.empty(0, np.int64)], 0, 0, self.states()
        for units in self.blocks():
            behind = self.content.first + row + len(units)
            if stopped() or behind - len(units) >= self._end:
                break
            if behind > self._first:
                rows, _, _ = self.wanted(units, states[row : row + len(units)])
                at = self.content.first + row + rows
                rows, at = (column[(at >= self._first) & (at < self._end)] for column in (rows, at))
                at = at[self.tagged(at, units["size"][rows])]
                parts.append(at)
                count += len(at)
            row += len(units)
            if count >= self._most:
                return Members(np.concatenate(parts), behind if behind < self._end else None)
        return Members(np.concatenate(parts), None)
