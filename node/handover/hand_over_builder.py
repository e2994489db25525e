"""Collects the units of one hand-over, up to a number of units and up to a number of bytes of their records. So the
answer to a pull stays within its bound."""

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
"""A bound on bytes that no hand-over reaches: it means that bytes are not bounded."""

EXACT_BYTES: Final = 16 << 20
"""One hand-over reads about so many bytes of records to decide which units may go. The next hand-over goes on with the
units behind those."""

_NOTHING: Final = (np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, UNIT))


@dataclass(slots=True)
class HandOverBuilder:
    """A hand-over while it is put together. It may take `units` more units, with `bytes` more bytes of records. Its
    first unit is taken however large it is."""

    units: int
    bytes: int
    full: bool = False  # the next unit was too large for the bytes left, or too many bytes were passed over
    passed_over: int = 0  # bytes of records that were read for units that were then not taken
    parts: list[tuple[U64, U16, Units]] = field(default_factory=list)

    def add(self, positions: U64, attempts: U16, rows: npt.NDArray[Any]) -> int:
        """Take these units from the first on, as long as the records taken fit into `bytes`. `rows` are their rows of
        the index. Return how many were taken."""
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
        """Count the record bytes of units whose records were read, but which are not taken. When more than `most` bytes
        were counted, the hand-over is `full`, so that one step reads no more."""
        self.passed_over += int(rows["size"].sum(dtype=np.int64))
        self.full |= self.passed_over > most

    def hand_over(self, subscription: Subscription, lease_end_ms: int, now_ms: int) -> HandOver:
        """Return the hand-over of all units taken. It is made at `now_ms`, under one lease."""
        position, attempt, units = self.parts[0] if self.parts else _NOTHING
        if len(self.parts) > 1:
            position, attempt = (np.concatenate([part[column] for part in self.parts]) for column in (0, 1))
            units = join_rows([part[2] for part in self.parts], UNIT)
        return HandOver(subscription, position, attempt, units, lease_end_ms, now_ms)


def rows_within(rows: npt.NDArray[Any], most: int) -> int:
    """How many rows, from the first on, have records of at most `most` bytes together. At least 1."""
    return max(1, int(np.searchsorted(np.cumsum(rows["size"], dtype=np.int64), most, side="right")))
