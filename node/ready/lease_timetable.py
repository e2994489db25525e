"""When leases end: where to look for units to hand over again, and when.

Ends of leases are not kept per unit, because the records hold them. The timetable has a range of leased positions for
each hour and each end of a lease, rounded up to a grid.
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
    """Positions first <= p < end of one hour."""

    first: int
    end: int


class LeaseTimetable:
    """Where to look for ended leases, and when. Rounded up, so that no unit comes back before its lease has ended."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # the keys of _spans
        self._spans: dict[int, dict[int, Span]] = {}  # end on the grid -> hour -> span to look through

    def add(self, positions: U64, lease_end_ms: I64, now_ms: int) -> None:
        """Note that leases of `positions` end at `lease_end_ms`, both shape [n]. Long leases are looked for on a
        coarser grid."""
        grid = np.where(lease_end_ms - now_ms <= LONG_LEASE_MS, SHORT_GRID_MS, LONG_GRID_MS)
        ends = -(-lease_end_ms // grid) * grid
        for end_ms, ending_rows in rows_by(ends):
            ending = positions[ending_rows]
            for hour, rows in by_hour(hours_of(ending)):
                there = ending[rows]
                self._widen(end_ms, hour, Span(int(there.min()), int(there.max()) + 1))

    def next_ms(self) -> int | None:
        """When to look next. None if no lease runs."""
        return self._heap[0] if self._heap else None

    def ended(self, now_ms: int) -> list[Span]:
        """The spans to look through now. Each is given once."""
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
