"""What leaders that were not relieved may have handed over without a record of it.

In fast mode a leader hands over first, and its Lease is in the log up to 50 ms later. What a leader that died did in
its last moment nobody knows. It can have been done only with units that were there, and due by that leader's clock. So
the change of leader leaves a doubt about all of these, which ends with their messages.

A later change leaves a doubt about all that an earlier one did, and more. So the newest one alone is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.position import HOUR_MAX, HOUR_MS, INDEX_BITS, hours_of

CLOCKS_MS: Final = 1_000
"""How far two leaders' clocks may be apart: each is within 500 ms of the median of all nodes'
(node/runtime/clock.py)."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Units due by `until_ms`, but for those that came behind the change. New ones are due later, but for those of the
    last moments before `until_ms`. So it is enough to know where these two hours ended then: `ends` are the positions
    behind their last units, of the hour of `until_ms` and of the one before.

    `term`: the newest whose leader said how it came to lead. Who is given leadership by that one, and by no other, has
    nothing more to doubt.
    """

    until_ms: int = -1  # none
    ends: tuple[int, int] = (0, 0)
    term: int = 0

    @classmethod
    def at(cls, span: Callable[[int], tuple[int, int]], until_ms: int) -> Self:
        """Of what is there now. `span`: the positions of an hour's units, of the first and behind the last."""
        hour = min(max(until_ms // HOUR_MS, 1), HOUR_MAX)
        return cls(until_ms, (span(hour - 1)[1], span(hour)[1]))

    def mark(self) -> str:
        """What the rolling hash takes in of it."""
        return f"{self.until_ms} {self.ends[0]} {self.ends[1]} {self.term}"

    def of(self, places: U64, due_ms: I64) -> npt.NDArray[np.bool_]:
        """Which of these units may have been handed over, [n]."""
        doubtful: npt.NDArray[np.bool_] = due_ms <= self.until_ms
        if doubtful.any():
            hours = hours_of(places)
            for end in self.ends:
                doubtful &= (hours != end >> INDEX_BITS) | (places < np.uint64(end))
        return doubtful


NO_DOUBT: Final = Doubt()
