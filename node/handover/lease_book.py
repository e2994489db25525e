"""Hand-overs whose Leases are not committed yet.

Fast mode hands over first and commits the Lease afterwards. If the leader dies in between, the next leader hands the
same units over again. So a crash can repeat the hand-overs that are not committed yet. The book keeps their times
within `stop_ms` of each other: beyond that no hand-over starts until the oldest one is committed. This bound holds
however slow commits are, and also if the clock goes back.

    hand over -> open batch --collect, every beat_ms--> in an entry --committed--> gone (settle records hold the lease)
                 '------------- uncommitted: first to last hand-over < stop_ms ----'

Strict hand-overs come into the book before they are made, and are made when their batch is committed. A crash repeats
none of them, so the bound above leaves them out. Their Leases do not wait for `beat_ms`, because consumers wait for
them. Leases that are taken back without a hand-over also go through the book, as Releases, and do not wait either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from node.write.leader_commands import NOTHING_RIDES, LeaderCommands
from replication.command.handover import Lease, Release
from storage.format.array import I64, U16, U32, U64
from storage.format.rows import Units
from storage.tables.topic import Subscription

SEVERAL: Final = Subscription(0)
"""Stands in place of a subscription for units of several. No topic has the number 0."""


@dataclass(frozen=True, slots=True, eq=False)
class HandOver:
    """Units of one topic, or of several topics (SEVERAL), handed over at one moment under one lease. `position`,
    `attempt` and `units` (the units' rows of the index) have shape [n]. n may be 0."""

    subscription: Subscription
    position: U64
    attempt: U16
    units: Units
    lease_end_ms: int
    handed_over_ms: int
    strict: int = 0  # not 0: to be made once its Lease is committed; its number among the strict ones of the term
    planned: bool = False  # strict, and to be made at `handed_over_ms`, which may lie ahead

    def select(self, rows: npt.NDArray[Any] | slice) -> HandOver:
        """A hand-over of some of these units: the rows that a boolean array, an array of row numbers or a slice
        names."""
        return replace(self, position=self.position[rows], attempt=self.attempt[rows], units=self.units[rows])

    @property
    def due_ms(self) -> I64:
        """The due time of each unit, shape [n]."""
        due_ms: I64 = self.units["due_ms"]
        return due_ms

    def __len__(self) -> int:
        return len(self.position)


class Released(NamedTuple):
    """Leases ahead that are taken back because their hand-overs will not be made. Shape [n] each."""

    position: U64
    term: U32
    attempt: U16


@dataclass(slots=True)
class Batch:
    """Hand-overs whose Leases go in one entry, and the Releases that go with them."""

    hand_overs: list[HandOver] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)
    fast: int = 0  # hand-overs of fast mode, which were made already
    first_ms: int = 0  # times of the earliest and the latest of these; first_ms <= last_ms
    last_ms: int = 0

    def __bool__(self) -> bool:
        return bool(self.hand_overs or self.released)

    def add(self, hand_over: HandOver) -> None:
        """Add a hand-over to the batch. Unless it is strict, widen the batch's span of time (`first_ms` to `last_ms`)
        to it."""
        if not hand_over.strict:
            at_ms = hand_over.handed_over_ms
            self.first_ms = min(self.first_ms, at_ms) if self.fast else at_ms
            self.last_ms = max(self.last_ms, at_ms) if self.fast else at_ms
            self.fast += 1
        self.hand_overs.append(hand_over)

    @property
    def hurries(self) -> bool:
        """True if the batch has a strict hand-over or a Release. It then goes into an entry without waiting for
        `beat_ms`."""
        return self.fast < len(self.hand_overs) or bool(self.released)

    def riding(self) -> LeaderCommands:
        """The commands of the batch: Leases, planned Leases and the Release."""
        planned = [hand_over for hand_over in self.hand_overs if hand_over.planned]
        others = [hand_over for hand_over in self.hand_overs if not hand_over.planned] if planned else self.hand_overs
        return LeaderCommands(_lease(others, planned=False), None, _lease(planned, planned=True), self._release())

    def _release(self) -> Release | None:
        if not self.released:
            return None
        position, term, attempt = map(np.concatenate, zip(*self.released, strict=True))
        return Release(position, term, attempt)


