"""Answers that are kept, so that a request can be sent again under the same `Idempotency-Key` without a second effect.

The entry that carries out a request writes its row. So there is a row exactly if the request had its effect. A row
lasts KEPT_MS by the stamps of entries. Beyond BYTES_MAX the oldest rows go first.

A row's key is the namespace, a zero byte, and the client's key. The second table has the rows in the order in which
they were written. Its keys are a zero byte, the log index (8 bytes, big endian) and the number of the request within
the entry (2 bytes). Its values are keys of the first table. A row of `meta` has the bytes of all rows.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from storage.format.rows import Corrupt
from storage.lmdb.table import Table

KEPT_MS: Final = 24 * 3_600_000
BYTES_MAX: Final = 256 * 1024 * 1024
ROW_BYTES_MAX: Final = 1_024
KEY_BYTES_MAX: Final = 255
#: Rows that one entry drops because of their age: a few milliseconds.
DROPPED_MAX: Final = 1_000

_AGE: Final = struct.Struct(">BQH")
_ALL: Final = b"\0"
"""The first byte of all keys of the second table."""
GROUP_BYTES: Final = len(_ALL)
_BYTES: Final = b"idempotency bytes"
_U64: Final = struct.Struct("<Q")


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to a request that was carried out. `call` is the name of what was asked for, and `fingerprint` stands
    for its content. `values` are numbers from which the answer is made, and `note` a text for it. `index` and `number`
    say where the row stands in the second table."""

    at_ms: int
    index: int
    number: int
    call: str
    fingerprint: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    principal: str
    values: tuple[int, ...]
    note: str

    def answers(self, call: str, fingerprint: bytes, principal: str) -> bool:
        """True if the request is the one whose answer this is, and its client the same."""
        return (self.call, self.fingerprint, self.principal) == (call, fingerprint, principal)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(KeptAnswer)


class Idempotency:
    """Finds and changes the rows. Only the number of their bytes is in memory."""

    def __init__(self, table: Table, by_age: Table, meta: Table) -> None:
        self._table, self._by_age, self._meta = table, by_age, meta
        self.bytes = 0
        """The bytes of all rows, with those of the second table."""
        self._dropped = b""  # the key of the second table's row that was dropped last
        self._oldest: tuple[bytes, bytes, int] | None = None  # of the oldest row: both keys and its time

    def load(self) -> None:
        """Read the number of bytes. Raises Corrupt if its checksum does not match."""
        row = self._meta.get(_BYTES)
        self.bytes = 0 if row is None else _U64.unpack(row)[0]

    def find(self, namespace: str, key: bytes, now_ms: int) -> KeptAnswer | None:
        """The answer that is kept under a key. None if there is none that is younger than KEPT_MS."""
        kept = self._read(_name(namespace, key))
        return None if kept is None or kept.at_ms <= now_ms - KEPT_MS else kept

    def put(self, namespace: str, key: bytes, answer: KeptAnswer) -> None:
        """Keep an answer, and drop the oldest beyond BYTES_MAX. The key has none, or one that is too old."""
        name = _name(namespace, key)
        if (old := self._read(name)) is not None:
            self._drop(_age(old.index, old.number), name, old)
        row, age = _ENCODER.encode(answer), _age(answer.index, answer.number)
        assert len(row) <= ROW_BYTES_MAX, f"an answer of {len(row)} bytes"
        self._table.put(name, row)
        self._by_age.put(age, name)
        self._count(_size(age, name, row))
        while self.bytes > BYTES_MAX and (oldest := self._first()) is not None:
            self._drop_oldest(oldest)

    def forget(self, now_ms: int) -> None:
        """Drop rows that are older than KEPT_MS, the oldest DROPPED_MAX at most."""
        for _ in range(DROPPED_MAX):
            oldest = self._first()
            if oldest is None or oldest[2] > now_ms - KEPT_MS:
                return
            self._drop_oldest(oldest)

    def oldest_ms(self) -> int | None:
        """The time of the oldest row. None if there are no rows."""
        oldest = self._first()
        return None if oldest is None else oldest[2]

    def _first(self) -> tuple[bytes, bytes, int] | None:
        if self._oldest is None:
            for age in self._ages():
                name = self._by_age.get(age)
                assert name is not None, f"row {age.hex()} has gone"
                kept = self._read(name)
                if kept is None:
                    raise Corrupt("catalog, table idempotency", 0, f"row {name.hex()}", "missing", "one of its age")
                self._oldest = age, name, kept.at_ms
                break
        return self._oldest

    def _ages(self) -> Iterator[bytes]:
        """The keys of the second table, ascending."""
        after = self._dropped or _ALL
        for age in heapq.merge(self._by_age.saved(_ALL, after), self._by_age.unsaved(_ALL, after)):
            if not self._by_age.dropped(age):
                yield age

    def _drop_oldest(self, oldest: tuple[bytes, bytes, int]) -> None:
        age, name, _ = oldest
        kept = self._read(name)
        assert kept is not None, f"row {name.hex()} has gone"
        self._drop(age, name, kept)
        self._dropped = age

    def _drop(self, age: bytes, name: bytes, kept: KeptAnswer) -> None:
        self._by_age.drop(age)
        self._table.drop(name)
        self._count(-_size(age, name, _ENCODER.encode(kept)))
        if self._oldest is not None and self._oldest[0] == age:
            self._oldest = None

    def _count(self, size: int) -> None:
        self.bytes += size
        self._meta.put(_BYTES, _U64.pack(self.bytes))

    def _read(self, name: bytes) -> KeptAnswer | None:
        row = self._table.get(name)
        return None if row is None else _DECODER.decode(row)


def _name(namespace: str, key: bytes) -> bytes:
    return namespace.encode() + b"\0" + key


def _age(index: int, number: int) -> bytes:
    return _AGE.pack(0, index, number)


def _size(age: bytes, name: bytes, row: bytes) -> int:
    return len(age) + 2 * len(name) + len(row)
