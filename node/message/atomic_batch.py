"""Writes atomic batches: all messages in one entry, or none.

    look       who holds the keys of the lines that replace or extend? Those messages are not handed over from here on
    propose    the whole batch, with the names of these holders (replication/command/supersede.py)
    again      if somebody else has one of the keys by then: nothing was written

The queue looks when it puts the entry together (node/write/batch_queue.py). So the whole batch rarely has to go again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from api.port.problem import Problem
from node.handover.term import Leads, Term
from node.message.key_holders import KeyHolders
from node.message.message_writer import row_of
from node.port.draft import Draft
from node.port.message_port import Scheduled
from node.port.message_port import Superseded as Before
from node.port.refusal import Refusal
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.write.batch_queue import ATOMIC_BYTES_MAX, Batch, BatchOrder
from node.write.command_queues import take_error
from node.write.proposer import Proposer
from node.write.schedule import NOTHING, WriteLimits, join_rows, problems_of
from node.write.stamp_drafts import stamp_draft
from node.write.supersede_queue import Outcome
from replication.apply.message.message_location import FREE
from replication.apply.message.supersede import VOID, Superseded
from replication.command.supersede import Changes, ScheduleAll
from storage.format.array import Mask
from storage.format.position import GONE
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, REPLACED, SUPERSEDES
from storage.store import Store

#: So many refusals are made in one step of the loop.
A_STEP: Final = 64


class AtomicBatches:
    """Writes atomic batches on one node. The caller has checked that it leads, and that the disk has room. `leads`
    returns the term, and raises a Problem unless the node may answer as leader at this moment. `require` raises one if
    the cluster's level lacks a feature."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        clock: NodeClock,
        entropy: Entropy,
        require: Callable[[str], None],
        limits: WriteLimits,
        leads: Leads,
        holders: KeyHolders,
    ) -> None:
        self._store, self._proposer, self._clock, self._entropy = store, proposer, clock, entropy
        self._require, self._limits, self._leads, self._holders = require, limits, leads, holders

    async def write(self, draft: Draft) -> Scheduled:
        """Write all messages of a draft in one entry, or none."""
        self._require("atomic-batch")
        problems = problems_of(self._store, draft, self._limits, self._clock)
        if problems:
            return join_rows([Refusal.of(problems[row]) if row in problems else NOTHING for row in range(len(draft))])
        while True:
            term = self._leads()
            proposed = self._proposer.batch(BatchOrder(partial(self._make, term, draft), term.holding.until))
            proposed.add_done_callback(take_error)
            # Shielded: if the client goes away, the batch and the holds that go with it stay.
            applied = await asyncio.shield(proposed)
            if (applied.status == FAILED).any() and not _at_fault(applied).any():
                assert (applied.why == VOID).any(), "a batch was refused, and none of its lines"
                continue
            return await self._answer(applied)

    def _make(self, term: Term, draft: Draft, now_ms: int) -> Batch:
        """Make the command. Raises `too-large` if it would copy too many bytes of holders."""
        messages = stamp_draft(draft, now_ms=now_ms, random=self._entropy.id_bits(len(draft)))
        changing = [key for key in draft.keys if key.on_conflict in SUPERSEDES]
        if not changing:
            return Batch(ScheduleAll(messages), ())
        rows = np.array([key.row for key in changing], np.intp)
        topic = np.frombuffer(draft.topic, np.uint16)[rows].tolist()
        names = [(draft.topics[number], key.key) for number, key in zip(topic, changing, strict=True)]
        found = self._holders.look(term, names)
        if (size := int(found.size.sum())) > ATOMIC_BYTES_MAX:
            detail = f"the messages that have its keys take {size} bytes, at most {ATOMIC_BYTES_MAX} may"
            raise Problem("too-large", f"{detail}; replace or extend fewer in one batch")
        n = len(draft)
        changes = Changes(
            np.full(n, GONE, np.uint64), np.zeros(n, np.uint8), np.zeros(n, np.int64), np.zeros(n, np.uint8)
        )
        changes.holder[rows], changes.doubtful[rows] = found.home, found.doubtful
        changes.max_wait_ms[rows] = [key.max_wait_ms for key in changing]
        changes.due_only[rows] = [key.due_only for key in changing]
        return Batch(ScheduleAll(messages, changes), found.home[found.home != GONE].tolist())

    async def _answer(self, applied: Superseded) -> Scheduled:
        columns = (applied.position, applied.random, applied.due_ms, applied.status)
        position, random, due_ms, status = (column.tobytes() for column in columns)
        changed = np.flatnonzero((applied.status == REPLACED) | (applied.status == EXTENDED)).tolist()
        before: dict[int, Before] = {}
        for row in changed:
            was = row_of(_outcome(applied, row)).before
            assert was is not None, "it has changed the holder of its key"
            before[row] = was
        refused: dict[int, Refusal] = {}
        for count, row in enumerate(np.flatnonzero(_at_fault(applied) & (applied.status == FAILED)).tolist()):
            refused[row] = Refusal.of(await self._holders.refusal(_outcome(applied, row)))
            if count % A_STEP == A_STEP - 1:
                await asyncio.sleep(0)
        return Scheduled(position, random, due_ms, status, refused, before)


def _outcome(applied: Superseded, row: int) -> Outcome:
    return Outcome(*(int(column[row]) for column in applied))


def _at_fault(applied: Superseded) -> Mask:
    """The rows for which nothing can be written. VOID ones are not among them: somebody else has their keys by now."""
    named = (applied.status == FAILED) & (applied.why != FREE) & (applied.why != VOID)
    faults: Mask = (applied.status == CONFLICT) | named
    return faults