def _lease(hand_overs: list[HandOver], *, planned: bool) -> Lease | None:
    if not hand_overs:
        return None
    sizes = [len(hand_over) for hand_over in hand_overs]
    return Lease(
        position=np.concatenate([hand_over.position for hand_over in hand_overs]),
        attempt=np.concatenate([hand_over.attempt for hand_over in hand_overs]),
        lease_end_ms=np.repeat(np.array([h.lease_end_ms for h in hand_overs], np.int64), sizes),
        handed_over_ms=np.repeat(np.array([h.handed_over_ms for h in hand_overs], np.int64), sizes),
        planned=planned,
    )


class LeaseBook:
    """The hand-overs of one term whose Leases are not committed, in the order in which they came. Leases go into an
    entry `beat_ms` after the first hand-over of their batch. No fast hand-over is made that would be `stop_ms` or more
    away from any other in the book."""

    def __init__(self, *, stop_ms: int, beat_ms: int) -> None:
        assert 0 < beat_ms < stop_ms, f"leases leave every {beat_ms} ms, hand-over stops after {stop_ms} ms"
        self._stop_ms = stop_ms
        self._beat_ms = beat_ms
        self._open = Batch()
        self._sent: deque[Batch] = deque()  # collected and not committed; none is empty

    def allows(self, now_ms: int) -> bool:
        """True if the stop rule lets a fast hand-over be made now: all uncommitted ones and this one lie within less
        than `stop_ms`."""
        first_ms = last_ms = now_ms
        for batch in (*self._sent, self._open):
            if batch.fast:
                first_ms, last_ms = min(first_ms, batch.first_ms), max(last_ms, batch.last_ms)
        return last_ms - first_ms < self._stop_ms

    def add(self, hand_over: HandOver) -> None:
        """Add a fast hand-over after `allows` returned True, or a strict one that will be made once its Lease is
        committed."""
        at_ms = hand_over.handed_over_ms
        assert hand_over.strict or self.allows(at_ms), f"hand-over at {at_ms} against the stop rule"
        self._open.add(hand_over)

    def release(self, released: Released) -> None:
        """Add leases ahead to the open batch, whose Release takes them back."""
        self._open.released.append(released)

    @property
    def due_ms(self) -> int | None:
        """When the commands that are not in an entry yet have to go into one. 0 means at once, None that there are
        none."""
        if self._open.hurries:
            return 0
        return self._open.first_ms + self._beat_ms if self._open else None

    def collect(self) -> LeaderCommands:
        """Return all commands that are not in an entry yet, for the entry that is being put together. They are in the
        book until `committed` or `returned` is called."""
        if not self._open:
            return NOTHING_RIDES
        batch, self._open = self._open, Batch()
        self._sent.append(batch)
        return batch.riding()

    def holds(self, position: int) -> bool:
        """True if a fast hand-over of this unit, or the Release of its lease ahead, is not committed yet."""
        batches = (*self._sent, self._open)
        made = (each.position for batch in batches if batch.fast for each in batch.hand_overs if not each.strict)
        return any(bool((positions == position).any()) for positions in (*made, *self._taken_back()))

    def taken_back(self, positions: U64) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units whose lease ahead is being taken back while the settle records still say leased.
        They may not be handed over until the Release is committed."""
        found = [*self._taken_back()]
        return np.isin(positions, np.concatenate(found)) if found else np.zeros(len(positions), np.bool_)

    def _taken_back(self) -> Iterator[U64]:
        return (each.position for batch in (*self._sent, self._open) for each in batch.released)

    def committed(self) -> list[HandOver]:
        """Remove the oldest batch that was collected, and return its hand-overs. Its entry is applied, so the settle
        records have their leases from now on."""
        assert self._sent, "a batch is committed that was never collected"
        return self._sent.popleft().hand_overs

    def returned(self) -> None:
        """Put the batch that was collected last back among the waiting ones. Its entry was refused before it was
        proposed, so its commands go in the next entry."""
        assert self._sent, "a batch comes back that was never collected"
        later, self._open = self._open, self._sent.pop()
        for hand_over in later.hand_overs:
            self._open.add(hand_over)
        self._open.released += later.released
