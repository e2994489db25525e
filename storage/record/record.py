"""The record of one message in an hour's `log`: all its parts that are not needed to order it.

```
 0      4         5      6       8                 12            16        20         22           23         24
 | size | version | kind | flags | header_checksum | payload_crc | id_hour | id_group | id_version | priority |
 24                32       40             48           56          64      68         72
 | id_global_index | random | asked_due_ms | created_ms | expiry_ms | topic | body_len |
 72         74            76        78                 80           82              84              86        88
 | tags_len | headers_len | key_len | content_type_len | target_len | order_key_len | extension_len | attempt |
 88         96                                                                                             size
 | place    | tags | headers | key | content_type | target | order_key | extension | body | zeros to 8 bytes |
```
- `size` counts everything, zeros included.
- The header has the row checksum of storage/format/checksum.py. The payload has zlib's CRC32, which is fast for short
  buffers, and which Spark's crc32() computes.
- Tags are each a length byte and UTF-8. Headers and extension are msgpack maps.
- `place` is 0 unless the message was moved (flag 1). Then it is the position of this record's unit, while the id still
  names where the message was born.

A record is written twice. The proposer encodes it once, with the fields that it knows. Only apply knows the whole id,
the topic's number and the time of creation. `patch` fills them in for a whole batch in a handful of numpy calls. Bodies
are copied with their batch, never one by one.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from typing import Any, Final, cast

import msgpack
import msgspec
import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U16, U32, U64
from storage.format.checksum import checksum_rows
from storage.format.message_id import ID_VERSION, RANDOM_BITS
from storage.format.position import INDEX_BITS, hours_of, indexes_of, pack
from storage.format.rows import Corrupt, FormatRefused

RECORD_VERSION: Final = 1
RECORD_SIZE_MAX: Final = 1 << 24
"""Bytes. It bounds a length read from disk before anything is allocated for it."""

RECORD_MOVED: Final = 1
"""Record flag: a move appended the unit."""

EXTENSION_OF_APPLY: Final = frozenset(("dead", "doubtful", "error", "revision"))
"""Names in a record's extension that apply sets itself. No field of a message has these names."""

KIND_MESSAGE: Final = 1
"""The only kind of record, and of unit: a message to hand over."""

HEADER: Final = np.dtype(
    [
        ("size", "<u4"),
        ("version", "u1"),
        ("kind", "u1"),
        ("flags", "<u2"),
        ("header_checksum", "<u4"),
        ("payload_crc", "<u4"),
        ("id_hour", "<u4"),
        ("id_group", "<u2"),
        ("id_version", "u1"),
        ("priority", "u1"),
        ("id_global_index", "<u8"),
        ("random", "<u8"),
        ("asked_due_ms", "<i8"),
        ("created_ms", "<i8"),
        ("expiry_ms", "<i8"),
        ("topic", "<u4"),
        ("body_len", "<u4"),
        ("tags_len", "<u2"),
        ("headers_len", "<u2"),
        ("key_len", "<u2"),
        ("content_type_len", "<u2"),
        ("target_len", "<u2"),
        ("order_key_len", "<u2"),
        ("extension_len", "<u2"),
        ("attempt", "<u2"),
        ("place", "<u8"),
    ]
)
RECORD_HEADER_SIZE: Final = HEADER.itemsize
assert RECORD_HEADER_SIZE == 96
RANDOM_WORD: Final = 4
"""The 64-bit word of a record that holds its random bits. Apply needs them for the answer and reads nothing else."""
DUE_WORD: Final = 5
"""The word of the due time that was asked for."""

