"""The files of the delivery log: appended to, begun anew by the hour, by size and at every start, removed by age.

Four things hold of every file, so that a reader finds what it looks for without reading all of them:
- Its first record is of the hour in its name, and none is of a later one.
- Its times rise, but for BACK_MS: where the clock went back by more another file was begun.
- It belongs to one term at most: where a term begins its record is the first of a file, where one ends the last.
- Where it goes on with what the file before began, its first record counts the records of that one.
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
from storage.format.position import HOUR_MS
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
EVER_MS: Final = 1 << 62
_MANY: Final = 1 << 62  # more records than any file has

_NAME: Final = re.compile(r"(\d{1,8})-(\d{6,})\.log")


class DeliveryFile(NamedTuple):
    """One file by its name: the hour in which it was begun, and its place among all."""

    hour: int
    sequence: int

    @property
    def name(self) -> str:
        """Its name in `deliveries/`."""
        return f"{self.hour}-{self.sequence:06d}.log"


class Ends(NamedTuple):
    """What the two ends of a file tell. Times are 0 where it has no record as written."""

    file: DeliveryFile
    first_ms: int
    last_ms: int
    records: int
    """How many there are; 0 where the last is not as written."""
    before: int
    """How many the file before has if this one goes on with it, else 0; _MANY where the first record is not as
    written."""

    @classmethod
    def of(cls, file: DeliveryFile, first: Deliveries, last: Deliveries, size: int, whole: I64) -> Ends:
        """Of a file of `size` records. `first` and `last` are those as they are, [1], or [0] of an empty file. `whole`
        has times of records that are as written, in order: at least of the first such and the last."""
        before = int(first["took_ms"][first["kind"] == GOES_ON].sum()) if sound(first).all() else _MANY
        first_ms, last_ms = (int(whole[0]), int(whole[-1])) if len(whole) else (0, 0)
        return cls(file, first_ms, last_ms, size if sound(last).all() else 0, before)


def whole_from_ms(first_ms: int) -> int:
    """Since when a log tells all whose first record left is of this time: files before it went by age, or with the
    directory, and may have held times that are later by BACK_MS. Where a clock was set back by more, they may have held
    later ones still, and nothing here tells."""
    return first_ms + BACK_MS + 1


def cut_short(files: Iterable[Ends]) -> list[tuple[int, int]]:
    """Holes, [(from_ms, until_ms)], where a file goes on with one that has lost its end, or is gone.

    A hole begins at the last record before it; where nothing is left of the older file, at its hour. It lasts to the
    record behind it, and as long as lost records can be of the older file. `files` are of one log, oldest first. Of
    what was before the first nobody asks: files go by age.
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
    """The files there are, oldest first. Other names are left alone."""
    names = disk.list_directory(directory) if disk.exists(directory) else []
    found = [DeliveryFile(int(match[1]), int(match[2])) for name in names if (match := _NAME.fullmatch(name))]
    return sorted(found, key=lambda file: file.sequence)


def read_delivery_file(path: Path, disk: Disk) -> Iterator[tuple[Deliveries, int]]:
    """(records, rows never written), a block at a time. Raises Corrupt or FormatRefused; a file whose header was not
    written whole holds nothing."""
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
    """Appends records. Written, not synced: a killed process loses nothing, a power cut what the kernel still held.

    Never appends to a file of an earlier start, whose end may be torn.
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
        """Write contiguous records, whose checksums are filled in here; they are in the kernel when this returns.

        Raises DiskFailed.
        """
        hour, back = at_ms // HOUR_MS, at_ms < self._latest_ms - BACK_MS
        if self._file is None or hour > self._file.hour or self._end >= FILE_BYTES_MAX or back:
            self._roll(self._head, rows, at_ms)
        self._latest_ms = max(self._latest_ms, at_ms)
        self._write(rows)

    def mark(self, begun: Deliveries, at_ms: int) -> bool:
        """Go on in another file, whose first record has the mark of this beginning; not if no file is written of its
        term. Raises DiskFailed."""
        if self._file is None or self._head["term"][0] != begun["term"][0]:
            return False
        self._roll(begun, begun, at_ms)
        return True

    def remove_before(
        self, before_ms: int, *, now_ms: int, may_go: Callable[[DeliveryFile], bool] = lambda file: True
    ) -> int:
        """Remove the files whose newest record is older than `before_ms`, if they may go; returns how many. Raises
        DiskFailed.

        The newest of them stays. It tells of a time up to the next file, and that this log was not lost. So does each
        that is behind one that stays: a file that is missing between others was lost.
        """
        removed = 0
        files = delivery_files(self._directory, self._disk)
        for file, hour in zip(files, _old_by(files, now_ms), strict=False):
            # No record of a file is of a later hour than its name says: that hour would have begun another file.
            if (hour + 1) * HOUR_MS > before_ms or file == self._file or not may_go(file):
                break
            self._disk.unlink(self._directory / file.name)
            removed += 1
        return removed

    def written(self) -> tuple[DeliveryFile, int] | None:
        """The file that is appended to, and how many records it has; None if the next one begins another."""
        return (self._file, (self._end - HEADER_SIZE) // DELIVERY.itemsize) if self._file is not None else None

    def close(self) -> None:
        """Let go of the file; the next record begins another."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd, self._file = -1, None

    def _roll(self, head: Deliveries, rows: Deliveries, at_ms: int) -> None:
        """Begin the file that these records are for. Where one was written it goes on with that, under the mark of
        `head`."""
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
    """By which hour each but the last is old: its own and that of the next. An hour that lies ahead was written by a
    clock that was wrong, and says nothing of age."""
    hours: list[int] = []
    for file in reversed(files):
        hours.append(file.hour if file.hour * HOUR_MS <= now_ms or not hours else hours[-1])
    return [max(pair) for pair in pairwise(reversed(hours))]


def _goes_on(head: Deliveries, rows: Deliveries, at_ms: int, count: int) -> Deliveries:
    """The first record of a file, before these, that goes on with a file of `count` records whose first is `head`."""
    first: Deliveries = np.zeros(1, DELIVERY)
    for name in ("tick", "local_index", "node", "group"):
        first[name] = rows[name][0]
    first["kind"], first["at_ms"], first["took_ms"] = GOES_ON, at_ms, count
    if head["kind"][0] in (TERM_BEGUN, GOES_ON):
        first["term"], first["random"] = head["term"], head["random"]
        first["home"] = term_before(head["kind"], head["home"], head["took_ms"])
    return first
