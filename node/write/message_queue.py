"""Messages that wait on the leader to be written: requests in, one Schedule per entry out.

Requests are in turn: a block of rows of each, as many as an entry has room for. So one message waits for an entry or
two, however large the batches before it are. A batch leaves the queue in several entries, and its request is answered
when the last of them is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from api.port.port import MessageIn
from api.port.problem import Problem
from node.draft import encode_schedule, encode_target
from node.port.message_port import Scheduled
from node.runtime.entropy import Entropy
from node.write.command_queues import Section
from replication.apply.message.schedule import Scheduled as Applied
from storage.format.position import HOUR_MS

#: Bounds of one entry, so that nobody waits long while it is written or applied: bytes of messages, and rows. 8,000
#: small messages have so many bytes, and are encoded in 8 ms; twice as many are no faster (`bench.run spread`).
ENTRY_BYTES_MAX = 3 * 512 * 1024
ENTRY_ROWS_MAX = 20_000
#: Of one request at a time, while others wait: about a sixth of an entry's bytes.
BLOCK_ROWS = 1_024
BLOCK_BYTES = 256 * 1024
#: Bodies that may wait to be written, in bytes: on a disk that stands still they would fill the memory.
WAITING_BYTES_MAX = 256 * 1024 * 1024
#: What a record and its columns hold beside the parts of variable length.
ROW_BYTES = 160
#: A header or a tag counts as so many bytes beside its own. It takes as long as 40 do; but batches that have many are
#: large, and while entries of 3 MiB of them went, an acknowledgement waited 0.15 s for its own.
FIELD_BYTES = 240
#: The first row of an hour, or of a topic, counts as so many bytes beside its own. A new hour takes a node 1.3 us, as
#: long as 1 KB of other rows. A new topic takes 6 to 10 us, as long as 8 KB.
HOUR_BYTES = 1024
TOPIC_BYTES = 8 * 1024


_body = attrgetter("body")

Part = tuple[int, int, Scheduled | str]  # first row, rows, and their result or the error they met


@dataclass(slots=True)
class Request:
    """A request's messages in the queue; an oversized batch leaves it in several entries."""

    messages: Sequence[MessageIn]
    future: asyncio.Future[list[Part]]
    body_bytes: int
    taken: int = 0  # rows that were put into entries
    answered: int = 0  # rows whose part is known; invariant: answered <= taken
    parts: list[Part] = field(default_factory=list)

    def answer(self, start: int, rows: int, result: Scheduled | str) -> None:
        """The part of the rows from `start` on is known; the last part resolves the future, in row order."""
        self.parts.append((start, rows, result))
        self.answered += rows
        if self.answered == len(self.messages) and not self.future.done():
            if len(self.parts) > 1:
                self.parts.sort(key=_first_row)
            self.future.set_result(self.parts)


