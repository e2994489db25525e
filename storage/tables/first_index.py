"""The ends of unlinked hours' units, so that an hour begun again gives no position twice.

Each such hour has a row of `meta` for good, because it is begun again when a message is scheduled for it.
"""

import struct
from typing import Final

from storage.lmdb.table import Table

_KEY: Final = b"first index "
"""Prefix of an hour's number, 4 bytes, little endian. The row: 8 bytes, little endian."""
_HOUR: Final = struct.Struct("<I")


class FirstIndexes:
    """For each number of an hour that was ever unlinked, the global_index behind its last unit. All are in memory and
    in rows of `meta`."""

    def __init__(self, meta: Table) -> None:
        self._meta = meta
        self._first_indexes: dict[int, int] = {}

    def load(self) -> None:
        """Read all rows. Raises Corrupt if a row's checksum does not match."""
        self._first_indexes = {
            _HOUR.unpack(key[len(_KEY) :])[0]: int.from_bytes(row, "little") for key, row in self._meta.rows(_KEY)
        }

    def of(self, hour: int) -> int:
        """The first global_index of an hour's units. It is 0, or the end of the unlinked hour of the same number."""
        return self._first_indexes.get(hour, 0)

    def set(self, hour: int, index: int) -> None:
        """Record that the hour is unlinked and that its units had global indexes below `index`."""
        assert index >= self.of(hour), f"hour {hour} ends at {index}"
        self._meta.put(_KEY + _HOUR.pack(hour), index.to_bytes(8, "little"))
        self._first_indexes[hour] = index

    def last(self, first: int, end: int) -> int | None:
        """The newest hour with first <= hour < end that was ever unlinked."""
        return max((hour for hour in self._first_indexes if first <= hour < end), default=None)
