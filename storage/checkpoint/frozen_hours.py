"""All hours as they are when a checkpoint begins. The loop copies their counters. The checkpoint's thread computes the
rest from the copy."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np

from storage.catalog.hour_lengths import HourRows
from storage.checkpoint.states_due import FrozenStates
from storage.checkpoint.unlinked_hours import FrozenUnlinked
from storage.format.array import I64
from storage.format.rows import UNIT
from storage.hour.heads_kept import HeadsKept
from storage.hour.hour_table import FROZEN, HourCounters, Rows, lengths_of
from storage.hour.stage_write import FrozenHour
from storage.hour.staging import Chunk, Chunks

HOUR_BYTES: Final = 4 * 4096
"""Disk space of an hour's directory and its three files beside their content, in blocks of the usual size."""


class FrozenHours:
    """The work of one checkpoint on hours: the bytes to write and sync, the lengths that the files then have, and the
    directories to remove. Made by HourSet.freeze."""

    def __init__(
        self,
        rows: Rows,
        settles: Mapping[int, Chunks],
        chunks: tuple[Chunk, ...],
        written: frozenset[int],
        unlinked: FrozenUnlinked,
        heads: HeadsKept,
        ahead: range,
        states: FrozenStates,
    ) -> None:
        self.rows = rows
        """A copy of all rows of the hour table (hour/hour_table.py), unused ones too."""
        self.chunks = chunks
        self.unlinked = unlinked
        self.heads = heads
        """A fork of the kept heads (hour/heads_kept.py). The thread adds the heads of the hours that it writes."""
        self.states = states
        self._settles = settles
        self._ahead = ahead
        self._written = written

    @property
    def near_end(self) -> int:
        """The number of the first hour after the near hours. The loop writes near hours at once, so a checkpoint only
        syncs them."""
        return self._ahead.start

    def prepare(self) -> None:
        """Compute `staged_columns` in the thread, so that the loop finds them ready when the checkpoint is durable."""
        _ = self.staged_columns

    @cached_property
    def _rising(self) -> I64:
        """Indexes of the rows that hold an hour, in rising order of the hours."""
        number = self.rows["number"]
        hours = np.flatnonzero(number >= 0)
        return hours[number[hours].argsort(kind="stable")]

    @cached_property
    def staged_rows(self) -> I64:
        """Indexes of the rows of hours with bytes that are only in memory (staged), in rising order of the hours."""
        rows = self.rows
        staged = (rows["units"] > rows["saved_units"]) | (rows["settles"] > rows["saved_settles"])
        return self._rising[staged[self._rising]]

    @cached_property
    def staged_columns(self) -> Mapping[str, I64]:
        """The columns, by name, that HourTable.save needs of the rows `staged_rows`."""
        return {name: self.rows[name][self.staged_rows] for name in FROZEN}

    @property
    def staged_bytes(self) -> int:
        """The most disk space, in bytes, that the staged units and their records need. Settle records are left out."""
        rows = self.rows[self.staged_rows]
        units, records = rows["units"] - rows["saved_units"], rows["log_end"] - rows["saved_log_end"]
        return int((units * UNIT.itemsize + records).sum()) + HOUR_BYTES * len(rows)

    @property
    def staged(self) -> Iterator[FrozenHour]:
        """The hours with staged bytes, which the checkpoint writes, in rising order."""
        return map(self._hour, self.staged_rows.tolist())

    @property
    def ahead(self) -> list[FrozenHour]:
        """The hours just after the near ones, which become near next. The checkpoint reads their heads."""
        number = self.rows["number"]
        ahead = (number >= self._ahead.start) & (number < self._ahead.stop)
        return [self._hour(row) for row in np.flatnonzero(ahead).tolist()]

    def _hour(self, row: int) -> FrozenHour:
        hour = HourCounters._make(self.rows[row].item())
        size = hour.log_end - hour.saved_log_end + (hour.units - hour.saved_units) * UNIT.itemsize
        settles = self._settles[hour.number] if hour.settles > hour.saved_settles else None
        return FrozenHour(
            hour.number, hour.generation, hour.first, hour.saved_units, hour.units, size, hour.saved_settles, settles
        )

    @property
    def staged_numbers(self) -> list[int]:
        """The numbers of the hours of `staged`."""
        numbers: list[int] = self.rows["number"][self.staged_rows].tolist()
        return numbers

    @cached_property
    def lengths(self) -> HourRows:
        """The lengths that the files of all hours have once the checkpoint has written them."""
        return lengths_of(self.rows[self._rising])

    @property
    def there(self) -> tuple[I64, I64]:
        """The numbers of all hours that exist, rising, and the global_index of each one's first unit, [n] each."""
        rows = self.rows[self._rising]
        return rows["number"], rows["first"]

    @property
    def touched(self) -> set[int]:
        """The numbers of the hours that were written to since the last checkpoint, or that this checkpoint writes."""
        return {*self._written, *self.staged_numbers}

    @cached_property
    def synced(self) -> list[tuple[int, int, int]]:
        """(number, generation, global_index of the first unit) of each hour in `touched`."""
        wanted = self.touched
        at = self._rising[np.isin(self.rows["number"][self._rising], list(wanted))]
        return [(number, generation, first) for number, generation, first, *_ in self.rows[at].tolist()]
