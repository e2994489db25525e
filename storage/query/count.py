"""Counts the selected messages of an hour by state, from its index units and states, without reading a message.

A count runs in a thread over what its selection has captured. A million units take a few hundredths of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from storage.format.array import I64, U8, U32, U64, Mask
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.format.rows import Units
from storage.format.states import PENDING, READY, STANDINGS
from storage.hour.hour import Hour
from storage.query.selection import SelectedHour, Selection

_TOPICS_DENSE: Final = 4096


class Tally(Protocol):
    """Adds up the messages that a count finds."""

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, one row each. `standing` is the number under which a message is counted: a state of
        COUNTED_AS, or READY."""

    def add_hour(self, hour: int, count: int) -> bool:
        """Add that many messages of an hour, without a look at them. False if the tally has to see each of them. Then
        nothing is added."""


class MemberSet(Protocol):
    """The set of an operation, as it was at one moment (storage/tables/running_set.py)."""

    def has(
        self, positions: U64, due_ms: I64, topic: U32, tags: U64, tags_of: Callable[[U64], Sequence[Sequence[str]]]
    ) -> Mask:
        """True, [n], for units of the set. The columns are those of the index. `tags_of` reads the tags of units."""


class Members(NamedTuple):
    """Sets of operations, as they are at one moment, and the tally of the counted messages that they have. A message
    whose lease runs does not count."""

    sets: Sequence[MemberSet]
    tally: Tally


class HourCount(SelectedHour):
    """Counts the selected messages of one hour, as they are when this is made. Make it on the loop's thread, and call
    `run` once, in any thread."""

    def __init__(self, hour: Hour, selection: Selection, now_ms: int, members: Members | None = None) -> None:
        """`members`: those of the messages that are counted again."""
        super().__init__(hour, selection, now_ms)
        self._members = members

    def run(self, tally: Tally, stopped: Callable[[], bool] = lambda: False) -> None:
        """Add the messages to `tally`. Once `stopped` is true it stops early, and only a part of the messages is added.

        Raises what the tally raises, and Corrupt or DiskFailed. If the hour was unlinked meanwhile, Corrupt and
        DiskFailed show no damage.
        """
        try:
            state = self.states()
            row = 0
            for units in self.blocks():
                if stopped():
                    return
                self._count(units, state[row : row + len(units)], self.content.first + row, tally)
                row += len(units)
        finally:
            self.close()

    def _count(self, units: Units, state: U8, first: int, tally: Tally) -> None:
        rows, due_ms, standing = self.wanted(units, state)
        if self.selection.which.tags is not None:
            keep = self.tagged(rows + first, units["size"][rows])
            rows, due_ms, standing = rows[keep], due_ms[keep], standing[keep]
        if not len(rows):
            return
        tally.add(due_ms, units["topic"][rows], standing)
        if self._members is not None:
            waits = (standing == PENDING) | (standing == READY)
            self._count_members(units[rows[waits]], standing[waits], self._members)

    def _count_members(self, units: Units, standing: U8, members: Members) -> None:
        """Add those of these units that a set has."""
        places = units["global_index"] | np.uint64(self.source.number << INDEX_BITS)
        left = np.arange(len(units))
        for each in members.sets:
            its = units[left]

            def tags_of(positions: U64, its: Units = its, at: U64 = places[left]) -> Sequence[Sequence[str]]:
                rows = np.searchsorted(at, positions)
                found = self.records(its["global_index"][rows].astype(np.int64), its["size"][rows])
                return [record.tags for record in found]

            has = each.has(places[left], its["due_ms"], its["topic"], its["tags"], tags_of)
            left = left[~has]
        there = np.setdiff1d(np.arange(len(units)), left, assume_unique=True)
        if len(there):
            members.tally.add(units["due_ms"][there], units["topic"][there], standing[there])


class Total:
    """Counts all messages, whatever their topic, due time and state."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, see Tally.add."""
        self.count += len(due_ms)

    def add_hour(self, hour: int, count: int) -> bool:
        """See Tally."""
        self.count += count
        return True


class TooManyBuckets(Exception):
    """A DueTally has more buckets than it may have, also with its longest step."""


