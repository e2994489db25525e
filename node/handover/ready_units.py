"""Ready units that go out now. Each unit is checked against the records at the moment it is handed over.

A pull without a filter takes units out of the windows, in order. A unit that may not go steps aside, returns, or is
forgotten. A pull with a filter finds its units in the windows, and moves only those that it takes. The tag masks in a
window show which units a filter may want, and the records show which it wants. A filter does not look twice at units
that stay.

Units that a rule holds (node/ready/rule.py) are parked. The rules are asked again now and then, about a piece at a
time. After `ask_again` they are asked about all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from node.handover.attempt_limit import Exhaustion
from node.handover.hand_over_builder import EXACT_BYTES, HandOverBuilder, rows_within
from node.handover.holds import UnitHolds
from node.handover.strict import Strict
from node.ready.claimed_units import ClaimedUnits
from node.ready.held_units import Piece
from node.ready.record_check import RecordCheck, ask_rules, check_records, held_by
from node.ready.rule import Mask, Rule
from node.ready.topic_window import Found, LaneKind, Queued
from node.ready.windows import Ready
from storage.format.array import I64, U64
from storage.format.rows import Units, select_rows, take_rows
from storage.format.tag_filter import TagFilter
from storage.store import Store
from storage.tables.topic import Subscription

EXACT_ROWS: Final = 2_000
"""About so many records are read by a filtered hand-over for their tags. The next hand-over goes on from there."""

LOOK_ROWS: Final = 16_384
"""At most so many units of a window are looked at together to find the few asked for."""

PARKED_ROWS: Final = 4_096
"""Parked units that are asked again together, in a few milliseconds. A hand-over ends once it has parked so many."""

PARKED_MS: Final = 100
"""How often a piece of the parked units is asked again, even if no rule is known to have changed."""


class ReadyUnits:
    """The ready units of one term. `open`: hand-overs may be made. `latest_ms`: all units due by then were
    dispatched."""

    def __init__(
        self,
        store: Store,
        strict: Strict,
        claims: ClaimedUnits,
        ready: Ready,
        holds: UnitHolds,
        exhaustion: Exhaustion,
        rules: Sequence[Rule] = (),
    ) -> None:
        self._store, self._strict, self._claims = store, strict, claims
        self._ready, self._holds, self._exhaustion = ready, holds, exhaustion
        self._rules, self._parked = rules, ready.parked
        self._ask_ms = 0  # when the next piece of parked units is asked again
        self._hurry = False  # ask about all units that are still to be asked, as soon as may be
        self.open = False
        self.latest_ms = 0

    def begin(self) -> None:
        """Open. The dispatcher begins."""
        self.open = True

    def dispatched(self, now_ms: int) -> None:
        """Note that all units due by `now_ms` were dispatched."""
        self.latest_ms = max(self.latest_ms, now_ms)

    def close(self) -> None:
        """Close. The term is over."""
        self.open = False

    def look(self, positions: U64, due_ms: I64, now_ms: int) -> RecordCheck:
        """Check units that were ready by `latest_ms` against the records."""
        return check_records(self._store, self._strict, positions, due_ms, now_ms, self.latest_ms)

    def check(self, positions: U64, due_ms: I64, now_ms: int, known: Units | None = None) -> RecordCheck:
        """The same check, and the rules as well. `known`: the rows of the index, if they were read before."""
        seen = check_records(self._store, self._strict, positions, due_ms, now_ms, self.latest_ms)
        return ask_rules(self._rules, self._store, seen, positions, known, now_ms) if self._rules else seen

    # -- parked

    def held(self, positions: U64, now_ms: int) -> Mask:
        """True, shape [n], for units that a rule holds, ready or not."""
        if not self._rules or not len(positions):
            return np.zeros(len(positions), np.bool_)
        return held_by(self._rules, positions, self._store.units(positions), now_ms)

    def ask_again(self) -> None:
        """Ask about all parked units in the next turns. A rule may have changed."""
        self._parked.ask_all()
        self._hurry = self._parked.asking

    def turn(self, now_ms: int) -> None:
        """Ask about a piece of the parked units when its time has come, or while `ask_again` is not done."""
        if not self._parked.count:
            self._hurry = False
            return
        due = not self._ask_ms - PARKED_MS <= now_ms < self._ask_ms
        if due:
            self._ask_ms = now_ms + PARKED_MS
            if not self._parked.asking:
                self._parked.ask_all()
        if self._parked.asking and (due or self._hurry):
            self._ask_piece(now_ms)
        self._hurry &= self._parked.asking

    def wake_ms(self) -> int | None:
        """When parked units are asked again, None if there are none."""
        if not self._parked.count:
            return None
        return 0 if self._hurry else self._ask_ms

    def _ask_piece(self, now_ms: int) -> None:
        """Ask about one piece. Units that no rule holds are first in line again, and units that ended are forgotten."""
        piece = self._parked.take(PARKED_ROWS)
        assert piece is not None, "nothing is to be asked"
        kind, subscription, units = piece
        seen = self.check(units.position, units.due_ms, now_ms)
        goes = seen.stays
        if seen.held is not None:
            goes = goes & ~seen.held
            self._parked.keep(Piece(kind, subscription, units.select(seen.held)))
        self._ready.ended(kind, subscription, units.select(~seen.stays))
        self._ready.put_back(kind, subscription, units.select(goes))

    def _park(self, kind: LaneKind, subscription: Subscription, units: Queued, now_ms: int) -> None:
        if not self._parked.count:
            self._ask_ms = now_ms + PARKED_MS
        self._parked.park(Piece(kind, subscription, units))

    # -- in order

    def take(self, kind: LaneKind, subscription: Subscription, most: int, now_ms: int, taking: HandOverBuilder) -> int:
        """Take the first `most` ready units of a lane, as far as there is room. The records say what is ready. Return
        how many."""
        count, bite, parked = 0, most, self._parked.count
        while count < most and not taking.full and not self._exhaustion.full:
            if self._parked.count - parked >= PARKED_ROWS:
                break
            if now_ms < self.latest_ms:
                bite = self._ready.waiting(kind, subscription)  # due ones may stand behind those that are not
            units = self._ready.take(kind, subscription, bite)
            if not len(units):
                break
            took = self.give(kind, subscription, units, most - count, now_ms, taking)
            count += took
            if not took and now_ms < self.latest_ms:
                break
            bite = min(4 * bite, LOOK_ROWS)  # a window may be full of cancelled units
        return count

    def give(
        self,
        kind: LaneKind,
        subscription: Subscription,
        units: Queued,
        most: int,
        now_ms: int,
        taking: HandOverBuilder,
        known: Units | None = None,
    ) -> int:
        """Take the first `most` of `units` that may be handed over now, as far as their bytes have room. Return how
        many. The units were taken from a window. `known`: their rows of the index, if they were read before.

        - Units held by a command in flight step aside, and units held by a rule are parked.
        - Other ready units return to the window, and so do units not due by a clock that went back.
        - Units that ended meanwhile are forgotten.
        """
        held = self._holds.mask(units.position)
        if held.any():
            self._holds.put_aside(kind, subscription, units.select(held))
            units, known = units.select(~held), select_rows(known, np.flatnonzero(~held))
        seen = self.check(units.position, units.due_ms, now_ms, known)
        chosen = seen.ready.nonzero()[0][:most]
        rows = self._store.units(units.position[chosen]) if known is None else take_rows(known, chosen)
        offered, took = self._exhaustion.offer(kind, subscription, units, seen, chosen, rows, taking)
        if took == len(units):
            return took
        stays = seen.stays
        if not stays.all():
            self._claims.free(units.position[~stays])
        stays[chosen] = False
        stays[offered[took:]] = True
        if seen.held is not None:
            stays &= ~seen.held
            self._park(kind, subscription, units.select(seen.held), now_ms)
        self._ready.put_back(kind, subscription, units.select(stays))
        return took

    # -- filtered

    def take_wanted(
        self,
        kind: LaneKind,
        subscription: Subscription,
        tags: TagFilter,
        most: int,
        now_ms: int,
        taking: HandOverBuilder,
    ) -> int:
        """Take the first `most` ready units of a lane that the filter wants, as far as there is room. The records say
        what is ready. Return how many."""
        count, read, bite = 0, 0, most
        while count < most and read < EXACT_ROWS and not taking.full and not self._exhaustion.full:
            if now_ms < self.latest_ms:
                bite = self._ready.waiting(kind, subscription)
            found = self._ready.find(kind, subscription, tags, bite)
            took, upto = self._give_wanted(kind, subscription, tags, found, most - count, now_ms, taking)
            count, read = count + took, read + len(found.units)
            if upto < found.upto or not len(found.units):
                break
            bite = min(4 * bite, EXACT_ROWS)
        return count

    def _give_wanted(
        self,
        kind: LaneKind,
        subscription: Subscription,
        tags: TagFilter,
        found: Found,
        most: int,
        now_ms: int,
        taking: HandOverBuilder,
    ) -> tuple[int, int]:
        """Take the first `most` found units that may be handed over now and whose records have tags that the filter
        wants. Return how many, and up to which number the filter is through."""
        units = found.units
        held = self._holds.mask(units.position)
        seen = self.check(units.position, units.due_ms, now_ms)
        ready = np.flatnonzero(seen.ready & ~held)[:EXACT_ROWS]
        rows = self._store.units(units.position[ready])
        few = rows_within(rows, EXACT_BYTES)
        ready, rows = ready[:few], rows[:few]
        records = self._store.records(units.position[ready], rows)
        wanted = np.fromiter((tags.matches(record.tags) for record in records), np.bool_, len(records))
        chosen = ready[wanted][:most]
        offered, took = self._exhaustion.offer(kind, subscription, units, seen, chosen, rows[wanted][:most], taking)
        ended = ~seen.stays & ~held
        self._claims.free(units.position[ended])
        self._holds.put_aside(kind, subscription, units.select(held))
        gone = held | ended
        if seen.held is not None:
            waits = seen.held & ~held
            self._park(kind, subscription, units.select(waits), now_ms)
            gone |= waits
        gone[chosen] = True
        gone[offered[took:]] = False
        again = ~gone
        again[ready[~wanted]] = False
        upto = int(found.number[again.argmax()]) if again.any() else found.upto
        self._ready.leave(kind, subscription, tags, upto, found.number[gone])
        return took, upto
