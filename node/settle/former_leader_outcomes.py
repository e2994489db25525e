"""Takes outcomes of pushes from a former leader: those of attempts that it had on the wire when it lost leadership
(POST /v1/cluster/outcomes).

The former leader finished those pushes, so only it knows what the receivers answered: the status, the text, the wait
that they asked for. All that is recorded as if this node had pushed. This node decides the fate of a failed message by
its present policy: another try, and when, or the end. It does no harm if an outcome comes twice. A hand-over that was
settled before is answered `acked` or `nacked` again. A hand-over that a newer one has replaced is answered `stale`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from api.port.leadership import PushOutcome
from api.port.problem import Problem
from node.handover.term import Term
from node.handover.topic_metrics import TopicMetrics
from node.port.failure_code import STOPPED
from node.port.receipt import ReceiptColumns
from node.port.refusal import unfinished
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.settle.fail_columns import FailColumns
from node.settle.in_parts import in_parts, refusals_of
from node.settle.move_size import move_pieces, move_weights
from node.settle.retry import Retry, decide, effective
from node.write.command_queues import ENTRY_MOVES_MAX
from node.write.proposer import Proposer
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.command.handover import Fail, Settle
from storage.format.array import U8
from storage.format.states import UNKNOWN
from storage.store import Store

_WORDS = {ACKED: "nacked", STALE: "stale", INVALID: "invalid"}


class FormerLeaderOutcomes:
    """Ends hand-overs by the outcomes that another node sends, as acked or failed. The caller has checked that this
    node leads."""

    def __init__(
        self, store: Store, clock: NodeClock, entropy: Entropy, proposer: Proposer, topic_metrics: TopicMetrics
    ) -> None:
        self._store, self._clock, self._entropy = store, clock, entropy
        self._proposer, self._topic_metrics = proposer, topic_metrics

    async def take(self, term: Term, told: Sequence[PushOutcome]) -> list[str]:
        """Record these outcomes. Return a word for each: acked, nacked, stale or invalid. The outcomes are durable on a
        majority by then. Raises `outcome-unknown` if leadership was lost after some were proposed."""
        rows, claims = term.receipts.read([outcome.receipt for outcome in told])
        named = ReceiptColumns.of(claims)
        codes = np.array([told[row].code for row in rows.tolist()], np.uint16)
        words = ["invalid"] * len(told)
        delivered = (codes >= 200) & (codes < 300)
        settled, failed = np.flatnonzero(delivered), np.flatnonzero(~delivered)
        done = named.select(settled)
        parts: list[asyncio.Future[U8]] = []
        if len(settled):
            settle = Settle(done.position, done.term, done.attempt, codes[settled])
            parts.append(self._proposer.settle(settle))
        for piece in move_pieces(move_weights(self._store, named.position[failed]), ENTRY_MOVES_MAX):
            some = failed[piece]
            parts.append(term.fail(self._fail(named.select(some), [told[row] for row in rows[some].tolist()])))
        ended = await in_parts(parts)
        if refusals := refusals_of(ended):
            raise unfinished(refusals[0])
        results = [each for each in ended if not isinstance(each, Problem)]
        if len(settled):
            acked = results.pop(0)
            for row, result in zip(rows[settled].tolist(), acked.tolist(), strict=True):
                words[row] = "acked" if result == ACKED else _WORDS[result]
            self._topic_metrics.add("acked", done.topic[acked == ACKED])
        for row, result in zip(
            rows[failed].tolist(), [value for part in results for value in part.tolist()], strict=True
        ):
            words[row] = _WORDS[result]
        return words

    def _fail(self, named: ReceiptColumns, told: Sequence[PushOutcome]) -> Fail:
        """Make the Fail for these outcomes. The retry policies decide the fate of each message, as in push/outcomes.py
        for this node's own pushes."""
        now_ms, chance = self._clock.now_ms(), self._entropy.random()
        fails = FailColumns(np.array([outcome.code for outcome in told], np.uint16))
        there = np.flatnonzero(self._store.state_only(named.position) != UNKNOWN).tolist()
        for row, record in zip(there, self._store.records(named.position[there]), strict=True):
            if told[row].code == STOPPED:  # it was never sent, which says nothing of its receiver, and does not count
                fails.note(row, Retry(now_ms), counts=False)
                continue
            topic = self._store.catalog.topic_by_number(int(named.topic[row]))
            decided = decide(
                effective(topic.settings if topic else {}, record.extension),
                attempts=int(named.attempt[row]) - record.attempt,
                code=told[row].code,
                asked_due_ms=record.asked_due_ms,
                now_ms=now_ms,
                jitter=chance.random(),
                retry_after_ms=told[row].retry_after_ms,
            )
            fails.note(row, decided)
        random = self._entropy.id_bits(len(told))
        said = (outcome.text for outcome in told)
        return fails.fail(named.position, named.term, named.attempt, random=random, said=said)
