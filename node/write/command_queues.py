"""Queues of commands that wait on the leader, one for each kind of command. When the proposer makes an entry, it takes
sections from each queue.

A queue turns the commands that wait in it into one section, as many as an entry has room for. It also knows how to give
each caller its part of the section's result. So the proposer needs to know nothing about messages, acks or cancels.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from api.port.problem import Problem
from replication.apply.message.cancel import Cancelled
from replication.apply.message.move import Rescheduled
from replication.command.entry import Packed
from replication.command.handover import Extend, Fail, Settle
from replication.command.message import Cancel, Reschedule
from replication.command.topic import DropTopic
from storage.format.array import U8

#: Acks in one entry, in rows of 16 bytes. Requests beyond them wait for the next entry.
ENTRY_ACKS_MAX = 100_000
#: Moves in one entry, weighed as in node/settle/move_size.py: 10 us on every node for each. Requests beyond them wait
#: for the next entry.
ENTRY_MOVES_MAX = 1_000
#: The added weight of a move if the same entry has a move of that message already. Also the weight of a cancel if the
#: entry cancels another revision of the message. Such rows are applied one by one, not in one step of numpy.
MOVE_AGAIN_WEIGHT = 100
#: The commands of a SingleQueue in one entry have at most so many bytes together, or are one command.
ENTRY_SINGLES_BYTES_MAX = 1 << 20
#: The error of a request that was void, because an answer is kept under its key (once_queue.py).
KEPT = "kept"

Taker = Callable[[Any, str | None, int], None]  # (the section's result, or the error; the log index if applied)
Section = tuple[Packed, Taker]
T = TypeVar("T")
R = TypeVar("R")


class Queue(Protocol):
    """The methods that the proposer calls on each queue."""

    def take(self, now_ms: int) -> list[Section]:
        """Remove the commands that have waited longest, as many as an entry has room for. Return them as sections.
        Empty if none waits. `now_ms` is the stamp of the entry."""

    def refuse(self) -> None:
        """Raise `no-leader` in the callers of all commands that wait. Called when leadership is lost: none of these
        commands was proposed."""


class WaitingQueue(Generic[T, R]):
    """Commands, or orders for commands, that wait in the order in which they came. Each has the future of its caller's
    result."""

    def __init__(self) -> None:
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    def add(self, thing: T) -> asyncio.Future[R]:
        """Add a command or order at the end. Return the future of its result."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, future))
        return future

    def refuse(self) -> None:
        """See Queue."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            resolve(future, None, "not-leader")

    def _take(self, count: int) -> list[tuple[T, asyncio.Future[R]]]:
        """Remove and return the first `count` of the waiting, with their futures."""
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken


HandOvers = TypeVar("HandOvers", Settle, Fail, Extend)


class HandOverQueue(WaitingQueue[HandOvers, U8]):
    """Commands whose rows name hand-overs and have a result each (ACKED, STALE or INVALID): acks, failures, extends.

    The requests that have waited longest are joined into one command that weighs at most `weight_max`. A heavier
    request is a command of its own. A request's weight is its number of rows, unless `add` was given another weight.
    """

    def __init__(self, weight_max: int) -> None:
        super().__init__()
        self._weight_max = weight_max
        self._weights: list[int] = []  # of the commands that wait

    def add(self, thing: HandOvers, weight: int | None = None) -> asyncio.Future[U8]:
        """Add a command. Return the future of its results, one for each row."""
        self._weights.append(len(thing.position) if weight is None else weight)
        future: asyncio.Future[U8] = asyncio.get_running_loop().create_future()
        self._waiting.append((thing, future))
        return future

    def refuse(self) -> None:
        """See Queue."""
        self._weights.clear()
        super().refuse()

    def take(self, now_ms: int) -> list[Section]:
        """Return a section of the requests that have waited longest. Empty if none waits."""
        count = fitting(self._weights, self._weight_max)
        del self._weights[:count]
        if not count:
            return []
        taken = self._take(count)

        def give(results: U8 | None, error: str | None, index: int) -> None:
            at = 0
            for command, future in taken:
                rows = len(command.position)
                resolve(future, None if results is None else results[at : at + rows], error)
                at += rows

        return [(_join([command for command, _ in taken]).pack(), give)]


def fitting(weights: Sequence[int], most: int) -> int:
    """How many weights, from the first on, are at most `most` together. 1 if the first weight alone is greater."""
    total = 0
    for count, weight in enumerate(weights):
        total += weight
        if total > most:
            return max(1, count)
    return len(weights)


def _join(commands: Sequence[HandOvers]) -> HandOvers:
    """Return one command with the rows of all these, in order."""
    first = commands[0]
    if len(commands) == 1:
        return first
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(command, field.name) for command in commands])
        for field in fields(first)
        if field.name not in ("texts", "subscription")
    }
    if isinstance(first, Fail) and any(getattr(command, "texts", ()) for command in commands):
        columns["texts"] = tuple(text for command in commands for text in _texts(command))
    return replace(first, **columns)


def _texts(command: Settle | Fail | Extend) -> Sequence[bytes]:
    assert isinstance(command, Fail)
    return command.texts or (b"",) * len(command.position)


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """A message to cancel, named by its home. `doubtful`: a former leader may have handed it over without a committed
    Lease. `revision`: cancel only if the message has this revision, 0 for any."""

    home: int
    doubtful: bool
    revision: int


@dataclass(frozen=True, slots=True)
class RescheduleOrder:
    """A message to move to another due time, named by its home. It will be due at `due_ms`, or `delay_ms` after the
    time in the entry. `doubtful` and `revision` are as in CancelOrder."""

    home: int
    doubtful: bool
    revision: int
    due_ms: int | None
    delay_ms: int | None
    weight: int = 1  # as in node/settle/move_size.py

    def due_at(self, now_ms: int) -> int:
        """The due time that the client asked for, but not before `now_ms`."""
        return max(now_ms, self.due_ms if self.due_ms is not None else now_ms + (self.delay_ms or 0))


class CancelQueue(WaitingQueue[CancelOrder, tuple[int, int, int]]):
    """Cancels that wait. Each result is a row of Cancelled (replication/apply/message/settle.py): (result, attempts,
    prior). `prior` says what is known of hand-overs before the cancel."""

    def take(self, now_ms: int) -> list[Section]:
        """Return a Cancel of the requests that have waited longest, usually all of them. Some are left if many of them
        name different revisions of the same message (MOVE_AGAIN_WEIGHT)."""
        if not self._waiting:
            return []
        taken = self._take(fitting(list(self._weights()), ENTRY_MOVES_MAX))
        command = Cancel(
            np.array([order.home for order, _ in taken], np.uint64),
            np.array([order.doubtful for order, _ in taken], np.uint8),
            np.array([order.revision for order, _ in taken], np.uint32),
        )

        def give(results: Cancelled | None, error: str | None, index: int) -> None:
            for row, (_, future) in enumerate(taken):
                result = None
                if results is not None:
                    result = int(results.result[row]), int(results.attempts[row]), int(results.prior[row])
                resolve(future, result, error)

        return [(command.pack(), give)]

    def _weights(self) -> Iterator[int]:
        revisions: dict[int, set[int]] = {}
        for order, _ in self._waiting:
            seen = revisions.setdefault(order.home, set())
            yield MOVE_AGAIN_WEIGHT if seen and order.revision not in seen else 0
            seen.add(order.revision)


class RescheduleQueue(WaitingQueue[RescheduleOrder, tuple[int, int, int]]):
    """Reschedules that wait. Each result is (result, due_ms, revision) of Rescheduled in
    replication/apply/message/move.py."""

    def take(self, now_ms: int) -> list[Section]:
        """Return a Reschedule of the requests that have waited longest, as many as ENTRY_MOVES_MAX allows."""
        if not self._waiting:
            return []
        taken = self._take(fitting(list(self._weights()), ENTRY_MOVES_MAX))
        command = Reschedule(
            home=np.array([order.home for order, _ in taken], np.uint64),
            due_ms=np.array([order.due_at(now_ms) for order, _ in taken], np.int64),
            revision=np.array([order.revision for order, _ in taken], np.uint32),
            doubtful=np.array([order.doubtful for order, _ in taken], np.uint8),
        )

        def give(results: Rescheduled | None, error: str | None, index: int) -> None:
            for row, (_, future) in enumerate(taken):
                result = None
                if results is not None:
                    result = int(results.result[row]), int(results.due_ms[row]), int(results.revision[row])
                resolve(future, result, error)

        return [(command.pack(), give)]

    def _weights(self) -> Iterator[int]:
        homes: set[int] = set()
        for order, _ in self._waiting:
            yield order.weight + MOVE_AGAIN_WEIGHT * (order.home in homes)
            homes.add(order.home)


class DropQueue(WaitingQueue[Callable[[], DropTopic | None], int | None]):
    """Topics to delete. Each is a function that is called when the entry is put together. It returns the command, or
    None if nothing may be deleted. Then the result is None."""

    def take(self, now_ms: int) -> list[Section]:
        """Return a section for each topic whose function returns a command."""
        sections: list[Section] = []
        for judge, future in self._take(len(self._waiting)):
            command = judge()
            if command is None:
                resolve(future, None, None)
            else:
                sections.append((command.pack(), _giver(future)))
        return sections


class SingleQueue(WaitingQueue[Packed, Any]):
    """Commands that are sections of their own and are not joined with others. They are about topics, members, unlinked
    hours and dispatch, or the Genesis."""

    def take(self, now_ms: int) -> list[Section]:
        """Return the commands that have waited longest, as many as an entry has room for, each as a section."""
        sizes = [payload_bytes(packed) for packed, _ in self._waiting]
        return [(packed, _giver(future)) for packed, future in self._take(fitting(sizes, ENTRY_SINGLES_BYTES_MAX))]


def payload_bytes(packed: Packed) -> int:
    """The size in bytes of a section in an entry, without its head."""
    return sum(map(len, packed[2]))


def _giver(future: asyncio.Future[Any]) -> Taker:
    return lambda result, error, index: resolve(future, result, error)


def resolve(future: asyncio.Future[Any], result: Any, error: str | None) -> None:
    """Give the caller the result or, if there is an error, the Problem for it. Do nothing if the caller has gone."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(problem_of(error))


def problem_of(error: str) -> Problem:
    """The Problem that a client gets if its proposal ended with this error."""
    if error == "not-leader":
        return Problem("no-leader", "this node stopped leading before the request was written; nothing happened")
    if error == "overloaded":
        return Problem("over-limit", "too many proposals wait; send again later")
    if error == KEPT:
        return Problem("in-progress", "a request under the same Idempotency-Key was carried out meanwhile; send again")
    if error == "refused":
        return Problem("internal", "the entry was refused by the machine; nothing happened")
    return Problem("outcome-unknown", "the leader or the disks failed meanwhile; send again with the same key")


def take_error(future: asyncio.Future[Any]) -> None:
    """Take a future's error, if it has one, because perhaps nobody waits for it any more. Give this to
    `add_done_callback`."""
    if not future.cancelled():
        future.exception()
