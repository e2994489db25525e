"""The doubt: hand-overs that a former leader may have made without a record.

In fast mode a leader hands over first, and its Lease is in the log up to 50 ms later. So no node knows the last
hand-overs of a leader that died. They can only be of units that existed when the leader died, and that were due by its
clock. The change of leader leaves a doubt about all these units. The doubt about a unit ends with its message. A
planned transfer leaves no doubt.

A later change of leader leaves a doubt about all units that were in doubt after an earlier one, and about further ones.
So only the newest doubt is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.position import HOUR_MAX, HOUR_MS, INDEX_BITS, hours_of

CLOCKS_MS: Final = 1_000
"""Largest difference of two leaders' clocks. Each is within 500 ms of the median of all nodes'
(node/runtime/clock.py)."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The units in doubt: those due by `until_ms`, without those that were appended after the change of leader.

    Units appended later are due later, except in the last moments before `until_ms`. So it is enough to know where two
    hours ended at the change: the hour of `until_ms` and the hour before it. `ends` has the position behind the last
    unit of each, the earlier hour first.

    `term`: the newest term whose leader recorded how it came to lead. If the leader of that term gives leadership to
    another node, that node adds no doubt.
    """

    until_ms: int = -1  # none
    ends: tuple[int, int] = (0, 0)
    term: int = 0

    @classmethod
    def at(cls, span: Callable[[int], tuple[int, int]], until_ms: int) -> Self:
        """The doubt about all units that the store has now. `span` returns the positions of an hour's first unit and
        behind its last."""
        hour = min(max(until_ms // HOUR_MS, 1), HOUR_MAX)
        return cls(until_ms, (span(hour - 1)[1], span(hour)[1]))

    def mark(self) -> str:
        """The doubt as text, which every node adds to its rolling hash."""
        return f"{self.until_ms} {self.ends[0]} {self.ends[1]} {self.term}"

    def of(self, places: U64, due_ms: I64) -> npt.NDArray[np.bool_]:
        """Return a boolean array [n], True for each unit that may have been handed over without a record."""
        doubtful: npt.NDArray[np.bool_] = due_ms <= self.until_ms
        if doubtful.any():
            hours = hours_of(places)
            for end in self.ends:
                doubtful &= (hours != end >> INDEX_BITS) | (places < np.uint64(end))
        return doubtful


NO_DOUBT: Final = Doubt()
