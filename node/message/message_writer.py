"""Writes new messages, and lets those of `on_conflict` `replace` and `extend` change the holders of their keys.

    look       who holds the key? That message is not handed over from here on
    propose    the new message, with the name of that holder (replication/command/supersede.py)
    again      if somebody else has the key by then: nothing was written

The queue looks when it puts the entry together (node/write/supersede_queue.py). Two for the same key take effect in the
order in which they came. So do the messages of one request that have the same key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import numpy as np

from api.port.port import MessageIn
from api.port.problem import Problem
from node.handover.term import Leads, Term
from node.message.key_holders import KeyHolders
from node.port.draft import Draft, encode_draft, rows_alone, rows_of
from node.port.message_port import Scheduled, ScheduledRow, Superseded
from node.port.refusal import NOTHING_DONE, Refusal
from node.runtime.clock import NodeClock
from node.settle.move_size import move_weight
from node.write.command_queues import take_error
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from node.write.schedule import WriteLimits, join_rows, problems_of, schedule_messages, schedule_one
from node.write.supersede_queue import Looked, Outcome, SupersedeOrder
from replication.apply.message.supersede import VOID
from storage.format.schedule_status import CHANGING, FAILED, NEW, SUPERSEDES
from storage.store import Store

#: So many messages of one request wait in the queue at once, as many as several entries take.
AT_ONCE: Final = 1_000
#: So many are put into the queue in one step of the loop.
A_STEP: Final = 64
_rule = attrgetter("on_conflict")
_UNANSWERED: Final = Refusal("internal", "a message has no answer")


class MessageWriter:
    """Writes new messages on one node. The caller has checked that it leads, and that the disk has room. `leads`
    returns the term, and raises a Problem unless the node may answer as leader at this moment. `require` raises one if
    the cluster's level lacks a feature."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        clock: NodeClock,
        require: Callable[[str], None],
        limits: WriteLimits,
        leads: Leads,
        holders: KeyHolders,
    ) -> None:
        self._store, self._proposer, self._clock = store, proposer, clock
        self._require, self._limits, self._leads, self._holders = require, limits, leads, holders

    async def one(self, message: MessageIn | Draft, through: Requests | None = None) -> ScheduledRow:
        """Write a request's only message. Raises its refusal. `through` proposes it, None: the proposer."""
        through = through or self._proposer
        if isinstance(message, Draft):
            if any(key.on_conflict in SUPERSEDES for key in message.keys):
                return await self._only(message, through)
        elif message.on_conflict in CHANGING and message.key is not None:
            return await self._only(encode_draft((message,)), through)
        return await schedule_one(self._store, through, self._limits, self._clock, message)

    async def many(self, messages: Sequence[MessageIn] | Draft, requests: int = 1) -> Scheduled:
        """Write the messages of `requests` requests. Each at fault has its own refusal, that of a single one is
        raised."""
        if isinstance(messages, Draft):
            over = any(key.on_conflict in SUPERSEDES for key in messages.keys)
        else:
            over = not CHANGING.isdisjoint(map(_rule, messages))
        if not over:
            return await schedule_messages(
                self._store, self._proposer, self._limits, self._clock, messages, requests=requests
            )
        draft = messages if isinstance(messages, Draft) else encode_draft(messages)
        return await self._in_turns(draft)

    async def _in_turns(self, draft: Draft) -> Scheduled:
        """Write a draft with rows that may change the holders of their keys. Raises the refusal of them all if nothing
        was written because this node does not lead, so that they are sent to the leader again."""
        problems = problems_of(self._store, draft, self._limits, self._clock)
        done: dict[int, ScheduledRow | Refusal] = {row: Refusal.of(problem) for row, problem in problems.items()}
        for plain, changing in _turns(draft, problems.keys()):
            await self._plain(draft, plain, done)
            for start in range(0, len(changing), AT_ONCE):
                rows = changing[start : start + AT_ONCE]
                answers = await self._supersede([*rows_alone(draft, rows)], self._proposer)
                done.update(zip(rows, answers, strict=True))
        refused = [row for row in done.values() if isinstance(row, Refusal)]
        if len(refused) == len(draft) and (len(draft) == 1 or all(each.code in NOTHING_DONE for each in refused)):
            raise refused[0].problem()
        return join_rows([done[row] for row in range(len(draft))])

    async def _plain(self, draft: Draft, rows: list[int], done: dict[int, ScheduledRow | Refusal]) -> None:
        """Write rows that change no holder."""
        if not rows:
            return
        try:
            some = await schedule_messages(self._store, self._proposer, self._limits, self._clock, rows_of(draft, rows))
        except Problem as problem:
            done.update(dict.fromkeys(rows, Refusal.of(problem)))
            return
        columns = (np.frombuffer(column, np.uint64).tolist() for column in (some.position, some.random, some.due_ms))
        for at, (row, *values) in enumerate(zip(rows, *columns, some.status, strict=True)):
            done[row] = some.refused[at] if at in some.refused else ScheduledRow(*values)

    async def _only(self, draft: Draft, through: Requests) -> ScheduledRow:
        for problem in problems_of(self._store, draft, self._limits, self._clock).values():
            raise problem
        (answer,) = await self._supersede([draft], through)
        if isinstance(answer, Refusal):
            raise answer.problem()
        return answer

    async def _supersede(self, drafts: Sequence[Draft], through: Requests) -> list[ScheduledRow | Refusal]:
        """Write messages that may change the holders of their keys, each a draft of its own."""
        answers: list[ScheduledRow | Refusal] = [_UNANSWERED] * len(drafts)
        left = list(range(len(drafts)))
        while left:
            proposed: dict[int, asyncio.Future[Outcome]] = {}
            for count, row in enumerate(left):
                try:
                    proposed[row] = self._propose(drafts[row], through)
                except Problem as problem:
                    answers[row] = Refusal.of(problem)
                if count % A_STEP == A_STEP - 1:
                    await asyncio.sleep(0)
            left = []
            # Shielded: if the client goes away, the messages and the holds that go with them stay.
            outcomes = await asyncio.gather(*map(asyncio.shield, proposed.values()), return_exceptions=True)
            for row, outcome in zip(proposed, outcomes, strict=True):
                if isinstance(outcome, Outcome) and outcome.status == FAILED and outcome.why == VOID:
                    left.append(row)
                else:
                    answers[row] = await self._answer(outcome)
        return answers

    def _propose(self, draft: Draft, through: Requests) -> asyncio.Future[Outcome]:
        self._require("supersede")
        term, (key,) = self._leads(), draft.keys
        look = partial(self._look, term, draft.topics[0], key.key, len(draft.records))
        proposed = through.supersede(SupersedeOrder(draft, look, term.holding.until))
        proposed.add_done_callback(take_error)
        return proposed

    def _look(self, term: Term, topic: str, key: bytes, size: int) -> Looked:
        """Find the holder of a key for a message of `size` bytes."""
        found = self._holders.look(term, [(topic, key)])
        weight = move_weight(max(size, int(found.size[0])))
        return Looked(int(found.home[0]), bool(found.doubtful[0]), weight)

    async def _answer(self, outcome: Outcome | BaseException) -> ScheduledRow | Refusal:
        if isinstance(outcome, Problem):
            return Refusal.of(outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome.status == FAILED:
            return Refusal.of(await self._holders.refusal(outcome))
        return row_of(outcome)


def row_of(was: Outcome) -> ScheduledRow:
    """The result of a message that was written, and perhaps changed the holder of its key."""
    before = None
    if was.status != NEW:
        before = Superseded(was.previous, was.previous_random, was.attempts, was.prior, was.revision)
    return ScheduledRow(was.position, was.random, was.due_ms, was.status, before)


def _turns(draft: Draft, refused: Collection[int]) -> list[tuple[list[int], list[int]]]:
    """Divide the rows that are not refused into turns, one after the other. In each turn the rows that change no holder
    come first. Rows with the same key keep their order."""
    turns: list[tuple[list[int], list[int]]] = [([], [])]
    topic = np.frombuffer(draft.topic, np.uint16)
    newest: dict[tuple[int, bytes], tuple[int, bool]] = {}  # by topic and key, the turn of the row before, and its kind
    keys = {key.row: key for key in draft.keys}
    for row in range(len(draft)):
        if row in refused:
            continue
        turn, changes = 0, False
        if (key := keys.get(row)) is not None:
            changes, name = key.on_conflict in SUPERSEDES, (int(topic[row]), key.key)
            before, changed = newest.get(name, (0, changes))
            turn = before + (changed and not changes)
            newest[name] = turn, changes
        if turn == len(turns):
            turns.append(([], []))
        turns[turn][changes].append(row)
    return turns
