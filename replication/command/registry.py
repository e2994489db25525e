"""The replicated commands: what a leader proposes and every node applies, as columns.

Each command has `pack() -> (kind, rows, payload pieces)` and `unpack(section)`. A command carries every input of its
apply, random bits and absolute times included; nothing here or in the machine reads a clock or draws a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replication.command.column import DUE_MS_MAX, ColumnReader, check_due, filled, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from replication.command.handover import Extend, Fail, Lease, Release, Settle
from replication.command.level import RaiseLevel
from replication.command.member import ChangeMember
from replication.command.message import Cancel, Redrive, Reschedule
from replication.command.overdue import CatchUp
from replication.command.promotion import Promotion
from storage.catalog.key import FINGERPRINT_SIZE
from storage.format.array import I64, U16, U32, U64
from storage.format.position import HOUR_MAX
from storage.format.record import KIND_MESSAGE, RECORD_HEADER_SIZE, RECORD_VERSION, record_edges

__all__ = [
    "ON_CONFLICT",
    "UNPACK",
    "Cancel",
    "CatchUp",
    "ChangeMember",
    "Command",
    "DispatchState",
    "DropTopic",
    "Extend",
    "Fail",
    "Genesis",
    "Key",
    "Lease",
    "Promotion",
    "PutTopic",
    "RaiseLevel",
    "Realign",
    "Redrive",
    "Release",
    "Reschedule",
    "Schedule",
    "Settle",
    "Unlink",
]

ON_CONFLICT = ("reject", "keep")
SETTINGS_DEPTH_MAX = 8
_KEY_BYTES_MAX = 255  # the catalog's index of keys would take more; the API allows 128
_RECORD_BEGIN = np.uint64(RECORD_VERSION << 32 | KIND_MESSAGE << 40)  # above the size; no flags: it was never moved
_PARTS = np.uint32(7)  # records are whole words


@dataclass(frozen=True, slots=True)
class Genesis:
    """The first leader's first command: what makes these nodes one cluster. A second one is a no-op."""

    cluster_id: bytes  # 16 random bytes
    secret: bytes  # 32 random bytes; keys the MAC of receipts
    nodes: tuple[str, ...]  # node ids; a node's number in records is its place here, from 1
    retention_ms: int  # how long a settled unit stays known
    key_retention_ms: int  # how long a key stays taken after its message settled
    addresses: tuple[tuple[str, str], ...] = ()  # of each node: Raft's and HTTP's host:port as others reach them

    def pack(self) -> Packed:
        """As a section."""
        value = {
            "cluster_id": self.cluster_id,
            "secret": self.secret,
            "nodes": list(self.nodes),
            "addresses": [list(pair) for pair in self.addresses],
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
        cluster_id = filled(value.get("cluster_id"), bytes, "cluster_id")
        if len(cluster_id) != 16:
            raise EntryRefused(f"cluster_id of {len(cluster_id)} bytes; 16 expected")
        nodes, addresses = _names(value, "nodes"), _addresses(value)
        if not nodes or len(set(nodes)) != len(nodes) or len(addresses) not in (0, len(nodes)):
            raise EntryRefused(f"nodes {nodes} with {len(addresses)} addresses: each once, with one or none at all")
        return cls(
            cluster_id=cluster_id,
            secret=filled(value.get("secret"), bytes, "secret"),
            nodes=nodes,
            retention_ms=filled(value.get("retention_ms"), int, "retention_ms"),
            key_retention_ms=filled(value.get("key_retention_ms"), int, "key_retention_ms"),
            addresses=addresses,
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
    tick, second, third = reader.column(np.int64).tolist()
    reader.end()
    if not 0 <= tick <= DUE_MS_MAX // 1000:
        raise EntryRefused(f"tick {tick}; 0 to {DUE_MS_MAX // 1000} expected")
    if second < 0 or third < 0:
        raise EntryRefused(f"tick {tick} with {second} and {third}; none of them is negative")
    return tick, second, third


def _addresses(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = [filled(pair, list, "addresses") for pair in filled(value.get("addresses"), list, "addresses")]
    if any(len(pair) != 2 for pair in pairs):
        raise EntryRefused("addresses: two for each node expected")
    return tuple((filled(raft, str, "addresses"), filled(http, str, "addresses")) for raft, http in pairs)


def _names(value: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(filled(text, str, name) for text in filled(value.get(name), list, name))


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
            namespace=filled(value.get("namespace"), str, "namespace"),
            name=filled(value.get("name"), str, "name"),
            settings=_plain(filled(value.get("settings"), dict, "settings")),
            replace=filled(value.get("replace"), bool, "replace"),
            revision=filled(value.get("revision"), int, "revision"),
        )


@dataclass(frozen=True, slots=True)
class DropTopic:
    """Remove a topic that the leader has found empty. `index` is the log index that the entry must have and `units` the
    store's units then: where both agree nothing can have come since it looked."""

    namespace: str
    name: str
    index: int
    units: int
    revision: int = 0  # the one the client saw; 0: whatever it is now

    def pack(self) -> Packed:
        """As a section."""
        value = {name: getattr(self, name) for name in ("namespace", "name", "index", "units", "revision")}
        return Kind.DROP_TOPIC, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> DropTopic:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        texts = [filled(value.get(name), str, name) for name in ("namespace", "name")]
        return cls(*texts, *(filled(value.get(name), int, name) for name in ("index", "units", "revision")))


def _plain(value: Any, depth: int = SETTINGS_DEPTH_MAX) -> Any:
    """`value`, which must be what JSON can say: the catalog could not keep other types of msgpack."""
    if isinstance(value, dict) and depth and all(isinstance(name, str) for name in value):
        return {name: _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list) and depth:
        return [_plain(item, depth - 1) for item in value]
    if not isinstance(value, str | int | float | None):
        raise EntryRefused(f"settings: {type(value).__name__} found, or more than {SETTINGS_DEPTH_MAX} levels")
    return value


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key of one row of a Schedule."""

    row: int
    key: bytes
    fingerprint: bytes  # 16 bytes over the fields as sent
    on_conflict: int  # index into ON_CONFLICT

    @classmethod
    def checked(cls, fields: Any, rows: int) -> Key:
        """From the four fields as read, for a command of so many rows; raises `EntryRefused`."""
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
        tags = reader.column(np.uint64) if filled(value.get("tagged"), bool, "tagged") else np.empty(0, np.uint64)
        blob = reader.bytes(filled(value.get("blob"), int, "blob"))
        reader.end()
        topics = _names(value, "topics")
        _check_records(size, blob)
        check_due(due_ms)
        if len(beyond := topic[topic >= len(topics)]):
            raise EntryRefused(f"topic {int(beyond.max())} of {len(topics)}")
        keys = tuple(Key.checked(fields, section.rows) for fields in filled(value.get("keys"), list, "keys"))
        if len({key.row for key in keys}) != len(keys):
            raise EntryRefused("two keys for one row")
        return cls(topics, due_ms, size, blob, topic, tags, keys, filled(value.get("namespace"), str, "namespace"))


def _check_records(size: U32, blob: memoryview) -> None:
    """Records must fill the blob exactly, and say so themselves. Raises `EntryRefused`."""
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
        if ((unlink.hour < 0) | (unlink.hour > HOUR_MAX)).any():
            raise EntryRefused(f"hours {unlink.hour.tolist()}; 0 to {HOUR_MAX} expected")
        return unlink


Command = (
    Genesis
    | ChangeMember
    | RaiseLevel
    | DispatchState
    | Realign
    | Promotion
    | Lease
    | Settle
    | Fail
    | Extend
    | Release
    | Cancel
    | Reschedule
    | Redrive
    | PutTopic
    | DropTopic
    | Schedule
    | Unlink
    | CatchUp
)

UNPACK: dict[Kind, Callable[[Section], Command]] = {
    Kind.GENESIS: Genesis.unpack,
    Kind.CHANGE_MEMBER: ChangeMember.unpack,
    Kind.RAISE_LEVEL: RaiseLevel.unpack,
    Kind.REALIGN: Realign.unpack,
    Kind.DISPATCH_STATE: DispatchState.unpack,
    Kind.PROMOTION: Promotion.unpack,
    Kind.LEASE: Lease.unpack,
    Kind.SETTLE: Settle.unpack,
    Kind.FAIL: Fail.unpack,
    Kind.EXTEND: Extend.unpack,
    Kind.RELEASE: Release.unpack,
    Kind.CANCEL: Cancel.unpack,
    Kind.RESCHEDULE: Reschedule.unpack,
    Kind.REDRIVE: Redrive.unpack,
    Kind.PUT_TOPIC: PutTopic.unpack,
    Kind.DROP_TOPIC: DropTopic.unpack,
    Kind.SCHEDULE: Schedule.unpack,
    Kind.UNLINK: Unlink.unpack,
    Kind.CATCH_UP: CatchUp.unpack,
}
