"""That this cluster was made from a backup, of what moment, and what was in it: rows of the catalog, for good.

What the old cluster did with its messages after the backup nobody here knows: each may have been handed over, moved or
ended there. So all that was in the backup is in doubt, until it ends.

What was in it is told by places, never by times: the clock of the leader that wrote a message may have been ahead of
all that came later, and whoever leads here may be behind it. An hour's units and settle records go on behind those of
the backup; an hour that is unlinked and begun again numbers its units on from there.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
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


class Extent(NamedTuple):
    """Of an hour in the backup: where its units ended, and how many settle records it had."""

    end: int
    settles: int


NOT_THERE: Final = Extent(0, 0)


class _Row(msgspec.Struct, frozen=True):
    created_ms: int
    restored_ms: int


@dataclass(frozen=True, slots=True)
class Restored:
    """`created_ms` is the time of the log where the backup was made. At `restored_ms` the cluster was made, by the
    clock of whoever did it. Each may be wrong: they are for people. `hours` are those in the backup."""

    created_ms: int
    restored_ms: int
    hours: Mapping[int, Extent]

    def had_units(self, places: U64) -> Mask:
        """Which of the units at these places the backup holds, [n]."""
        ends, _ = self._extents(places)
        had: Mask = indexes_of(places) < ends
        return had

    def had_settles(self, places: U64, ordinals: I64) -> Mask:
        """Which settle records of units at these places the backup holds, [n]; each stands there in its hour's file."""
        ends, settles = self._extents(places)
        had: Mask = (indexes_of(places) < ends) & (ordinals < settles)
        return had

    def _extents(self, places: U64) -> tuple[I64, I64]:
        ends, settles = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        for hour, rows in by_hour(hours_of(places)):
            ends[rows], settles[rows] = self.hours.get(hour, NOT_THERE)
        return ends, settles


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(_Row)


def read_restored(meta: Table) -> Restored | None:
    """None for a cluster that was not made from a backup."""
    row = meta.get(_KEY)
    if row is None:
        return None
    told = _DECODER.decode(row)
    hours = {_NUMBER.unpack(key[len(_HOUR) :])[0]: Extent(*_EXTENT.unpack(row)) for key, row in meta.rows(_HOUR)}
    return Restored(told.created_ms, told.restored_ms, hours)


def write_restored(meta: Table, restored: Restored) -> None:
    """Set it; of a backup of a restored cluster anew. Rows of an earlier backup stay for the hours that this one lacks:
    whoever begins such an hour again numbers its units on from there."""
    meta.put(_KEY, _ENCODER.encode(_Row(restored.created_ms, restored.restored_ms)))
    for hour, extent in restored.hours.items():
        meta.put(_HOUR + _NUMBER.pack(hour), _EXTENT.pack(*extent))
