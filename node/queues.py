"""What waits on the leader to be written, one queue per kind of command; each gives a section when asked.

A queue turns all that waits in it, as far as an entry has room, into one section, and knows how to tell each caller its
part of the section's result. So the proposer needs to know nothing about messages, acks or cancels.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from api.port import MessageIn
from api.problem import Problem
from node.draft import encode_schedule
from node.entropy import Entropy
from replication.apply_settle import Cancelled
from replication.command import Cancel, Settle
from replication.envelope import Packed
from replication.machine import Scheduled
from storage.array import U8
from storage.message_id import encode_ids

GROUP = 0
#: Bounds of one entry, so that a heartbeat is never held up behind it: bytes of messages, and rows.
ENTRY_BYTES_MAX = 3 * 1024 * 1024
ENTRY_ROWS_MAX = 20_000
#: Acks of one entry, in rows of 16 bytes; a request past it waits for the next entry.
ENTRY_ACKS_MAX = 100_000
#: What a record and its columns hold beside the parts of variable length.
ROW_BYTES = 160

Taker = Callable[[Any, str | None], None]  # (the section's result, or the error)
Section = tuple[Packed, Taker]
T = TypeVar("T")
R = TypeVar("R")


class Queue(Protocol):
    """What the proposer asks of each."""

    def take(self, now_ms: int) -> list[Section]:
        """Sections of what waits, as far as an entry has room; nothing if nothing waits."""

    def refuse(self) -> None:
        """Leadership is over: nothing that still waits here was proposed, and its callers are told so."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows that went through an entry: their ids (S26), due times and statuses (replication.apply_schedule)."""

    ids: npt.NDArray[np.bytes_]
    due_ms: npt.NDArray[np.int64]
    status: U8

    def rows(self, start: int, stop: int) -> Placed:
        """Those of one request."""
        return Placed(self.ids[start:stop], self.due_ms[start:stop], self.status[start:stop])


Part = tuple[int, int, Placed | str]  # first row, rows, and their result or the error they met


@dataclass(slots=True)
class Request:
    """A request's messages in the queue; an oversized batch leaves it in several entries."""

    messages: Sequence[MessageIn]
    future: asyncio.Future[list[Part]]
    taken: int = 0  # rows that were put into entries
    answered: int = 0  # rows whose part is known; invariant: answered <= taken
    parts: list[Part] = field(default_factory=list)

    def answer(self, start: int, rows: int, result: Placed | str) -> None:
        """The part of the rows from `start` on is known; the last part resolves the future, in row order."""
        self.parts.append((start, rows, result))
        self.answered += rows
        if self.answered == len(self.messages) and not self.future.done():
            self.future.set_result(sorted(self.parts, key=lambda part: part[0]))


class MessageQueue:
    """Requests with messages. `rows` of them wait; `taken` were put into entries so far."""

    def __init__(self, entropy: Entropy, rows_max: int) -> None:
        self.rows = 0
        self.taken = 0
        self._entropy = entropy
        self._rows_max = rows_max
        self._requests: deque[Request] = deque()

    def add(self, messages: Sequence[MessageIn]) -> asyncio.Future[list[Part]]:
        """One more request. Raises `over-limit`."""
        if self.rows and self.rows + len(messages) > self._rows_max:
            raise Problem(
                "over-limit",
                f"{self.rows} messages wait to be written, at most {self._rows_max} may; send again later",
            )
        future: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self._requests.append(Request(messages, future))
        self.rows += len(messages)
        return future

    def take(self, now_ms: int) -> list[Section]:
        """One Schedule of the messages that have waited longest."""
        taken, messages = self._take_rows()
        if not messages:
            return []
        self.rows -= len(messages)
        self.taken += len(messages)
        schedule = encode_schedule(messages, now_ms=now_ms, random=self._entropy.id_bits(len(messages)))

        def give(scheduled: Scheduled | None, error: str | None) -> None:
            placed = None if scheduled is None else _place(scheduled)
            at = 0
            for request, start, rows in taken:
                request.answer(start, rows, error or "unknown" if placed is None else placed.rows(at, at + rows))
                at += rows

        return [(schedule.pack(), give)]

    def _take_rows(self) -> tuple[list[tuple[Request, int, int]], list[MessageIn]]:
        """(request, first row, rows) of what has room, and its messages."""
        taken: list[tuple[Request, int, int]] = []
        messages: list[MessageIn] = []
        room = ENTRY_BYTES_MAX
        while self._requests and len(messages) < ENTRY_ROWS_MAX and room > 0:
            request = self._requests[0]
            start = stop = request.taken
            limit = min(len(request.messages), start + ENTRY_ROWS_MAX - len(messages))
            while stop < limit and room > 0:
                room -= _size(request.messages[stop])
                stop += 1
            messages += request.messages[start:stop]
            request.taken = stop
            taken.append((request, start, stop - start))
            if stop == len(request.messages):
                self._requests.popleft()
        return taken, messages

    def refuse(self) -> None:
        """What is in an entry already keeps waiting for its outcome."""
        requests, self._requests, self.rows = self._requests, deque(), 0
        for request in requests:
            request.answer(request.taken, len(request.messages) - request.taken, "not-leader")


