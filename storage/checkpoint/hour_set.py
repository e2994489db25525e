"""The hours of a store, which of them are near, warm or cold, and which a checkpoint has to write or sync.

```
                       turn                      used                     not used for longest
far, staged  ------------------> near     cold  ------> warm  ------------------------------> cold
```
Near hours are those the wheel stands at, two back and two ahead. Any other that is used keeps its states and
descriptors for a while: warm. Only these have an `Hour`, and hours with staged settle records; of all others there is
a row of counters (hour/hour_table.py). Memory depends on what is used, not on how many hours hold messages.

Invariant: the row of an hour is as its `Hour` says, but for near hours: of those the `Hour` is right, and `_refresh`
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
"""Hours on either side of the turn's that are near."""

AHEAD_HOURS: Final = 2
"""Hours behind these whose heads a checkpoint reads, so that the turn finds them in memory."""

STAGED_BYTES_SOFT: Final = 64 << 20
"""Past this a checkpoint is due, whoever drives them."""

_STAGED_BYTES_MAX: Final = 4 * STAGED_BYTES_SOFT
"""Past this each append writes some staged hours on the loop, so that memory stays bounded when no checkpoint comes."""

_SETTLING_HOURS_MAX: Final = 2048
"""Past so many hours with staged settle records each append writes some, so that a checkpoint begins and ends in short
steps."""

_PIECE_HOURS: Final = 64
_PIECE_BYTES: Final = 8 << 20
"""How much of it: more than an entry brings, and some ten milliseconds."""

_READ_UNITS_MAX: Final = 1 << 16
"""Hours of more units on disk, whose heads are not kept, are left to the checkpoint."""


