"""The messages born in one hour that fell due within a part of it, settled or not, in order of their due times.

The search captures the hour's content at one moment, on the loop's thread, and may then run in another thread. A few
seconds of a near hour are read by their chains, so that only their units are read. Otherwise the index is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from storage.format.array import I64
from storage.format.chain import walk
from storage.format.position import HOUR_MS
from storage.format.rows import UNIT_MOVED, Units
from storage.hour.hour import Hour

QUICK_UNITS: Final = 32

_CHAIN_COST: Final = 4
"""To read a unit by its chain takes as long as to read this many units of the index in a row."""


class TooMany(Exception):
    """Raised if more messages fell due in that time than the limit."""


class Born(NamedTuple):
    """Messages in order of (due_ms, at), [n] each: the due time of the unit at home, and its global_index."""

    due_ms: I64
    at: I64


class MessageWindow:
    """Finds the messages of an hour that were first due in from_ms <= t < to_ms. If `topic` is not None, only messages
    of this topic count.

    More than `most` are an error. Make it on the loop's thread, and call `run` once, in any thread.
    """

    def __init__(self, hour: Hour, from_ms: int, to_ms: int, topic: int | None, most: int) -> None:
        begin_ms = hour.number * HOUR_MS
        self._from_ms, self._to_ms = max(from_ms, begin_ms), min(to_ms, begin_ms + HOUR_MS)
        self._topic = topic
        self._most = most
        self._hour = hour.snapshot()
        self._chains: list[tuple[int, int, int]] | None = None  # second, last unit, count
        if hour.near and self._from_ms < self._to_ms:
            first, last = (self._from_ms - begin_ms) // 1000, (self._to_ms - 1 - begin_ms) // 1000
            heads = hour.heads()
            used = first + np.flatnonzero(heads.count[first : last + 1])
            if int(heads.count[used].sum()) * _CHAIN_COST < hour.units:
                columns = used, heads.after[used].astype(np.int64) - 1, heads.count[used]
                self._chains = list(zip(*(column.tolist() for column in columns), strict=True))

    @property
    def quick(self) -> bool:
        """True if `run` takes less time than to start it in another thread."""
        return self._chains is not None and sum(count for _, _, count in self._chains) <= QUICK_UNITS

    def run(self) -> Born:
        """Search. Raises TooMany, Corrupt or DiskFailed. Corrupt is no damage if the hour was unlinked meanwhile."""
        due_ms, at, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        try:
            for units in self._blocks():
                keep = (units["due_ms"] >= self._from_ms) & (units["due_ms"] < self._to_ms)
                keep &= units["flags"] & np.uint32(UNIT_MOVED) == 0
                if self._topic is not None:
                    keep &= units["topic"] == np.uint32(self._topic)
                rows = np.flatnonzero(keep)
                count += len(rows)
                if count > self._most:
                    raise TooMany(f"more than {self._most} messages fell due in that time")
                due_ms.append(units["due_ms"][rows])
                at.append(units["global_index"][rows].astype(np.int64))
        finally:
            self._hour.close()
        due, index = np.concatenate(due_ms), np.concatenate(at)
        order = np.lexsort((index, due))
        return Born(due[order], index[order])

    def _blocks(self) -> Iterator[Units]:
        hour = self._hour
        if self._from_ms >= self._to_ms:
            return
        if self._chains is None:
            for _, units in hour.files.index.blocks(hour.saved_units):
                yield units
            yield from hour.staged.units.arrays
            return
        index = hour.files.index
        for second, last, count in self._chains:
            yield walk(second, last, count, index, least=hour.first)
