"""Units that used all attempts of their policy and did not end. They are given up instead of handed over again.

Such a unit is found when it is about to be handed over again. It is held from then on, and `Exhaustion.take` returns it
once. The caller knows the policies and proposes the Fail that ends the unit. It is released when the Fail has a result.
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
from replication.command.column import Rows
from storage.format.array import U16, U32, U64
from storage.tables.topic import Subscription

ATTEMPT_MAX: Final = 0xFFFF

EXHAUSTED_MAX: Final = 2_000
"""Hand-overs pause while so many units wait for the Fail that ends them, because each is held one by one."""


class AttemptLimit(Protocol):
    """The rule that says how often a unit may be handed over."""

    def over(self, subscription: Subscription, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """True, shape [n], for units of the subscription that may not be handed over again. `attempts` are the numbers
        that their next hand-overs would have, all above 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Exhausted:
    """Units of one topic that are ready, held, and over their limit. All arrays have shape [n], n > 0."""

    subscription: Subscription
    position: U64  # where the units stand
    term: U32  # of the newest hand-over there; 0 if there was none since the unit was moved
    attempt: U16  # of the newest hand-over


class Exhaustion:
    """The units of one term that are over their limit. Each is here from the moment at which it is found until its Fail
    has a result."""

    def __init__(self, limit: AttemptLimit | None, holds: UnitHolds) -> None:
        """Without a limit no unit is ever exhausted."""
        self._limit, self._holds = limit, holds
        self._exhausted: list[Exhausted] = []  # not taken yet
        self._ending: set[int] = set()  # positions of exhausted units, taken or not, until they are released

    def __bool__(self) -> bool:
        """True if `take` has units to return."""
        return bool(self._exhausted)

    @property
    def full(self) -> bool:
        """True if EXHAUSTED_MAX units wait for their Fail. Then hand-overs pause, so that no more units over their
        limit are found."""
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
        """Put the units `chosen` into the hand-over `taking`, from the first on, as far as it has room. `chosen` are
        rows of `units`, all ready, and `rows` are their rows of the index. Units over their limit are held instead.

        Return `chosen` without the units over their limit, and how many units, from its first on, were put into
        `taking`.
        """
        made: U16 = np.maximum(seen.attempt[chosen], rows["attempt"])
        if not made.any():
            return chosen, taking.add(units.position[chosen], made + np.uint16(1), rows)
        attempts = np.minimum(made, ATTEMPT_MAX - 1) + np.uint16(1)
        again, later = np.flatnonzero(made), chosen[:0]
        if self._limit is not None:
            # The policies stand in the messages' records. Read only those that have room in this hand-over.
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
        """Hold the units in these rows of `units`, which are over their limit, until the Fail that ends them has a
        result. `made` is how often each was handed over."""
        spent = units.select(rows)
        self._holds.add(spent.position, spent.position)
        self._holds.put_aside(kind, subscription, spent)
        self._ending.update(spent.position.tolist())
        self._exhausted.append(Exhausted(subscription, spent.position, seen.term[rows], made))

    def take(self) -> list[Exhausted]:
        """Return the units that were found since the last call. Each unit is returned once."""
        exhausted, self._exhausted = self._exhausted, []
        return exhausted

    def released(self, names: Iterable[int]) -> None:
        """Forget the units at these positions. Their Fail has its result."""
        self._ending.difference_update(names)

    def clear(self) -> None:
        """Forget all units. The term is over."""
        self._exhausted.clear()
        self._ending.clear()