class HourSet:
    """The hours by number. On the loop's thread."""

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
        """Of these, units born elsewhere."""
        self._objects: WeakValueDictionary[int, Hour] = WeakValueDictionary()  # all there are, whoever holds them
        self._near = range(0)
        self._mapped: dict[int, Hour] = {}  # the near ones
        self._warm = WarmHours()
        self._settling = SettlingHours()
        self._written: set[int] = set()  # written to since the last checkpoint began
        self._heads = HeadsKept()
        self._left = HeadsKept()  # of what the last turn let go
        self._unlinked = UnlinkedHours(leftovers)
        self._states_due = StatesDue(table.rows)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def held(self) -> HoursHeld:
        """What is in memory of them."""
        near = len(self._mapped)
        heads = near * HEADS_BYTES + self._left.bytes + self._heads.bytes
        return HoursHeld(near, len(self._objects), heads)

    @property
    def leftovers(self) -> int:
        """Directories that the checkpoint at the start did not name, and none after it was made to remove."""
        return self._unlinked.leftovers

    @property
    def table(self) -> HourTable:
        """The rows of all hours, up to date."""
        self._refresh()
        return self._table

    def close(self) -> None:
        """Let go of all descriptors."""
        for hour in list(self._objects.values()):
            hour.close()

    def counters(self, number: int) -> HourCounters | None:
        """What there is of an hour, without an object of it."""
        return self._table.get(number) if (hour := self._objects.get(number)) is None else hour.counters

    def settled_ms(self, counters: HourCounters) -> int:
        """When the last thing happened to a unit of an hour, ms; 0 if nothing did. Read once, and not used by it."""
        if counters.settled_ms != NOT_READ:
            return counters.settled_ms
        hour = self.find(counters.number)
        assert hour is not None, f"hour {counters.number} is there"
        found = hour.settled_ms()
        self._table.put(hour.counters)
        return found

    def find(self, number: int) -> Hour | None:
        """The hour, without using it: its counters only."""
        hour = self._objects.get(number)
        if hour is None and (counters := self._table.get(number)) is not None:
            hour = self._objects[number] = Hour(counters, self._open_files, self._stage)
        return hour

    def use(self, number: int) -> Hour | None:
        """The hour, whose caches or files are about to be used; None if it holds nothing."""
        hour = self._mapped.get(number)
        if hour is not None:
            return hour
        hour = self.find(number)
        if hour is not None:
            self._warm.use(hour)
        return hour

    def existing(self, positions: U64) -> Iterator[tuple[Hour, npt.NDArray[np.intp] | slice, I64]]:
        """(hour, rows, global indexes) of positions that must exist, hour by hour."""
        for number, rows, at in in_hours(positions):
            hour = self.use(number)
            assert hour is not None, f"no unit in hour {number}"
            assert at[at.argmax()] < hour.next, f"no unit {at.max()} below {hour.next} in hour {number}"
            assert not hour.first or at.min() >= hour.first, f"unit {at.min()} went with hour {number} when it ended"
            yield hour, rows, at

    # append

    def begin(self, numbers: list[int]) -> tuple[I64, I64]:
        """The hours to append to, rising, begun where they are not there: the global_index of each one's next unit,
        and where its log ends."""
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
        """Of these hours, which rise, those that there is an object of."""
        if len(numbers) < len(self._objects):
            return [hour for number in numbers if (hour := self._objects.get(number)) is not None]
        found = []
        for hour in list(self._objects.values()):
            place = bisect_left(numbers, hour.number)
            if place < len(numbers) and numbers[place] == hour.number:
                found.append(hour)
        return found

    def append(self, arranged: BatchByHour, units: Units, starts: I64) -> None:
        """Add units to hours that were begun, complete but for chain and checksum: near ones are written, the others
        staged. `starts` say where each one's record begins in `arranged.words`."""
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
        """Count the units and records to each hour, in its row and in its object if there is one."""
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
        if len(hours) < len(arranged.hours):  # a part: the batch itself is not to be held by it
            units, words = units[rows[0] : rows[-1]].copy(), words[edges[0] : edges[-1]].copy()
        self._stage.add(units, words, np.array(hours), rows - rows[0], edges - edges[0])

    def settled(self, hour: Hour, staged: int) -> None:
        """Settle records were added to an hour; `staged` bytes of them are in memory."""
        if staged:
            self._settling.add(hour, staged)
            self._table.put(hour.counters)
        else:
            self._written.add(hour.number)

    @property
    def staged_bytes(self) -> int:
        """Memory held by what waits to be written."""
        return self._stage.bytes + self._settling.bytes

    def bound(self) -> None:
        """Write some of what is staged if it has become too much: a few hours at a time, for the loop waits."""
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
        """The lowest hours from `first` on with staged units, none between them left out, whose heads need no long
        reading."""
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
        """The wheel stands at `now_hour`: let go of hours no longer near, write and open those that became so. A turn
        back, for the clock was wrong, reads nothing of hours that the one before let go."""
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
        """The first turn, with nothing staged. The heads of the hours that become near next are kept too: later each
        checkpoint's thread sees to that."""
        self.turn(now_hour)
        ahead = (self.find(number) for number in range(self._near.stop, self._near.stop + AHEAD_HOURS))
        read_ahead((hour.freeze() for hour in ahead if hour is not None), self._open_files, self._heads)

    def _write(self, numbers: list[int]) -> None:
        """Write what is staged of hours, which rise and have no other staged one between them. A checkpoint under way
        may write the same bytes again."""
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
        """Forget an hour; its directory goes with the next checkpoint. Unknown hours are fine."""
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
        """This moment, for a checkpoint. One at a time."""
        self._refresh()
        frozen = FrozenHours(
            self._table.rows.copy(), self._settling.freeze(), self._stage.freeze(), frozenset(self._written),
            self._unlinked.freeze(), self._heads.fork(), range(self._near.stop, self._near.stop + AHEAD_HOURS),
            self._states_due.freeze(self._written),
        )  # fmt: skip
        self._written = set()
        return frozen

    def thaw(self, frozen: FrozenHours) -> None:
        """The checkpoint is durable."""
        self._unlinked.thaw(frozen.unlinked)
        self._stage.thaw()
        self._save(frozen)
        self._states_due.thaw(frozen.states, self._objects)

    def _save(self, frozen: FrozenHours) -> None:
        """What was frozen is written: forget it, but of hours that were written meanwhile by other means."""
        self._heads.join(frozen.heads)
        self._refresh()
        saved = self._table.save(frozen.staged_rows, frozen.staged_columns)
        hours = list(self._objects.values())
        at = self._table.find([hour.number for hour in hours])
        for place in np.flatnonzero(np.isin(at, saved)).tolist():
            self._saved(hours[place], self._table.get(hours[place].number))

    def _saved(self, hour: Hour, counters: HourCounters | None) -> None:
        """What was staged of an hour is written as far as its counters say."""
        assert counters is not None, f"hour {hour.number} is there"
        self._settling.saved(hour, counters)

    def _refresh(self) -> None:
        """Bring the rows of the near hours up to date."""
        for hour in self._mapped.values():
            self._table.put(hour.counters)