class DueTally:
    """Counts by due time, in buckets of `step_ms`. Bucket n takes the `step_ms` from origin_ms + n * step_ms on.

    The step is the first of `steps_ms` by which there are at most `most` buckets. It grows while messages are added, so
    each step must be a multiple of the one before.
    """

    def __init__(
        self,
        origin_ms: int,
        steps_ms: Sequence[int],
        most: int,
        first_ms: int | None = None,
        last_ms: int | None = None,
    ) -> None:
        """The buckets reach from the one of `first_ms` to the one of `last_ms`. None: the one of the earliest, or of
        the latest, message."""
        self.step_ms, self._longer_ms = steps_ms[0], list(steps_ms[1:])
        self._origin_ms, self._most = origin_ms, most
        self._fixed_ms = (first_ms, last_ms)
        self._found_ms: tuple[int, int] | None = None
        self.counts: Counter[int] = Counter()
        """The number of messages of each bucket, without the empty ones."""

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """See Tally. Raises TooManyBuckets."""
        low_ms, high_ms = int(due_ms.min()), int(due_ms.max())
        self._found(low_ms, high_ms)
        first = (low_ms - self._origin_ms) // self.step_ms
        counts = np.bincount((due_ms - self._origin_ms) // self.step_ms - first)
        for number in np.flatnonzero(counts).tolist():
            self.counts[first + number] += int(counts[number])

    def add_hour(self, hour: int, count: int) -> bool:
        """See Tally. Only a bucket of whole hours takes an hour as it is. Raises TooManyBuckets."""
        if self.step_ms % HOUR_MS or self._origin_ms % HOUR_MS:
            return False
        if count:
            self._found(hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
            self.counts[(hour * HOUR_MS - self._origin_ms) // self.step_ms] += count
        return True

    def _found(self, low_ms: int, high_ms: int) -> None:
        """Note that messages were found from `low_ms` to `high_ms`."""
        before = self._found_ms or (low_ms, high_ms)
        self._found_ms = min(low_ms, before[0]), max(high_ms, before[1])
        self._lengthen()

    def buckets(self) -> list[tuple[int, int]]:
        """Return all buckets without a hole: the time at which each begins, and the number of messages. None are there
        if an end is open and no message was found. Raises TooManyBuckets."""
        self._lengthen()
        return [(self._origin_ms + number * self.step_ms, self.counts[number]) for number in self._numbers()]

    def _numbers(self) -> range:
        first_ms, last_ms = self._fixed_ms
        if self._found_ms is not None:
            first_ms = self._found_ms[0] if first_ms is None else first_ms
            last_ms = self._found_ms[1] if last_ms is None else last_ms
        if first_ms is None or last_ms is None:
            return range(0)
        first, last = ((ms - self._origin_ms) // self.step_ms for ms in (first_ms, last_ms))
        return range(first, last + 1)

    def _lengthen(self) -> None:
        """Take the next steps until the buckets are few enough."""
        while len(self._numbers()) > self._most:
            if not self._longer_ms:
                raise TooManyBuckets
            step_ms, counts = self._longer_ms.pop(0), Counter[int]()
            for number, count in self.counts.items():
                counts[number * self.step_ms // step_ms] += count
            self.step_ms, self.counts = step_ms, counts


class TopicTally:
    """Counts by topic and standing: `counts` has the number of messages of each pair."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()
        self._standings = sorted(number for numbers in STANDINGS.values() for number in numbers)
        self._rank = np.zeros(256, np.int64)
        self._rank[self._standings] = np.arange(len(self._standings))

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, see Tally.add."""
        low = int(topic.min())
        key = (topic.astype(np.int64) - low) * len(self._standings) + self._rank[standing]
        if int(topic.max()) - low < _TOPICS_DENSE:
            dense = np.bincount(key)
            found = np.flatnonzero(dense)
            counts = dense[found]
        else:
            found, counts = np.unique(key, return_counts=True)
        for each, count in zip(found.tolist(), counts.tolist(), strict=True):
            number, rank = divmod(each, len(self._standings))
            self.counts[low + number, self._standings[rank]] += count

    def add_hour(self, hour: int, count: int) -> bool:
        """See Tally. Each message has its own topic."""
        return False
