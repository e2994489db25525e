"""That this cluster was made from a backup, of what moment, and what was in it: rows of the catalog, for good.

What the old cluster did with its messages after the backup nobody here knows: each may have been handed over, moved or
ended there. So all that was in the backup is in doubt, until it ends.

What was in it is told by places, never by times: the clock of the leader that wrote a message may have been ahead of
all that came later, and whoever leads here may be behind it. An hour's units and settle records go on behind those of
the backup; an hour that is unlinked and begun again numbers its units on from there.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from storage.array import I64, U64
from storage.position import by_hour, hours_of, indexes_of
from storage.table import Table

Mask = npt.NDArray[np.bool_]

_KEY: Final = b"restored"
_HOUR: Final = b"restored hour "
"""Before an hour's number: a row for each hour that was in the backup."""
_NUMBER: Final = struct.Struct("<I")
_EXTENT: Final = struct.Struct("<QQ")


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """`created_ms` is the time of the log where the backup was made. At `restored_ms` the cluster was made, by the
    clock of whoever did it. Each may be wrong: they are for people."""

    created_ms: int
    restored_ms: int


class Extent(NamedTuple):
    """Of an hour in the backup: where its units ended, and how many settle records it had."""

    end: int
    settles: int


NOT_THERE: Final = Extent(0, 0)


class InBackup:
    """What the backup had. It is never changed, and read by any thread."""

    def __init__(self, hours: Mapping[int, Extent]) -> None:
        self._hours = dict(hours)

    def units(self, places: U64) -> Mask:
        """Which of these units it had, [n]."""
        found = np.zeros(len(places), np.bool_)
        indexes = indexes_of(places)
        for hour, rows in by_hour(hours_of(places)):
            found[rows] = indexes[rows] < self._hours.get(hour, NOT_THERE).end
        return found

    def settles(self, places: U64, ordinals: I64) -> Mask:
        """Which settle records, of units at these places, it had, [n]."""
        found = self.units(places)
        for hour, rows in by_hour(hours_of(places)):
            found[rows] &= ordinals[rows] < self._hours.get(hour, NOT_THERE).settles
        return found


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(Restored)


def read_restored(meta: Table) -> Restored | None:
    """None for a cluster that was not made from a backup."""
    row = meta.get(_KEY)
    return None if row is None else _DECODER.decode(row)


def read_in_backup(meta: Table) -> InBackup:
    """Nothing for a cluster that was not made from a backup."""
    rows = meta.rows(_HOUR)
    return InBackup({_NUMBER.unpack(key[len(_HOUR) :])[0]: Extent(*_EXTENT.unpack(row)) for key, row in rows})


def write_restored(meta: Table, restored: Restored, hours: Mapping[int, Extent]) -> None:
    """Set it; of a backup of a restored cluster anew. Hours of an earlier backup that are in this one no more hold
    nothing of either."""
    meta.put(_KEY, _ENCODER.encode(restored))
    for hour, extent in hours.items():
        meta.put(_HOUR + _NUMBER.pack(hour), _EXTENT.pack(*extent))
