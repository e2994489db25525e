"""Encodes records again for a move: the same message, with some fields changed.

Each record takes Python work of its own. That is fast enough, because moves are rare: only a failure or a client's
request makes one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
from msgspec import structs

from storage.format.array import I64, U16, U32
from storage.record.record import (
    EXTENSION_OF_APPLY,
    Drafts,
    Record,
    RecordColumns,
    decode_records,
    encode_records,
    patch,
)


def read_drafts(blob: memoryview | bytes, size: U32) -> list[Record]:
    """Decode records that are not appended yet. Their ids, topics and creation times are 0. Raises Corrupt if a record
    is not as `encode_records` writes it."""
    words, zeros = np.frombuffer(bytearray(blob), np.uint64), np.zeros(len(size), np.int64)
    starts = patch(
        words, size, group=0, hour=zeros, global_index=zeros, topic=np.zeros(len(size), np.uint32), created_ms=0
    )
    offsets: list[int] = (8 * starts).tolist()
    return decode_records(words.tobytes(), offsets, "a command", offsets)


def drafts_of(records: Sequence[Record]) -> Drafts:
    """The drafts of these records, as read back: all fields but id, topic and creation time."""
    count = len(records)
    return Drafts(
        bodies=[record.body for record in records],
        asked_due_ms=np.fromiter((record.asked_due_ms for record in records), np.int64, count),
        random=np.fromiter((record.random for record in records), np.uint64, count),
        content_types=_column([record.content_type.encode() for record in records]),
        tags=_tags([tuple(tag.encode() for tag in record.tags) for record in records]),
        headers=_column([pack_map(record.headers) for record in records]),
        keys=_column([record.key for record in records]),
        targets=_column([record.target for record in records]),
        order_keys=_column([record.order_key for record in records]),
        extensions=_column([pack_map(record.extension) for record in records]),
        attempts=np.fromiter((record.attempt for record in records), np.uint16, count),
        priority=np.fromiter((record.priority for record in records), np.uint8, count),
        expiry_ms=np.fromiter((record.expiry_ms for record in records), np.int64, count),
    )


def redraft(
    records: Sequence[Record],
    *,
    asked_due_ms: I64 | None = None,
    attempts: U16 | None = None,
    extensions: Sequence[dict[str, Any]] | None = None,
) -> RecordColumns:
    """Encode the records again, to be appended with their homes. A column that is given replaces that field of the
    records. For None the records keep their own. `extensions` replace the whole extension map of each record."""
    drafts = drafts_of(records)
    if asked_due_ms is not None:
        drafts = replace(drafts, asked_due_ms=asked_due_ms)
    if attempts is not None:
        drafts = replace(drafts, attempts=attempts)
    if extensions is not None:
        drafts = replace(drafts, extensions=_column([pack_map(extension) for extension in extensions]))
    return encode_records(drafts)


def with_content_of(holder: Record, request: Record) -> Record:
    """The holder's record with the content of a request: all but id, creation time, and what apply keeps in it."""
    own = {name: value for name, value in holder.extension.items() if name in EXTENSION_OF_APPLY}
    return structs.replace(
        holder,
        priority=request.priority,
        asked_due_ms=request.asked_due_ms,
        expiry_ms=request.expiry_ms,
        tags=request.tags,
        headers=request.headers,
        content_type=request.content_type,
        target=request.target,
        order_key=request.order_key,
        extension=request.extension | own,
        body=request.body,
    )


def pack_map(fields: dict[str, Any]) -> bytes:
    """Encode a map as records hold it. An empty map is no bytes at all."""
    packed: bytes = msgpack.packb(fields) if fields else b""
    return packed


def _column(values: list[bytes]) -> list[bytes] | None:
    return values if any(values) else None


def _tags(values: list[tuple[bytes, ...]]) -> list[tuple[bytes, ...]] | None:
    return values if any(values) else None
