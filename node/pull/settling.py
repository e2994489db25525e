"""Settles hand-overs as consumers report them: the consumer is done (ack), gives back (nack), or needs more time
(extend).

Each request names hand-overs by their receipts. It gets one result per receipt, which is durable on a majority by then.
At a nack the leader decides when the message comes again, or that it is given up (node/settle/retry.py), and proposes
that. From the proposal of a nack or extend to its result the units are held. Otherwise a message whose lease has just
ended could be handed over again. The hand-over after the nack would then get the same attempt number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from api.port.loop_turn import in_turns
from api.port.port import TOPIC_DEFAULTS
from api.port.problem import Problem
from node.handover.counters import Counters
from node.handover.delivery_log import DELIVERED, GIVEN_BACK, LATE, PULL, DeliveryLog
from node.handover.term import Term
from node.handover.topic_metrics import TopicMetrics
from node.port.failure_code import NACKED
from node.port.pull_port import Settled
from node.port.receipt import ReceiptColumns
from node.port.refusal import Refusal
from node.pull.logged_ends import LoggedEnds
from node.pull.receipt_lookup import acked_before, done_by, given_back_before, pieces_of, states_of
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.settle.fail_columns import FailColumns
from node.settle.in_parts import in_pieces
from node.settle.move_size import move_pieces, move_weights
from node.settle.retry import decide, effective
from node.write.command_queues import ENTRY_ACKS_MAX, ENTRY_MOVES_MAX
from node.write.proposer import Proposer
from replication.apply.message.fail import done_before
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.command.handover import Extend, Fail, Settle
from storage.file.disk import DiskFailed
from storage.format.array import U8, U64
from storage.format.batches import StateColumns
from storage.format.pieces import Pieces
from storage.format.rows import Corrupt
from storage.format.states import DELIVERED as DELIVERED_STATE
from storage.format.states import LEASED, LIVES_HERE, UNKNOWN
from storage.store import Store
from storage.tables.topic import Topic

FEW: Final = 4
"""If a request has at most so many receipts, its acks go into an entry without a look at the states of their units."""
UNLOOKED_WEIGHT: Final = ENTRY_ACKS_MAX // 256
"""The weight of each of those acks in the entry. It is high, because any node may have to read a page for it, in 0.03
ms."""
EXTENDED_AT_ONCE: Final = 1_000
"""An extend holds, proposes and releases at most so many units in one piece, at 2 us each."""


def _to_ask(state: U8) -> npt.NDArray[np.bool_]:
    """True, shape [n], for units whose result only a command in an entry can tell. They have not ended at their
    position, or this node does not know them."""
    asks: npt.NDArray[np.bool_] = LIVES_HERE[state] | (state == UNKNOWN)
    return asks


def _weight(named: ReceiptColumns) -> int | None:
    """The weight of a request in an entry. None means that the weight is its number of rows."""
    return UNLOOKED_WEIGHT * len(named) if len(named) <= FEW else None


class Settling:
    """Answers acks, nacks and extends on one node. The caller has checked that the node leads.

    Once a command is proposed, it takes effect and is logged even if the client goes away. If the client goes away
    before, nothing is proposed.
    """

    def __init__(
        self,
        store: Store,
        clock: NodeClock,
        entropy: Entropy,
        proposer: Proposer,
        *,
        delivery_log: DeliveryLog,
        topic_metrics: TopicMetrics,
        counters: Counters,
        reserve: Reserve,
        life: Lifecycle,
    ) -> None:
        """`life` ends the node if data is damaged, or the disk fails, while a result is written to the delivery log.
        That is done in a callback, so no request could raise the error."""
        self._store, self._clock, self._entropy, self._proposer = store, clock, entropy, proposer
        self._delivery_log, self._topic_metrics, self._counters = delivery_log, topic_metrics, counters
        self._reserve, self._life = reserve, life
        self._noted = LoggedEnds()

    async def ack(self, term: Term, topic: Topic, claims: bytes) -> Settled:
        """End hand-overs as acked. Each result is SETTLED or STALE, or INVALID for a receipt of another topic. `claims`
        are the packed columns of the receipts."""
        ours, named = _of_topic(topic, claims)
        return _settled(ours, await self._acked(term, topic, named))

    async def _acked(self, term: Term, topic: Topic, named: ReceiptColumns) -> U8:
        """Return the result of each ack. If a unit has ended at its position, its state tells the result, which can
        never change. Such acks go in no entry, because every node would have to read a page of states for each."""
        to_ask = _to_ask(await self._look(named))
        asked: asyncio.Future[U8] | None = None
        if to_ask.any():
            some = named if to_ask.all() else named.select(to_ask)
            settle = Settle(some.position, some.term, some.attempt, np.zeros(len(some), np.uint16))
            asked = self._proposer.settle(settle, _weight(named))
            self._note_when_known(asked, partial(self._note_acks, topic, some))
        results = np.full(len(named), STALE, np.uint8)
        if not to_ask.all():
            results[~to_ask] = await self._acked_before(term, topic, named.select(~to_ask))
        if asked is not None:
            results[to_ask] = await asyncio.shield(asked)
        return results

    async def _acked_before(self, term: Term, topic: Topic, named: ReceiptColumns) -> U8:
        """Return the results of acks of units that have ended. The ends of these hand-overs are written to the delivery
        log here, because an earlier leader may have died before it wrote them."""
        acked = await in_turns(done_by(self._store, named, _delivered))
        others = np.flatnonzero(~acked)
        if len(others):
            acked[others] = await in_turns(acked_before(self._store, named.select(others)))
        self._counters.acked += int(np.count_nonzero(acked))
        await in_turns(self._log_in_pieces(topic, named.select(acked & (named.term != term.term)), DELIVERED))
        await in_turns(self._log_in_pieces(topic, named.select(~acked), LATE))
        return np.where(acked, ACKED, STALE).astype(np.uint8)

    def _note_acks(self, topic: Topic, named: ReceiptColumns, results: U8) -> None:
        acked = results == ACKED
        self._counters.acked += int(np.count_nonzero(acked))
        ended = self._log_ends(topic, named.select(acked), DELIVERED)
        self._topic_metrics.of(topic.name).acked += ended
        self._log_ends(topic, named.select(results == STALE), LATE)

    def _note_when_known(self, result: asyncio.Future[U8], note: Callable[[U8], None]) -> None:
        """Call `note` with the result of a command, even if its client no longer waits for it."""

        def known(ended: asyncio.Future[U8]) -> None:
            if ended.cancelled() or ended.exception() is not None:
                return
            try:
                note(ended.result())
            except (Corrupt, DiskFailed) as error:
                self._life.fatal(error)

        result.add_done_callback(known)

    async def _look(self, named: ReceiptColumns) -> U8:
        """Return the states of the units. If the states are in memory, the loop does no other work meanwhile. If there
        are at most FEW units, they are not looked at, and LEASED is returned for each."""
        if len(named) <= FEW:
            return np.full(len(named), LEASED, np.uint8)
        return await in_turns(states_of(self._store, named.position))

    async def nack(
        self, term: Term, topic: Topic, claims: bytes, delay_ms: int | None, *, counted: bool = True
    ) -> Settled:
        """Give messages back, with results as `ack` has them. A message is due again after `delay_ms`, or by the retry
        policy if that is None. `counted` is False for a hand-over that reached no consumer. If leadership is lost after
        some nacks were proposed, the results of the others are NOT_KNOWN."""
        ours, named = _of_topic(topic, claims)
        to_ask = _to_ask(await self._look(named))
        asked, results = named.select(to_ask), np.full(len(named), STALE, np.uint8)

        def give_back(piece: slice) -> asyncio.Future[U8]:
            some = asked.select(piece)
            result = term.fail(self._failed(topic, some, delay_ms, counted=counted))
            self._note_when_known(result, partial(self._note_nacks, topic, some))
            return result

        weights = move_weights(self._store, asked.position)
        results[to_ask], refused = await in_pieces(term, list(move_pieces(weights, ENTRY_MOVES_MAX)), give_back)
        ended = np.flatnonzero(~to_ask)
        if len(ended):
            before = await in_turns(done_by(self._store, named.select(ended), done_before))
            again = named.select(ended[before & (named.term[ended] != term.term)])
            await in_turns(self._log_in_pieces(topic, again, GIVEN_BACK, NACKED))
            results[ended[before]] = ACKED
        stale = np.flatnonzero(results == STALE)
        if len(stale):
            results[stale[await in_turns(given_back_before(self._store, named.select(stale)))]] = ACKED
        return _settled(ours, results, refused)

    async def extend(self, term: Term, topic: Topic, claims: bytes, lease_ms: int | None) -> Settled:
        """Make leases longer, with results as `nack` has them. The leases then end `lease_ms` from now. If that is
        None, the topic's lease time is used."""
        ours, named = _of_topic(topic, claims)
        lease_ms = lease_ms or topic.settings.get("lease_ms") or TOPIC_DEFAULTS.lease_ms
        assert lease_ms is not None
        to_ask = _to_ask(await self._look(named))
        asked, results = named.select(to_ask), np.full(len(named), STALE, np.uint8)
        ends_ms = np.full(len(asked), self._clock.now_ms() + lease_ms, np.int64)

        def lengthen(piece: slice) -> asyncio.Future[U8]:
            some = asked.select(piece)
            extend = Extend(some.position, some.term, some.attempt, ends_ms[piece])
            result = self._proposer.extend(extend, _weight(named))
            term.holding.until(some.position.tolist(), result)
            return result

        starts = range(0, len(asked), EXTENDED_AT_ONCE)
        pieces = [slice(at, min(at + EXTENDED_AT_ONCE, len(asked))) for at in starts]
        results[to_ask], refused = await in_pieces(term, pieces, lengthen)
        return _settled(ours, results, refused)

    def _failed(self, topic: Topic, named: ReceiptColumns, delay_ms: int | None, *, counted: bool) -> Fail:
        """Make the Fail of messages that are given back, with the decision about each by its present policy."""
        count = len(named)
        now_ms, chance = self._clock.now_ms(), self._entropy.random()
        fails = FailColumns(np.full(count, NACKED, np.uint16))
        there = np.flatnonzero(self._store.state_only(named.position) != UNKNOWN)
        records = self._store.records(named.position[there])
        for row, attempt, record in zip(there.tolist(), named.attempt[there].tolist(), records, strict=True):
            decided = decide(
                effective(topic.settings, record.extension),
                attempts=attempt - record.attempt - (not counted),
                code=NACKED,
                asked_due_ms=record.asked_due_ms,
                now_ms=now_ms,
                jitter=chance.random(),
                delay_ms=delay_ms,
            )
            fails.note(row, decided, counts=counted)
        return fails.fail(named.position, named.term, named.attempt, random=self._entropy.id_bits(count))

    def _note_nacks(self, topic: Topic, named: ReceiptColumns, results: U8) -> None:
        self._log_ends(topic, named.select(results == ACKED), GIVEN_BACK, NACKED)

    def _log_in_pieces(self, topic: Topic, ended: ReceiptColumns, outcome: int, code: int = 0) -> Pieces[None]:
        """Call `_log_ends` for hand-overs of units that have ended, in pieces, because their homes may have to be
        read."""
        for rows in pieces_of(ended.position):
            self._log_ends(topic, ended.select(rows), outcome, code)
            yield

    def _log_ends(self, topic: Topic, ended: ReceiptColumns, outcome: int, code: int = 0) -> int:
        """Write the end of each of these hand-overs to the delivery log, unless this node has written it before. Return
        how many were new.

        A late ack is written to show that the consumer answered after all. It is left out when the disk is nearly full.
        """
        if outcome == LATE and self._reserve.low:
            return 0
        news = self._noted.first(ended, outcome)
        if not news.all():
            ended = ended.select(news)
        self._delivery_log.end(
            home=self._store.homes(ended.position),
            random=ended.random,
            attempt=ended.attempt,
            term=ended.term,
            topic=topic.number,
            at_ms=self._clock.now_ms(),
            mode=PULL,
            outcome=outcome,
            code=code,
        )
        return len(ended)


def _of_topic(topic: Topic, claims: bytes) -> tuple[npt.NDArray[np.bool_], ReceiptColumns]:
    """Return a boolean array that is True for the claims of this topic, and the hand-overs that these claims name."""
    named = ReceiptColumns.of(claims)
    ours: npt.NDArray[np.bool_] = named.topic == topic.number
    return ours, named if ours.all() else named.select(ours)


def _settled(ours: npt.NDArray[np.bool_], results: U8, refused: Problem | None = None) -> Settled:
    """Make the answer. `results` has a row for each claim of the topic (`ours`). All other claims are INVALID."""
    if len(results) < len(ours):
        whole = np.full(len(ours), INVALID, np.uint8)
        whole[ours] = results
        results = whole
    return Settled(results.tobytes(), None if refused is None else Refusal.of(refused))


def _delivered(
    store: Store, positions: U64, states: StateColumns, same: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    acked: npt.NDArray[np.bool_] = same & (states.state == DELIVERED_STATE)
    return acked
