"""A leader service that does the work of operations, one chunk after the other.

    find     the next messages of a set, in the order of positions: those of an hour, in a thread
    change   up to CHUNK_ROWS of them in one entry, which also says how far the operation has come
    end      the last chunk says that nothing is left; requests that wait for the operation are woken

Operations take turns, a chunk each. What a chunk finds changed meanwhile is judged by its entry. A leader that dies
leaves nothing but the log: the next one goes on where the progress stands. A chunk that was proposed before, and whose
outcome is unknown, cannot count twice, because each chunk names the point where it begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
import structlog

from api.port.problem import Problem
from node.handover.term import Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.leader.operations_in_hand import OperationsInHand
from node.leader.service import LeaderService
from node.runtime.clock import NodeClock
from node.runtime.lifecycle import Lifecycle
from node.write.proposer import Proposer
from replication.apply.apply_notifier import Changes
from replication.apply.operation import BEGUN
from replication.command.operation import BeginOperation, OperationChunk
from replication.snapshot.in_thread import in_thread_until
from storage.format.array import U64
from storage.format.level import has
from storage.format.position import GONE, INDEX_BITS, INDEX_MAX, pack
from storage.format.rows import Corrupt
from storage.format.states import OPEN_STANDINGS
from storage.query.hour_members import HourMembers
from storage.query.selection import Selection
from storage.store import Store
from storage.tables.operations import RunningSet
from storage.tables.registry import OPERATIONS

log = structlog.get_logger()

#: So many messages are changed in one entry: some ms on every node.
CHUNK_ROWS: Final = 2_500
#: A chunk has messages of about so many hours at most. Each hour that it touches costs some 50 us on every node.
CHUNK_HOURS: Final = 64
#: So many messages a chunk, if an older operation asks for a tag: their records are read then, on every node.
CHUNK_READ: Final = 250
#: So many messages are found at a time, 8 bytes each.
FOUND_ROWS: Final = 1_000_000
#: So many chunks may be proposed and not applied yet: one in the entry that is in flight, and one for the next entry.
AHEAD: Final = 2
#: The pause after a failed proposal.
AGAIN_S: Final = 0.02
_END: Final = GONE


def operation_work(parts: LeaderParts, dispatcher: Dispatcher) -> OperationWork:
    """Make the service for a term (a ServiceFactory)."""
    return OperationWork(dispatcher, parts.store, parts.clock, parts.proposer, parts.life, parts.in_hand)


class Chunk(NamedTuple):
    """The next messages of a set, by place, and the position that is reached with them. `last`: no others are left."""

    places: U64
    end: int
    last: bool


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
    ) -> None:
        self._dispatcher, self._store, self._clock = dispatcher, store, clock
        self._proposer, self._life, self._in_hand = proposer, life, in_hand
        self._finders: dict[int, Finder] = {}
        self._proposed: deque[asyncio.Future[bool]] = deque()  # chunks, oldest first
        self._works = False
        self._promoted = asyncio.Event()

    def begin(self, term: Term) -> None:
        """Go on with the operations that former leaders began."""
        self._in_hand.clear()
        self._term = term
        self._look_promoted()
        self._wake()

    def applied(self, changes: Changes) -> None:
        """Begin to work for an operation that has begun, and wake those that wait for one that has ended."""
        self._look_promoted()
        for command, result in zip(changes.commands, changes.results, strict=True):
            if isinstance(command, BeginOperation):
                self._in_hand.proposed.pop(command.mark, None)
                if result.result == BEGUN:
                    self._wake()
            elif isinstance(command, OperationChunk) and command.last and result:
                self._ended(command.number)

    def end(self) -> None:
        """See LeaderService."""
        self._in_hand.clear()
        self._promoted.set()

    def _ended(self, number: int) -> None:
        self._finders.pop(number, None)
        self._in_hand.end(number)
        self._dispatcher.handing_over.ask_again()
        ended = self._store.catalog.of(OPERATIONS).find(number)
        assert ended is not None, number
        log.info("an operation has ended", operation=number, kind=ended.row.kind, changed=ended.progress.changed)

    def _look_promoted(self) -> None:
        """Note if the log has the doubt about the leaders before this one, by which apply judges a chunk."""
        if not has(self._store.level, "doubt") or self._store.doubt.term >= self._term.term:
            self._promoted.set()

    def _wake(self) -> None:
        if not self._works and self._running():
            self._works = True
            self._life.spawn(self._work())

    def _running(self) -> tuple[RunningSet, ...]:
        return self._store.catalog.of(OPERATIONS).running

    async def _work(self) -> None:
        try:
            await self._promoted.wait()
            while not self._term.over and (self._running() or self._proposed):
                begun = [each for each in self._running() if not self._finder(each).ended]
                for each in begun:
                    await self._change(each)
                if len(self._proposed) == AHEAD or not begun:
                    await self._applied_one()
        finally:
            self._works = False
            self._finders.clear()
            self._proposed.clear()

    def _finder(self, each: RunningSet) -> Finder:
        finder = self._finders.get(each.number)
        if finder is None:
            finder = self._finders[each.number] = Finder(self._store, self._clock, each, self._term.term)
        return finder

    async def _change(self, each: RunningSet) -> None:
        """Propose to change the next messages of a set."""
        finder = self._finder(each)
        begin = finder.reached
        older = [other for other in self._running() if other.number < each.number and other.which.tags is not None]
        chunk = await finder.next(CHUNK_READ if older else CHUNK_ROWS)
        if self._term.over:
            return
        if len(self._proposed) == AHEAD and not await self._applied_one():
            return  # the chunk begins where its operation does not stand
        command = OperationChunk(each.number, begin, chunk.end, chunk.last, chunk.places)
        proposed = asyncio.ensure_future(self._proposer.propose_single(command))
        proposed.add_done_callback(_look)
        self._proposed.append(proposed)

    async def _applied_one(self) -> bool:
        """Wait for the oldest chunk that was proposed. False if it had no effect, or if its outcome is not known. Then
        those behind it have none either, and the messages are looked for again."""
        done = None
        with suppress(Problem):
            done = await self._proposed.popleft()
        if done:
            return True
        while self._proposed:
            with suppress(Problem):
                await self._proposed.popleft()
        self._finders.clear()
        if done is None:
            await asyncio.sleep(AGAIN_S)
        return False


def _look(proposed: asyncio.Future[bool]) -> None:
    """Take the error, if there is one: at the end of a term nobody waits for the chunks that were proposed."""
    if not proposed.cancelled():
        proposed.exception()


class Finder:
    """Finds the messages of one set that are left, in the order of positions. `reached`: all before this position were
    given out."""

    def __init__(self, store: Store, clock: NodeClock, of: RunningSet, term: int) -> None:
        self._store, self._clock, self._of = store, clock, of
        self._selection = Selection(frozenset(OPEN_STANDINGS), of.which, term)
        self.reached = of.operation.progress.place
        self._rest: int | None = self.reached  # the position from which on others are still to be found
        self._places: U64 = np.empty(0, np.uint64)  # found and not given out yet

    @property
    def ended(self) -> bool:
        """True if all were given out."""
        return self.reached == _END

    async def next(self, most: int) -> Chunk:
        """The next messages, at most `most`. Raises Corrupt or DiskFailed."""
        parts, count = [self._places], len(self._places)
        while self._rest is not None and count <= most and len(parts) <= CHUNK_HOURS:
            parts.append(await self._found(self._rest))
            count += len(parts[-1])
        # Without a copy where nothing was found: it would copy a million places for each chunk, on the event loop.
        places = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._places = places[most:]
        if len(self._places):
            self.reached = int(self._places[0])
        else:
            self.reached = _END if self._rest is None else self._rest
        return Chunk(places[:most], self.reached, self.reached == _END)

    async def _found(self, begin: int) -> U64:
        """The messages of the next hour that has some, from this position on. Set where the rest begins."""
        first = int(np.searchsorted(self._of.hours, begin >> INDEX_BITS))
        for hour in self._of.hours[first:].tolist():
            found = self._store.selectable(hour, self._selection)
            if found is None:
                continue
            at = begin & INDEX_MAX if begin >> INDEX_BITS == hour else 0
            look = HourMembers(found, self._selection, self._clock.now_ms(), at, self._of.end_of(hour), FOUND_ROWS)
            stop = threading.Event()
            try:
                members = await in_thread_until(stop, look.run, stop.is_set)
            except Corrupt:
                if self._store.is_linked(found):
                    raise
                continue
            self._rest = None if hour == self._of.hours[-1] else (hour + 1) << INDEX_BITS
            if members.next is not None:
                self._rest = pack(hour, members.next)
            return members.at.astype(np.uint64) | np.uint64(hour << INDEX_BITS)
        self._rest = None
        return np.empty(0, np.uint64)
