"""Hand-overs that the log does not hold yet, and when to look for leases that have ended.

Fast mode hands over first and commits the Lease after. If the leader dies in between, its successor hands the same
units over again, so the hand-overs that are not yet committed are what a crash can repeat. Their times are kept within
`stop_ms` of each other: past that no hand-over starts until the oldest is committed. The bound holds by construction,
however slow commits are and whichever way the clock goes.

    hand over -> open batch --collect, every beat_ms--> in an entry --committed--> gone (the records hold the lease)
                 '------------- uncommitted: first to last hand-over < stop_ms ----'

Ends of leases are not kept per unit: the records hold them. What is kept is where to look and when: per lease end,
rounded up to a grid, and hour, the range of positions that were leased.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from node.grouping import rows_by
from replication.command import Lease
from storage.array import I64, U16, U64
from storage.position import by_hour, hours_of

SEVERAL = 0
"""Instead of a topic's number: units of several topics."""

LONG_LEASE_MS = 60_000
SHORT_GRID_MS = 100
LONG_GRID_MS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class HandOver:
    """Units of a topic, or of SEVERAL, handed over at one moment under one lease; `position`, `attempt` and
    `due_ms` (as the unit has it) have shape [n], n may be 0."""

    topic: int
    position: U64
    attempt: U16
    due_ms: I64
    lease_end_ms: int
    handed_over_ms: int

    def __len__(self) -> int:
        return len(self.position)


@dataclass(slots=True)
class Batch:
    """Hand-overs whose Leases go in one entry."""

    hand_overs: list[HandOver] = field(default_factory=list)
    first_ms: int = 0  # earliest and latest hand-over; first_ms <= last_ms
    last_ms: int = 0

    def add(self, hand_over: HandOver) -> None:
        """One more hand-over."""
        at_ms = hand_over.handed_over_ms
        self.first_ms = min(self.first_ms, at_ms) if self.hand_overs else at_ms
        self.last_ms = max(self.last_ms, at_ms) if self.hand_overs else at_ms
        self.hand_overs.append(hand_over)

    def columns(self) -> Lease:
        """All of it as the replicated command."""
        sizes = [len(hand_over) for hand_over in self.hand_overs]
        return Lease(
            position=np.concatenate([hand_over.position for hand_over in self.hand_overs]),
            attempt=np.concatenate([hand_over.attempt for hand_over in self.hand_overs]),
            lease_end_ms=np.repeat(np.array([h.lease_end_ms for h in self.hand_overs], np.int64), sizes),
            handed_over_ms=np.repeat(np.array([h.handed_over_ms for h in self.hand_overs], np.int64), sizes),
        )


class LeaseBook:
    """Uncommitted hand-overs in the order in which they were made."""

    def __init__(self, *, stop_ms: int, beat_ms: int) -> None:
        assert 0 < beat_ms < stop_ms, f"leases leave every {beat_ms} ms, hand-over stops after {stop_ms} ms"
        self._stop_ms = stop_ms
        self._beat_ms = beat_ms
        self._open = Batch()
        self._sent: deque[Batch] = deque()  # collected, not committed; none is empty

    def allows(self, now_ms: int) -> bool:
        """Whether a hand-over now keeps all uncommitted ones less than `stop_ms` apart."""
        first_ms = last_ms = now_ms
        for batch in (*self._sent, self._open):
            if batch.hand_overs:
                first_ms, last_ms = min(first_ms, batch.first_ms), max(last_ms, batch.last_ms)
        return last_ms - first_ms < self._stop_ms

    def add(self, hand_over: HandOver) -> None:
        """A hand-over was made; only when `allows` said so."""
        assert self.allows(hand_over.handed_over_ms), f"hand-over at {hand_over.handed_over_ms} against the stop rule"
        self._open.add(hand_over)

    @property
    def due_ms(self) -> int | None:
        """When the Leases not yet in an entry have to leave; None if there are none."""
        return self._open.first_ms + self._beat_ms if self._open.hand_overs else None

    def collect(self) -> Lease | None:
        """The Leases not yet in an entry, to go in the one being put together; None if there are none."""
        if not self._open.hand_overs:
            return None
        batch, self._open = self._open, Batch()
        self._sent.append(batch)
        return batch.columns()

    def holds(self, position: int) -> bool:
        """Whether a hand-over of this unit is not committed yet."""
        batches = (*self._sent, self._open)
        return any(bool((made.position == position).any()) for batch in batches for made in batch.hand_overs)

    def committed(self) -> list[HandOver]:
        """The entry with the oldest collected batch is applied: its hand-overs, which the records hold from now on."""
        assert self._sent, "a batch is committed that was never collected"
        return self._sent.popleft().hand_overs

    def returned(self) -> None:
        """The entry with the newest collected batch was refused before it was proposed: its Leases go in the next."""
        assert self._sent, "a batch comes back that was never collected"
        later, self._open = self._open, self._sent.pop()
        for hand_over in later.hand_overs:
            self._open.add(hand_over)


class Span(NamedTuple):
    """Positions first <= p < end of one hour."""

    first: int
    end: int


class LeaseEnds:
    """Where to look for ended leases, and when. Rounded up, so that nothing comes back before its lease has ended."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # the keys of _spans
        self._spans: dict[int, dict[int, Span]] = {}  # end on the grid -> hour -> what to look through

    def add(self, positions: U64, lease_end_ms: I64, now_ms: int) -> None:
        """Leases of `positions` end at `lease_end_ms`, both shape [n]; long ones are looked for on a coarser grid."""
        grid = np.where(lease_end_ms - now_ms <= LONG_LEASE_MS, SHORT_GRID_MS, LONG_GRID_MS)
        ends = -(-lease_end_ms // grid) * grid
        for end_ms, ending_rows in rows_by(ends):
            ending = positions[ending_rows]
            for hour, rows in by_hour(hours_of(ending)):
                there = ending[rows]
                self._widen(end_ms, hour, Span(int(there.min()), int(there.max()) + 1))

    def next_ms(self) -> int | None:
        """When to look next; None if no lease runs."""
        return self._heap[0] if self._heap else None

    def ended(self, now_ms: int) -> list[Span]:
        """What to look through now; each span is given once."""
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
