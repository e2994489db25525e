"""One hour partition: everything due in one hour of the world, in three append-only files.

```
              near (the wheel is here)              far (years ahead, or long past)
append        linked, sealed, written at once       staged in memory, linked and sealed when written
heads         in memory                             rebuilt when written or read
states        in memory once anything is settled    likewise, dropped when cool
homes         in memory once a unit is moved here   likewise, dropped when cool
descriptors   open                                  closed when cool
```
Which of the two it is changes cost, never content: ordinals, offsets and chain follow from the order of appends alone.
Invariant: 0 <= saved_x <= x for units, log_end and settles; what is between is staged; a near hour has nothing staged.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storage.array import I64, U64
from storage.chain import Heads
from storage.checkpoint import HourLengths
from storage.format import HEADER_SIZE, SETTLE, UNIT, Corrupt, Settles, Units, put_rows, seal
from storage.home import Homes, read_homes
from storage.hour_file import HourFiles, runs
from storage.position import INDEX_BITS
from storage.record import RECORD_MOVED, Record, decode_records
from storage.record_rows import RecordRows, decode_rows
from storage.staging import Staged
from storage.state import States

_RUN_GAP_BYTES = 4096
_RUN_BYTES_MAX = 4 << 20
"""Records this near each other are read together, up to this much at a time."""


@dataclass(frozen=True, slots=True)
class FrozenHour:
    """What a checkpoint writes of one hour: staged chunks, and the place in the files where they begin."""

    number: int
    files: HourFiles
    staged: Staged
    saved_units: int
    saved_settles: int


class Hour:
    """The units of one hour. On the loop's thread; a checkpoint works on a FrozenHour instead."""

    def __init__(self, number: int, files: HourFiles, lengths: HourLengths | None = None) -> None:
        self.number = number
        self.files = files
        self.near = False
        self.units = self.saved_units = lengths.units if lengths else 0
        self.log_end = self.saved_log_end = lengths.log_len if lengths else HEADER_SIZE
        self.settles = self.saved_settles = settle_count(lengths) if lengths else 0
        self.unsettled = lengths.unsettled if lengths else 0
        self.forwarded = lengths.forwarded if lengths else 0
        self.moved = lengths.moved if lengths else 0
        self.staged = Staged()
        self._heads: Heads | None = None
        self._states: States | None = None
        self._homes: Homes | None = None

    # append

    def append(self, units: Units, words: U64, homes: U64 | None = None) -> int:
        """Append units with all but chain and checksum filled in, and their records; returns bytes staged. `homes` of
        moved ones: all of `units` are, or none.

        `units` must be its own: a near hour links and seals it in place.
        """
        first, offset = self.units, self.log_end
        if homes is not None:
            self._move_in(units, homes)
        self.units += len(units)
        self.log_end += words.nbytes
        self.unsettled += len(units)
        if not self.near:
            return self.staged.add_units(first, units, offset, words)
        self.heads().link(units)
        seal(units)
        self.files.log.write(words.view(np.uint8).data, offset)
        self.files.index.write_rows(units, first)
        self.saved_units, self.saved_log_end = self.units, self.log_end
        return 0

    def settle(self, rows: Settles) -> int:
        """Append settle records, of units there are, with all but `previous` and checksum filled in; returns bytes
        staged."""
        first = self.settles
        settled, forwarded = self.states().enter(rows, first)
        self.unsettled -= settled
        self.forwarded += forwarded
        seal(rows)
        self.settles += len(rows)
        assert 0 <= self.forwarded <= self.unsettled <= self.units, (
            f"{self.forwarded} forwarded of {self.unsettled} unsettled of {self.units} in hour {self.number}"
        )
        if not self.near:
            return self.staged.add_settles(first, rows)
        self.files.settle.write_rows(rows, first)
        self.saved_settles = self.settles
        return 0

    def _move_in(self, units: Units, homes: U64) -> None:
        if not self.moved:
            self._homes = Homes()
        if self._homes is not None:
            self._homes.add(units["global_index"].astype(np.int64), homes)
        self.moved += len(units)

    @property
    def open(self) -> int:
        """How many units are pending or leased."""
        return self.unsettled - self.forwarded

    # caches

    def heads(self) -> Heads:
        """The heads of all units; for a far hour rebuilt at each call, since they are not worth their memory."""
        if self._heads is not None:
            return self._heads
        heads = Heads()
        for _ in linked_units(self.files, self.saved_units, self.staged, heads):
            pass
        if self.near:
            self._heads = heads
        return heads

    def states(self) -> States:
        """The state of each unit, rebuilt from the settle records if it is not in memory."""
        if self._states is None:
            states = States()
            for first, rows in self.files.settle.blocks(self.saved_settles):
                states.absorb(rows, first)
            for first, rows in zip(self.staged.settles.starts, self.staged.settles.arrays, strict=True):
                states.absorb(rows, first)
            self._states = states
        return self._states

    @property
    def states_held(self) -> States | None:
        """The states, if they are in memory."""
        return self._states

    def homes(self) -> Homes:
        """Where the units that were moved here were born, read again if it is not in memory."""
        if self._homes is None:
            self._homes = read_homes(self.number, self.files, self.saved_units, self.staged) if self.moved else Homes()
        return self._homes

    def enter(self) -> None:
        """Become near: write what is staged, keep the heads."""
        self._heads = self.flush()
        self.near = True

    def flush(self) -> Heads:
        """Write what is staged and return the heads. A checkpoint under way may write the same bytes again."""
        units = self.staged.joined_units()
        heads = Heads()
        for _, rows in self.files.index.blocks(self.saved_units):
            heads.absorb(rows)
        write_staged(self.files, self.staged, heads, units, self.saved_units, self.saved_settles)
        self.staged = Staged()
        self.saved_units, self.saved_log_end, self.saved_settles = self.units, self.log_end, self.settles
        return heads

    def leave(self) -> None:
        """Become far: everything is written, so only the caches go."""
        assert not self.staged, f"hour {self.number} is near and has staged units"
        self.near = False
        self._heads = None
        self.cool()

    def cool(self) -> None:
        """Drop the caches of a far hour, and its descriptors."""
        self._states = self._homes = None
        self.files.close()

    # checkpoint

    def freeze(self) -> FrozenHour:
        """What the next checkpoint writes of this hour."""
        return FrozenHour(self.number, self.files.again(), self.staged.copy(), self.saved_units, self.saved_settles)

    def snapshot(self) -> "Hour":
        """This hour as it is now, to be read in another thread: descriptors of its own, chunks that never change, no
        caches."""
        copy = Hour(self.number, self.files.again(), self.lengths())
        copy.staged = self.staged.copy()
        copy.saved_units, copy.saved_log_end, copy.saved_settles = (
            self.saved_units,
            self.saved_log_end,
            self.saved_settles,
        )
        return copy

    def thaw(self, frozen: FrozenHour) -> None:
        """The checkpoint has written it: forget the memory copy, unless the hour became near and wrote it itself."""
        if self.saved_units != frozen.saved_units or self.saved_settles != frozen.saved_settles or not self.staged:
            return
        self.staged.drop(frozen.staged)
        starts = self.staged.units.starts
        self.saved_units = starts[0] if starts else self.units
        self.saved_log_end = self.staged.log.starts[0] if starts else self.log_end
        self.saved_settles = self.staged.settles.starts[0] if self.staged.settles.starts else self.settles

    def lengths(self) -> HourLengths:
        """What the files are to hold once all that was appended so far is written; 0 for a file not begun."""
        return HourLengths(
            log_len=self.log_end if self.units else 0,
            index_len=self.files.index.offset(self.units) if self.units else 0,
            settle_len=self.files.settle.offset(self.settles) if self.settles else 0,
            units=self.units,
            unsettled=self.unsettled,
            forwarded=self.forwarded,
            moved=self.moved,
            generation=self.files.generation,
        )

    # reading

    def unit_rows(self, at: I64) -> Units:
        """Units by global_index, in that order. One that is staged is NOT_LINKED yet."""
        if not len(at) or int(at.max()) < self.saved_units:
            return self.files.index.gather_rows(at)
        rows = np.empty(len(at), UNIT)
        saved = at < self.saved_units
        put_rows(rows, saved, self.files.index.gather_rows(at[saved]))
        put_rows(rows, ~saved, self.staged.units.gather(at[~saved], UNIT))
        return rows

    def settle_rows(self, at: I64) -> Settles:
        """Settle records by ordinal, in that order."""
        if not len(at) or int(at.max()) < self.saved_settles:
            return self.files.settle.gather_rows(at)
        rows = np.empty(len(at), SETTLE)
        saved = at < self.saved_settles
        put_rows(rows, saved, self.files.settle.gather_rows(at[saved]))
        put_rows(rows, ~saved, self.staged.settles.gather(at[~saved], SETTLE))
        return rows

    def records(self, at: I64) -> list[Record]:
        """Records by global_index, in that order."""
        order, starts, pieces = self._log_pieces(at)
        found: list[Record] = []
        for first, last, data in pieces:
            base = int(starts[first])
            found += decode_records(data, (starts[first:last] - base).tolist(), self.files.log.name, base)
        self._check_places(np.array([record.place for record in found], np.uint64), at[order], starts)
        result: list[Record] = found.copy()
        for place, record in zip(order.tolist(), found, strict=True):
            result[place] = record
        return result

    def record_rows(self, at: I64) -> RecordRows:
        """The same in columns."""
        order, starts, pieces = self._log_pieces(at)
        within, parts, filled = np.empty_like(starts), [], 0
        for first, last, data in pieces:
            within[first:last] = starts[first:last] - starts[first] + filled
            parts.append(data)
            filled += len(data)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        found = decode_rows(data, within[rank], self.files.log.name, starts[rank])
        place = np.where(found.header["flags"] == RECORD_MOVED, found.header["place"], found.position)
        self._check_places(place, at, starts[rank])
        return found

    def _log_pieces(self, at: I64) -> tuple[npt.NDArray[np.intp], I64, Iterator[tuple[int, int, bytes]]]:
        """Where the records of these units stand in the log: their order there, in that order their offsets, and their
        bytes as (first row, row behind the last, bytes from the first one's offset on)."""
        units = self.unit_rows(at)
        starts, sizes = units["offset"].astype(np.int64), units["size"].astype(np.int64)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], (starts + sizes)[order]
        return order, starts, self._read_log(starts, ends)

    def _read_log(self, starts: I64, ends: I64) -> Iterator[tuple[int, int, bytes]]:
        """See _log_pieces; neighbours are read together."""
        saved = int(np.searchsorted(starts, self.saved_log_end))
        for first, last in runs(starts[:saved], ends[:saved], _RUN_GAP_BYTES, _RUN_BYTES_MAX):
            base = int(starts[first])
            yield first, last, self.files.log.read(int(ends[last - 1]) - base, base)
        for row in range(saved, len(starts)):
            base, words = self.staged.log.find(int(starts[row]))
            yield row, row + 1, words.view(np.uint8)[starts[row] - base : ends[row] - base].tobytes()

    def all_units(self) -> Iterator[Units]:
        """All units in order of global_index, a block at a time, the staged ones linked as they will be."""
        return linked_units(self.files, self.saved_units, self.staged)

    def _check_places(self, places: U64, at: I64, offsets: I64) -> None:
        """A record that passes its checksums must also be the one its unit points to."""
        expected = at.astype(np.uint64) | np.uint64(self.number << INDEX_BITS)
        wrong = np.flatnonzero(places != expected)
        if len(wrong):
            row = int(wrong[0])
            file, offset = self.files.log.name, int(offsets[row])
            raise Corrupt(file, offset, "record's position", int(places[row]), int(expected[row]))


