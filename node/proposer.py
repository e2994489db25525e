"""Group commit: all that waits on the leader becomes ONE entry, proposed when the one before has been applied.

Why one entry in flight: the next entry then takes everything that came meanwhile, so its size follows the load by
itself; under one client it holds one message, under a thousand it holds thousands, and each costs one journal write and
one fdatasync per node. Nothing of a request is proposed twice: a request that was in an entry whose outcome is not
known is answered `outcome-unknown`, and its client may send it again under its key.

    requests -> queues -> flush (once per loop iteration) -> sections -> RaftGroup.propose -> applied -> futures

Leases, and the dispatch state if it changed, ride in every entry; when nothing else goes they go on their own beat.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from api.port import MessageIn
from api.problem import Problem
from node.clock import NodeClock
from node.draft import encode_schedule
from node.entropy import Entropy
from replication.command import Cancel, DispatchState, Genesis, Lease, PutTopic, Realign, Settle, Unlink
from replication.envelope import Packed, encode_entry
from replication.group import RaftGroup
from replication.machine import Applied, Cancelled, Scheduled, TopicPut
from replication.proposal import Outcome
from storage.message_id import encode_ids

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

GROUP = 0
#: Bounds of one entry, so that a heartbeat is never held up behind it: bodies in bytes, and rows.
ENTRY_BYTES_MAX = 3 * 1024 * 1024
ENTRY_ROWS_MAX = 20_000
#: Acks of one entry, in rows of 16 bytes; a request past it waits for the next entry.
ENTRY_ACKS_MAX = 100_000
#: What a record and its columns hold beside the parts of variable length.
ROW_BYTES = 160
#: How often to look whether an entry whose outcome was given up as unknown has been applied after all.
LATE_S = 0.05
#: Errors of a proposal that did not get into the log.
NOT_PROPOSED = ("not-leader", "overloaded")


class Riders(Protocol):
    """What rides in every entry: the dispatcher's Leases and state (node.dispatcher)."""

    def collect(self, now_ms: int, *, going: bool) -> tuple[Lease | None, DispatchState | None]:
        """What has not been proposed yet, handed out once; if nothing else is `going`, only what is due."""

    def committed(self) -> None:
        """The entry that held what `collect` gave first has been applied."""

    def returned(self) -> None:
        """The entry that held what `collect` gave last was not proposed."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows that went through an entry: their ids (S26), due times and statuses (replication.apply_schedule)."""

    ids: npt.NDArray[np.bytes_]
    due_ms: npt.NDArray[np.int64]
    status: U8


Part = tuple[int, int, Placed | str]  # first row, rows, and their result or the error they met


@dataclass(slots=True)
class _Waiting:
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


Taker = Callable[[Any, str | None], None]  # (the section's result, or the error)


