"""A table of the catalog: rows in LMDB, and over them in memory the changes since the last checkpoint.

LMDB must hold exactly the last checkpoint, or a replay of the journal would start from another state. So nothing is
written between checkpoints. Changes collect in `live`. `freeze` sets them aside for a checkpoint that a thread then
writes, while new changes collect in a fresh `live`. A read asks live, frozen, LMDB in this order. The reader
transaction stays at the old checkpoint until `thaw` drops the frozen layer and moves it forward in the same step. So at
any moment a read sees each change once.

A stored value is 4 bytes CRC32C (little endian) over table name, key and value, then the value. A read of the row finds
a flipped bit in either. The catalog's count and hash find a row that vanished or came twice. The hash is the sum,
modulo 2^64, of a hash per row. So a checkpoint updates it by the rows that it changes and never scans the table.
"""

import hashlib
import heapq
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import google_crc32c
import lmdb

from storage.format.rows import Corrupt
from storage.lmdb.entry_checksum import EntryChecksum

_CRC: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<H")

RUN_KEYS: Final = 4_096
"""Keys that are sorted together: under a millisecond."""
HASH_MASK: Final = (1 << 64) - 1

DAMAGED: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.BadTxnError,
)
"""Errors that LMDB raises when its own pages do not hold together. Every call after that raises the last one."""


def seal_value(table: bytes, key: bytes, value: bytes) -> bytes:
    """The value as it is stored, checksum first."""
    return _CRC.pack(google_crc32c.value(table + key + value)) + value


def open_value(table: bytes, key: bytes, stored: bytes) -> bytes:
    """The value without its checksum. Raises Corrupt if the checksum does not match."""
    value = stored[_CRC.size :]
    found = google_crc32c.value(table + key + value)
    expected = _CRC.unpack_from(stored)[0] if len(stored) >= _CRC.size else None
    if found != expected:
        row = f"catalog, table {table.decode()}, row {key.hex()}"
        raise Corrupt(row, 0, "checksum", f"{found:08x}", "missing" if expected is None else f"{expected:08x}")
    return value


def row_hash(table: bytes, key: bytes, value: bytes) -> int:
    """64-bit hash of one row. The catalog's hash is the sum of all of them modulo 2^64."""
    digest = hashlib.blake2b(_LENGTH.pack(len(key)) + key + value, digest_size=8, person=table)
    return int.from_bytes(digest.digest(), "little")


class SortedRuns:
    """Keys in order of arrival. Each RUN_KEYS of them are sorted once, so the keys behind a key are found without a
    full sort."""

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = [[]]

    def add(self, key: bytes) -> None:
        """Add a key. It may be there already, and then comes twice in `behind`."""
        self._runs[-1].append(key)
        if len(self._runs[-1]) == RUN_KEYS:
            self._runs[-1].sort()
            self._runs.append([])

    def behind(self, after: bytes) -> Iterator[bytes]:
        """The keys above `after`, ascending. No key may be added while the result is read."""
        self._runs[-1].sort()
        return heapq.merge(*(map(run.__getitem__, range(bisect_right(run, after), len(run))) for run in self._runs))


