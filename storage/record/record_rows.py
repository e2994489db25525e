"""Many records at once, for a hand-over of a thousand: headers as one array, bodies as a list.

The checks are those of `record.decode_records`, but in columns. Python work for a single record is only the checksum of
its payload and the slice of its body. Only a record with optional parts (tags, headers, a key) becomes an object.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64
from storage.format.position import INDEX_BITS
from storage.format.rows import Corrupt
from storage.record.record import HEADER, RECORD_HEADER_SIZE, RECORD_MOVED, Record, check_headers, decode_payload

_WORDS = np.arange(RECORD_HEADER_SIZE // 8)
_PARTS = (
    "tags_len",
    "headers_len",
    "key_len",
    "content_type_len",
    "target_len",
    "order_key_len",
    "extension_len",
)


FEW: Final = 16
"""Up to this many records are read faster one by one, because a column of one costs as much as a column of a
hundred."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordRows:
    """Records as read back, all checksums verified: columns of shape [n], `bodies` n entries.

    `rest` holds, by row, the whole Record of each message that has a priority or an optional part beside its body.
    """

    position: U64  # where each was born
    place: U64  # where this unit of it stands
    random: U64
    asked_due_ms: I64
    created_ms: I64
    bodies: list[bytes]
    rest: dict[int, Record]

    def __len__(self) -> int:
        return len(self.bodies)

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordRows:
        """The rows of records that were read one by one."""
        return cls(
            np.array([record.position for record in records], np.uint64),
            np.array([record.place for record in records], np.uint64),
            np.array([record.random for record in records], np.uint64),
            np.array([record.asked_due_ms for record in records], np.int64),
            np.array([record.created_ms for record in records], np.int64),
            [record.body for record in records],
            {row: record for row, record in enumerate(records) if not record.plain},
        )

    @classmethod
    def joined(cls, parts: list[tuple[npt.NDArray[np.intp] | slice, RecordRows]], count: int) -> RecordRows:
        """Join parts into `count` rows. With each part comes the index array or slice of the result's rows that it
        fills."""
        if len(parts) == 1 and isinstance(parts[0][0], slice):
            return parts[0][1]
        position, place, random = (np.empty(count, np.uint64) for _ in range(3))
        asked_due_ms, created_ms = (np.empty(count, np.int64) for _ in range(2))
        whole = cls(position, place, random, asked_due_ms, created_ms, [b""] * count, {})
        places = np.arange(count)
        for rows, part in parts:
            for column, values in zip(whole._columns, part._columns, strict=True):
                column[rows] = values
            at = places[rows].tolist()
            for row, body in zip(at, part.bodies, strict=True):
                whole.bodies[row] = body
            whole.rest.update({at[row]: record for row, record in part.rest.items()})
        return whole

    @property
    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.position, self.place, self.random, self.asked_due_ms, self.created_ms


def home_of(header: npt.NDArray[np.void]) -> U64:
    """The positions of the ids in these headers."""
    home: U64 = header["id_hour"].astype(np.uint64) << np.uint64(INDEX_BITS) | header["id_global_index"]
    return home


def decode_rows(data: bytes, starts: I64, file: str, offsets: I64) -> RecordRows:
    """Decode records that begin at `starts` in `data`, multiples of 8, and stand in `file` at `offsets`. Shape [n]
    each.

    Raises as decode_records.
    """
    words = np.frombuffer(data, np.uint64, len(data) // 8)
    first = starts >> 3
    short = np.flatnonzero(starts + RECORD_HEADER_SIZE > len(data))
    if len(short):
        row = int(short[0])
        raise Corrupt(file, int(offsets[row]), "record header length", len(data) - int(starts[row]), RECORD_HEADER_SIZE)
    header = words[first[:, None] + _WORDS].view(HEADER)[:, 0]
    check_headers(header, file, offsets.tolist())
    before = sum(header[name].astype(np.int64) for name in _PARTS)
    payload = starts + RECORD_HEADER_SIZE
    body = payload + before
    body_end, end = body + header["body_len"], starts + header["size"]
    pads = end - body_end
    wrong = np.flatnonzero((pads < 0) | (pads >= 8) | (end > len(data)))
    if len(wrong):
        row = int(wrong[0])
        found = f"{int(header['size'][row])} with {len(data) - int(starts[row])} left"
        raise Corrupt(file, int(offsets[row]), "record length", found, int(body_end[row] - starts[row]))
    ends = body_end.tolist()
    bodies = [data[at:to] for at, to in zip(body.tolist(), ends, strict=True)]
    more = np.flatnonzero(before + header["priority"])
    payloads = [data[at:to] for at, to in zip(payload.tolist(), ends, strict=True)] if len(more) else bodies
    _check_payloads(header["payload_crc"], payloads, file, offsets)
    _check_padding(words, end, pads, file, offsets)
    rest = {
        row: decode_payload(data, int(starts[row]), header[row].item(), file, int(offsets[row]))
        for row in more.tolist()
    }
    position = home_of(header)
    return RecordRows(
        position,
        np.where(header["flags"] == RECORD_MOVED, header["place"], position),
        np.ascontiguousarray(header["random"]),
        np.ascontiguousarray(header["asked_due_ms"]),
        np.ascontiguousarray(header["created_ms"]),
        bodies,
        rest,
    )


def _check_payloads(expected: npt.NDArray[np.uint32], payloads: list[bytes], file: str, offsets: I64) -> None:
    found = np.fromiter(map(zlib.crc32, payloads), np.uint32, len(payloads))
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        row = int(wrong[0])
        raise Corrupt(
            file, int(offsets[row]), "record payload checksum", f"{int(found[row]):08x}", f"{int(expected[row]):08x}"
        )


def _check_padding(words: U64, end: I64, pads: I64, file: str, offsets: I64) -> None:
    """Raise Corrupt unless the last `pads` bytes of each record, the high bytes of its last word, are zero."""
    shift = ((8 - pads) * 8 & 63).astype(np.uint64)
    last = np.where(pads > 0, words[(end >> 3) - 1] >> shift, np.uint64(0))
    wrong = np.flatnonzero(last)
    if len(wrong):
        row = int(wrong[0])
        raise Corrupt(file, int(offsets[row]), "record padding", f"{int(last[row]):x}", "zeros")
