"""The rows of the catalog that say that this cluster was made from a backup, when, and which units it held.

The cluster does not know which hand-overs the old cluster made. A backup has no delivery logs of the old nodes, and the
old cluster may have gone on since. So all units of the backup are in doubt.

The units of the backup are named by positions, never by times. The clock of the leader that wrote a message may have
been ahead of all later clocks, and the leader here may be behind it. New units of an hour are numbered behind those of
the backup. An hour that is unlinked and begun again goes on with those numbers.
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
"""Prefix of the row of each hour in the backup. The hour's number follows."""
_NUMBER: Final = struct.Struct("<I")
_END: Final = struct.Struct("<Q")


class _Row(msgspec.Struct, frozen=True):
    restored_ms: int
    term: int = 0


@dataclass(frozen=True, slots=True)
class Restored:
    """The origin of a cluster made from a backup.

    - `restored_ms`: when the cluster was made, by the clock of the restoring process.
    - `ends`: for each hour of the backup, the global_index behind its last unit there.
    - `term`: the term of the last entry in the backup.
    """

    restored_ms: int
    ends: Mapping[int, int]
    term: int = 0

    def had(self, places: U64) -> npt.NDArray[np.bool_]:
        """Return a boolean array [n], True for each of these units that was in the backup."""
        ends: I64 = np.zeros(len(places), np.int64)
        for hour, rows in by_hour(hours_of(places)):
            ends[rows] = self.ends.get(hour, 0)
        had: npt.NDArray[np.bool_] = indexes_of(places) < ends
        return had


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(_Row)


def read_restored(meta: Table) -> Restored | None:
    """Read the origin. None for a cluster that was not made from a backup. Raises FormatRefused."""
    row = meta.get(_KEY)
    if row is None:
        return None
    ends: dict[int, int] = {}
    for key, end in meta.rows(_HOUR):
        if len(end) != _END.size:  # no release wrote this
            raise FormatRefused("catalog", "bytes of a restored hour", len(end), _END.size)
        ends[_NUMBER.unpack(key[len(_HOUR) :])[0]] = _END.unpack(end)[0]
    found = _DECODER.decode(row)
    return Restored(found.restored_ms, ends, found.term)


def write_restored(meta: Table, restored: Restored) -> None:
    """Set the origin of this cluster. If the backup is of a cluster that was itself restored, its origin is replaced.

    Rows of an earlier backup stay for hours that the new backup lacks. The units of such an hour, begun again, are
    numbered on from there.
    """
    meta.put(_KEY, _ENCODER.encode(_Row(restored.restored_ms, restored.term)))
    for hour, end in restored.ends.items():
        meta.put(_HOUR + _NUMBER.pack(hour), _END.pack(end))
