"""The hours of a store: which are near, warm or cold, and which a checkpoint has to write or sync.

```
                       turn                      used                     not used for longest
far, staged  ------------------> near     cold  ------> warm  ------------------------------> cold
```
Near hours are the wheel's hour, two back and two ahead. Another hour that is used keeps its states and descriptors for
a while: it is warm. Only near and warm hours have an `Hour`, and hours with staged settle records. Each other hour is a
row of counters (hour/hour_table.py). Memory depends on the hours in use, not on how many hours hold messages.

Invariant: the row of an hour equals its `Hour`, except for near hours. Of these the `Hour` is right, and `_refresh`
brings their rows up to date.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from storage.checkpoint.frozen_hours import FrozenHours
from storage.checkpoint.settling_hours import SettlingHours
from storage.checkpoint.states_due import StatesDue
from storage.checkpoint.unlinked_hours import Directory, UnlinkedHours
from storage.checkpoint.warm_hours import WarmHours
from storage.format.array import I64, U64
from storage.format.chain import HEADS_BYTES
from storage.format.position import in_hours
from storage.format.rows import Units
from storage.hour.batch_by_hour import BatchByHour
from storage.hour.heads_kept import HeadsKept, all_heads, used_heads
from storage.hour.hour import Hour
from storage.hour.hour_table import NOT_READ, HourCounters, HoursHeld, HourTable
from storage.hour.stage_write import OpenFiles, read_ahead, write_staged
from storage.hour.staging import Stage

NEAR_HOURS: Final = 2
"""Near hours on either side of the wheel's hour."""

AHEAD_HOURS: Final = 2
"""Hours after the near ones. A checkpoint reads their heads, so that `turn` finds them in memory."""

STAGED_BYTES_SOFT: Final = 64 << 20
"""Past this a checkpoint is due, whichever part starts it."""

_STAGED_BYTES_MAX: Final = 4 * STAGED_BYTES_SOFT
"""Past this each append writes some staged hours on the loop. So memory stays bounded when no checkpoint comes."""

_SETTLING_HOURS_MAX: Final = 2048
"""Past this many hours with staged settle records each append writes some. So a checkpoint begins and ends in short
steps."""

_PIECE_HOURS: Final = 64
_PIECE_BYTES: Final = 8 << 20
"""The most hours and bytes that one such step writes: more than an entry brings. A step takes some ten milliseconds."""

_READ_UNITS_MAX: Final = 1 << 16
"""An hour with more units on disk and no kept heads is left to the checkpoint. To write it, all units must be read."""


