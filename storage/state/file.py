"""A states file of an hour: the newest row of each unit that a run of its settle records names.

It is only a cache of the settle file. A checkpoint writes it once, it never changes, and it follows from the settle
records alone. Units are in order, so a look at a unit reads one page of 512 units and not the hour. Numbers of units
count from the hour's first one. The name gives the records: `states.<from>-<to>`, ordinals, the last one excluded.

Behind the file's header (HWSTATES), 32 bytes about it, then 12 bytes a page, then 24 bytes a row:
```
 0       8      12   16     20      24      28       32
 | first | from | to | rows | pages | flags | crc32c |
 0       4       6        8        12
 | start | count | states | crc32c |
 0      4        8      16     20        22      23     24
 | unit | newest | when | term | attempt | state | zero |
```
- About the file: `first` is the global_index of the hour's first unit. Flag 1: one of the records says forwarded.
- A page: its first row, its number of rows, and one bit for each state in it, by the state's number modulo 16. Its
  `crc32c` is over the page's number, the fields before it, and the rows.
- A row: `newest` is 1 + the ordinal of the unit's newest record. The other fields are that record's.
"""

import struct
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from storage.file.disk import Disk
from storage.file.sync_pace import SyncPace
from storage.format.array import I64, U8, U16
from storage.format.rows import HEADER_SIZE, SETTLE, Corrupt, FileHeader, Settles, take_rows
from storage.format.states import FORWARDED, LEASED, LEAVES

MAGIC_STATES: Final = b"HWSTATES"
PAGE_UNITS: Final = 512
ROW: Final = np.dtype(
    [
        ("unit", "<u4"),
        ("newest", "<u4"),
        ("when", "<i8"),
        ("term", "<u4"),
        ("attempt", "<u2"),
        ("state", "u1"),
        ("zero", "u1"),
    ]
)
PAGE: Final = np.dtype([("start", "<u4"), ("count", "<u2"), ("states", "<u2"), ("check", "<u4")])
assert (ROW.itemsize, PAGE.itemsize) == (24, 12)

Rows = npt.NDArray[np.void]

_WHOLE: Final = np.dtype((np.void, ROW.itemsize))
_ABOUT: Final = struct.Struct("<QIIIII")
_CRC: Final = struct.Struct("<I")
_PAGE_NUMBER: Final = struct.Struct("<I")
_ABOUT_SIZE: Final = _ABOUT.size + _CRC.size
_PAGES_AT: Final = HEADER_SIZE + _ABOUT_SIZE
_PREFIX: Final = "states."
NEW_SUFFIX: Final = ".new"
_FORWARDS: Final = 1
_BITS: Final = 16


def file_name(begin: int, end: int) -> str:
    """The name of the file that covers the settle records begin <= ordinal < end."""
    return f"{_PREFIX}{begin}-{end}"


def span_of(name: str) -> tuple[int, int] | None:
    """(begin, end) of a file of this name. None for any other name."""
    begin, dash, end = name.removeprefix(_PREFIX).partition("-")
    if not (name.startswith(_PREFIX) and dash and begin.isdecimal() and end.isdecimal()):
        return None
    return (int(begin), int(end)) if name == file_name(int(begin), int(end)) and int(begin) < int(end) else None


def rows_of(settles: Settles, begin: int, first: int) -> tuple[Rows, bool]:
    """The last of each unit's settle records as rows, in order, and True if a record says forwarded.

    The first of the contiguous records has ordinal `begin`. `first` is the global_index of the hour's first unit.
    """
    rows = np.zeros(len(settles), ROW)
    what = settles["what"]
    rows["unit"] = settles["global_index"] - np.uint64(first)
    rows["newest"] = np.arange(begin + 1, begin + 1 + len(settles))
    rows["term"], rows["attempt"] = settles["term"], settles["attempt"]
    forwarded = what == FORWARDED
    rows["when"] = settles["when"] * (forwarded | (what == LEASED))
    rows["state"] = LEAVES[what]
    return _last_of_each(rows), bool(forwarded.any())