_CHECKSUM_FIELD: Final = (1, 0)
_VERSION_AND_FLAGS: Final = np.uint64(0xFFFF_00FF << 32)
"""Version and flags in the first word of a header. One comparison checks them, with `place`: in numpy each column by
name takes as long as a checksum."""
_USUAL: Final = np.uint64(RECORD_VERSION << 32)
_PLACE_WORD: Final = 11
_WORDS: Final = np.arange(RECORD_HEADER_SIZE // 8)
_WORD_SHIFT: Final = np.array(3, np.uint32)
_PADS: Final = [bytes(length) for length in range(8)]
_RANDOM_MASK: Final = np.uint64((1 << RANDOM_BITS) - 1)
_PAYLOAD_MAX: Final = RECORD_SIZE_MAX - 8 * 65_536


@dataclass(frozen=True, slots=True)
class Drafts:
    """Messages as the proposer has them, one row each. A column is None, and costs nothing, if no message has it."""

    bodies: Sequence[bytes]
    asked_due_ms: I64
    random: U64  # the low 50 bits are used
    content_types: Sequence[bytes] | None = None
    tags: Sequence[tuple[bytes, ...]] | None = None
    headers: Sequence[bytes] | None = None  # msgpack maps, b"" for none
    keys: Sequence[bytes] | None = None
    targets: Sequence[bytes] | None = None  # msgpack maps, b"" for none
    order_keys: Sequence[bytes] | None = None
    extensions: Sequence[bytes] | None = None  # msgpack maps, b"" for none
    attempts: U16 | None = None  # hand-overs that the retry policy does not count
    priority: npt.NDArray[np.uint8] | None = None
    expiry_ms: I64 | None = None  # 0: never

    def __len__(self) -> int:
        return len(self.bodies)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Encoded records: `blob` holds them one after the other. `size` [n] is the bytes of each one, a multiple of 8."""

    blob: bytes
    size: U32

    def __len__(self) -> int:
        return len(self.size)


class Record(msgspec.Struct, frozen=True, gc=False):
    """A message as read back, both checksums verified.

    `position` is where it was born, `place` where this unit of it stands. `attempt` is the number of its hand-overs
    that do not count for its retry policy.
    """

    group: int
    position: int
    place: int
    random: int
    topic: int
    kind: int
    priority: int
    attempt: int
    flags: int
    asked_due_ms: int
    created_ms: int
    expiry_ms: int
    tags: tuple[str, ...]
    headers: dict[str, str]
    key: bytes
    content_type: str
    target: bytes
    order_key: bytes
    extension: dict[str, Any]
    body: bytes

    @property
    def plain(self) -> bool:
        """True if the message has a body and no optional part."""
        more = self.tags, self.headers, self.key, self.content_type, self.target, self.order_key, self.extension
        return not (self.priority or any(more))


def _lengths(column: Sequence[bytes], kind: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Lengths in bytes. A length that does not fit its field raises OverflowError and is never cut."""
    return np.fromiter(map(len, column), kind, len(column))


def encode_records(drafts: Drafts) -> RecordColumns:
    """Encode a batch, message by message. Id, topic and creation time stay zero until `patch`, which has no loop."""
    count = len(drafts)
    header = np.zeros(count, HEADER)
    optional: list[tuple[str, Sequence[bytes] | None]] = [
        ("tags_len", None if drafts.tags is None else [_encode_tags(tags) for tags in drafts.tags]),
        ("headers_len", drafts.headers),
        ("key_len", drafts.keys),
        ("content_type_len", drafts.content_types),
        ("target_len", drafts.targets),
        ("order_key_len", drafts.order_keys),
        ("extension_len", drafts.extensions),
    ]
    present = [(name, column) for name, column in optional if column is not None]
    for name, column in present:
        header[name] = _lengths(column, np.uint16)
    header["body_len"] = _lengths(drafts.bodies, np.uint32)
    payloads = drafts.bodies
    if present:
        payloads = list(map(b"".join, zip(*(column for _, column in present), drafts.bodies, strict=True)))
    length = _lengths(payloads, np.uint32)
    assert not count or int(length.max()) < _PAYLOAD_MAX, f"a record's payload has {int(length.max())} bytes"
    size = (length + np.uint32(RECORD_HEADER_SIZE + 7)) & ~np.uint32(7)
    header["size"] = size
    header["version"] = RECORD_VERSION
    header["kind"] = KIND_MESSAGE
    header["payload_crc"] = np.fromiter(map(zlib.crc32, payloads), np.uint32, count)
    header["random"] = drafts.random & _RANDOM_MASK
    header["asked_due_ms"] = drafts.asked_due_ms
    if drafts.priority is not None:
        header["priority"] = drafts.priority
    if drafts.expiry_ms is not None:
        header["expiry_ms"] = drafts.expiry_ms
    if drafts.attempts is not None:
        header["attempt"] = drafts.attempts
    headers = header.tobytes()
    pads = (size - length - np.uint32(RECORD_HEADER_SIZE)).tolist()
    parts: list[bytes] = [b""] * (3 * count)
    parts[0::3] = [headers[start : start + RECORD_HEADER_SIZE] for start in range(0, len(headers), RECORD_HEADER_SIZE)]
    parts[1::3] = payloads
    parts[2::3] = [_PADS[pad] for pad in pads]
    return RecordColumns(b"".join(parts), size)


_HEADER_STRUCT: Final = Struct("<IBBHIIIHBBQQqqqIIHHHHHHHHQ")
assert _HEADER_STRUCT.size == RECORD_HEADER_SIZE


def encode_one_record(
    body: bytes,
    *,
    content_type: bytes = b"",
    tags: tuple[bytes, ...] = (),
    headers: bytes = b"",
    key: bytes = b"",
    target: bytes = b"",
    extension: bytes = b"",
) -> bytes:
    """Encode the record of one message as `encode_records` does, but leave due time and random bits zero too. This is
    cheaper, because a column of one costs as much as a column of a hundred."""
    tagged = _encode_tags(tags) if tags else b""
    payload = b"".join((tagged, headers, key, content_type, target, extension, body))
    assert len(payload) < _PAYLOAD_MAX, f"a record's payload has {len(payload)} bytes"
    size = (len(payload) + RECORD_HEADER_SIZE + 7) & ~7
    lengths = (len(tagged), len(headers), len(key), len(content_type), len(target), 0, len(extension))
    blanks = (0,) * 10  # from the id's hour to the topic
    header = _HEADER_STRUCT.pack(
        size, RECORD_VERSION, KIND_MESSAGE, 0, 0, zlib.crc32(payload), *blanks, len(body), *lengths, 0, 0
    )
    return header + payload + _PADS[size - RECORD_HEADER_SIZE - len(payload)]


def _encode_tags(tags: tuple[bytes, ...]) -> bytes:
    return b"".join([bytes((len(tag),)) + tag for tag in tags])


def patch(
    words: U64,
    size: U32,
    *,
    group: int,
    hour: I64,
    global_index: I64,
    topic: U32,
    created_ms: int | I64,
    homes: U64 | None = None,
) -> npt.NDArray[np.int64]:
    """Fill in id, topic, creation time and header checksum of a batch of records, in place, without a loop.

    `words` is the batch's blob as 64-bit words; the other columns are [n]. Returns the ordinal of each record's first
    word, [n]. `hour` and `global_index` are the units' positions. With `homes` the records are moved ones, whose ids
    name these positions. If all have one size, headers are written in place; if not, gathered and put back.
    """
    edges = record_edges(size)
    starts = edges[:-1]
    assert edges[-1] == len(words), f"records of {int(edges[-1]) * 8} bytes in a blob of {len(words) * 8}"
    at = None if len((size != size[0]).nonzero()[0]) == 0 else starts[:, None] + _WORDS
    rows = words.reshape(len(size), -1)[:, : len(_WORDS)] if at is None else words[at]
    header = rows.view(HEADER)[:, 0]
    assert not len((header["size"] != size).nonzero()[0]), "a record's size is not the size its batch names"
    header["id_group"] = group
    header["id_version"] = ID_VERSION
    if homes is None:
        header["id_hour"] = hour
        header["id_global_index"] = global_index
    else:
        header["id_hour"] = hours_of(homes)
        header["id_global_index"] = indexes_of(homes)
        header["flags"] = RECORD_MOVED
        header["place"] = hour << INDEX_BITS | global_index
    header["created_ms"] = created_ms
    header["topic"] = topic
    header["header_checksum"] = 0
    header["header_checksum"] = checksum_rows(rows)
    if at is not None:
        words[at] = rows
    return starts


def record_edges(size: U32) -> npt.NDArray[np.int64]:
    """The start of each record, in 64-bit words from the first one's, and the end of the last: [n + 1]."""
    edges = np.zeros(len(size) + 1, np.int64)
    np.add.accumulate(size >> _WORD_SHIFT, out=edges[1:])
    return edges


def check_headers(header: npt.NDArray[np.void], file: str, offsets: Sequence[int]) -> None:
    """Raise Corrupt or FormatRefused for the first of these record headers that is not as written."""
    words = header.view(np.uint64).reshape(-1, RECORD_HEADER_SIZE // 8)
    sums = checksum_rows(words, _CHECKSUM_FIELD)
    wrong = (sums != header["header_checksum"]).nonzero()[0]
    if len(wrong):
        row = int(wrong[0])
        found, expected = f"{int(sums[row]):08x}", f"{int(header['header_checksum'][row]):08x}"
        raise Corrupt(file, offsets[row], "record header checksum", found, expected)
    unusual = words[:, 0] & _VERSION_AND_FLAGS ^ _USUAL | words[:, _PLACE_WORD]
    if len(unusual.nonzero()[0]):
        _refuse_unknown(header, file, offsets)


def _refuse_unknown(header: npt.NDArray[np.void], file: str, offsets: Sequence[int]) -> None:
    moved = header["flags"] == RECORD_MOVED
    for name, known, supported in (
        ("version", header["version"] == RECORD_VERSION, str(RECORD_VERSION)),
        ("flags", moved | (header["flags"] == 0), f"0 and {RECORD_MOVED}"),
        ("place", moved | (header["place"] == 0), f"0 without the flag {RECORD_MOVED}"),
    ):
        other = np.flatnonzero(~known)
        if len(other):
            row = int(other[0])
            raise FormatRefused(f"{file} at byte {offsets[row]}", name, int(header[name][row]), supported)


def decode_records(data: bytes, starts: Sequence[int], file: str, offsets: Sequence[int]) -> list[Record]:
    """Decode records that begin at `starts` in `data`, and stand in `file` at `offsets`.

    Raises Corrupt with file and offset if a checksum, a length or the padding is not as written.
    """
    raw = b"".join([data[start : start + RECORD_HEADER_SIZE] for start in starts])
    if len(raw) != len(starts) * RECORD_HEADER_SIZE:
        last = max(starts)
        left = len(data) - last
        raise Corrupt(file, offsets[starts.index(last)], "record header length", left, RECORD_HEADER_SIZE)
    header = np.frombuffer(raw, HEADER)
    check_headers(header, file, offsets)
    rows = cast(list[tuple[Any, ...]], header.tolist())  # numpy's newer stubs say bytes or tuple
    return list(map(decode_payload, repeat(data), starts, rows, repeat(file), offsets))


def decode_record(data: bytes, file: str, offset: int) -> Record:
    """Decode the record that begins `data`, read from `file` at `offset`. Raises as decode_records."""
    return decode_records(data, [0], file, [offset])[0]


def decode_payload(data: bytes, start: int, header: tuple[Any, ...], file: str, offset: int) -> Record:
    """Decode the record that begins at `start`, whose checked header has these fields. Raises as decode_records."""
    (
        size, _, kind, flags, _, crc, hour, group, _, priority, global_index, random, asked_due_ms, created_ms,
        expiry_ms, topic, body_len, tags_len, headers_len, key_len, content_type_len, target_len, order_key_len,
        extension_len, attempt, place,
    ) = header  # fmt: skip
    before = tags_len + headers_len + key_len + content_type_len + target_len + order_key_len + extension_len
    at, end = start + RECORD_HEADER_SIZE, start + size
    body_at = at + before
    body_end = body_at + body_len
    if not (0 <= end - body_end < 8 and end <= len(data)):
        raise Corrupt(file, offset, "record length", f"{size} with {len(data) - start} left", body_end - start)
    found = zlib.crc32(data[at:body_end])
    if found != crc:
        raise Corrupt(file, offset, "record payload checksum", f"{found:08x}", f"{crc:08x}")
    if data[body_end:end] != _PADS[end - body_end]:
        raise Corrupt(file, offset, "record padding", data[body_end:end].hex(), "zeros")
    position = pack(hour, global_index)
    if not flags:
        place = position
    body = data[body_at:body_end]
    if not before:
        return Record(
            group, position, place, random, topic, kind, priority, attempt, flags, asked_due_ms, created_ms, expiry_ms,
            (), {}, b"", "", b"", b"", {}, body,
        )  # fmt: skip
    parts = []
    for length in (tags_len, headers_len, key_len, content_type_len, target_len, order_key_len, extension_len):
        parts.append(data[at : at + length])
        at += length
    tags, headers, key, content_type, target, order_key, extension = parts
    return Record(
        group, position, place, random, topic, kind, priority, attempt, flags, asked_due_ms, created_ms, expiry_ms,
        _decode_tags(tags) if tags else (), msgpack.unpackb(headers) if headers else {}, key, content_type.decode(),
        target, order_key, msgpack.unpackb(extension) if extension else {}, body,
    )  # fmt: skip


def _decode_tags(data: bytes) -> tuple[str, ...]:
    tags = []
    at = 0
    while at < len(data):
        end = at + 1 + data[at]
        tags.append(data[at + 1 : end].decode())
        at = end
    return tuple(tags)
