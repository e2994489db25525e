"""Encodes records again for a move: the same message, with some fields changed.

Each record takes Python work of its own. That is fast enough, because moves are rare: only a failure or a client's
request makes one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np

from storage.format.array import I64, U16
from storage.record.record import Drafts, Record, RecordColumns, encode_records


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


def pack_map(fields: dict[str, Any]) -> bytes:
    """Encode a map as records hold it. An empty map is no bytes at all."""
    packed: bytes = msgpack.packb(fields) if fields else b""
    return packed


def _column(values: list[bytes]) -> list[bytes] | None:
    return values if any(values) else None


def _tags(values: list[tuple[bytes, ...]]) -> list[tuple[bytes, ...]] | None:
    return values if any(values) else None
