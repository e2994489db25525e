"""From parsed messages to the columns of one Schedule: the last place with Python work per message.

All requests that wait are encoded together, at the moment they are proposed, so that 64 clients with one message each
cost one pass of numpy, not 64. A column that no message uses is not built.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgpack
import msgspec
import numpy as np
import numpy.typing as npt

from api.port.port import MessageIn, RetryPolicy, Target
from replication.command.schedule import ON_CONFLICT, Key, Schedule
from storage.format.record import Drafts, encode_records
from storage.format.tag_filter import tags_mask

_tags = attrgetter("tags")
_headers = attrgetter("headers")
_keys = attrgetter("key")
_content_types = attrgetter("content_type")
_targets = attrgetter("target")
_retries = attrgetter("retry")
_delays = attrgetter("delay_ms")
_deliver_ats = attrgetter("deliver_at_ms")


def encode_schedule(messages: Sequence[MessageIn], *, now_ms: int, random: npt.NDArray[np.uint64]) -> Schedule:
    """The Schedule of these messages, with due times made absolute by the leader's stamp; `random` are their ids' bits.

    A due time in the past is now: the message is due at once, and its lateness is measured from here.
    """
    due_ms = _due(messages, now_ms)
    topics: dict[str, int] = {}
    topic = np.fromiter((topics.setdefault(m.topic, len(topics)) for m in messages), np.uint16, len(messages))
    tagged = any(map(_tags, messages))
    tags = [tuple(tag.encode() for tag in m.tags) for m in messages] if tagged else None
    keyed = any(m.key is not None for m in messages)
    records = encode_records(
        Drafts(
            bodies=[m.body for m in messages],
            asked_due_ms=due_ms,
            random=random,
            content_types=[m.content_type.encode() for m in messages] if any(map(_content_types, messages)) else None,
            tags=tags,
            headers=[m.headers for m in messages] if any(map(_headers, messages)) else None,
            keys=[(m.key or "").encode() for m in messages] if keyed else None,
            targets=(
                [encode_target(m.target) if m.target else b"" for m in messages]
                if any(map(_targets, messages))
                else None
            ),
            extensions=(
                [_extension(m.retry) if m.retry else b"" for m in messages] if any(map(_retries, messages)) else None
            ),
        )
    )
    return Schedule(
        topics=tuple(topics),
        due_ms=due_ms,
        size=records.size,
        blob=records.blob,
        topic=topic,
        tags=np.array([tags_mask(row) for row in tags], np.uint64) if tags else np.empty(0, np.uint64),
        keys=_keys_of(messages) if keyed else (),
    )


def encode_target(target: Target) -> bytes:
    """A message's own target as its record keeps it: a msgpack map of the fields that it has."""
    packed: bytes = msgpack.packb(_filled(target))
    return packed


def _extension(retry: RetryPolicy) -> bytes:
    """What the record keeps beside its fixed fields: the parts of the retry policy that were sent."""
    packed: bytes = msgpack.packb({"retry": _filled(retry)})
    return packed


def _filled(struct: Target | RetryPolicy) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(struct).items() if value is not None}


def _due(messages: Sequence[MessageIn], now_ms: int) -> npt.NDArray[np.int64]:
    count = len(messages)
    delays, deliver_ats = list(map(_delays, messages)), list(map(_deliver_ats, messages))
    if not any(delays) and None not in deliver_ats:
        return np.maximum(np.array(deliver_ats, np.int64), now_ms)
    due = (at if at is not None else now_ms + (delay or 0) for at, delay in zip(deliver_ats, delays, strict=True))
    return np.maximum(np.fromiter(due, np.int64, count), now_ms)


def _keys_of(messages: Sequence[MessageIn]) -> tuple[Key, ...]:
    return tuple(
        Key(row, m.key.encode(), m.fingerprint or bytes(16), ON_CONFLICT.index(m.on_conflict))
        for row, m in enumerate(messages)
        if m.key is not None
    )
