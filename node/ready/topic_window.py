"""The next units of a topic in one lane, which is current or overdue: a queue of positions, tag masks and due times. A
unit takes 24 bytes.

Units are kept as the arrays in which they came. If units come one by one, the window would become a list of tiny
arrays. So a new array is merged with the one before it while that is at most twice as long. That leaves about log(n)
arrays, and each unit is copied about log(n) times at most.

A filtered pull takes units out of the middle and leaves the others in place. It need not look again at units that it
left. So the window numbers its units, and remembers for each filter how far it has looked:

    number          40  41  42 | 45  46        a chunk knows the number behind its last unit: 43, 47
    unit             a   b   c |  d   e
    filter "eu": 45  ---looked at---^          the next look starts at d; put_back forgets all marks

Numbers rise along the window. When units are taken out, the numbers of other units may rise but never fall. So every
unit with a number below a filter's mark has been looked at. A unit whose number rose above the mark is looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.predicate import TagFilter

_LOOK_ROWS: Final = 16_384
"""Masks are looked at in pieces of this size, so that a pull of a few units need not look at a whole window."""

MARKS_MAX: Final = 64
"""A window remembers for so many filters how far they have looked, besides the filters of pulls that wait. A filter
whose mark was forgotten looks at the whole window again, which takes 1 ns a unit."""


class LaneKind(IntEnum):
    """The two lanes of a topic, in the order in which a consumer gets their units. CURRENT units became ready under
    this leader, OVERDUE ones before it began."""

    CURRENT = 0
    OVERDUE = 1


@dataclass(frozen=True, slots=True, eq=False)
class Queued:
    """Units in the order in which to hand them over: one array [3, n] of positions, tag masks and due times. It is one
    array and not three, because an array takes 112 bytes before its first row. Three for each of 100,000 topics with
    one unit would be 34 MB."""

    columns: U64

    @classmethod
    def of(cls, position: U64, tags: U64, due_ms: I64) -> Queued:
        """Make it of arrays of shape [n] each."""
        columns = np.empty((3, len(position)), np.uint64)
        columns[0], columns[1], columns[2] = position, tags, due_ms.view(np.uint64)
        return cls(columns)

    @property
    def position(self) -> U64:
        """The positions, shape [n]."""
        column: U64 = self.columns[0]
        return column

    @property
    def tags(self) -> U64:
        """The tag mask of each unit, shape [n]: 64 bits that say which tags it may have."""
        column: U64 = self.columns[1]
        return column

    @property
    def due_ms(self) -> I64:
        """The due time of each unit, shape [n]."""
        due_ms: I64 = self.columns[2].view(np.int64)
        return due_ms

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def select(self, rows: npt.NDArray[Any] | slice) -> Queued:
        """The units in these rows, given by an array of row numbers, a boolean array or a slice. They come in the order
        of the rows."""
        if isinstance(rows, slice):
            return Queued(self.columns[:, rows])
        return Queued(self.columns.compress(rows, 1) if rows.dtype == np.bool_ else self.columns.take(rows, 1))

    def copy(self) -> Queued:
        """The same units in memory of their own."""
        return Queued(self.columns.copy())

    @classmethod
    def joined(cls, parts: list[Queued]) -> Queued:
        """The units of all parts, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return NOTHING
        return cls(np.concatenate([part.columns for part in parts], axis=1))


NOTHING: Final = Queued(np.empty((3, 0), np.uint64))


class _Chunk(NamedTuple):
    """Units that stand one behind the other in a window. The unit in row i has the number end - len(units) + i."""

    units: Queued
    end: int

    @property
    def first(self) -> int:
        return self.end - len(self.units)


class Found(NamedTuple):
    """Units that a filter may want, and their numbers, rising, shape [n] each. They are still in the window. No other
    unit in it with a number below `upto` is one that the filter may want and has not looked at."""

    units: Queued
    number: I64
    upto: int


NOTHING_FOUND: Final = Found(NOTHING, np.empty(0, np.int64), 0)