def newest_of(parts: Iterable[Rows]) -> Rows:
    """The newest row of each unit, in order of units. Each of `parts` has rows in order of units, and older parts come
    first."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else np.empty(0, ROW)
    return _last_of_each(np.concatenate([part.view(_WHOLE) for part in some]).view(ROW))


def _last_of_each(rows: Rows) -> Rows:
    order = rows["unit"].argsort(kind="stable")
    unit = rows["unit"][order]
    return take_rows(rows, order[np.append(unit[1:] != unit[:-1], True)] if len(rows) else order)


class StateFile:
    """A states file, open for reading until `close`."""

    _fd = -1

    def __init__(self, disk: Disk, path: Path, header: FileHeader, first: int) -> None:
        """Open the file. Raises Corrupt or FormatRefused, FileNotFoundError."""
        self._disk = disk
        self._path = path
        self.name = f"{path.parent.name}/{path.name}"
        self._fd = disk.open_read(path)
        try:
            self._read_about(header, first)
        except BaseException:
            self.close()
            raise

    def _read_about(self, header: FileHeader, first: int) -> None:
        data = self._read(_PAGES_AT, 0)
        header.expect(FileHeader.decode(data, self.name), self.name)
        about = data[HEADER_SIZE : HEADER_SIZE + _ABOUT.size]
        found, expected = google_crc32c.value(about), _CRC.unpack_from(data, HEADER_SIZE + _ABOUT.size)[0]
        if found != expected:
            raise Corrupt(self.name, HEADER_SIZE, "checksum", f"{found:08x}", f"{expected:08x}")
        its_first, self.begin, self.end, self.rows, pages, flags = _ABOUT.unpack(about)
        expect = (first, *(span_of(self._path.name) or ()))
        if (its_first, self.begin, self.end) != expect:
            raise Corrupt(self.name, HEADER_SIZE, "first, from, to", (its_first, self.begin, self.end), expect)
        self.forwards = bool(flags & _FORWARDS)
        self.pages: Rows = np.frombuffer(self._read(pages * PAGE.itemsize, _PAGES_AT), PAGE)

    def again(self) -> "StateFile":
        """The same file with a descriptor of its own, for another thread. Works even if a checkpoint has removed the
        file."""
        fd = self._disk.duplicate(self._fd)
        again = copy(self)
        again._fd = fd
        return again

    def read(self, low: int, high: int) -> Rows:
        """The rows of the pages low <= number < high. Raises Corrupt."""
        pages = self.pages[low:high]
        if not pages["count"].any():
            return np.empty(0, ROW)
        starts, counts = pages["start"].tolist(), pages["count"].tolist()
        begin, end = starts[0], starts[-1] + counts[-1]
        offset = _PAGES_AT + self.pages.nbytes + begin * ROW.itemsize
        data = self._read(max(0, end - begin) * ROW.itemsize, offset)
        heads, size = pages.tobytes(), PAGE.itemsize
        for at, (start, count, check) in enumerate(zip(starts, counts, pages["check"].tolist(), strict=True)):
            place = (start - begin) * ROW.itemsize
            found = _page_check(low + at, heads[at * size :], data[place : place + count * ROW.itemsize])
            if found != check:
                where = _PAGES_AT + (low + at) * PAGE.itemsize
                raise Corrupt(self.name, where, f"checksum of page {low + at}", f"{found:08x}", f"{check:08x}")
        return np.frombuffer(data, ROW)

    def check_pages(self, rows: Rows) -> None:
        """Raise Corrupt unless the page rows in the file are those that `rows` make. `rows` are all rows of the
        file."""
        pages = pages_of(0, len(self.pages), rows)
        for name in ("start", "count", "states"):
            wrong = np.flatnonzero(pages[name] != self.pages[name])
            if len(wrong):
                page = int(wrong[0])
                found, expected = int(self.pages[name][page]), int(pages[name][page])
                raise Corrupt(self.name, _PAGES_AT + page * PAGE.itemsize, f"{name} of page {page}", found, expected)

    def _read(self, size: int, offset: int) -> bytes:
        data = self._disk.read(self._fd, size, offset)
        if len(data) != size:
            raise Corrupt(self.name, offset, "length", offset + len(data), f"at least {offset + size}")
        return data

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        """Close the descriptor, so that a file whose thread never ran leaves no descriptor open."""
        self.close()


class StateWriter:
    """Writes one states file page by page, in any thread. It has the suffix `.new` until it is complete and durable."""

    def __init__(self, disk: Disk, directory: Path, header: FileHeader, first: int, span: tuple[int, int]) -> None:
        self._disk = disk
        self._outflow = SyncPace(disk)
        self._path = directory / file_name(*span)
        self._header = header
        self._about = (first, *span)
        self._pages: list[Rows] = []
        self._rows = 0

    def begin(self, pages: int) -> None:
        """Begin a file of `pages` pages."""
        self._count = pages
        self._rows_at = _PAGES_AT + pages * PAGE.itemsize
        self._fd = self._disk.open_write(self._path.with_name(self._path.name + NEW_SUFFIX))
        self._disk.truncate(self._fd, 0)

    def add(self, low: int, high: int, rows: Rows) -> None:
        """Add the rows, in order, of the next pages, low <= number < high."""
        data = rows.tobytes()
        at = self._rows_at + self._rows * ROW.itemsize
        self._disk.write(self._fd, data, at)
        self._outflow.wrote(self._fd, at, len(data))
        self._outflow.pause()
        pages = pages_of(low, high, rows)
        places = [*(pages["start"].astype(np.int64) * ROW.itemsize).tolist(), len(data)]
        pages["start"] += np.uint32(self._rows)
        heads, size = pages.tobytes(), PAGE.itemsize
        pages["check"] = [
            _page_check(low + at, heads[at * size :], data[places[at] : places[at + 1]]) for at in range(high - low)
        ]
        self._pages.append(pages)
        self._rows += len(rows)

    def finish(self, *, forwards: bool) -> None:
        """Make the complete file durable, and then give it its name."""
        pages = b"".join(part.tobytes() for part in self._pages)
        assert len(pages) == self._count * PAGE.itemsize, f"{len(pages)} bytes of {self._count} pages"
        about = _ABOUT.pack(*self._about, self._rows, self._count, _FORWARDS if forwards else 0)
        head = self._header.encode() + about + _CRC.pack(google_crc32c.value(about))
        self._disk.write(self._fd, head + pages, 0)
        self._disk.fdatasync(self._fd)
        self._disk.close(self._fd)
        self._disk.rename(self._path.with_name(self._path.name + NEW_SUFFIX), self._path)


def pages_of(low: int, high: int, rows: Rows) -> Rows:
    """The page rows of the pages low <= number < high, made from the rows of their units, still without checksums.

    `start` counts from the first of `rows`.
    """
    edges = rows["unit"].searchsorted(np.arange(low, high + 1) * PAGE_UNITS)
    pages = np.zeros(high - low, PAGE)
    pages["start"], pages["count"] = edges[:-1], np.diff(edges)
    pages["states"] = _states_in(rows, edges)
    return pages


def _states_in(rows: Rows, edges: I64) -> npt.NDArray[np.uint16]:
    """For each page p, with the rows edges[p] <= r < edges[p + 1]: a number with one bit for each state that a row of
    it has."""
    bits = np.append(page_bit(rows["state"]), np.uint16(0))
    masks: npt.NDArray[np.uint16] = np.bitwise_or.reduceat(bits, edges[:-1])
    masks[edges[:-1] == edges[1:]] = 0
    return masks


def page_bit(state: U8) -> U16:
    """The bit that stands for each state in the `states` of a page. Two states may share a bit; then a search for one
    may read a page in vain."""
    return np.uint16(1) << (state & np.uint8(_BITS - 1)).astype(np.uint16)


def _page_check(number: int, head: bytes, rows: bytes) -> int:
    crc = google_crc32c.value(_PAGE_NUMBER.pack(number) + head[: PAGE.itemsize - _CRC.size])
    return int(google_crc32c.extend(crc, rows))


assert SETTLE["previous"].itemsize == ROW["newest"].itemsize == 4
