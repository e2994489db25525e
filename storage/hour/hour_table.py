"""The counters of all hours of a store as one array, one row an hour. An hour out of use costs no more.

A batch may begin 20,000 hours and a store may hold 87,600, so numpy does the work for each of them. A row has 96 bytes,
no object, no file. An `Hour` is made from its row when it is used, and gives its counters back after.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.catalog.hour_lengths import LENGTHS_ROW, HourLengths, HourRows
from storage.format.array import I64
from storage.format.position import HOUR_MAX
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT, put_rows


class HourCounters(NamedTuple):
    """The counters of one hour. `saved_x` is the part of counter `x` that is in the files, and the difference waits in
    memory (staged). 0 <= saved_x <= x."""

    number: int
    generation: int  # of its directory, see unlinked_hours
    first: int  # global_index of its first unit
    units: int
    log_end: int
    settles: int
    unsettled: int
    forwarded: int  # of those, the ones that are not open
    moved: int  # of the units, born elsewhere
    saved_units: int
    saved_log_end: int
    saved_settles: int
    settled_ms: int  # `at_ms` of the last settle record, or NOT_READ

    @property
    def lengths(self) -> HourLengths:
        """The lengths of the files once all appended bytes are written. 0 for a file not begun."""
        return HourLengths(
            log_len=self.log_end if self.units else 0,
            index_len=HEADER_SIZE + self.units * UNIT.itemsize if self.units else 0,
            settle_len=HEADER_SIZE + self.settles * SETTLE.itemsize if self.settles else 0,
            units=self.units,
            unsettled=self.unsettled,
            forwarded=self.forwarded,
            moved=self.moved,
            generation=self.generation,
        )

    @property
    def written(self) -> "HourCounters":
        """These counters as they are once all staged bytes are written."""
        return self._replace(saved_units=self.units, saved_log_end=self.log_end, saved_settles=self.settles)


class HoursHeld(NamedTuple):
    """How many hours are in memory, and the bytes that heads take."""

    near: int  # near hours
    used: int  # with an object: near, warm, with staged settle records, or held by other code
    heads_bytes: int  # heads of near hours, and kept heads of others


class Extents(NamedTuple):
    """The extents of hours, in rising order, [n] each: number, global_index of the first unit, and how many units and
    settle records there are."""

    hour: I64
    first: I64
    units: I64
    settles: I64

    @classmethod
    def join(cls, parts: "Sequence[Extents]") -> "Extents":
        """Join several parts. The hours of each part are behind those of the part before."""
        nothing = np.zeros(0, np.int64)
        return cls(*(np.concatenate([nothing, *column]) for column in zip(*parts, strict=True)))

    def grown_since(self, before: "Extents") -> Iterator[tuple[int, int, int]]:
        """Yield (hour, ordinal of the first, number) of the units added since `before`. All units of an hour begun anew
        count."""
        if not len(self.hour):
            return
        counted = np.zeros(len(self.hour), np.int64)
        if len(before.hour):
            row = np.minimum(before.hour.searchsorted(self.hour), len(before.hour) - 1)
            same = (before.hour[row] == self.hour) & (before.first[row] == self.first)
            counted[same] = before.units[row[same]]
        more = np.flatnonzero(self.units > counted)
        yield from zip(
            self.hour[more].tolist(), counted[more].tolist(), (self.units - counted)[more].tolist(), strict=True
        )


COUNTERS_ROW: Final = np.dtype([(name, "<i8") for name in HourCounters._fields])

Rows = npt.NDArray[np.void]

NOT_READ: Final = -1
"""A value of `settled_ms`: the hour has a settle record, whose time was not read since the start."""

FROZEN: Final = ("number", "first", "saved_units", "saved_settles", "units", "log_end", "settles")
"""The columns that `HourTable.save` compares and sets."""

_GONE: Final = -1
"""The number in a free row."""


class HourTable:
    """HourCounters by hour. A row stays in place until its hour is unlinked."""

    def __init__(self, hours: HourRows, first: I64) -> None:
        """`hours` are all hours of a checkpoint, `first` the global indexes of their first units."""
        rows = counters_of(hours.rows, first)
        self._end = len(rows)
        self._rows = np.concatenate([rows, np.zeros(64, COUNTERS_ROW)])
        self._row_of: dict[int, int] = dict(zip(rows["number"].tolist(), range(self._end), strict=True))
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, number: int) -> bool:
        return number in self._row_of

    @property
    def rows(self) -> Rows:
        """All rows, to be read and written in place. Those with a negative number are free."""
        return self._rows[: self._end]

    def numbers(self, first: int = 0, end: int = HOUR_MAX + 1) -> list[int]:
        """The hours first <= hour < end, rising."""
        number = self.rows["number"]
        return _rising(number[(number >= max(first, 0)) & (number < end)])

    def open_numbers(self, first: int, last: int) -> list[int]:
        """The hours from `first` to `last` that hold pending or leased units, rising."""
        rows = self.rows
        number = rows["number"]
        is_open = (rows["unsettled"] > rows["forwarded"]) & (number >= max(first, 0)) & (number <= last)
        return _rising(number[is_open])

    def ended_numbers(self, first: int) -> list[int]:
        """The hours from `first` on that hold units settled for good, rising."""
        rows = self.rows
        return _rising(rows["number"][(rows["units"] > rows["unsettled"]) & (rows["number"] >= max(first, 0))])

    def extents(self, numbers: Sequence[int] | None = None) -> Extents:
        """The extents of those of the hours `numbers`, which rise, that exist. If `numbers` is None, those of all
        hours."""
        number = self.rows["number"]
        if numbers is None:
            at = np.argsort(number)[np.count_nonzero(number < 0) :]
        else:
            at = self.find(number for number in numbers if number in self)
        rows = self.rows[at]
        return Extents(rows["number"], rows["first"], rows["units"], rows["settles"])

    def get(self, number: int) -> HourCounters | None:
        """An hour's counters, or None."""
        row = self._row_of.get(number)
        return None if row is None else HourCounters._make(self._rows[row].item())

    def put(self, counters: HourCounters) -> None:
        """Set the counters of an existing hour."""
        self._rows[self._row_of[counters.number]] = counters

    def find(self, numbers: Iterable[int]) -> I64:
        """The indexes, in `rows`, of the rows of these hours, which must exist."""
        row_of = self._row_of
        return np.array([row_of[number] for number in numbers], np.int64)

    def begin(self, numbers: list[int], generations: Sequence[int], firsts: Sequence[int]) -> None:
        """Add rows for hours that do not exist yet. The new rows count no units."""
        at = self._take(len(numbers))
        for number, row in zip(numbers, at.tolist(), strict=True):
            assert number not in self._row_of, f"hour {number} is there"
            self._row_of[number] = row
        rows = np.zeros(len(numbers), COUNTERS_ROW)
        rows["number"], rows["generation"], rows["first"] = numbers, generations, firsts
        rows["log_end"] = rows["saved_log_end"] = HEADER_SIZE
        put_rows(self._rows, at, rows)

    def _take(self, count: int) -> I64:
        """Take free rows for `count` hours and return their indexes. If too few are free, the table grows."""
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        begin, self._end = self._end, self._end + count - len(reused)
        if self._end > len(self._rows):
            more = max(self._end, 2 * len(self._rows)) - len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros(more, COUNTERS_ROW)])
        return np.array([*reused, *range(begin, self._end)], np.int64)

    def save(self, at: I64, frozen: Mapping[str, I64]) -> I64:
        """Note that a checkpoint wrote the staged bytes of the hours in these rows. `frozen` are the columns named in
        FROZEN, as they were at the freeze.

        Return the rows that were set. Hours that were unlinked or written by other code since the freeze are left out.
        """
        same = np.ones(len(at), np.bool_)
        for name in ("number", "first", "saved_units", "saved_settles"):
            same &= self._rows[name][at] == frozen[name]
        which: npt.NDArray[np.bool_] | slice = slice(None) if same.all() else same
        at = at[which]
        for name in ("units", "log_end", "settles"):
            self._rows[f"saved_{name}"][at] = frozen[name][which]
        return at

    def remove(self, number: int) -> None:
        """Drop the row of an existing hour."""
        row = self._row_of.pop(number)
        self._rows[row]["number"] = _GONE
        self._free.append(row)


