"""The command Schedule with new messages: columns with a row for each, and their records for the delay log.

The leader makes the records. Apply fills in only the position, which the leader cannot know. So the sizes and first
words of the records are checked here, before anything is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from replication.command.column import ColumnReader, Rows, check_due, filled, names, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import I64, U16, U32, U64
from storage.format.schedule_status import ON_CONFLICT, SUPERSEDES
from storage.record.record import KIND_MESSAGE, RECORD_HEADER_SIZE, RECORD_VERSION, record_edges
from storage.tables.key import FINGERPRINT_SIZE

_KEY_BYTES_MAX = 255  # the catalog's index of keys would take more; the API allows 128
_RECORD_BEGIN = np.uint64(RECORD_VERSION << 32 | KIND_MESSAGE << 40)  # above the size; no flags: it was never moved
_PARTS = np.uint32(7)  # records are whole words


@dataclass(frozen=True, slots=True)
class Key:
    """The key of one row of a Schedule."""

    row: int
    key: bytes
    fingerprint: bytes  # 16 bytes, the hash of the message's fields as the client sent them
    on_conflict: int  # index into ON_CONFLICT

    @classmethod
    def checked(cls, fields: Any, rows: int) -> Key:
        """Make a key of its four fields, for a command of `rows` rows. Raises `EntryRefused` if they are not valid."""
        if len(filled(fields, list, "key")) != 4:
            raise EntryRefused(f"a key of {len(fields)} fields; 4 expected")
        row, key, fingerprint, on_conflict = fields
        if not 0 <= filled(row, int, "key's row") < rows or not 0 <= filled(on_conflict, int, "key's rule") < len(
            ON_CONFLICT
        ):
            raise EntryRefused(f"a key names row {row} of {rows}, rule {on_conflict} of {len(ON_CONFLICT)}")
        if not 0 < len(filled(key, bytes, "key")) <= _KEY_BYTES_MAX:
            raise EntryRefused(f"a key of {len(key)} bytes; 1 to {_KEY_BYTES_MAX} expected")
        if len(filled(fingerprint, bytes, "fingerprint")) != FINGERPRINT_SIZE:
            raise EntryRefused(f"a fingerprint of {len(fingerprint)} bytes; {FINGERPRINT_SIZE} expected")
        return cls(row, key, fingerprint, on_conflict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """New messages: n rows and their log records. The position in a record is left blank, because only apply knows
    it.
    """

    topics: tuple[str, ...]  # the distinct topics of the rows
    due_ms: I64  # [n] absolute, as the client asked; apply moves a unit that is too late to the present second
    size: U32  # [n] bytes of each record, multiples of 8
    blob: memoryview | bytes  # the records, in row order
    topic: U16  # [n] index into `topics`
    tags: U64  # [n] a mask of each row's tags; or empty: no row has tags
    keys: tuple[Key, ...] = field(default=())
    namespace: str = "default"

    def pack(self) -> Packed:
        """The command as a section. A blob of type bytes is not copied."""
        assert len(self.blob) % 8 == 0
        value = {
            "namespace": self.namespace,
            "topics": list(self.topics),
            "tagged": len(self.tags) > 0,
            "keys": [[key.row, key.key, key.fingerprint, key.on_conflict] for key in self.keys],
            "blob": len(self.blob),
        }
        payload = [pack_map(value), *pack_columns(self.due_ms, self.size, self.topic)]
        if len(self.tags):
            payload += pack_columns(self.tags)
        payload.append(bytes(self.blob) if isinstance(self.blob, memoryview) else self.blob)
        return Kind.SCHEDULE, len(self.due_ms), payload

    @classmethod
    def unpack(cls, section: Section) -> Schedule:
        """The command out of a section. Raises `EntryRefused` if rows, sizes, topics or keys do not fit each other."""
        reader = ColumnReader(section.payload, section.rows)
        schedule = cls.read(reader, section.rows)
        reader.end()
        if any(key.on_conflict in SUPERSEDES for key in schedule.keys):
            raise EntryRefused("a key that changes its holder stands in a command of another kind")
        return schedule

    @classmethod
    def read(cls, reader: ColumnReader, rows: int) -> Schedule:
        """New messages as a part of a command of `rows` rows. Raises what `unpack` raises."""
        value = reader.map()
        due_ms, size, topic = reader.column(np.int64), reader.column(np.uint32), reader.column(np.uint16)
        tags = reader.column(np.uint64) if filled(value.get("tagged"), bool, "tagged") else np.empty(0, np.uint64)
        blob = reader.bytes(filled(value.get("blob"), int, "blob"))
        topics = names(value, "topics")
        _check_records(size, blob)
        check_due(due_ms)
        if len(beyond := topic[topic >= len(topics)]):
            raise EntryRefused(f"topic {int(beyond.max())} of {len(topics)}")
        keys = tuple(Key.checked(fields, rows) for fields in filled(value.get("keys"), list, "keys"))
        if len({key.row for key in keys}) != len(keys):
            raise EntryRefused("two keys for one row")
        return cls(topics, due_ms, size, blob, topic, tags, keys, filled(value.get("namespace"), str, "namespace"))

    def of_rows(self, rows: Rows) -> Schedule:
        """The messages of these rows, which are in rising order."""
        at = {row: place for place, row in enumerate(rows.tolist())}
        return replace(
            self,
            due_ms=self.due_ms[rows],
            size=self.size[rows],
            blob=self.records_of(rows).tobytes(),
            topic=self.topic[rows],
            tags=self.tags[rows] if len(self.tags) else self.tags,
            keys=tuple(replace(key, row=at[key.row]) for key in self.keys if key.row in at),
        )

    def records_of(self, rows: Rows) -> U64:
        """The words of these rows' records, one behind the other."""
        edges = record_edges(self.size)
        starts, lengths = edges[rows], edges[rows + 1] - edges[rows]
        shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        words: U64 = np.frombuffer(self.blob, np.uint64)[np.arange(len(shift)) + shift]
        return words


def _check_records(size: U32, blob: memoryview) -> None:
    """Check that records fill the blob exactly and begin with their own size. Raises `EntryRefused`."""
    edges = record_edges(size)
    total = int(edges[-1]) * 8
    if total != len(blob):
        raise EntryRefused(f"records of {total} bytes by their sizes, {len(blob)} bytes found")
    if not total:
        return
    if size[size.argmin()] < RECORD_HEADER_SIZE:
        raise EntryRefused(f"a record of {int(size.min())} bytes; its header alone has {RECORD_HEADER_SIZE}")
    begins = np.frombuffer(blob, np.uint64)[edges[:-1]]
    if len(other := (begins != (size & ~_PARTS | _RECORD_BEGIN)).nonzero()[0]):
        raise EntryRefused(f"record {int(other[0])} begins with {int(begins[other[0]]):016x}: no record of its size")
