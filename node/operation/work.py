"""A leader service that does the work of operations, one chunk after the other.

    find     the next messages of a set, in order of (due time, place): a page of an hour, read in a thread
    change   up to CHUNK_ROWS of them in one entry, which also says how far the operation has come
    end      the last chunk says that nothing is left; requests that wait for the operation are woken

Operations take turns, a chunk each. What a chunk finds changed meanwhile is judged by its entry. A leader that dies
leaves nothing but the log: the next one goes on where the progress stands. A chunk that was proposed before, and whose
outcome is unknown, cannot count twice, because each chunk names the point where it begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
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
from replication.command.operation import BeginOperation, OperationChunk, Reached
from replication.snapshot.in_thread import in_thread_until
from storage.format.array import I64, U64
from storage.format.level import has
from storage.format.position import HOUR_MAX, HOUR_MS, INDEX_BITS
from storage.format.rows import Corrupt
from storage.format.states import OPEN_STANDINGS
from storage.query.page import HourPage, Listed, PageStart
from storage.query.selection import Selection
from storage.store import Store
from storage.tables.operations import RunningSet
from storage.tables.registry import OPERATIONS

log = structlog.get_logger()

#: So many messages are changed in one entry: some ms on every node.
CHUNK_ROWS: Final = 4_000
#: So many messages are found at a time, 64 bytes each.
FOUND_ROWS: Final = 262_144
#: The pause after a failed proposal.
AGAIN_S: Final = 0.02
_END: Final = Reached((HOUR_MAX + 1) * HOUR_MS, 0)


def operation_work(parts: LeaderParts, dispatcher: Dispatcher) -> OperationWork:
    """Make the service for a term (a ServiceFactory)."""
    return OperationWork(dispatcher, parts.store, parts.clock, parts.proposer, parts.life, parts.in_hand)


class Chunk(NamedTuple):
    """The next messages of a set, by place, and the point that is reached with them. `last`: no others are left."""

    places: U64
    end: Reached
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
                self._in_hand.end(command.number)
                self._dispatcher.handing_over.ask_again()

    def end(self) -> None:
        """See LeaderService."""
        self._in_hand.clear()
        self._promoted.set()

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
            while not self._term.over and (running := self._running()):
                for each in running:
                    if each.operation.runs and not self._term.over:
                        await self._change(each)
        finally:
            self._works = False
            self._finders.clear()

    async def _change(self, each: RunningSet) -> None:
        """Change the next messages of a set. If that fails, the messages are looked for again the next time."""
        begin = Reached(each.operation.progress.due_ms, each.operation.progress.place)
        finder = self._finders.get(each.number)
        if finder is None or finder.reached != begin:
            finder = self._finders[each.number] = Finder(self._store, self._clock, each, self._term.term)
        chunk = await finder.next(CHUNK_ROWS)
        if self._term.over:
            return
        done = None
        with suppress(Problem):
            command = OperationChunk(each.number, begin, chunk.end, chunk.last, chunk.places)
            done = await self._proposer.propose_single(command)
        if not done or chunk.last:
            self._finders.pop(each.number, None)
        if done is None:
            await asyncio.sleep(AGAIN_S)
        elif chunk.last and done:
            changed = each.operation.progress.changed
            log.info("an operation has ended", operation=each.number, kind=each.kind, changed=changed)


class Finder:
    """Finds the messages of one set that are left, in order. `reached`: all before this point were given out."""

    def __init__(self, store: Store, clock: NodeClock, of: RunningSet, term: int) -> None:
        self._store, self._clock, self._of = store, clock, of
        self._selection = Selection(frozenset(OPEN_STANDINGS), of.which, term)
        self.reached = Reached(of.operation.progress.due_ms, of.operation.progress.place)
        self._rest: PageStart | None = PageStart(*self.reached)
        self._places: U64 = np.empty(0, np.uint64)  # found and not given out yet
        self._due_ms: I64 = np.empty(0, np.int64)

    async def next(self, most: int) -> Chunk:
        """The next messages, at most `most`. Raises Corrupt or DiskFailed."""
        parts, count = [self._places], len(self._places)
        due = [self._due_ms]
        while self._rest is not None and count <= most:
            listed = await self._page(self._rest)
            parts.append(listed[0])
            due.append(listed[1])
            count += len(listed[0])
        places, due_ms = np.concatenate(parts), np.concatenate(due)
        self._places, self._due_ms = places[most:], due_ms[most:]
        if len(self._places):
            self.reached = Reached(int(self._due_ms[0]), int(self._places[0]))
        else:
            self.reached = _END if self._rest is None else Reached(*self._rest)
        return Chunk(places[:most], self.reached, self._rest is None and not len(self._places))

    async def _page(self, begin: PageStart) -> tuple[U64, I64]:
        """The messages of the next hour that has some, and set where the rest begins."""
        for hour in self._hours(begin):
            found = self._store.selectable(hour, self._selection)
            if found is None:
                continue
            page = HourPage(found, self._selection, self._clock.now_ms(), begin, FOUND_ROWS)
            stop = threading.Event()
            try:
                listed: Listed = await in_thread_until(stop, page.run, stop.is_set)
            except Corrupt:
                if self._store.is_linked(found):
                    raise
                continue
            self._rest = listed.next or PageStart.at_hour(hour + 1)
            index = listed.units["global_index"]
            units = listed.units[index.astype(np.int64) < self._of.end_of(hour)]
            places = units["global_index"].astype(np.uint64) | np.uint64(hour << INDEX_BITS)
            return places, units["due_ms"].astype(np.int64)
        self._rest = None
        return np.empty(0, np.uint64), np.empty(0, np.int64)

    def _hours(self, begin: PageStart) -> Iterator[int]:
        first = int(np.searchsorted(self._of.hours, begin.due_ms // HOUR_MS))
        yield from self._of.hours[first:].tolist()
