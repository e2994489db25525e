"""The queue of messages that wait on the leader to be written. Requests go in, and each entry takes out one Schedule.

Requests take turns: an entry takes a block of rows of each, as many blocks as it has room for. So a request of one
message waits for one or two entries at most, however large the batches before it are. A large batch goes into several
entries, and is answered when the last of them is applied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.draft import Draft, join_drafts
from node.port.message_port import Scheduled, ScheduledRow
from node.runtime.entropy import Entropy
from node.write.command_queues import Section
from node.write.new_rows import DraftRows, EntryRoom, MessageRows, NewRows
from node.write.stamp_drafts import stamp_draft, stamp_messages
from replication.apply.message.schedule import Scheduled as Applied
from replication.command.schedule import Schedule
from storage.format.array import U64

#: At most so many rows go in one entry, and so many of one request before the next request has its turn. Their bytes
#: are bounded, too (new_rows.py).
ENTRY_ROWS_MAX = 20_000
BLOCK_ROWS = 1_024
#: Bytes of bodies that may wait to be written. If a disk stood still, they would fill the memory.
WAITING_BYTES_MAX = 256 * 1024 * 1024

Piece = tuple[NewRows, int, int]  # from a first row to the one behind the last
Result = Scheduled | ScheduledRow | str  # of rows, of a request's only row, or the error they met
Part = tuple[int, int, Result]  # first row, number of rows, result


@dataclass(slots=True)
class Request:
    """One request in the queue, or several `requests` joined, with their rows. A large batch leaves the queue in
    several entries."""

    rows: NewRows
    requests: int
    future: asyncio.Future[list[Part]]
    taken: int = 0  # rows that were put into entries
    answered: int = 0  # rows whose result is known; invariant: answered <= taken
    parts: list[Part] = field(default_factory=list)

    def answer(self, start: int, rows: int, result: Result) -> None:
        """Take the result of `rows` rows from row `start` on. When all rows have a result, resolve the future with the
        parts in row order."""
        self.parts.append((start, rows, result))
        self.answered += rows
        if self.answered == self.rows.count and not self.future.done():
            if len(self.parts) > 1:
                self.parts.sort(key=_first_row)
            self.future.set_result(self.parts)


class MessageQueue:
    """The messages that wait to be written. `rows` of them wait, and `taken` were put into entries so far."""

    def __init__(self, entropy: Entropy, rows_max: int) -> None:
        self.rows = 0
        self.taken = 0
        #: Requests of which at least some rows wait.
        self.requests = 0
        #: The number of requests that the newest entry answered, if each had one message. The proposer resets it to 0.
        self.singles = 0
        #: The bytes of the bodies of those requests.
        self.bytes = 0
        self._entropy = entropy
        self._rows_max = rows_max
        self._requests: deque[Request] = deque()

    def add(self, messages: Sequence[MessageIn] | Draft, requests: int = 1) -> asyncio.Future[list[Part]]:
        """Add messages that came in `requests` requests. Return the future of their results, one part for each entry
        that took some of them. Raises `over-limit` if too many rows or bytes wait."""
        rows = DraftRows(messages) if isinstance(messages, Draft) else MessageRows(messages)
        if self.rows and self.rows + rows.count > self._rows_max:
            raise Problem(
                "over-limit",
                f"{self.rows} messages wait to be written, at most {self._rows_max} may; send again later",
            )
        if self.bytes and self.bytes + rows.size > WAITING_BYTES_MAX:
            raise Problem(
                "over-limit",
                f"{self.bytes} bytes of messages wait to be written, at most {WAITING_BYTES_MAX} may; send later",
            )
        future: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self._requests.append(Request(rows, requests, future))
        self.requests += requests
        self.rows += rows.count
        self.bytes += rows.size
        return future

    def take(self, now_ms: int) -> list[Section]:
        """Return a section with a Schedule of the messages that are next. Empty if no message waits."""
        taken, pieces, singles = self._take_rows(now_ms)
        count = sum(rows for _, _, rows in taken)
        if not count:
            return []
        self.rows -= count
        self.taken += count
        schedule = _stamped(pieces, now_ms, self._entropy.id_bits(count))

        def give(scheduled: Applied | None, error: str | None, index: int) -> None:
            self.singles = count if singles else 0
            if scheduled is None:
                for request, start, rows in taken:
                    request.answer(start, rows, error or "unknown")
            else:
                _give(scheduled, taken)

        return [(schedule.pack(), give)]

    def _take_rows(self, now_ms: int) -> tuple[list[tuple[Request, int, int]], list[Piece], bool]:
        """Take rows until the entry is full. Return (request, first row, number of rows) for each request, the pieces,
        and True if each row is a request of its own."""
        taken: list[tuple[Request, int, int]] = []
        pieces: list[Piece] = []
        room, left, singles = EntryRoom(now_ms), ENTRY_ROWS_MAX, True
        while self._requests and left and room.room > 0:
            request = self._requests[0]
            start, whole = request.taken, request.rows.count
            rows = request.rows.fit(room, start, min(whole, start + BLOCK_ROWS, start + left))
            left -= rows
            singles = singles and request.requests == whole
            request.taken = stop = start + rows
            pieces.append((request.rows, start, stop))
            if taken and taken[-1][0] is request:
                _, start, _ = taken.pop()
            taken.append((request, start, stop - start))
            if stop == whole:
                self._requests.popleft()
                self.bytes -= request.rows.size
                self.requests -= request.requests
            else:
                self._requests.rotate(-1)
        return taken, pieces, singles

    def refuse(self) -> None:
        """Refuse with `no-leader` the rows that wait. Rows that are in an entry already keep waiting for its
        outcome."""
        requests, self._requests = self._requests, deque()
        self.rows = self.bytes = self.requests = 0
        for request in requests:
            request.answer(request.taken, request.rows.count - request.taken, "not-leader")


def _first_row(part: Part) -> int:
    return part[0]


def _stamped(pieces: list[Piece], now_ms: int, random: U64) -> Schedule:
    """Make the Schedule of these pieces, stamped with `now_ms` and random bits. If all pieces are structs it takes one
    pass over them. Otherwise all become drafts, which are joined."""
    messages: list[MessageIn] = []
    for rows, start, stop in pieces:
        if not isinstance(rows, MessageRows):
            draft = join_drafts([rows.draft(start, stop) for rows, start, stop in pieces])
            return stamp_draft(draft, now_ms=now_ms, random=random)
        messages += rows.messages if stop - start == rows.count else rows.messages[start:stop]
    return stamp_messages(messages, now_ms=now_ms, random=random)


def _give(applied: Applied, taken: list[tuple[Request, int, int]]) -> None:
    """Give each request its rows of an entry's result: numbers to a request with one row, columns as bytes to
    others."""
    at = 0
    many = 2 * len(taken) > len(applied.status)  # usually nearly all requests of an entry have one message, or few do
    numbers: list[list[int]] | None = None
    columns: list[bytes] | None = None
    for request, start, rows in taken:
        if request.rows.count == 1:
            if many:
                numbers = numbers or [column.tolist() for column in applied]
            position, random, due_ms, status = (
                [column[at] for column in numbers] if numbers else [int(column[at]) for column in applied]
            )
            request.answer(0, 1, ScheduledRow(position, random, due_ms, status))
        else:
            columns = columns or [column.tobytes() for column in applied]
            words, stop = slice(8 * at, 8 * (at + rows)), at + rows
            part = Scheduled(columns[0][words], columns[1][words], columns[2][words], columns[3][at:stop])
            request.answer(start, rows, part)
        at += rows