class MessageQueue:
    """Requests with messages. `rows` of them wait; `taken` were put into entries so far."""

    def __init__(self, entropy: Entropy, rows_max: int) -> None:
        self.rows = 0
        self.taken = 0
        #: Requests that the newest entry answered, if each had but one message; the proposer sets it back.
        self.singles = 0
        self._bytes = 0  # of the bodies of requests that wait, whole or in part
        self._entropy = entropy
        self._rows_max = rows_max
        self._requests: deque[Request] = deque()

    @property
    def requests(self) -> int:
        """Requests that wait, or the rest of them."""
        return len(self._requests)

    def add(self, messages: Sequence[MessageIn]) -> asyncio.Future[list[Part]]:
        """One more request. Raises `over-limit`."""
        if self.rows and self.rows + len(messages) > self._rows_max:
            raise Problem(
                "over-limit",
                f"{self.rows} messages wait to be written, at most {self._rows_max} may; send again later",
            )
        body_bytes = sum(map(len, map(_body, messages)))
        if self._bytes and self._bytes + body_bytes > WAITING_BYTES_MAX:
            raise Problem(
                "over-limit",
                f"{self._bytes} bytes of messages wait to be written, at most {WAITING_BYTES_MAX} may; send later",
            )
        future: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self._requests.append(Request(messages, future, body_bytes))
        self.rows += len(messages)
        self._bytes += body_bytes
        return future

    def take(self, now_ms: int) -> list[Section]:
        """One Schedule of the messages that have waited longest."""
        taken, messages = self._take_rows(now_ms)
        if not messages:
            return []
        self.rows -= len(messages)
        self.taken += len(messages)
        schedule = encode_schedule(messages, now_ms=now_ms, random=self._entropy.id_bits(len(messages)))

        def give(scheduled: Applied | None, error: str | None, index: int) -> None:
            self.singles = len(taken) if len(taken) == len(messages) else 0
            result = None if scheduled is None else _result(scheduled)
            at = 0
            for request, start, rows in taken:
                request.answer(start, rows, error or "unknown" if result is None else _cut(result, at, at + rows))
                at += rows

        return [(schedule.pack(), give)]

    def _take_rows(self, now_ms: int) -> tuple[list[tuple[Request, int, int]], list[MessageIn]]:
        """(request, first row, rows) of what has room, and its messages."""
        taken: list[tuple[Request, int, int]] = []
        messages: list[MessageIn] = []
        entry = _Entry(now_ms)
        while self._requests and len(messages) < ENTRY_ROWS_MAX and entry.room > 0:
            request = self._requests[0]
            start = request.taken
            block = request.messages[start : start + min(BLOCK_ROWS, ENTRY_ROWS_MAX - len(messages))]
            rows = entry.take(block)
            messages += block if rows == len(block) else block[:rows]
            request.taken = start + rows
            if taken and taken[-1][0] is request:
                _, start, _ = taken.pop()
            taken.append((request, start, request.taken - start))
            if request.taken == len(request.messages):
                self._requests.popleft()
                self._bytes -= request.body_bytes
            else:
                self._requests.rotate(-1)
        return taken, messages

    def refuse(self) -> None:
        """What is in an entry already keeps waiting for its outcome."""
        requests, self._requests, self.rows, self._bytes = self._requests, deque(), 0, 0
        for request in requests:
            request.answer(request.taken, len(request.messages) - request.taken, "not-leader")


class _Entry:
    """What one entry has room for, in bytes: of rows, and of the hours and topics that they name."""

    def __init__(self, now_ms: int) -> None:
        self.room = ENTRY_BYTES_MAX
        self._now_ms = now_ms
        self._hours: set[int] = set()
        self._topics: set[str] = set()

    def take(self, messages: Sequence[MessageIn]) -> int:
        """How many of these, from the first on, are in the entry: a block's bytes at most, and the one that passes
        them. One loop over all that is scheduled, 0.25 us a row."""
        now_ms, hours, topics, room = self._now_ms, self._hours, self._topics, self.room
        left = max(0, room - BLOCK_BYTES)
        rows = 0
        for message in messages:
            if room <= left:
                break
            when_ms = message.deliver_at_ms or now_ms + (message.delay_ms or 0)
            hour = (when_ms if when_ms > now_ms else now_ms) // HOUR_MS
            if hour not in hours:
                hours.add(hour)
                room -= HOUR_BYTES
            if message.topic not in topics:
                topics.add(message.topic)
                room -= TOPIC_BYTES
            room -= len(message.body) + ROW_BYTES
            if message.headers or message.tags or message.target is not None or message.key is not None:
                room -= _more_size(message)
            rows += 1
        self.room = room
        return rows


def _first_row(part: Part) -> int:
    return part[0]


def _more_size(message: MessageIn) -> int:
    """Bytes that all but its body takes in an entry, or as many as take as long."""
    size = 0
    if message.headers:
        size += len(message.headers) + _fields(message.headers) * FIELD_BYTES
    if message.tags:
        size += _utf8_bytes("".join(message.tags)) + len(message.tags) * FIELD_BYTES
    if message.target is not None:
        size += len(encode_target(message.target))
    if message.key is not None:
        size += 2 * len(message.key.encode()) + 32  # in the record and in the list of keys
    return size


def _fields(packed: bytes) -> int:
    """How many a msgpack map of less than 65,536 holds: in its first byte, or behind that."""
    return packed[0] & 0x0F if packed[0] & 0xF0 == 0x80 else int.from_bytes(packed[1:3], "big")


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _result(applied: Applied) -> Scheduled:
    """The columns of an entry as bytes, once for all its requests."""
    position, random, due_ms, status = (column.tobytes() for column in applied)
    return Scheduled(position, random, due_ms, status)


def _cut(result: Scheduled, start: int, stop: int) -> Scheduled:
    """The rows of one request."""
    if stop - start == len(result.status):
        return result
    words = slice(8 * start, 8 * stop)
    return Scheduled(result.position[words], result.random[words], result.due_ms[words], result.status[start:stop])
