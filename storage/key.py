"""Keys: what makes a retried request safe. (topic, key) -> the message it became, and a fingerprint of the request.

A key lasts as long as the record of its message, so it goes with the message's hour. A second table lists the keys of
each hour: without it, an unlink would have to read the whole log of the hour, or the whole table, to find them. What a
keyed message costs above one without are these few dict and LMDB look-ups, which no vectorising can avoid.

Row, little endian, 40 bytes; its key is the topic number (4 bytes, big endian) and the message's key:
```
 0          8        16            32       40
 | position | random | fingerprint | due_ms |
```
Row of the second table: empty; its key is the hour (4 bytes, big endian) and the first table's key.
"""

import struct
from typing import Final, NamedTuple

from storage.position import INDEX_BITS
from storage.table import Table

FINGERPRINT_SIZE: Final = 16
_ROW: Final = struct.Struct("<QQ16sq")
_U32: Final = struct.Struct(">I")


class KeyEntry(NamedTuple):
    """What a key stands for: the message (position and random bits make its id), its request, its first due time."""

    position: int
    random: int
    fingerprint: bytes
    due_ms: int


class Keys:
    """All keys, over their tables. Topics are numbers; a key is 1 to 128 bytes and unique within its topic."""

    def __init__(self, table: Table, by_hour: Table) -> None:
        self._table = table
        self._by_hour = by_hour

    def find(self, topic: int, key: bytes) -> KeyEntry | None:
        """The entry of a key, or None. Raises Corrupt if its checksum does not match."""
        return self._find(_U32.pack(topic) + key)

    def put(self, topic: int, key: bytes, entry: KeyEntry) -> None:
        """Set what a key stands for."""
        assert len(entry.fingerprint) == FINGERPRINT_SIZE, f"fingerprint of {len(entry.fingerprint)} bytes"
        name = _U32.pack(topic) + key
        old = self._find(name)
        if old is not None:
            self._by_hour.drop(_hour(old) + name)
        self._table.put(name, _ROW.pack(*entry))
        self._by_hour.put(_hour(entry) + name, b"")

    def drop_hour(self, hour: int) -> int:
        """Forget the keys of the messages born in an hour; returns how many there were."""
        prefix = _U32.pack(hour)
        rows = [row for row, _ in self._by_hour.rows(prefix)]
        for row in rows:
            self._by_hour.drop(row)
            self._table.drop(row[len(prefix) :])
        return len(rows)

    def _find(self, name: bytes) -> KeyEntry | None:
        row = self._table.get(name)
        return None if row is None else KeyEntry._make(_ROW.unpack(row))


def _hour(entry: KeyEntry) -> bytes:
    return _U32.pack(entry.position >> INDEX_BITS)
