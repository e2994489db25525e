"""The bytes of the journal's records. The journal alone says what the log is, and what this node promised in votes.

One append-only sequence of records holds entries, truncations and term, vote and commit alike. So their order on disk
is the order of the decisions. A crash never leaves a vote without the records that were written before it.

Files are segments, `<sequence, 20 digits>.seg`. The sequence names them and not the first index, because after a
truncation two segments may begin with the same index. All numbers are little endian. A segment starts with the 64-byte
header of storage/format/rows.py (magic HWJRNL), an OPENING and a META. The other records follow:
```
 0       4        8        12      16      24     28     29      30         32
 | check | length | offset | batch | index | term | kind | flags | reserved | body ... |
```
- `check` is the CRC32C of everything behind it, body included, started from the CRC32C of the sequence. So a record is
  whole only in its own segment.
- `length` counts the body's bytes.
- `offset` is the record's place in the segment. So a record is whole only at its own place. A copy of a record inside a
  message body is none. And a search for records need not follow the lengths from the start.
- `batch` is the offset at which the write of this record began. Writes go to disk one at a time, each with its own
  fdatasync. So every byte below `batch` was durable before the first byte of this record was written. That tells a
  broken middle from a torn tail (replication/journal/recovery.py).

| kind | index | term | flags | body |
|---|---|---|---|---|
| 1 ENTRY | of the entry | of the entry | 0 | the command |
| 2 TRUNCATE | entries from this one on are gone | current | 0 | empty |
| 3 META | commit index | current term | bit 0 voter, bit 1 voted | node id voted for, UTF-8 |
| 4 OPENING | next index, 0 if the log is empty | of the last entry | 0 | sequence u64 |
"""

import struct
from typing import Final, NamedTuple

import google_crc32c
import numpy as np

ENTRY: Final = 1
TRUNCATE: Final = 2
META: Final = 3
OPENING: Final = 4
"""Zero is never a valid kind: a hole reads as damage."""

VOTER: Final = 1
VOTED: Final = 2
"""Flags of a META record."""

NO_OP: Final = b"\x01"
"""The body of an ENTRY that is the library's no-op and holds no command. No other entry has one byte."""

HEAD_SIZE: Final = 32
OFFSET_MAX: Final = (1 << 32) - 1
"""Offsets are u32. A segment ends far below 4 GiB, however late its fdatasync comes."""

_CHECK: Final = struct.Struct("<I")
_REST: Final = struct.Struct("<IIIQIBBH")
_SEQUENCE: Final = struct.Struct("<Q")
_OFFSET_AT: Final = 8
BATCH_AT: Final = 12
KIND_AT: Final = 28
"""Offsets of `batch` and `kind` in a head."""
assert _CHECK.size + _REST.size == HEAD_SIZE

_extend = google_crc32c.extend


class Record(NamedTuple):
    """The head of a whole record. The record stands in its file from byte `offset` to byte `end`, and its body from
    byte `body` on. `entry` is the index field of the head.
    """

    offset: int
    body: int
    end: int
    batch: int
    entry: int
    term: int
    kind: int
    flags: int
    reserved: int


def seed_of(sequence: int) -> int:
    """The CRC32C from which the checks of all records in the segment of this sequence start."""
    return int(google_crc32c.value(_SEQUENCE.pack(sequence)))


def encode_head(
    seed: int, offset: int, batch: int, kind: int, index: int, term: int, body: bytes, flags: int = 0
) -> bytes:
    """The 32 bytes before `body`. The body is read once (its CRC) and not copied."""
    rest = _REST.pack(len(body), offset, batch, index, term, kind, flags, 0)
    return _CHECK.pack(_extend(_extend(seed, rest), body)) + rest


def opening_body(sequence: int) -> bytes:
    """The body of an OPENING: the sequence of its segment, to be compared with the file's name."""
    return _SEQUENCE.pack(sequence)


def decode_record(data: bytes, offset: int, seed: int) -> Record | None:
    """The record at `offset` of a segment's bytes, or None if there is no whole record."""
    if offset + HEAD_SIZE > len(data):
        return None
    length, place, batch, index, term, kind, flags, reserved = _REST.unpack_from(data, offset + _CHECK.size)
    end = offset + HEAD_SIZE + length
    if place != offset or not kind or end > len(data):
        return None
    if _extend(seed, data[offset + _CHECK.size : end]) != _CHECK.unpack_from(data, offset)[0]:
        return None
    return Record(offset, offset + HEAD_SIZE, end, batch, index, term, kind, flags, reserved)


def find_proof(data: bytes, bad: int, seed: int) -> Record | None:
    """A whole record behind `bad` that was written after the byte at `bad` was durable. None if there is no such
    record.

    Such a record proves that `bad` is damage, and not the torn end of the last write. A place is checked only if the
    bytes of a record's `offset` field there would be right. Such places are found vectorised, so a segment full of
    message bodies is searched in a fraction of a second.
    """
    for shift in range(4):
        start = bad + 1 + shift
        count = (len(data) - start - _OFFSET_AT) // 4
        if count <= 0:
            continue
        words = np.frombuffer(data, "<u4", count=count, offset=start + _OFFSET_AT)
        places = np.arange(start, start + 4 * count, 4, dtype=np.uint32)
        for place in places[words == places].tolist():
            record = decode_record(data, place, seed)
            if record is not None and record.batch > bad:
                return record
    return None
