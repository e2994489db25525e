"""Keeps appended batches of hours that are not near in memory until a checkpoint writes them.

A batch spread over a month touches hundreds of hours. A write of a few hundred bytes to each would cost two system
calls and two dirty pages per hour and batch. The journal has all of the batch, so the writes may wait. Offsets and
ordinals are given at once, only the chain is left open until the rows are written. So the content of the files does not
depend on that time.

```
batch 1   hour 9: 2 units | hour 11: 1 unit | hour 30: 1 unit     a chunk: arranged by hour, taken as it is
batch 2   hour 9: 1 unit  | hour 30: 3 units                      another
write     hour 9: 2 + 1   | hour 11: 1      | hour 30: 1 + 3      joined, 18 hours at a time
look-up   of hour 9: 2 units, then 1                              asked of every chunk, which are joined when many
```
So an append costs no step per hour. A chunk never changes: a checkpoint's thread reads its chunks while the loop adds,
joins and removes.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.chain import falls, run_edges
from storage.format.position import HOUR_MS
from storage.format.rows import SETTLE, UNIT, Settles, Units, join_rows, put_rows, take_rows
from storage.hour.batch_by_hour import gather_records, hour_order

CHUNK_OVERHEAD: Final = 1024
"""Bytes of a chunk beside its rows and records, so that the cost of many small ones is counted."""

_SETTLES_OVERHEAD: Final = 256
"""Bytes of an array of settle records beside its rows."""

_CHUNKS_ASKED_MAX: Final = 8
"""With more chunks than this a look-up joins them first."""

_CHUNKS_CUT: Final = 64
"""Chunks cut between two pauses. A cut releases the interpreter too, but for too short a time to be of use
(Disk.pause)."""

_SMALL_ROWS: Final = 64
_SMALL_CHUNKS_MAX: Final = 64
"""This many chunks of fewer than _SMALL_ROWS rows, as single messages make them, are joined as they come."""


@dataclass(slots=True)
class Chunks:
    """Rows or records of one hour that are not on disk yet: arrays, one behind the other. `starts` holds the ordinal
    (or byte offset) at which each begins."""

    starts: list[int] = field(default_factory=list)
    arrays: list[npt.NDArray[Any]] = field(default_factory=list)

    def add(self, start: int, array: npt.NDArray[Any]) -> None:
        """Add an array behind the last. It begins at `start`."""
        self.starts.append(start)
        self.arrays.append(array)

    def find(self, at: int) -> tuple[int, npt.NDArray[Any]]:
        """(start, array) of the array that holds ordinal or offset `at`."""
        chunk = bisect_right(self.starts, at) - 1
        return self.starts[chunk], self.arrays[chunk]

    def gather(self, at: I64, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """The rows with these ordinals, in that order."""
        result = np.empty(len(at), dtype)
        chunks = np.searchsorted(np.array(self.starts), at, side="right") - 1
        for chunk in np.unique(chunks).tolist():
            rows = np.flatnonzero(chunks == chunk)
            put_rows(result, rows, take_rows(self.arrays[chunk], at[rows] - self.starts[chunk]))
        return result

    def drop(self, count: int) -> None:
        """Drop the first `count` arrays, which are on disk by now."""
        del self.starts[:count]
        del self.arrays[:count]

    def copy(self) -> "Chunks":
        """The same arrays under lists of their own, for a checkpoint."""
        return Chunks(list(self.starts), list(self.arrays))

    def bytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return sum(array.nbytes + _SETTLES_OVERHEAD for array in self.arrays)

    def add_settles(self, first: int, rows: Settles) -> int:
        """Add settle records, of which the first has ordinal `first`. Return the bytes of memory that they take."""
        self.add(first, rows)
        return rows.nbytes + _SETTLES_OVERHEAD

    def joined_settles(self) -> Settles:
        """All settle records as one array."""
        return join_rows(self.arrays, SETTLE)


@dataclass(slots=True)
class Staged:
    """Units of one hour that are only in memory, without chain and checksum, and their records. In order of arrival."""

    units: Chunks = field(default_factory=Chunks)
    log: Chunks = field(default_factory=Chunks)

    def joined_units(self) -> Units:
        """All units as one new array, not linked and not sealed."""
        return join_rows(self.units.arrays, UNIT)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Units of several hours and their records, by hour and within each in order of arrival."""

    units: Units
    words: U64  # the records
    hours: I64  # rising
    rows: I64  # where each hour's units begin, and where the last one's end
    edges: I64  # the same of its records, in words
    serial: int  # rises in order of arrival

    def __len__(self) -> int:
        return len(self.units)

    @property
    def bytes(self) -> int:
        """Memory of the chunk, in bytes."""
        return self.units.nbytes + self.words.nbytes + 3 * self.rows.nbytes + CHUNK_OVERHEAD

    def find(self, hour: int) -> int | None:
        """The index of this hour among the chunk's hours, None if the chunk has no unit of it."""
        at = int(self.hours.searchsorted(hour))
        return at if at < len(self.hours) and self.hours[at] == hour else None

    def part(self, first: int, last: int) -> "Chunk":
        """The part of the hours with indexes first <= index < last."""
        row, word = int(self.rows[first]), int(self.edges[first])
        return Chunk(
            self.units[row : self.rows[last]],
            self.words[word : self.edges[last]],
            self.hours[first:last],
            self.rows[first : last + 1] - row,
            self.edges[first : last + 1] - word,
            self.serial,
        )


