"""What one hand-over collects: units up to a number and up to a size, so that an answer stays within its bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from node.handover.lease_book import HandOver
from storage.format.array import U16, U64
from storage.format.rows import UNIT, Units, join_rows
from storage.tables.topic import Subscription

BYTES_MAX: Final = 1 << 40
"""No bound on bytes."""

EXACT_BYTES: Final = 16 << 20
"""Records that one hand-over reads to know whether their units may go, about; the next one goes on from there."""

_NOTHING: Final = (np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, UNIT))


@dataclass(slots=True)
class HandOverBuilder:
    """`units` and `bytes` are what may still be taken; the first unit is taken whatever its size."""

    units: int
    bytes: int
    full: bool = False  # the next unit's bytes had no room, or enough was read in vain
    passed_over: int = 0  # bytes that were read of units that were not taken
    parts: list[tuple[U64, U16, Units]] = field(default_factory=list)

    def add(self, positions: U64, attempts: U16, rows: npt.NDArray[Any]) -> int:
        """Take the first of these, rows of the index beside them, as far as there is room; returns how many."""
        ends = rows["size"].cumsum(dtype=np.int64)
        took = int(ends.searchsorted(self.bytes, side="right"))
        if took < len(positions):
            self.full = True
            if not took and not self.parts:
                took = 1
        if took:
            self.parts.append((positions[:took], attempts[:took], rows[:took]))
            self.units -= took
            self.bytes -= int(ends[took - 1])
        return took

    def pass_over(self, rows: npt.NDArray[Any], most: int) -> None:
        """These were read and are not taken; past `most` bytes of such the hand-over ends with what it has."""
        self.passed_over += int(rows["size"].sum(dtype=np.int64))
        self.full |= self.passed_over > most

    def hand_over(self, subscription: Subscription, lease_end_ms: int, now_ms: int) -> HandOver:
        """All of it under one lease."""
        position, attempt, units = self.parts[0] if self.parts else _NOTHING
        if len(self.parts) > 1:
            position, attempt = (np.concatenate([part[column] for part in self.parts]) for column in (0, 1))
            units = join_rows([part[2] for part in self.parts], UNIT)
        return HandOver(subscription, position, attempt, units, lease_end_ms, now_ms)


def rows_within(rows: npt.NDArray[Any], most: int) -> int:
    """How many of the first of these index rows have records of `most` bytes together; one at least."""
    return max(1, int(np.searchsorted(np.cumsum(rows["size"], dtype=np.int64), most, side="right")))
