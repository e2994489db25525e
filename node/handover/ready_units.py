"""What of the windows goes out now: units are checked against the records at the moment they are handed over.

A pull that wants anything takes units out of the windows, in order; what may not go then steps aside, returns, or is
forgotten. A pull that wants some tags finds its units in the windows and moves those only that it takes: marks there
tell which units a filter may want, the records tell which it wants. What was looked at and stays is not looked at again
for the same filter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from node.handover.attempt_limit import Exhaustion
from node.handover.hand_over_builder import EXACT_BYTES, HandOverBuilder, rows_within
from node.handover.holds import UnitHolds
from node.handover.strict import Strict
from node.ready.claimed_units import ClaimedUnits
from node.ready.record_check import RecordCheck, check_records
from node.ready.topic_window import Found, LaneKind, Queued
from node.ready.windows import Ready
from storage.format.array import I64, U64
from storage.format.rows import Units, select_rows, take_rows
from storage.format.tag_filter import TagFilter
from storage.store import Store
from storage.tables.topic import Subscription

EXACT_ROWS: Final = 2_000
"""Records whose tags a filtered hand-over reads, about; the next one goes on from there."""

LOOK_ROWS: Final = 16_384
"""At most so many units of a window are looked at together to find the few asked for."""


class ReadyUnits:
    """Of one term. `open`: hand-overs may be made. `latest_ms`: all that is due by then was dispatched."""

    def __init__(
        self, store: Store, strict: Strict, claims: ClaimedUnits, ready: Ready, holds: UnitHolds, exhaustion: Exhaustion
    ) -> None:
        self._store, self._strict, self._claims = store, strict, claims
        self._ready, self._holds, self._exhaustion = ready, holds, exhaustion
        self.open = False
        self.latest_ms = 0

    def begin(self) -> None:
        """The dispatcher begins."""
        self.open = True

    def dispatched(self, now_ms: int) -> None:
        """All that is due by then was dispatched."""
        self.latest_ms = max(self.latest_ms, now_ms)

    def close(self) -> None:
        """The term is over."""
        self.open = False

    def check(self, positions: U64, due_ms: I64, now_ms: int) -> RecordCheck:
        """What the records say of units that were ready by the latest time."""
        return check_records(self._store, self._strict, positions, due_ms, now_ms, self.latest_ms)

    # -- in order

    def take(self, kind: LaneKind, subscription: Subscription, most: int, now_ms: int, taking: HandOverBuilder) -> int:
        """Take what has room of the first `most` of one lane's units that the records say are ready; how many."""
        count, bite = 0, most
        while count < most and not taking.full and not self._exhaustion.full:
            if now_ms < self.latest_ms:
                bite = self._ready.waiting(kind, subscription)  # what is due again may stand behind what is not
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
        """Of `units`, taken from a window, take the first `most` that are to be handed over now, as far as their
        bytes have room; returns how many. `known`: their rows of the index, if they were read before.

        Those held by a command in flight step aside; the other ready ones, and those not due by a clock that went back,
        return to the window; those that ended meanwhile are forgotten.
        """
        held = self._holds.mask(units.position)
        if held.any():
            self._holds.put_aside(kind, subscription, units.select(held))
            units, known = units.select(~held), select_rows(known, np.flatnonzero(~held))
        seen = self.check(units.position, units.due_ms, now_ms)
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
        """Take what has room of the first `most` of one lane's units that the records say are ready and that the filter
        wants; how many."""
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
        """Of units found in a window, take the first `most` that are to be handed over now and that the filter wants by
        the tags of their records. Returns how many, and up to which number the filter is through."""
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
        gone[chosen] = True
        gone[offered[took:]] = False
        again = ~gone
        again[ready[~wanted]] = False
        upto = int(found.number[again.argmax()]) if again.any() else found.upto
        self._ready.leave(kind, subscription, tags, upto, found.number[gone])
        return took, upto
