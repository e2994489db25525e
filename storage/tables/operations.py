"""All operations that are known, in memory, and their two tables (storage/tables/operation_row.py)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np

from storage.format.array import I64, U64
from storage.format.position import INDEX_BITS
from storage.lmdb.table import Table
from storage.tables.operation_row import (
    KEPT_MAX,
    ROW_DECODER,
    Operation,
    OperationRow,
    Progress,
    unpacked_progress,
)
from storage.tables.running_set import RunningSet

_KEY: Final = struct.Struct(">Q")


class Operations:
    """The cache of the table of operations, which also writes the table of their progress."""

    def __init__(self, table: Table, progress: Table) -> None:
        self._table, self._progress = table, progress
        self._all: dict[int, Operation] = {}
        self.running: tuple[RunningSet, ...] = ()
        """The sets of operations that have not ended, oldest first."""
        self.of_open: tuple[RunningSet, ...] = ()
        """Those of them that take open messages."""
        self._hours: I64 = np.empty(0, np.int64)  # of their sets, rising

    def load(self) -> None:
        """Read all rows. Raises Corrupt if a checksum does not match."""
        progress = dict(self._progress.rows())
        for key, value in self._table.rows():
            row = ROW_DECODER.decode(value)
            self._all[row.number] = Operation(row, unpacked_progress(progress[key]))
        self._look()

    def all(self) -> list[Operation]:
        """All operations, oldest first."""
        return list(self._all.values())

    def find(self, number: int) -> Operation | None:
        """The operation of this number. None if there never was one, or if it is forgotten."""
        return self._all.get(number)

    def meet(self, positions: U64) -> bool:
        """False if surely none of these units is of a set of open messages. It costs the look at their first and last
        hour, so that sets of other hours cost nearly nothing."""
        if not len(self._hours) or not len(positions):
            return False
        first, last = (int(each) >> INDEX_BITS for each in (positions.min(), positions.max()))
        at = int(self._hours.searchsorted(first))
        return at < len(self._hours) and int(self._hours[at]) <= last

    def held_topics(self, topics: Iterable[int]) -> frozenset[int]:
        """Those of these topics whose open messages an operation may have."""
        sets = [each.which.topics for each in self.of_open]
        return frozenset(number for number in topics if any(named is None or number in named for named in sets))

    def begin(self, row: OperationRow, progress: Progress) -> None:
        """Add an operation. Its number is greater than all others."""
        assert row.number > max(self._all, default=-1), row.number
        self._all[row.number] = Operation(row, progress)
        self._write(row)
        self._put(row.number, progress)
        self._look()

    def advance(self, number: int, progress: Progress) -> None:
        """Set the progress of an operation that has not ended. If it ends with that, its set is dropped."""
        operation = self._all[number]
        assert not operation.ended, number
        operation.progress = progress
        self._put(number, progress)
        if operation.ended:
            operation.row = operation.row.without_hours()
            self._write(operation.row)
            self._look()

    def forget(self, before_ms: int) -> None:
        """Drop operations that ended before this time, and the oldest beyond KEPT_MAX."""
        ended = sorted((each.progress.at_ms, number) for number, each in self._all.items() if each.ended)
        over = len(ended) - KEPT_MAX
        for at, (ended_ms, number) in enumerate(ended):
            if at < over or ended_ms < before_ms:
                del self._all[number]
                self._table.drop(_KEY.pack(number))
                self._progress.drop(_KEY.pack(number))

    def _write(self, row: OperationRow) -> None:
        self._table.put(_KEY.pack(row.number), row.packed())

    def _put(self, number: int, progress: Progress) -> None:
        self._progress.put(_KEY.pack(number), progress.packed())

    def _look(self) -> None:
        kept = {each.number: each for each in self.running}
        left = [each for each in self._all.values() if not each.ended]
        self.running = tuple(kept.get(each.row.number) or RunningSet(each) for each in left)
        self.of_open = tuple(each for each in self.running if each.rule.takes_open)
        self._hours = np.unique(np.concatenate([np.empty(0, np.int64), *(each.hours for each in self.of_open)]))
