"""An hour: all units due in one hour of the world, in three append-only files.

```
              near (the wheel is here)              far (years ahead, or long past)
append        linked, sealed, written at once       staged in memory, linked and sealed when written
heads         in memory                             of long ones kept between writes (heads_kept.py), else rebuilt
states        in memory once anything is settled    likewise, dropped when cool
homes         in memory once a unit is moved here   likewise, dropped when cool
descriptors   open                                  closed when cool
```
Near or far changes the cost, never the content: ordinals, offsets and chain follow from the order of appends alone.
Invariant: 0 <= saved_x <= x for units, log_end and settles. The difference is staged. A near hour has nothing staged.
The units are numbered first <= global_index < next. An hour that was unlinked and begun again continues its numbers.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from storage.catalog.hour_lengths import HourLengths
from storage.file.hour_file import HourFiles, pieces_by_bytes
from storage.format.array import I64, U64
from storage.format.chain import Heads
from storage.format.position import INDEX_BITS
from storage.format.rows import SETTLE, UNIT, UNIT_MOVED, Corrupt, Settles, Units, put_rows, seal
from storage.hour.body_write import write_bodies
from storage.hour.homes_elsewhere import HomesElsewhere
from storage.hour.hour_table import NOT_READ, HourCounters
from storage.hour.stage_write import FrozenHour, OpenFiles
from storage.hour.staging import Chunks, Stage, Staged
from storage.record.record import HEADER, RECORD_MOVED, Record, check_headers, decode_records
from storage.record.record_rows import RecordRows, decode_rows, home_of
from storage.state.file import newest_of, rows_of
from storage.state.files import StateFiles
from storage.state.unit_states import States

_RUN_GAP_BYTES = 4096
_RUN_BYTES_MAX = 4 << 20
"""Records this near each other are read together, up to this many bytes at a time."""
_HEADER_WORDS = np.arange(HEADER.itemsize // 8)


class Hour:
    """An hour in use: its units, records and settle records, on disk and staged. It is made from the hour's counters,
    and `counters` gives them back. For the loop's thread; a checkpoint works on a FrozenHour instead."""

    def __init__(self, counters: HourCounters, open_files: OpenFiles, stage: Stage) -> None:
        self.number = counters.number
        self.generation = counters.generation
        self.first = counters.first
        self._open_files = open_files
        self._files: HourFiles | None = None
        self._stage = stage
        self.near = False
        self.units, self.saved_units = counters.units, counters.saved_units
        self.log_end, self.saved_log_end = counters.log_end, counters.saved_log_end
        self.settles, self.saved_settles = counters.settles, counters.saved_settles
        self.unsettled = counters.unsettled
        self.forwarded = counters.forwarded
        self.moved = counters.moved
        self._settled_ms = counters.settled_ms
        self.staged_settles = Chunks()
        self._heads: Heads | None = None  # of a near hour
        self._states: States | None = None
        self._homes = HomesElsewhere(self.next)

    @property
    def counters(self) -> HourCounters:
        """The hour's counters as they are now."""
        return HourCounters(
            self.number, self.generation, self.first, self.units, self.log_end, self.settles, self.unsettled,
            self.forwarded, self.moved, self.saved_units, self.saved_log_end, self.saved_settles, self._settled_ms,
        )  # fmt: skip

    @property
    def files(self) -> HourFiles:
        """The hour's files. Raises Corrupt or FormatRefused if the check at their first use finds damage."""
        if self._files is None:
            self._files = self._open_files(self.number, self.generation, self.first)
        return self._files

    @property
    def next(self) -> int:
        """The global_index of the next unit."""
        return self.first + self.units

    # append

    def grow(self, units: int, log_bytes: int) -> None:
        """Add the number of new units and the bytes of their records to the counters, before `write` or the stage takes
        the units."""
        self.units += units
        self.unsettled += units
        self.log_end += log_bytes

    def write(self, units: Units, words: U64) -> None:
        """Write units of a near hour, which `grow` has counted, and their records.

        The units are complete except for chain and checksum, which are filled in in place.
        """
        self.heads().link(units)
        seal(units)
        write_bodies(self.files, words, self.saved_log_end, units, self.first + self.saved_units)
        self.saved_units, self.saved_log_end = self.units, self.log_end

    def move_in(self, units: Units, homes: U64) -> None:
        """Note the homes of units that are about to be added, whose messages were born at other positions."""
        self._homes.add(units["global_index"].astype(np.int64), homes)
        self.moved += len(units)

    def settle(self, rows: Settles) -> int:
        """Append settle records of existing units, with all but `previous` and checksum filled in. Return the bytes
        that stay in memory, 0 for a near hour."""
        first = self.settles
        settled, forwarded = self.states().enter(rows, first)
        self.unsettled -= settled
        self.forwarded += forwarded
        seal(rows)
        self.settles += len(rows)
        self._settled_ms = int(rows["at_ms"][-1])
        assert 0 <= self.forwarded <= self.unsettled <= self.units, f"{self.counters}"
        if not self.near:
            return self.staged_settles.add_settles(first, rows)
        self.files.settle.write_rows(rows, first)
        self.saved_settles = self.settles
        return 0

    @property
    def has_staged(self) -> bool:
        """True if units or settle records wait to be written."""
        return self.saved_units < self.units or self.saved_settles < self.settles

    @property
    def staged(self) -> Staged:
        """The hour's staged units and records, as they are now, without settle records."""
        return Staged() if self.saved_units == self.units else self._stage.of(self.number)

    @property
    def open(self) -> int:
        """The number of pending and leased units."""
        return self.unsettled - self.forwarded

    def settled_ms(self) -> int:
        """The `at_ms` of the last settle record, 0 if there is none.

        It is read once, over descriptors of its own. So a look at every hour leaves no descriptor open.
        """
        if self._settled_ms == NOT_READ:
            files = self._open_files(self.number, self.generation, self.first)
            self._settled_ms = int(files.settle.read_rows(self.settles - 1, 1)["at_ms"][0])
            files.close()
        return self._settled_ms

    # caches

    def heads(self) -> Heads:
        """The heads of all seconds' chains. For a far hour they are rebuilt at each call."""
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
            files = StateFiles.open(self.files, self.saved_settles) if self.saved_settles else StateFiles([])
            states = States(self.first, files)
            if files.files:
                self._absorb_tail(states, files.end)
            else:
                for first, rows in self._settles_from(0):
                    states.absorb(rows, first)
            self._states = states
        return self._states

    def _settles_from(self, begin: int) -> Iterator[tuple[int, Settles]]:
        """Yield (ordinal of the first, records) of the settle records from `begin` on, which is on disk, by blocks."""
        if self.saved_settles:
            yield from self.files.settle.blocks(self.saved_settles, begin)
        yield from zip(self.staged_settles.starts, self.staged_settles.arrays, strict=True)

    def _absorb_tail(self, states: States, begin: int) -> None:
        """Add the settle records from ordinal `begin` on, which states files do not cover, to the states."""
        parts = [rows_of(rows, first, self.first) for first, rows in self._settles_from(begin)]
        if parts:
            states.absorb_tail(
                newest_of(rows for rows, _ in parts), self.settles, forwards=any(told for _, told in parts)
            )

    def rebase_states(self, end: int) -> None:
        """Use the hour's states files as a checkpoint left them: longer, or fewer. They cover `end` settle records."""
        states = self._states
        if states is not None and states.reads_files:
            states.rebase(StateFiles.open(self.files, self.saved_settles))
            self._homes.forget(min(states.ended, self.next))
        elif states is not None:
            states.filed = end
            states.close()

    @property
    def states_units(self) -> int:
        """The number of units whose states are in memory."""
        return self._states.held if self._states is not None else 0

    @property
    def states_held(self) -> States | None:
        """The states, None if they are not in memory."""
        return self._states

    def homes(self, at: I64, places: U64) -> U64:
        """The homes of the units with these global indexes, at these places. An unknown unit gives its place."""
        if not self.moved:
            return places
        result = self._homes.find(at, places)
        rows = np.flatnonzero((at < self._homes.begin) & (at >= self.first))
        if len(rows):
            rows = rows[(self.unit_rows(at[rows])["flags"] & np.uint32(UNIT_MOVED)) > 0]
            result = result.copy()
            result[rows] = home_of(self.header_rows(at[rows]))
        return result

    def enter(self, heads: Heads | None = None) -> None:
        """Become near. The caller has written all staged bytes. `heads` are the hour's heads if they are known."""
        self.near = True
        self._heads = heads
        self.heads()

    def leave(self) -> None:
        """Become far. All staged bytes are written, so only the caches and descriptors are dropped."""
        assert not self.staged_settles.arrays, f"hour {self.number} is near and has staged settle records"
        self.near = False
        self._heads = None
        self.cool()

    def cool(self) -> None:
        """Drop the caches of a far hour, and its descriptors."""
        self.close()
        self._states, self._homes = None, HomesElsewhere(self.next)

    def close(self) -> None:
        """Close the hour's file descriptors. The next use opens the files again."""
        if self._states is not None:
            self._states.close()
        if self._files is not None:
            self._files.close()
            self._files = None

    def __del__(self) -> None:
        """Close the descriptors of an hour that was looked at without HourSet.use."""
        self.close()

    # checkpoint

    def freeze(self) -> FrozenHour:
        """The staged part of a far hour, to be written."""
        return FrozenHour(
            self.number,
            self.generation,
            self.first,
            self.saved_units,
            self.units,
            self.log_end - self.saved_log_end + (self.units - self.saved_units) * UNIT.itemsize,
            self.saved_settles,
            self.staged_settles.copy() if self.staged_settles.arrays else None,
        )

    def thaw(self, saved: HourCounters) -> None:
        """Drop the staged settle records that `saved` says are written."""
        self.staged_settles.drop(bisect_left(self.staged_settles.starts, saved.saved_settles))
        self.saved_units, self.saved_log_end = saved.saved_units, saved.saved_log_end
        self.saved_settles = saved.saved_settles

    def snapshot(self) -> "Hour":
        """A copy of this hour as it is now, for another thread: descriptors of its own, chunks that never change, no
        caches."""
        copy = Hour(self.counters, self._open_files, self._stage.only(self.number))
        copy.staged_settles = self.staged_settles.copy()
        return copy

    def lengths(self) -> HourLengths:
        """The lengths of the files once all appended bytes are written. 0 for a file not begun."""
        return self.counters.lengths

    # reading

    def unit_rows(self, at: I64) -> Units:
        """Units by global_index, in that order. A staged unit is NOT_LINKED yet."""
        if not len(at) or int(at[at.argmax()]) < self.first + self.saved_units:
            return self.files.index.gather_rows(at)
        rows = np.empty(len(at), UNIT)
        saved = at < self.first + self.saved_units
        put_rows(rows, saved, self.files.index.gather_rows(at[saved]))
        put_rows(rows, ~saved, self.staged.units.gather(at[~saved], UNIT))
        return rows

    def settle_rows(self, at: I64) -> Settles:
        """Settle records by ordinal, in that order."""
        if not len(at) or int(at[at.argmax()]) < self.saved_settles:
            return self.files.settle.gather_rows(at)
        rows = np.empty(len(at), SETTLE)
        saved = at < self.saved_settles
        put_rows(rows, saved, self.files.settle.gather_rows(at[saved]))
        put_rows(rows, ~saved, self.staged_settles.gather(at[~saved], SETTLE))
        return rows

    def records(self, at: I64, units: Units | None = None) -> list[Record]:
        """The records of the units with these global indexes, in that order. `units` are these units if the caller has
        them."""
        offsets, sizes = self._in_log(at, units)
        data, within = self._read_log(offsets, sizes)
        found = decode_records(data, within.tolist(), self.files.log.name, offsets.tolist())
        self._check_places(np.array([record.place for record in found], np.uint64), at, offsets)
        return found

    def record_rows(self, at: I64, units: Units | None = None) -> RecordRows:
        """The records by global_index, in that order, as columns. See `records`."""
        offsets, sizes = self._in_log(at, units)
        data, within = self._read_log(offsets, sizes)
        found = decode_rows(data, within, self.files.log.name, offsets)
        self._check_places(found.place, at, offsets)
        return found

    def header_rows(self, at: I64) -> npt.NDArray[np.void]:
        """The headers of the records of these units, dtype HEADER, in order. Their payloads are not read."""
        offsets = self.unit_rows(at)["offset"].astype(np.int64)
        rows = np.empty(len(at), HEADER)
        for part in pieces_by_bytes(offsets, HEADER.itemsize, _RUN_GAP_BYTES, _RUN_BYTES_MAX):
            data, within = self._read_log(offsets[part], np.full(len(part), HEADER.itemsize))
            words = np.frombuffer(data, np.uint64, len(data) // 8)
            put_rows(rows, part, words[(within >> 3)[:, None] + _HEADER_WORDS].view(HEADER)[:, 0])
        check_headers(rows, self.files.log.name, offsets.tolist())
        place = np.where(rows["flags"] == RECORD_MOVED, rows["place"], home_of(rows))
        self._check_places(place, at, offsets)
        return rows

    def _in_log(self, at: I64, units: Units | None) -> tuple[I64, I64]:
        """The offsets of these units' records in the log, and their sizes, [n] each."""
        rows = self.unit_rows(at) if units is None else units
        return rows["offset"].astype(np.int64), rows["size"].astype(np.int64)

    def _read_log(self, offsets: I64, sizes: I64) -> tuple[bytes, I64]:
        """Read these pieces of the log, in any order. Return bytes that hold them, and where in these each begins,
        [n]."""
        if not len(offsets):
            return b"", offsets
        if len(offsets) == 1 and int(offsets[0]) < self.saved_log_end:  # one message: nothing to sort
            return self.files.log.read(int(sizes[0]), int(offsets[0])), np.zeros(1, np.int64)
        order = offsets.argsort(kind="stable")
        starts = offsets[order]
        ends = starts + sizes[order]
        saved = int(starts.searchsorted(self.saved_log_end))
        data, begins = b"", starts
        if saved:
            data, begins = self.files.log.read_pieces(starts[:saved], ends[:saved], _RUN_GAP_BYTES, _RUN_BYTES_MAX)
        if saved < len(starts):
            parts, staged = [data], self.staged.log
            for start, end in zip(starts[saved:].tolist(), ends[saved:].tolist(), strict=True):
                base, words = staged.find(start)
                parts.append(words.view(np.uint8)[start - base : end - base].tobytes())
            edges = np.add.accumulate(ends[saved:] - starts[saved:])
            begins = np.concatenate([begins[:saved], edges - (ends[saved:] - starts[saved:]) + len(data)])
            data = b"".join(parts)
        within = np.empty_like(begins)
        within[order] = begins
        return data, within

    def all_units(self) -> Iterator[Units]:
        """Yield all units in order of global_index, a block at a time, the staged ones linked as they will be."""
        return linked_units(self.files, self.saved_units, self.staged)

    def _check_places(self, places: U64, at: I64, offsets: I64) -> None:
        """Raise Corrupt unless each record is the one that its unit points to. Checksums do not show that."""
        expected = at.view(np.uint64) | np.uint64(self.number << INDEX_BITS)
        wrong = (places != expected).nonzero()[0]
        if len(wrong):
            row = int(wrong[0])
            file, offset = self.files.log.name, int(offsets[row])
            raise Corrupt(file, offset, "record's position", int(places[row]), int(expected[row]))


def linked_units(files: HourFiles, saved_units: int, staged: Staged, heads: Heads | None = None) -> Iterator[Units]:
    """Yield all units in order of global_index, a block at a time. Units on disk come first, then copies of the staged
    ones, linked. If `heads` are given, they must be empty, and cover all units afterwards."""
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
