"""The hours of a store, which of them are near, warm or cold, and which a checkpoint has to write or sync.

```
                       turn                      used                     not used for longest
far, staged  ------------------> near     cold  ------> warm  ------------------------------> cold
```
Near hours are those the wheel stands at, two back and two ahead. Any other that is used keeps its states and
descriptors for a while: warm. Memory depends on these alone, not on how many hours hold messages.

An hour that was unlinked may be begun again (a Realign has turned the wheel back): under the same number and, until a
checkpoint without the old one is durable, under another generation, which gives it a directory of its own. A crash
would bring the old one back, so not a byte of it may change; and a node that made its checkpoint in between and one
that did not give the new units the same positions: those behind the old ones', which no unit is ever given again (the
catalog keeps where an unlinked hour ended). So it is where a pin holds the old directory (snapshot_pin.py). The
generation is the node's own matter, no replicated content.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.arrangement import Arrangement
from storage.array import I64, U64
from storage.checkpoint import HourLengths
from storage.format import Units
from storage.hour import Hour
from storage.position import by_hour, hours_of, indexes_of
from storage.snapshot_pin import Pins
from storage.stage_write import FrozenHour, OpenFiles, write_staged
from storage.staging import Chunk, Stage

NEAR_HOURS: Final = 2
"""Hours on either side of the turn's that are near."""

STAGED_BYTES_SOFT: Final = 64 << 20
"""Past this a checkpoint is due, whoever drives them."""

_HEADS_HOURS_MAX: Final = 1024
"""How many far hours keep their heads between writes, 29 KB each: a month and ten days."""

_STAGED_BYTES_MAX: Final = 4 * STAGED_BYTES_SOFT
"""Past this staged hours are written at once, on the loop: slow, but memory stays bounded when no checkpoint comes."""

_WARM_HOURS_MAX: Final = 64
_WARM_UNITS_MAX: Final = 8 << 20
"""How many hours that are not near keep states and descriptors, and units of states in all."""


@dataclass(frozen=True, slots=True)
class FrozenHours:
    """All hours at one moment: the lengths their files will have, what to write for that, what to sync, and the
    directories to remove."""

    lengths: dict[int, HourLengths]
    staged: list[FrozenHour]
    chunks: tuple[Chunk, ...]
    synced: list[tuple[int, int]]  # hour and generation
    removed: list[tuple[int, int]]  # likewise


