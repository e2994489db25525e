"""Reads the records of some messages of one hour from the leader's own store, in the form that the ledger's rules take.

The rules take a bucket: a run of consecutive units of one hour. The messages of a window are spread over their hour, so
they are numbered anew. Row i of the bucket is the i-th of them, in an hour that no message can be of. In the result
they are numbered back. The rules depend only on the order of the numbers.

A message that was moved stood in other hours too. The records at its home name all these positions, one FORWARDED
record each. They are read afterwards. A position is left out if its hour is gone, or if it belongs to another message
by now.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ledger.bucket import ABROAD, PLACE, Bucket, Rows
from ledger.columns import Columns
from storage.format.array import I64, U64
from storage.format.position import HOUR_MAX, INDEX_BITS, INDEX_MAX, by_hour, hours_of, indexes_of
from storage.format.rows import Corrupt, take_rows
from storage.format.states import FORWARDED
from storage.hour.hour import Hour
from storage.query.message_records import MessageRecords, MessageRecordsRead
from storage.record.record_rows import home_of

if TYPE_CHECKING:
    from storage.store import Store

#: The hour in which the messages of a bucket are numbered: the year 3883, past every due time there can be.
NUMBERED_HOUR: Final = HOUR_MAX

_ORIGIN: Final = np.uint64(NUMBERED_HOUR << INDEX_BITS)


class HourGone(Exception):
    """The hour was unlinked while it was read: its messages are past their retention."""


@dataclass(frozen=True, slots=True)
class HourMessages:
    """Messages of one hour and their records.

    - `homes`: the messages' homes, [n], ascending.
    - `trail`: the records of the units at these homes.
    - `places` and `abroad`: rows of the dtypes `PLACE` and `ABROAD` of ledger.bucket. They are the other positions of
      these messages, and the settle records there. They name messages by their homes.
    """

    group: int
    homes: U64
    trail: MessageRecords
    places: Rows
    abroad: Rows

    def bucket(self, deliveries: Rows, restored: npt.NDArray[np.bool_] | None = None) -> Bucket:
        """Return a bucket of these messages and of the hand-overs `deliveries`, for the rules. The messages are
        numbered anew (see the module). `restored`: see Bucket."""
        units, settles = self.trail.units.copy(), self.trail.settles.copy()
        indexes = indexes_of(self.homes)
        units["global_index"] = np.arange(len(units))
        settles["global_index"] = indexes.searchsorted(settles["global_index"].astype(np.int64))
        return Bucket(
            group=self.group,
            hour=NUMBERED_HOUR,
            first=0,
            units=units,
            settles=settles,
            headers=self.trail.headers,
            deliveries=self._numbered(deliveries),
            places=self._numbered(self.places),
            abroad=self._numbered(self.abroad),
            restored=restored,
        )

    def named(self, columns: Columns) -> Columns:
        """Return these rows of the ledger with the messages' own homes in place of the positions in the bucket."""
        named = dict(columns)
        for name in ("home", "other"):
            if name in named:
                named[name] = self.homes[(named[name] & np.uint64(INDEX_MAX)).astype(np.int64)]
        return named

    def _numbered(self, rows: Rows) -> Rows:
        rows = rows.copy()
        rows["home"] = _ORIGIN + self.homes.searchsorted(np.ascontiguousarray(rows["home"])).astype(np.uint64)
        return rows


async def read_hour_messages(store: Store, hour: Hour, at: I64) -> HourMessages:
    """Read the messages born in this hour with these global indexes, ascending, each once.

    Raises HourGone, and Corrupt or DiskFailed, which are final.
    """
    trail = await _read(store, hour, at)
    homes = at.astype(np.uint64) | np.uint64(hour.number << INDEX_BITS)
    forwards = take_rows(trail.settles, np.flatnonzero(trail.settles["what"] == FORWARDED))
    standing = np.unique(np.ascontiguousarray(forwards["when"]).view(np.uint64))
    places, abroad = [np.zeros(0, PLACE)], [np.zeros(0, ABROAD)]
    indexes = indexes_of(standing)
    for number, rows in by_hour(hours_of(standing)):
        its_places, its_abroad = await _read_places(store, number, indexes[rows], homes)
        places.append(its_places)
        abroad.append(its_abroad)
    return HourMessages(store.group, homes, trail, np.concatenate(places), np.concatenate(abroad))


async def _read(store: Store, hour: Hour, at: I64) -> MessageRecords:
    """Read the records of these units as they are now. If that takes long, it runs in a thread."""
    trail = MessageRecordsRead(hour, at)
    try:
        return trail.run() if trail.quick else await asyncio.to_thread(trail.run)
    except Corrupt:
        if not store.is_linked(hour):
            raise HourGone from None
        raise


async def _read_places(store: Store, number: int, at: I64, homes: U64) -> tuple[Rows, Rows]:
    """Return the `PLACE` and `ABROAD` rows of those units of an hour that belong to one of the messages at `homes`.
    `at`: the global indexes to look at."""
    hour = store.hour(number)
    nothing = np.zeros(0, PLACE), np.zeros(0, ABROAD)
    if hour is None:
        return nothing
    at = at[(at >= hour.first) & (at < hour.next)]
    try:
        trail = await _read(store, hour, at)
    except HourGone:
        return nothing
    base = np.uint64(number << INDEX_BITS)
    home = home_of(trail.headers)
    belongs = np.isin(home, homes)
    row_of = at.searchsorted(trail.settles["global_index"].astype(np.int64))
    kept = np.flatnonzero(belongs[row_of]) if len(at) else np.zeros(0, np.intp)
    its = np.flatnonzero(belongs)
    places = np.zeros(len(its), PLACE)
    places["home"], places["place"] = home[its], base | at[its].astype(np.uint64)
    places["due_ms"], places["attempt"] = trail.units["due_ms"][its], trail.units["attempt"][its]
    places["asked_due_ms"] = trail.headers["asked_due_ms"][its]
    abroad = np.zeros(len(kept), ABROAD)
    abroad["home"], abroad["place"] = home[row_of[kept]], base | at[row_of[kept]].astype(np.uint64)
    for name in ("at_ms", "when", "term", "attempt", "node", "code", "what"):
        abroad[name] = trail.settles[name][kept]
    abroad["order"] = trail.ordinals[kept]
    return places, abroad
