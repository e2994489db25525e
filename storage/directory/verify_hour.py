"""Checks every byte of one hour against its own checksums and links: the work of `verify`, hour by hour.

- All files: header, its hour, group and cluster; at least the checkpoint's length.
- Index: row checksums, global_index in order, due in this hour, offsets without gap, chain linked anew, moved units.
- Log: header and payload checksums, padding. Each record is the one that its unit points to, moved if the unit is.
- Settle: row checksums, an existing unit, a known `what`, `previous` linked anew, unsettled and forwarded.
- States: header, page checksums, and the same states as the settle records (verify_states.py).

A check that needs sound rows is left out where rows are damaged, so that one fault is not reported many times.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from storage.catalog.hour_lengths import HourLengths, settle_count
from storage.directory.verify_states import StateCheck
from storage.file.disk import DiskFailed
from storage.file.hour_file import BLOCK_ROWS, HourFile, HourFiles, RowFile, Rows
from storage.format.array import I64, U64
from storage.format.chain import Heads
from storage.format.position import HOUR_MS, INDEX_BITS, indexes_of, pack
from storage.format.rows import HEADER_SIZE, UNIT_MOVED, Corrupt, FormatRefused, Settles, Units, row_checksums
from storage.format.states import FORWARDED, IS_OPEN, IS_WHAT, KEEPS_HOUR, LIVES_HERE
from storage.record.record import RECORD_MOVED, decode_records
from storage.state.unit_states import States

_ROWS_NAMED_MAX = 100
"""Damaged rows of one file that are reported one by one. The rest are counted."""

_RECORDS = 4096
"""Records read at a time."""


class HourCheck:
    """The check of one hour. Each fault is a line in `faults`. It names the file, the byte, the value found and the
    value expected."""

    def __init__(self, number: int, files: HourFiles, lengths: HourLengths) -> None:
        self._number = number
        self._files = files
        self._lengths = lengths
        self.faults: list[str] = []
        self.bytes = 0
        """Bytes that the checkpoint covers."""
        self.bytes_behind = 0
        """Bytes of the files behind the checkpoint's lengths. They are no fault."""
        self._end = files.index.first + lengths.units
        self._states = States(files.index.first)
        self._arrived: list[U64] = []

    def run(self) -> None:
        """Check all three files."""
        whole = [
            self._head(self._files.log, self._lengths.log_len),
            self._head(self._files.index, self._lengths.index_len),
            self._head(self._files.settle, self._lengths.settle_len),
        ]
        index_len = self._files.index.offset(self._end) if self._lengths.units else 0
        if self._lengths.index_len != index_len:
            self._fault(self._files.index, 0, "length in the checkpoint", self._lengths.index_len, index_len)
            whole[1] = False
        if whole[1] and self._lengths.units:
            self._check_index(whole[0])
        if whole[2] and self._lengths.settle_len:
            self._check_settles()
        self._files.close()

    def forwarded(self) -> U64:
        """(home, place) of each unit that is forwarded, shape [n, 2]. Call it after a `run` without faults."""
        at = self._states.in_state(FORWARDED, 0, self._end)
        home = at.astype(np.uint64) | np.uint64(self._number << INDEX_BITS)
        return np.stack([home, self._states.places(at, home)], axis=1)

    def arrived(self) -> U64:
        """(home, place) of each unit whose message was born in another hour and lives in this one, shape [n, 2]. Call
        it after a `run` without faults."""
        pairs = np.concatenate([np.empty((0, 2), np.uint64), *self._arrived])
        living: U64 = pairs[LIVES_HERE[self._states.at(indexes_of(pairs[:, 1])).state]]
        return living

    def _head(self, file: HourFile, length: int) -> bool:
        """Check header and length of one file. True if the rest can be read."""
        if not length:
            return True
        self.bytes += length
        try:
            file.check_header()
            size = file.size()
        except (Corrupt, FormatRefused, DiskFailed) as error:
            self.faults.append(str(error))
            return False
        if size < length:
            self._fault(file, size, "length", size, f"{length}, as in the checkpoint")
            return False
        self.bytes_behind += size - length
        return True

    def _check_index(self, log_is_whole: bool) -> None:
        heads = Heads()
        end = HEADER_SIZE
        sound = True
        moved = 0
        for first, units, bad in self._rows(self._files.index, self._lengths.units):
            sound = sound and not bad.any()
            moved += int(np.count_nonzero(units["flags"] & UNIT_MOVED))
            if sound:
                end = self._check_units(heads, first, units, end)
            if log_is_whole:
                self._check_log(units[~bad])
        if sound and end != self._lengths.log_len:
            self._fault(self._files.log, end, "end of the last record", end, self._lengths.log_len)
        if sound and moved != self._lengths.moved:
            self._fault(self._files.index, 0, "moved units", moved, f"{self._lengths.moved}, as in the checkpoint")

    def _check_units(self, heads: Heads, first: int, units: Units, end: int) -> int:
        """Check order, place and chain of rows that have right checksums. `end` is where the first one's record must
        begin. Return where the next record begins."""
        file = self._files.index
        sizes, offsets = units["size"].astype(np.int64), units["offset"].astype(np.int64)
        expected = end + np.cumsum(sizes) - sizes
        self._compare(file, first, "offset", offsets, expected)
        hours = units["due_ms"] // HOUR_MS
        self._compare(file, first, "hour of due_ms", hours, np.full(len(units), self._number))
        order = units["global_index"].astype(np.int64)
        self._compare(file, first, "global_index", order, np.arange(first, first + len(units)))
        linked = units.copy()
        linked["global_index"] = np.arange(first, first + len(units))
        heads.link(linked)
        for name in ("local_index", "pre_global_index"):
            self._compare(file, first, name, units[name].astype(np.int64), linked[name].astype(np.int64))
        return end + int(sizes.sum())

    def _check_log(self, units: Units) -> None:
        for at in range(0, len(units), _RECORDS):
            part = units[at : at + _RECORDS]
            try:
                self._decode(part)
            except (Corrupt, FormatRefused):
                for row in range(len(part)):
                    try:
                        self._decode(part[row : row + 1])
                    except (Corrupt, FormatRefused) as error:
                        self.faults.append(str(error))

    def _decode(self, units: Units) -> None:
        """Read the records of some units, which may have other records between them. Raises the first fault."""
        log = self._files.log
        starts, ends = units["offset"].astype(np.int64), (units["offset"] + units["size"]).astype(np.int64)
        base = int(starts[0])
        data = log.read(max(0, int(ends[-1]) - base), base)
        records = decode_records(data, (starts - base).tolist(), log.name, starts.tolist())
        for record, unit in zip(records, units.tolist(), strict=True):
            offset, position = unit[0], pack(self._number, unit[3])
            if record.place != position:
                raise Corrupt(log.name, offset, "record's position", record.place, position)
            flags = RECORD_MOVED if unit[-1] & UNIT_MOVED else 0
            if record.flags != flags:
                raise Corrupt(log.name, offset, "flags of the record", record.flags, f"{flags}, as in its unit")
        moved = [(record.position, record.place) for record in records if record.flags]
        if moved:
            self._arrived.append(np.array(moved, np.uint64))

    def _check_settles(self) -> None:
        file = self._files.settle
        states = self._states
        sound = True
        caches = StateCheck(self._files, settle_count(self._lengths), self.faults)
        for first, rows, bad in self._rows(file, settle_count(self._lengths)):
            sound = sound and not bad.any()
            if not sound:
                continue
            unit = rows["global_index"].astype(np.int64)
            if not self._check_each(file, first, rows, unit):
                sound = False
                continue
            linked = rows.copy()
            states.link(linked, first)
            previous = linked["previous"].astype(np.int64)
            self._compare(file, first, "previous", rows["previous"].astype(np.int64), previous)
            states.absorb(linked, first)
            caches.take(linked, first)
        state = states.copied(self._lengths.units)
        unsettled = int(np.count_nonzero(KEEPS_HOUR[state]))
        forwarded = unsettled - int(np.count_nonzero(IS_OPEN[state]))
        for name, found, expected in (
            ("unsettled units", unsettled, self._lengths.unsettled),
            ("forwarded units", forwarded, self._lengths.forwarded),
        ):
            if sound and found != expected:
                self._fault(file, 0, name, found, f"{expected}, as in the checkpoint")

    def _check_each(self, file: RowFile, first: int, rows: Settles, unit: I64) -> bool:
        """True if every settle record names an existing unit and a known change."""
        sound = True
        for name, wrong in (
            ("global_index", (unit >= self._end) | (unit < self._files.index.first)),
            ("what", ~IS_WHAT[rows["what"]]),
        ):
            for row in np.flatnonzero(wrong).tolist():
                sound = False
                self._fault(file, file.offset(first + row), name, int(rows[name][row]), "one there is")
        return sound

    def _rows(self, file: RowFile, count: int) -> Iterator[tuple[int, Rows, npt.NDArray[np.bool_]]]:
        """Yield (ordinal of the first row, rows, boolean array that is True for damaged rows), a block at a time.
        Report the damaged rows."""
        told = 0
        end = file.first + count
        for first in range(file.first, end, BLOCK_ROWS):
            rows = file.read_unchecked(first, min(BLOCK_ROWS, end - first))
            sums = row_checksums(rows)
            bad = sums != rows["checksum"]
            for row in np.flatnonzero(bad).tolist():
                told += 1
                if told <= _ROWS_NAMED_MAX:
                    found, expected = f"{int(sums[row]):08x}", f"{int(rows['checksum'][row]):08x}"
                    self._fault(file, file.offset(first + row), f"checksum of row {first + row}", found, expected)
            yield first, rows, bad
        if told > _ROWS_NAMED_MAX:
            self.faults.append(f"corrupt: {file.name}: {told - _ROWS_NAMED_MAX} more rows with a wrong checksum")

    def _compare(self, file: RowFile, first: int, name: str, found: I64, expected: I64) -> None:
        """Report the first row where the column `name` differs from `expected`. Later differences mostly follow from
        the first."""
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            row = int(wrong[0])
            self._fault(file, file.offset(first + row), name, int(found[row]), int(expected[row]))

    def _fault(self, file: HourFile, offset: int, what: str, found: object, expected: object) -> None:
        self.faults.append(str(Corrupt(file.name, offset, what, found, expected)))
