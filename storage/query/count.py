"""Counts the selected messages of an hour by state, from its index units and states, without reading a message.

A count runs in a thread over what its selection has captured. A million units take a few hundredths of a second.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from storage.format.array import I64, U8, U32
from storage.format.rows import Units
from storage.format.states import STANDINGS
from storage.query.selection import SelectedHour

_TOPICS_DENSE: Final = 4096


class Tally(Protocol):
    """Adds up the messages that a count finds."""

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, one row each. `standing` is the number under which a message is counted: a state of
        COUNTED_AS, or READY."""


class HourCount(SelectedHour):
    """Counts the selected messages of one hour, as they are when this is made. Make it on the loop's thread, and call
    `run` once, in any thread."""

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
        if self.selection.tags is not None:
            keep = self.tagged(rows + first, units["size"][rows])
            rows, due_ms, standing = rows[keep], due_ms[keep], standing[keep]
        if len(rows):
            tally.add(due_ms, units["topic"][rows], standing)


class Total:
    """Counts all messages, whatever their topic, due time and state."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, see Tally.add."""
        self.count += len(due_ms)


class TooManyBuckets(Exception):
    """The due times found lie further apart than a DueTally may reach."""


class DueTally:
    """Counts by due time, in buckets of `step_ms`. `buckets[n]` is the number of messages due in the `step_ms` from
    origin_ms + n * step_ms on. Empty buckets are left out."""

    def __init__(self, origin_ms: int, step_ms: int, most: int) -> None:
        self.buckets: Counter[int] = Counter()
        self._origin_ms = origin_ms
        self._step_ms = step_ms
        self._most = most
        self._low: int | None = None
        self._high = 0

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """See Tally. Raises TooManyBuckets if there are more than `most` buckets from the first to the last."""
        bucket = (due_ms - self._origin_ms) // self._step_ms
        low, high = int(bucket.min()), int(bucket.max())
        self._low = low if self._low is None else min(self._low, low)
        self._high = max(self._high, high) if self.buckets else high
        if self._high - self._low >= self._most:
            raise TooManyBuckets
        counts = np.bincount(bucket - low)
        for number in np.flatnonzero(counts).tolist():
            self.buckets[low + number] += int(counts[number])


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
