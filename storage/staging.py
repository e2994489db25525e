"""What was appended to an hour that is not near, kept in memory until a checkpoint writes it.

A batch spread over a month touches hundreds of hours; writing a few hundred bytes to each would cost two system calls
and two dirty pages per hour and batch. The journal has it all, so it may wait. Offsets and ordinals are given at once,
only the chain is left open until the rows are written: what ends up in the files does not depend on when that is.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.array import I64, U64
from storage.format import SETTLE, UNIT, Settles, Units, join_rows, put_rows, take_rows

CHUNK_OVERHEAD: Final = 256
"""Bytes a chunk costs beside its content, so that many small ones are counted for what they are."""


@dataclass(slots=True)
class Chunks:
    """Arrays one behind the other; `starts` holds the ordinal (or byte offset) at which each begins."""

    starts: list[int] = field(default_factory=list)
    arrays: list[npt.NDArray[Any]] = field(default_factory=list)

    def add(self, start: int, array: npt.NDArray[Any]) -> None:
        """Add one behind the last; `start` is where it begins."""
        self.starts.append(start)
        self.arrays.append(array)

    def find(self, at: int) -> tuple[int, npt.NDArray[Any]]:
        """(start, array) of the chunk that holds ordinal or offset `at`."""
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
        """Forget the first `count` chunks: they are on disk."""
        del self.starts[:count]
        del self.arrays[:count]

    def bytes(self) -> int:
        """Memory this holds."""
        return sum(array.nbytes + CHUNK_OVERHEAD for array in self.arrays)


@dataclass(slots=True)
class Staged:
    """Units (not linked, not sealed), their records, and sealed settle records, in the order they came."""

    units: Chunks = field(default_factory=Chunks)
    log: Chunks = field(default_factory=Chunks)
    settles: Chunks = field(default_factory=Chunks)

    def __bool__(self) -> bool:
        return bool(self.units.arrays or self.settles.arrays)

    def add_units(self, first: int, units: Units, offset: int, words: U64) -> int:
        """Add units and their records; returns the memory they take."""
        self.units.add(first, units)
        self.log.add(offset, words)
        return units.nbytes + words.nbytes + 2 * CHUNK_OVERHEAD

    def add_settles(self, first: int, rows: Settles) -> int:
        """Add settle records; returns the memory they take."""
        self.settles.add(first, rows)
        return rows.nbytes + CHUNK_OVERHEAD

    def bytes(self) -> int:
        """Memory all of it takes."""
        return self.units.bytes() + self.log.bytes() + self.settles.bytes()

    def copy(self) -> "Staged":
        """The same chunks under lists of their own: what a checkpoint takes along."""
        return Staged(
            *(Chunks(list(chunks.starts), list(chunks.arrays)) for chunks in (self.units, self.log, self.settles))
        )

    def drop(self, frozen: "Staged") -> None:
        """Forget what a checkpoint took along and has written."""
        self.units.drop(len(frozen.units.arrays))
        self.log.drop(len(frozen.log.arrays))
        self.settles.drop(len(frozen.settles.arrays))

    def joined_units(self) -> Units:
        """All units as one array of its own, still neither linked nor sealed."""
        return join_rows(self.units.arrays, UNIT)

    def joined_settles(self) -> Settles:
        """All settle records as one array."""
        return join_rows(self.settles.arrays, SETTLE)
