"""Units leave the ready windows for consumers, under a lease.

The dispatcher (node/leader/dispatcher.py) brings units into the windows. Pulls and the pump of webhooks take them out
here, and commands hold them here. Every unit is checked against the records at the moment it is handed over. So what
was settled meanwhile never goes out, and what a command in flight ends or moves waits for that command's result.

    window -- take, stage + hand_over_staged --> checked -- ready --------------> handed over
       ^                                            | held by a command --> aside, till released
       ^                                            | held by a rule -----> parked, till it lets go
       |                                            | over its limit -----> aside and exhausted, till released
       |<------------------------------------------ | not due again yet
       |<-- aside, released; let go; unstaged       '-- ended ------------> forgotten

Units of strict topics are pledged instead of handed over (strict.py), pushes ahead of time (lease_ahead.py). A unit is
claimed as long as it is in a window, staged, aside, parked, or handed over and not applied; each arrow to elsewhere
frees it. A filtered pull finds its units in the window, and moves those only that it takes (ready_units.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from node.handover.attempt_limit import AttemptLimit, Exhausted, Exhaustion
from node.handover.hand_over_builder import BYTES_MAX, HandOverBuilder
from node.handover.holds import UnitHolds
from node.handover.lease_ahead import LeaseAhead, Planned
from node.handover.lease_book import SEVERAL, HandOver, LeaseBook
from node.handover.ready_units import ReadyUnits
from node.handover.staged import Staged, StagedHandOver
from node.handover.strict import Strict
from node.ready.claimed_units import ClaimedUnits
from node.ready.rule import Rule
from node.ready.topic_window import MARKS_MAX, NOTHING, LaneKind, Queued
from node.ready.waited_subscriptions import WaitedSubscriptions
from node.ready.windows import Ready
from storage.format.array import U64
from storage.format.rows import Units
from storage.format.tag_filter import TagFilter
from storage.store import Store
from storage.tables.topic import Subscription

PACE_MS = 10
"""Overdue units are released to consumers `pace_per_step` at a time, this far apart."""


class HandingOver:
    """One term's hand-overs. Opened when the dispatcher begins, closed for good when the term is over.

    `strict`: what is leased and not begun. `lease_ahead`: strict pushes, leased before they are due. `staged`: units on
    their way to a push, which are told what ended meanwhile.
    """

    def __init__(
        self,
        store: Store,
        book: LeaseBook,
        claims: ClaimedUnits,
        ready: Ready,
        *,
        term: int,
        attempts: AttemptLimit | None,
        pace_per_step: int,
        rules: Sequence[Rule] = (),
    ) -> None:
        self._store = store
        self._book = book
        self._claims, self._ready = claims, ready
        self.strict = strict = Strict(book, term=term)
        self._holds = holds = UnitHolds()
        self._exhaustion = Exhaustion(attempts, holds)
        self._units = units = ReadyUnits(store, strict, claims, ready, holds, self._exhaustion, rules)
        self.staged = Staged()
        self._paused: set[Subscription] = set()
        self.lease_ahead = LeaseAhead(store, strict, claims, holds, self.staged, self._paused, attempts, units)
        self._pace_per_step = pace_per_step
        self._pace_ms, self._pace_left = 0, 0

    def open(self, now_ms: int) -> None:
        """The wheel begins: there may be hand-overs."""
        self._units.begin()
        self._units.dispatched(now_ms)
        self._pace_ms = now_ms
        for lane in self._ready.lanes:
            self._ready.waited.note_all(lane.windows.keys())

    def close(self) -> None:
        """Step down: nothing is handed over any more, and what was taken out of the windows is forgotten."""
        self._units.close()
        self._holds.forget_aside()
        self.staged.clear()
        self.lease_ahead.clear()
        self.strict.clear()
        self._exhaustion.clear()

    def turn(self, now_ms: int) -> None:
        """All that is due by `now_ms` was dispatched; what is overdue goes on at its pace."""
        self._units.dispatched(now_ms)
        self._units.turn(now_ms)
        if not self._pace_ms - PACE_MS <= now_ms < self._pace_ms:
            self._pace_ms, self._pace_left = now_ms + PACE_MS, self._pace_per_step
            self._ready.waited.note_all(self._ready.lanes[LaneKind.OVERDUE].windows.keys())

    def wake_ms(self) -> int | None:
        """When overdue units that wait for their pace may go on, or rules are asked again; None if nothing waits so."""
        paced = bool(self._ready.lanes[LaneKind.OVERDUE].windows) and not self._pace_left
        asked_ms = self._units.wake_ms()
        if asked_ms is None:
            return self._pace_ms if paced else None
        return min(asked_ms, self._pace_ms) if paced else asked_ms

    def ask_again(self) -> None:
        """A rule may think otherwise of what it held: what is parked is asked again, from the next step on."""
        self._units.ask_again()

    # -- what is ready

    @property
    def ready_count(self) -> int:
        """Units in all windows; what is ready beyond them is backlog. 0 once closed."""
        return self._ready.count if self._units.open else 0

    def ready_of(self, subscription: Subscription) -> int:
        """How many units are in the windows of this subscription."""
        return sum(self._ready.waiting(kind, subscription) for kind in LaneKind) if self._units.open else 0

    def waiting(self, subscription: Subscription, tags: TagFilter | None = None) -> bool:
        """Whether a hand-over of the subscription is worth a try; with a filter, whether there is anything that it has
        not looked at. After a try that found nothing it is not, until something comes, or the clock that went back goes
        on."""
        if not self._units.open or subscription in self._paused:
            return False
        lanes = (LaneKind.CURRENT, LaneKind.OVERDUE) if self._pace_left else (LaneKind.CURRENT,)
        if tags is None:
            return any(self._ready.waiting(kind, subscription) for kind in lanes)
        return any(self._ready.fresh(kind, subscription, tags) for kind in lanes)

    @property
    def waited(self) -> WaitedSubscriptions:
        """The topics that pulls wait for."""
        return self._ready.waited

    def set_waiting(self, filters: int) -> None:
        """So many pulls wait with a filter, whose marks are kept."""
        self._ready.marks_max = MARKS_MAX + filters

    def next_pushing(self, most: int) -> list[Subscription]:
        """The next subscriptions with something in a window that is to be pushed, `most` of them; each comes in its
        turn."""
        return self._ready.next_pushing(most)

    def set_room(self, subscription: Subscription, room: bool) -> None:
        """Whether more of the subscription may be staged; else it is not among those."""
        self._ready.set_room(subscription, room)

    def has_more(self, subscription: Subscription) -> bool:
        """Whether a step is worth it after a hand-over of the subscription: there is more of it, what it found over its
        limit is to be ended, or what it parked is to be asked again."""
        lanes, waits = self._ready.lanes, self.has_exhausted or self._ready.parked.count > 0
        return waits or any(subscription in lane.windows or subscription in lane.begins for lane in lanes)

    def pause(self, subscription: Subscription, paused: bool) -> None:
        """Whether nothing of the subscription goes out."""
        (self._paused.add if paused else self._paused.discard)(subscription)
        self._ready.waited.note(subscription)

    def behind_ms(self, now_ms: int) -> int:
        """How far the clock has gone back, 0 if it has not: meanwhile of what is ready only some is due again, and to
        find it costs a look at all of it."""
        return max(0, self._units.latest_ms - now_ms) if self._units.open else 0

    def blocked(self, now_ms: int) -> bool:
        """Whether a hand-over finds nothing now, whatever waits: against the stop rule, while too many units wait for
        the Fail that ends them, or while the clock has gone back. A step comes when that is over."""
        full = self.strict.full or self._exhaustion.full
        return full or now_ms < self._units.latest_ms or not self._book.allows(now_ms)

    def allows(self, now_ms: int) -> bool:
        """Whether the stop rule lets units be handed over now; a pledge does not ask."""
        return self._book.allows(now_ms)

    @property
    def leases_due_ms(self) -> int | None:
        """When the Leases of what was handed over have to leave, though nobody else asks for an entry; None: never."""
        return self._book.due_ms

    def unrecorded(self, position: int) -> bool:
        """Whether the unit was handed over, or a hand-over of it taken back, and the records do not say so yet."""
        return self._book.holds(position)

    # -- pull

    def hand_over(
        self,
        subscription: Subscription,
        max_units: int,
        lease_ms: int,
        now_ms: int,
        *,
        trusted: bool,
        max_bytes: int = BYTES_MAX,
        tags: TagFilter | None = None,
    ) -> HandOver:
        """Take up to `max_units` ready units of a subscription, whose records have up to `max_bytes` (one always fits),
        under a lease that ends at now + lease_ms. With a filter, only those it wants; the others stay in place.

        Empty if nothing is ready, the subscription is paused, leadership is not trusted, or the oldest uncommitted
        hand-over is `stop_ms` old. What is due now comes first, then what is overdue, as far as its pace allows. A
        filter looks through the windows, not through the backlog behind them."""
        strict = subscription in self.strict.subscriptions
        free = not self.strict.full if strict else self._book.allows(now_ms)
        allowed = trusted and self._units.open and subscription not in self._paused and free
        taking = HandOverBuilder(max_units if allowed else 0, max_bytes)
        for kind in LaneKind:
            most = self._most(kind, taking.units)
            if tags is None:
                count = self._units.take(kind, subscription, most, now_ms, taking)
            else:
                count = self._units.take_wanted(kind, subscription, tags, most, now_ms, taking)
            self._went(kind, count)
        made = taking.hand_over(subscription, now_ms + lease_ms, now_ms)
        return self.strict.pledge(made) if strict and len(made) else self._made(made)

    def _most(self, kind: LaneKind, units: int) -> int:
        return min(units, self._pace_left) if kind is LaneKind.OVERDUE else units

    def _went(self, kind: LaneKind, count: int) -> None:
        if kind is LaneKind.OVERDUE:
            self._pace_left -= count

    def _made(self, hand_over: HandOver) -> HandOver:
        if len(hand_over):
            self._book.add(hand_over)
        return hand_over

    # -- push

    def stage(self, subscription: Subscription, most: int, now_ms: int) -> U64:
        """Take up to `most` units of a subscription out of its turn, to be handed over soon: their positions, in the
        order of a hand-over. They are claimed, not leased, and stay so until `hand_over_staged` or `unstage` names
        them."""
        parts: list[Queued] = []
        for kind in LaneKind:
            room = self._most(kind, most) if self._units.open and subscription not in self._paused else 0
            units = self._due(kind, subscription, room, now_ms)
            most -= len(units)
            self._went(kind, len(units))
            self.staged.add(kind, subscription, units)
            parts.append(units)
        return Queued.joined(parts).position

    def read_staged(self, positions: U64) -> Units:
        """The rows of the index of these staged units. Their hand-over does not read them again."""
        rows = self._store.units(positions)
        self.staged.keep(positions, rows)
        return rows

    def _due(self, kind: LaneKind, subscription: Subscription, most: int, now_ms: int) -> Queued:
        """The first `most` of a lane; only those due again, while the clock has gone back."""
        if now_ms >= self._units.latest_ms or not most:
            return self._ready.take(kind, subscription, most)
        units = self._ready.take(kind, subscription, self._ready.waiting(kind, subscription))
        seen = self._units.look(units.position, units.due_ms, now_ms)
        rows = np.flatnonzero(seen.ready)[:most]
        stays = np.ones(len(units), np.bool_)
        stays[rows] = False
        self._ready.put_back(kind, subscription, units.select(stays))
        return units.select(rows)

    def hand_over_staged(
        self, subscription: Subscription, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool
    ) -> StagedHandOver:
        """Hand over staged units of a subscription under a lease that ends at now + lease_ms, as far as the records
        allow it now. Without trust, or against the stop rule, all are left staged.

        Those that are neither handed over nor left are not staged any more: they ended, or they are held by a command
        in flight, or they are back in the window, since the subscription is paused or the clock has gone back before
        them."""
        planned = subscription in self.strict.subscriptions
        taking = HandOverBuilder(0 if planned else len(positions), BYTES_MAX)
        left = NOTHING.position
        if self._units.open and subscription in self._paused:
            self.unstage(subscription, positions)
        elif self._units.open and not (trusted and self._book.allows(now_ms)):
            left = positions
        else:
            self._look_again(subscription, positions, now_ms, taking)
        return StagedHandOver(self._made(taking.hand_over(subscription, now_ms + lease_ms, now_ms)), left)

    def hand_over_first(self, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool) -> HandOver | None:
        """As `hand_over_staged`, of any topics in one look, where all may go and none went before, their rows of the
        index at hand: the usual case. None where not, and nothing is changed: to be asked topic by topic."""
        allowed = self._units.open and trusted and self._book.allows(now_ms)
        if not allowed or self._holds.mask(positions).any() or self.lease_ahead.early(positions):
            return None
        barred = self._paused, self.strict.subscriptions
        if any(barred) and not all(map(self.staged.subscriptions(positions).isdisjoint, barred)):
            return None
        rows = self.staged.rows(positions)
        if rows is None or rows["attempt"].any():
            return None
        seen = self._units.check(positions, rows["due_ms"], now_ms, rows)
        if not seen.ready.all() or seen.attempt.any():
            return None
        self.staged.forget(positions)
        taking = HandOverBuilder(len(positions), BYTES_MAX)
        taking.add(positions, np.ones(len(positions), np.uint16), rows)
        return self._made(taking.hand_over(SEVERAL, now_ms + lease_ms, now_ms))

    def plan(self, subscription: Subscription, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool) -> Planned:
        """As `hand_over_staged`, of a strict topic: leased before it is due, see LeaseAhead.plan."""
        if subscription in self._paused:
            self.unstage(subscription, positions)
            return Planned([], NOTHING.position)
        return self.lease_ahead.plan(subscription, positions, lease_ms, now_ms, trusted=trusted)

    def unstage(self, subscription: Subscription, positions: U64) -> None:
        """Staged units of a subscription are first in line again, in this order."""
        for kind, units, _ in self.staged.take(subscription, positions) if self._units.open else ():
            self._ready.put_back(kind, subscription, self.lease_ahead.due(units))

    def look_again(self, subscription: Subscription, positions: U64, now_ms: int) -> None:
        """Staged units of a subscription are not staged any more: those that ended are forgotten, the others are first
        in line again."""
        self._look_again(subscription, positions, now_ms, HandOverBuilder(0, BYTES_MAX))

    def _look_again(self, subscription: Subscription, positions: U64, now_ms: int, taking: HandOverBuilder) -> None:
        for kind, units, rows in self.staged.take(subscription, positions) if self._units.open else ():
            due = self.lease_ahead.due(units)
            known = rows if len(due) == len(units) else None
            self._units.give(kind, subscription, due, taking.units, now_ms, taking, known)

    # -- commands in flight

    def hold(self, positions: Iterable[int]) -> None:
        """Do not hand these over until they are released: a command that ends or moves them is on its way. They are
        named by home or place; if they are moved meanwhile, they are held where they stand then."""
        names = np.fromiter(positions, np.uint64)
        places = self._store.locate(names)
        self._holds.add(names, places)
        self.strict.withdraw_places(places)

    def release(self, positions: Iterable[int]) -> None:
        """The command, which held these by these names, has its result; what it left open is first in line again."""
        names = list(positions)
        self._exhaustion.released(names)
        for kind, subscription, units in self._holds.drop(names):
            self._ready.put_back(kind, subscription, units)

    def moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages stand elsewhere now: what holds them goes with them. They come into the windows anew."""
        left = self._holds.move(home, old, position)
        if len(left) and self._units.open:
            self._claims.free(left)

    @property
    def has_exhausted(self) -> bool:
        """Whether there is something to take with `take_exhausted`."""
        return bool(self._exhaustion)

    def take_exhausted(self) -> list[Exhausted]:
        """Units that were to be handed over and are over their limit of attempts, each told of once. They are held
        until `release` names their positions, which is when the Fail that ends them has its result."""
        return self._exhaustion.take()
