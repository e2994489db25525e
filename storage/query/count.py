"""Counts the messages of an hour by state, from its index units and states, without reading a message.

A count captures the hour's content at one moment, on the loop's thread, and then runs in another thread. A million
units take a few hundredths of a second. It fills none of the hour's caches, because a count of all hours must not drive
out the states of hours in use. States in memory are copied, a byte a unit. Others are made from the settle file, as far
as it went at that moment. So later changes do not count.

A message counts where it stands. Two units stand for no message: one at a home that was ever forwarded, and one at a
place that was left. A record is read only if its unit's mask may carry the wanted tag.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64
from storage.format.position import HOUR_MS
from storage.format.rows import Settles, Units
from storage.format.states import (
    COUNTED_AS,
    ENDED_STANDINGS,
    FORWARDED,
    LEASED,
    LEAVES,
    OPEN_STANDINGS,
    PENDING,
    READY,
    STANDINGS,
)
from storage.hour.hour import Hour
from storage.query.lease_end import lease_ends_ms
from storage.state.unit_states import States

_TOPICS_DENSE: Final = 4096
_READ_ROWS: Final = 256
_READ_BYTES: Final = 4 << 20
"""Bytes of records read at a time for their tags."""

Mask = npt.NDArray[np.bool_]


class TagTest(Protocol):
    """A test for the wanted tags, such as storage.format.tag_filter.TagFilter."""

    def may_match(self, masks: U64) -> Mask:
        """Return a boolean array: False where a unit's mask of tags shows that its tags are not wanted."""

    def matches(self, tags: Iterable[str]) -> bool:
        """True if a message with exactly these tags is wanted."""


class Tally(Protocol):
    """Adds up the messages that a count finds."""

    def add(self, due_ms: I64, topic: U32, standing: U8) -> None:
        """Add some messages, one row each. `standing` is the number under which a message is counted: a state of
        COUNTED_AS, or READY."""


@dataclass(frozen=True, slots=True)
class CountFilter:
    """The messages to count: those counted under one of `standings` (numbers of STANDINGS), due in [from_ms, to_ms).

    A field that is None restricts nothing. A pending unit that is due counts as READY. A unit whose lease is over
    counts as pending. `term` is the term of the leader that asks, by whose clock leases end.
    """

    standings: frozenset[int]
    topic: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tags: TagTest | None = None
    term: int = 0

    def touches(self, hour: int) -> bool:
        """True if the hour and [from_ms, to_ms) have some time in common."""
        return (self.from_ms is None or self.from_ms < (hour + 1) * HOUR_MS) and (
            self.to_ms is None or self.to_ms > hour * HOUR_MS
        )

    def all_open(self, hour: int) -> bool:
        """True if the filter wants all open messages of the hour, and no others."""
        unrestricted = self.topic is None and self.tags is None and self.standings == OPEN_STANDINGS
        covers = (self.from_ms is None or self.from_ms <= hour * HOUR_MS) and (
            self.to_ms is None or self.to_ms >= (hour + 1) * HOUR_MS
        )
        return unrestricted and covers


