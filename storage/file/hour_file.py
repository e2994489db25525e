"""The files of an hour: `log` by bytes, `index` and `settle` by rows. Opened at first use, created at the first write.

Two of these objects may have the same file open at once (the loop's and a running checkpoint's). Writes are positional
and both write the same bytes at the same place, so their order does not matter.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from storage.file.disk import Disk
from storage.file.sync_pace import SyncPace
from storage.format.array import I64
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_INDEX,
    MAGIC_LOG,
    MAGIC_SETTLE,
    SETTLE,
    UNIT,
    Corrupt,
    FileHeader,
    check_rows,
    take_rows,
)

BLOCK_ROWS: Final = 65_536
"""Rows read at a time in a pass over a whole file: 4 MiB of units."""

_RUN_GAP_ROWS: Final = 32
"""Unwanted rows that are read along instead of a second read: 2 KiB, which costs less than a call."""

Rows = npt.NDArray[np.void]


def run_edges(sorted_starts: I64, sorted_ends: I64, gap: int, most: int) -> I64:
    """Split ascending pieces [start, end) into runs that are worth one read each.

    Return the index of each run's first piece, and at the end the number of pieces, [runs + 1]. A run ends where the
    next piece begins more than `gap` bytes behind the last one's end. It also ends where the run would be longer than
    `most` bytes.
    """
    count = len(sorted_starts)
    if not count:
        return np.zeros(1, np.int64)
    cuts = (sorted_starts[1:] - sorted_ends[:-1] > gap).nonzero()[0]
    edges = np.empty(len(cuts) + 2, np.int64)
    edges[0], edges[-1] = 0, count
    np.add(cuts, 1, out=edges[1:-1])
    if not (sorted_ends[edges[1:] - 1] - sorted_starts[edges[:-1]] > most).any():
        return edges
    split = [0]
    for first, last in pairwise(edges.tolist()):
        while first < last:
            limit = int(sorted_starts[first]) + most
            first += max(1, int(np.searchsorted(sorted_ends[first:last], limit, side="right")))
            split.append(first)
    return np.array(split, np.int64)


def runs(sorted_starts: I64, sorted_ends: I64, gap: int, most: int) -> Iterator[tuple[int, int]]:
    """The runs of run_edges, each as the index of its first piece and the index behind its last piece."""
    return pairwise(run_edges(sorted_starts, sorted_ends, gap, most).tolist())


def pieces_by_bytes(starts: I64, size: int, gap: int, most: int) -> list[npt.NDArray[np.intp]]:
    """Group pieces of `size` bytes, [n] in any order, into parts in the order of the file.

    Return for each part the indexes of its pieces. To read one part takes about `most` bytes. If the bytes between two
    pieces are up to `gap`, they are read too.
    """
    order = starts.argsort(kind="stable")
    read = np.minimum(np.diff(starts[order], prepend=starts[order[:1]]), gap + size).cumsum()
    return np.split(order, np.diff(read // most).nonzero()[0] + 1)


class HourFile:
    """One file of an hour, read and written by bytes. Offsets count from its begin, so they include the header."""

    def __init__(self, disk: Disk, directory: Path, name: str, header: FileHeader) -> None:
        self._disk = disk
        self._directory = directory
        self._file = name
        self.header = header
        self._reader = -1
        self._writer = -1

    @property
    def path(self) -> Path:
        """The file's path. Made at each call, because most files are never opened and need none."""
        return self._directory / self._file

    @property
    def name(self) -> str:
        """Directory and file name, for error messages."""
        return f"{self._directory.name}/{self._file}"

    def read(self, size: int, offset: int) -> bytes:
        """Read exactly `size` bytes. Raises Corrupt if the file has fewer."""
        if self._reader < 0:
            self._open_reader(size, offset)
        data = self._disk.read(self._reader, size, offset)
        if len(data) != size:
            raise self._short(data, size, offset)
        return data

    def read_pieces(self, starts: I64, ends: I64, gap: int, most: int) -> tuple[bytes, I64]:
        """Read n > 0 ascending pieces [start, end). Return bytes that hold all pieces, and the offset of each piece in
        these bytes, [n].

        Neighbours are read together, see run_edges. Raises Corrupt if the file ends before the last piece.
        """
        edges = run_edges(starts, ends, gap, most)
        if len(edges) == 2:
            first = int(starts[0])
            return self.read(int(ends[-1]) - first, first), starts - first
        firsts = starts[edges[:-1]]
        sizes = ends[edges[1:] - 1] - firsts
        wanted, offsets = sizes.tolist(), firsts.tolist()
        if self._reader < 0:
            self._open_reader(wanted[0], offsets[0])
        parts = list(map(self._disk.read, repeat(self._reader), wanted, offsets))
        for data, size, offset in zip(parts, wanted, offsets, strict=True):
            if len(data) != size:
                raise self._short(data, size, offset)
        ahead = firsts + sizes - np.add.accumulate(sizes)  # by how much the file is ahead of the bytes, run by run
        return b"".join(parts), starts - ahead.repeat(edges[1:] - edges[:-1])

    def _open_reader(self, size: int, offset: int) -> None:
        try:
            self._reader = self._writer if self._writer >= 0 else self._disk.open_read(self.path)
        except FileNotFoundError as error:
            raise Corrupt(self.name, offset, "file", "missing", f"{offset + size} bytes") from error

    def _short(self, data: bytes, size: int, offset: int) -> Corrupt:
        return Corrupt(self.name, offset, "length", offset + len(data), f"at least {offset + size}")

    def write(self, data: Buffer, offset: int, pace: SyncPace | None = None) -> None:
        """Write at `offset`. A file without a header gets the header first. If `pace` is given, it starts to write the
        bytes out to the device."""
        if self._writer < 0:
            if not self._disk.exists(self._directory):
                self._disk.make_directory(self._directory)
            self._writer = self._disk.open_write(self.path)
            if self._disk.size(self._writer) < HEADER_SIZE:
                self._disk.write(self._writer, self.header.encode(), 0)
        self._disk.write(self._writer, data, offset)
        if pace is not None:
            pace.wrote(self._writer, offset, memoryview(data).nbytes)

    def check_header(self) -> None:
        """Raise Corrupt or FormatRefused unless the file begins with its header."""
        self.header.expect(FileHeader.decode(self.read(HEADER_SIZE, 0), self.name), self.name)

    def size(self) -> int:
        """Length of the file in bytes. The file must have been opened before, by a read."""
        return self._disk.size(self._reader)

    def sync(self) -> None:
        """Make all bytes of the file durable, also those that other objects wrote."""
        if self._writer < 0:
            self._writer = self._disk.open_write(self.path)
        self._disk.fdatasync(self._writer)

    def drain(self, pace: SyncPace) -> None:
        """Write all bytes of the file out to the device piece by piece, also those that other objects wrote. A sync
        after it finds little to do."""
        if self._writer < 0:
            self._writer = self._disk.open_write(self.path)
        pace.drain(self._writer)

    def close(self) -> None:
        """Close the descriptors. The next use opens the file again."""
        for fd in {self._reader, self._writer} - {-1}:
            self._disk.close(fd)
        self._reader = self._writer = -1


