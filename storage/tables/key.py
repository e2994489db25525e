"""Keys make a retried request safe: (topic, key) -> the message that it became, and a fingerprint of the request.

A key lasts as long as the record of its message, so it goes with the message's hour. A second table lists the keys of
each hour. Without it, an unlink would have to read the whole log of the hour, or the whole table, to find them. A keyed
message costs only these few dict and LMDB look-ups more, which no vectorising can avoid.

Row, little endian, 40 bytes; its key is the topic number (4 bytes, big endian) and the message's key:
```
 0          8        16            32       40
 | position | random | fingerprint | due_ms |
```
Row of the second table: empty; its key is the hour (4 bytes, big endian) and the first table's key.

The keys of an unlinked hour protect nothing any more, so they need not go in the same step. From level 2 on
`forget_hour` only notes the hour in a row of `meta`. The row's key is `dead keys ` and the hour (4 bytes, big endian).
The row holds the global_index behind the hour's units, 8 bytes. Then comes the key of the second table's row that was
dropped last, at first the hour alone. `drop_dead` then drops a few keys at a time, from behind that row on. They are
the same on every node, whatever a node has in LMDB or in memory.
"""

import heapq
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from storage.format.position import INDEX_BITS
from storage.format.rows import Corrupt
from storage.lmdb.table import Table

FINGERPRINT_SIZE: Final = 16
_ROW: Final = struct.Struct("<QQ16sq")
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct("<Q")
HOUR_BYTES: Final = _U32.size
"""The first bytes of each key of the second table."""
_DEAD: Final = b"dead keys "

DROPPED_MAX: Final = 200
"""Keys that one call of drop_dead drops: a millisecond."""

_HOUR_COST: Final = 20
"""To find the keys of an hour costs as much as to drop this many keys."""


class KeyEntry(NamedTuple):
    """The message of a key (position and random bits make its id), the fingerprint of its request, its first due
    time."""

    position: int
    random: int
    fingerprint: bytes
    due_ms: int


class Keys:
    """Finds and changes the rows of all keys. A topic is given by its number. A key is 1 to 128 bytes and unique within
    its topic."""

    def __init__(self, table: Table, by_hour: Table, meta: Table) -> None:
        self._table = table
        self._by_hour = by_hour
        self._meta = meta
        self._dead: list[int] = []  # hours, rising

    def load(self) -> None:
        """Read the hours whose keys are to be dropped. Raises Corrupt if a row's checksum does not match."""
        self._dead = sorted(_U32.unpack(row[len(_DEAD) :])[0] for row, _ in self._meta.rows(_DEAD))

    def find(self, topic: int, key: bytes) -> KeyEntry | None:
        """The entry of a key, or None. Raises Corrupt if its checksum does not match."""
        return self._find(_U32.pack(topic) + key)

    def put(self, topic: int, key: bytes, entry: KeyEntry) -> None:
        """Set the entry of a key."""
        assert len(entry.fingerprint) == FINGERPRINT_SIZE, f"fingerprint of {len(entry.fingerprint)} bytes"
        name = _U32.pack(topic) + key
        old = self._find(name)
        if old is not None:
            self._by_hour.drop(_hour(old) + name)
        self._table.put(name, _ROW.pack(*entry))
        self._by_hour.put(_hour(entry) + name, b"")

    def drop_hour(self, hour: int) -> int:
        """Drop the keys of the messages born in an hour. Return their number."""
        prefix = _U32.pack(hour)
        rows = [row for row, _ in self._by_hour.rows(prefix)]
        for row in rows:
            self._by_hour.drop(row)
            self._table.drop(row[len(prefix) :])
        return len(rows)

    def forget_hour(self, hour: int, end: int) -> None:
        """Note that an hour is unlinked, so that later calls of `drop_dead` drop its keys. Its units had global indexes
        below `end`."""
        prefix = _U32.pack(hour)
        self._meta.put(_DEAD + prefix, _U64.pack(end) + prefix)
        self._dead = sorted({*self._dead, hour})

    def drop_dead(self) -> int:
        """Drop a few keys of unlinked hours, those of the oldest hour first. Return their number. Costs nothing if no
        such key is left."""
        dropped, left = 0, DROPPED_MAX
        while self._dead and left > 0:
            taken = self._drop_some(self._dead[0], left)
            dropped, left = dropped + taken, left - taken - _HOUR_COST
        return dropped

    def _drop_some(self, hour: int, most: int) -> int:
        """Drop up to `most` keys of one hour. If the hour has fewer than `most`, all its keys are dropped, and the note
        about it too."""
        note = _DEAD + _U32.pack(hour)
        state = self._meta.get(note)
        assert state is not None, f"no keys of hour {hour} are dead"
        end, after = _U64.unpack_from(state)[0], state[_U64.size :]
        taken = list(islice(self._dead_rows(hour, end, after), most))
        for row in taken:
            self._by_hour.drop(row)
            self._table.drop(row[_U32.size :])
        if len(taken) == most:
            self._meta.put(note, _U64.pack(end) + taken[-1])
        else:
            self._meta.drop(note)
            self._dead.remove(hour)
        return len(taken)

    def _dead_rows(self, hour: int, end: int, after: bytes) -> Iterator[bytes]:
        """Yield rows of the second table, ascending, from behind `after`. They are those of the hour whose keys are of
        units with global indexes below `end`.

        A key that was taken again meanwhile, even by a unit of the hour begun again, is left out.
        """
        prefix = _U32.pack(hour)
        former = b""
        for row in heapq.merge(self._by_hour.saved(prefix, after), self._by_hour.unsaved(prefix, after)):
            if row != former and not self._by_hour.dropped(row):
                entry = self._find(row[_U32.size :])
                if entry is None:
                    raise Corrupt(
                        "catalog, table keys", 0, f"key {row[_U32.size :].hex()}", "missing", f"as of hour {hour}"
                    )
                if entry.position < hour << INDEX_BITS | end:
                    yield row
            former = row

    def _find(self, name: bytes) -> KeyEntry | None:
        row = self._table.get(name)
        return None if row is None else KeyEntry._make(_ROW.unpack(row))


def _hour(entry: KeyEntry) -> bytes:
    return _U32.pack(entry.position >> INDEX_BITS)