class Table:
    """Rows bytes -> bytes, in the order of their keys. Used on the loop's thread. Only `commit` runs in another."""

    def __init__(self, name: bytes, database: "lmdb._Database | None", group: int = 0) -> None:
        """`database` is None for a table that is only read and that no build has made yet. Such a table is empty.

        `group` is the length in bytes of the first part of a key, by which `unsaved` finds keys. 0: `unsaved` is not
        used.
        """
        self.name = name
        self._group = group
        self._put: dict[bytes, SortedRuns] = {}  # keys put since the last freeze, by group
        self._put_frozen: dict[bytes, SortedRuns] = {}  # the same of the frozen layer
        self.written = EntryChecksum()
        """The checksum to which every change is added. The catalog sets one for all tables."""
        self._database = database
        self._reader: lmdb.Transaction[bytes] | None = None
        self._live: dict[bytes, bytes | None] = {}
        self._frozen: dict[bytes, bytes | None] | None = None

    @property
    def changes(self) -> int:
        """The number of rows changed since the last freeze."""
        return len(self._live)

    def read_from(self, reader: "lmdb.Transaction[bytes]") -> None:
        """Read LMDB through this transaction from now on."""
        self._reader = reader

    def get(self, key: bytes) -> bytes | None:
        """The value, or None if there is no such row. Raises Corrupt if its checksum does not match."""
        if key in self._live:
            return self._live[key]
        if self._frozen is not None and key in self._frozen:
            return self._frozen[key]
        return self._stored(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace a row."""
        self._live[key] = value
        if self._group:
            group = key[: self._group]
            if group not in self._put:
                self._put[group] = SortedRuns()
            self._put[group].add(key)
        self.written.row(self.name, key, value)

    def drop(self, key: bytes) -> None:
        """Remove a row. A missing one is fine."""
        self._live[key] = None
        self.written.row(self.name, key)

    def rows(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows whose key begins with `prefix`, in the order of their keys, changes included. The table must not
        change meanwhile."""
        changed: dict[bytes, bytes | None] = {**(self._frozen or {}), **self._live}
        order = sorted(key for key in changed if key.startswith(prefix))
        at = 0
        for key, value in self._stored_rows(prefix):
            while at < len(order) and order[at] < key:
                yield from _present(order[at], changed)
                at += 1
            if key not in changed:
                yield key, value
        for key in order[at:]:
            yield from _present(key, changed)

    def dropped(self, key: bytes) -> bool:
        """True if a change that LMDB may not have yet has removed the row. Does not read LMDB."""
        changed = self._live if key in self._live else self._frozen or {}
        return key in changed and changed[key] is None

    def unsaved(self, group: bytes, after: bytes) -> Iterator[bytes]:
        """The keys whose first part is `group`, behind `after`, of rows that LMDB may not have yet, ascending.

        Rows of some keys may have been removed since, and a key may come twice.
        """
        return heapq.merge(*(put[group].behind(after) for put in (self._put_frozen, self._put) if group in put))

    def saved(self, prefix: bytes, after: bytes) -> Iterator[bytes]:
        """The keys that begin with `prefix`, behind `after`, of the rows in LMDB, ascending. Rows of some keys may have
        been removed since."""
        for key, _ in self._stored_rows(prefix, after):
            if key != after:
                yield key

    def freeze(self) -> dict[bytes, bytes | None]:
        """Set the changes aside for a checkpoint and return them, by key. None stands for a removed row."""
        assert self._frozen is None, f"table {self.name!r}: one checkpoint at a time"
        self._frozen, self._live = self._live, {}
        self._put_frozen, self._put = self._put, {}
        return self._frozen

    def thaw(self, reader: "lmdb.Transaction[bytes]") -> None:
        """Drop the frozen changes, which are durable. From now on rows are read through `reader`, which has them."""
        assert self._frozen is not None, f"table {self.name!r}: nothing is frozen"
        self._frozen, self._reader = None, reader
        self._put_frozen = {}

    def commit(self, transaction: "lmdb.Transaction[bytes]", changes: dict[bytes, bytes | None]) -> tuple[int, int]:
        """Write changes into the transaction. Return by how much the number of rows and the sum of their hashes change.

        Runs in the checkpoint's thread, so it touches only this object's name and database.
        """
        assert self._database is not None or not changes, f"table {self.name!r} is only read"
        count = total = 0
        for key in sorted(changes):
            value = changes[key]
            if value is None:
                old = transaction.pop(key, db=self._database)
            else:
                old = transaction.replace(key, seal_value(self.name, key, value), db=self._database)
                count += 1
                total += row_hash(self.name, key, value)
            if old is not None:
                count -= 1
                total -= row_hash(self.name, key, open_value(self.name, key, old))
        return count, total

    def scan(self, faults: list[str]) -> tuple[int, int]:
        """Read all rows in LMDB and return their number and the sum of their hashes, modulo 2^64. A line for each wrong
        checksum goes to `faults`."""
        count = total = 0
        if self._database is None:
            return count, total
        assert self._reader is not None
        for key, stored in self._reader.cursor(db=self._database):
            try:
                total += row_hash(self.name, key, open_value(self.name, key, stored))
            except Corrupt as fault:
                faults.append(str(fault))
            count += 1
        return count, total & HASH_MASK

    def _stored(self, key: bytes) -> bytes | None:
        if self._database is None:
            return None
        assert self._reader is not None
        try:
            stored = self._reader.get(key, db=self._database)
        except DAMAGED as error:
            raise self._damaged(error) from error
        return None if stored is None else open_value(self.name, key, stored)

    def _stored_rows(self, prefix: bytes, first: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows in LMDB whose key begins with `prefix`, from key `first` on. Check also the row before and the
        row behind them.

        LMDB finds a key by binary search. A damaged key in a leaf makes the rows end too soon or begin too late. Then
        its row is the one before or behind. A damaged key in a branch leads to another leaf, where the rows around are
        not those around `begin`.
        """
        if self._database is None:
            return
        assert self._reader is not None
        try:
            with self._reader.cursor(db=self._database) as cursor:
                begin = max(prefix, first)
                if begin and (cursor.prev() if cursor.set_range(begin) else cursor.last()):
                    before = cursor.key()
                    open_value(self.name, before, cursor.value())
                    self._in_order(before < begin, before)
                found = cursor.set_range(begin) if begin else cursor.first()
                if found:
                    self._in_order(cursor.key() >= begin, cursor.key())
                while found and (key := cursor.key()).startswith(prefix):
                    yield key, open_value(self.name, key, cursor.value())
                    found = cursor.next()
                if found:
                    open_value(self.name, cursor.key(), cursor.value())
        except DAMAGED as error:
            raise self._damaged(error) from error

    def _damaged(self, error: lmdb.Error) -> Corrupt:
        return Corrupt(f"catalog, table {self.name.decode()}", 0, "LMDB", error, "whole pages")

    def _in_order(self, holds: bool, key: bytes) -> None:
        if not holds:
            raise Corrupt(f"catalog, table {self.name.decode()}", 0, "LMDB", f"row {key.hex()}", "rows in their order")


def _present(key: bytes, changed: dict[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    value = changed[key]
    if value is not None:
        yield key, value
