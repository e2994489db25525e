"""Where units leave: from the ready windows to consumers, under a lease.

Every unit is checked against the records at the moment it is handed over, so what was settled meanwhile never goes out,
and what a command in flight is about to end or move waits for that command's result.

    window -- take, stage + hand_over_staged --> checked -- ready --------------> handed over
       ^                                            | held ---------------> aside, till released
       |                                            | over its limit -----> aside and exhausted, till released
       |<------------------------------------------ | not due again yet
       |<-- aside, released; unstaged               '-- ended ------------> forgotten

Units of strict topics are pledged instead of handed over (strict.py), pushes ahead of time (lease_ahead.py). A unit is
claimed as long as it is in a window, staged, aside, or handed over and not applied; each arrow to elsewhere frees it. A
filtered pull finds its units in the window, and moves those only that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from node.handover.attempt_limit import AttemptLimit, Exhausted
from node.handover.hand_over_builder import BYTES_MAX, Taking, rows_within
from node.handover.holds import Holds
from node.handover.lease_ahead import ATTEMPT_MAX, Planning
from node.handover.lease_book import SEVERAL, HandOver, LeaseBook
from node.handover.staged import Staged, StagedHandOver
from node.handover.strict import Strict
from node.ready.claimed_units import Claims
from node.ready.record_check import Look, look
from node.ready.topic_window import NOTHING, Found, LaneKind, Queued
from node.ready.windows import Ready
from replication.apply.attempt_order import Rows
from storage.format.array import U16, U64
from storage.format.tag_mask import TagFilter
from storage.store import Store

PACE_MS = 10
"""Overdue units are released to consumers `pace_per_step` at a time, this far apart."""

LOOK_ROWS = 16_384
"""At most so many units of a window are looked at together to find the few asked for."""

EXACT_ROWS, EXACT_BYTES = 2_000, 16 << 20
"""Records whose tags a filtered hand-over reads, about; the next one goes on from there."""

EXHAUSTED_MAX = 2_000
"""Hand-overs pause while so many units wait for the Fail that ends them: each is held, one by one."""


class Outlet:
    """One term's hand-overs. Opened when the dispatcher begins, closed for good when the term is over."""

    def __init__(
        self,
        store: Store,
        book: LeaseBook,
        claims: Claims,
        ready: Ready,
        strict: Strict,
        attempts: AttemptLimit | None,
        *,
        pace_per_step: int,
    ) -> None:
        self._store = store
        self._book = book
        self._claims = claims
        self._ready = ready
        self._strict = strict
        self._attempts = attempts
        self._holds = Holds()
        self.staged = Staged()
        self.exhausted: list[Exhausted] = []  # not yet told of
        self._ending: set[int] = set()  # places of exhausted units, told of or not, until they are released
        self._paused: set[int] = set()
        self._open = False
        self._latest_ms = 0  # all that is due by then was dispatched
        self.planning = Planning(
            store, strict, claims, self._holds, self.staged, self._paused, attempts, self._give, self.unstage
        )
        self._pace_per_step = pace_per_step
        self._pace_ms, self._pace_left = 0, 0

    def open(self, now_ms: int) -> None:
        """The wheel begins: there may be hand-overs."""
        self._open = True
        self._latest_ms = self._pace_ms = self.planning.latest_ms = now_ms
        for lane in self._ready.lanes:
            self._ready.waited.note_all(lane.windows.keys())

    def close(self) -> None:
        """Step down: nothing is handed over any more, and what was taken out of the windows is forgotten."""
        self._open = False
        self._holds.forget_aside()
        self.staged.clear()
        self.planning.clear()
        self._strict.clear()
        self.exhausted.clear()
        self._ending.clear()

    def turn(self, now_ms: int) -> None:
        """All that is due by `now_ms` was dispatched; what is overdue goes on at its pace."""
        self._latest_ms = self.planning.latest_ms = max(self._latest_ms, now_ms)
        if not self._pace_ms - PACE_MS <= now_ms < self._pace_ms:
            self._pace_ms, self._pace_left = now_ms + PACE_MS, self._pace_per_step
            self._ready.waited.note_all(self._ready.lanes[LaneKind.OVERDUE].windows.keys())

    def wake_ms(self) -> int | None:
        """When overdue units that wait may go on; None if none wait for their pace."""
        return self._pace_ms if self._ready.lanes[LaneKind.OVERDUE].windows and not self._pace_left else None

    @property
    def ready_count(self) -> int:
        """Units in all windows; none once closed."""
        return self._ready.count if self._open else 0

    def pause(self, topic: int, paused: bool) -> None:
        """Whether nothing of the topic goes out."""
        (self._paused.add if paused else self._paused.discard)(topic)
        self._ready.waited.note(topic)

    def waiting(self, topic: int, tags: TagFilter | None) -> bool:
        """See Dispatcher.waiting."""
        if not self._open or topic in self._paused:
            return False
        lanes = (LaneKind.CURRENT, LaneKind.OVERDUE) if self._pace_left else (LaneKind.CURRENT,)
        if tags is None:
            return any(self._ready.waiting(kind, topic) for kind in lanes)
        return any(self._ready.fresh(kind, topic, tags) for kind in lanes)

    def has_more(self, topic: int) -> bool:
        """See Dispatcher.has_more."""
        return any(topic in lane.windows or topic in lane.begins for lane in self._ready.lanes) or bool(self.exhausted)

    def ready_of(self, topic: int) -> int:
        """See Dispatcher.ready_of."""
        return sum(self._ready.waiting(kind, topic) for kind in LaneKind) if self._open else 0

    # -- pull

    def hand_over(
        self,
        topic: int,
        max_units: int,
        lease_ms: int,
        now_ms: int,
        *,
        trusted: bool,
        max_bytes: int,
        tags: TagFilter | None,
    ) -> HandOver:
        """See Dispatcher.hand_over."""
        strict = topic in self._strict.topics
        free = not self._strict.full if strict else self._book.allows(now_ms)
        allowed = trusted and self._open and topic not in self._paused and free
        taking = Taking(max_units if allowed else 0, max_bytes)
        for kind in LaneKind:
            most = self._most(kind, taking.units)
            if tags is None:
                count = self._take(kind, topic, most, now_ms, taking)
            else:
                count = self._take_matching(kind, topic, tags, most, now_ms, taking)
            self._went(kind, count)
        made = taking.hand_over(topic, now_ms + lease_ms, now_ms)
        return self._strict.pledge(made) if strict and len(made) else self._made(made)

    def _most(self, kind: LaneKind, units: int) -> int:
        return min(units, self._pace_left) if kind is LaneKind.OVERDUE else units

    def _went(self, kind: LaneKind, count: int) -> None:
        if kind is LaneKind.OVERDUE:
            self._pace_left -= count

    def _made(self, hand_over: HandOver) -> HandOver:
        if len(hand_over):
            self._book.add(hand_over)
        return hand_over

    def _take(self, kind: LaneKind, topic: int, most: int, now_ms: int, taking: Taking) -> int:
        """Take what has room of the first `most` of one lane's units that the records say are ready; how many."""
        count, bite = 0, most
        while count < most and not taking.full and len(self._ending) < EXHAUSTED_MAX:
            if now_ms < self._latest_ms:
                bite = self._ready.waiting(kind, topic)  # what is due again may stand behind what is not
            units = self._ready.take(kind, topic, bite)
            if not len(units):
                break
            took = self._give(kind, topic, units, most - count, now_ms, taking)
            count += took
            if not took and now_ms < self._latest_ms:
                break
            bite = min(4 * bite, LOOK_ROWS)  # a window may be full of cancelled units
        return count

    def _give(self, kind: LaneKind, topic: int, units: Queued, most: int, now_ms: int, taking: Taking) -> int:
        """Of `units`, taken from a window, take the first `most` that are to be handed over now, as far as their
        bytes have room; returns how many.

        Those held by a command in flight step aside; the other ready ones, and those not due by a clock that went back,
        return to the window; those that ended meanwhile are forgotten.
        """
        held = self._holds.mask(units.position)
        if held.any():
            self._holds.put_aside(kind, topic, units.select(held))
            units = units.select(~held)
        seen = look(self._store, self._strict, units.position, now_ms, self._latest_ms)
        chosen = np.flatnonzero(seen.ready)[:most]
        offered, took = self._offer(kind, topic, units, seen, chosen, self._store.units(units.position[chosen]), taking)
        stays = seen.stays
        if not stays.all():
            self._claims.free(units.position[~stays])
        stays[chosen] = False
        stays[offered[took:]] = True
        self._ready.put_back(kind, topic, units.select(stays))
        return took

    def _offer(
        self,
        kind: LaneKind,
        topic: int,
        units: Queued,
        seen: Look,
        chosen: Rows,
        rows: npt.NDArray[Any],
        taking: Taking,
    ) -> tuple[Rows, int]:
        """Take of the units `chosen`, ready and with their rows of the index beside them, as many as have room; those
        that are over their limit step aside first. Returns the others, and how many of these were taken."""
        made: U16 = np.maximum(seen.attempt[chosen], rows["attempt"])
        attempts = np.minimum(made, ATTEMPT_MAX - 1) + np.uint16(1)
        again, later = np.flatnonzero(made), chosen[:0]
        if self._attempts is not None and len(again):
            # Their policies stand in their records: those alone are read that have room in what is handed over.
            few = rows_within(rows, min(taking.bytes, EXACT_BYTES))
            chosen, later, attempts, rows = chosen[:few], chosen[few:], attempts[:few], rows[:few]
            again = again[again < few]
            over = self._attempts.over(topic, units.position[chosen[again]], attempts[again])
            if over.any():
                self._exhaust(kind, topic, units, seen, chosen[again[over]], made[again[over]])
                taking.pass_over(rows[again[over]], EXACT_BYTES)
                left = np.ones(len(chosen), np.bool_)
                left[again[over]] = False
                chosen, attempts, rows = chosen[left], attempts[left], rows[left]
        return np.concatenate([chosen, later]), taking.add(units.position[chosen], attempts, rows)

    def _exhaust(self, kind: LaneKind, topic: int, units: Queued, seen: Look, rows: Rows, made: U16) -> None:
        """These rows are over their limit: hold them until the command that ends them has a result."""
        spent = units.select(rows)
        self._holds.add(spent.position, spent.position)
        self._holds.put_aside(kind, topic, spent)
        self._ending.update(spent.position.tolist())
        self.exhausted.append(Exhausted(topic, spent.position, seen.term[rows], made))

    def blocked(self, now_ms: int) -> bool:
        """See Dispatcher.blocked."""
        full = self._strict.full or len(self._ending) >= EXHAUSTED_MAX
        return full or now_ms < self._latest_ms or not self._book.allows(now_ms)

    def take_exhausted(self) -> list[Exhausted]:
        """See Dispatcher.take_exhausted."""
        exhausted, self.exhausted = self.exhausted, []
        return exhausted

    # -- filtered pull

    def _take_matching(
        self, kind: LaneKind, topic: int, tags: TagFilter, most: int, now_ms: int, taking: Taking
    ) -> int:
        """As `_take`, of those units that the filter wants; the others stay where they are."""
        count, read, bite = 0, 0, most
        while count < most and read < EXACT_ROWS and not taking.full and len(self._ending) < EXHAUSTED_MAX:
            if now_ms < self._latest_ms:
                bite = self._ready.waiting(kind, topic)
            found = self._ready.find(kind, topic, tags, bite)
            took, upto = self._give_matching(kind, topic, tags, found, most - count, now_ms, taking)
            count, read = count + took, read + len(found.units)
            if upto < found.upto or not len(found.units):
                break
            bite = min(4 * bite, EXACT_ROWS)
        return count

    def _give_matching(
        self, kind: LaneKind, topic: int, tags: TagFilter, found: Found, most: int, now_ms: int, taking: Taking
    ) -> tuple[int, int]:
        """Of units found in a window, take the first `most` that are to be handed over now and that the filter wants by
        the tags of their records. Returns how many, and up to which number the filter is through."""
        units = found.units
        held = self._holds.mask(units.position)
        seen = look(self._store, self._strict, units.position, now_ms, self._latest_ms)
        ready = np.flatnonzero(seen.ready & ~held)[:EXACT_ROWS]
        rows = self._store.units(units.position[ready])
        few = rows_within(rows, EXACT_BYTES)
        ready, rows = ready[:few], rows[:few]
        records = self._store.records(units.position[ready], rows)
        wanted = np.fromiter((tags.matches(record.tags) for record in records), np.bool_, len(records))
        chosen = ready[wanted][:most]
        offered, took = self._offer(kind, topic, units, seen, chosen, rows[wanted][:most], taking)
        ended = ~seen.stays & ~held
        self._claims.free(units.position[ended])
        self._holds.put_aside(kind, topic, units.select(held))
        gone = held | ended
        gone[chosen] = True
        gone[offered[took:]] = False
        again = ~gone
        again[ready[~wanted]] = False
        upto = int(found.number[again.argmax()]) if again.any() else found.upto
        self._ready.leave(kind, topic, tags, upto, found.number[gone])
        return took, upto

    # -- push

    def stage(self, topic: int, most: int, now_ms: int) -> U64:
        """See Dispatcher.stage."""
        parts: list[Queued] = []
        for kind in LaneKind:
            room = self._most(kind, most) if self._open and topic not in self._paused else 0
            units = self._due(kind, topic, room, now_ms)
            most -= len(units)
            self._went(kind, len(units))
            self.staged.add(kind, topic, units)
            parts.append(units)
        return Queued.joined(parts).position

    def _due(self, kind: LaneKind, topic: int, most: int, now_ms: int) -> Queued:
        """The first `most` of a lane; only those due again, while the clock has gone back."""
        if now_ms >= self._latest_ms or not most:
            return self._ready.take(kind, topic, most)
        units = self._ready.take(kind, topic, self._ready.waiting(kind, topic))
        seen = look(self._store, self._strict, units.position, now_ms, self._latest_ms)
        rows = np.flatnonzero(seen.ready)[:most]
        stays = np.ones(len(units), np.bool_)
        stays[rows] = False
        self._ready.put_back(kind, topic, units.select(stays))
        return units.select(rows)

    def hand_over_staged(
        self, topic: int, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool
    ) -> StagedHandOver:
        """See Dispatcher.hand_over_staged."""
        taking = Taking(0 if topic in self._strict.topics else len(positions), BYTES_MAX)  # those are planned
        left = NOTHING.position
        if self._open and topic in self._paused:
            self.unstage(topic, positions)
        elif self._open and not (trusted and self._book.allows(now_ms)):
            left = positions
        else:
            self.look_again(topic, positions, now_ms, taking)
        return StagedHandOver(self._made(taking.hand_over(topic, now_ms + lease_ms, now_ms)), left)

    def hand_over_first(self, positions: U64, lease_ms: int, now_ms: int, *, trusted: bool) -> HandOver | None:
        """See Dispatcher.hand_over_first."""
        allowed = self._open and trusted and self._book.allows(now_ms)
        if not allowed or self._holds.mask(positions).any() or self.planning.early(positions):
            return None
        barred = self._paused, self._strict.topics
        if any(barred) and not all(map(self.staged.topics(positions).isdisjoint, barred)):
            return None
        seen = look(self._store, self._strict, positions, now_ms, self._latest_ms)
        rows = self._store.units(positions) if seen.ready.all() else None
        if rows is None or seen.attempt.any() or rows["attempt"].any():
            return None
        self.staged.forget(positions)
        taking = Taking(len(positions), BYTES_MAX)
        taking.add(positions, np.ones(len(positions), np.uint16), rows)
        return self._made(taking.hand_over(SEVERAL, now_ms + lease_ms, now_ms))

    def unstage(self, topic: int, positions: U64) -> None:
        """See Dispatcher.unstage."""
        for kind, units in self.staged.take(topic, positions) if self._open else ():
            self._ready.put_back(kind, topic, self.planning.due(units))

    def look_again(self, topic: int, positions: U64, now_ms: int, taking: Taking) -> None:
        """See Dispatcher.look_again; `taking` takes what it has room for."""
        for kind, units in self.staged.take(topic, positions) if self._open else ():
            self._give(kind, topic, self.planning.due(units), taking.units, now_ms, taking)

    # -- commands in flight

    def hold(self, positions: Iterable[int]) -> None:
        """See Dispatcher.hold."""
        names = np.fromiter(positions, np.uint64)
        places = self._store.locate(names)
        self._holds.add(names, places)
        self._strict.withdraw_places(places)

    def release(self, positions: Iterable[int]) -> None:
        """See Dispatcher.release."""
        names = list(positions)
        self._ending.difference_update(names)
        for kind, topic, units in self._holds.drop(names):
            self._ready.put_back(kind, topic, units)

    def moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages stand elsewhere now: what holds them goes with them. They come into the windows anew."""
        left = self._holds.move(home, old, position)
        if len(left) and self._open:
            self._claims.free(left)
