"""Holds the new messages of a request while they wait to be written: structs of a call in this process, or a draft.
Also counts how many bytes an entry has left for them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Protocol

import numpy as np

from api.port.port import MessageIn
from node.port.draft import Draft, encode_draft, encode_target, headers_in, part_of
from storage.format.position import HOUR_MS

#: One entry has at most so many bytes of messages, so that other requests do not wait long while it is written and
#: applied. That is 8,000 small messages, encoded in 8 ms. Entries of twice the size are no faster (`bench.run spread`).
ENTRY_BYTES_MAX = 3 * 512 * 1024
#: So many bytes of one request are taken before the next request has its turn: about a sixth of an entry.
BLOCK_BYTES = 256 * 1024
#: Bytes of a record and its columns, without the parts of variable length, and bytes of the columns alone.
ROW_BYTES: Final = 160
COLUMN_BYTES: Final = 64
#: A header or a tag counts as so many bytes in addition to its own. It takes only as long as 40 bytes, but rows with
#: many are large. While entries had 3 MiB of such rows, an ack had to wait 0.15 s for its entry.
FIELD_BYTES: Final = 240
#: The first row of an hour, or of a topic, counts as so many bytes in addition to its own. A new hour takes a node
#: 1.3 us more, as long as 1 KB of rows. A new topic takes 6 to 10 us, as long as 8 KB.
HOUR_BYTES: Final = 1024
TOPIC_BYTES: Final = 8 * 1024

_body = attrgetter("body")


class EntryRoom:
    """Counts how many bytes of messages one entry may still take. An hour or topic that no message in the entry had
    before costs bytes, too."""

    def __init__(self, now_ms: int) -> None:
        self.room = ENTRY_BYTES_MAX
        self._now_ms = now_ms
        self._hours: set[int] = set()
        self._topics: set[str] = set()

    def take(self, messages: Sequence[MessageIn]) -> int:
        """Put messages into the entry, from the first on, and return how many went in. Stop after the message with
        which they reach BLOCK_BYTES or fill the entry. This loops over every message that is scheduled, in 0.25 us a
        row."""
        now_ms, hours, topics, room = self._now_ms, self._hours, self._topics, self.room
        left = max(0, room - BLOCK_BYTES)
        rows = 0
        for message in messages:
            if room <= left:
                break
            due_ms = message.due_ms or now_ms + (message.delay_ms or 0)
            hour = (due_ms if due_ms > now_ms else now_ms) // HOUR_MS
            if hour not in hours:
                hours.add(hour)
                room -= HOUR_BYTES
            if message.topic not in topics:
                topics.add(message.topic)
                room -= TOPIC_BYTES
            room -= len(message.body) + ROW_BYTES
            more = message.headers or message.tags or message.extension
            if more or message.target is not None or message.key is not None:
                room -= _more_size(message)
            rows += 1
        self.room = room
        return rows

    def take_draft(self, draft: Draft, start: int, stop: int) -> int:
        """Put rows `start` to `stop` of a draft into the entry, as `take` does with messages."""
        if len(draft) == 1:
            return self._take_one(draft)
        rows = slice(start, stop)
        relative = np.frombuffer(draft.relative, np.uint8)[rows].astype(np.int64)
        due_ms = np.maximum(np.frombuffer(draft.due_ms, np.int64)[rows] + relative * self._now_ms, self._now_ms)
        price = np.frombuffer(draft.size, np.uint32)[rows].astype(np.int64) + COLUMN_BYTES
        if draft.fields:
            price += np.frombuffer(draft.fields, np.uint16)[rows].astype(np.int64) * FIELD_BYTES
        hours, first_of_hour = np.unique(due_ms // HOUR_MS, return_index=True)
        topics, first_of_topic = np.unique(np.frombuffer(draft.topic, np.uint16)[rows], return_index=True)
        hours_at = dict(zip(first_of_hour.tolist(), hours.tolist(), strict=True))
        names = [draft.topics[number] for number in topics.tolist()]
        topics_at = dict(zip(first_of_topic.tolist(), names, strict=True))
        price[[at for at, hour in hours_at.items() if hour not in self._hours]] += HOUR_BYTES
        price[[at for at, topic in topics_at.items() if topic not in self._topics]] += TOPIC_BYTES
        spent = np.cumsum(price)
        left = max(0, self.room - BLOCK_BYTES)
        taken = min(len(spent), int(np.searchsorted(spent, self.room - left)) + 1)
        self.room -= int(spent[taken - 1])
        self._hours.update(hour for at, hour in hours_at.items() if at < taken)
        self._topics.update(topic for at, topic in topics_at.items() if at < taken)
        return taken

    def _take_one(self, draft: Draft) -> int:
        """Put a draft of one row into the entry, as `take` does, without making an array. Return 1."""
        due_ms = int.from_bytes(draft.due_ms, "little", signed=True) + (self._now_ms if draft.relative[0] else 0)
        hour, topic = max(due_ms, self._now_ms) // HOUR_MS, draft.topics[0]
        price = len(draft.records) + COLUMN_BYTES + int.from_bytes(draft.fields, "little") * FIELD_BYTES
        if hour not in self._hours:
            self._hours.add(hour)
            price += HOUR_BYTES
        if topic not in self._topics:
            self._topics.add(topic)
            price += TOPIC_BYTES
        self.room -= price
        return 1


class NewRows(Protocol):
    """The new rows of one request: their number, and the bytes of bodies that wait with them."""

    count: int
    size: int

    def fit(self, room: EntryRoom, start: int, stop: int) -> int:
        """Put rows `start` to `stop` into an entry, from the first on. Return how many went in."""

    def draft(self, start: int, stop: int) -> Draft:
        """Return a draft of rows `start` to `stop`."""


class MessageRows:
    """Messages of a call in this process, as structs. See NewRows."""

    __slots__ = ("count", "messages", "size")

    def __init__(self, messages: Sequence[MessageIn]) -> None:
        self.messages, self.count = messages, len(messages)
        self.size = sum(map(len, map(_body, messages))) if self.count > 1 else len(messages[0].body)

    def fit(self, room: EntryRoom, start: int, stop: int) -> int:
        """See NewRows."""
        return room.take(self.messages[start:stop])

    def draft(self, start: int, stop: int) -> Draft:
        """See NewRows."""
        return encode_draft(self.messages[start:stop])


class DraftRows:
    """A draft that `check_draft` has accepted. See NewRows."""

    __slots__ = ("_draft", "count", "size")

    def __init__(self, draft: Draft) -> None:
        self._draft, self.count, self.size = draft, len(draft), len(draft.records)

    def fit(self, room: EntryRoom, start: int, stop: int) -> int:
        """See NewRows."""
        return room.take_draft(self._draft, start, stop)

    def draft(self, start: int, stop: int) -> Draft:
        """See NewRows."""
        return part_of(self._draft, start, stop)


def _more_size(message: MessageIn) -> int:
    """The bytes that all parts of a message but its body count for in an entry. A part that takes longer than its size
    tells counts for more bytes."""
    size = len(message.extension)
    if message.headers:
        size += len(message.headers) + headers_in(message.headers) * FIELD_BYTES
    if message.tags:
        size += _utf8_bytes("".join(message.tags)) + len(message.tags) * FIELD_BYTES
    if message.target is not None:
        size += len(encode_target(message.target))
    if message.key is not None:
        size += 2 * len(message.key.encode()) + 32  # in the record and in the list of keys
    return size


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
