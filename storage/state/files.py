"""The states files of an hour, which together cover its settle records from the first one on. Reads and extends them.

```
settle records   0 ......................... 900,000 ............ 1,100,000 ... 1,150,000 | 1,151,000
files            states.0-900000             states.900000-1100000  states.1100000-1150000 | the tail: read as records
```
Each checkpoint adds a file for the new records. If the files before it are not much longer, it joins them into one. So
there are few files, and each record is written again only a few times.

Two kinds of files do not count. One covers more records than the durable checkpoint has: the node was killed before a
later checkpoint was durable. The other is made superfluous by a longer file. Records that no file covers are read from
the settle file, so a deleted file costs only time.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from storage.file.hour_file import HourFiles
from storage.format.array import I64
from storage.format.rows import SETTLE, FileHeader, join_rows, put_rows, take_rows
from storage.state.file import (
    MAGIC_STATES,
    PAGE_UNITS,
    ROW,
    Rows,
    StateFile,
    StateWriter,
    file_name,
    newest_of,
    rows_of,
    span_of,
)

TAIL_MIN: Final = 16_384
"""A new file is written only for at least this many settle records. To read fewer takes less than a millisecond."""

_RUN_MAX: Final = 1 << 20
"""The most new settle records that one file adds: 24 MiB of rows."""

_PAGES: Final = 128
"""Pages that are joined at a time when a file is written: 65,536 units."""

_FIND_PAGES: Final = 1024
"""Pages that `StateFiles.find` reads at a time: 12 MiB of rows."""

Span = tuple[int, int]


def spans_in(names: Iterable[str], settles: int) -> list[Span]:
    """The spans, in order, of those of the named files that count in an hour of `settles` settle records. Of files that
    begin at the same record the longest counts."""
    found = sorted(span for span in map(span_of, names) if span is not None and span[1] <= settles)
    longest = dict(found)  # the longest of each begin
    spans: list[Span] = []
    at = 0
    while at in longest:
        spans.append((at, longest[at]))
        at = longest[at]
    return spans


class StateFiles:
    """The states files of an hour that count, open for reading. They cover the first `end` settle records."""

    def __init__(self, files: Sequence[StateFile]) -> None:
        self.files = list(files)
        self.end = files[-1].end if files else 0
        self.pages = max((len(file.pages) for file in files), default=0)
        self.forwards = any(file.forwards for file in files)

    @classmethod
    def open(cls, hour: HourFiles, settles: int) -> "StateFiles":
        """Open the files of an hour that has `settles` settle records on disk. Raises Corrupt or FormatRefused."""
        while settles >= TAIL_MIN:
            names = hour.disk.list_directory(hour.directory)
            with suppress(FileNotFoundError):  # a checkpoint's thread removes files that a longer one replaces
                return cls(_open(hour, spans_in(names, settles)))
        return cls([])

    def again(self) -> "StateFiles":
        """The same states files with descriptors of their own, for another thread."""
        return StateFiles([file.again() for file in self.files])

    def read(self, low: int, high: int) -> list[Rows]:
        """The rows of the pages low <= number < high, of each file, the oldest first."""
        return [file.read(low, high) for file in self.files]

    def told(self, pages: I64, tail: Rows | None) -> Rows:
        """The newest row of each unit in these pages, in order of units. `pages` ascend. `tail` has the rows of the
        settle records that the files do not cover."""
        edges = [0, *(np.flatnonzero(np.diff(pages) > 1) + 1).tolist(), len(pages)]
        runs = [(int(pages[first]), int(pages[last - 1]) + 1) for first, last in pairwise(edges)]
        parts = [join_rows([file.read(low, high) for low, high in runs], ROW) for file in self.files]
        if tail is not None:
            low, high = runs[0][0], runs[-1][1]
            rows = between(tail, low, high)
            parts.append(rows if len(runs) == 1 else take_rows(rows, _in_pages(rows, pages)))
        return newest_of(parts) if len(parts) > 1 else parts[0]

    def find(self, units: I64, tail: Rows | None) -> Rows:
        """The newest row of each of these units, in their order. It is zeros for a unit without one. `tail` is as for
        `told`."""
        found = np.zeros(len(units), ROW)
        page = units // PAGE_UNITS
        pages = np.unique(page)
        for first in range(0, len(pages), _FIND_PAGES):
            piece = pages[first : first + _FIND_PAGES]
            told = self.told(piece, tail)
            mine = np.flatnonzero((page >= piece[0]) & (page <= piece[-1]))
            place = np.minimum(told["unit"].searchsorted(units[mine]), max(len(told) - 1, 0))
            known = np.flatnonzero(told["unit"][place] == units[mine]) if len(told) else mine[:0]
            put_rows(found, mine[known], take_rows(told, place[known]))
        return found

    def close(self) -> None:
        """Close the descriptors."""
        for file in self.files:
            file.close()


def extend(hour: HourFiles, settles: int, superfluous: list[Path], used: set[Path]) -> int | None:
    """Make the files of an hour cover its `settles` settle records on disk, unless fewer than TAIL_MIN are not covered.

    It may run in any thread, and blocks it. Return the number of records covered, or None if the same files count as
    before. Superfluous files are added to `superfluous`, files that count to `used`. A file that was left by a
    checkpoint which never became durable may count now. Raises Corrupt, FormatRefused or DiskFailed.
    """
    disk, extended = hour.disk, False
    while True:
        names = disk.list_directory(hour.directory)
        spans = spans_in(names, settles)
        base = spans[-1][1] if spans else 0
        if settles - base < TAIL_MIN:
            fewer = [hour.directory / name for name in names if _superfluous(name, spans)]
            superfluous += fewer
            used.update(hour.directory / file_name(*span) for span in spans)
            return base if extended or fewer else None
        _write_one(hour, spans, base, settles if settles - base < _RUN_MAX + TAIL_MIN else base + _RUN_MAX)
        disk.fsync_directory(hour.directory)
        extended = True


def _superfluous(name: str, spans: list[Span]) -> bool:
    """True if this is the name of a states file that was not finished, or whose span is none of `spans`."""
    return name.startswith("states.") and span_of(name) not in spans


def _write_one(hour: HourFiles, spans: list[Span], base: int, end: int) -> None:
    """Write one file for the records from `base` to `end`.

    It includes files before it that are at most twice as long as the records behind them.
    """
    kept = len(spans)
    while kept and spans[kept - 1][1] - spans[kept - 1][0] <= 2 * (end - spans[kept - 1][1]):
        kept -= 1
    first = hour.index.first
    fresh, forwards = rows_of(read_settles(hour, base, end), base, first)
    old = StateFiles(_open(hour, spans[kept:]))
    writer = StateWriter(
        hour.disk, hour.directory, _header(hour), first, (spans[kept][0] if kept < len(spans) else base, end)
    )
    pages = max(old.pages, int(fresh["unit"][-1]) // PAGE_UNITS + 1)
    writer.begin(pages)
    for low in range(0, pages, _PAGES):
        high = min(pages, low + _PAGES)
        writer.add(low, high, newest_of([*old.read(low, high), between(fresh, low, high)]))
    writer.finish(forwards=forwards or old.forwards)
    old.close()


def read_settles(hour: HourFiles, begin: int, end: int) -> Rows:
    """The settle records begin <= ordinal < end on disk, as one array."""
    parts = [rows for _, rows in hour.settle.blocks(end, begin)]
    return join_rows(parts, SETTLE)


def between(rows: Rows, low: int, high: int) -> Rows:
    """Those of `rows`, which are in order of units, that lie in the pages low <= number < high."""
    edges = rows["unit"].searchsorted(np.array([low * PAGE_UNITS, high * PAGE_UNITS]))
    return rows[edges[0] : edges[1]]


def _in_pages(rows: Rows, pages: I64) -> I64:
    """The indexes of the rows whose units are in these pages, ascending."""
    page = rows["unit"].astype(np.int64) // PAGE_UNITS
    return np.flatnonzero(pages[np.minimum(pages.searchsorted(page), len(pages) - 1)] == page)


def _header(hour: HourFiles) -> FileHeader:
    its = hour.settle.header
    return FileHeader(MAGIC_STATES, its.group, its.hour, its.cluster_id)


def open_span(hour: HourFiles, span: Span) -> StateFile:
    """Open the states file that covers these settle records. Raises Corrupt or FormatRefused."""
    return StateFile(hour.disk, hour.directory / file_name(*span), _header(hour), hour.index.first)


def _open(hour: HourFiles, spans: Iterable[Span]) -> list[StateFile]:
    return [open_span(hour, span) for span in spans]
