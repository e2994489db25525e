"""Stamps new messages and makes one Schedule of them: due times become absolute, random bits are filled in.

All requests that wait are encoded together, at the moment they are proposed. So 64 clients with one message each cost
one pass of numpy, not 64. Structs are encoded in one pass over their fields. Drafts are joined as bytes, and due times
and random bits are written into them. A due time in the past becomes now: the message is due at once, and its lateness
is measured from now.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from api.port.port import MessageIn
from node.port.draft import Draft, encode_messages, keys_of, topics_of
from replication.command.schedule import Key, Schedule
from storage.format.array import I64, U64
from storage.record.record import DUE_WORD, RANDOM_WORD, record_edges

_delays = attrgetter("delay_ms")
_due_times = attrgetter("due_ms")


def stamp_messages(messages: Sequence[MessageIn], *, now_ms: int, random: U64) -> Schedule:
    """Make the Schedule of these messages. `random` has the random bits of their ids. This is the last step that works
    on each message in Python."""
    due_ms, (topics, topic) = _due(messages, now_ms), topics_of(messages)
    records, tags = encode_messages(messages, due_ms, random)
    keys = tuple(Key(*key) for key in keys_of(messages))
    return Schedule(topics, due_ms, records.size, records.blob, topic, tags, keys)


def stamp_draft(draft: Draft, *, now_ms: int, random: U64) -> Schedule:
    """Make the Schedule of a draft's rows. `random` has the random bits of their ids."""
    size = np.frombuffer(draft.size, np.uint32)
    due_ms = np.frombuffer(draft.due_ms, np.int64) + np.frombuffer(draft.relative, np.uint8).astype(np.int64) * now_ms
    due_ms = np.maximum(due_ms, now_ms)
    words = np.frombuffer(bytearray(draft.records), np.uint64)
    starts = record_edges(size)[:-1]
    words[starts + RANDOM_WORD], words[starts + DUE_WORD] = random, due_ms.view(np.uint64)
    return Schedule(
        topics=draft.topics,
        due_ms=due_ms,
        size=size,
        blob=words.tobytes(),
        topic=np.frombuffer(draft.topic, np.uint16),
        tags=np.frombuffer(draft.tags, np.uint64),
        keys=tuple(Key(key.row, key.key, key.fingerprint, key.on_conflict) for key in draft.keys),
    )


def _due(messages: Sequence[MessageIn], now_ms: int) -> I64:
    count = len(messages)
    delays, due_times = list(map(_delays, messages)), list(map(_due_times, messages))
    if not any(delays) and None not in due_times:
        return np.maximum(np.array(due_times, np.int64), now_ms)
    due = (at if at is not None else now_ms + (delay or 0) for at, delay in zip(due_times, delays, strict=True))
    return np.maximum(np.fromiter(due, np.int64, count), now_ms)
