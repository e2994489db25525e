"""The set of an operation that has not ended: the messages that it still has to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from storage.format.array import I64, U32, U64, Mask
from storage.format.position import INDEX_BITS, hours_of, indexes_of
from storage.tables.operation_row import Operation


class RunningSet:
    """The set of one operation. `has` and `may_have` are asked of sets of open messages only."""

    def __init__(self, operation: Operation) -> None:
        row = operation.row
        self.operation, self.number, self.rule, self.which = operation, row.number, row.rule, row.which
        self.hours: I64 = np.frombuffer(row.hours, np.int64)
        self.ends: I64 = np.frombuffer(row.ends, np.int64)
        self._settles: I64 = np.frombuffer(row.settles, np.int64)

    def frozen(self) -> RunningSet:
        """The set as it is now. It may be asked in another thread."""
        return RunningSet(Operation(self.operation.row, self.operation.progress))

    def may_meet(self, hour: int) -> bool:
        """False if it surely has no unit of this hour left."""
        at = int(self.hours.searchsorted(hour))
        passed = not self.rule.moves and hour < self.operation.progress.reached.place >> INDEX_BITS
        return at < len(self.hours) and int(self.hours[at]) == hour and not passed

    def bounds(self, hour: int) -> tuple[int, int]:
        """The bounds of the set in one of its hours. Units at the first, a global_index, and behind it are of no set.
        Neither is what ended by a settle record at the second, an ordinal, or behind it."""
        at = int(self.hours.searchsorted(hour))
        return int(self.ends[at]), int(self._settles[at])

    def has(
        self, positions: U64, due_ms: I64, topic: U32, tags: U64, tags_of: Callable[[U64], Sequence[Sequence[str]]]
    ) -> Mask:
        """True, shape [n], for units of the set, whatever their state. The columns are those of the index. `tags_of`
        reads the tags in the records of units."""
        test = self.which.tags
        keep = self.may_have(positions, due_ms, topic, tags)
        if test is not None and len(rows := np.flatnonzero(keep)):
            keep[rows] = [test.matches(found) for found in tags_of(positions[rows])]
        return keep

    def may_have(self, positions: U64, due_ms: I64, topic: U32, tags: U64) -> Mask:
        """The same by the masks of tags alone: True also for units that only may carry the wanted tag."""
        keep = self.which.may_match(due_ms, topic, tags)
        keep &= self._not_reached(positions, due_ms)
        if keep.any():
            keep &= self._began_before(positions)
        return keep

    def _not_reached(self, positions: U64, due_ms: I64) -> Mask:
        reached = self.operation.progress.reached
        behind: Mask = positions >= np.uint64(reached.place)
        if self.rule.moves:
            behind &= due_ms == reached.due_ms
            behind |= due_ms > reached.due_ms
        return behind

    def _began_before(self, positions: U64) -> Mask:
        """True for units that were appended before the set was fixed."""
        if not len(self.hours):
            return np.zeros(len(positions), np.bool_)
        hours = hours_of(positions)
        at = np.minimum(self.hours.searchsorted(hours), len(self.hours) - 1)
        before: Mask = (self.hours[at] == hours) & (indexes_of(positions) < self.ends[at])
        return before
