"""Group commit: all that waits on the leader becomes ONE entry, proposed when the one before has been applied.

One entry at a time is in flight, so the next one takes everything that came meanwhile, and its size follows the load by
itself. With one client it has one message, with a thousand clients it has thousands. Each entry costs one journal write
and one fdatasync per node. An entry may wait a moment for the requests that clients send when they have their answers
(node/write/batch_delay.py).

Nothing of a request is proposed twice. A request in an entry whose outcome is not known is answered `outcome-unknown`.
Its client may send it again under its key.

    requests -> queues -> flush (once per loop iteration) -> sections -> RaftGroup.propose -> applied -> futures

Leases go in every entry, and so does the dispatch state if it changed. When no other command waits, they get an entry
of their own after some ms (DispatchOptions).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from api.port.port import MessageIn
from node.port.draft import Draft
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.write.batch_delay import BatchDelay
from node.write.batch_queue import BatchOrder, BatchQueue
from node.write.command_queues import (
    ENTRY_ACKS_MAX,
    ENTRY_MOVES_MAX,
    CancelOrder,
    CancelQueue,
    DropQueue,
    HandOverQueue,
    Queue,
    RescheduleOrder,
    RescheduleQueue,
    Section,
    SingleQueue,
    Taker,
    payload_bytes,
    resolve,
)
from node.write.leader_commands import LeaderCommandSource
from node.write.message_queue import MessageQueue, Part
from node.write.once_queue import KeyedRequests, OnceQueue, with_keys
from node.write.supersede_queue import Outcome as Superseded
from node.write.supersede_queue import SupersedeOrder, SupersedeQueue
from replication.apply.machine import Applied
from replication.apply.message.supersede import Superseded as Answers
from replication.apply.topic import TopicPut
from replication.command.entry import Command, encode_entry
from replication.command.handover import Extend, Fail, Settle
from replication.command.once import KeyedRequest
from replication.command.topic import DropTopic, PutTopic
from replication.group import RaftGroup
from replication.raft.proposal import Outcome
from storage.format.array import U8
from storage.format.level import FOUNDED

#: While an entry was given up as unknown, this is how often the proposer looks if it has been applied after all.
LATE_S = 0.05
#: Errors which say that a proposal did not get into the Raft log.
NOT_PROPOSED = ("not-leader", "overloaded")
#: Once an entry has so many bytes, the other queues wait for the next entry. So the group takes the entry even if the
#: fullest section (messages: ENTRY_BYTES_MAX and one body) and the Leases are still added.
ENTRY_BYTES_SOFT = 5 << 19


class Proposer:
    """The queues of one group's leader, from which it makes entries. Lives in the event loop.

    To flush is to make an entry of what waits and propose it. That runs as a callback, so `fatal` gets its errors.
    Otherwise they would only be logged, and the requests would wait for ever.
    """

    def __init__(
        self,
        group: RaftGroup,
        clock: NodeClock,
        entropy: Entropy,
        *,
        node: int,
        waiting_max: int,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._group = group
        self._clock = clock
        self._fatal = fatal
        self.node = node
        self.level = FOUNDED  # the level by which entries are encoded
        self.riders: LeaderCommandSource | None = None
        self._entropy = entropy
        self._messages = MessageQueue(entropy, waiting_max)
        self._settles: HandOverQueue[Settle] = HandOverQueue(ENTRY_ACKS_MAX)
        self._fails: HandOverQueue[Fail] = HandOverQueue(ENTRY_MOVES_MAX)
        self._extends: HandOverQueue[Extend] = HandOverQueue(ENTRY_ACKS_MAX)
        self._cancels = CancelQueue()
        self._reschedules = RescheduleQueue()
        self._supersedes = SupersedeQueue(entropy)
        self._batches = BatchQueue()
        self._once = OnceQueue()
        self._drops = DropQueue()
        self._singles = SingleQueue()
        self._queues: tuple[Queue, ...] = (
            self._settles, self._fails, self._extends, self._cancels, self._reschedules, self._supersedes,
            self._batches, self._once, self._drops, self._singles, self._messages,
        )  # fmt: skip
        self._in_flight = False
        #: Entries with Leases that were given up as unknown, oldest first: their index, and the source of their
        #: commands. While this node leads they are in the Raft log and will be applied.
        self._late: deque[tuple[int, LeaderCommandSource]] = deque()
        self._late_look: asyncio.TimerHandle | None = None
        #: A future while `seal` waits. It is resolved when the last entry is proposed.
        self._quiet: asyncio.Future[None] | None = None
        self._freeze: Callable[[], None] = _nothing
        #: A future while `landed` waits.
        self._landed: asyncio.Future[None] | None = None
        #: While it is True nothing is proposed. `resume` and the end of the term reset it.
        self._held = False
        self._flush_soon = False
        #: Something other than messages asked for an entry since the last one was proposed.
        self._asked = False
        self._gather = BatchDelay(self.kick)
        self.entries = 0

    @property
    def waiting_rows(self) -> int:
        """The number of messages that wait to be proposed."""
        return self._messages.rows

    @property
    def rows(self) -> int:
        """The number of messages proposed so far."""
        return self._messages.taken + self._once.taken

    # -- calls of requests. The result comes when the command is applied, or a Problem is raised. The group ends every
    # proposal in time, if need be with the error `unknown`. If a caller is cancelled, its command may still be applied.

    async def schedule(self, messages: Sequence[MessageIn] | Draft, requests: int = 1) -> list[Part]:
        """Schedule messages that came in `requests` requests. Return parts in row order: for each entry that took some
        of the messages, their rows and their result or error. Raises `over-limit` if too many wait."""
        future = self._messages.add(messages, requests)
        if not self._in_flight and not self._gather.waits(self._messages.requests):
            self._flush_at_end()
        return await future

    def settle(self, settle: Settle, weight: int | None = None) -> asyncio.Future[U8]:
        """Settle hand-overs. The result has ACKED, STALE or INVALID for each row (replication/apply/message/settle.py).
        `weight` is the request's weight in an entry, None for its number of rows."""
        future = self._settles.add(settle, weight)
        self.kick()
        return future

    def fail(self, fail: Fail, weight: int | None = None) -> asyncio.Future[U8]:
        """Retry or end failed hand-overs, with results as `settle` has them. `weight` is that of its moves
        (node/settle/move_size.py), None for the number of rows. Returns a future, because the units must be held until
        the result is known (CommandHolds). Otherwise a hand-over made meanwhile would get the number of the one after
        the failure."""
        future = self._fails.add(fail, weight)
        self.kick()
        return future

    def extend(self, extend: Extend, weight: int | None = None) -> asyncio.Future[U8]:
        """Make leases longer, with results as `settle` has them. Returns a future, because the units must be held until
        the result is known."""
        future = self._extends.add(extend, weight)
        self.kick()
        return future

    def cancel(self, order: CancelOrder) -> asyncio.Future[tuple[int, int, int]]:
        """Cancel a message. The result is (result, attempts, prior) of replication/apply/message/settle.py. Returns a
        future, because the unit is held until the result is known, even if the caller has gone."""
        future = self._cancels.add(order)
        self.kick()
        return future

    def reschedule(self, order: RescheduleOrder) -> asyncio.Future[tuple[int, int, int]]:
        """Give a message another due time. The result is (result, due_ms, revision) of Rescheduled
        (replication/apply/message/move.py). Returns a future for the reason that `cancel` does."""
        future = self._reschedules.add(order)
        self.kick()
        return future

    def supersede(self, order: SupersedeOrder) -> asyncio.Future[Superseded]:
        """Let a message replace the holder of its key, or extend it. Returns a future for the reason that `cancel`
        does. Raises `over-limit` if too many wait."""
        future = self._supersedes.add(order)
        self.kick()
        return future

    def batch(self, order: BatchOrder) -> asyncio.Future[Answers]:
        """Write an atomic batch. The result has an answer for each row. Returns a future for the reason that `cancel`
        does."""
        future = self._batches.add(order)
        self.kick()
        return future

    async def put_topic(self, command: PutTopic) -> TopicPut:
        """Create or change a topic. Return the topic as it is then, and True if the command changed it."""
        result: TopicPut = await self.propose_single(command)
        return result

    async def drop_topic(self, judge: Callable[[], DropTopic | None]) -> int | None:
        """Delete a topic. `judge` returns the command, or None, when the entry is put together. Return a result of
        replication/apply/topic.py, or None if there was no command."""
        future = self._drops.add(judge)
        self.kick()
        return await future

    async def propose_single(self, command: Command) -> Any:
        """Propose any other command, as a section of its own. Return its result."""
        future = self._singles.add(command.pack())
        self.kick()
        return await future

    def keyed(self, request: KeyedRequest) -> KeyedRequests:
        """Return what proposes a request under its `Idempotency-Key`."""
        return KeyedRequests(request, self._once, self.kick, self._entropy)

    # -- flushing

    def kick(self) -> None:
        """Flush at the end of this loop iteration, so that everything that arrives in it goes together."""
        self._asked = True
        self._flush_at_end()

    def _flush_at_end(self) -> None:
        if not self._flush_soon:
            self._flush_soon = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = False
        self._look_for_late()
        if not self._group.established:
            self._refuse()  # asked for behind the step in which leadership was lost, as by who does it in parts
            return
        if self._in_flight or self._held:
            return
        try:
            self._propose()
        except Exception as error:
            self._fatal(error)

    def _propose(self) -> None:
        """Put one entry together and propose it, if there is anything to propose."""
        if self._quiet is not None:
            self._freeze()  # in the step that collects the Leases, so that no hand-over is made after it
        now_ms = self._clock.now_ms()
        self._asked = False
        sections = self._take_sections(now_ms)
        riding = self._take_riders(sections, now_ms)
        if not sections:
            self._hold()
            return
        sections = with_keys(sections)
        entry = encode_entry(
            group=self._group.number,
            term=self._group.term,
            node=self.node,
            now_ms=now_ms,
            sections=[packed for packed, _ in sections],
            version=self.level,
        )
        self._in_flight = True
        self._gather.end()
        self.entries += 1
        takers = [taker for _, taker in sections]
        self._group.propose(entry, lambda outcome: self._applied(outcome, takers, riding))
        if self._in_flight:  # not refused at once
            self._hold()

    def _take_sections(self, now_ms: int) -> list[Section]:
        """Return sections of the queues until the entry is full. The queue that had no room is first in the next
        entry."""
        sections: list[Section] = []
        size = 0
        for at, queue in enumerate(self._queues):
            if size >= ENTRY_BYTES_SOFT:
                self._queues = self._queues[at:] + self._queues[:at]
                self._asked = True
                break
            taken = queue.take(now_ms)
            size += sum(payload_bytes(packed) for packed, _ in taken)
            sections += taken
        return sections

    def _applied(self, outcome: Outcome, takers: list[Taker], riding: LeaderCommandSource | None) -> None:
        self._in_flight = False
        applied: Applied | None = outcome.result
        error = outcome.error
        if applied is not None and applied.refused is not None:
            error = "refused"
        self._messages.singles = 0
        for i, taker in enumerate(takers):
            taker(applied.results[i] if applied and error is None else None, error, outcome.index)
        self._look_for_late()
        if riding is not None and riding is self.riders:
            if error is None:
                riding.committed()
            elif error in NOT_PROPOSED:
                riding.returned()
            elif outcome.index:
                self._late.append((outcome.index, riding))
        self._wake_landed()
        if self._asked or not self._gather.begin(self._messages.singles, self._messages.requests):
            self.kick()

    def _look_for_late(self) -> None:
        """Tell the dispatcher of entries whose outcome was unknown and that are applied by now. A disk may stand still
        for longer than a proposal may take, and the term goes on. Otherwise their Leases would never be committed."""
        while self._late and (self._late[0][1] is not self.riders or self._late[0][0] <= self._group.applied_index):
            _, riding = self._late.popleft()
            if riding is self.riders:
                riding.committed()
        if self._late_look is not None:
            self._late_look.cancel()
        self._late_look = asyncio.get_running_loop().call_later(LATE_S, self.kick) if self._late else None

    def _take_riders(self, sections: list[Section], now_ms: int) -> LeaderCommandSource | None:
        if self.riders is None:
            return None
        riding = self.riders.collect(now_ms, going=bool(sections) or self._quiet is not None)
        sections += [(command.pack(), _ignore) for command in riding.commands()]
        return self.riders if riding.awaited else None

    async def seal(self, seconds: float, freeze: Callable[[], None]) -> bool:
        """Propose one last entry before this leader gives leadership away. It has all that waits, and the Leases of all
        hand-overs that were made, so that the next leader repeats none of them.

        Return True when it is proposed. From then on new requests wait, and no entry is proposed until `resume` or
        another term. Return False after `seconds`, or when leadership is lost. `freeze` must end hand-overs. It is
        called only when the last entry is put together. While the entry before is in flight everything goes on, which
        makes the pause shorter.
        """
        if self._held or not self._group.established:
            return self._held
        quiet = self._quiet = asyncio.get_running_loop().create_future()
        self._freeze = freeze
        self.kick()
        try:
            await asyncio.wait((quiet,), timeout=seconds)
        finally:
            self._quiet, self._freeze = None, _nothing
        return self._held

    async def landed(self, seconds: float) -> bool:
        """True if the entry that `seal` proposed has its outcome within `seconds`."""
        if self._in_flight:
            landed = self._landed = asyncio.get_running_loop().create_future()
            await asyncio.wait((landed,), timeout=seconds)
        return not self._in_flight

    def _wake_landed(self) -> None:
        if self._landed is not None:
            resolve(self._landed, None, None)
            self._landed = None

    def _hold(self) -> None:
        if self._quiet is not None:
            self._held = True
            resolve(self._quiet, None, None)

    def resume(self) -> None:
        """Propose again after a `seal`, because this node leads on."""
        self._held = False
        self.kick()

    def step_down(self) -> None:
        """End the term. Requests that were not proposed are refused, so that their clients go to the new leader.
        Requests in an entry keep waiting for its outcome."""
        self.riders = None
        self._held = False
        self._gather.end()
        if self._quiet is not None:
            resolve(self._quiet, None, None)
            self._quiet = None
        self._refuse()

    def _refuse(self) -> None:
        """Refuse all requests that wait in the queues. In a later term of this node their clients may not want them any
        more."""
        for queue in self._queues:
            queue.refuse()


def _nothing() -> None:
    return


def _ignore(result: Any, error: str | None, index: int) -> None:
    """Do nothing: no caller waits for Leases and dispatch state. `committed` tells the dispatcher of them."""
