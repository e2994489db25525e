"""When leases end, and where units are then to be looked for, so that they are handed over again.

The end of each lease stands in the settle records and is not kept here again. For each hour and each time at which
leases end, the timetable has one range of positions that covers the leased units. The times are rounded up to a grid.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from storage.format.array import I64, U64
from storage.format.position import by_hour, hours_of
from storage.format.rows_by import rows_by

LONG_LEASE_MS = 60_000
SHORT_GRID_MS = 100
LONG_GRID_MS = 1_000


class Span(NamedTuple):
    """The positions p of one hour with first <= p < end."""

    first: int
    end: int


class LeaseTimetable:
    """The times at which to look for ended leases, and the spans to look through. Times are rounded up, so that no unit
    comes back before its lease has ended."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # the keys of _spans
        self._spans: dict[int, dict[int, Span]] = {}  # end on the grid -> hour -> span to look through

    def add(self, positions: U64, lease_end_ms: I64, now_ms: int) -> None:
        """Note that leases of `positions` end at `lease_end_ms`, shape [n] each. Leases that run longer than
        LONG_LEASE_MS are rounded up to LONG_GRID_MS, others to SHORT_GRID_MS."""
        grid = np.where(lease_end_ms - now_ms <= LONG_LEASE_MS, SHORT_GRID_MS, LONG_GRID_MS)
        ends = -(-lease_end_ms // grid) * grid
        for end_ms, ending_rows in rows_by(ends):
            ending = positions[ending_rows]
            for hour, rows in by_hour(hours_of(ending)):
                there = ending[rows]
                self._widen(end_ms, hour, Span(int(there.min()), int(there.max()) + 1))

    def next_ms(self) -> int | None:
        """When the next leases have ended, rounded up. None if no lease runs."""
        return self._heap[0] if self._heap else None

    def ended(self, now_ms: int) -> list[Span]:
        """Remove and return the spans in which leases have ended by `now_ms`."""
        spans: list[Span] = []
        while self._heap and self._heap[0] <= now_ms:
            spans += self._spans.pop(heapq.heappop(self._heap)).values()
        return spans

    def _widen(self, end_ms: int, hour: int, span: Span) -> None:
        hours = self._spans.get(end_ms)
        if hours is None:
            hours = self._spans[end_ms] = {}
            heapq.heappush(self._heap, end_ms)
        old = hours.get(hour, span)
        hours[hour] = Span(min(old.first, span.first), max(old.end, span.end))
