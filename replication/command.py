"""The replicated commands: what a leader proposes and every node applies, as columns.

Each command has `pack() -> (kind, rows, payload pieces)` and `unpack(section)`. A command carries every input of its
apply, random bits and absolute times included; nothing here or in the machine reads a clock or draws a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from replication.column import ColumnReader, pack_columns, pack_map
from replication.envelope import EntryRefused, Kind, Packed, Section
from storage.array import I64, U8, U16, U32, U64

ON_CONFLICT = ("reject", "keep")


def _filled(value: Any, what: type, name: str) -> Any:
    if not isinstance(value, what) or (what is int and isinstance(value, bool)):
        raise EntryRefused(f"{name}: {what.__name__} expected, found {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Genesis:
    """The first leader's first command: what makes these nodes one cluster. A second one is a no-op."""

    cluster_id: bytes  # 16 random bytes
    secret: bytes  # 32 random bytes; keys the MAC of receipts
    nodes: tuple[str, ...]  # node ids; a node's number in records is its place here, from 1
    retention_ms: int  # how long a settled unit stays known
    key_retention_ms: int  # how long a key stays taken after its message settled

    def pack(self) -> Packed:
        """As a section."""
        value = {
            "cluster_id": self.cluster_id,
            "secret": self.secret,
            "nodes": list(self.nodes),
            "retention_ms": self.retention_ms,
            "key_retention_ms": self.key_retention_ms,
        }
        return Kind.GENESIS, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> Genesis:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        cluster_id = _filled(value.get("cluster_id"), bytes, "cluster_id")
        if len(cluster_id) != 16:
            raise EntryRefused(f"cluster_id of {len(cluster_id)} bytes; 16 expected")
        return cls(
            cluster_id=cluster_id,
            secret=_filled(value.get("secret"), bytes, "secret"),
            nodes=tuple(_filled(value.get("nodes"), list, "nodes")),
            retention_ms=_filled(value.get("retention_ms"), int, "retention_ms"),
            key_retention_ms=_filled(value.get("key_retention_ms"), int, "key_retention_ms"),
        )


@dataclass(frozen=True, slots=True)
class DispatchState:
    """Where the leader's wheel stands: all slots before `tick` are dispatched, and of slot `tick` the first
    `local_index` in order, counting only units of entries up to `applied_index`. Same size for 1 unit or a million."""

    tick: int  # absolute second
    local_index: int
    applied_index: int

    def pack(self) -> Packed:
        """As a section."""
        row = np.array([self.tick, self.local_index, self.applied_index], np.int64)
        return Kind.DISPATCH_STATE, 1, [row.tobytes()]

    @classmethod
    def unpack(cls, section: Section) -> DispatchState:
        """From a section; raises `EntryRefused`."""
        return cls(*_three(section))


@dataclass(frozen=True, slots=True)
class Realign:
    """A new leader's clock is far from the replicated tick: set tick and `now_ms` to its clock."""

    tick: int  # absolute second
    now_ms: int
    applied_index: int

    def pack(self) -> Packed:
        """As a section."""
        return Kind.REALIGN, 1, [np.array([self.tick, self.now_ms, self.applied_index], np.int64).tobytes()]

    @classmethod
    def unpack(cls, section: Section) -> Realign:
        """From a section; raises `EntryRefused`."""
        return cls(*_three(section))


def _three(section: Section) -> tuple[int, int, int]:
    reader = ColumnReader(section.payload, 3)
    first, second, third = reader.column(np.int64).tolist()
    reader.end()
    return first, second, third


@dataclass(frozen=True, slots=True)
class Lease:
    """Hand-overs already made (fast) or about to be made (strict): columns of n rows."""

    position: U64
    attempt: U16
    lease_end_ms: I64
    handed_over_ms: I64
    subscription: int = 0

    def pack(self) -> Packed:
        """As a section."""
        columns = pack_columns(self.position, self.attempt, self.lease_end_ms, self.handed_over_ms)
        payload = [pack_map({"subscription": self.subscription}), *columns]
        return Kind.LEASE, len(self.position), payload

    @classmethod
    def unpack(cls, section: Section) -> Lease:
        """From a section; raises `EntryRefused`."""
        subscription, columns = _of_subscription(section, (np.uint64, np.uint16, np.int64, np.int64))
        position, attempt, lease_end_ms, handed_over_ms = columns
        return cls(position, attempt, lease_end_ms, handed_over_ms, subscription)


@dataclass(frozen=True, slots=True)
class Settle:
    """Acks: rows name a hand-over by (position, term, attempt); `code` is a reason or HTTP status."""

    position: U64
    term: U32
    attempt: U16
    code: U16
    subscription: int = 0

    def pack(self) -> Packed:
        """As a section."""
        columns = pack_columns(self.position, self.term, self.attempt, self.code)
        payload = [pack_map({"subscription": self.subscription}), *columns]
        return Kind.SETTLE, len(self.position), payload

    @classmethod
    def unpack(cls, section: Section) -> Settle:
        """From a section; raises `EntryRefused`."""
        subscription, columns = _of_subscription(section, (np.uint64, np.uint32, np.uint16, np.uint16))
        position, term, attempt, code = columns
        return cls(position, term, attempt, code, subscription)


