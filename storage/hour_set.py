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
that did not give the new units the same positions. The generation is the node's own matter, no replicated content.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.array import I64, U64
from storage.checkpoint import HourLengths
from storage.hour import FrozenHour, Hour
from storage.hour_file import HourFiles, directory_name
from storage.position import by_hour, hours_of, indexes_of

NEAR_HOURS: Final = 2
"""Hours on either side of the turn's that are near."""

STAGED_BYTES_SOFT: Final = 64 << 20
"""Past this a checkpoint is due, whoever drives them."""

_STAGED_BYTES_MAX: Final = 4 * STAGED_BYTES_SOFT
"""Past this staged hours are written at once, on the loop: slow, but memory stays bounded when no checkpoint comes."""

_WARM_HOURS_MAX: Final = 64
_WARM_UNITS_MAX: Final = 8 << 20
"""How many hours that are not near keep states and descriptors, and units of states in all."""


OpenFiles = Callable[[int, int], HourFiles]
"""The files of an hour, by number and generation."""


@dataclass(frozen=True, slots=True)
class FrozenHours:
    """All hours at one moment: the lengths their files will have, what to write for that, what to sync, and the
    directories to remove."""

    lengths: dict[int, HourLengths]
    staged: list[FrozenHour]
    synced: list[HourFiles]
    removed: list[str]


class HourSet:
    """The hours by number. On the loop's thread."""

    def __init__(self, hours: dict[int, Hour], open_files: OpenFiles) -> None:
        self._hours = hours
        self._open_files = open_files
        self.units = sum(hour.units for hour in hours.values())
        """Units of all hours, settled ones too."""
        self.moved = sum(hour.moved for hour in hours.values())
        """Of these, units born elsewhere."""
        self.staged_bytes = 0
        self._near = range(0)
        self._warm: OrderedDict[int, Hour] = OrderedDict()
        self._written: set[int] = set()  # written to since the last checkpoint began
        self._staging: set[int] = set()  # with staged chunks
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
            self._warm[number] = hour
            self._warm.move_to_end(number)
            self._cool()
        return hour

    def existing(self, positions: U64) -> Iterator[tuple[Hour, npt.NDArray[np.intp] | slice, I64]]:
        """(hour, rows, global indexes) of positions that must exist, hour by hour."""
        indexes = indexes_of(positions)
        for number, rows in by_hour(hours_of(positions)):
            hour = self.use(number)
            at = indexes[rows]
            assert hour is not None, f"no unit in hour {number}"
            assert at[at.argmax()] < hour.units, f"no unit {at.max()} among {hour.units} in hour {number}"
            yield hour, rows, at

    def begin(self, number: int) -> Hour:
        """The hour to append to, begun if it is not there."""
        hour = self._hours.get(number)
        if hour is None:
            old = [generation for each, generation in (*self._unlinked, *self._removing) if each == number]
            hour = self._hours[number] = Hour(number, self._open_files(number, max(old, default=-1) + 1))
            hour.near = number in self._near
        return hour

    def appended(self, hour: Hour, staged: int, *, units: int = 0, moved: int = 0) -> None:
        """Units, some of them moved, or settle records were added to an hour; `staged` bytes of it are in memory."""
        self.units += units
        self.moved += moved
        self.staged_bytes += staged
        (self._staging if staged else self._written).add(hour.number)

    def bound(self) -> None:
        """Write what is staged if it has become too much."""
        if self.staged_bytes <= _STAGED_BYTES_MAX:
            return
        for number in sorted(self._staging):
            hour = self._hours[number]
            self._unstage(hour)
            hour.flush()
            self._warm.pop(number, None)
            hour.cool()

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
                self._unstage(entering)
                entering.enter()

    def unlink(self, number: int) -> None:
        """Forget an hour; its directory goes with the next checkpoint. Unknown hours are fine."""
        hour = self._hours.pop(number, None)
        if hour is None:
            return
        self._unstage(hour)
        self._warm.pop(number, None)
        self._written.discard(number)
        self._unlinked.add((number, hour.files.generation))
        self.units -= hour.units
        self.moved -= hour.moved
        hour.files.close()

    def freeze(self) -> FrozenHours:
        """This moment, for a checkpoint. One at a time."""
        lengths = {number: hour.lengths() for number, hour in self._hours.items()}
        staged = [self._hours[number].freeze() for number in sorted(self._staging)]
        touched, self._written = sorted(self._written | self._staging), set()
        synced = [self._hours[number].files.again() for number in touched]
        self._removing, self._unlinked = self._unlinked, set()
        removed = [directory_name(*each) for each in sorted(self._removing)]
        return FrozenHours(lengths, staged, synced, removed)

    def thaw(self, frozen: FrozenHours) -> None:
        """The checkpoint is durable."""
        self._removing = set()
        for frozen_hour in frozen.staged:
            hour = self._hours.get(frozen_hour.number)
            if hour is not None and hour.files.generation == frozen_hour.files.generation:
                hour.thaw(frozen_hour)
        self._staging = {number for number in self._staging if self._hours[number].staged}
        self.staged_bytes = sum(self._hours[number].staged.bytes() for number in self._staging)

    def _unstage(self, hour: Hour) -> None:
        """The hour's staged chunks are about to be written or forgotten."""
        if hour.number in self._staging:
            self._staging.discard(hour.number)
            self.staged_bytes -= hour.staged.bytes()
            self._written.add(hour.number)

    def _cool(self) -> None:
        units = sum(warm.units for warm in self._warm.values())
        while len(self._warm) > 1 and (len(self._warm) > _WARM_HOURS_MAX or units > _WARM_UNITS_MAX):
            _, coldest = self._warm.popitem(last=False)
            units -= coldest.units
            coldest.cool()
