"""The selected messages of an hour, from a given point on: the work of an operation.

In the order of units the index is read in a row, without a sort and without a chain. So what is done with the messages
reads their units in a row too. In the order of due times all of the hour are found, and the first are sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from storage.format.array import I64
from storage.hour.hour import Hour
from storage.query.selection import SelectedHour, Selection


class MemberPoint(NamedTuple):
    """A point in an hour. In the order of units its `due_ms` says nothing."""

    due_ms: int
    at: int


class Members(NamedTuple):
    """Messages by the global_index of the units where they stand, and their due times, in order. `next`: the point from
    which on the others are still to be found. None if there are no others."""

    at: I64
    due_ms: I64
    next: MemberPoint | None


class HourMembers(SelectedHour):
    """Finds the selected messages of one hour whose global_index is below `end`, from the point `begin` on. Make it on
    the loop's thread, and call `run` once, in any thread."""

    def __init__(
        self, hour: Hour, selection: Selection, now_ms: int, begin: MemberPoint, end: int, most: int, *, by_due: bool
    ) -> None:
        """`most`: once so many are found, the rest is left. A few more may be found. `by_due`: in the order of due
        times, and of units for equal ones."""
        super().__init__(hour, selection, now_ms, tells_standing=False)
        self._begin, self._end, self._most, self._by_due = begin, end, most, by_due

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Members:
        """Find them. Once `stopped` is true it stops early, and its result is of no use. Raises Corrupt or DiskFailed.
        If the hour was unlinked meanwhile, these show no damage."""
        try:
            return self._members(stopped)
        finally:
            self.close()

    def _members(self, stopped: Callable[[], bool]) -> Members:
        found, due, count, row, states = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0, 0, self.states()
        rest: MemberPoint | None = None
        for units in self.blocks():
            behind = self.content.first + row + len(units)
            if stopped() or behind - len(units) >= self._end:
                break
            if self._by_due or behind > self._begin.at:
                rows, due_ms, _ = self.wanted(units, states[row : row + len(units)])
                at = self.content.first + row + rows
                keep = (at < self._end) & self._from_begin(at, due_ms)
                rows, due_ms, at = rows[keep], due_ms[keep], at[keep]
                keep = self.tagged(at, units["size"][rows])
                found.append(at[keep])
                due.append(due_ms[keep])
                count += len(found[-1])
            row += len(units)
            if count >= self._most and not self._by_due:
                rest = MemberPoint(0, behind) if behind < self._end else None
                break
        members = Members(np.concatenate(found), np.concatenate(due), rest)
        return self._first_by_due(members) if self._by_due else members

    def _from_begin(self, at: I64, due_ms: I64) -> np.typing.NDArray[np.bool_]:
        behind = at >= self._begin.at
        if self._by_due:
            behind &= due_ms == self._begin.due_ms
            behind |= due_ms > self._begin.due_ms
        return behind

    def _first_by_due(self, all_of_them: Members) -> Members:
        at, due_ms, _ = all_of_them
        rest = None
        if len(at) > self._most:
            last_ms = np.partition(due_ms, self._most - 1)[self._most - 1]
            keep = due_ms <= last_ms
            if not keep.all():
                rest = MemberPoint(int(due_ms[~keep].min()), 0)
            at, due_ms = at[keep], due_ms[keep]
        order = np.argsort(due_ms, kind="stable")
        return Members(at[order], due_ms[order], rest)
