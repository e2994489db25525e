"""That this cluster was made from a backup, when, and what the backup holds: rows of the catalog, for good.

What the old cluster did with its messages nobody here knows: no account of its nodes is in a backup, and it may have
gone on since. So all that was in the backup is in doubt.

What was in it is told by places, never by times: the clock of the leader that wrote a message may have been ahead of
all that came later, and whoever leads here may be behind it. An hour's units go on behind those of the backup; an hour
that is unlinked and begun again numbers its units on from there.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.position import by_hour, hours_of, indexes_of
from storage.format.rows import FormatRefused
from storage.lmdb.table import Table

_KEY: Final = b"restored"
_HOUR: Final = b"restored hour "
"""Before an hour's number: a row for each hour that was in the backup."""
_NUMBER: Final = struct.Struct("<I")
_END: Final = struct.Struct("<Q")


class _Row(msgspec.Struct, frozen=True):
    restored_ms: int
    term: int = 0


@dataclass(frozen=True, slots=True)
class Restored:
    """At `restored_ms` the cluster was made, by the clock of whoever did it. `ends`: where the units of each hour end
    in the backup. `term`: the last of the old cluster that its log shows."""

    restored_ms: int
    ends: Mapping[int, int]
    term: int = 0

    def had(self, places: U64) -> npt.NDArray[np.bool_]:
        """Which of the units at these places the backup holds, [n]."""
        ends: I64 = np.zeros(len(places), np.int64)
        for hour, rows in by_hour(hours_of(places)):
            ends[rows] = self.ends.get(hour, 0)
        had: npt.NDArray[np.bool_] = indexes_of(places) < ends
        return had


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(_Row)


def read_restored(meta: Table) -> Restored | None:
    """None for a cluster that was not made from a backup. FormatRefused."""
    row = meta.get(_KEY)
    if row is None:
        return None
    ends: dict[int, int] = {}
    for key, end in meta.rows(_HOUR):
        if len(end) != _END.size:  # what no release wrote
            raise FormatRefused("catalog", "bytes of a restored hour", len(end), _END.size)
        ends[_NUMBER.unpack(key[len(_HOUR) :])[0]] = _END.unpack(end)[0]
    found = _DECODER.decode(row)
    return Restored(found.restored_ms, ends, found.term)


def write_restored(meta: Table, restored: Restored) -> None:
    """Set it; of a backup of a restored cluster anew. Rows of an earlier backup stay for the hours that this one lacks:
    whoever begins such an hour again numbers its units on from there."""
    meta.put(_KEY, _ENCODER.encode(_Row(restored.restored_ms, restored.term)))
    for hour, end in restored.ends.items():
        meta.put(_HOUR + _NUMBER.pack(hour), _END.pack(end))