def _rising(numbers: npt.NDArray[np.int64]) -> list[int]:
    return list(np.sort(numbers).tolist())


def counters_of(rows: Rows, first: I64) -> Rows:
    """Convert the hours of a checkpoint (LENGTHS_ROW) to COUNTERS_ROW with nothing staged. `first`: the global_index of
    each hour's first unit."""
    result = np.zeros(len(rows), COUNTERS_ROW)
    for name in ("generation", "units", "unsettled", "forwarded", "moved"):
        result[name] = rows[name]
    result["number"], result["first"] = rows["hour"], first
    result["log_end"] = np.maximum(rows["log_len"], np.uint64(HEADER_SIZE))
    result["settles"] = np.maximum(rows["settle_len"].astype(np.int64) - HEADER_SIZE, 0) // SETTLE.itemsize
    for name in ("units", "log_end", "settles"):
        result[f"saved_{name}"] = result[name]
    result["settled_ms"] = np.where(result["settles"] > 0, NOT_READ, 0)
    return result


def lengths_of(rows: Rows) -> HourRows:
    """Convert COUNTERS_ROW, of hours that rise, to the rows of a checkpoint. See HourCounters.lengths."""
    result = np.zeros(len(rows), LENGTHS_ROW)
    for name in ("generation", "units", "unsettled", "forwarded", "moved"):
        result[name] = rows[name]
    result["hour"] = rows["number"]
    units, settles = rows["units"], rows["settles"]
    result["log_len"] = rows["log_end"] * (units > 0)
    result["index_len"] = (HEADER_SIZE + units * UNIT.itemsize) * (units > 0)
    result["settle_len"] = (HEADER_SIZE + settles * SETTLE.itemsize) * (settles > 0)
    return HourRows(result)
