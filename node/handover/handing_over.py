"""Units leave the ready windows for consumers, under a lease.

The dispatcher (node/leader/dispatcher.py) brings units into the windows. Pulls and the pump of webhooks take them out
here, and commands hold them here. Every unit is checked against its settle record when it is handed over. So a unit
that ended meanwhile never goes out. A unit that a command in flight ends or moves waits for the command's result.

    window -- take, stage + hand_over_staged --> checked -- ready --------------> handed over
       ^                                            | held by a command --> aside, till released
       ^                                            | held by a rule -----> parked, till no rule holds it
       |                                            | over its limit -----> aside and exhausted, till released
       |<------------------------------------------ | not due again yet
       |<-- released; held by no rule; unstaged     '-- ended ------------> forgotten

Units of strict topics are leased ahead at this point and handed over later (strict.py). Strict pushes are leased even
before they are due (lease_ahead.py).

A claimed unit is not put into a window a second time. A unit is claimed while it is in a window, staged, aside, parked,
or handed over with a Lease that is not applied yet. A unit that leaves all these places is claimed no more. A filtered
pull finds its units in the window, and takes out only those that it wants (ready_units.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

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
from storage.format.predicate import TagFilter
from storage.format.rows import Units
from storage.store import Store
from storage.tables.topic import Subscription

PACE_MS = 10
"""In every interval of so many ms, consumers get at most `pace_per_step` overdue units."""


class HandingOver:
    """Makes the hand-overs of one term. It is opened when the dispatcher begins, and closed for good when the term is
    over.

    `strict` has the hand-overs that are leased ahead and have not begun. `lease_ahead` leases strict pushes before they
    are due. `staged` has the units that left a window for a push and are not handed over yet. It also knows which of
    them ended meanwhile.
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
        """Allow hand-overs from now on. The dispatcher calls this when it begins."""
        self._units.begin()
        self._units.dispatched(now_ms)
        self._pace_ms = now_ms
        for lane in self._ready.lanes:
            self._ready.waited.note_all(lane.windows.keys())

    def close(self) -> None:
        """End hand-overs for good, because the term is over. Units that were taken out of the windows and not handed
        over are forgotten."""
        self._units.close()
        self._holds.forget_aside()
        self.staged.clear()
        self.lease_ahead.clear()
        self.strict.clear()
        self._exhaustion.clear()

    def turn(self, now_ms: int) -> None:
        """Take a step: note that all units due by `now_ms` were dispatched, and ask the rules about parked units. Every
        PACE_MS, allow the next `pace_per_step` overdue units to be handed over."""
        self._units.dispatched(now_ms)
        self._units.turn(now_ms)
        if not self._pace_ms - PACE_MS <= now_ms < self._pace_ms:
            self._pace_ms, self._pace_left = now_ms + PACE_MS, self._pace_per_step
            self._ready.waited.note_all(self._ready.lanes[LaneKind.OVERDUE].windows.keys())

    def wake_ms(self) -> int | None:
        """Return when the next step is needed, because more overdue units may go or rules are to be asked again. None
        if no unit waits for either."""
        paced = bool(self._ready.lanes[LaneKind.OVERDUE].windows) and not self._pace_left
        asked_ms = self._units.wake_ms()
        if asked_ms is None:
            return self._pace_ms if paced else None
        return min(asked_ms, self._pace_ms) if paced else asked_ms

    def ask_again(self, topics: Collection[int] | None = None) -> None:
        """Ask the rules about all parked units again, beginning with the next step. Look again for units of these
        topics, or of all topics, that they left out. The caller knows that a rule may have changed."""
        self._units.ask_again(topics)

    # -- ready units

    @property
    def ready_count(self) -> int:
        """The number of units in all windows. Ready units that are not in a window are backlog and not counted. 0 once
        closed."""
        return self._ready.count if self._units.open else 0

    def ready_of(self, subscription: Subscription) -> int:
        """How many units are in the windows of this subscription."""
        return sum(self._ready.waiting(kind, subscription) for kind in LaneKind) if self._units.open else 0

    def waiting(self, subscription: Subscription, tags: TagFilter | None = None) -> bool:
        """True if a hand-over of the subscription is worth a try. With a filter, its windows must have units that the
        filter has not looked at.

        A try that finds nothing leaves this False until another unit comes. But while the clock has gone back it may
        stay True, because units that are not due by it stay in their window.
        """
        if not self._units.open or subscription in self._paused:
            return False
        lanes = (LaneKind.CURRENT, LaneKind.OVERDUE) if self._pace_left else (LaneKind.CURRENT,)
        if tags is None:
            return any(self._ready.waiting(kind, subscription) for kind in lanes)
        return any(self._ready.fresh(kind, subscription, tags) for kind in lanes)

    @property
    def waited(self) -> WaitedSubscriptions:
        """The subscriptions that pulls wait for."""
        return self._ready.waited

    def set_waiting(self, filters: int) -> None:
        """Let the windows keep marks for `filters` more filters, one for each filter of a waiting pull. A mark says how
        far a filter has looked."""
        self._ready.marks_max = MARKS_MAX + filters

    def next_pushing(self, most: int) -> list[Subscription]:
        """The next `most` subscriptions that have units in a window to be pushed. These subscriptions go to the end of
        the line, so that each gets its turn."""
        return self._ready.next_pushing(most)

    def set_room(self, subscription: Subscription, room: bool) -> None:
        """Say if more units of the subscription may be staged. While they may not, `next_pushing` leaves it out."""
        self._ready.set_room(subscription, room)

    def has_more(self, subscription: Subscription) -> bool:
        """True if another step should follow a hand-over of the subscription. It should if the subscription has more
        units in a window or a backlog. It also should if any subscription has units over their limit, or parked
        units."""
        lanes, waits = self._ready.lanes, self.has_exhausted or self._ready.parked.count > 0
        return waits or any(subscription in lane.windows or subscription in lane.begins for lane in lanes)

    def pause(self, subscription: Subscription, paused: bool) -> None:
        """Pause the subscription, so that nothing of it goes out, or resume it."""
        (self._paused.add if paused else self._paused.discard)(subscription)
        self._ready.waited.note(subscription)

    def behind_ms(self, now_ms: int) -> int:
        """How far the clock stands behind the latest time it has shown, 0 if it has not gone back. While it has, only
        some of the ready units are due, and all ready units must be looked at to find these."""
        return max(0, self._units.latest_ms - now_ms) if self._units.open else 0

    def blocked(self, now_ms: int) -> bool:
        """True if hand-overs may be refused now, whatever units are ready. The stop rule forbids them, too many units
        wait for their Lease or their Fail, or the clock has gone back. The dispatcher steps again when that has
        ended."""
        full = self.strict.full or self._exhaustion.full
        return full or now_ms < self._units.latest_ms or not self._book.allows(now_ms)

    def allows(self, now_ms: int) -> bool:
        """True if the stop rule lets units be handed over now. Leases ahead are not bound by it."""
        return self._book.allows(now_ms)

    @property
    def leases_due_ms(self) -> int | None:
        """When the Leases of hand-overs that were made have to be in an entry, even if no other command waits for one.
        None if no Lease waits."""
        return self._book.due_ms

    def unrecorded(self, position: int) -> bool:
        """True if the settle records do not show yet that the unit was handed over (fast mode), or that its lease ahead
        was taken back."""
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
        """Take up to `max_units` ready units of a subscription under a lease that ends at `now_ms` + `lease_ms`. Their
        records have at most `max_bytes` together, except that the first unit is taken whatever its size. With a filter,
        only units that it wants are taken. The others stay in their window. Units of a strict topic are leased ahead
        instead of handed over.

        The hand-over is empty if nothing is ready, the subscription is paused, or `trusted` is False. A fast one is
        also empty if the stop rule forbids it, and a strict one if too many units are leased ahead. Current units come
        first, then overdue ones, as far as their pace allows. A filter looks through the windows only, not through the
        backlog.
        """
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
        return self.strict.add_leased_ahead(made) if strict and len(made) else self._made(made)

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
        """Take up to `most` units of a subscription out of its windows, for a push that will be sent soon. Return their
        positions, in the order in which to hand them over. They are claimed and have no lease. They stay staged until
        `hand_over_staged`, `unstage` or another call here removes them."""
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
        """Return the rows of the index of these staged units, shape [n]. The rows are kept, so that the hand-over of
        the units need not read them again."""
        rows = self._store.units(positions)
        self.staged.keep(positions, rows)
        return rows

    def _due(self, kind: LaneKind, subscription: Subscription, most: int, now_ms: int) -> Queued:
        """Take the first `most` units of a subscription's lane out of its window. While the clock has gone back, take
        only units that are due by `now_ms`."""
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
        """Hand over those of these staged units of a subscription that their settle records and the rules allow now.
        The lease ends at `now_ms` + `lease_ms`. If leadership is not trusted or the stop rule forbids it, all stay
        staged and are returned as `left`.

        Units that are in neither part of the result are no longer staged. They ended, or a command or a rule holds
        them, or they are back in their window. They go back there if the subscription is paused, or the clock has gone
        back to before their due time.
        """
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
        """Hand over staged units of any topics together. It does so only if all may go now, each for the first time,
        and their rows of the index were read. Otherwise it changes nothing and returns None, and the caller hands over
        topic by topic."""
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
        """Lease staged units of a strict topic before they are due (LeaseAhead.plan says how). If the topic is paused,
        unstage them instead."""
        if subscription in self._paused:
            self.unstage(subscription, positions)
            return Planned([], NOTHING.position)
        return self.lease_ahead.plan(subscription, positions, lease_ms, now_ms, trusted=trusted)

    def unstage(self, subscription: Subscription, positions: U64) -> None:
        """Put staged units of a subscription back at the front of their windows, in the order given."""
        for kind, units, _ in self.staged.take(subscription, positions) if self._units.open else ():
            self._ready.put_back(kind, subscription, self.lease_ahead.due(units))

    def look_again(self, subscription: Subscription, positions: U64, now_ms: int) -> None:
        """Unstage units of a subscription after a look at their settle records. Units that ended are forgotten. The
        others go back to the front of their windows."""
        self._look_again(subscription, positions, now_ms, HandOverBuilder(0, BYTES_MAX))

    def _look_again(self, subscription: Subscription, positions: U64, now_ms: int, taking: HandOverBuilder) -> None:
        for kind, units, rows in self.staged.take(subscription, positions) if self._units.open else ():
            due = self.lease_ahead.due(units)
            known = rows if len(due) == len(units) else None
            self._units.give(kind, subscription, due, taking.units, now_ms, taking, known)

    # -- commands in flight

    def hold(self, positions: Iterable[int]) -> None:
        """Hand none of the units at `positions` over until `release` is called with the same positions. Called when a
        command that ends or moves the units is about to be proposed.

        A position may be the unit's home or its place. If a unit is moved meanwhile, the hold goes with it. Leases
        ahead of these units are taken back.
        """
        names = np.fromiter(positions, np.uint64)
        places = self._store.locate(names)
        self._holds.add(names, places)
        self.strict.withdraw_places(places)

    def release(self, positions: Iterable[int]) -> None:
        """End the holds that `hold` put on these positions, because the command has its result. Units that the command
        left open go back to the front of their windows."""
        names = list(positions)
        self._exhaustion.released(names)
        for kind, subscription, units in self._holds.drop(names):
            self._ready.put_back(kind, subscription, units)

    def moved(self, home: U64, old: U64, position: U64) -> None:
        """Move the holds of messages that now stand at `position` and stood at `old` before, shape [n] each. Claims on
        the old places of units that stood aside end: the messages come into the windows from their new places."""
        left = self._holds.move(home, old, position)
        if len(left) and self._units.open:
            self._claims.free(left)

    @property
    def has_exhausted(self) -> bool:
        """True if `take_exhausted` has something to return."""
        return bool(self._exhaustion)

    def take_exhausted(self) -> list[Exhausted]:
        """Return units that were about to be handed over and are over their limit of attempts, each unit once. They are
        held until `release` names their positions, after the Fail that ends them has its result."""
        return self._exhaustion.take()
