"""Takes the records of moved messages out of the bucket where these messages stand or stood.

Such a message is judged in the bucket of its home, so the caller brings the records to that bucket.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ledger.bucket import ABROAD, PLACE, Bucket, Rows
from storage.format.position import INDEX_BITS
from storage.format.rows import UNIT_MOVED, take_rows


class MovedRecords(NamedTuple):
    """Rows to be brought to the bucket in which `home` lies."""

    places: Rows  # PLACE
    settles: Rows  # `ABROAD`


def abroad_of(bucket: Bucket, moved_headers: Rows | None = None, first_settle: int = 0) -> MovedRecords:
    """Return a PLACE row for each unit of the bucket that a move appended, and the settle records of these units
    (`ABROAD` rows).

    The function needs the record headers of those m units, which name their homes. They are in the bucket, or in
    `moved_headers` [m], in the order of the units. `first_settle` is the ordinal of the bucket's first settle record in
    its file. Any other number will do that rises from bucket to bucket of an hour. A home may lie in the same bucket as
    the place.
    """
    moved = np.flatnonzero(bucket.units["flags"] & np.uint32(UNIT_MOVED))
    if not len(moved):
        return MovedRecords(np.zeros(0, PLACE), np.zeros(0, ABROAD))
    if moved_headers is None:
        assert bucket.headers is not None, "moved units without record headers: their homes are not known"
        moved_headers = take_rows(bucket.headers, moved)
    assert len(moved_headers) == len(moved), f"{len(moved_headers)} headers of {len(moved)} moved units"
    origin = np.uint64(bucket.hour << INDEX_BITS | bucket.first)
    places = np.zeros(len(moved), PLACE)
    places["home"] = moved_headers["id_hour"].astype(np.uint64) << np.uint64(INDEX_BITS)
    places["home"] |= moved_headers["id_global_index"]
    places["place"] = origin + moved.astype(np.uint64)
    places["due_ms"] = bucket.units["due_ms"][moved]
    places["asked_due_ms"] = moved_headers["asked_due_ms"]
    places["attempt"] = bucket.units["attempt"][moved]
    row_of = np.full(len(bucket.units), -1, np.int64)
    row_of[moved] = np.arange(len(moved))
    at = bucket.settles["global_index"].astype(np.int64) - bucket.first
    within = (at >= 0) & (at < len(row_of))
    row = np.where(within, row_of[np.where(within, at, 0)], -1)
    named = np.flatnonzero(row >= 0)
    settles = np.zeros(len(named), ABROAD)
    settles["home"], settles["place"] = places["home"][row[named]], places["place"][row[named]]
    for name in ("at_ms", "when", "term", "attempt", "node", "code", "what"):
        settles[name] = bucket.settles[name][named]
    settles["order"] = first_settle + named
    return MovedRecords(places, settles)
