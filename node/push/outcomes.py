"""Sees to it that the outcomes of push attempts are recorded. While this node leads it proposes them itself. When it
leads no more it sends them to the new leader, with the receipts of the hand-overs and the receivers' answers.

    attempt ends -> delivery log -> batch --- leading --> Settle / Fail of the own proposer
                                      '--- deposed --> PeerPort.outcomes to the leader, and there
                                                       settle/former_leader_outcomes.py

Outcomes are gathered while a batch is being written, so the next entry has all that ended meanwhile. To send an outcome
twice does no harm, because the same hand-over is answered `acked` again. So an outcome without an answer is sent again
until its lease ends. After that the hand-over counts as one without outcome, and the message is pushed once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import structlog

from api.port.leadership import OUTCOMES_MAX, PushOutcome
from api.port.problem import Problem
from node.handover.delivery_log import DELIVERED, FAILED, GIVEN_BACK, PUSH, DeliveryLog
from node.handover.term import Leadership
from node.handover.topic_metrics import TopicMetrics
from node.port.failure_code import STOPPED, error_text
from node.port.peer_port import PeerPort
from node.port.push_port import PushDone
from node.port.receipt import Receipts
from node.push.unit import StagedUnit
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.runtime.lifecycle import Lifecycle
from node.settle.fail_columns import FailColumns
from node.settle.move_size import move_pieces, move_weight
from node.settle.retry import Dead, Retry, decide, effective
from node.write.command_queues import ENTRY_MOVES_MAX
from node.write.proposer import Proposer
from replication.command.handover import Fail, Settle
from storage.format.array import U8, U16, U32, U64

log = structlog.get_logger()

#: Outcomes of attempts that end within this time go in one entry. An entry costs every node more than many outcomes do,
#: and no client waits for an outcome.
GATHER_S: Final = 0.005
#: The first and the longest pause before outcomes are sent again. Each pause is twice the one before.
PAUSE_FIRST_S: Final = 0.05
PAUSE_MOST_S: Final = 1.0
_TOOK_MS_MAX: Final = (1 << 32) - 1  # the most that a record holds, 49 days


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """A hand-over to a receiver. `number` says which attempt of its message it is. `receipts` makes the receipt that
    names it."""

    unit: StagedUnit
    number: int
    term: int
    handed_over_ms: int
    lease_end_ms: int
    receipts: Receipts


class Outcome(NamedTuple):
    """An attempt with its outcome. It ended at `at_ms`."""

    attempt: Attempt
    done: PushDone
    at_ms: int


class Outcomes:
    """Records the outcomes of all push attempts of one node, whichever term they began in."""

    def __init__(
        self,
        leadership: Leadership,
        clock: NodeClock,
        entropy: Entropy,
        proposer: Proposer,
        delivery_log: DeliveryLog,
        topic_metrics: TopicMetrics,
        peers: PeerPort,
        life: Lifecycle,
    ) -> None:
        self._leadership, self._proposer, self._peers = leadership, proposer, peers
        self._clock, self._entropy, self._life = clock, entropy, life
        self._delivery_log, self._topic_metrics = delivery_log, topic_metrics
        self._chance = entropy.random()
        self._new: list[Outcome] = []
        self._writing: asyncio.Task[None] | None = None
        self._passing: dict[asyncio.Task[None], None] = {}  # in the order in which they began

    def add(self, attempt: Attempt, done: PushDone, at_ms: int) -> None:
        """Take an attempt that ended at this time. Its end is written to the delivery log, and then its outcome is
        proposed or sent on."""
        self._new.append(Outcome(attempt, done, at_ms))
        if self._writing is None:
            self._writing = self._begin(self._write())

    @property
    def quiet(self) -> bool:
        """True if no outcome waits: all are written, or were sent to another leader."""
        return not self._new and self._writing is None and not self._passing

    async def settled(self) -> None:
        """Wait until no outcome waits (see `quiet`)."""
        while tasks := [task for task in (self._writing, *self._passing) if task is not None]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop. A message whose outcome was not recorded comes again when its lease ends."""
        tasks = [task for task in (self._writing, *self._passing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- writing

    async def _write(self) -> None:
        """Write the outcomes that wait to the delivery log and propose them, batch by batch. A batch whose proposal
        fails goes to `_pass_on`."""
        try:
            while self._new:
                await asyncio.sleep(GATHER_S)
                batch, self._new = self._new, []
                self._log(batch)
                try:
                    await self._propose(batch)
                except Problem:
                    task = self._begin(self._pass_on(batch))
                    self._passing[task] = None
                    task.add_done_callback(self._passing.pop)
        finally:
            self._writing = None

    def _log(self, batch: list[Outcome]) -> None:
        """Write the ends of these attempts to this node's delivery log."""
        ends = [outcome.done for outcome in batch]
        attempts = [outcome.attempt for outcome in batch]
        records = [attempt.unit.record for attempt in attempts]
        now_ms = self._clock.now_ms()
        for kind in (DELIVERED, GIVEN_BACK, FAILED):
            rows = [row for row, done in enumerate(ends) if _kind(done) == kind]
            if rows:
                self._delivery_log.end(
                    home=np.array([records[row].position for row in rows], np.uint64),
                    random=np.array([records[row].random for row in rows], np.uint64),
                    attempt=np.array([attempts[row].number for row in rows], np.uint16),
                    term=np.array([attempts[row].term for row in rows], np.uint32),
                    topic=np.array([records[row].topic for row in rows], np.uint32),
                    code=np.array([ends[row].code for row in rows], np.uint16),
                    took_ms=np.array([took_ms(batch[row]) for row in rows], np.uint32),
                    at_ms=now_ms,
                    mode=PUSH,
                    outcome=kind,
                )

    async def _propose(self, batch: list[Outcome]) -> None:
        """Propose the outcomes on this node. Raises Problem if this node does not lead, or if the result is not
        known."""
        term = self._leadership.term
        if term is None:
            raise Problem("no-leader", "this node does not lead any more")
        delivered = [outcome for outcome in batch if outcome.done.delivered]
        failed = [outcome for outcome in batch if not outcome.done.delivered]
        writes: list[Awaitable[U8]] = []
        weights = np.array([move_weight(outcome.attempt.unit.size) for outcome in failed], np.int64)
        for piece in move_pieces(weights, ENTRY_MOVES_MAX):
            writes.append(term.fail(self._fail(failed[piece])))
        if delivered:
            writes.append(self._proposer.settle(_settle(delivered)))
        results = await asyncio.gather(*writes, return_exceptions=True)
        for each in results:
            if isinstance(each, BaseException):
                raise each
        self._topic_metrics.add("acked", _topics(delivered))

    def _fail(self, failed: list[Outcome]) -> Fail:
        """Make the Fail for these outcomes. The retry policies decide the fate of each message. An attempt that was
        never sent (STOPPED) says nothing of its receiver. It does not count, and its message is due at once."""
        now_ms = self._clock.now_ms()
        fails = FailColumns(np.array([outcome.done.code for outcome in failed], np.uint16))
        for row, outcome in enumerate(failed):
            fails.note(row, self._fate(outcome, now_ms), counts=outcome.done.code != STOPPED)
        random = self._entropy.id_bits(len(failed))
        return fails.fail(*_claims(failed), random=random, said=(outcome.done.text for outcome in failed))

    def _fate(self, outcome: Outcome, now_ms: int) -> Retry | Dead:
        attempt, done = outcome.attempt, outcome.done
        if done.code == STOPPED:
            return Retry(now_ms)
        record = attempt.unit.record
        return decide(
            effective(attempt.unit.topic.settings, record.extension),
            attempts=attempt.number - record.attempt,
            code=done.code,
            asked_due_ms=record.asked_due_ms,
            now_ms=now_ms,
            jitter=self._chance.random(),
            retry_after_ms=done.retry_after_ms,
        )

    # -- passing on

    async def _pass_on(self, batch: list[Outcome]) -> None:
        """Propose the outcomes here or send them to the leader, again and again, until they are taken or their leases
        have ended."""
        pause_s = PAUSE_FIRST_S
        while batch:
            try:
                if self._leadership.term is not None:
                    await self._propose(batch)
                    return
                batch = await self._tell(batch)
            except Problem as problem:
                log.debug("outcomes of pushes wait", count=len(batch), code=problem.code)
            if batch:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MOST_S)
                now_ms = self._clock.now_ms()
                batch = [outcome for outcome in batch if outcome.attempt.lease_end_ms > now_ms]

    async def _tell(self, batch: list[Outcome]) -> list[Outcome]:
        """Send the outcomes to the leader. Return those that must be sent again. Raises Problem."""
        again: list[Outcome] = []
        for start in range(0, len(batch), OUTCOMES_MAX):
            part = batch[start : start + OUTCOMES_MAX]
            told = [_told(receipt, outcome) for receipt, outcome in zip(_receipts(part), part, strict=True)]
            if not await self._peers.outcomes(told):
                again += part
        return again

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the node if a task failed: the cause is a fault of the node (a disk, a bug), not of a receiver."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._life.fatal(error)


def _topics(outcomes: list[Outcome]) -> U32:
    return np.array([outcome.attempt.unit.topic.number for outcome in outcomes], np.uint32)


def took_ms(outcome: Outcome) -> int:
    """Return how long an attempt took by the node clock. 0 (not known) if the clock was set back meanwhile, or on by
    weeks."""
    took_ms = outcome.at_ms - outcome.attempt.handed_over_ms
    return took_ms if 0 <= took_ms <= _TOOK_MS_MAX else 0


def _kind(done: PushDone) -> int:
    if done.delivered:
        return DELIVERED
    return GIVEN_BACK if done.code == STOPPED else FAILED


def _claims(outcomes: list[Outcome]) -> tuple[U64, U32, U16]:
    """The hand-overs as commands name them: position, term, attempt."""
    return (
        np.array([outcome.attempt.unit.position for outcome in outcomes], np.uint64),
        np.array([outcome.attempt.term for outcome in outcomes], np.uint32),
        np.array([outcome.attempt.number for outcome in outcomes], np.uint16),
    )


def _settle(delivered: list[Outcome]) -> Settle:
    return Settle(*_claims(delivered), code=np.array([outcome.done.code for outcome in delivered], np.uint16))


def _told(receipt: str, outcome: Outcome) -> PushOutcome:
    done = outcome.done
    return PushOutcome(receipt, done.code, error_text(done.text).decode(), done.retry_after_ms)


def _receipts(outcomes: list[Outcome]) -> list[str]:
    position, term, attempt = _claims(outcomes)
    records = [outcome.attempt.unit.record for outcome in outcomes]
    return outcomes[0].attempt.receipts.make(
        position=position,
        random=np.array([record.random for record in records], np.uint64),
        topic=np.array([record.topic for record in records], np.uint32),
        term=term,
        attempt=attempt,
    )
