"""Reads the records of a whole segment in few steps, because a journal of a gigabyte holds millions of small ones.

Only two things take a step per record, each one call into C: following the lengths, and the checksum. Everything else
is checked in columns. `decode_record` defines when a record is whole; a test compares the two.
"""

import struct
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from replication.journal.record import HEAD_SIZE, Record
from storage.format.array import I64

HEAD: Final = np.dtype(
    [
        ("check", "<u4"),
        ("length", "<u4"),
        ("offset", "<u4"),
        ("batch", "<u4"),
        ("index", "<u8"),
        ("term", "<u4"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("reserved", "<u2"),
    ]
)
"""The head of a record, see replication/journal/record.py."""
assert HEAD.itemsize == HEAD_SIZE

Heads = npt.NDArray[np.void]

_LENGTH: Final = struct.Struct("<4xI")
_CHECK_SIZE: Final = 4


def whole_records(data: bytes, start: int, seed: int) -> Heads:
    """The heads of the records from the offset `start` on, dtype HEAD. They end before the first record that is not
    whole.
    """
    offsets = _follow(data, start)
    heads = _gather(data, offsets)
    ends = offsets + HEAD_SIZE + heads["length"]
    heads = heads[: _first_false((heads["offset"] == offsets) & (heads["kind"] > 0) & (ends <= len(data)))]
    places = zip((offsets[: len(heads)] + _CHECK_SIZE).tolist(), ends.tolist(), strict=False)
    extend = google_crc32c.extend
    checks = np.array([extend(seed, data[first:end]) for first, end in places], np.uint32)
    return heads[: _first_false(checks == heads["check"])]


def record_of(heads: Heads, row: int) -> Record:
    """The head of this row as a Record."""
    _, length, offset, batch, index, term, kind, flags, reserved = heads[row].tolist()
    body = offset + HEAD_SIZE
    return Record(offset, body, body + length, batch, index, term, kind, flags, reserved)


def _follow(data: bytes, offset: int) -> I64:
    """The offsets at which records begin, found by following their lengths from `offset` on. No length is checked."""
    offsets: list[int] = []
    last = len(data) - HEAD_SIZE
    read, note = _LENGTH.unpack_from, offsets.append
    while offset <= last:
        note(offset)
        offset += HEAD_SIZE + read(data, offset)[0]
    return np.array(offsets, np.int64)


def _gather(data: bytes, offsets: I64) -> Heads:
    """The heads at these offsets, each copied whole."""
    whole = np.dtype((np.void, HEAD_SIZE))
    anywhere = np.ndarray(max(0, len(data) - HEAD_SIZE + 1), whole, data, strides=(1,))
    return anywhere[offsets].view(HEAD)


def _first_false(sound: npt.NDArray[np.bool_]) -> int:
    wrong = np.flatnonzero(~sound)
    return int(wrong[0]) if len(wrong) else len(sound)
