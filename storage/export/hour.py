"""Copies an hour into an export: the units, record headers and settle records that the export lacks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from storage.catalog.hour_lengths import HourLengths, settle_count
from storage.export.growing_file import GrowingFile, at_place
from storage.export.manifest import ExportedHour, File
from storage.file.disk import Disk
from storage.file.hour_file import BLOCK_ROWS, HourFiles, RowFile, Rows, runs
from storage.format.position import INDEX_BITS
from storage.format.rows import (
    MAGIC_HEADERS,
    MAGIC_INDEX,
    MAGIC_SETTLE,
    SETTLE,
    UNIT,
    Corrupt,
    FileHeader,
    Units,
    join_rows,
)
from storage.record.record import HEADER, RECORD_HEADER_SIZE, RECORD_MOVED, check_headers

_RUN_GAP_BYTES: Final = 4096
_RUN_BYTES_MAX: Final = 4 << 20
"""Record headers this near each other are read together, up to this many bytes at a time."""
_HEADER_WORDS: Final = np.arange(RECORD_HEADER_SIZE // 8)


class HourGrowth:
    """The rows of one hour that an export lacks. `files` are the node's files, with these lengths. `old` is the
    manifest's entry of the rows exported before, None if there are none.

    `steps` exports the lacking rows into `folder`, which is that of the node's day.
    """

    def __init__(
        self, hour: int, files: HourFiles, lengths: HourLengths, old: ExportedHour | None, folder: Path, disk: Disk
    ) -> None:
        self._files = files
        self._lengths = lengths
        self._folder = folder
        self._disk = disk
        self._first = files.index.first
        none = File()
        self.entry = old or ExportedHour(
            hour=hour,
            first=self._first,
            units=0,
            settles=0,
            unsettled=0,
            forwarded=0,
            moved=0,
            headers=none,
            index=none,
            settle=none,
        )
        """The manifest's entry for the exported part. `steps` replaces it by the entry for the whole hour."""
        self.units = lengths.units - self.entry.units
        """The number of new units; `settles` is that of new settle records. Below zero if the directory is behind the
        export."""
        self.settles = settle_count(lengths) - self.entry.settles

    @property
    def grows(self) -> bool:
        """True if the node has units or settle records that the export lacks. A directory that is behind the export has
        none."""
        return min(self.units, self.settles) >= 0 < self.units + self.settles

    @property
    def directory(self) -> Path:
        """The hour's directory in the node's data directory."""
        return self._files.directory

    @property
    def bytes_new(self) -> int:
        """Bytes that `steps` will write, without the headers of files."""
        return self.units * (UNIT.itemsize + HEADER.itemsize) + self.settles * SETTLE.itemsize

    def steps(self) -> Generator[int, None, None]:
        """Export the lacking rows. Yield the number of bytes of each step. Raises ExportRefused. Raises Corrupt,
        FormatRefused or DiskFailed for the node's files."""
        old, lengths = self.entry, self._lengths
        with at_place():
            for place in (self._folder / "hours", self._folder / old.folder):
                self._disk.make_directory(place)
        try:
            index, headers = (yield from self._grow_units()) if self.units else (old.index, old.headers)
            settle = (yield from self._grow_settles()) if self.settles else old.settle
        finally:
            self._files.close()
        self.entry = ExportedHour(
            hour=old.hour,
            first=old.first,
            units=lengths.units,
            settles=settle_count(lengths),
            unsettled=lengths.unsettled,
            forwarded=lengths.forwarded,
            moved=lengths.moved,
            headers=headers,
            index=index,
            settle=settle,
        )

    def _grow_units(self) -> Generator[int, None, tuple[File, File]]:
        old = self.entry
        with (
            closing(self._growing("index", MAGIC_INDEX, old.index)) as index,
            closing(self._growing("headers", MAGIC_HEADERS, old.headers)) as headers,
        ):
            for source in (self._files.index, self._files.log):
                source.check_header()
            if old.units:
                index.expect_last(self._last(self._files.index, self._first + old.units))
            end = self._first + self._lengths.units
            for first in range(self._first + old.units, end, BLOCK_ROWS):
                units = self._files.index.read_rows(first, min(BLOCK_ROWS, end - first))
                index.append(units.tobytes())
                headers.append(self._headers(units).tobytes())
                yield len(units) * (UNIT.itemsize + HEADER.itemsize)
            return index.known, headers.known

    def _grow_settles(self) -> Generator[int, None, File]:
        old = self.entry
        with closing(self._growing("settle", MAGIC_SETTLE, old.settle)) as settle:
            self._files.settle.check_header()
            if old.settles:
                settle.expect_last(self._last(self._files.settle, old.settles))
            end = settle_count(self._lengths)
            for first in range(old.settles, end, BLOCK_ROWS):
                rows = self._files.settle.read_rows(first, min(BLOCK_ROWS, end - first))
                settle.append(rows.tobytes())
                yield rows.nbytes
            return settle.known

    def _growing(self, name: str, magic: bytes, known: File) -> GrowingFile:
        source = self._files.settle if magic == MAGIC_SETTLE else self._files.index
        header = FileHeader(magic, source.header.group, source.header.hour, source.header.cluster_id)
        return GrowingFile(self._folder / self.entry.folder / name, self._disk, known, header.encode())

    @staticmethod
    def _last(file: RowFile, end: int) -> bytes:
        """The bytes of the row before ordinal `end` in the node's file."""
        return file.read_rows(end - 1, 1).tobytes()

    def _headers(self, units: Units) -> Rows:
        """The first 96 bytes of each unit's record, in order. Raises Corrupt unless each header is whole and belongs to
        its unit."""
        log = self._files.log
        starts = units["offset"].astype(np.int64)
        parts = []
        for first, last in runs(starts, starts + RECORD_HEADER_SIZE, _RUN_GAP_BYTES, _RUN_BYTES_MAX):
            base = int(starts[first])
            data = log.read(int(starts[last - 1]) + RECORD_HEADER_SIZE - base, base)
            at = (starts[first:last] - base)[:, None] // 8 + _HEADER_WORDS
            parts.append(np.frombuffer(data, np.uint64)[at].reshape(-1).view(HEADER))
        headers = join_rows(parts, HEADER)
        check_headers(headers, log.name, starts.tolist())
        place = headers["id_hour"].astype(np.uint64) << np.uint64(INDEX_BITS) | headers["id_global_index"]
        place = np.where(headers["flags"] == RECORD_MOVED, headers["place"], place)
        wrong = np.flatnonzero(place != units["global_index"] | np.uint64(self.entry.hour << INDEX_BITS))
        if len(wrong):
            row = int(wrong[0])
            expected = self.entry.hour << INDEX_BITS | int(units["global_index"][row])
            raise Corrupt(log.name, int(starts[row]), "record's position", int(place[row]), expected)
        return headers