def settle_count(lengths: HourLengths) -> int:
    """How many settle records a file of this length holds."""
    return max(0, lengths.settle_len - HEADER_SIZE) // SETTLE.itemsize


def linked_units(files: HourFiles, saved_units: int, staged: Staged, heads: Heads | None = None) -> Iterator[Units]:
    """All units in order of global_index, a block at a time: those on disk, then the staged ones linked (in copies) as
    they will be. `heads`, if wanted, are empty before and have all of them after."""
    if heads is None and staged.units.arrays:
        heads = Heads()
    for _, units in files.index.blocks(saved_units):
        if heads is not None:
            heads.absorb(units)
        yield units
    if heads is not None and staged.units.arrays:
        units = staged.joined_units()
        heads.link(units)
        yield units


def write_staged(
    files: HourFiles, staged: Staged, heads: Heads, units: Units, saved_units: int, saved_settles: int
) -> None:
    """Write staged chunks behind what is on disk. `heads` are those of the units on disk; `units` is staged's, joined.

    Links and seals `units` in place and leaves `heads` at the last of them.
    """
    if len(units):
        heads.link(units)
        seal(units)
        starts, words = staged.log.starts, staged.log.arrays
        files.log.write(np.concatenate(words).view(np.uint8).data, starts[0])
        files.index.write_rows(units, saved_units)
    if staged.settles.arrays:
        files.settle.write_rows(staged.joined_settles(), saved_settles)
