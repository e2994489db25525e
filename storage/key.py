"""Keys: what makes a retried request safe. (topic, key) -> the message it became, and a fingerprint of the request.

A key is found again as long as the record of its message is kept; the machine drops the keys of an hour when it
unlinks that hour. Rows are fixed-size so that a batch packs them in one numpy pass. What a batch of keyed messages
costs above one without keys is one dict or LMDB look-up per key, which no vectorising can avoid.

Row, little endian, 40 bytes:
```
 0          8        16            32       40
 | position | random | fingerprint | due_ms |
```
Its key is the topic number (4 bytes, big endian) and the message's key.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.table import Table

FINGERPRINT_SIZE: Final = 16
_ROW: Final = struct.Struct("<QQ16sq")
_ROWS: Final = np.dtype([("position", "<u8"), ("random", "<u8"), ("fingerprint", "V16"), ("due_ms", "<i8")])
_TOPIC: Final = struct.Struct(">I")
assert _ROWS.itemsize == _ROW.size


class KeyEntry(NamedTuple):
    """What a key stands for: the message (position and random bits make its id), its request, its first due time."""

    position: int
    random: int
    fingerprint: bytes
    due_ms: int


class Keys:
    """All keys, over their table. Topics are numbers; a key is 1 to 128 bytes and unique within its topic."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def find(self, topic: int, key: bytes) -> KeyEntry | None:
        """The entry of a key, or None. Raises Corrupt if its checksum does not match."""
        row = self._table.get(_TOPIC.pack(topic) + key)
        return None if row is None else KeyEntry._make(_ROW.unpack(row))

    def find_all(self, topics: Sequence[int], keys: Sequence[bytes]) -> list[KeyEntry | None]:
        """The entries of n keys, in their order; None where there is none."""
        return [self.find(topic, key) for topic, key in zip(topics, keys, strict=True)]

    def put(self, topic: int, key: bytes, entry: KeyEntry) -> None:
        """Set what a key stands for."""
        assert len(entry.fingerprint) == FINGERPRINT_SIZE, f"fingerprint of {len(entry.fingerprint)} bytes"
        self._table.put(_TOPIC.pack(topic) + key, _ROW.pack(*entry))

    def put_all(
        self,
        topics: Sequence[int],
        keys: Sequence[bytes],
        position: npt.NDArray[np.uint64],
        random: npt.NDArray[np.uint64],
        fingerprint: bytes,
        due_ms: npt.NDArray[np.int64],
    ) -> None:
        """Set n keys at once; `fingerprint` holds n times 16 bytes."""
        assert len(fingerprint) == FINGERPRINT_SIZE * len(keys), f"{len(fingerprint)} bytes for {len(keys)} keys"
        rows = np.empty(len(keys), _ROWS)
        rows["position"], rows["random"], rows["due_ms"] = position, random, due_ms
        rows["fingerprint"] = np.frombuffer(fingerprint, "V16")
        packed = rows.tobytes()
        for row, (topic, key) in enumerate(zip(topics, keys, strict=True)):
            self._table.put(_TOPIC.pack(topic) + key, packed[row * _ROW.size : (row + 1) * _ROW.size])

    def drop_all(self, topics: Sequence[int], keys: Sequence[bytes]) -> None:
        """Forget n keys; missing ones are fine."""
        for topic, key in zip(topics, keys, strict=True):
            self._table.drop(_TOPIC.pack(topic) + key)
