"""A message between nodes as bytes: length-framed msgpack with every limit checked before anything is allocated.

Why not the library's wire (repair R15): pysyncobj sends pickle and zlib without authentication. Any client that reaches
the port can execute code, send 600 MiB bombs, read all payloads and change the membership. Here a frame is data only.
It has a kind out of a fixed table, with exactly the fields of that kind, each of its type and range. Any other bytes
close the connection.

```
0        4        8        12
+--------+--------+--------+---------------------------+----------------------------------+
|size    |meta_len|crc     | meta: msgpack array       | blob: the commands of the        |
|u32     |u32     |u32     | [kind, field, field ...]  | entries, or a snapshot's piece   |
+--------+--------+--------+---------------------------+----------------------------------+
```

`size` counts the whole frame. `crc` is CRC32C over meta and blob. TCP's own sum misses one damaged segment in 65,536.
Without `crc` a damaged command would be written, sealed with a good checksum, into a follower's journal.

Commands stand outside the msgpack. So the sender writes the very bytes of its journal, and the receiver copies each
command one time. Entries of one frame are consecutive. So the frame has the index before the first entry, and no other
index.

Both ends of a connection use the newest protocol that both know. A field that was added later stands in `_LATER`, with
the protocol since which it is sent. It follows the older fields of its kind. A message from a peer of an older protocol
lacks the field, and gets the default. A kind that was added later stands in `_SINCE`. It is not sent to a peer of an
older protocol.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import google_crc32c
import msgpack

from replication.wire.frame_bound import MOST, PIECE_BYTES_MAX, SUM_SIZES

Message = dict[str, Any]
"""A Raft message as pysyncobj makes it: `type` and the fields of the kind.

Entries are (command, index, term). A snapshot's piece has its bytes in `data`.
"""

PROTOCOL = (1, 4)
"""Range of protocol versions this build speaks, oldest and newest."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
META_BYTES_MAX = 512 * 1024
HELLO_BYTES_MAX = 8192
ENTRIES_MAX = 16_384

HEADER = struct.Struct("<III")

_APPEND = 3
_PIECE = 17
_KINDS: dict[str, tuple[int, tuple[tuple[str, type], ...]]] = {
    "request_vote": (1, (("term", int), ("last_log_index", int), ("last_log_term", int), ("transfer", bool))),
    "response_vote": (2, (("term", int),)),
    "append_entries": (
        _APPEND,
        (("term", int), ("seq", int), ("commit_index", int), ("prevLogIdx", int), ("prevLogTerm", int)),
    ),
    "next_node_idx": (
        4,
        (("term", int), ("seq", int), ("next_node_idx", int), ("reset", bool), ("success", bool), ("voter", bool)),
    ),
    "pre_vote": (5, (("term", int), ("last_log_index", int), ("last_log_term", int))),
    "pre_vote_ok": (6, (("term", int),)),
    "stale_term": (7, (("term", int),)),
    "heartbeat": (
        8,
        (
            ("term", int),
            ("stamp_us", int),
            ("wall_ms", int),
            ("commit_index", int),
            ("last_index", int),
            ("low_water", int),
            ("released", bool),
            ("median_ms", int),
            ("durable_index", int),
            ("check_index", int),
            ("agreed_index", int),
            ("agreed_sum", bytes),
        ),
    ),
    "echo": (
        9,
        (
            ("term", int),
            ("stamp_us", int),
            ("wall_ms", int),
            ("applied_index", int),
            ("free_bytes", int),
            ("low", bool),
            ("retiring", bool),
            ("leaving", bool),
            ("busy", bool),
            ("voter", bool),
            ("sum_index", int),
            ("sum", bytes),
        ),
    ),
    "census": (10, ()),
    "census_answer": (11, (("empty", bool),)),
    "ping": (12, ()),
    "pong": (13, ()),
    "timeout_now": (14, (("term", int),)),
    "committed": (18, (("index", int), ("entry_term", int))),
    "sum_asked": (31, (("index", int),)),
    "sum_told": (32, (("index", int), ("sum", bytes))),
    "standing": (30, (("term", int), ("index", int), ("known_term", int), ("known_index", int))),
    "snapshot_offer": (
        15,
        (("term", int), ("number", int), ("index", int), ("bytes", int), ("manifest_bytes", int), ("crc", int)),
    ),
    "snapshot_pull": (
        16,
        (
            ("term", int),
            ("number", int),
            ("file", int),
            ("offset", int),
            ("size", int),
            ("known", int),
            ("crc", int),
        ),
    ),
    "snapshot_piece": (
        _PIECE,
        (
            ("term", int),
            ("number", int),
            ("file", int),
            ("offset", int),
            ("known", int),
            ("gone", bool),
            ("crc", int),
        ),
    ),
}
SNAPSHOT_KINDS = ("snapshot_offer", "snapshot_pull", "snapshot_piece")


