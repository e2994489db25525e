"""Units that were handed over as often as their policy allows and were not settled: they end instead of going out.

They are found where they are about to be handed over again, held, and told of once each; their Fail is proposed by who
knows the policies, and releases them when it has a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from node.handover.hand_over_builder import EXACT_BYTES, HandOverBuilder, rows_within
from node.handover.holds import UnitHolds
from node.ready.record_check import RecordCheck
from node.ready.topic_window import LaneKind, Queued
from replication.apply.message.attempt_order import Rows
from storage.format.array import U16, U32, U64
from storage.tables.topic import Subscription

ATTEMPT_MAX: Final = 0xFFFF

EXHAUSTED_MAX: Final = 2_000
"""Hand-overs pause while so many units wait for the Fail that ends them: each is held, one by one."""


class AttemptLimit(Protocol):
    """Knows how often a unit may be handed over."""

    def over(self, subscription: Subscription, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units of the subscription that may not be handed over again. `attempts` are the numbers
        that the next hand-overs would bear, all above 1; hand-overs made so far are one less."""


@dataclass(frozen=True, slots=True, eq=False)
class Exhausted:
    """Units of one topic that are over their limit, ready, and held. All arrays have shape [n], n > 0."""

    subscription: Subscription
    position: U64  # where they stand
    term: U32  # of the newest hand-over there; 0 if there was none since they were moved
    attempt: U16  # of the newest hand-over


class Exhaustion:
    """Of one term: what is over its limit, from where it is found to when its Fail has a result."""

    def __init__(self, limit: AttemptLimit | None, holds: UnitHolds) -> None:
        """Without a limit everything may go."""
        self._limit, self._holds = limit, holds
        self._exhausted: list[Exhausted] = []  # not yet told of
        self._ending: set[int] = set()  # places of exhausted units, told of or not, until they are released

    def __bool__(self) -> bool:
        """Whether there is something to take."""
        return bool(self._exhausted)

    @property
    def full(self) -> bool:
        """So many wait for their Fail that no other is looked for."""
        return len(self._ending) >= EXHAUSTED_MAX

    def offer(
        self,
        kind: LaneKind,
        subscription: Subscription,
        units: Queued,
        seen: RecordCheck,
        chosen: Rows,
        rows: npt.NDArray[Any],
        taking: HandOverBuilder,
    ) -> tuple[Rows, int]:
        """Take of the units `chosen`, ready and with their rows of the index beside them, as many as have room; those
        that are over their limit step aside first. Returns the others, and how many of these were taken."""
        made: U16 = np.maximum(seen.attempt[chosen], rows["attempt"])
        if not made.any():
            return chosen, taking.add(units.position[chosen], made + np.uint16(1), rows)
        attempts = np.minimum(made, ATTEMPT_MAX - 1) + np.uint16(1)
        again, later = np.flatnonzero(made), chosen[:0]
        if self._limit is not None:
            # Their policies stand in their records: those alone are read that have room in what is handed over.
            few = rows_within(rows, min(taking.bytes, EXACT_BYTES))
            chosen, later, attempts, rows = chosen[:few], chosen[few:], attempts[:few], rows[:few]
            again = again[again < few]
            over = self._limit.over(subscription, units.position[chosen[again]], attempts[again])
            if over.any():
                self._exhaust(kind, subscription, units, seen, chosen[again[over]], made[again[over]])
                taking.pass_over(rows[again[over]], EXACT_BYTES)
                left = np.ones(len(chosen), np.bool_)
                left[again[over]] = False
                chosen, attempts, rows = chosen[left], attempts[left], rows[left]
        return np.concatenate([chosen, later]), taking.add(units.position[chosen], attempts, rows)

    def _exhaust(
        self, kind: LaneKind, subscription: Subscription, units: Queued, seen: RecordCheck, rows: Rows, made: U16
    ) -> None:
        """These rows are over their limit: hold them until the command that ends them has a result."""
        spent = units.select(rows)
        self._holds.add(spent.position, spent.position)
        self._holds.put_aside(kind, subscription, spent)
        self._ending.update(spent.position.tolist())
        self._exhausted.append(Exhausted(subscription, spent.position, seen.term[rows], made))

    def take(self) -> list[Exhausted]:
        """Each is told of once."""
        exhausted, self._exhausted = self._exhausted, []
        return exhausted

    def released(self, names: Iterable[int]) -> None:
        """The command that held these by these names has its result."""
        self._ending.difference_update(names)

    def clear(self) -> None:
        """The term is over."""
        self._exhausted.clear()
        self._ending.clear()