class RowFile(HourFile):
    """A file of fixed-size rows that are checked as they are read.

    The ordinals of its rows count from `first`. That is 0, except for the index of an hour that was begun again, which
    goes on with the numbers of the former hour.
    """

    def __init__(
        self, disk: Disk, directory: Path, name: str, header: FileHeader, dtype: np.dtype[np.void], first: int = 0
    ) -> None:
        super().__init__(disk, directory, name, header)
        self._dtype = dtype
        self.first = first

    def offset(self, row: int) -> int:
        """The offset in the file, in bytes, at which row `row` begins."""
        assert row >= self.first, f"row {row} of a file that begins with {self.first}"
        return HEADER_SIZE + (row - self.first) * self._dtype.itemsize

    def read_rows(self, first: int, count: int) -> Rows:
        """Read `count` rows, from ordinal `first` on. Raises Corrupt for a wrong checksum, or for a unit whose
        global_index is not its ordinal."""
        if not count:
            return np.empty(0, self._dtype)
        rows = self.read_unchecked(first, count)
        self._check(rows, np.arange(first, first + count))
        return rows

    def _check(self, rows: Rows, at: I64) -> None:
        """Raise Corrupt unless the rows are whole and, if they are units, have these ordinals."""
        check_rows(rows, self.name, at)
        if self._dtype is UNIT:
            wrong = (rows["global_index"] != at.view(np.uint64)).nonzero()[0]
            if len(wrong):
                row = int(wrong[0])
                ordinal = int(at[row])
                raise Corrupt(self.name, self.offset(ordinal), "global_index", int(rows["global_index"][row]), ordinal)

    def read_unchecked(self, first: int, count: int) -> Rows:
        """Read `count` rows, from ordinal `first` on, without any check. For callers that report every damaged row."""
        return np.frombuffer(self.read(count * self._dtype.itemsize, self.offset(first)), self._dtype)

    def row_bytes(self, row: int) -> bytes:
        """Read one row without any check, for a caller that checks many at once (`checked`)."""
        return self.read(self._dtype.itemsize, self.offset(row))

    def checked(self, data: bytes, at: I64) -> Rows:
        """Return these bytes as the rows with the ordinals `at`. Raises what `read_rows` raises."""
        rows = np.frombuffer(data, self._dtype)
        self._check(rows, at)
        return rows

    def gather_rows(self, at: I64) -> Rows:
        """Read the rows with these ordinals and return them in that order. Rows that are near each other are read
        together."""
        if len(at) <= 1 or (int(at[-1]) - int(at[0]) == len(at) - 1 and not (at[1:] - at[:-1] != 1).any()):
            return self.read_rows(int(at[0]) if len(at) else 0, len(at))  # one message, or rows that came together
        order = np.argsort(at, kind="stable")
        ranked, size = at[order], self._dtype.itemsize
        starts = (ranked - self.first) * size + self.offset(self.first)
        assert int(ranked[0]) >= self.first, f"row {ranked[0]} of a file that begins with {self.first}"
        data, begins = self.read_pieces(starts, starts + size, _RUN_GAP_ROWS * size, BLOCK_ROWS * size)
        within = np.empty_like(begins)
        within[order] = begins // size
        rows = take_rows(np.frombuffer(data, self._dtype), within)
        self._check(rows, at)
        return rows

    def blocks(self, count: int, after: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield (ordinal of the first row, rows), a block at a time. Of the first `count` rows of the file the first
        `after` are left out."""
        end = self.first + count
        for first in range(self.first + after, end, BLOCK_ROWS):
            yield first, self.read_rows(first, min(BLOCK_ROWS, end - first))

    def write_rows(self, rows: Rows, first: int, pace: SyncPace | None = None) -> None:
        """Write rows that have their checksums. `first` is the ordinal of the first one. For `pace` see
        HourFile.write."""
        self.write(np.ascontiguousarray(rows).view(np.uint8).data, self.offset(first), pace)


def directory_name(hour: int, generation: int) -> str:
    """The name of an hour's directory: `490000`, or with a generation `490000.1`.

    An hour has a generation if its number stood for an unlinked hour whose directory may still exist.
    """
    return f"{hour}.{generation}" if generation else str(hour)


def directory_of(name: str) -> tuple[int, int] | None:
    """The hour and generation of a directory name. None for any other name."""
    hour, _, generation = name.partition(".")
    if not (hour.isdecimal() and (generation or "0").isdecimal()):
        return None
    found = int(hour), int(generation or 0)
    return found if name == directory_name(*found) else None


class HourFiles:
    """The three files of one hour, `hours/<hour>/{log,index,settle}`. For `generation` see directory_name.

    `first` is the global_index of the first unit.
    """

    __slots__ = ("_again", "directory", "disk", "generation", "index", "log", "settle")

    def __init__(
        self,
        disk: Disk,
        hours: Path,
        hour: int,
        *,
        group: int,
        cluster_id: bytes,
        generation: int = 0,
        first: int = 0,
    ) -> None:
        self.disk = disk
        self._again = partial(
            HourFiles, disk, hours, hour, group=group, cluster_id=cluster_id, generation=generation, first=first
        )
        self.generation = generation
        self.directory = hours / directory_name(hour, generation)
        self.log = HourFile(disk, self.directory, "log", FileHeader(MAGIC_LOG, group, hour, cluster_id))
        index = FileHeader(MAGIC_INDEX, group, hour, cluster_id)
        settle = FileHeader(MAGIC_SETTLE, group, hour, cluster_id)
        self.index = RowFile(disk, self.directory, "index", index, UNIT, first)
        self.settle = RowFile(disk, self.directory, "settle", settle, SETTLE)

    def again(self) -> "HourFiles":
        """The same files with descriptors of their own, for another thread."""
        return self._again()

    def beginning_at(self, first: int) -> "HourFiles":
        """The same files, with `first` as the global_index of the first unit."""
        return self._again(first=first)

    def drain(self, pace: SyncPace) -> None:
        """Write all bytes of the three files out to the device piece by piece, before a sync."""
        for file in self._all():
            if self.disk.exists(file.path):
                file.drain(pace)

    def sync(self) -> None:
        """Make the written bytes of the three files durable, and their names."""
        for file in self._all():
            if self.disk.exists(file.path):
                file.sync()
        self.disk.fsync_directory(self.directory)

    def close(self) -> None:
        """Close all descriptors."""
        for file in self._all():
            file.close()

    def _all(self) -> Iterable[HourFile]:
        return (self.log, self.index, self.settle)