class Stage:
    """The units and records of far hours that wait in memory for a checkpoint, as chunks. For the loop's thread."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.bytes = 0
        """Memory of the chunks."""
        self._serial = 0
        self._frozen = 0  # a checkpoint has chunks up to this serial
        self._small = 0  # number of small chunks at the end

    def add(self, units: Units, words: U64, hours: I64, rows: I64, edges: I64) -> None:
        """Add units and records of several hours, see Chunk. They never change from now on."""
        self._serial += 1
        chunk = Chunk(units, words, hours, rows, edges, self._serial)
        self.chunks.append(chunk)
        self.bytes += chunk.bytes
        if len(units) >= _SMALL_ROWS:
            self._small = 0
            return
        self._small += 1
        if self._small == _SMALL_CHUNKS_MAX:
            self._join_last(_SMALL_CHUNKS_MAX)
            self._small = 0

    def of(self, hour: int) -> Staged:
        """The staged part of one hour."""
        staged = Staged()
        for chunk in self._parts(hour):
            staged.units.add(int(chunk.units["global_index"][0]), chunk.units)
            staged.log.add(int(chunk.units["offset"][0]), chunk.words)
        return staged

    def only(self, hour: int) -> "Stage":
        """A new stage that holds the units and records of one hour that are staged now."""
        stage = Stage()
        stage._keep(self._parts(hour))
        return stage

    def _parts(self, hour: int) -> list[Chunk]:
        if len(self.chunks) > _CHUNKS_ASKED_MAX:
            self._join_many()
        found = ((chunk, chunk.find(hour)) for chunk in self.chunks)
        return [chunk.part(at, at + 1) for chunk, at in found if at is not None]

    def lowest(self, count: int, first: int = 0) -> list[int]:
        """The numbers of staged hours from `first` on, rising, the lowest `count` of them."""
        parts = [chunk.hours[(at := int(chunk.hours.searchsorted(first))) : at + count] for chunk in self.chunks]
        hours: list[int] = np.unique(np.concatenate(parts))[:count].tolist() if parts else []
        return hours

    def within(self, first: int, last: int) -> list[Chunk]:
        """The parts of all chunks that belong to the hours from `first` to `last`, `last` included."""
        cuts = [(chunk, *chunk.hours.searchsorted((first, last + 1)).tolist()) for chunk in self.chunks]
        return [chunk.part(begin, end) for chunk, begin, end in cuts if begin < end]

    def remove(self, first: int, last: int) -> None:
        """Drop the hours from `first` to `last`, `last` included, which were written or unlinked. A chunk that also has
        hours on both sides is cut in two, without a copy."""
        kept: list[Chunk] = []
        for chunk in self.chunks:
            begin, end = chunk.hours.searchsorted((first, last + 1)).tolist()
            if begin == end:
                kept.append(chunk)
                continue
            kept += [part for part in (chunk.part(0, begin), chunk.part(end, len(chunk.hours))) if len(part)]
        self._keep(kept)

    def freeze(self) -> tuple[Chunk, ...]:
        """All chunks, for a checkpoint to write. `thaw` must come before the next call."""
        self._frozen, self._small = self._serial, 0
        return tuple(self.chunks)

    def thaw(self) -> None:
        """Drop the chunks of the last `freeze`, which the checkpoint has written."""
        self._keep([chunk for chunk in self.chunks if chunk.serial > self._frozen])

    def clear(self) -> None:
        """Drop all chunks, because everything in them was written."""
        self._keep([])

    def _keep(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks
        self.bytes = sum(chunk.bytes for chunk in chunks)
        self._small = 0

    def _join_many(self) -> None:
        """Join chunks from the newest backwards, up to a chunk of more than twice the rows joined so far. So each row
        is copied only a few times. Chunks that a checkpoint has taken are joined apart from newer ones."""
        fresh = [chunk for chunk in self.chunks if chunk.serial > self._frozen]
        taken = [chunk for chunk in self.chunks if chunk.serial <= self._frozen]
        self._keep([*_joined_tail(taken), *_joined_tail(fresh)])

    def _join_last(self, count: int) -> None:
        last = joined(self.chunks[-count:])
        self._keep([*self.chunks[:-count], last])


def _joined_tail(chunks: list[Chunk]) -> list[Chunk]:
    rows, first = 0, len(chunks)
    while first and len(chunks[first - 1]) <= 2 * max(rows, _SMALL_ROWS):
        first -= 1
        rows += len(chunks[first])
    return chunks if len(chunks) - first < 2 else [*chunks[:first], joined(chunks[first:])]


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Join chunks, in order of arrival, into one with memory of its own."""
    units = join_rows([chunk.units for chunk in chunks], UNIT)
    words = np.concatenate([chunk.words for chunk in chunks])
    hour = units["due_ms"] // HOUR_MS
    if falls(hour):
        order = hour_order(hour)
        words = gather_records(words, units["size"], order)
        units, hour = take_rows(units, order), hour[order]
    rows = run_edges(hour)
    ends = np.zeros(len(units) + 1, np.int64)
    np.add.accumulate(units["size"] >> np.uint32(3), out=ends[1:])
    return Chunk(units, words, hour[rows[:-1]], rows, ends[rows], chunks[-1].serial)


def parts(chunks: Sequence[Chunk], firsts: Sequence[int], end: int, pause: Callable[[], None]) -> Iterator[list[Chunk]]:
    """Yield for each group of hours the parts of the chunks that belong to it, in order of arrival.

    Group i holds the hours from firsts[i] up to firsts[i + 1], exclusive; the last one up to `end`. `firsts` rise.
    `pause` is called every _CHUNKS_CUT chunks, and once a group.
    """
    bounds = np.array([*firsts, end])
    cuts = np.empty((len(chunks), len(bounds)), np.int64)
    for place, chunk in enumerate(chunks):
        if place % _CHUNKS_CUT == 0:
            pause()
        cuts[place] = chunk.hours.searchsorted(bounds)
    for first, last in zip(cuts.T[:-1], cuts.T[1:], strict=True):
        pause()
        there = np.flatnonzero(first < last).tolist()
        yield [chunks[place].part(int(first[place]), int(last[place])) for place in there]
