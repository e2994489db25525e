"""Which units of an hour were born elsewhere, and where: a cache over the index and the log, rebuilt from them alone.

A retry's ack names the place; the one record that tells how the message ended stands at home. 16 bytes for each moved
unit, in memory for hours in use that have one; every other hour costs a comparison.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from storage.array import I64, U64
from storage.format import UNIT_MOVED, Corrupt, Units, take_rows
from storage.hour_file import HourFile, HourFiles, runs
from storage.position import INDEX_BITS
from storage.record import HEADER, RECORD_HEADER_SIZE, RECORD_MOVED, check_headers
from storage.staging import Staged

_WORDS = np.arange(RECORD_HEADER_SIZE // 8)
_RUN_GAP_BYTES = 4096
_RUN_BYTES_MAX = 4 << 20
"""Headers this near each other are read together, up to this much at a time."""


class Homes:
    """Homes by global_index of the moved units. Rises with each append, so a look-up is one binary search."""

    __slots__ = ("_at", "_count", "_home")

    def __init__(self) -> None:
        self._at: I64 = np.empty(0, np.int64)
        self._home: U64 = np.empty(0, np.uint64)
        self._count = 0

    def add(self, at: I64, homes: U64) -> None:
        """Moved units, ascending, behind all there are."""
        start, self._count = self._count, self._count + len(at)
        if self._count > len(self._at):
            room = np.zeros(max(self._count, 2 * len(self._at), 64), np.int64)
            room[:start] = self._at[:start]
            self._at = room
            self._home = np.concatenate([self._home[:start], np.zeros(len(room) - start, np.uint64)])
        self._at[start : self._count] = at
        self._home[start : self._count] = homes

    def find(self, at: I64, places: U64) -> U64:
        """The homes of the units at these places, which have these global indexes: of one born there, its place."""
        if not self._count:
            return places
        known = self._at[: self._count]
        row = np.minimum(known.searchsorted(at), self._count - 1)
        return np.where(known[row] == at, self._home[row], places)

    def moved(self, at: I64) -> npt.NDArray[np.bool_]:
        """Which of the units with these global indexes were born elsewhere."""
        return np.isin(at, self._at[: self._count])


def read_homes(number: int, files: HourFiles, saved_units: int, staged: Staged) -> Homes:
    """The moved units of an hour: one pass over its index, one over their record headers. Raises Corrupt."""
    homes = Homes()
    for _, units in files.index.blocks(saved_units):
        moved = _moved(units)
        if len(moved):
            words = np.concatenate(list(_headers(files.log, moved["offset"].astype(np.int64))))
            _add(homes, number, moved, words, files.log.name)
    for units, base, log in zip(staged.units.arrays, staged.log.starts, staged.log.arrays, strict=True):
        moved = _moved(units)
        if len(moved):
            _add(homes, number, moved, _gather(log, moved["offset"].astype(np.int64) - base), files.log.name)
    return homes


def _moved(units: Units) -> Units:
    return take_rows(units, np.flatnonzero(units["flags"] & np.uint32(UNIT_MOVED)))


def _headers(log: HourFile, offsets: I64) -> Iterator[U64]:
    """The words of the record headers at these ascending offsets; neighbours are read together."""
    ends = offsets + RECORD_HEADER_SIZE
    for first, last in runs(offsets, ends, _RUN_GAP_BYTES, _RUN_BYTES_MAX):
        base = int(offsets[first])
        data = log.read(int(ends[last - 1]) - base, base)
        yield _gather(np.frombuffer(data, np.uint64), offsets[first:last] - base)


def _gather(words: U64, starts: I64) -> U64:
    """The words, [n, 12], of the record headers that begin at these bytes of `words`."""
    rows: U64 = words[(starts >> 3)[:, None] + _WORDS]
    return rows


def _add(homes: Homes, number: int, units: Units, words: U64, file: str) -> None:
    header = words.view(HEADER)[:, 0]
    offsets = units["offset"].tolist()
    check_headers(header, file, offsets)
    expected = np.uint64(number << INDEX_BITS) | units["global_index"]
    place = np.where(header["flags"] == RECORD_MOVED, header["place"], 0)
    wrong = np.flatnonzero(place != expected)
    if len(wrong):
        row = int(wrong[0])
        raise Corrupt(file, offsets[row], "moved record's place", int(place[row]), int(expected[row]))
    born = header["id_hour"].astype(np.uint64) << np.uint64(INDEX_BITS) | header["id_global_index"]
    homes.add(units["global_index"].astype(np.int64), born)