class Proposer:
    """The queues of one group's leader, and what flushes them. Lives in the event loop."""

    def __init__(self, group: RaftGroup, clock: NodeClock, entropy: Entropy, *, node: int, waiting_max: int) -> None:
        self._group = group
        self._clock = clock
        self._entropy = entropy
        self.node = node
        self._waiting_max = waiting_max
        self.riders: Riders | None = None
        self._messages: deque[_Waiting] = deque()
        self._waiting_rows = 0
        self._settles: list[tuple[Settle, asyncio.Future[U8]]] = []
        self._cancels: list[tuple[int, bool, asyncio.Future[tuple[int, int, int]]]] = []
        self._others: list[tuple[Packed, asyncio.Future[Any]]] = []
        self._in_flight = False
        #: Entries with Leases that were given up as unknown, oldest first: their index and who waits for them. While
        #: this node leads they are in the log and will be applied.
        self._late: deque[tuple[int, Riders]] = deque()
        self._late_look: asyncio.TimerHandle | None = None
        #: Set while `quiesce` waits; resolved when nothing waits and the last Leases are applied.
        self._quiet: asyncio.Future[None] | None = None
        self._flush_soon = False
        self.entries = 0
        self.rows = 0

    @property
    def waiting_rows(self) -> int:
        """Messages that wait to be proposed."""
        return self._waiting_rows

    # -- what callers ask for; each returns when it is applied, or raises Problem. The group ends every proposal in time
    #    (`unknown` at the latest), and a cancelled caller changes nothing: it may still happen

    async def schedule(self, messages: Sequence[MessageIn]) -> list[Part]:
        """Per entry that took a part of the messages, in row order: its rows and result or error. `over-limit` if
        full."""
        if self._waiting_rows and self._waiting_rows + len(messages) > self._waiting_max:
            raise Problem(
                "over-limit",
                f"{self._waiting_rows} messages wait to be written, at most {self._waiting_max} may; send again later",
            )
        future: asyncio.Future[list[Part]] = asyncio.get_running_loop().create_future()
        self._messages.append(_Waiting(messages, future))
        self._waiting_rows += len(messages)
        self.kick()
        return await future

    async def settle(self, settle: Settle) -> U8:
        """A result per row: ACKED, STALE or INVALID (replication.apply_settle)."""
        future: asyncio.Future[U8] = asyncio.get_running_loop().create_future()
        self._settles.append((settle, future))
        self.kick()
        return await future

    def cancel(self, position: int, *, doubtful: bool) -> asyncio.Future[tuple[int, int, int]]:
        """(result, attempts, prior) of replication.apply_settle. A future, because the unit is held as long as it is
        open, however long the caller waits."""
        future: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()
        self._cancels.append((position, doubtful, future))
        self.kick()
        return future

    async def put_topic(self, command: PutTopic) -> TopicPut:
        """The topic as it is now, and whether the command changed it."""
        result: TopicPut = await self.other(command)
        return result

    async def other(self, command: Genesis | PutTopic | Realign | Unlink) -> Any:
        """Any command that goes as a section of its own; its result."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._others.append((command.pack(), future))
        self.kick()
        return await future

    # -- flushing

    def kick(self) -> None:
        """Flush at the end of this loop iteration, so that everything that arrives in it goes together."""
        if not self._flush_soon:
            self._flush_soon = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = False
        self._look_for_late()
        if self._in_flight or not self._group.established:
            return
        now_ms = self._clock.now_ms()
        sections: list[tuple[Packed, Taker]] = []
        self._take_settles(sections)
        self._take_cancels(sections)
        for packed, future in self._others:
            sections.append((packed, _resolve(future)))
        self._others.clear()
        self._take_messages(sections, now_ms)
        asked = bool(sections)
        riding = self._take_riders(sections, now_ms)
        if self._quiet is not None and not asked and riding is None:
            _settle_future(self._quiet, None, None)
            return
        if not sections:
            return
        sections.sort(key=lambda section: section[0][0])
        entry = encode_entry(
            group=GROUP,
            term=self._group.term,
            node=self.node,
            now_ms=now_ms,
            sections=[packed for packed, _ in sections],
        )
        self._in_flight = True
        self.entries += 1
        takers = [taker for _, taker in sections]
        self._group.propose(entry, lambda outcome: self._applied(outcome, takers, riding))

    def _applied(self, outcome: Outcome, takers: list[Taker], riding: Riders | None) -> None:
        self._in_flight = False
        applied: Applied | None = outcome.result
        error = outcome.error
        if applied is not None and applied.refused is not None:
            error = "refused"
        for i, taker in enumerate(takers):
            taker(applied.results[i] if applied and error is None else None, error)
        self._look_for_late()
        if riding is not None and riding is self.riders:
            if error is None:
                riding.committed()
            elif error in NOT_PROPOSED:
                riding.returned()
            elif outcome.index:
                self._late.append((outcome.index, riding))
        self.kick()

    def _look_for_late(self) -> None:
        """Tell the riders of entries that were applied after they were given up. Disks that stand still for longer
        than a proposal may take do not end a term; without this its hand-overs would never be committed."""
        while self._late and (self._late[0][1] is not self.riders or self._late[0][0] <= self._group.applied_index):
            _, riding = self._late.popleft()
            if riding is self.riders:
                riding.committed()
        if self._late_look is not None:
            self._late_look.cancel()
        self._late_look = asyncio.get_running_loop().call_later(LATE_S, self.kick) if self._late else None

    def _take_riders(self, sections: list[tuple[Packed, Taker]], now_ms: int) -> Riders | None:
        if self.riders is None:
            return None
        lease, state = self.riders.collect(now_ms, going=bool(sections) or self._quiet is not None)
        for command in (lease, state):
            if command is not None:
                sections.append((command.pack(), _ignore))
        return self.riders if lease is not None else None

    def _take_settles(self, sections: list[tuple[Packed, Taker]]) -> None:
        if not self._settles:
            return
        rows, count = 0, 0
        while count < len(self._settles) and rows < ENTRY_ACKS_MAX:
            rows += len(self._settles[count][0].position)
            count += 1
        waiting, self._settles = self._settles[:count], self._settles[count:]
        commands = [settle for settle, _ in waiting]
        joined = Settle(
            np.concatenate([c.position for c in commands]),
            np.concatenate([c.term for c in commands]),
            np.concatenate([c.attempt for c in commands]),
            np.concatenate([c.code for c in commands]),
        )

        def take(results: U8 | None, error: str | None) -> None:
            at = 0
            for settle, future in waiting:
                rows = len(settle.position)
                _settle_future(future, None if results is None else results[at : at + rows], error)
                at += rows

        sections.append((joined.pack(), take))

    def _take_cancels(self, sections: list[tuple[Packed, Taker]]) -> None:
        if not self._cancels:
            return
        waiting, self._cancels = self._cancels, []
        command = Cancel(
            np.array([position for position, _, _ in waiting], np.uint64),
            np.array([doubtful for _, doubtful, _ in waiting], np.uint8),
        )

        def take(results: Cancelled | None, error: str | None) -> None:
            for i, (_, _, future) in enumerate(waiting):
                row = None
                if results is not None:
                    row = int(results.result[i]), int(results.attempts[i]), int(results.prior[i])
                _settle_future(future, row, error)

        sections.append((command.pack(), take))

    def _take_messages(self, sections: list[tuple[Packed, Taker]], now_ms: int) -> None:
        taken: list[tuple[_Waiting, int, int]] = []
        messages: list[MessageIn] = []
        room = ENTRY_BYTES_MAX
        while self._messages and len(messages) < ENTRY_ROWS_MAX and room > 0:
            waiting = self._messages[0]
            start, stop = waiting.taken, waiting.taken
            limit = min(len(waiting.messages), start + ENTRY_ROWS_MAX - len(messages))
            while stop < limit and room > 0:
                room -= _size(waiting.messages[stop])
                stop += 1
            messages += waiting.messages[start:stop]
            waiting.taken = stop
            taken.append((waiting, start, stop - start))
            if stop == len(waiting.messages):
                self._messages.popleft()
        if not messages:
            return
        self._waiting_rows -= len(messages)
        self.rows += len(messages)
        schedule, _ = encode_schedule(messages, now_ms=now_ms, random=self._entropy.id_bits(len(messages)))

        def take(results: Scheduled | None, error: str | None) -> None:
            placed = None if results is None else _place(results)
            at = 0
            for waiting, start, rows in taken:
                waiting.answer(start, rows, error or "unknown" if placed is None else _rows(placed, at, at + rows))
                at += rows

        sections.append((schedule.pack(), take))

    async def quiesce(self, seconds: float) -> None:
        """Before a leader that stops steps down: all that waits is proposed, the Leases of hand-overs made too, so that
        no successor repeats them. Returns when it is applied, at the latest after `seconds`. Nothing new may come."""
        if not self._group.established:
            return
        self._quiet = asyncio.get_running_loop().create_future()
        self.kick()
        await asyncio.wait((self._quiet,), timeout=seconds)

    def step_down(self) -> None:
        """Leadership is over: what was never proposed is refused, so that its clients go to the new leader. What is in
        an entry keeps waiting for its outcome."""
        self.riders = None
        if self._quiet is not None:
            _settle_future(self._quiet, None, None)
        waiting, self._messages, self._waiting_rows = self._messages, deque(), 0
        for request in waiting:
            request.answer(request.taken, len(request.messages) - request.taken, "not-leader")
        for future in [f for _, f in self._settles] + [f for _, _, f in self._cancels] + [f for _, f in self._others]:
            _settle_future(future, None, "not-leader")
        self._settles, self._cancels, self._others = [], [], []


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


def _rows(placed: Placed, start: int, stop: int) -> Placed:
    """The rows of one request out of those of an entry."""
    return Placed(placed.ids[start:stop], placed.due_ms[start:stop], placed.status[start:stop])


def _resolve(future: asyncio.Future[Any]) -> Taker:
    return lambda result, error: _settle_future(future, result, error)


def _ignore(result: Any, error: str | None) -> None:
    """Nobody waits for Leases and state; the dispatcher hears of them from the machine."""


def _settle_future(future: asyncio.Future[Any], result: Any, error: str | None) -> None:
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
