"""A leader service that does the work of operations, one chunk after the other.

    find     the next messages of a set, those of an hour at a time, in a thread (finder.py)
    change   up to CHUNK_ROWS of them in one entry, which also says how far the operation has come
    end      the last chunk says that nothing is left; requests that wait for the operation are woken

Operations take turns, a chunk each. One at a rate waits for its time, and one that is paused for at most a day. What a
chunk finds changed meanwhile is judged by its entry. A leader that dies leaves nothing but the log: the next one goes
on where the progress stands. A chunk that was proposed before, and whose outcome is unknown, cannot count twice,
because each chunk names the point where it begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from api.port.problem import Problem
from node.handover.term import Leads, Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.leader.operations_in_hand import OperationsInHand
from node.leader.service import LeaderService
from node.operation.finder import Finder
from node.operation.pace import Pace
from node.runtime.clock import NodeClock
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.settle.move_size import move_pieces, move_weights
from node.write.command_queues import take_error
from node.write.proposer import Proposer
from replication.apply.apply_notifier import Changes
from replication.apply.operation import BEGUN, CHANGED
from replication.command.operation import BeginOperation, ChangeOperation, OperationChunk
from storage.format.level import has
from storage.format.predicate import Predicate
from storage.store import Store
from storage.tables.operation_row import ABORTED, PAUSE_MAX_MS, PAUSED, RUNNING
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet

log = structlog.get_logger()

#: So many messages are changed in one entry: some ms on every node.
CHUNK_ROWS: Final = 2_500
#: So many are moved in one entry, less if they are large.
CHUNK_MOVES: Final = 500
#: So many messages a chunk, if an older operation asks for a tag: their records are read then, on every node.
CHUNK_READ: Final = 250
#: So many chunks may be proposed and not applied yet: one in the entry that is in flight, and one for the next entry.
AHEAD: Final = 2
#: While the disk is full, it is looked at this often.
FULL_S: Final = 1.0
#: The pause after a failed proposal.
AGAIN_S: Final = 0.02
#: While all that runs is paused or paced, it is looked at this often at least.
LOOK_S: Final = 60.0


def operation_work(parts: LeaderParts, dispatcher: Dispatcher) -> OperationWork:
    """Make the service for a term (a ServiceFactory)."""
    return OperationWork(
        dispatcher, parts.store, parts.clock, parts.proposer, parts.life, parts.in_hand, parts.reserve,
        parts.count_topics,
    )  # fmt: skip


class OperationWork(LeaderService):
    """The service of one term."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        store: Store,
        clock: NodeClock,
        proposer: Proposer,
        life: Lifecycle,
        in_hand: OperationsInHand,
        reserve: Reserve,
        count_topics: Callable[[Leads], Awaitable[None]],
    ) -> None:
        """`count_topics` counts the messages that paused operations hold, for a metric and for the list of topics."""
        self._count_topics, self._counts_again_s = count_topics, 0.0
        self._dispatcher, self._store, self._clock = dispatcher, store, clock
        self._proposer, self._life, self._in_hand, self._reserve = proposer, life, in_hand, reserve
        self._finders: dict[int, Finder] = {}
        self._paces: dict[int, Pace] = {}
        self._changed = asyncio.Event()
        self._proposed: deque[tuple[int, asyncio.Future[bool]]] = deque()  # chunks of operations, oldest first
        self._works = False
        self._promoted = asyncio.Event()

    def begin(self, term: Term) -> None:
        """Go on with the operations that former leaders began."""
        self._in_hand.clear()
        self._in_hand.let_go = self._let_go
        self._term = term
        self._look_promoted()
        self._wake()

    def applied(self, changes: Changes) -> None:
        """Begin to work for an operation that has begun, and wake those that wait for one that has ended."""
        self._look_promoted()
        for command, result in zip(changes.commands, changes.results, strict=True):
            if isinstance(command, BeginOperation):
                which = self._in_hand.proposed.pop(command.mark, None)
                if result is not None and result.result == BEGUN:
                    self._wake()
                elif which is not None:
                    self._let_go(which)
            elif isinstance(command, OperationChunk) and command.last and result:
                self._ended(command.number)
            elif isinstance(command, ChangeOperation) and result == CHANGED:
                self._changed.set()
                self._counts_again_s = 0.0
                if command.state == ABORTED:
                    self._ended(command.number)

    def end(self) -> None:
        """See LeaderService."""
        self._in_hand.clear()
        self._promoted.set()
        self._changed.set()

    def _ended(self, number: int) -> None:
        self._finders.pop(number, None)
        self._paces.pop(number, None)
        self._in_hand.end(number)
        ended = self._store.catalog.of(OPERATIONS).find(number)
        assert ended is not None, number
        self._let_go(ended.row.which)
        log.info("an operation has ended", operation=number, kind=ended.row.kind, changed=ended.progress.changed)

    def _let_go(self, which: Predicate) -> None:
        """Look again for messages that were held for an operation. Those of other topics are not read anew: another
        operation may rest, and hold millions."""
        self._dispatcher.handing_over.ask_again(which.topics)
        self._term.poke()

    def _look_promoted(self) -> None:
        """Note if the log has the doubt about the leaders before this one, by which apply judges a chunk."""
        if not has(self._store.level, "doubt") or self._store.doubt.term >= self._term.term:
            self._promoted.set()

    def _wake(self) -> None:
        self._changed.set()
        if not self._works and self._running():
            self._works = True
            self._life.spawn(self._work())

    def _running(self) -> tuple[RunningSet, ...]:
        return self._store.catalog.of(OPERATIONS).running

    async def _work(self) -> None:
        try:
            await self._promoted.wait()
            while not self._term.over and (self._running() or self._proposed):
                self._changed.clear()
                await self._resume_overdue()
                due = [each for each in self._running() if self._may_go_on(each)]
                for each in due:
                    await self._change(each)
                if len(self._proposed) == AHEAD or (self._proposed and not due):
                    await self._applied_one()
                elif not due:
                    await self._wait()
        finally:
            self._works = False
            self._finders.clear()
            self._paces.clear()
            self._proposed.clear()

    def _may_go_on(self, each: RunningSet) -> bool:
        paced = self._pace(each).wait_s(self._now_s()) > 0 or (each.rule.moves and self._full())
        return each.operation.works and not paced and not self._finder(each).ended

    def _full(self) -> bool:
        """True while the disk has no room for copies of messages."""
        try:
            self._reserve.check()
        except Problem:
            return True
        return False

    async def _resume_overdue(self) -> None:
        """Let those go on that were paused too long."""
        for each in self._running():
            now = each.operation.progress
            if now.state == PAUSED and now.paused_ms + PAUSE_MAX_MS <= self._clock.now_ms():
                try:
                    await self._proposer.propose_single(ChangeOperation(each.number, RUNNING, now.paused_ms))
                except Problem:
                    await asyncio.sleep(AGAIN_S)

    async def _wait(self) -> None:
        """Wait until an operation begins or changes, or one that is paced or paused may go on."""
        self._count_held()
        now_ms, waits = self._clock.now_ms(), [LOOK_S]
        for each in self._running():
            now = each.operation.progress
            if now.state == PAUSED:
                waits.append((now.paused_ms + PAUSE_MAX_MS - now_ms) / 1000)
            else:
                waits.append(self._pace(each).wait_s(self._now_s()) or FULL_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(waits))):
                await self._changed.wait()

    def _count_held(self) -> None:
        """Let the messages of paused operations be counted, if that was not done for LOOK_S."""
        paused = any(each.operation.progress.state == PAUSED for each in self._running())
        if not paused or self._now_s() < self._counts_again_s:
            return
        self._counts_again_s = self._now_s() + LOOK_S
        self._life.spawn(self._count())

    async def _count(self) -> None:
        with suppress(Problem):  # the term is over, or many counts wait
            await self._count_topics(self._leads)

    def _leads(self) -> Term:
        self._term.raise_if_over()
        return self._term

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _finder(self, each: RunningSet) -> Finder:
        finder = self._finders.get(each.number)
        if finder is None:
            finder = self._finders[each.number] = Finder(self._store, self._clock, each, self._term.term)
        return finder

    def _pace(self, each: RunningSet) -> Pace:
        return self._paces.setdefault(each.number, Pace(each.operation.row.rate))

    async def _change(self, each: RunningSet) -> None:
        """Propose to change the next messages of a set."""
        finder, pace = self._finder(each), self._pace(each)
        begin = finder.reached
        found = await finder.found(pace.most(self._most(each)))
        if self._term.over:
            return
        if len(self._proposed) == AHEAD and not await self._applied_one():
            return  # the chunk begins where its operation does not stand
        if self._finders.get(each.number) is not finder:
            return
        count = len(found)
        if each.rule.moves and count:
            count = next(move_pieces(move_weights(self._store, found), CHUNK_MOVES)).stop
        chunk = finder.give_out(count)
        pace.took(count, self._now_s())
        command = OperationChunk(each.number, begin, chunk.end, chunk.last, chunk.places)
        proposed = asyncio.ensure_future(self._proposer.propose_single(command))
        proposed.add_done_callback(take_error)
        self._proposed.append((each.number, proposed))

    def _most(self, each: RunningSet) -> int:
        if each.rule.moves:
            return CHUNK_MOVES
        older = [other for other in self._running() if other.number < each.number and other.which.tags is not None]
        return CHUNK_READ if older else CHUNK_ROWS

    async def _applied_one(self) -> bool:
        """Wait for the oldest chunk that was proposed. False if it had no effect, or if its outcome is not known. Then
        its operation's messages are looked for again."""
        if await self._took_effect():
            return True
        while self._proposed:
            await self._took_effect()
        return False

    async def _took_effect(self) -> bool:
        number, proposed = self._proposed.popleft()
        done = None
        with suppress(Problem):
            done = await proposed
        if not done:
            self._finders.pop(number, None)
        if done is None:
            await asyncio.sleep(AGAIN_S)
        return bool(done)