class _Futures(Generic[T, R]):
    """Things that wait, each with the future of its caller."""

    def __init__(self) -> None:
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    def add(self, thing: T) -> asyncio.Future[R]:
        """One more."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, future))
        return future

    def refuse(self) -> None:
        """See Queue."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            resolve(future, None, "not-leader")


class SettleQueue(_Futures[Settle, U8]):
    """Acks; requests are joined into one command."""

    def take(self, now_ms: int) -> list[Section]:
        """One Settle of the requests that have waited longest."""
        rows, count = 0, 0
        while count < len(self._waiting) and rows < ENTRY_ACKS_MAX:
            rows += len(self._waiting[count][0].position)
            count += 1
        if not count:
            return []
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        commands = [settle for settle, _ in taken]
        joined = Settle(
            np.concatenate([command.position for command in commands]),
            np.concatenate([command.term for command in commands]),
            np.concatenate([command.attempt for command in commands]),
            np.concatenate([command.code for command in commands]),
        )

        def give(results: U8 | None, error: str | None) -> None:
            at = 0
            for settle, future in taken:
                rows = len(settle.position)
                resolve(future, None if results is None else results[at : at + rows], error)
                at += rows

        return [(joined.pack(), give)]


class CancelQueue(_Futures[tuple[int, bool], tuple[int, int, int]]):
    """Cancels of (position, doubtful); each result is (result, attempts, prior) of replication.apply_settle."""

    def take(self, now_ms: int) -> list[Section]:
        """One Cancel of all that wait."""
        if not self._waiting:
            return []
        taken, self._waiting = self._waiting, []
        command = Cancel(
            np.array([position for (position, _), _ in taken], np.uint64),
            np.array([doubtful for (_, doubtful), _ in taken], np.uint8),
        )

        def give(results: Cancelled | None, error: str | None) -> None:
            for row, (_, future) in enumerate(taken):
                result = None
                if results is not None:
                    result = int(results.result[row]), int(results.attempts[row]), int(results.prior[row])
                resolve(future, result, error)

        return [(command.pack(), give)]


class SingleQueue(_Futures[Packed, Any]):
    """Commands that go as sections of their own: Genesis, Realign, PutTopic, Unlink."""

    def take(self, now_ms: int) -> list[Section]:
        """All that wait."""
        taken, self._waiting = self._waiting, []
        return [(packed, _giver(future)) for packed, future in taken]


def _giver(future: asyncio.Future[Any]) -> Taker:
    return lambda result, error: resolve(future, result, error)


def _size(message: MessageIn) -> int:
    """Bytes that a message takes in an entry, or a little more."""
    size = len(message.body) + ROW_BYTES
    if message.headers:
        size += sum(len(name) + len(text.encode()) + 8 for name, text in message.headers.items())
    if message.tags:
        size += sum(len(tag.encode()) + 1 for tag in message.tags)
    if message.key is not None:
        size += 2 * len(message.key.encode()) + 32  # in the record and in the list of keys
    return size


def _place(scheduled: Scheduled) -> Placed:
    """Ids are made once for all rows of an entry."""
    ids = encode_ids(GROUP, scheduled.position, scheduled.random)
    return Placed(ids, scheduled.due_ms, scheduled.status)


def resolve(future: asyncio.Future[Any], result: Any, error: str | None) -> None:
    """The caller gets the result, or the refusal that the error stands for, unless it has gone."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(problem_of(error))


def problem_of(error: str) -> Problem:
    """The refusal a client sees for what became of its proposal."""
    if error == "not-leader":
        return Problem("no-leader", "this node stopped leading before the request was written; nothing happened")
    if error == "overloaded":
        return Problem("over-limit", "too many proposals wait; send again later")
    if error == "refused":
        return Problem("internal", "the entry was refused by the machine; nothing happened")
    return Problem("outcome-unknown", "the leader or the disks failed meanwhile; send again with the same key")