class HourCount:
    """Counts the messages of one hour, as they are when this is made. Make it on the loop's thread, and call `run`
    once, in any thread."""

    def __init__(self, hour: Hour, count_filter: CountFilter, now_ms: int) -> None:
        self.source = hour
        self.units = hour.units
        self._hour = hour.snapshot()
        self._which = count_filter
        self._now_ms = now_ms
        states = {PENDING if standing == READY else standing for standing in count_filter.standings}
        self._by_state = _table(states)[COUNTED_AS]
        self._by_standing = _table(count_filter.standings)
        held = hour.states_held if hour.states_held is not None and not hour.states_held.lacks_states else None
        # Only the settle file shows the homes that were forwarded before they ended.
        use = held is not None and not (held.forwards and count_filter.standings & ENDED_STANDINGS)
        self._state = _copied(held, hour, now_ms, count_filter.term) if held is not None and use else None

    def run(self, tally: Tally, stopped: Callable[[], bool] = lambda: False) -> None:
        """Add the messages to `tally`. Once `stopped` is true it stops early, and only a part of the messages is added.

        Raises what the tally raises, and Corrupt or DiskFailed. If the hour was unlinked meanwhile, Corrupt and
        DiskFailed show no damage.
        """
        try:
            state = self._read_states() if self._state is None else self._state
            row = 0
            for units in self._blocks():
                if stopped():
                    return
                self._count(units, state[row : row + len(units)], self._hour.first + row, tally)
                row += len(units)
        finally:
            self._hour.close()

    def _blocks(self) -> Iterator[Units]:
        """Yield all units in order. Staged ones are not linked yet, and need not be."""
        for _, units in self._hour.files.index.blocks(self._hour.saved_units):
            yield units
        yield from self._hour.staged.units.arrays

    def _count(self, units: Units, state: U8, first: int, tally: Tally) -> None:
        count_filter = self._which
        keep = self._by_state[state]
        if count_filter.topic is not None:
            keep &= units["topic"] == np.uint32(count_filter.topic)
        if count_filter.from_ms is not None:
            keep &= units["due_ms"] >= count_filter.from_ms
        if count_filter.to_ms is not None:
            keep &= units["due_ms"] < count_filter.to_ms
        if count_filter.tags is not None:
            keep &= count_filter.tags.may_match(units["tags"])
        rows = np.flatnonzero(keep)
        due_ms = units["due_ms"][rows]
        standing = COUNTED_AS.take(state[rows])
        standing[(standing == PENDING) & (due_ms <= self._now_ms)] = READY
        keep = self._by_standing[standing]
        if count_filter.tags is not None:
            keep[keep] = self._tagged(rows[keep] + first, units["size"][rows[keep]], count_filter.tags)
        if not keep.all():
            rows, due_ms, standing = rows[keep], due_ms[keep], standing[keep]
        if len(rows):
            tally.add(due_ms, units["topic"][rows], standing)

    def _tagged(self, at: I64, size: U32, tags: TagTest) -> Mask:
        """Return a boolean array, True for each of these units whose record has the wanted tags. Reads a few MiB of
        records at a time."""
        wanted: list[bool] = []
        edges = np.cumsum(size, dtype=np.int64)
        start = 0
        while start < len(at):
            before = int(edges[start - 1]) if start else 0
            most = int(np.searchsorted(edges, before + _READ_BYTES, side="right"))
            stop = max(start + 1, min(start + _READ_ROWS, most))
            wanted += [tags.matches(record.tags) for record in self._hour.records(at[start:stop])]
            start = stop
        return np.array(wanted, np.bool_)

    def _read_states(self) -> U8:
        """The state of each unit, from the settle records. A home that was ever forwarded counts as forwarded, even if
        its message has ended."""
        hour = self._hour
        state = np.zeros(hour.units, np.uint8)
        forwarded: list[I64] = []
        for _, rows in hour.files.settle.blocks(hour.saved_settles):
            self._absorb(state, rows, forwarded)
        for rows in hour.staged_settles.arrays:
            self._absorb(state, rows, forwarded)
        for at in forwarded:
            state[at - hour.first] = FORWARDED
        return state

    def _absorb(self, state: U8, rows: Settles, forwarded: list[I64]) -> None:
        at, what = rows["global_index"].astype(np.int64), rows["what"]
        gone = what == FORWARDED
        if gone.any():
            forwarded.append(at[gone])
        ends_ms = lease_ends_ms(rows["when"], rows["term"], self._which.term)
        left = LEAVES[what]
        left[(what == LEASED) & (ends_ms <= self._now_ms)] = PENDING
        state[at - self._hour.first] = left


def _table(values: Iterable[int]) -> Mask:
    table = np.zeros(256, np.bool_)
    table[list(values)] = True
    return table


def _copied(states: States, hour: Hour, now_ms: int, term: int) -> U8:
    """A copy of the states in memory, a row for each unit. A unit whose lease is over is pending in it."""
    state = states.copied(hour.units)
    leased = np.flatnonzero(state == LEASED)
    found = states.at(leased + hour.first)
    ends_ms = lease_ends_ms(found.lease_end_ms, found.term, term)
    state[leased[ends_ms <= now_ms]] = PENDING
    return state


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
