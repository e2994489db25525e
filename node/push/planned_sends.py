"""Planned pushes of strict topics: they are leased ahead, or about to be, and wait for their time. Each counts as an
attempt on the wire to its receiver already.

    add -- Lease committed --> waits for its time -- trusted, still planned --> sent
                                      '-- withdrawn, its topic changed, too late --> lease taken back, off the wire

A timer of their own (node/runtime/step_alarm.py) wakes for each due time, so no other work of the pump delays them. If
trust is missing at that time, the push is tried again for LATE_MOST_MS. Its lease is long enough for that and for the
attempt.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from node.handover.lease_ahead import AHEAD_MS
from node.handover.lease_book import HandOver
from node.handover.term import Term
from node.push.lanes import Lanes
from node.push.unit import StagedUnit
from node.runtime.clock import NodeClock
from node.runtime.lifecycle import Lifecycle
from node.runtime.step_alarm import StepAlarm
from storage.store import Store
from storage.tables.topic import Subscription

#: A planned push that is so late and could not be sent has its lease taken back. This is less than the lease's margin.
LATE_MOST_MS: Final = 2_000
#: If a due push may not be sent for lack of trust, it is tried again after this time.
AGAIN_MS: Final = 20
#: Pushes are planned this long before their time, plus twice as long as Leases have lately taken to be applied. That is
#: AHEAD_MS at most.
AHEAD_LEAST_MS: Final = 20
#: The longest time that a Lease took shrinks to this part every second, so that a slow disk is remembered for a while.
FORGET: Final = 0.9

Went = list[tuple[HandOver, list[StagedUnit]]]


class _Plan(NamedTuple):
    """A planned push whose Lease is applied. Plans are ordered by the time of sending, then by their number."""

    send_ms: int
    number: int
    hand_over: HandOver
    units: list[StagedUnit]  # one for each row of `hand_over`


class PlannedSends:
    """The planned pushes of one node in its present term. `send` is called with pushes that begin now. `freed` is
    called when pushes were given up, so that there is room for other attempts."""

    def __init__(
        self,
        store: Store,
        clock: NodeClock,
        life: Lifecycle,
        lanes: Lanes,
        send: Callable[[Term, Went, int], None],
        freed: Callable[[], None],
    ) -> None:
        self._store, self._clock, self._life = store, clock, life
        self._lanes = lanes
        self._send = send
        self._freed = freed
        self._leasing: dict[int, tuple[float, HandOver, list[StagedUnit]]] = {}  # by number; the float: planned when, s
        self._leased: list[_Plan] = []
        self._steps: StepAlarm | None = None  # of this term, once something was leased
        self._took_ms = AHEAD_MS / 2  # how long Leases have lately taken
        self._took_s = 0.0  # when that was measured, s

    @property
    def waiting(self) -> int:
        """Count the pushes that are planned and not sent."""
        return sum(len(units) for _, _, units in self._leasing.values()) + sum(len(plan.units) for plan in self._leased)

    def plan(
        self, term: Term, units: list[StagedUnit], lease_ms: int, now_ms: int
    ) -> tuple[list[StagedUnit], list[StagedUnit]]:
        """Plan the units of strict topics among these units, each of which counts as an attempt already. Return the
        units of other topics, and the units of strict topics that cannot be planned for the moment."""
        handing_over = term.handing_over
        others: list[StagedUnit] = []
        left: list[StagedUnit] = []
        units.sort(key=_subscription)
        for subscription, group in groupby(units, key=_subscription):
            if subscription not in handing_over.strict.subscriptions:
                others += group
                continue
            known = {unit.position: unit for unit in group}
            positions = np.fromiter(known, np.uint64, len(known))
            planned = handing_over.plan(subscription, positions, lease_ms, now_ms, trusted=term.trusted())
            since_s = asyncio.get_running_loop().time()
            for made in planned.hand_overs:
                its = [known.pop(position) for position in made.position.tolist()]
                self._leasing[made.strict] = since_s, made, its
            left += [known.pop(position) for position in planned.left.tolist()]
            for unit in known.values():  # ended, held, or back in the window or the wheel
                self._lanes.done(unit, now_ms)
        return others, left

    def leased(self, term: Term, hand_over: HandOver) -> None:
        """Note that the Lease of this planned push is applied: it is sent when its time comes. Also set how early units
        are leased, by how long Leases take."""
        leasing = self._leasing.pop(hand_over.strict, None)
        if leasing is None:  # `clear` gave it up meanwhile
            return
        since_s, planned, units = leasing
        now_s = asyncio.get_running_loop().time()
        self._took_ms = max((now_s - since_s) * 1000, self._took_ms * FORGET ** (now_s - self._took_s))
        self._took_s = now_s
        term.handing_over.lease_ahead.look_ahead(min(AHEAD_MS, AHEAD_LEAST_MS + round(2 * self._took_ms)))
        heapq.heappush(self._leased, _Plan(planned.handed_over_ms, planned.strict, planned, units))
        if self._steps is None:
            self._steps = StepAlarm(self._clock, lambda: self._send_due(term), self._life.fatal)
        self._steps.by(self._leased[0].send_ms)

    def clear(self) -> None:
        """Give up all planned pushes, which leaves room for other attempts, because the term is over or is about to be.
        The caller takes back their leases if the term goes on."""
        plans = [plan.units for plan in self._leased] + [units for _, _, units in self._leasing.values()]
        self._leasing.clear()
        self._leased.clear()
        if self._steps is not None:
            self._steps.end()
            self._steps = None
        for units in plans:
            self._free(units)

    def _send_due(self, term: Term) -> int | None:
        """Send the pushes whose time has come. Return when to look again (ms), None if no leased push waits."""
        now_ms = self._clock.now_ms()
        went: Went = []
        while self._leased and self._leased[0].send_ms <= now_ms:
            late = now_ms - self._leased[0].send_ms > LATE_MOST_MS
            if not late and not term.trusted():
                break
            plan = heapq.heappop(self._leased)
            went += self._begin(term, plan, now_ms, late=late)
        if went:
            self._send(term, went, now_ms)
        if not self._leased:
            return None
        return max(self._leased[0].send_ms, now_ms + AGAIN_MS if self._leased[0].send_ms <= now_ms else 0)

    def _begin(self, term: Term, plan: _Plan, now_ms: int, *, late: bool) -> Went:
        """Begin the hand-over of those units of a plan that may be sent now. Take back the leases of the others.
        `late`: it is too late to send any of them."""
        strict = term.handing_over.strict
        goes = np.array([not late and self._unchanged(unit) for unit in plan.units], np.bool_)
        begun = strict.begin(plan.hand_over.select(goes), now_ms)
        strict.withdraw(plan.hand_over)
        sent = set(begun.position.tolist())
        units = [unit for unit in plan.units if unit.position in sent]
        self._free([unit for unit in plan.units if unit.position not in sent])
        if len(units) < len(plan.units):
            term.poke()
        return [(begun, units)] if units else []

    def _unchanged(self, unit: StagedUnit) -> bool:
        topic = self._store.catalog.topic_by_number(unit.topic.number)
        return topic is not None and topic.revision == unit.topic.revision

    def _free(self, units: list[StagedUnit]) -> None:
        for unit in units:
            self._lanes.done(unit, self._clock.now_ms())
        if units:
            self._freed()


def _subscription(unit: StagedUnit) -> Subscription:
    return unit.subscription
