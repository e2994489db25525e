"""The catalog: the replicated tables beside the hours, and the checkpoint record.

The registry (storage/tables/registry.py) lists the tables and the cache of each in memory.

The catalog stands in LMDB for two reasons. A checkpoint must be one atomic, durable step. And LMDB is ordered, so its
content can be listed in an order that does not depend on how its pages came to be. LMDB opens its files itself; all
other code opens files through storage/file/disk.py. LMDB writes with pwrite, never through its mapping. A commit
returns only when it is synced.

How a checkpoint goes (the store does the files in between):
```
loop    begin(record) -> frozen     changes are set aside; new ones collect over them
thread  frozen.commit()             after the files' fdatasync: changes + record in ONE transaction, synced
loop    finish(frozen)              reads move to the new transaction, what was set aside is dropped
```
If the process stops before `commit` ends, the next start finds the old checkpoint. If it stops later, it finds the new
one.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import lmdb

from storage.catalog.catalog_file import MAP_SIZE, require_begun, require_whole
from storage.catalog.catalog_pin import CatalogPin
from storage.catalog.checkpoint_record import CheckpointRecord, read_checkpoint, write_checkpoint
from storage.catalog.genesis import Genesis, read_genesis, replace_genesis, write_genesis
from storage.catalog.hour_lengths import HourLengths
from storage.catalog.restored import Restored, read_restored, write_restored
from storage.file.disk import Disk
from storage.format.rows import Corrupt, FormatRefused
from storage.lmdb.entry_checksum import EntryChecksum
from storage.lmdb.errors import lmdb_errors
from storage.lmdb.table import HASH_MASK, Table, open_value, seal_value
from storage.tables.key import KeyEntry
from storage.tables.overdue import OverdueRule, read_overdue_rule, write_overdue_rule
from storage.tables.registry import (
    ABOUT,
    DATABASES_MAX,
    HOUR_KEYS,
    KEYS,
    MEMBERS,
    META,
    TABLES,
    TOPICS,
    C,
    Cache,
    TableRow,
)
from storage.tables.topic import DEFAULT_NAMESPACE, Topic

FORMAT: Final = 1
_FORMAT_KEY: Final = b"format"
_U32: Final = struct.Struct("<I")
_OLDEST: Final = (META, TOPICS, KEYS, HOUR_KEYS, MEMBERS)
"""Tables that every build makes. Another table is missing until a build that knows it opens the directory to write."""


@dataclass(slots=True)
class Frozen:
    """The catalog's part of a checkpoint: the changes that were set aside, and the record. Made by Catalog.begin. Call
    `commit` in a thread, then give it to Catalog.finish."""

    record: CheckpointRecord
    _environment: lmdb.Environment
    _about: "lmdb._Database"
    _changes: list[tuple[Table, dict[bytes, bytes | None]]]
    _path: Path
    committed: bool = field(default=False)

    def commit(self, hours: Mapping[int, HourLengths] | None = None) -> None:
        """Write the changes and the record in one transaction, which is durable at return. `hours` replaces the
        record's hours, whose lengths are known only now.

        Runs in any thread, beside reads and changes of the catalog, because it touches only this object and LMDB.
        Raises DiskFailed (final), or Corrupt if a row that it replaces does not match its checksum.

        LMDB has a slot for each reader. A reader that was killed beside the node (`reconcile`) leaves its slot, and
        LMDB reuses no page freed since. So this frees the slots of dead processes first.
        """
        assert not self.committed, "committed twice"
        count, total = self.record.catalog_count, self.record.catalog_hash
        with lmdb_errors("commit", self._path):
            self._environment.reader_check()
        with lmdb_errors("commit", self._path), self._environment.begin(write=True) as transaction:
            for table, changes in self._changes:
                more, added = table.commit(transaction, changes)
                count, total = count + more, total + added
            self.record = replace(self.record, catalog_count=count, catalog_hash=total & HASH_MASK)
            if hours is not None:
                self.record = replace(self.record, hours=hours)
            write_checkpoint(transaction, self._about, self.record)
        self.committed = True


class Catalog:
    """The tables as of now, over the LMDB of the last checkpoint. All calls run on the loop's thread."""

    def __init__(
        self,
        environment: lmdb.Environment,
        path: Path,
        about: "lmdb._Database",
        rows: Mapping[str, TableRow[Any]],
        tables: Mapping[str, Table],
    ) -> None:
        self._environment = environment
        self._path = path
        self._about = about
        self._by_name = tables
        self._tables = list(tables.values())
        self._reader = environment.begin()
        self.in_checkpoint = False
        """True from begin to finish of a checkpoint."""
        self.written = EntryChecksum()
        """Checksum of the rows that entries write, here and in the store."""
        for table in self._tables:
            table.written = self.written
            table.read_from(self._reader)
        self._check_format()
        self.record: CheckpointRecord | None = read_checkpoint(self._reader, about)
        """The last durable checkpoint, None before the first."""
        self._caches: dict[str, Any] = {}
        for row in rows.values():
            if row.cache is not None:
                cache: Cache = row.cache(*(tables[name] for name in (row.name, *row.beside)))
                cache.load()
                self._caches[row.name] = cache
        self._meta = self.table(META)
        self._topics, self._keys, self.members = self.of(TOPICS), self.of(KEYS), self.of(MEMBERS)
        self._first_indexes = self.of(META)
        self.restored = read_restored(self._meta)
        """The backup that this cluster was made from. None if it was founded."""

    @classmethod
    def open(
        cls,
        path: Path,
        disk: Disk,
        *,
        read_only: bool = False,
        beside_node: bool = False,
        rows: Mapping[str, TableRow[Any]] = TABLES,
    ) -> "Catalog":
        """Open the catalog directory with the tables `rows`, or create it. The data directory's LOCK keeps it to one
        process, which opens it once.

        - `read_only`: the directory exists and no other process has it open. No file in it is changed or made.
        - `beside_node`, with `read_only`: its node may be running, so LMDB's existing lock file counts this reader.

        Raises FormatRefused (a version that this build does not know) or DiskFailed. Raises Corrupt if the file is cut
        short, or if the record, the genesis or a topic is damaged.
        """
        if read_only:
            require_begun(path / "data.mdb", disk)
        else:
            disk.make_directory(path)
        require_whole(path / "data.mdb", disk)
        with lmdb_errors("open", path):
            environment = lmdb.open(
                str(path),
                map_size=MAP_SIZE,
                max_dbs=DATABASES_MAX,
                readahead=False,
                create=False,
                readonly=read_only,
                lock=beside_node or not read_only,
            )
        try:
            with lmdb_errors("open", path):
                if read_only and not beside_node and environment.stat()["entries"] <= len(_OLDEST):
                    environment.close()  # its first start was cut short, so nothing in it could be changed
                    return cls.open(path, disk, rows=rows)
                about = environment.open_db(ABOUT, create=not read_only)
                tables = {name: _open_table(environment, row, read_only=read_only) for name, row in rows.items()}
                if read_only:
                    return cls(environment, path, about, rows, tables)
                with environment.begin(write=True) as transaction:
                    if not transaction.stat(about)["entries"]:
                        transaction.put(_FORMAT_KEY, seal_value(ABOUT, _FORMAT_KEY, _U32.pack(FORMAT)), db=about)
                disk.fsync_directory(path)
                disk.fsync_directory(path.parent)
                return cls(environment, path, about, rows, tables)
        except BaseException:
            environment.close()
            raise

    def close(self) -> None:
        """Close LMDB. Changes since the last checkpoint are dropped; the journal has them."""
        self._reader.abort()
        self._environment.close()

    # tables

    def of(self, row: TableRow[C]) -> C:
        """The cache in memory of a table of the registry. Code that changes the table does it through the cache."""
        cache: C = self._caches[row.name]
        return cache

    def table(self, row: TableRow[Any]) -> Table:
        """The table, in LMDB and memory, of this row of the registry."""
        return self._by_name[row.name]

    # genesis

    @property
    def genesis(self) -> Genesis | None:
        """The genesis, None while the cluster is not founded."""
        return read_genesis(self._meta)

    def found(self, genesis: Genesis) -> None:
        """Store the genesis, which founds the cluster. May be called once."""
        write_genesis(self._meta, genesis)

    def refound(self, genesis: Genesis) -> None:
        """Replace the genesis by another cluster's, in a backup that is being restored."""
        replace_genesis(self._meta, genesis)

    @property
    def overdue_rule(self) -> OverdueRule | None:
        """The rule by which a restored cluster still has to treat overdue messages, or None."""
        return read_overdue_rule(self._meta)

    def set_overdue_rule(self, rule: OverdueRule | None) -> None:
        """Set the rule for overdue messages. None removes the rule, because no message is left to which it applies."""
        write_overdue_rule(self._meta, rule)

    def set_restored(self, restored: Restored) -> None:
        """Record the backup that this cluster is being made from."""
        write_restored(self._meta, restored)
        self.restored = read_restored(self._meta)

    # topics

    def topic(self, name: str, namespace: str = DEFAULT_NAMESPACE) -> Topic | None:
        """The topic of this name, or None."""
        return self._topics.find(name, namespace)

    def topic_by_number(self, number: int) -> Topic | None:
        """The topic of this number, or None."""
        return self._topics.by_number(number)

    def topics(self) -> list[Topic]:
        """All topics in the order of their numbers."""
        return self._topics.all()

    @property
    def topic_count(self) -> int:
        """The number of topics."""
        return len(self._topics)

    def topic_page(self, after: str, most: int, namespace: str = DEFAULT_NAMESPACE) -> list[Topic]:
        """At most `most` topics of the namespace, in order of names, whose names are greater than `after`. "" for the
        first page."""
        return self._topics.page(after, most, namespace)

    def topics_with_settings(self) -> list[Topic]:
        """Topics with a setting of their own, in no order."""
        return self._topics.with_settings()

    def put_topic(self, name: str, settings: dict[str, Any], now_ms: int, namespace: str = DEFAULT_NAMESPACE) -> Topic:
        """Create a topic (next number, revision 1) or replace its settings (revision + 1 if they differ)."""
        return self._topics.put(name, settings, now_ms, namespace)

    def drop_topic(self, number: int) -> None:
        """Remove a topic, which must exist. Its number is never given again."""
        self._topics.drop(number)

    # keys

    def key(self, topic: int, key: bytes) -> KeyEntry | None:
        """The entry of a message's key in a topic. None if no message has the key."""
        return self._keys.find(topic, key)

    def put_key(self, topic: int, key: bytes, entry: KeyEntry) -> None:
        """Set the entry of a message's key in a topic."""
        self._keys.put(topic, key, entry)

    def drop_hour_keys(self, hour: int) -> int:
        """Drop the keys of the messages born in an hour, when the hour is unlinked. Return their number."""
        return self._keys.drop_hour(hour)

    def forget_hour_keys(self, hour: int, end: int) -> None:
        """Note that the keys of an hour's units with global indexes below `end` are to be dropped. `drop_dead_keys`
        drops them a few at a time."""
        self._keys.forget_hour(hour, end)

    def drop_dead_keys(self) -> int:
        """Drop a few more of the keys that `forget_hour_keys` was called for. Return their number."""
        return self._keys.drop_dead()

    # hours that were unlinked

    def first_index(self, hour: int) -> int:
        """The first global_index of an hour's units. It is 0, or the end of the unlinked hour of the same number."""
        return self._first_indexes.of(hour)

    def set_first_index(self, hour: int, index: int) -> None:
        """Record that the hour is unlinked and that its units had global indexes below `index`."""
        self._first_indexes.set(hour, index)

    def last_unlinked(self, first: int, end: int) -> int | None:
        """The newest hour with first <= hour < end that was ever unlinked. None if no such hour was."""
        return self._first_indexes.last(first, end)

    # checkpoint

    @property
    def changes(self) -> int:
        """The number of rows changed since the last begin, which the next checkpoint writes."""
        return sum(table.changes for table in self._tables)

    def begin(self, record: CheckpointRecord) -> Frozen:
        """Set the changes aside for a checkpoint, without copying a row. Before the next call `finish` must be
        called."""
        assert not self.in_checkpoint, "one checkpoint at a time"
        if self.record is not None:
            assert record.applied_index >= self.record.applied_index, "a checkpoint does not go back"
            record = replace(record, catalog_count=self.record.catalog_count, catalog_hash=self.record.catalog_hash)
        self.in_checkpoint = True
        changes = [(table, table.freeze()) for table in self._tables]
        return Frozen(record, self._environment, self._about, changes, self._path)

    def finish(self, frozen: Frozen) -> None:
        """Read from the committed checkpoint from now on, and drop the changes that were set aside for it."""
        assert frozen.committed, "finished before it was committed"
        self.in_checkpoint = False
        self._reader.abort()
        self._reader = self._environment.begin()
        for table in self._tables:
            table.thaw(self._reader)
        self.record = frozen.record

    def pin(self) -> CatalogPin | None:
        """Pin the last durable checkpoint, to be copied later. None before the first checkpoint. Copies nothing.

        The pinned checkpoint may be newer than `record`, if a thread has committed a checkpoint and `finish` was not
        called for it yet.
        """
        genesis, transaction = self.genesis, self._environment.begin()
        record = read_checkpoint(transaction, self._about)
        if record is None or genesis is None:
            transaction.abort()
            return None
        return CatalogPin(record, genesis.cluster_id, self._environment, transaction, self._path)

    # verify and digest

    def dump(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield (table, key, value) of all rows, also those changed since the last checkpoint. The order depends on the
        content alone."""
        for table in self._tables:
            for key, value in table.rows():
                yield table.name, key, value

    def faults(self) -> list[str]:
        """Read every row of the last checkpoint. Return a line for each wrong checksum. Also return a line if the count
        or the hash of all rows differs from the record's."""
        faults: list[str] = []
        count = total = 0
        try:
            for table in self._tables:
                more, added = table.scan(faults)
                count, total = count + more, (total + added) & HASH_MASK
        except lmdb.Error as error:
            return [*faults, f"corrupt: {self._path}/data.mdb: {error}"]
        expected = (0, 0) if self.record is None else (self.record.catalog_count, self.record.catalog_hash)
        if count != expected[0]:
            faults.append(f"corrupt: {self._path}: {count} rows, the checkpoint says {expected[0]}")
        if total != expected[1]:
            faults.append(f"corrupt: {self._path}: content hash {total:016x}, the checkpoint says {expected[1]:016x}")
        return faults

    def _check_format(self) -> None:
        stored = self._reader.get(_FORMAT_KEY, db=self._about)
        if stored is None:
            raise Corrupt(str(self._path), 0, "catalog format", "missing", FORMAT)
        found = _U32.unpack(open_value(ABOUT, _FORMAT_KEY, stored))[0]
        if found != FORMAT:
            raise FormatRefused(str(self._path), "catalog format", found, FORMAT)


def _open_table(environment: lmdb.Environment, row: TableRow[Any], *, read_only: bool) -> Table:
    name = row.name.encode()
    try:
        return Table(name, environment.open_db(name, create=not read_only), row.group)
    except lmdb.NotFoundError:
        if not read_only or row in _OLDEST:
            raise
        return Table(name, None, row.group)