class HourSet:
    """All hours of a store: their counters, the `Hour` objects of those in use, and the bytes staged for them.

    The store adds units and settle records here, and freezes the hours for its checkpoints. For the loop's thread.
    """

    def __init__(
        self,
        table: HourTable,
        stage: Stage,
        open_files: OpenFiles,
        first_index: Callable[[int], int],
        leftovers: Sequence[Directory],
    ) -> None:
        self._table = table
        self._stage = stage
        self._open_files = open_files
        self._first_index = first_index
        self.units = int(table.rows["units"].sum())
        """Units of all hours, settled ones too."""
        self.moved = int(table.rows["moved"].sum())
        """The number of these units whose messages were born in another hour."""
        self._objects: WeakValueDictionary[int, Hour] = WeakValueDictionary()  # all that exist
        self._near = range(0)
        self._mapped: dict[int, Hour] = {}  # near hours
        self._warm = WarmHours()
        self._settling = SettlingHours()
        self._written: set[int] = set()  # written to since the last checkpoint began
        self._heads = HeadsKept()
        self._left = HeadsKept()  # of the hours that left at the last turn
        self._unlinked = UnlinkedHours(leftovers)
        self._states_due = StatesDue(table.rows)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def held(self) -> HoursHeld:
        """How many hours are near, how many have an `Hour` object in memory, and the bytes that heads take."""
        near = len(self._mapped)
        heads = near * HEADS_BYTES + self._left.bytes + self._heads.bytes
        return HoursHeld(near, len(self._objects), heads)

    @property
    def leftovers(self) -> int:
        """The number of leftovers that no checkpoint has begun to remove. See unlinked_hours.py."""
        return self._unlinked.leftovers

    @property
    def table(self) -> HourTable:
        """The rows of all hours, up to date."""
        self._refresh()
        return self._table

    def close(self) -> None:
        """Close the file descriptors of all hours."""
        for hour in list(self._objects.values()):
            hour.close()

    def counters(self, number: int) -> HourCounters | None:
        """The counters of an hour, None if it does not exist. No `Hour` is made."""
        return self._table.get(number) if (hour := self._objects.get(number)) is None else hour.counters

    def settled_ms(self, counters: HourCounters) -> int:
        """The time of an hour's last settle record, ms. 0 if there is none. It is read from the file once and kept in
        the counters. The hour does not become warm."""
        if counters.settled_ms != NOT_READ:
            return counters.settled_ms
        hour = self.find(counters.number)
        assert hour is not None, f"hour {counters.number} is there"
        found = hour.settled_ms()
        self._table.put(hour.counters)
        return found

    def find(self, number: int) -> Hour | None:
        """The hour, for a caller that needs its counters only. None if it does not exist. It does not become warm."""
        hour = self._objects.get(number)
        if hour is None and (counters := self._table.get(number)) is not None:
            hour = self._objects[number] = Hour(counters, self._open_files, self._stage)
        return hour

    def use(self, number: int) -> Hour | None:
        """The hour, for use of its caches or files. It becomes warm unless it is near. None if it does not exist."""
        hour = self._mapped.get(number)
        if hour is not None:
            return hour
        hour = self.find(number)
        if hour is not None:
            self._warm.use(hour)
        return hour

    def existing(self, positions: U64) -> Iterator[tuple[Hour, npt.NDArray[np.intp] | slice, I64]]:
        """Yield for each hour that `positions` name: the hour, which rows of `positions` name it, and their global
        indexes. All units must exist."""
        for number, rows, at in in_hours(positions):
            hour = self.use(number)
            assert hour is not None, f"no unit in hour {number}"
            assert at[at.argmax()] < hour.next, f"no unit {at.max()} below {hour.next} in hour {number}"
            assert not hour.first or at.min() >= hour.first, f"unit {at.min()} went with hour {number} when it ended"
            yield hour, rows, at

    # append

    def begin(self, numbers: list[int]) -> tuple[I64, I64]:
        """Begin those of the hours `numbers`, which rise, that do not exist yet. Return for each of `numbers` the
        global_index of its next unit, and the byte at which its log ends, [n] each."""
        missing = [number for number in numbers if number not in self._table]
        if missing:
            generations = [self._unlinked.generation(number) for number in missing]
            self._table.begin(missing, generations, [self._first_index(number) for number in missing])
            for number in missing[bisect_left(missing, self._near.start) : bisect_left(missing, self._near.stop)]:
                hour = self.find(number)
                assert hour is not None, "it was begun"
                self._mapped[number] = hour
                hour.near = True
        if len(numbers) == 1 and (only := self._mapped.get(numbers[0])):
            return np.array([only.next]), np.array([only.log_end])
        self._refresh()
        rows = self._table.rows[self._table.find(numbers)]
        return rows["first"] + rows["units"], rows["log_end"]

    def _among(self, numbers: list[int]) -> list[Hour]:
        """The `Hour` objects that exist for the hours `numbers`, which rise."""
        if len(numbers) < len(self._objects):
            return [hour for number in numbers if (hour := self._objects.get(number)) is not None]
        found = []
        for hour in list(self._objects.values()):
            place = bisect_left(numbers, hour.number)
            if place < len(numbers) and numbers[place] == hour.number:
                found.append(hour)
        return found

    def append(self, arranged: BatchByHour, units: Units, starts: I64) -> None:
        """Append units to hours that were begun. Those of near hours are written, others staged.

        The units are complete except for chain and checksum. `starts` has where each one's record begins in
        `arranged.words`.
        """
        hours, rows, words = arranged.hours, arranged.edges, arranged.words
        self.units += len(units)
        edges = np.append(starts, len(words))[rows]
        self._grow(arranged, units, edges)
        first, last = (bisect_left(hours, end) for end in (self._near.start, self._near.stop))
        for place in range(first, last):
            part, records = slice(*rows[place : place + 2].tolist()), slice(*edges[place : place + 2].tolist())
            self._written.add(hours[place])
            self._mapped[hours[place]].write(units[part], words[records])
        for begin, end in ((0, len(hours)),) if first == last else ((0, first), (last, len(hours))):
            if begin < end:
                self._add_staged(arranged, units, edges, slice(begin, end))

    def _grow(self, arranged: BatchByHour, units: Units, edges: I64) -> None:
        """Add units and record bytes to each hour's counters: in its row, and in its `Hour` if there is one."""
        hours, homes = arranged.hours, arranged.columns.homes
        counts, lengths = np.diff(arranged.edges), np.diff(edges) * 8
        if len(hours) > 1 or hours[0] not in self._mapped:
            at, rows = self._table.find(hours), self._table.rows
            rows["units"][at] += counts
            rows["unsettled"][at] += counts
            rows["log_end"][at] += lengths
            if homes is not None:
                rows["moved"][at] += counts
        if homes is not None:
            self.moved += len(units)
        for hour in self._among(hours):
            place = bisect_left(hours, hour.number)
            hour.grow(int(counts[place]), int(lengths[place]))
            if homes is not None:
                part = slice(*arranged.edges[place : place + 2].tolist())
                hour.move_in(units[part], homes[part])

    def _add_staged(self, arranged: BatchByHour, units: Units, edges: I64, which: slice) -> None:
        hours, words = arranged.hours[which], arranged.words
        rows, edges = (each[which.start : which.stop + 1] for each in (arranged.edges, edges))
        if len(hours) < len(arranged.hours):  # only a part: the stage must not hold the whole batch
            units, words = units[rows[0] : rows[-1]].copy(), words[edges[0] : edges[-1]].copy()
        self._stage.add(units, words, np.array(hours), rows - rows[0], edges - edges[0])

    def settled(self, hour: Hour, staged: int) -> None:
        """Note that an hour got settle records. `staged`: how many bytes of them wait in memory, 0 if they are in the
        file."""
        if staged:
            self._settling.add(hour, staged)
            self._table.put(hour.counters)
        else:
            self._written.add(hour.number)

    @property
    def staged_bytes(self) -> int:
        """The number of bytes in memory that wait to be written."""
        return self._stage.bytes + self._settling.bytes

    def bound(self) -> None:
        """If too many bytes, or hours with settle records, are staged, write a few hours.

        Only a few, because the loop stands still meanwhile.
        """
        settling: list[Hour] = []
        if self.staged_bytes > _STAGED_BYTES_MAX:
            first = 0
        elif len(self._settling) > _SETTLING_HOURS_MAX:
            settling = self._settling.lowest(_PIECE_HOURS)
            first = settling[0].number
        else:
            return
        units = not settling or settling[0].units > settling[0].saved_units
        piece = self._piece(first) if units else []
        self._write(piece)
        if not piece:  # settle records alone
            for hour in settling or self._settling.lowest(_PIECE_HOURS):
                if hour.units == hour.saved_units:
                    self._write([hour.number])

    def _piece(self, first: int) -> list[int]:
        """The hours that the next step of `bound` writes: the lowest hours from `first` on with staged units, as many
        as one step may write.

        No other staged hour lies between them. An hour whose heads take long to read is never among them: the list ends
        before it, or begins behind it.
        """
        piece: list[int] = []
        size = 0
        for number in self._stage.lowest(_PIECE_HOURS, first):
            hour = self.find(number)
            assert hour is not None, f"hour {number} is staged"
            kept = self._heads.get(number, hour.first + hour.saved_units) is not None
            if size >= _PIECE_BYTES or (piece and not kept and hour.saved_units > _READ_UNITS_MAX):
                break
            if kept or hour.saved_units <= _READ_UNITS_MAX:
                piece.append(number)
                size += hour.log_end - hour.saved_log_end
        return piece

    def turn(self, now_hour: int) -> None:
        """Move the wheel to `now_hour`. Hours that are no longer near lose their caches and descriptors. Hours that
        became near are written and opened.

        A turn back, after a wrong clock, finds in memory the heads of the hours that left at the last turn.
        """
        self._near = range(now_hour - NEAR_HOURS, now_hour + NEAR_HOURS + 1)
        left = [number for number in self._mapped if number not in self._near]
        known, self._left = self._left, HeadsKept() if left else self._left
        for number in left:
            hour = self._mapped.pop(number)
            heads = hour.heads()
            self._left.keep(number, used_heads(heads.after, heads.count, hour.next))
            hour.leave()
            self._table.put(hour.counters)
        for number in self._near:
            entering = None if number in self._mapped else self.find(number)
            if entering is not None:
                self._warm.drop(number)
                self._write([number])
                kept = self._heads.get(number, entering.next) or known.get(number, entering.next)
                self._heads.drop(number)
                self._mapped[number] = entering
                entering.enter(None if kept is None else all_heads(kept))

    def begin_at(self, now_hour: int) -> None:
        """Make the first turn after a start, when nothing is staged. It also reads the heads of the hours that become
        near next. For later turns the checkpoints' threads read them."""
        self.turn(now_hour)
        ahead = (self.find(number) for number in range(self._near.stop, self._near.stop + AHEAD_HOURS))
        read_ahead((hour.freeze() for hour in ahead if hour is not None), self._open_files, self._heads)

    def _write(self, numbers: list[int]) -> None:
        """Write the staged bytes of hours, which rise and have no other staged hour between them. A checkpoint that a
        thread writes at the same time may write the same bytes again."""
        hours = [hour for number in numbers if (hour := self.find(number)) is not None and hour.has_staged]
        if not hours:
            return
        first, last = hours[0].number, hours[-1].number
        write_staged([hour.freeze() for hour in hours], self._stage.within(first, last), self._open_files, self._heads)
        self._stage.remove(first, last)
        for hour in hours:
            self._written.add(hour.number)
            self._saved(hour, hour.counters.written)
            self._table.put(hour.counters)

    def unlink(self, number: int) -> None:
        """Drop an hour. The next checkpoint removes its directory. For an hour that does not exist nothing happens."""
        hour = self.find(number)
        if hour is None:
            return
        if hour.has_staged:
            self._stage.remove(number, number)
            self._saved(hour, hour.counters.written)
        self._mapped.pop(number, None)
        self._warm.drop(number)
        del self._objects[number]
        self._table.remove(number)
        self._heads.drop(number)
        self._written.discard(number)
        self._unlinked.add(number, hour.generation)
        self.units -= hour.units
        self.moved -= hour.moved
        hour.close()

    # checkpoint

    def freeze(self) -> FrozenHours:
        """Take the hours as they are now for a checkpoint. `thaw` must come before the next call."""
        self._refresh()
        frozen = FrozenHours(
            self._table.rows.copy(), self._settling.freeze(), self._stage.freeze(), frozenset(self._written),
            self._unlinked.freeze(), self._heads.fork(), range(self._near.stop, self._near.stop + AHEAD_HOURS),
            self._states_due.freeze(self._written),
        )  # fmt: skip
        self._written = set()
        return frozen

    def thaw(self, frozen: FrozenHours) -> None:
        """Drop from memory the bytes that the checkpoint has written. Call it once the checkpoint is durable."""
        self._unlinked.thaw(frozen.unlinked)
        self._stage.thaw()
        self._save(frozen)
        self._states_due.thaw(frozen.states, self._objects)

    def _save(self, frozen: FrozenHours) -> None:
        """Count the hours that the checkpoint wrote as written, and drop their staged settle records. Hours that
        `_write` wrote or `unlink` dropped meanwhile are left out."""
        self._heads.join(frozen.heads)
        self._refresh()
        saved = self._table.save(frozen.staged_rows, frozen.staged_columns)
        hours = list(self._objects.values())
        at = self._table.find([hour.number for hour in hours])
        for place in np.flatnonzero(np.isin(at, saved)).tolist():
            self._saved(hours[place], self._table.get(hours[place].number))

    def _saved(self, hour: Hour, counters: HourCounters | None) -> None:
        """Drop those of an hour's staged settle records that its counters say are written."""
        assert counters is not None, f"hour {hour.number} is there"
        self._settling.saved(hour, counters)

    def _refresh(self) -> None:
        """Copy the counters of the near hours from their `Hour` objects to their rows."""
        for hour in self._mapped.values():
            self._table.put(hour.counters)
