"""Leases strict pushes a little before they are due, so that each is sent at its millisecond.

    wheel, up to `ahead_ms` before the due time -- look, stage --> lanes -- plan --> planned Lease -- due --> sent
                                    (the unit stays in the wheel)

The unit also stays in the wheel, which gives it out at its due time like any other. A unit whose lease is running is
then left out. A unit whose lease was taken back meanwhile becomes ready in the usual way. So while a unit is only
staged, this file just forgets it if anything goes wrong. A planned Lease is taken back by a Release (strict.py). If the
leader dies, the unit waits until that lease ends. Staged or planned units never go into a window before they are due,
because units in a window count as due.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from node.handover.attempt_limit import ATTEMPT_MAX, AttemptLimit
from node.handover.hand_over_builder import BYTES_MAX, HandOverBuilder
from node.handover.holds import UnitHolds
from node.handover.lease_book import HandOver
from node.handover.ready_units import ReadyUnits
from node.handover.staged import Staged
from node.handover.strict import Strict, leased_rows
from node.ready.claimed_units import ClaimedUnits
from node.ready.record_check import check_records
from node.ready.topic_window import NOTHING, LaneKind, Queued
from storage.format.array import U64
from storage.format.rows import Units, select_rows
from storage.format.rows_by import rows_by
from storage.format.states import IS_PENDING
from storage.store import Store
from storage.tables.topic import Subscription, subscriptions_of
from storage.wheel.second_wheel import SecondWheel
from storage.wheel.slot import DueUnits

AHEAD_MS: Final = 100
"""How long before its due time a push is leased at most. A crash of the leader delays the units leased by then, because
the next leader waits until their leases end."""


class Planned(NamedTuple):
    """The result for staged units that were to be planned. `hand_overs` has one leased hand-over for each time of
    sending. `left` are the positions of units that may not be planned now and stay staged."""

    hand_overs: list[HandOver]
    left: U64


class LeaseAhead:
    """Finds, stages and leases the strict pushes of one term before they are due. If units are due already when they
    are planned, `units` checks and takes them, as in any hand-over. `paused` has the topics that are paused: none of
    their units is leased."""

    def __init__(
        self,
        store: Store,
        strict: Strict,
        claims: ClaimedUnits,
        holds: UnitHolds,
        staged: Staged,
        paused: Set[Subscription],
        attempts: AttemptLimit | None,
        units: ReadyUnits,
    ) -> None:
        self._store = store
        self._strict = strict
        self._claims = claims
        self._holds = holds
        self._staged = staged
        self._paused = paused
        self._attempts = attempts
        self._units = units
        self._found: dict[Subscription, Queued] = {}  # by topic, as of the last look; none is empty
        self._early: set[int] = set()  # positions of units that were staged before they were due
        self._ahead_ms = AHEAD_MS

    def look_ahead(self, ahead_ms: int) -> None:
        """Set how many ms before their due time units are found by the next `look`."""
        self._ahead_ms = ahead_ms

    # -- the wheel

    def look(self, wheel: SecondWheel, now_ms: int) -> None:
        """Find the units of pushed strict topics in the wheel that will be due within the time that `look_ahead` set.
        Call it after the wheel has given out the units that are due now."""
        self._found.clear()
        if not self._strict.pushed:
            return
        due = wheel.ahead(now_ms + self._ahead_ms)
        if not len(due):
            return
        mine = np.isin(due.topic, np.fromiter(self._strict.pushed, np.uint32, len(self._strict.pushed)))
        if mine.any():
            units = Queued.of(due.position[mine], due.tags[mine], due.due_ms[mine])
            soon = rows_by(subscriptions_of(due.topic[mine]))
            self._found = {Subscription(key): units.select(rows) for key, rows in soon}

    def wake_ms(self, wheel: SecondWheel, now_ms: int) -> int | None:
        """When `look` would find the next unit that is in the wheel and not found yet. None if there is none."""
        after_ms = wheel.after_ms(now_ms + self._ahead_ms) if self._strict.pushed else None
        return None if after_ms is None else after_ms - self._ahead_ms

    def unplanned(self, due: DueUnits) -> DueUnits:
        """Return the units that the wheel gave out (`due`), without the strict pushes that are leased: those are sent
        under their leases."""
        if not self._strict.pushed or not len(due):
            return due
        mine = np.isin(due.topic, np.fromiter(self._strict.pushed, np.uint32, len(self._strict.pushed)))
        if mine.any():
            mine[mine] = leased_rows(self._store, due.position[mine])
        if not mine.any():
            return due
        return due.select(~mine)

    # -- staging

    def subscriptions(self) -> list[Subscription]:
        """The subscriptions with units that are due soon."""
        return list(self._found)

    def stage(self, subscription: Subscription, most: int, now_ms: int) -> U64:
        """Stage up to `most` units of the subscription that are due soon, and return their positions, as
        HandingOver.stage does. None are staged while the clock has gone back."""
        units = self._found.pop(subscription, NOTHING)
        goes = subscription in self._strict.subscriptions and subscription not in self._paused
        if not self._units.open or now_ms < self._units.latest_ms or not goes:
            return NOTHING.position
        pending = IS_PENDING[self._store.states(units.position).state]
        later = units.due_ms > self._units.latest_ms
        free = pending & later & ~self._claims.mask(units.position) & ~self._holds.mask(units.position)
        units = units.select(free & ~self._units.held(units.position, now_ms))
        if len(units) > most:
            self._found[subscription] = units.select(slice(most, None))
            units = units.select(slice(most))
        self._claims.take(units.position)
        self._staged.add(LaneKind.CURRENT, subscription, units)
        self._early.update(units.position.tolist())
        return units.position

    def early(self, positions: U64) -> bool:
        """True if some of these units were staged before they were due."""
        return bool(self._early) and not self._early.isdisjoint(positions.tolist())

    def due(self, units: Queued) -> Queued:
        """Return those of these units, which are no longer staged, that have become due by now. The others were staged
        before they were due: their claims are freed, and the wheel will give them out."""
        if not self._units.open or not self.early(units.position):
            return units
        self._early.difference_update(units.position.tolist())
        later = units.due_ms > self._units.latest_ms
        self._claims.free(units.position[later])
        return units.select(~later)

    def clear(self) -> None:
        """Forget all units. The term is over."""
        self._found.clear()
        self._early.clear()

    # -- planning

    def plan(self, subscription: Subscription, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool) -> Planned:
        """Lease those staged units of a strict topic that may be handed over. The topic is not paused. Each lease
        begins at the unit's due time, or now if that is past, and ends `lease_ms` later. All units stay staged if
        `trusted` is False, too many units are leased ahead, or the clock has gone back."""
        if not self._units.open:
            return Planned([], NOTHING.position)
        if not trusted or self._strict.full or now_ms < self._units.latest_ms:
            return Planned([], positions)
        taking = HandOverBuilder(len(positions), BYTES_MAX)
        for kind, units, rows in self._staged.take(subscription, positions):
            self._early.difference_update(units.position.tolist())
            later, due = np.flatnonzero(units.due_ms > now_ms), np.flatnonzero(units.due_ms <= now_ms)
            if len(later):
                self._take_early(subscription, units.select(later), now_ms, taking, select_rows(rows, later))
            if len(due):
                now_due, known = units.select(due), select_rows(rows, due)
                self._units.give(kind, subscription, now_due, len(due), now_ms, taking, known)
        made = taking.hand_over(subscription, now_ms + lease_ms, now_ms)
        send_ms = np.maximum(made.due_ms, now_ms)
        leased_ahead = [
            self._strict.add_leased_ahead(
                replace(made.select(rows), handed_over_ms=at_ms, lease_end_ms=at_ms + lease_ms), planned=True
            )
            for at_ms, rows in rows_by(send_ms)
        ]
        return Planned(leased_ahead, NOTHING.position)

    def _take_early(
        self, subscription: Subscription, units: Queued, now_ms: int, taking: HandOverBuilder, known: Units | None
    ) -> None:
        """Put into the hand-over those of `units`, none of which is due yet, that may be handed over. The claims of the
        others are freed, and the wheel gives them out when they are due. Units that are held, have ended, or are over
        their limit of attempts are dealt with then."""
        seen = check_records(self._store, self._strict, units.position, units.due_ms, now_ms, now_ms)
        rows = self._store.units(units.position) if known is None else known
        made = np.maximum(seen.attempt, rows["attempt"])
        attempts = np.minimum(made, ATTEMPT_MAX - 1) + np.uint16(1)
        goes = seen.ready & ~self._holds.mask(units.position) & ~self._units.held(units.position, now_ms)
        again = np.flatnonzero(goes & (made > 0))
        if self._attempts is not None and len(again):
            goes[again] = ~self._attempts.over(subscription, units.position[again], attempts[again])
        self._claims.free(units.position[~goes])
        if goes.any():
            taking.add(units.position[goes], attempts[goes], rows[goes])
