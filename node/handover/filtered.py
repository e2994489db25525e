"""A pull that wants some tags: it finds its units in the windows and moves those only that it takes.

Marks in the windows tell which units a filter may want; the records tell which it wants. What was looked at and stays
is not looked at again for the same filter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from node.handover.attempt_limit import Exhaustion
from node.handover.hand_over_builder import EXACT_BYTES, HandOverBuilder, rows_within
from node.handover.holds import UnitHolds
from node.handover.strict import Strict
from node.ready.claimed_units import ClaimedUnits
from node.ready.record_check import check_records
from node.ready.topic_window import Found, LaneKind
from node.ready.windows import Ready
from storage.format.tag_mask import TagFilter
from storage.store import Store

EXACT_ROWS: Final = 2_000
"""Records whose tags a filtered hand-over reads, about; the next one goes on from there."""


class Filtered:
    """One term's filtered hand-overs."""

    def __init__(
        self, store: Store, strict: Strict, claims: ClaimedUnits, ready: Ready, holds: UnitHolds, exhaustion: Exhaustion
    ) -> None:
        self._store, self._strict, self._claims = store, strict, claims
        self._ready, self._holds, self._exhaustion = ready, holds, exhaustion

    def take(
        self,
        kind: LaneKind,
        topic: int,
        tags: TagFilter,
        most: int,
        now_ms: int,
        latest_ms: int,
        taking: HandOverBuilder,
    ) -> int:
        """Take what has room of the first `most` of one lane's units that the records say are ready and that the filter
        wants; how many. `latest_ms`: all that is due by then was dispatched."""
        count, read, bite = 0, 0, most
        while count < most and read < EXACT_ROWS and not taking.full and not self._exhaustion.full:
            if now_ms < latest_ms:
                bite = self._ready.waiting(kind, topic)
            found = self._ready.find(kind, topic, tags, bite)
            took, upto = self._give(kind, topic, tags, found, most - count, now_ms, latest_ms, taking)
            count, read = count + took, read + len(found.units)
            if upto < found.upto or not len(found.units):
                break
            bite = min(4 * bite, EXACT_ROWS)
        return count

    def _give(
        self,
        kind: LaneKind,
        topic: int,
        tags: TagFilter,
        found: Found,
        most: int,
        now_ms: int,
        latest_ms: int,
        taking: HandOverBuilder,
    ) -> tuple[int, int]:
        """Of units found in a window, take the first `most` that are to be handed over now and that the filter wants by
        the tags of their records. Returns how many, and up to which number the filter is through."""
        units = found.units
        held = self._holds.mask(units.position)
        seen = check_records(self._store, self._strict, units.position, now_ms, latest_ms)
        ready = np.flatnonzero(seen.ready & ~held)[:EXACT_ROWS]
        rows = self._store.units(units.position[ready])
        few = rows_within(rows, EXACT_BYTES)
        ready, rows = ready[:few], rows[:few]
        records = self._store.records(units.position[ready], rows)
        wanted = np.fromiter((tags.matches(record.tags) for record in records), np.bool_, len(records))
        chosen = ready[wanted][:most]
        offered, took = self._exhaustion.offer(kind, topic, units, seen, chosen, rows[wanted][:most], taking)
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
