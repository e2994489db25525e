"""Carries out calls under an `Idempotency-Key`, each one time only (replication/apply/once.py).

    turn       one request of a key at a time
    look       is an answer kept? Then it is given again, and nothing is asked
    carry out  as without a key. The entry that has the effect keeps the answer
    look again if it was refused: an earlier entry may have had the effect, and its outcome was not known

The term's first entry is applied before the leader looks. So it knows the answers of all former leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from api.port.port import CancelResult, RescheduleResult, TopicView
from api.port.problem import FieldFault, Problem
from api.port.queries import GONE, OperationIn, OperationView
from node.handover.term import Leads
from node.message.change import PRIORS
from node.message.message_writer import row_of
from node.message.topic import view_topic
from node.message.view import find
from node.operation.view import find_operation, view_operation, wish_fields
from node.port.codec import decode, encode
from node.port.draft import Draft
from node.port.group_port import OnceAsked, OnceDone
from node.port.message_port import CancelAsked, RescheduleAsked, ScheduledRow
from node.port.topic_port import TopicDrop, TopicPut
from node.runtime.clock import NodeClock
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from node.write.supersede_queue import Outcome
from replication.command.once import KeyedRequest
from storage.store import Store
from storage.tables.idempotency import KeptAnswer
from storage.tables.operation_row import id_of
from storage.tables.registry import IDEMPOTENCY
from storage.tables.topic import DEFAULT_NAMESPACE

#: The calls that may have a key, and the types of their arguments.
ASKED: Final[Mapping[str, type[msgspec.Struct]]] = {
    "schedule_one": Draft,
    "cancel": CancelAsked,
    "reschedule": RescheduleAsked,
    "put_topic": TopicPut,
    "delete_topic": TopicDrop,
    "begin_operation": OperationIn,
}
Call = Callable[[Any, Requests], Awaitable[msgspec.Struct | None]]


class KeyedCalls:
    """Carries out calls on one node. `leads` raises a Problem unless the node may answer as leader at this moment.
    `require` raises one if the cluster's level lacks a feature. `calls` has the calls by name."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        clock: NodeClock,
        leads: Leads,
        require: Callable[[str], None],
        calls: Mapping[str, Call],
    ) -> None:
        assert calls.keys() == ASKED.keys(), calls.keys() ^ ASKED.keys()
        self._store, self._proposer, self._clock = store, proposer, clock
        self._leads, self._require, self._calls = leads, require, calls
        self._turns: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    async def once(self, asked: OnceAsked) -> OnceDone:
        """See GroupPort. Raises `not-supported-yet` for a call that takes no key."""
        self._require("idempotency-key")
        if asked.name not in ASKED:
            raise Problem("not-supported-yet", f"this node carries out no {asked.name} under a key; upgrade it")
        argument = decode(ASKED[asked.name], asked.frame)
        turn = self._turns.setdefault(asked.key, asyncio.Lock())
        async with turn:
            self._leads()
            if (kept := self._kept(asked)) is not None:
                return self._again(asked.name, argument, kept)
            request = KeyedRequest(
                DEFAULT_NAMESPACE, asked.key, asked.name, asked.fingerprint, asked.principal, self._note(argument)
            )
            try:
                answer = await self._calls[asked.name](argument, self._proposer.keyed(request))
            except Problem as refused:
                if not self._is_leader() or (kept := self._kept(asked)) is None:
                    raise refused from None
                return self._again(asked.name, argument, kept)
            return OnceDone(None if answer is None else encode(answer), replayed=False)

    def _is_leader(self) -> bool:
        try:
            self._leads()
        except Problem:
            return False
        return True

    def _kept(self, asked: OnceAsked) -> KeptAnswer | None:
        """The answer that is kept for this request. Raises `key-reused`."""
        answers = self._store.catalog.of(IDEMPOTENCY)
        kept = answers.find(DEFAULT_NAMESPACE, asked.key, self._clock.now_ms())
        if kept is not None and not kept.answers(asked.name, asked.fingerprint, asked.principal):
            detail = "another request was carried out under this key; a new request needs a new key"
            raise Problem("key-reused", detail, errors=[FieldFault("", detail, header="Idempotency-Key")])
        return kept

    def _note(self, argument: msgspec.Struct) -> str:
        """The topic of a message that is to be moved: the answer names it. "" for other calls, and if there is no such
        message."""
        if not isinstance(argument, RescheduleAsked):
            return ""
        try:
            topic = self._store.catalog.topic_by_number(find(self._store, argument.id).record.topic)
        except Problem:
            return ""
        return topic.name if topic is not None else ""

    def _again(self, name: str, argument: Any, kept: KeptAnswer) -> OnceDone:
        answer = _AGAIN[name](self, argument, kept)
        return OnceDone(None if answer is None else encode(answer), replayed=True)

    def _scheduled(self, draft: Draft, kept: KeptAnswer) -> ScheduledRow:
        if len(kept.values) == len(ScheduledRow.__struct_fields__) - 1:
            position, random, due_ms, status = kept.values
            return ScheduledRow(position, random, due_ms, status)
        return row_of(Outcome._make(kept.values))

    def _cancelled(self, asked: CancelAsked, kept: KeptAnswer) -> CancelResult:
        attempts, prior = kept.values
        return CancelResult(asked.id.upper(), attempts, PRIORS[prior])

    def _rescheduled(self, asked: RescheduleAsked, kept: KeptAnswer) -> RescheduleResult:
        due_ms, revision = kept.values
        return RescheduleResult(asked.id.upper(), kept.note, due_ms, revision)

    def _topic(self, asked: TopicPut, kept: KeptAnswer) -> TopicView:
        topic = self._store.catalog.topic(asked.name)
        if topic is None:
            detail = f"topic {asked.name} was set by an earlier request under this key, and deleted since"
            raise Problem("unknown-topic", detail)
        return view_topic(topic)

    def _deleted(self, asked: TopicDrop, kept: KeptAnswer) -> None:
        return None

    def _operation(self, wish: OperationIn, kept: KeptAnswer) -> OperationView:
        (number,) = kept.values
        try:
            return view_operation(find_operation(self._store, number, self._clock.now_ms()))
        except Problem:
            return OperationView(**wish_fields(wish), id=id_of(number), state=GONE)


_AGAIN: Final[Mapping[str, Callable[[KeyedCalls, Any, KeptAnswer], msgspec.Struct | None]]] = {
    "schedule_one": KeyedCalls._scheduled,
    "cancel": KeyedCalls._cancelled,
    "reschedule": KeyedCalls._rescheduled,
    "put_topic": KeyedCalls._topic,
    "delete_topic": KeyedCalls._deleted,
    "begin_operation": KeyedCalls._operation,
}
