"""Finds hand-overs in a node's delivery log by time and by message, without reading all of it.

The rules of file/delivery_file.py make that possible. A file's name gives the hour of its begin, and the file has no
record of a later hour. In a file every SAMPLE_ROWS-th record is read: times rise, so those show which parts can hold
the wanted time. The records of terms stand only at the begin and the end of a file.

Rows of zeros, which a power cut leaves, and rows with a wrong checksum are a hole in the account. Between the records
on either side of it the hand-overs are unknown. The end of a file is a hole too, if a later file that continues it
counts more records than there are. A hole at the end of a log is open: no record shows its end, so it may reach the end
of its hour. A hole does not stop the search, but is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.file.delivery_file import BACK_MS, READ_ROWS, DeliveryFile, Ends, cut_short, delivery_files
from storage.file.disk import Disk
from storage.format.array import I64, U64
from storage.format.position import EVER_MS, HOUR_MS
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_DELIVERIES,
    Corrupt,
    FileHeader,
    FormatRefused,
    join_rows,
    take_rows,
)
from storage.record.delivery_record import DELIVERY, END, START, Deliveries, sound

SAMPLE_ROWS: Final = 4_096
"""The search reads the time of one record in this many, which are 320 KB."""

_AT_MS: Final = 16
_SIZE: Final = DELIVERY.itemsize


class SearchTooLarge(Exception):
    """Raised if the search would read or return more records than its limits."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search for hand-overs of the messages born at `homes`, which ascend, recorded in [from_ms, until_ms).

    It may read at most `looked_max` records, and find at most `found_max`.
    """

    homes: U64
    from_ms: int
    until_ms: int
    looked_max: int = 16_000_000
    found_max: int = 1_000_000


@dataclass(slots=True)
class FoundDeliveries:
    """The result of a search.

    - `rows`: starts and ends, in the order in which they were written.
    - `edges`: the first record, the last start and the last record of each file. Records of terms are among them.
    - `holes`: [(from_ms, until_ms)], the times in which hand-overs are unknown.
    - `open_holes`: those of `holes` with no later record of the same term.
    - `first_ms`: the time of the first record of the whole log, 0 if it has none.
    - `removed`: True if older files were removed.
    - `looked`, `matched`: how many records were read, and how many of them are in `rows`.
    """

    rows: Deliveries = field(default_factory=lambda: np.zeros(0, DELIVERY))
    edges: Deliveries = field(default_factory=lambda: np.zeros(0, DELIVERY))
    holes: list[tuple[int, int]] = field(default_factory=list)
    open_holes: list[tuple[int, int]] = field(default_factory=list)
    first_ms: int = 0
    removed: bool = False
    looked: int = 0
    matched: int = 0


class _Edge(NamedTuple):
    """The facts of one file that a search keeps: in `rows` its first record, last start and last record, and its
    Ends."""

    rows: Deliveries
    ends: Ends


class DeliverySearch:
    """Searches the delivery files of one directory, in any thread, one search at a time. It remembers the edges of
    files that grow no more."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._edges: dict[DeliveryFile, _Edge] = {}

    def run(
        self,
        search: Search,
        written: tuple[DeliveryFile, int] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> FoundDeliveries:
        """Search. `written` names the file that the node writes now, and how many of its records to read.

        It stops early once `stopped` is true. A file that is removed meanwhile, or has a damaged header, counts as
        empty. Raises SearchTooLarge or DiskFailed.
        """
        files = delivery_files(self._directory, self._disk)
        if written is not None:
            files = [file for file in files if file.sequence <= written[0].sequence]
        found, parts = FoundDeliveries(removed=bool(files) and files[0].sequence > 1), []
        edges: dict[DeliveryFile, _Edge] = {}
        for file, following in zip_longest(files, files[1:]):
            live = written is not None and file == written[0]
            with_rows = file.hour * HOUR_MS - BACK_MS < search.until_ms and (file.hour + 1) * HOUR_MS > search.from_ms
            if stopped():
                break
            if not with_rows and file in self._edges:
                edges[file] = self._edges[file]
                continue
            reader = _Reader(self._directory / file.name, self._disk, written[1] if live and written else None)
            with reader:
                if reader.gone:  # removed by age, since the files were listed
                    found.removed = True
                    continue
                edges[file] = reader.edge(file)
                if with_rows:
                    until_ms = following.hour * HOUR_MS if following is not None else EVER_MS
                    parts += list(_matching(reader, search, found, max(until_ms, (file.hour + 1) * HOUR_MS), stopped))
        found.rows = join_rows(parts, DELIVERY)
        found.edges = join_rows([edge.rows for edge in edges.values()], DELIVERY)
        found.holes += cut_short(edge.ends for edge in edges.values())
        # The newest may grow, even if no file was in use when the caller looked: a term may have begun since.
        self._edges = {file: edge for file, edge in edges.items() if file != files[-1]}
        found.first_ms = int(found.edges["at_ms"][0]) if len(found.edges) else 0
        return found


def _matching(
    reader: _Reader, search: Search, found: FoundDeliveries, end_ms: int, stopped: Callable[[], bool]
) -> Iterator[Deliveries]:
    """Yield the rows of one file that the search wants. Count in `found` the rows read, and add the file's holes to
    it."""
    before_ms = reader.hour_ms
    begun_ms = -1  # begin of an open hole
    for first, last in reader.parts(search.from_ms, search.until_ms):
        if stopped():
            return
        rows = reader.read(first, last)
        found.looked += len(rows)
        if found.looked > search.looked_max:
            raise SearchTooLarge(f"more than {search.looked_max} records of the delivery log lie in that time")
        good = sound(rows)
        if not good.all() or begun_ms >= 0:
            begun_ms, holes = _holes(rows["at_ms"], good, before_ms, begun_ms)
            found.holes += holes
        if good.any():
            before_ms = int(rows["at_ms"][np.flatnonzero(good)[-1]])
        keep = good & (rows["kind"] >= START) & (rows["kind"] <= END)
        keep &= (rows["at_ms"] >= search.from_ms) & (rows["at_ms"] < search.until_ms)
        keep &= _among(np.ascontiguousarray(rows["home"]), search.homes)
        at = np.flatnonzero(keep)
        if len(at):
            found.matched += len(at)
            if found.matched > search.found_max:
                raise SearchTooLarge(f"more than {search.found_max} records of the delivery log match")
            yield take_rows(rows, at)
    if begun_ms >= 0:
        found.holes.append((begun_ms, end_ms))
        found.open_holes.append((begun_ms, end_ms))


def _holes(at_ms: I64, good: npt.NDArray[np.bool_], before_ms: int, begun_ms: int) -> tuple[int, list[tuple[int, int]]]:
    """Find the holes among these rows. Return the time at which the hole begins that is still open behind the last row,
    -1 if there is none. Also return the holes that end among the rows."""
    holes: list[tuple[int, int]] = []
    edges = np.flatnonzero(np.diff(good.astype(np.int8), prepend=np.int8(begun_ms < 0)))
    for edge in edges.tolist():
        if not good[edge]:
            begun_ms = int(at_ms[edge - 1]) if edge else before_ms
        else:
            # Exclusive: a missing row may be of the same millisecond as the record behind it.
            holes.append((begun_ms, max(begun_ms, int(at_ms[edge])) + 1))
            begun_ms = -1
    return begun_ms, holes


def _among(values: U64, sought: U64) -> npt.NDArray[np.bool_]:
    """Return a boolean array, True for each of `values` that is among the ascending `sought`."""
    if not len(sought):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(sought, values), len(sought) - 1)
    among: npt.NDArray[np.bool_] = sought[at] == values
    return among


