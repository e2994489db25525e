"""Hand-overs that the log does not hold yet.

Fast mode hands over first and commits the Lease after. If the leader dies in between, its successor hands the same
units over again. So a crash can repeat the hand-overs that are not committed yet. Their times are kept within `stop_ms`
of each other. Past that no hand-over starts until the oldest is committed. The bound holds by construction, however
slow commits are and whichever way the clock goes.

    hand over -> open batch --collect, every beat_ms--> in an entry --committed--> gone (the records hold the lease)
                 '------------- uncommitted: first to last hand-over < stop_ms ----'

Strict hand-overs are the other way round. They stand in the book before they are made, and are made when their batch is
committed. A crash repeats none of them, so the rule above does not count them. Their Leases do not wait for the beat,
because their consumers wait. Leases of hand-overs that will not be made are released in the same way.
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
    """Units of a topic, or of SEVERAL, handed over at one moment under one lease. `position`, `attempt` and `units`,
    their rows of the index, have shape [n]. n may be 0."""

    subscription: Subscription
    position: U64
    attempt: U16
    units: Units
    lease_end_ms: int
    handed_over_ms: int
    strict: int = 0  # not 0: to be made once its Lease is committed; its number among the strict ones of the term
    planned: bool = False  # strict, and to be made at `handed_over_ms`, which may lie ahead

    def select(self, rows: npt.NDArray[Any] | slice) -> HandOver:
        """The hand-over of some of its units, by mask, index or slice."""
        return replace(self, position=self.position[rows], attempt=self.attempt[rows], units=self.units[rows])

    @property
    def due_ms(self) -> I64:
        """The due time of each unit, shape [n]."""
        due_ms: I64 = self.units["due_ms"]
        return due_ms

    def __len__(self) -> int:
        return len(self.position)


class Released(NamedTuple):
    """Leases of hand-overs that will not be made, shape [n] each."""

    position: U64
    term: U32
    attempt: U16


@dataclass(slots=True)
class Batch:
    """Hand-overs whose Leases go in one entry, and the releases in it."""

    hand_overs: list[HandOver] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)
    fast: int = 0  # hand-overs that were made already
    first_ms: int = 0  # times of the earliest and the latest of these; first_ms <= last_ms
    last_ms: int = 0

    def __bool__(self) -> bool:
        return bool(self.hand_overs or self.released)

    def add(self, hand_over: HandOver) -> None:
        """Add a hand-over."""
        if not hand_over.strict:
            at_ms = hand_over.handed_over_ms
            self.first_ms = min(self.first_ms, at_ms) if self.fast else at_ms
            self.last_ms = max(self.last_ms, at_ms) if self.fast else at_ms
            self.fast += 1
        self.hand_overs.append(hand_over)

    @property
    def hurries(self) -> bool:
        """True if a strict hand-over or a release is in it, which wait for no beat."""
        return self.fast < len(self.hand_overs) or bool(self.released)

    def riding(self) -> LeaderCommands:
        """The replicated commands of the batch."""
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
    """Uncommitted hand-overs in the order in which they were made."""

    def __init__(self, *, stop_ms: int, beat_ms: int) -> None:
        assert 0 < beat_ms < stop_ms, f"leases leave every {beat_ms} ms, hand-over stops after {stop_ms} ms"
        self._stop_ms = stop_ms
        self._beat_ms = beat_ms
        self._open = Batch()
        self._sent: deque[Batch] = deque()  # collected and not committed; none is empty

    def allows(self, now_ms: int) -> bool:
        """True if a hand-over now keeps all uncommitted ones less than `stop_ms` apart."""
        first_ms = last_ms = now_ms
        for batch in (*self._sent, self._open):
            if batch.fast:
                first_ms, last_ms = min(first_ms, batch.first_ms), max(last_ms, batch.last_ms)
        return last_ms - first_ms < self._stop_ms

    def add(self, hand_over: HandOver) -> None:
        """Add a hand-over that was made because `allows` said so, or a strict one that is to be made."""
        at_ms = hand_over.handed_over_ms
        assert hand_over.strict or self.allows(at_ms), f"hand-over at {at_ms} against the stop rule"
        self._open.add(hand_over)

    def release(self, released: Released) -> None:
        """Add leases whose units will not be handed over."""
        self._open.released.append(released)

    @property
    def due_ms(self) -> int | None:
        """When the Leases not yet in an entry have to leave, 0 for at once. None if there are none."""
        if self._open.hurries:
            return 0
        return self._open.first_ms + self._beat_ms if self._open else None

    def collect(self) -> LeaderCommands:
        """The commands of all that is not yet in an entry, for the one that is put together."""
        if not self._open:
            return NOTHING_RIDES
        batch, self._open = self._open, Batch()
        self._sent.append(batch)
        return batch.riding()

    def holds(self, position: int) -> bool:
        """True if a hand-over of this unit was made, or taken back, and that is not committed yet."""
        batches = (*self._sent, self._open)
        made = (each.position for batch in batches if batch.fast for each in batch.hand_overs if not each.strict)
        return any(bool((positions == position).any()) for positions in (*made, *self._taken_back()))

    def taken_back(self, positions: U64) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units that were leased and will not be handed over, while the records still say leased.
        No hand-over of them counts until the Release is committed."""
        found = [*self._taken_back()]
        return np.isin(positions, np.concatenate(found)) if found else np.zeros(len(positions), np.bool_)

    def _taken_back(self) -> Iterator[U64]:
        return (each.position for batch in (*self._sent, self._open) for each in batch.released)

    def committed(self) -> list[HandOver]:
        """The hand-overs of the oldest collected batch. Its entry is applied, so the records hold them from now on."""
        assert self._sent, "a batch is committed that was never collected"
        return self._sent.popleft().hand_overs

    def returned(self) -> None:
        """Put the newest collected batch back. Its entry was refused before it was proposed, so its Leases go in the
        next."""
        assert self._sent, "a batch comes back that was never collected"
        later, self._open = self._open, self._sent.pop()
        for hand_over in later.hand_overs:
            self._open.add(hand_over)
        self._open.released += later.released