class Later(NamedTuple):
    """A field that was added to a kind later: the protocol since which it is sent, and its value in an older peer's
    message.
    """

    name: str
    kind: type
    since: int
    default: Any


_LATER: dict[str, tuple[Later, ...]] = {
    "heartbeat": (Later("wish_ms", int, 2, 0), Later("median_slack_ms", int, 3, 0)),
    "echo": (Later("silence_ms", int, 2, 0),),
    "snapshot_offer": (Later("together", bool, 4, False),),
}
"""The later fields of each kind, in the order in which they are sent. So `since` never falls."""
_SINCE: dict[str, int] = {}
"""The kinds that were added later, with the protocol since which they are sent."""


class _Kind(NamedTuple):
    """A kind of message in one protocol: the fields that this protocol sends, with their types."""

    name: str
    number: int
    fields: tuple[tuple[str, type], ...]
    defaults: Message
    """The values of the fields that only newer protocols send."""


@cache
def _kinds(protocol: int) -> tuple[dict[str, _Kind], dict[int, _Kind]]:
    """All kinds of a protocol, by name and by number."""
    kinds = []
    for name, (number, fields) in _KINDS.items():
        if _SINCE.get(name, PROTOCOL[0]) > protocol:
            continue
        later = _LATER.get(name, ())
        sent = tuple((field.name, field.kind) for field in later if field.since <= protocol)
        defaults = {field.name: field.default for field in later if field.since > protocol}
        assert all(kind is not int or field in MOST for field, kind in fields + sent), f"{name}: no bound"
        kinds.append(_Kind(name, number, fields + sent, defaults))
    return {kind.name: kind for kind in kinds}, {kind.number: kind for kind in kinds}


def table(protocol: int) -> list[tuple[str, int, tuple[tuple[str, type], ...]]]:
    """All kinds of a protocol, each as name, number, and the fields that are sent with their types."""
    return [(kind.name, kind.number, kind.fields) for kind in _kinds(protocol)[0].values()]


def speaks(protocol: int, kind: str) -> bool:
    """True if this protocol has this kind of message."""
    return kind in _kinds(protocol)[0]


class FrameRefused(Exception):
    """These bytes are not a frame of ours, so their connection has to be closed. The text says what is wrong."""


def encode_frame(meta: list[Any], blobs: list[bytes] | None = None) -> list[bytes]:
    """The frame of `meta` and `blobs`, as pieces to be written one after the other: header with meta, then each blob
    uncopied.
    """
    return seal(msgpack.packb(meta, use_bin_type=True), blobs)


def seal(packed: bytes, blobs: list[bytes] | None = None) -> list[bytes]:
    """As `encode_frame`, for a meta that is msgpack already."""
    crc, size = google_crc32c.value(packed), HEADER.size + len(packed)
    for blob in blobs or ():
        crc = google_crc32c.extend(crc, blob)
        size += len(blob)
    assert size <= FRAME_BYTES_MAX, (size, FRAME_BYTES_MAX)
    return [HEADER.pack(size, len(packed), crc) + packed, *(blobs or ())]


def encode_message(message: Message, protocol: int = PROTOCOL[1]) -> list[bytes]:
    """The frame of one message. Raises KeyError for a kind or field that is not in the table, which is a mistake in our
    code.
    """
    _, number, fields, _ = _kinds(protocol)[0][message["type"]]
    meta = [number, *(message[name] for name, _ in fields)]
    if number == _PIECE:
        return encode_frame(meta, [message["data"]] if message["data"] else None)
    if number != _APPEND:
        return encode_frame(meta)
    entries = message["entries"]
    meta.append([entry[2] for entry in entries])
    meta.append([len(entry[0]) for entry in entries])
    return encode_frame(meta, [entry[0] for entry in entries])


