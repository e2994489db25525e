"""The files of the delivery log. Records are appended. Each hour, past a bound of bytes, and after each start, a new
file is begun. Old files are removed.

Four rules hold for every file, so that a reader finds its records without reading all files:
- Its first record is of the hour in its name, and no record is of a later hour.
- Its times rise, apart from steps back of at most BACK_MS. If the clock goes back by more, another file is begun.
- It belongs to one term at most. The record of a term's begin is the first of a file, that of its end the last.
- If it continues the file before, its first record counts the records of that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from storage.file.disk import Disk
from storage.format.array import I64
from storage.format.position import EVER_MS, HOUR_MS
from storage.format.rows import HEADER_SIZE, MAGIC_DELIVERIES, FileHeader
from storage.record.delivery_record import (
    DELIVERY,
    GOES_ON,
    TERM_BEGUN,
    Deliveries,
    read_deliveries,
    seal_deliveries,
    sound,
    term_before,
)

FILE_BYTES_MAX: Final = 64 << 20
BACK_MS: Final = 10_000
READ_ROWS: Final = 65_536
"""Records read at a time: 5 MB."""
_MANY: Final = 1 << 62  # more records than any file has

_NAME: Final = re.compile(r"(\d{1,8})-(\d{6,})\.log")


class DeliveryFile(NamedTuple):
    """A file of the delivery log by its name: the hour in which it was begun, and its ordinal among all files."""

    hour: int
    sequence: int

    @property
    def name(self) -> str:
        """Its name in `deliveries/`."""
        return f"{self.hour}-{self.sequence:06d}.log"


class Ends(NamedTuple):
    """Facts from the first and last record of a delivery file. The times are 0 if no record is as written."""

    file: DeliveryFile
    first_ms: int
    last_ms: int
    records: int
    """The number of records. 0 if the last is not as written."""
    before: int
    """The records of the file before if this file continues it, else 0. _MANY if the first record is not as written."""

    @classmethod
    def of(cls, file: DeliveryFile, first: Deliveries, last: Deliveries, size: int, whole: I64) -> Ends:
        """The ends of a file of `size` records.

        `first` and `last` are those records as they stand, [1], or [0] of an empty file. `whole` has times of sound
        records, in order: at least those of the first and the last sound one.
        """
        before = int(first["took_ms"][first["kind"] == GOES_ON].sum()) if sound(first).all() else _MANY
        first_ms, last_ms = (int(whole[0]), int(whole[-1])) if len(whole) else (0, 0)
        return cls(file, first_ms, last_ms, size if sound(last).all() else 0, before)


def whole_from_ms(first_ms: int) -> int:
    """The time from which a log is complete, if the first record of its oldest file is of `first_ms`.

    Earlier files were removed by age, or were lost with the directory. Their records may be up to BACK_MS later than
    `first_ms`. If a clock was set back by more than that, their records may have been later still, which no file shows.
    """
    return first_ms + BACK_MS + 1


def cut_short(files: Iterable[Ends]) -> list[tuple[int, int]]:
    """The holes of a log, [(from_ms, until_ms)]: times of which records are lost. There is a hole where a file
    continues an earlier file that is missing or has lost its end.

    A hole begins at the last record before it. If the older file has no whole record, the hole begins at that file's
    hour at the latest. It lasts to the record behind it, and at least through the hour of the older file. `files` are
    of one log, oldest first. Files are removed by age, so files missing before the first one make no hole.
    """
    holes: list[tuple[int, int]] = []
    last_ms = 0
    for before, ends in pairwise(files):
        last_ms = before.last_ms or min(last_ms, before.file.hour * HOUR_MS)
        there = before.records if before.file.sequence + 1 == ends.file.sequence else 0
        if there < ends.before:
            next_ms = ends.first_ms + 1 if ends.first_ms else EVER_MS
            holes.append((last_ms, max(next_ms, (before.file.hour + 1) * HOUR_MS)))
    return holes


def delivery_files(directory: Path, disk: Disk) -> list[DeliveryFile]:
    """The files of the delivery log in a directory, oldest first. Other names are ignored."""
    names = disk.list_directory(directory) if disk.exists(directory) else []
    found = [DeliveryFile(int(match[1]), int(match[2])) for name in names if (match := _NAME.fullmatch(name))]
    return sorted(found, key=lambda file: file.sequence)


def read_delivery_file(path: Path, disk: Disk) -> Iterator[tuple[Deliveries, int]]:
    """Yield (records, how many rows are zeros after a power cut), a block at a time. Raises Corrupt or FormatRefused.

    A file without a whole header holds nothing.
    """
    fd = disk.open_read(path)
    try:
        header = disk.read(fd, HEADER_SIZE, 0)
        if len(header) < HEADER_SIZE:
            return
        found = FileHeader.decode(header, path.name)
        FileHeader(MAGIC_DELIVERIES, found.group, found.hour, found.cluster_id).expect(found, path.name)
        first = 0
        while data := disk.read(fd, READ_ROWS * DELIVERY.itemsize, HEADER_SIZE + first * DELIVERY.itemsize):
            yield read_deliveries(data, path.name, first)
            first += READ_ROWS
    finally:
        disk.close(fd)


class DeliveryWriter:
    """Appends records to the delivery log. They are written and not synced: a kill loses no record, a power cut loses
    those that the kernel still held.

    The writer never appends to a file of an earlier start, whose end may be torn.
    """

    def __init__(self, directory: Path, disk: Disk, *, group: int, cluster_id: bytes) -> None:
        self._directory = directory
        self._disk = disk
        self._group = group
        self._cluster_id = cluster_id
        files = delivery_files(directory, disk)
        self._next = files[-1].sequence + 1 if files else 1
        self._file: DeliveryFile | None = None
        self._fd = -1
        self._end = 0
        self._latest_ms = 0
        self._head: Deliveries = np.zeros(0, DELIVERY)  # the first record of the file

    def append(self, rows: Deliveries, at_ms: int) -> None:
        """Write records, all of time `at_ms`, from one contiguous array. Their checksums are filled in here. The kernel
        has them at return.

        Raises DiskFailed.
        """
        hour, back = at_ms // HOUR_MS, at_ms < self._latest_ms - BACK_MS
        if self._file is None or hour > self._file.hour or self._end >= FILE_BYTES_MAX or back:
            self._roll(self._head, rows, at_ms)
        self._latest_ms = max(self._latest_ms, at_ms)
        self._write(rows)

    def mark(self, begun: Deliveries, at_ms: int) -> bool:
        """Begin another file that continues the one in use, with the mark of the record `begun` in its first record.
        Return False, and do nothing, if the file in use is not of that record's term.

        Raises DiskFailed.
        """
        if self._file is None or self._head["term"][0] != begun["term"][0]:
            return False
        self._roll(begun, begun, at_ms)
        return True

    def remove_before(
        self, before_ms: int, *, now_ms: int, may_go: Callable[[DeliveryFile], bool] = lambda file: True
    ) -> int:
        """Remove files whose newest record is older than `before_ms`, oldest file first. Return the number of removed
        files. Raises DiskFailed.

        The removal stops at the first file that must stay: one that is too new, one in use, or one for which `may_go`
        is False. So no file is missing between others, which would count as lost. The newest of the old files stays
        too. It covers the time up to the next file, and shows that this log was not lost.
        """
        removed = 0
        files = delivery_files(self._directory, self._disk)
        for file, hour in zip(files, _old_by(files, now_ms), strict=False):
            # No record is of a later hour than its file's name, because that hour would have begun another file.
            if (hour + 1) * HOUR_MS > before_ms or file == self._file or not may_go(file):
                break
            self._disk.unlink(self._directory / file.name)
            removed += 1
        return removed

    def written(self) -> tuple[DeliveryFile, int] | None:
        """The file in use and its number of records. None if no file is in use, so that the next record begins one."""
        return (self._file, (self._end - HEADER_SIZE) // DELIVERY.itemsize) if self._file is not None else None

    def close(self) -> None:
        """Close the file. The next record begins another."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd, self._file = -1, None

    def _roll(self, head: Deliveries, rows: Deliveries, at_ms: int) -> None:
        """Begin another file for the records `rows`. If a file is in use, the new one continues it: its first record
        counts that file's records and has the mark of `head`."""
        before = self.written()
        self._begin(at_ms // HOUR_MS)
        self._latest_ms = at_ms
        if before is None:
            self._head = rows[:1].copy()
        else:
            self._head = _goes_on(head, rows, at_ms, before[1])
            self._write(self._head)

    def _write(self, rows: Deliveries) -> None:
        seal_deliveries(rows)
        self._disk.write(self._fd, rows.view("u1").data, self._end)
        self._end += rows.nbytes

    def _begin(self, hour: int) -> None:
        self.close()
        self._file = DeliveryFile(hour, self._next)
        self._next += 1
        self._fd = self._disk.open_write(self._directory / self._file.name)
        header = FileHeader(MAGIC_DELIVERIES, self._group, hour, self._cluster_id)
        self._disk.write(self._fd, header.encode(), 0)
        self._end = HEADER_SIZE


def _old_by(files: Sequence[DeliveryFile], now_ms: int) -> list[int]:
    """For each file but the last, the hour that decides its age: the later of its own hour and that of the next file.

    An hour ahead of `now_ms` was written by a wrong clock. The hour of the next file stands for it.
    """
    hours: list[int] = []
    for file in reversed(files):
        hours.append(file.hour if file.hour * HOUR_MS <= now_ms or not hours else hours[-1])
    return [max(pair) for pair in pairwise(reversed(hours))]


def _goes_on(head: Deliveries, rows: Deliveries, at_ms: int, count: int) -> Deliveries:
    """The record that begins a file which continues another one of `count` records. It has the mark that `head` has,
    the first record of that other file, and it stands before `rows`."""
    first: Deliveries = np.zeros(1, DELIVERY)
    for name in ("tick", "local_index", "node", "group"):
        first[name] = rows[name][0]
    first["kind"], first["at_ms"], first["took_ms"] = GOES_ON, at_ms, count
    if head["kind"][0] in (TERM_BEGUN, GOES_ON):
        first["term"], first["random"] = head["term"], head["random"]
        first["home"] = term_before(head["kind"], head["home"], head["took_ms"])
    return first
