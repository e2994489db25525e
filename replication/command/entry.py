"""The bytes of one Raft entry: an envelope with the inputs that all its commands share, then sections, one for each
command.

Why sections: group commit puts everything that waits on the leader into ONE entry, hence one journal write and one
fdatasync. That is hand-overs, acks, cancels, new messages and the dispatch state. The kind of a section decides its
order in the entry. So within an entry:

- The dispatch state takes effect before new and moved units, whose due times it bounds.
- The Leases of earlier hand-overs come before a Cancel, which has to see them.
- Reports of consumers about a hand-over come before requests of clients about its message.
- The Release of a lease whose hand-over never began comes before the Cancel of its message.
- An operation begins after the new messages of its entry, so its set takes them in.
- The keys of requests come before the requests.

Little endian, everything padded to 8 bytes so that columns can be viewed in place:

```
0        1      2        4         8            16      18          20               24          32
+--------+------+--------+---------+------------+-------+-----------+----------------+-----------+
|version |kind  |group   |term     |now_ms      |node   |sections   |extension_len   |reserved   |
|u8      |u8    |u16     |u32      |i64         |u16    |u16        |u32             |u64 = 0    |
+--------+------+--------+---------+------------+-------+-----------+----------------+-----------+
```
then the extension: msgpack map (empty today; actor and trace later), zero padded. Then per section:
```
+--------+--------+-------+--------+------------------+--------------------------------+
|kind u8 |ver u8  |u16 = 0|rows u32|length u64        | payload, zero padded to 8      |
+--------+--------+-------+--------+------------------+--------------------------------+
```

`version` is the level that the leader had applied when it made the entry (storage/format/level.py). How an entry is
applied depends on the level that was applied before it, not on its version. An entry proposed just before the level
rose has the old version.

`now_ms` is the time that the leader gave the entry, and `node` the leader's number. `term` is the term in which the
leader DECIDED. The entry's own term comes from Raft. If the two differ, a later leader committed the entry for a former
one. Then the decisions of the former leader's dispatcher have no effect, because that dispatcher is gone.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, Protocol

import msgpack

from storage.format.level import FOUNDED, LEVELS

VERSIONS_READ = LEVELS
_HEAD = struct.Struct("<BBHIqHHIQ")
_SECTION = struct.Struct("<BBHIQ")
_COMMANDS = 1
_CHANGE = 2  # commands, one of them a change of members: Raft has to know that without reading the sections
MAX_EXTENSION_BYTES = 64 * 1024


class Kind(IntEnum):
    """The commands, numbered in the order in which an entry applies them. Numbers are never reused."""

    GENESIS = 1
    CHANGE_MEMBER = 2
    RAISE_LEVEL = 3
    ONCE = 4
    REALIGN = 10
    DISPATCH_STATE = 11
    PROMOTION = 12
    LEASE = 20
    SETTLE = 21
    FAIL = 22
    EXTEND = 23
    RELEASE = 24
    CANCEL = 30
    RESCHEDULE = 31
    REDRIVE = 32
    PUT_TOPIC = 40
    DROP_TOPIC = 41
    SCHEDULE = 50
    SUPERSEDE = 51
    SCHEDULE_ALL = 52
    UNLINK = 60
    OVERDUE_CUTOFF = 61
    BEGIN_OPERATION = 70
    OPERATION_CHUNK = 71
    CHANGE_OPERATION = 72


class EntryRefused(Exception):
    """These bytes are malformed. Every node refuses the whole entry and goes on with the next one."""


class UnknownCommand(Exception):
    """This node does not know a version or command in the entry. It must stop, because the others may know it and apply
    it.
    """


class Section(NamedTuple):
    """A command as bytes inside an entry: its kind, how many rows it has, and its payload (a view, not a copy)."""

    kind: int
    rows: int
    payload: memoryview


class Envelope(NamedTuple):
    """The fields that all commands of an entry share: the leader that decided (`node`), its term, and the time that it
    gave the entry (`now_ms`). `sections` are the commands.
    """

    group: int
    term: int
    node: int
    now_ms: int
    sections: tuple[Section, ...]
    version: int = FOUNDED


def _kind_of(kinds: set[int]) -> int:
    return _CHANGE if Kind.CHANGE_MEMBER in kinds else _COMMANDS


def is_change(entry: bytes) -> bool:
    """True if an entry of the log changes the members (replication/raft/members.py)."""
    return len(entry) >= _HEAD.size and entry[1] == _CHANGE


def version_of(entry: bytes) -> int:
    """The version of an entry of the log. A build that knows this version can read the entry. Raft's no-op counts as
    the first version.
    """
    return max(FOUNDED, entry[0]) if len(entry) >= _HEAD.size else FOUNDED


def pad8(length: int) -> int:
    """The number of zero bytes that bring `length` to a multiple of 8."""
    return -length % 8


Packed = tuple[int, int, list[bytes]]  # kind, rows, payload pieces


class Command(Protocol):
    """A command as columns. A leader proposes it. Every node applies it as its row in replication/apply/registry.py
    says.
    """

    def pack(self) -> Packed:
        """The command as a section."""


def encode_entry(
    *, group: int, term: int, node: int, now_ms: int, sections: list[Packed], version: int = FOUNDED
) -> bytes:
    """Make one entry of the given sections, each as (kind, rows, payload pieces).

    The pieces are copied one time, by the join. Sections are sorted by kind, which is the order in which they are
    applied. The caller's order does not matter.
    """
    assert 0 < len(sections) < 1 << 16
    extension = msgpack.packb({})
    envelope_kind = _kind_of({section[0] for section in sections})
    pieces = [
        _HEAD.pack(version, envelope_kind, group, term, now_ms, node, len(sections), len(extension), 0),
        extension,
        bytes(pad8(len(extension))),
    ]
    for kind, rows, payload in sorted(sections, key=lambda section: section[0]):
        length = sum(map(len, payload))
        pieces.append(_SECTION.pack(kind, 1, 0, rows, length))
        pieces += payload
        pieces.append(bytes(pad8(length)))
    return b"".join(pieces)


def decode_entry(entry: bytes) -> Envelope:
    """Read an entry. Raises `UnknownCommand` for an unknown version, `EntryRefused` for bytes that do not fit.

    replication/apply/registry.py decides which kinds of command are known.
    """
    view = memoryview(entry)
    if len(view) < _HEAD.size:
        raise EntryRefused(f"entry of {len(view)} bytes is shorter than its envelope of {_HEAD.size}")
    version, kind, group, term, now_ms, node, count, extension_len, reserved = _HEAD.unpack_from(view)
    envelope_kind, envelope_version = kind, version
    if not VERSIONS_READ[0] <= version <= VERSIONS_READ[1] or kind not in (_COMMANDS, _CHANGE) or reserved:
        raise UnknownCommand(
            f"envelope version {version}, kind {kind}: this node reads versions {VERSIONS_READ[0]} to "
            f"{VERSIONS_READ[1]} of kinds {_COMMANDS} and {_CHANGE}; upgrade it before it joins this cluster"
        )
    if extension_len > MAX_EXTENSION_BYTES:
        raise EntryRefused(f"extension of {extension_len} bytes; at most {MAX_EXTENSION_BYTES}")
    at = _HEAD.size + extension_len + pad8(extension_len)
    sections = []
    for _ in range(count):
        if at + _SECTION.size > len(view):
            raise EntryRefused(f"section header at byte {at} past the entry's end {len(view)}")
        kind, version, flags, rows, length = _SECTION.unpack_from(view, at)
        at += _SECTION.size
        if version != 1 or flags:
            raise UnknownCommand(f"command kind {kind} version {version} flags {flags} is unknown to this node")
        if at + length > len(view):
            raise EntryRefused(f"section of {length} bytes at byte {at} past the entry's end {len(view)}")
        sections.append(Section(kind, rows, view[at : at + length]))
        at += length + pad8(length)
    if at != len(view):
        raise EntryRefused(f"{len(view) - at} bytes after the last section")
    kinds = [section.kind for section in sections]
    if kinds != sorted(kinds):
        raise EntryRefused(f"sections out of order: {kinds}")
    if envelope_kind != _kind_of(set(kinds)):
        raise EntryRefused(f"an entry of kind {envelope_kind} with sections {kinds}")
    return Envelope(group, term, node, now_ms, tuple(sections), envelope_version)
