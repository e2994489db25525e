"""A service that gives up unwanted messages of a restored cluster: those that became overdue before the cluster was
back.

    fix      the cutoff: messages that were due before it are not wanted. It is the first leader's clock less the span
             that `hourwheel restore` was given. It is replicated, so that the next leader goes on with the same one
    give up  hour by hour, a piece at a time: each pending message that was due before the cutoff dies, with the
             reason `restored`, as if its last attempt had failed. It is listed, redriven and copied like any other
    done     is replicated; from then on this cluster is like any other

Meanwhile the dispatcher leaves those units where they are (BacklogReader.wanted_from_ms) and hands over all others. A
piece is one entry, like those of retries, and its result is waited for before the next piece. So nothing that is due
waits for more than one piece. A message that was leased when the backup was made is given up only if its lease ends
before its hour's turn. If the lease ends later, the message is handed over again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import numpy as np
import structlog

from api.port.problem import Problem
from node.handover.term import Term
from node.leader.dispatcher import Dispatcher
from node.leader.leader_parts import LeaderParts
from node.leader.service import LeaderService
from node.port.failure_code import RESTORED
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.runtime.lifecycle import Lifecycle
from node.settle.move_size import move_pieces, move_weights
from node.write.command_queues import ENTRY_MOVES_MAX
from node.write.proposer import Proposer
from replication.command.handover import DEAD, Fail
from replication.command.overdue import OverdueCutoff
from storage.format.array import U64
from storage.format.position import HOUR_MS
from storage.format.states import IS_OPEN, IS_PENDING, LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store

log = structlog.get_logger()

#: So many positions are looked at before the loop does other work.
LOOK_ROWS: Final = 16_384
#: The pause between two pieces, in which entries with hand-overs and schedules can go.
PAUSE_S: Final = 0.005


def restored_overdue(parts: LeaderParts, dispatcher: Dispatcher) -> RestoredOverdue:
    """Make the service for a term (a ServiceFactory)."""
    return RestoredOverdue(dispatcher, parts.store, parts.clock, parts.entropy, parts.proposer, parts.life)


class RestoredOverdue(LeaderService):
    """The service of one term: gives up the unwanted messages of a restored cluster. It does nothing if the cluster was
    not restored, or was restored to keep every message."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        store: Store,
        clock: NodeClock,
        entropy: Entropy,
        proposer: Proposer,
        life: Lifecycle,
    ) -> None:
        self._dispatcher, self._store = dispatcher, store
        self._clock, self._entropy, self._proposer, self._life = clock, entropy, proposer, life
        self._given_up = 0

    def begin(self, term: Term) -> None:
        """Make the dispatcher leave unwanted messages alone, and start to give them up."""
        row = self._store.catalog.overdue_rule
        if row is not None:
            self._term = term
            self._cutoff_ms = term.promoted_ms - row.last_ms if row.cutoff_ms is None else row.cutoff_ms
            self._dispatcher.want_from(self._cutoff_ms)
            self._life.spawn(self._run())

    async def _run(self) -> None:
        log.info("giving up what is overdue and not wanted", due_before_ms=self._cutoff_ms)
        await self._say(done=False)
        for hour in self._store.open_hours(last=self._cutoff_ms // HOUR_MS):
            await self._give_up(hour)
        await self._say(done=True)
        if not self._term.over:
            self._dispatcher.want_from(0)
            self._term.poke()
            log.info("gave up what is overdue and not wanted", messages=self._given_up)

    async def _say(self, *, done: bool) -> None:
        """Replicate the cutoff, and whether the work is done. Propose it again while the outcome is unknown."""
        while not self._term.over:
            with suppress(Problem):
                await self._proposer.propose_single(OverdueCutoff(self._cutoff_ms, done))
                return
            await asyncio.sleep(PAUSE_S)

    async def _give_up(self, hour: int) -> None:
        store = self._store
        first, _ = store.span(hour)
        while not self._term.over and first < (end := store.span(hour)[1]):
            unwanted = self._unwanted(first, min(first + LOOK_ROWS, end))
            for piece in move_pieces(move_weights(store, unwanted), ENTRY_MOVES_MAX):
                await self._bury(unwanted[piece])
            first += LOOK_ROWS
            await asyncio.sleep(0)

    def _unwanted(self, first: int, end: int) -> U64:
        """The positions of pending units from `first` to `end` that were due before the cutoff. A unit whose lease has
        ended counts as pending."""
        store = self._store
        positions = np.arange(first, end, dtype=np.uint64)
        positions = positions[IS_OPEN[store.state_only(positions)]]
        states = store.states(positions)
        ended = lease_ends_ms(states.lease_end_ms, states.term, self._term.term) <= self._clock.now_ms()
        free = IS_PENDING[states.state] | ((states.state == LEASED) & ended)
        positions = positions[free]
        unwanted: U64 = positions[store.units(positions)["due_ms"] < self._cutoff_ms]
        return unwanted

    async def _bury(self, positions: U64) -> None:
        """Give these units up in one entry. Propose it again while the outcome is unknown: it cannot count twice,
        because a message dies only once."""
        while not self._term.over:
            with suppress(Problem):
                fail = self._fail(positions)
                await self._term.give_up(fail)
                self._given_up += len(positions)
                await asyncio.sleep(PAUSE_S)
                return
            await asyncio.sleep(PAUSE_S)

    def _fail(self, positions: U64) -> Fail:
        count = len(positions)
        states = self._store.states(positions)
        return Fail(
            position=positions,
            term=states.term,
            attempt=states.attempt,
            code=np.full(count, RESTORED, np.uint16),
            fate=np.full(count, DEAD, np.uint8),
            due_ms=np.zeros(count, np.int64),
            random=self._entropy.id_bits(count),
        )