def decode_message(meta: bytes, blob: memoryview, crc: int, protocol: int = PROTOCOL[1]) -> Message:
    """The message of a frame. Raises FrameRefused unless kind, number, type and range of every field fit."""
    fields = unpack_meta(meta)
    kind = _kinds(protocol)[1].get(fields[0]) if fields and type(fields[0]) is int else None
    if kind is None:
        raise FrameRefused(f"unknown kind of message {fields[:1]!r} in protocol {protocol}")
    name, _, expected, defaults = kind
    appends = name == "append_entries"
    if len(fields) != 1 + len(expected) + 2 * appends:
        raise FrameRefused(f"{name} with {len(fields) - 1} fields in protocol {protocol}")
    message: Message = {"type": name, **defaults}
    for value, (field, kind_of) in zip(fields[1:], expected, strict=False):
        if type(value) is not kind_of or not _within(field, value):
            raise FrameRefused(f"{name}: {field} is {value!r:.60}")
        message[field] = value
    if name == "snapshot_piece":
        return message | {"data": _data(meta, blob, crc)}
    if not appends:
        if blob or google_crc32c.value(meta) != crc:
            raise FrameRefused(f"{name}: checksum or length does not match")
        return message
    message["entries"] = _entries(fields[-2], fields[-1], message, meta, blob, crc)
    return message


def _within(field: str, value: Any) -> bool:
    """True if a value of the right type is in its range."""
    if type(value) is int:
        return 0 <= value <= MOST[field]
    return type(value) is not bytes or len(value) in SUM_SIZES


def _data(meta: bytes, blob: memoryview, crc: int) -> bytes:
    if len(blob) > PIECE_BYTES_MAX:
        raise FrameRefused(f"snapshot_piece of {len(blob)} bytes; the limit is {PIECE_BYTES_MAX}")
    return unseal(meta, blob, crc)


def _entries(
    terms: Any, lengths: Any, message: Message, meta: bytes, blob: memoryview, crc: int
) -> list[tuple[bytes, int, int]]:
    if not isinstance(terms, list) or not isinstance(lengths, list) or len(terms) != len(lengths):
        raise FrameRefused("append_entries: terms and lengths do not match")
    if len(terms) > ENTRIES_MAX or any(type(term) is not int or term < 0 for term in terms):
        raise FrameRefused("append_entries: too many entries, or a term that is none")
    rising = [message["prevLogTerm"], *terms, message["term"]]
    if rising != sorted(rising):
        raise FrameRefused("append_entries: terms that fall, or an entry of a term after its leader's")
    if any(type(length) is not int or length < 1 for length in lengths) or sum(lengths) != len(blob):
        raise FrameRefused("append_entries: lengths do not add up to the frame")
    entries = []
    found, at, index = google_crc32c.value(meta), 0, message["prevLogIdx"]
    for term, length in zip(terms, lengths, strict=True):
        command = bytes(blob[at : at + length])
        found = google_crc32c.extend(found, command)
        at, index = at + length, index + 1
        entries.append((command, index, term))
    if found != crc:
        raise FrameRefused(f"append_entries: checksum is {found:#x}, the frame says {crc:#x}")
    return entries


def unseal(meta: bytes, blob: memoryview, crc: int) -> bytes:
    """Return the blob of a frame as bytes. Raises FrameRefused if `crc` is not the checksum of `meta` and `blob`."""
    data = bytes(blob)
    found = google_crc32c.extend(google_crc32c.value(meta), data)
    if found != crc:
        raise FrameRefused(f"a frame's checksum is {found:#x}, it says {crc:#x}")
    return data


def unpack_meta(meta: bytes) -> list[Any]:
    """Unpack the meta of a frame: a msgpack array within limits of length. Raises FrameRefused."""
    try:
        fields = msgpack.unpackb(
            meta,
            raw=False,
            strict_map_key=True,
            max_str_len=256,
            max_bin_len=256,
            max_array_len=ENTRIES_MAX,
            max_map_len=32,
            max_ext_len=0,
        )
    except Exception as error:  # msgpack raises a dozen unrelated types for bad input
        raise FrameRefused(f"not msgpack within its limits: {type(error).__name__}") from error
    if not isinstance(fields, list):
        raise FrameRefused("a frame is an array")
    return fields