class _Reader:
    """Reads one delivery file: its first `count` records, or all that it had when it was opened if `count` is None. Use
    it as a context manager, which closes the file."""

    def __init__(self, path: Path, disk: Disk, count: int | None) -> None:
        self._disk = disk
        self._fd = -1
        self.count = 0
        self.hour_ms = 0
        self.gone = False
        try:
            self._fd = disk.open_read(path)
        except FileNotFoundError:
            self.gone = True
            return
        try:
            header = FileHeader.decode(disk.read(self._fd, HEADER_SIZE, 0), path.name)
        except (Corrupt, FormatRefused):  # cut short as it was begun, or damaged, so that nothing in it is trusted
            return
        if header.magic == MAGIC_DELIVERIES:
            self.hour_ms = header.hour * HOUR_MS
            there = (disk.size(self._fd) - HEADER_SIZE) // _SIZE
            self.count = there if count is None else min(there, count)

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)

    def read(self, first: int, last: int) -> Deliveries:
        """Records first <= r < last, also those that are damaged or not written."""
        data = self._disk.read(self._fd, (last - first) * _SIZE, HEADER_SIZE + first * _SIZE)
        return np.frombuffer(data, DELIVERY, len(data) // _SIZE)

    def edge(self, file: DeliveryFile) -> _Edge:
        """The first record, the last start and the last record. A record that is not as written is left out."""
        first, last = self.read(0, min(1, self.count)), self.read(max(self.count - 1, 0), self.count)
        rows = join_rows([take_rows(first, np.flatnonzero(sound(first))), *self._last(len(first))], DELIVERY)
        return _Edge(rows, Ends.of(file, first, last, self.count, rows["at_ms"]))

    def _last(self, begin: int) -> list[Deliveries]:
        """The last start among the records from `begin` on, and the last record, [1] each. Records that are not as
        written do not count.

        Ends of many hand-overs may stand behind the start.
        """
        found: dict[int, Deliveries] = {}
        for until in range(self.count, begin, -SAMPLE_ROWS):
            first = max(begin, until - SAMPLE_ROWS)
            rows = self.read(first, until)
            good = np.flatnonzero(sound(rows))
            starts = good[rows["kind"][good] == START]
            for at in {*starts[-1:].tolist(), *(() if found else good[-1:].tolist())}:
                found[first + at] = rows[at : at + 1]
            if len(starts):
                break
        return [found[at] for at in sorted(found)]

    def parts(self, from_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """The runs of records, as (first, end) with at most READ_ROWS each, that may hold times from_ms <= t <
        until_ms."""
        starts = list(range(0, self.count, SAMPLE_ROWS))
        sampled = np.array([self._at_ms(row) for row in starts], np.int64)
        latest = np.maximum.accumulate(sampled) if len(sampled) else sampled  # it rises, without zeros and damage
        following = np.append(sampled[1:], EVER_MS)
        following[following <= 0] = EVER_MS
        # Records before another are at most BACK_MS later than it, records behind it at most BACK_MS earlier.
        wanted = (latest - BACK_MS < until_ms) & (following + BACK_MS >= from_ms)
        runs: list[tuple[int, int]] = []
        for row in np.flatnonzero(wanted).tolist():
            first, last = starts[row], min(starts[row] + SAMPLE_ROWS, self.count)
            if runs and runs[-1][1] == first and last - runs[-1][0] <= READ_ROWS:
                runs[-1] = runs[-1][0], last
            else:
                runs.append((first, last))
        return runs

    def _at_ms(self, row: int) -> int:
        data = self._disk.read(self._fd, 8, HEADER_SIZE + row * _SIZE + _AT_MS)
        at_ms = int.from_bytes(data, "little", signed=True)
        # A damaged time could hide records. So a time that no clock of this file's hour can show counts as unknown.
        return at_ms if self.hour_ms - BACK_MS <= at_ms < self.hour_ms + HOUR_MS else 0
