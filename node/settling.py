"""What consumers say of the messages they were handed: done (ack), not now (nack), still at it (extend).

Each names hand-overs by their receipts; one result per receipt, durable on a majority when it is given. A nack decides
here, on the leader, when its message comes again or that it is given up (node.retry), and proposes that. From the
proposal of a nack or an extension to its result the units are held: handed over meanwhile, because its lease ended, a
message would bear the attempt that the next hand-over after the nack bears too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from api.loop_turn import in_turns
from api.port import TOPIC_DEFAULTS
from api.problem import Problem
from node.delivery_log import DELIVERED, GIVEN_BACK, LATE, PULL
from node.ended import delivered_by, states_of
from node.in_parts import in_parts, refusals_of, unfinished
from node.move_size import move_pieces, move_weights
from node.queues import ENTRY_ACKS_MAX, ENTRY_MOVES_MAX
from node.receipt import ReceiptColumns
from node.reign import Reign
from node.retry import MAX_AGE, NACKED, Retry, decide, effective
from replication.apply_settle import ACKED, INVALID, STALE
from replication.command import Extend, Fail, Settle
from replication.command_handover import AGAIN, DEAD, RETRY
from storage.array import U8
from storage.format import DEAD as DEAD_STATE
from storage.format import DELIVERED as DELIVERED_STATE
from storage.format import FORWARDED, LEASED, UNKNOWN
from storage.pieces import at_once
from storage.topic import Topic

if TYPE_CHECKING:
    from node.server import Node


class _Shown:
    """The receipts of one request: those that name hand-overs of its topic, and a result for each that was shown."""

    def __init__(self, reign: Reign, topic: Topic, texts: Sequence[str]) -> None:
        rows, named = reign.receipts.read(texts)
        self.topic = topic.number
        self.named = named
        self._rows = rows
        self._results = np.full(len(texts), INVALID, np.uint8)
        if (named.topic != topic.number).any():
            self.keep(named.topic == topic.number)

    def keep(self, rows: npt.NDArray[np.bool_]) -> None:
        """The others are invalid."""
        self.named, self._rows = self.named.select(rows), self._rows[rows]

    def give(self, results: U8) -> None:
        """The results of the named ones."""
        self._results[self._rows] = results

    def words(self, done: str) -> list[str]:
        """What the client gets, in the order of its receipts."""
        words: list[str] = _WORDS[done][self._results].tolist()
        return words


_NOT_KNOWN: Final = 3

FEW: Final = 4
"""Receipts of one request whose units are not looked at before they go in an entry."""
UNLOOKED_WEIGHT: Final = ENTRY_ACKS_MAX // 256
"""What each of those counts for in it: any node may have to read a page for it, 0.03 ms."""


def _words(done: str) -> npt.NDArray[Any]:
    assert (ACKED, STALE, INVALID) == (0, 1, 2)
    return np.array([done, "stale", "invalid", "unknown"], object)


def _known(result: U8 | Problem, piece: slice) -> U8:
    """The results of a piece; of one that was refused none is known."""
    return np.full(piece.stop - piece.start, _NOT_KNOWN, np.uint8) if isinstance(result, Problem) else result


_WORDS: Final = {done: _words(done) for done in ("acked", "nacked", "extended")}


def _to_ask(state: U8) -> npt.NDArray[np.intp]:
    """The rows that only an entry answers: what is open, and what the machine says of a unit that is unknown."""
    return np.flatnonzero((state <= LEASED) | (state == UNKNOWN))


def _weight(named: ReceiptColumns) -> int | None:
    """What a request counts for in its entry; None: its number of rows."""
    return UNLOOKED_WEIGHT * len(named) if len(named) <= FEW else None


class Settling:
    """Acks, nacks and extensions of one node; the caller has asked that it leads."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def ack(self, reign: Reign, topic: Topic, texts: Sequence[str]) -> list[str]:
        """acked | stale | invalid."""
        shown = _Shown(reign, topic, texts)
        named = shown.named
        if len(named):
            results = await self._acked(named)
            shown.give(results)
            self._node.count_acked(topic.name, int(np.count_nonzero(results == ACKED)))
            self._log_ends(shown, results == ACKED, DELIVERED)
            self._log_ends(shown, results == STALE, LATE)  # or nobody could tell it from a consumer that never answered
        return shown.words("acked")

    async def _acked(self, named: ReceiptColumns) -> U8:
        """What each ack comes to. Of units that have ended where they stand it is known, and nothing changes it any
        more: they go in no entry, for which every node would read as many pages of its states."""
        results = np.full(len(named), STALE, np.uint8)
        state = await self._look(named)
        rows = _to_ask(state)
        asked: asyncio.Future[U8] | None = None
        if len(rows):
            some = named if len(rows) == len(named) else named.select(rows)
            settle = Settle(some.position, some.term, some.attempt, np.zeros(len(some), np.uint16))
            asked = self._node.proposer.settle(settle, _weight(named))
        done = np.flatnonzero(state == DELIVERED_STATE)
        if len(done):
            results[done[await in_turns(delivered_by(self._node.store, named.select(done)))]] = ACKED
        if asked is not None:
            results[rows] = await asked
        return results

    async def _look(self, named: ReceiptColumns) -> U8:
        """The states of the units, without a turn of the loop where they are in memory; of a few all count as open."""
        if len(named) <= FEW:
            return np.full(len(named), LEASED, np.uint8)
        return await in_turns(states_of(self._node.store, named.position))

    async def nack(
        self, reign: Reign, topic: Topic, texts: Sequence[str], delay_ms: int | None, *, counted: bool = True
    ) -> list[str]:
        """nacked | stale | invalid. Due again after `delay_ms`, or by the retry policy if that is None. What never
        began is not `counted` as an attempt. `outcome-unknown` with `results`, some of them unknown, where leadership
        was lost in the middle."""
        shown = _Shown(reign, topic, texts)
        named = shown.named
        if len(named):
            parts: list[asyncio.Future[U8]] = []
            await self._look(named)  # what is to be read is read by pieces
            reign.raise_if_over()
            pieces = list(move_pieces(move_weights(self._node.store, named.position), ENTRY_MOVES_MAX))
            for piece in pieces:
                if parts:
                    await asyncio.sleep(0)  # what a piece reads takes milliseconds
                parts.append(reign.fail(self._failed(topic, named.select(piece), delay_ms, counted=counted)))
            results = await in_parts(parts)
            known = np.concatenate([_known(result, piece) for result, piece in zip(results, pieces, strict=True)])
            self._log_ends(shown, known == ACKED, GIVEN_BACK, NACKED)
            await self._recall(named, known)
            shown.give(known)
            if refusals := refusals_of(results):
                words = zip(texts, shown.words("nacked"), strict=True)
                raise unfinished(refusals[0], results=[{"receipt": text, "result": word} for text, word in words])
        return shown.words("nacked")

    async def _recall(self, named: ReceiptColumns, results: U8) -> None:
        """Turn `stale` into `nacked` where the records say that this very hand-over was given back before.

        The machine looks at the newest record alone, and the message may have gone on since: a client whose answer was
        lost learns all the same that its nack counted. (term, attempt) names one hand-over of a message for ever."""
        store = self._node.store
        stale = np.flatnonzero(results == STALE)
        homes = store.homes(named.position[stale])
        for row, home in zip(stale.tolist(), homes.tolist(), strict=True):
            if store.state_only(np.array([home], np.uint64))[0] == UNKNOWN:
                continue
            history = at_once(store.history(home))
            same = (history["term"] == named.term[row]) & (history["attempt"] == named.attempt[row])
            given_back = np.isin(history["what"], (FORWARDED, DEAD_STATE)) & np.isin(history["code"], (NACKED, MAX_AGE))
            if (same & given_back).any():
                results[row] = ACKED
            await asyncio.sleep(0)  # each reads the disk, and a request may hold 10,000

    async def extend(self, reign: Reign, topic: Topic, texts: Sequence[str], lease_ms: int | None) -> list[str]:
        """extended | stale | invalid. The leases end `lease_ms` from now, the topic's own if that is None."""
        shown = _Shown(reign, topic, texts)
        named = shown.named
        if len(named):
            lease_ms = lease_ms or topic.settings.get("lease_ms") or TOPIC_DEFAULTS.lease_ms
            assert lease_ms is not None
            state = await self._look(named)
            reign.raise_if_over()
            results = np.full(len(named), STALE, np.uint8)
            rows = _to_ask(state)
            if len(rows):
                asked = named.select(rows)
                ends_ms = np.full(len(rows), self._node.clock.now_ms() + lease_ms, np.int64)
                extend = Extend(asked.position, asked.term, asked.attempt, ends_ms)
                extended = self._node.proposer.extend(extend, _weight(named))
                reign.holding.until(asked.position.tolist(), extended)
                results[rows] = await extended
            shown.give(results)
        return shown.words("extended")

    def _failed(self, topic: Topic, named: ReceiptColumns, delay_ms: int | None, *, counted: bool) -> Fail:
        """What becomes of each message that is given back, by the policy of the moment."""
        node = self._node
        count = len(named)
        now_ms, chance = node.clock.now_ms(), node.entropy.random()
        fate, due_ms = np.full(count, DEAD, np.uint8), np.zeros(count, np.int64)
        code = np.full(count, NACKED, np.uint16)
        # Those whose hour is gone get their result, `invalid`, from the machine.
        there = np.flatnonzero(node.store.state_only(named.position) != UNKNOWN)
        records = node.store.records(named.position[there])
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
            if isinstance(decided, Retry):
                fate[row], due_ms[row] = RETRY if counted else AGAIN, decided.due_ms
            else:
                code[row] = decided.code
        return Fail(
            position=named.position,
            term=named.term,
            attempt=named.attempt,
            code=code,
            fate=fate,
            due_ms=due_ms,
            random=node.entropy.id_bits(count),
        )

    def _log_ends(self, shown: _Shown, rows: npt.NDArray[np.bool_], outcome: int, code: int = 0) -> None:
        """The delivery log's end of these hand-overs."""
        done = shown.named.select(rows)
        self._node.delivery_log.end(
            home=self._node.store.homes(done.position),
            random=done.random,
            attempt=done.attempt,
            term=done.term,
            topic=shown.topic,
            at_ms=self._node.clock.now_ms(),
            mode=PULL,
            outcome=outcome,
            code=code,
        )
