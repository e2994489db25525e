"""Takes ready units for hand-overs. Each is checked against the settle records at the moment of its hand-over.

A pull without a filter takes units out of the windows, in order. A unit that may not go stands aside, is parked,
returns to its window, or is forgotten. A pull with a filter leaves units in the window and removes only those that it
takes. The tag masks in a window show which units the filter may want. The tags in a unit's record decide. A filter does
not look a second time at units that it left.

Units that a rule holds (node/ready/rule.py) are parked. Every 100 ms the rules are asked about some of them again.
After `ask_again` the rules are asked about all of them, some at each step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from node.handover.attempt_limit import Exhaustion
from node.handover.hand_over_builder import EXACT_BYTES, HandOverBuilder, rows_within
from node.handover.holds import UnitHolds
from node.handover.strict import Strict
from node.ready.claimed_units import ClaimedUnits
from node.ready.held_units import Piece
from node.ready.record_check import RecordCheck, ask_rules, check_records, held_by, leaving
from node.ready.rule import Rule
from node.ready.topic_window import Found, LaneKind, Queued
from node.ready.windows import Ready
from storage.format.array import I64, U64, Mask
from storage.format.predicate import TagFilter
from storage.format.rows import Units, select_rows, take_rows
from storage.store import Store
from storage.tables.topic import Subscription

EXACT_ROWS: Final = 2_000
"""A filtered hand-over reads the tags of about so many records. The next hand-over goes on behind them."""

LOOK_ROWS: Final = 16_384
"""At most so many units are taken out of a window at once, when many must be looked at to find a few that may go."""

PARKED_ROWS: Final = 4_096
"""The rules are asked about at most so many parked units at once, which takes a few milliseconds. A hand-over also ends
once it has parked so many."""

PARKED_MS: Final = 100
"""How often a piece of the parked units is asked again, even if no rule is known to have changed."""


class ReadyUnits:
    """Checks and takes the ready units of one term. `open` is True while hand-overs may be made. All units due by
    `latest_ms` were dispatched, and it never goes back."""

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
        self._held_count = 0  # units that were parked or left out so far
        self._hurry = False  # after `ask_again`, until the rules were asked about all parked units
        self.open = False
        self.latest_ms = 0

    def begin(self) -> None:
        """Allow hand-overs. The dispatcher calls this when it begins."""
        self.open = True

    def dispatched(self, now_ms: int) -> None:
        """Note that all units due by `now_ms` were dispatched."""
        self.latest_ms = max(self.latest_ms, now_ms)

    def close(self) -> None:
        """Close. The term is over."""
        self.open = False

    def look(self, positions: U64, due_ms: I64, now_ms: int) -> RecordCheck:
        """Check units, shape [n], against the settle records, and do not ask the rules. All of the units were ready at
        `latest_ms`."""
        return check_records(self._store, self._strict, positions, due_ms, now_ms, self.latest_ms)

    def check(self, positions: U64, due_ms: I64, now_ms: int, known: Units | None = None) -> RecordCheck:
        """Check units as `look` does, and then ask the rules about the ready ones. `known` are the units' rows of the
        index, if the caller has read them."""
        seen = check_records(self._store, self._strict, positions, due_ms, now_ms, self.latest_ms)
        rules = self._asked(positions)
        return ask_rules(rules, self._store, seen, positions, known, now_ms) if rules else seen

    # -- parked

    def held(self, positions: U64, now_ms: int) -> Mask:
        """True, shape [n], for units that a rule holds, ready or not."""
        rules = self._asked(positions)
        if not rules or not len(positions):
            return np.zeros(len(positions), np.bool_)
        return held_by(rules, positions, self._store.units(positions), now_ms)

    def _asked(self, positions: U64) -> list[Rule]:
        """The rules that may hold some of these units."""
        return [rule for rule in self._rules if rule.may_hold(positions)]

    def ask_again(self, topics: Collection[int] | None) -> None:
        """See HandingOver."""
        self._parked.ask_all()
        self._hurry = self._parked.asking
        self._ready.ask_left_out(topics)

    def turn(self, now_ms: int) -> None:
        """Ask the rules about some parked units if PARKED_MS have passed, or while the work of `ask_again` is not
        done."""
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
        """When `turn` will ask the rules about parked units next, 0 for at once. None if no unit is parked."""
        if not self._parked.count:
            return None
        return 0 if self._hurry else self._ask_ms

    def _ask_piece(self, now_ms: int) -> None:
        """Ask the rules about the next parked units. Units that no rule holds go to the front of their window. Units
        that ended are forgotten, and the others are parked again."""
        piece = self._parked.take(PARKED_ROWS)
        assert piece is not None, "nothing is to be asked"
        kind, subscription, units = piece
        seen = self.check(units.position, units.due_ms, now_ms)
        goes = seen.stays
        if seen.held is not None:
            goes = goes & ~seen.held
            held = self._without_left_out(kind, subscription, units.select(seen.held), now_ms)
            if len(held):
                self._parked.keep(Piece(kind, subscription, held))
        self._ready.ended(kind, subscription, units.select(~seen.stays))
        self._ready.put_back(kind, subscription, units.select(goes))

    def _park(self, kind: LaneKind, subscription: Subscription, units: Queued, now_ms: int) -> None:
        self._held_count += len(units)
        units = self._without_left_out(kind, subscription, units, now_ms)
        if not len(units):
            return
        if not self._parked.count:
            self._ask_ms = now_ms + PARKED_MS
        self._parked.park(Piece(kind, subscription, units))

    def _without_left_out(self, kind: LaneKind, subscription: Subscription, units: Queued, now_ms: int) -> Queued:
        """Forget those of these held units that a rule leaves out. Return the others."""
        rules = leaving(self._rules, units.position)
        if not rules or not len(units):
            return units
        out = held_by(rules, units.position, self._store.units(units.position), now_ms)
        if not out.any():
            return units
        self._ready.leave_out(kind, subscription, units.select(out))
        return units.select(~out)

    # -- in order

    def take(self, kind: LaneKind, subscription: Subscription, most: int, now_ms: int, taking: HandOverBuilder) -> int:
        """Put units of a lane that may be handed over now into the hand-over `taking`: the first `most`, or fewer if it
        is full. Return how many units it took."""
        count, bite, held = 0, most, self._held_count
        while count < most and not taking.full and not self._exhaustion.full:
            if self._held_count - held >= PARKED_ROWS:
                break
            if now_ms < self.latest_ms:
                bite = self._ready.waiting(kind, subscription)  # due units may stand behind units that are not due
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
        """Put the first `most` of `units` that may be handed over now into the hand-over, as far as its bytes have
        room. The units were taken out of a window. `known` are their rows of the index, if the caller has read them.
        Return how many went in.

        - Units held by a command in flight stand aside, and units held by a rule are parked.
        - The other units that did not go in return to the window. So do units that are not due by a clock that went
          back.
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
        """Put units of a lane that the filter wants and that may be handed over now into the hand-over `taking`. It
        takes the first `most`, or fewer if it is full. Return how many units it took."""
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
        """Put the first `most` of the found units that may be handed over and whose tags the filter wants into the
        hand-over. Return how many units it took, and the number in the window below which the filter need not look
        again."""
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