def _of_subscription(section: Section, kinds: Sequence[type[np.generic]]) -> tuple[int, list[npt.NDArray[Any]]]:
    """The subscription that a section is about, and its columns."""
    reader = ColumnReader(section.payload, section.rows)
    subscription = _filled(reader.map().get("subscription"), int, "subscription")
    columns = [reader.column(kind) for kind in kinds]
    reader.end()
    return subscription, columns


@dataclass(frozen=True, slots=True)
class Cancel:
    """Messages to cancel. `doubtful` marks a unit that a dead leader may have handed over in its last moments."""

    position: U64
    doubtful: U8

    def pack(self) -> Packed:
        """As a section."""
        return Kind.CANCEL, len(self.position), pack_columns(self.position, self.doubtful)

    @classmethod
    def unpack(cls, section: Section) -> Cancel:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        cancel = cls(reader.column(np.uint64), reader.column(np.uint8))
        reader.end()
        return cancel


@dataclass(frozen=True, slots=True)
class PutTopic:
    """Create a topic or set its settings. `revision` is the one the client saw (0: whatever it is now)."""

    namespace: str
    name: str
    settings: dict[str, Any]  # whole settings if `replace`, else those to change
    replace: bool
    revision: int = 0

    def pack(self) -> Packed:
        """As a section."""
        value = {
            "namespace": self.namespace,
            "name": self.name,
            "settings": self.settings,
            "replace": self.replace,
            "revision": self.revision,
        }
        return Kind.PUT_TOPIC, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> PutTopic:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(
            namespace=_filled(value.get("namespace"), str, "namespace"),
            name=_filled(value.get("name"), str, "name"),
            settings=_filled(value.get("settings"), dict, "settings"),
            replace=_filled(value.get("replace"), bool, "replace"),
            revision=_filled(value.get("revision"), int, "revision"),
        )


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key of one row of a Schedule."""

    row: int
    key: bytes
    fingerprint: bytes  # 16 bytes over the fields as sent
    on_conflict: int  # index into ON_CONFLICT


@dataclass(frozen=True, slots=True)
class Schedule:
    """New messages: n rows and their log records (with blanks for what only apply knows: the position)."""

    topics: tuple[str, ...]  # the distinct topics of the rows
    due_ms: I64  # [n] absolute, as asked; apply clamps a unit too late for its slot
    size: U32  # [n] bytes of each record, multiples of 8
    blob: memoryview | bytes  # the records, in row order
    topic: U16  # [n] index into `topics`
    tags: U64  # [n] or empty: none has tags
    keys: tuple[Key, ...] = field(default=())
    namespace: str = "default"

    def pack(self) -> Packed:
        """As a section; the blob is not copied here."""
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
        """From a section; raises `EntryRefused` where rows, sizes, topics or keys do not agree."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        due_ms, size, topic = reader.column(np.int64), reader.column(np.uint32), reader.column(np.uint16)
        tags = reader.column(np.uint64) if _filled(value.get("tagged"), bool, "tagged") else np.empty(0, np.uint64)
        blob = reader.bytes(_filled(value.get("blob"), int, "blob"))
        reader.end()
        topics = tuple(_filled(value.get("topics"), list, "topics"))
        total = int(np.add.reduce(size, dtype=np.int64))
        if total != len(blob) or len((size & 7).nonzero()[0]):
            raise EntryRefused(f"records of {total} bytes by their sizes, {len(blob)} bytes found")
        if len(beyond := topic[topic >= len(topics)]):
            raise EntryRefused(f"topic {int(beyond.max())} of {len(topics)}")
        keys = tuple(Key(*row) for row in _filled(value.get("keys"), list, "keys"))
        if any(not 0 <= key.row < section.rows or key.on_conflict not in range(len(ON_CONFLICT)) for key in keys):
            raise EntryRefused("a key names a row or a rule that is not there")
        return cls(topics, due_ms, size, blob, topic, tags, keys, _filled(value.get("namespace"), str, "namespace"))


@dataclass(frozen=True, slots=True)
class Unlink:
    """Hours whose every unit is settled and past retention."""

    hour: I64

    def pack(self) -> Packed:
        """As a section."""
        return Kind.UNLINK, len(self.hour), pack_columns(self.hour)

    @classmethod
    def unpack(cls, section: Section) -> Unlink:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        unlink = cls(reader.column(np.int64))
        reader.end()
        return unlink


Command = Genesis | DispatchState | Realign | Lease | Settle | Cancel | PutTopic | Schedule | Unlink

UNPACK: dict[Kind, Callable[[Section], Command]] = {
    Kind.GENESIS: Genesis.unpack,
    Kind.REALIGN: Realign.unpack,
    Kind.DISPATCH_STATE: DispatchState.unpack,
    Kind.LEASE: Lease.unpack,
    Kind.SETTLE: Settle.unpack,
    Kind.CANCEL: Cancel.unpack,
    Kind.PUT_TOPIC: PutTopic.unpack,
    Kind.SCHEDULE: Schedule.unpack,
    Kind.UNLINK: Unlink.unpack,
}
