"""The selected messages of an hour in order of (due time, place), from a given point on: a page of a list.

The page captures the hour at one moment (selection.py) and is read in a thread. The first seconds of a large near hour
are read by their chains, so that only their units are read. That goes on until it costs a quarter of a whole pass.
Everything else is found in one pass over the index, which keeps only the units that come first.

The order within an hour is exact, whatever the size of the hour. So a message that stands still is on exactly one page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import U8
from storage.format.chain import walk
from storage.format.position import HOUR_MS, INDEX_BITS, INDEX_MAX, pack
from storage.format.rows import UNIT, Units, join_rows, take_rows
from storage.hour.hour import Hour
from storage.query.selection import SelectedHour, Selection

CHAIN_UNITS_MIN: Final = 65_536
"""A smaller hour is read in one pass, a few milliseconds."""
_CHAIN_COST: Final = 4
"""To read a unit by its chain takes as long as to read this many units of the index in a row."""
_SECOND_COST: Final = 256
"""To begin a chain takes as long as to read this many units of it."""
_TAGGED_TIMES: Final = 4
"""With a tag a pass keeps this many times the units asked for, because some turn out to lack the tag."""


class PageStart(NamedTuple):
    """A point in the order of all messages. The messages from it on are those with this `due_ms` whose position is at
    least `place`, and those with a later one."""

    due_ms: int
    place: int

    @classmethod
    def behind(cls, due_ms: int, place: int) -> PageStart:
        """The point right behind a message."""
        return cls(due_ms, place + 1)

    @classmethod
    def at_hour(cls, hour: int) -> PageStart:
        """The point where an hour begins."""
        return cls(hour * HOUR_MS, 0)


class Listed(NamedTuple):
    """Messages in order of (due time, global_index): their units, [n]. `next`: where the rest of the hour begins, None
    if it has no more."""

    units: Units
    next: PageStart | None


class HourPage(SelectedHour):
    """Finds the first selected messages of one hour from `begin` on. Make it on the loop's thread, and call `run` once,
    in any thread."""

    def __init__(self, hour: Hour, selection: Selection, now_ms: int, begin: PageStart, most: int) -> None:
        """`most`: at most this many messages are found, at least 1."""
        super().__init__(hour, selection, now_ms, tells_standing=False)
        self._begin_ms = max(begin.due_ms, hour.number * HOUR_MS)
        self._begin_at = begin.place & INDEX_MAX if begin.place >> INDEX_BITS == hour.number else 0
        self._most = most
        heads = hour.heads() if hour.near and hour.units >= CHAIN_UNITS_MIN else None
        self._heads = None if heads is None else (heads.after.copy(), heads.count.copy())

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Listed:
        """Find them. Once `stopped` is true it stops early, and its result is of no use. Raises Corrupt or DiskFailed.
        If the hour was unlinked meanwhile, these show no damage."""
        try:
            return self._listed(self._first_units(stopped))
        finally:
            self.close()

    def _first_units(self, stopped: Callable[[], bool]) -> _First:
        first = _First(self._most * (_TAGGED_TIMES if self.selection.which.tags is not None else 1))
        begin_ms = self._by_chains(first)
        if begin_ms is None:
            return first
        row, states = 0, self.states()
        for units in self.blocks():
            if stopped():
                break
            self._look(units, states[row : row + len(units)], begin_ms, first)
            row += len(units)
        return first

    def _by_chains(self, first: _First) -> int | None:
        """Look at the first seconds by their chains. Return the due time from which the units are still to be looked
        at, None if no further ones are needed."""
        if self._heads is None:
            return self._begin_ms
        hour_ms, until_ms = self.content.number * HOUR_MS, self.selection.which.to_ms
        after, count = self._heads
        begin = (self._begin_ms - hour_ms) // 1000
        index, left = self.content.files.index, self.units // _CHAIN_COST
        for second in (begin + np.flatnonzero(count[begin:])).tolist():
            second_ms = hour_ms + 1000 * second
            if until_ms is not None and second_ms >= until_ms:
                return None
            if first.full:
                first.dropped = True
                return None
            last, units = int(after[second]) - 1, int(count[second])
            left -= units + _SECOND_COST
            if left < 0:
                return second_ms
            chain = walk(second, last, units, index, least=self.content.first)
            self._look(
                chain, self.states()[chain["global_index"].astype(np.int64) - self.content.first], second_ms, first
            )
        return None

    def _look(self, units: Units, state: U8, begin_ms: int, first: _First) -> None:
        """Add the wanted ones of some units, whose states are `state`, to `first`, if they are due at `begin_ms` or
        later."""
        rows, due_ms, _ = self.wanted(units, state)
        at = units["global_index"][rows].astype(np.int64)
        keep = due_ms >= max(begin_ms, self._begin_ms)
        keep &= (due_ms > self._begin_ms) | (at >= self._begin_at)
        first.add(units, rows[keep])

    def _listed(self, first: _First) -> Listed:
        """The first `most` units that have a wanted tag."""
        units = first.in_order()
        at, size = units["global_index"].astype(np.int64), units["size"]
        kept, looked = np.empty(0, np.intp), 0
        while looked < len(at) and len(kept) < self._most:
            piece = slice(looked, looked + self._most)
            kept = np.concatenate([kept, looked + np.flatnonzero(self.tagged(at[piece], size[piece]))])
            looked = min(piece.stop, len(at))
        if len(kept) > self._most:
            kept = kept[: self._most]
            looked = int(kept[-1]) + 1
        due, place = (int(units["due_ms"][looked - 1]), int(at[looked - 1])) if looked else (0, 0)
        more = first.dropped or looked < len(at)
        rest = PageStart.behind(due, pack(self.content.number, place)) if more else None
        return Listed(take_rows(units, kept), rest)


class _First:
    """Keeps the units that come first in order of (due time, global_index), of those added, up to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[Units] = []
        self._count = 0
        self._last_ms: int | None = None  # due then or later, a further unit is not among the first
        self.dropped = False
        """True if some units were not kept."""

    @property
    def full(self) -> bool:
        """True if no unit that is due later than all added ones is among the first."""
        return self._count >= self._most

    def add(self, units: Units, rows: npt.NDArray[np.intp]) -> None:
        """Add these rows of `units`. Of two units that are due at once, the one with the smaller global_index comes
        first, in the same call or an earlier one."""
        if self._last_ms is not None:
            keep = units["due_ms"][rows] < self._last_ms
            self.dropped |= not keep.all()
            rows = rows[keep]
        if not len(rows):
            return
        self._parts.append(take_rows(units, rows))
        self._count += len(rows)
        if self._count >= 2 * self._most:
            self._parts = [self.in_order()]
            self._count, self._last_ms = self._most, int(self._parts[0]["due_ms"][-1])

    def in_order(self) -> Units:
        """The units that come first, in order."""
        if not self._parts:
            return np.empty(0, UNIT)
        units = join_rows(self._parts, UNIT)
        order = np.lexsort((units["global_index"], units["due_ms"]))
        self.dropped |= len(order) > self._most
        return take_rows(units, order[: self._most])