class Window:
    """The next units of one topic in one lane."""

    __slots__ = ("_flat", "_looked", "_next", "count")

    def __init__(self) -> None:
        # For each chunk its array and its end. They alternate in one tuple, which takes 64 bytes for a window of one
        # chunk. A list of chunks took 190, and there may be 100,000 windows.
        self._flat: tuple[Any, ...] = ()
        self._next = 0  # the number of the unit pushed next; above all numbers in the window
        self._looked: dict[TagFilter, int] | None = None  # the filter wants no unit below this; None: no filter looked
        self.count = 0  # always the sum of the chunks' lengths

    def push(self, units: Queued) -> None:
        """Add units at the end."""
        if len(units):
            self.count += len(units)
            self._next += len(units)
            if not self._flat:
                self._flat = units.columns, self._next
                return
            chunks = self._chunks()
            _append(chunks, _Chunk(units, self._next))
            self._keep(chunks)

    def put_back(self, units: Queued) -> None:
        """Add units at the front. All marks of filters are forgotten."""
        if len(units):
            self.count += len(units)
            chunks = self._chunks()
            self._keep([_Chunk(units, chunks[0].first if chunks else self._next), *chunks])
            self._looked = None

    def take(self, most: int) -> Queued:
        """Remove and return the first `most`, or all if there are fewer."""
        if self._flat and 0 < most < self._flat[0].shape[1]:  # a part of the first chunk, as nearly always
            first, end, *others = self._flat
            self._flat = (first[:, most:], end, *others)
            self.count -= most
            return Queued(first[:, :most])
        parts: list[Queued] = []
        chunks = self._chunks()
        while most > 0 and chunks:
            units, end = chunks.pop(0)
            if len(units) > most:
                chunks.insert(0, _Chunk(units.select(slice(most, None)), end))
                units = units.select(slice(most))
            parts.append(units)
            most -= len(units)
            self.count -= len(units)
        self._keep(chunks)
        return Queued.joined(parts)

    def shed(self, keep: int) -> Queued:
        """Remove and return the last units, all but the first `keep`, in their order."""
        parts: list[Queued] = []
        chunks = self._chunks()
        most = self.count - keep
        while most > 0:
            units, end = chunks.pop()
            if len(units) > most:
                kept = units.select(slice(-most)).copy()  # a view would keep all of the chunk in memory
                chunks.append(_Chunk(kept, end - most))
                units = units.select(slice(-most, None))
            parts.append(units)
            most -= len(units)
            self.count -= len(units)
        self._keep(chunks)
        return Queued.joined(parts[::-1])

    def _chunks(self) -> list[_Chunk]:
        flat = self._flat
        return [_Chunk(Queued(flat[at]), flat[at + 1]) for at in range(0, len(flat), 2)]

    def _keep(self, chunks: list[_Chunk]) -> None:
        self._flat = tuple([part for units, end in chunks for part in (units.columns, end)])

    # -- filtered

    def fresh(self, tags: TagFilter, marks_max: int = MARKS_MAX) -> bool:
        """True if the window has units that this filter has not looked at and may want. The window keeps the marks of
        the last `marks_max` filters."""
        seen = self._looked_upto(tags)
        if not self._flat or (seen is not None and seen >= self._flat[-1]):
            return False
        found = self.find(tags, 1)
        if not len(found.units):
            self.looked(tags, found.upto, marks_max)
        return len(found.units) > 0

    def find(self, tags: TagFilter, most: int) -> Found:
        """Find the first `most` units that the filter has not looked at and may want. They stay in the window. The
        caller calls `looked` and `remove` next."""
        parts: list[Queued] = []
        numbers: list[I64] = []
        count, start = 0, self._looked_upto(tags)
        for units, end in self._chunks():
            first = end - len(units)
            row = 0 if start is None else max(0, start - first)
            while row < len(units) and count < most:
                rows = np.flatnonzero(tags.may_match(units.tags[row : row + _LOOK_ROWS]))[: most - count] + row
                row += _LOOK_ROWS
                if len(rows):
                    parts.append(units.select(rows))
                    numbers.append(rows + first)
                    count += len(rows)
        number = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        return Found(Queued.joined(parts), number, int(number[-1]) + 1 if count >= most else self._next)

    def looked(self, tags: TagFilter, upto: int, marks_max: int = MARKS_MAX) -> None:
        """Note that the filter has looked at all units with a number below `upto`, and wants none that stays. If there
        are now more than `marks_max` marks, forget the oldest."""
        looked = self._looked = self._looked or {}
        looked.pop(tags, None)
        looked[tags] = upto
        while len(looked) > marks_max:
            del looked[next(iter(looked))]

    def _looked_upto(self, tags: TagFilter) -> int | None:
        return self._looked.get(tags) if self._looked is not None else None

    def remove(self, numbers: I64) -> None:
        """Take out the units with these numbers, rising, shape [n]. The others stay in place."""
        before: list[_Chunk] = []
        chunks = self._chunks()
        done = 0
        while done < len(numbers):
            units, end = chunks.pop(0)
            upto = int(np.searchsorted(numbers, end))
            if upto > done:
                rows = numbers[done:upto] - (end - len(units))
                behind = int(rows[-1]) + 1
                stays = np.ones(behind, np.bool_)
                stays[rows] = False
                if behind < len(units):
                    chunks.insert(0, _Chunk(units.select(slice(behind, None)), end))
                end -= len(units) - behind
                units = units.select(slice(behind)).select(stays)
                done = upto
            if len(units):
                _append(before, _Chunk(units, end))
        self._keep(before + chunks)
        self.count -= len(numbers)


def _append(chunks: list[_Chunk], chunk: _Chunk) -> None:
    """Add a chunk behind the others. It is merged with each last chunk that is at most twice as long. Numbers of units
    in merged chunks may rise."""
    units, end = chunk
    while chunks and len(chunks[-1].units) <= 2 * len(units):
        units = Queued.joined([chunks.pop().units, units])
    chunks.append(_Chunk(units, end))
