"""Of hours that were unlinked: where their units ended, so that an hour begun again gives no position twice.

A row of `meta` for each of them, for good: an hour is begun again whenever a message is scheduled for it.
"""

import struct
from typing import Final

from storage.lmdb.table import Table

_KEY: Final = b"first index "
"""Before an hour's number, 4 bytes, little endian. The row: 8 bytes, little endian."""
_HOUR: Final = struct.Struct("<I")


class FirstIndexes:
    """All of them, in memory and over their table."""

    def __init__(self, meta: Table) -> None:
        self._meta = meta
        self._first_indexes: dict[int, int] = {}

    def load(self) -> None:
        """Read all rows. Raises Corrupt if a row's checksum does not match."""
        self._first_indexes = {
            _HOUR.unpack(key[len(_KEY) :])[0]: int.from_bytes(row, "little") for key, row in self._meta.rows(_KEY)
        }

    def of(self, hour: int) -> int:
        """The first global_index of an hour's units: 0, or where the hour of that number ended that was unlinked."""
        return self._first_indexes.get(hour, 0)

    def set(self, hour: int, index: int) -> None:
        """The hour is unlinked, and its units had global indexes below this."""
        assert index >= self.of(hour), f"hour {hour} ends at {index}"
        self._meta.put(_KEY + _HOUR.pack(hour), index.to_bytes(8, "little"))
        self._first_indexes[hour] = index

    def last(self, first: int, end: int) -> int | None:
        """The newest of the hours first <= hour < end that were ever unlinked."""
        return max((hour for hour in self._first_indexes if first <= hour < end), default=None)
