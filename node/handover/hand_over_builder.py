"""The units of one hand-over, collected up to a number and up to a size, so that an answer stays within its bound."""

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
"""Stands for no bound on bytes."""

EXACT_BYTES: Final = 16 << 20
"""About so many bytes of records are read by one hand-over to see which units may go. The next one goes on from
there."""

_NOTHING: Final = (np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, UNIT))


@dataclass(slots=True)
class HandOverBuilder:
    """A hand-over that is put together. `units` and `bytes` may still be taken. The first unit is taken whatever its
    size."""

    units: int
    bytes: int
    full: bool = False  # the bytes of the next unit had no room, or enough was read in vain
    passed_over: int = 0  # bytes that were read of units that were not taken
    parts: list[tuple[U64, U16, Units]] = field(default_factory=list)

    def add(self, positions: U64, attempts: U16, rows: npt.NDArray[Any]) -> int:
        """Take the first of these units, as far as there is room. `rows`: their rows of the index. Return how many."""
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
        """Count units that were read and not taken. Past `most` bytes of them the hand-over ends with the units that it
        has."""
        self.passed_over += int(rows["size"].sum(dtype=np.int64))
        self.full |= self.passed_over > most

    def hand_over(self, subscription: Subscription, lease_end_ms: int, now_ms: int) -> HandOver:
        """The hand-over of all units taken, under one lease."""
        position, attempt, units = self.parts[0] if self.parts else _NOTHING
        if len(self.parts) > 1:
            position, attempt = (np.concatenate([part[column] for part in self.parts]) for column in (0, 1))
            units = join_rows([part[2] for part in self.parts], UNIT)
        return HandOver(subscription, position, attempt, units, lease_end_ms, now_ms)


def rows_within(rows: npt.NDArray[Any], most: int) -> int:
    """How many rows, from the first on, have records of at most `most` bytes together. At least 1."""
    return max(1, int(np.searchsorted(np.cumsum(rows["size"], dtype=np.int64), most, side="right")))
