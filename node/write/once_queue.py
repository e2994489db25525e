"""The queue of requests under an `Idempotency-Key`. In an entry each of them is a section of its own, and one command
Once names their keys (replication/command/once.py).

    request with a key -> KeyedRequests -> a queue for it alone -> OnceQueue -> section, taker with the key
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.draft import Draft
from node.runtime.entropy import Entropy
from node.write.command_queues import (
    ENTRY_MOVES_MAX,
    KEPT,
    CancelOrder,
    CancelQueue,
    DropQueue,
    Queue,
    RescheduleOrder,
    RescheduleQueue,
    Section,
    SingleQueue,
    Taker,
    payload_bytes,
)
from node.write.message_queue import MessageQueue, Part
from node.write.new_rows import ENTRY_BYTES_MAX
from node.write.supersede_queue import LOOK_WEIGHT, WAITING_BYTES_MAX, WAITING_MAX, SupersedeOrder, SupersedeQueue
from node.write.supersede_queue import Outcome as Superseded
from replication.apply.topic import TopicPut
from replication.command.entry import Command
from replication.command.once import KeyedRequest, Once
from replication.command.topic import DropTopic, PutTopic
from storage.tables.idempotency import KeptAnswer

#: What a keyed request weighs beside its command. So an entry has a hundred small ones at most.
KEY_WEIGHT: Final = 9
T = TypeVar("T")


class Requests(Protocol):
    """Proposes requests of clients that may have a key: the Proposer (proposer.py), or KeyedRequests for one with a
    key."""

    async def schedule(self, messages: Sequence[MessageIn] | Draft, requests: int = 1) -> list[Part]:
        """See Proposer."""

    def cancel(self, order: CancelOrder) -> asyncio.Future[tuple[int, int, int]]:
        """See Proposer."""

    def reschedule(self, order: RescheduleOrder) -> asyncio.Future[tuple[int, int, int]]:
        """See Proposer."""

    def supersede(self, order: SupersedeOrder) -> asyncio.Future[Superseded]:
        """See Proposer."""

    async def put_topic(self, command: PutTopic) -> TopicPut:
        """See Proposer."""

    async def drop_topic(self, judge: Callable[[], DropTopic | None]) -> int | None:
        """See Proposer."""

    async def propose_single(self, command: Command) -> Any:
        """See Proposer."""


@dataclass(frozen=True, slots=True)
class KeyedTaker:
    """A Taker of the section of a keyed request."""

    request: KeyedRequest
    taker: Taker

    def __call__(self, result: Any, error: str | None, index: int) -> None:
        if isinstance(result, KeptAnswer):
            self.taker(None, KEPT, index)
        else:
            self.taker(result, error, index)


class _Waiting(NamedTuple):
    """A keyed request: `queue` has it and nothing else. `weight` is that of its command in an entry, `size` its
    bytes."""

    request: KeyedRequest
    queue: Queue
    weight: int
    size: int


class OnceQueue:
    """Keyed requests that wait in the order in which they came, each in a queue of its own."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0  # of those that wait
        self.taken = 0
        """The number of messages that were put into entries."""

    def add(self, waiting: _Waiting) -> None:
        """Add a request. Raises `over-limit` if too many wait."""
        if len(self._waiting) >= WAITING_MAX or (self._bytes and self._bytes + waiting.size > WAITING_BYTES_MAX):
            detail = f"{len(self._waiting)} requests under an Idempotency-Key wait to be written; send later"
            raise Problem("over-limit", detail)
        self._waiting.append(waiting)
        self._bytes += waiting.size

    def take(self, now_ms: int) -> list[Section]:
        """See Queue."""
        sections: list[Section] = []
        room, size = ENTRY_MOVES_MAX, 0
        while self._waiting and size < ENTRY_BYTES_MAX:
            first = self._waiting[0]
            room -= KEY_WEIGHT + first.weight
            if sections and room < 0:
                break
            self._waiting.popleft()
            self._bytes -= first.size
            for packed, taker in first.queue.take(now_ms):
                sections.append((packed, KeyedTaker(first.request, taker)))
                size += payload_bytes(packed)
            if isinstance(first.queue, MessageQueue):
                self.taken += first.queue.taken
        return sections

    def refuse(self) -> None:
        """See Queue."""
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        for each in waiting:
            each.queue.refuse()


class KeyedRequests:
    """Proposes what one keyed request asks for. Implements Requests. Its commands go into the entries through `queue`,
    and `kick` asks for an entry."""

    def __init__(self, request: KeyedRequest, queue: OnceQueue, kick: Callable[[], None], entropy: Entropy) -> None:
        self._request, self._queue, self._kick, self._entropy = request, queue, kick, entropy

    async def schedule(self, messages: Sequence[MessageIn] | Draft, requests: int = 1) -> list[Part]:
        """See Requests."""
        queue = MessageQueue(self._entropy, len(messages))
        future = queue.add(messages, requests)
        return await self._added(queue, future, size=queue.bytes)

    def cancel(self, order: CancelOrder) -> asyncio.Future[tuple[int, int, int]]:
        """See Requests."""
        queue = CancelQueue()
        return self._added(queue, queue.add(order))

    def reschedule(self, order: RescheduleOrder) -> asyncio.Future[tuple[int, int, int]]:
        """See Requests."""
        queue = RescheduleQueue()
        return self._added(queue, queue.add(order), weight=order.weight)

    def supersede(self, order: SupersedeOrder) -> asyncio.Future[Superseded]:
        """See Requests."""
        queue = SupersedeQueue(self._entropy)
        weight, size = LOOK_WEIGHT + order.look().weight, len(order.draft.records)
        return self._added(queue, queue.add(order), weight=weight, size=size)

    async def put_topic(self, command: PutTopic) -> TopicPut:
        """See Requests."""
        put: TopicPut = await self.propose_single(command)
        return put

    async def drop_topic(self, judge: Callable[[], DropTopic | None]) -> int | None:
        """See Requests."""
        queue = DropQueue()
        return await self._added(queue, queue.add(judge))

    async def propose_single(self, command: Command) -> Any:
        """See Requests."""
        queue, packed = SingleQueue(), command.pack()
        return await self._added(queue, queue.add(packed), size=payload_bytes(packed))

    def _added(self, queue: Queue, future: asyncio.Future[T], *, weight: int = 1, size: int = 0) -> asyncio.Future[T]:
        self._queue.add(_Waiting(self._request, queue, weight, size))
        self._kick()
        return future


def with_keys(sections: list[Section]) -> list[Section]:
    """The sections of an entry, sorted, with a Once in front of the keyed requests if there are any."""
    sections.sort(key=_kind)
    if not any(isinstance(taker, KeyedTaker) for _, taker in sections):
        return sections
    placed = [*sections, (Once({}).pack(), _ignore)]
    placed.sort(key=_kind)
    requests = {number: taker.request for number, (_, taker) in enumerate(placed) if isinstance(taker, KeyedTaker)}
    once = (Once(requests).pack(), _ignore)
    return [once if _kind(section) == _kind(once) else section for section in placed]


def _kind(section: Section) -> int:
    return section[0][0]


def _ignore(result: Any, error: str | None, index: int) -> None:
    return