class HourSet:
    """The hours by number. On the loop's thread."""

    def __init__(
        self, hours: dict[int, Hour], stage: Stage, open_files: OpenFiles, begin_files: OpenFiles, pins: Pins
    ) -> None:
        self._hours = hours
        self._pins = pins
        self._stage = stage
        self._open_files = open_files
        self._begin_files = begin_files
        self.units = sum(hour.units for hour in hours.values())
        """Units of all hours, settled ones too."""
        self.moved = sum(hour.moved for hour in hours.values())
        """Of these, units born elsewhere."""
        self._settle_bytes = 0  # of staged settle records
        self._near = range(0)
        self._warm: OrderedDict[int, Hour] = OrderedDict()
        self._written: set[int] = set()  # written to since the last checkpoint began
        self._headed: OrderedDict[int, Hour] = OrderedDict()  # far ones that keep their heads
        self._staging: set[int] = set()  # with staged units or settle records
        self._unlinked: set[tuple[int, int]] = set()  # (hour, generation) that the next checkpoint removes
        self._removing: set[tuple[int, int]] = set()  # and those that the one under way does

    def __iter__(self) -> Iterator[Hour]:
        return iter(self._hours.values())

    def find(self, number: int) -> Hour | None:
        """The hour, without using it: its counters only."""
        return self._hours.get(number)

    def use(self, number: int) -> Hour | None:
        """The hour, whose caches or files are about to be used; None if it holds nothing."""
        hour = self._hours.get(number)
        if hour is not None and not hour.near:
            known = number in self._warm
            self._warm[number] = hour
            self._warm.move_to_end(number)
            if not known:
                self._cool()
        return hour

    def existing(self, positions: U64) -> Iterator[tuple[Hour, npt.NDArray[np.intp] | slice, I64]]:
        """(hour, rows, global indexes) of positions that must exist, hour by hour."""
        indexes = indexes_of(positions)
        for number, rows in by_hour(hours_of(positions)):
            hour = self.use(number)
            at = indexes[rows]
            assert hour is not None, f"no unit in hour {number}"
            assert at[at.argmax()] < hour.next, f"no unit {at.max()} below {hour.next} in hour {number}"
            assert not hour.first or at.min() >= hour.first, f"unit {at.min()} went with hour {number} when it ended"
            yield hour, rows, at

    def begin(self, number: int) -> Hour:
        """The hour to append to, begun if it is not there."""
        hour = self._hours.get(number)
        if hour is None:
            old = [generation for each, generation in (*self._unlinked, *self._removing) if each == number]
            old += self._pins.generations(number)
            files = self._begin_files(number, max(old, default=-1) + 1)
            hour = self._hours[number] = Hour(number, files, self._stage)
            hour.near = number in self._near
        return hour

    def append(self, hours: list[Hour], arranged: Arrangement, units: Units, starts: I64) -> None:
        """Add units, arranged by these hours, complete but for chain and checksum: near ones are written, the others
        staged. `starts` say where each one's record begins in `arranged.words`."""
        homes, rows, words = arranged.columns.homes, arranged.edges, arranged.words
        self.units += len(units)
        if homes is not None:
            self.moved += len(units)
            for hour, first, last in zip(hours, rows[:-1].tolist(), rows[1:].tolist(), strict=True):
                hour.move_in(units[first:last], homes[first:last])
        if len(hours) == 1:
            hours[0].grow(len(units), words.nbytes)
            self._append_one(hours[0], units, words)
            return
        edges = np.append(starts, len(words))[rows]
        for hour, count, length in zip(hours, np.diff(rows).tolist(), np.diff(edges).tolist(), strict=True):
            hour.grow(count, length * 8)
        first, last = (bisect_left(arranged.hours, end) for end in (self._near.start, self._near.stop))
        for place in range(first, last):
            part, records = slice(*rows[place : place + 2].tolist()), slice(*edges[place : place + 2].tolist())
            self._append_one(hours[place], units[part], words[records])
        for begin, end in ((0, len(hours)),) if first == last else ((0, first), (last, len(hours))):
            if begin < end:
                self._add_staged(arranged, units, edges, slice(begin, end))

    def _append_one(self, hour: Hour, units: Units, words: U64) -> None:
        if hour.near:
            self._written.add(hour.number)
            hour.write(units, words)
        else:
            self._staging.add(hour.number)
            rows, edges = np.array([0, len(units)]), np.array([0, len(words)])
            self._stage.add(units, words, np.array([hour.number]), rows, edges)

    def _add_staged(self, arranged: Arrangement, units: Units, edges: I64, which: slice) -> None:
        hours = arranged.hours[which]
        self._staging.update(hours)
        rows, edges = (each[which.start : which.stop + 1] for each in (arranged.edges, edges))
        units, words = units[rows[0] : rows[-1]], arranged.words[edges[0] : edges[-1]]
        if len(hours) < len(arranged.hours):  # a part: the batch itself is not to be held by it
            units, words = units.copy(), words.copy()
        self._stage.add(units, words, np.array(hours), rows - rows[0], edges - edges[0])

    def settled(self, hour: Hour, staged: int) -> None:
        """Settle records were added to an hour; `staged` bytes of them are in memory."""
        self._settle_bytes += staged
        (self._staging if staged else self._written).add(hour.number)

    @property
    def staged_bytes(self) -> int:
        """Memory held by what waits to be written."""
        return self._stage.bytes + self._settle_bytes

    def bound(self) -> None:
        """Write what is staged if it has become too much."""
        if self.staged_bytes <= _STAGED_BYTES_MAX:
            return
        staged = self._freeze_staged(self._staging)
        write_staged(staged, self._stage.chunks, self._open_files)
        self._written |= self._staging
        self._stage.clear()
        self._written_staged(staged)

    def turn(self, now_hour: int) -> None:
        """The wheel stands at `now_hour`: let go of hours no longer near, write and open those that became so."""
        self._near = range(now_hour - NEAR_HOURS, now_hour + NEAR_HOURS + 1)
        for hour in self._hours.values():
            if hour.near and hour.number not in self._near:
                hour.leave()
        for number in self._near:
            entering = self._hours.get(number)
            if entering is not None and not entering.near:
                self._warm.pop(number, None)
                self._write_one(entering)
                self._headed.pop(number, None)
                entering.enter()

    def _write_one(self, hour: Hour) -> None:
        """Write what is staged of one hour. A checkpoint under way may write the same bytes again."""
        if hour.number not in self._staging:
            return
        staged = self._freeze_staged({hour.number})
        found = [chunk.part(at, at + 1) for chunk in self._stage.chunks if (at := chunk.find(hour.number)) is not None]
        write_staged(staged, found, self._open_files)
        self._written.add(hour.number)
        self._stage.remove(hour.number)
        self._written_staged(staged)

    def unlink(self, number: int) -> None:
        """Forget an hour; its directory goes with the next checkpoint. Unknown hours are fine."""
        hour = self._hours.pop(number, None)
        if hour is None:
            return
        if number in self._staging:
            self._staging.discard(number)
            self._settle_bytes -= hour.staged_settles.bytes()
            self._stage.remove(number)
        self._warm.pop(number, None)
        self._headed.pop(number, None)
        self._written.discard(number)
        self._unlinked.add((number, hour.files.generation))
        self.units -= hour.units
        self.moved -= hour.moved
        hour.files.close()

    def freeze(self) -> FrozenHours:
        """This moment, for a checkpoint. One at a time."""
        lengths = {number: hour.lengths() for number, hour in self._hours.items()}
        staged, chunks = self._freeze_staged(self._staging), self._stage.freeze()
        touched, self._written = sorted(self._written | self._staging), set()
        synced = [(number, self._hours[number].files.generation) for number in touched]
        self._removing, self._unlinked = self._unlinked, set()
        return FrozenHours(lengths, staged, chunks, synced, sorted(self._removing))

    def thaw(self, frozen: FrozenHours) -> None:
        """The checkpoint is durable."""
        self._removing = set()
        self._stage.thaw()
        self._written_staged(frozen.staged)

    def _freeze_staged(self, numbers: set[int]) -> list[FrozenHour]:
        return [self._hours[number].freeze() for number in sorted(numbers)]

    def _written_staged(self, staged: list[FrozenHour]) -> None:
        """What was frozen is written: forget it, and keep the heads of as many hours as may."""
        for frozen in staged:
            hour = self._hours.get(frozen.number)
            if hour is None or hour.files.generation != frozen.generation:
                continue
            before = hour.staged_settles.bytes()
            if hour.thaw(frozen):
                self._settle_bytes += hour.staged_settles.bytes() - before
                self._headed[hour.number] = hour
                self._headed.move_to_end(hour.number)
                if not hour.has_staged:
                    self._staging.discard(hour.number)
        while len(self._headed) > _HEADS_HOURS_MAX:
            _, oldest = self._headed.popitem(last=False)
            oldest.drop_heads()

    def _cool(self) -> None:
        units = sum(warm.units for warm in self._warm.values())
        while len(self._warm) > 1 and (len(self._warm) > _WARM_HOURS_MAX or units > _WARM_UNITS_MAX):
            _, coldest = self._warm.popitem(last=False)
            units -= coldest.units
            coldest.cool()
