"""Serves a group to the fronts (node/port/group_port.py). It checks that this node leads, and passes calls on to its
parts.

A read that must see all earlier writes needs no entry. The leader answers it from what it has applied, while it has
trust. In that time no other leader can have committed anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from api.port.ledger import LedgerPage, LedgerQuery, LedgerSummary, MessageLedger, RecordsAsked, RecordsFound
from api.port.message import MessagePage, MessageView
from api.port.port import CancelResult, MessageIn, RescheduleResult, TopicView
from api.port.problem import Problem
from api.port.queries import (
    CountQuery,
    DeadPage,
    DeadQuery,
    Histogram,
    ListQuery,
    MessageCount,
    OperationIn,
    OperationPage,
    OperationView,
    WheelHour,
    WheelQuery,
)
from node.group.at_work import reads_files
from node.group.cluster_service import ClusterService
from node.group.keyed_calls import KeyedCalls
from node.group.service_parts import ServiceParts
from node.group.status_feed import StatusFeed
from node.ledger.ask_members import MemberAccounts
from node.ledger.ledger import Ledgers
from node.ledger.own_log import HandOverRecords
from node.message.atomic_batch import AtomicBatches
from node.message.change import MessageChange
from node.message.dead_letter import DeadLetters
from node.message.key_holders import KeyHolders
from node.message.message_list import MessageList
from node.message.message_writer import MessageWriter
from node.message.topic import NO_MESSAGES, view_topic
from node.message.topic_drop import TopicDrop as TopicDrops
from node.message.topic_put import another_revision, put_topic, topic_named
from node.message.view import find, place_states, tell, view_message
from node.message.wheel_view import WheelView
from node.operation.begin import OperationBegin
from node.operation.standing import in_operation
from node.port.draft import Draft
from node.port.group_port import GroupStatus, OnceAsked, OnceDone
from node.port.message_port import (
    CancelAsked,
    HistogramAsked,
    MessageAsked,
    OperationAsked,
    OperationChange,
    OperationsAsked,
    RescheduleAsked,
    Scheduled,
    ScheduledRow,
)
from node.port.pull_port import Claims, Deliveries, ExtendAsked, Gone, NackAsked, PullAsked, Settled, stays
from node.port.topic_port import TopicAsked, TopicDrop, TopicPage, TopicPut, TopicsAsked
from node.pull.settling import Settling
from node.write.once_queue import Requests
from node.write.schedule import WriteLimits
from replication.apply.topic import MISMATCH
from storage.tables.topic import Topic


class GroupService(ClusterService):
    """Implements GroupPort for one group on one node."""

    def __init__(self, parts: ServiceParts, status_feed: StatusFeed) -> None:
        super().__init__(parts)
        self.number, self.window = parts.store.group, parts.leadership.window
        self._status_feed = status_feed
        self._pulls: dict[int, asyncio.Task[Any]] = {}  # under way, by the front's number
        self._changes = MessageChange(parts.store, parts.proposer, parts.clock, lambda: parts.group.term)
        limits = WriteLimits(parts.config.limits.max_topics, parts.config.limits.max_delay_ms)
        holders = KeyHolders(parts.store, self._left_as_it_is)
        self._writing = MessageWriter(
            parts.store, parts.proposer, parts.clock, parts.levels.require, limits, self._leadership.require, holders
        )
        self._batches = AtomicBatches(
            parts.store, parts.proposer, parts.clock, parts.entropy, parts.levels.require, limits,
            self._leadership.require, holders,
        )  # fmt: skip
        self._settling = Settling(
            parts.store, parts.clock, parts.entropy, parts.proposer, delivery_log=parts.delivery_log,
            topic_metrics=parts.topic_metrics, counters=parts.counters, reserve=parts.reserve, life=parts.life,
        )  # fmt: skip
        self._list = MessageList(parts.store, parts.clock)
        self._wheel = WheelView(parts.store, parts.clock, parts.tick)
        self._operations = OperationBegin(
            parts.store, parts.proposer, parts.clock, parts.entropy, parts.levels, parts.counting, parts.in_hand,
            parts.config.limits.max_delay_ms,
        )  # fmt: skip
        self._dead = DeadLetters(parts.store)
        self._topic_drops = TopicDrops(
            parts.store, parts.proposer, parts.counting, parts.group, parts.driver, parts.topic_metrics
        )
        records = HandOverRecords(
            parts.deliveries, parts.disk, parts.delivery_log, parts.config.node_id, lambda: parts.members.number
        )
        self._ledgers = Ledgers(
            parts.store, parts.clock, parts.members, records,
            MemberAccounts(records, parts.members, parts.group, parts.peers),
            parts.config.storage.retention_ms,
        )  # fmt: skip

        self._keyed = KeyedCalls(
            parts.store, parts.proposer, parts.clock, self._leadership.require, parts.levels.require,
            {
                "schedule_one": self.schedule_one, "cancel": self.cancel, "reschedule": self.reschedule,
                "put_topic": self.put_topic, "delete_topic": self.delete_topic,
                "begin_operation": self.begin_operation,
            },
        )  # fmt: skip

    # -- status and end

    def attach(self, told: Callable[[GroupStatus], None]) -> None:
        """See GroupPort."""
        self._status_feed.attach(told)

    async def close(self) -> None:
        """Let no more calls read files. Calls under way get a second to end."""
        await self.at_work.close()

    # -- calls under an Idempotency-Key

    @reads_files
    async def once(self, asked: OnceAsked) -> OnceDone:
        """See GroupPort."""
        await self._leadership.sure()
        return await self._keyed.once(asked)

    # -- messages

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """See MessagePort."""
        await self._leadership.sure()
        self._parts.reserve.check()
        return await self._writing.many(messages)

    async def schedule_one(self, message: MessageIn | Draft, through: Requests | None = None) -> ScheduledRow:
        """See MessagePort."""
        await self._leadership.sure()
        self._parts.reserve.check()
        return await self._writing.one(message, through)

    async def schedule_each(self, draft: Draft) -> Scheduled:
        """See MessagePort."""
        await self._leadership.sure()
        self._parts.reserve.check()
        return await self._writing.many(draft, requests=len(draft))

    async def schedule_all(self, draft: Draft) -> Scheduled:
        """See MessagePort."""
        await self._leadership.sure()
        self._parts.reserve.check()
        return await self._batches.write(draft)

    @reads_files
    async def message(self, asked: MessageAsked) -> MessageView:
        """See MessagePort. Only the leader answers, while it has trust. If `local` is set, any node answers from what
        it has."""
        store, parts = self._parts.store, self._parts
        # Before the look: a node that is elected and leads not yet may lack what the leader before it has answered.
        term = None if asked.local else await self._leadership.sure()
        if term is not None:
            await term.recorded(find(store, asked.id).place)
        found, told = await tell(store, asked.id)  # it may have been moved meanwhile
        leased_ahead = None if term is None else term.handing_over.strict.leased_ahead(found.place)
        topic = store.catalog.topic_by_number(found.record.topic)
        newest_term = parts.group.term
        stands = next(place_states(store, np.array([found.place], np.uint64), newest_term))
        now_ms = parts.clock.now_ms()
        return view_message(
            store, found, asked.id, stands=stands, topic=topic, now_ms=now_ms,
            term=newest_term, nodes=[member.id for member in parts.members.table.all()], told=told,
            leads=term is not None, leased_ahead=leased_ahead, among=in_operation(store, found, stands, now_ms),
        )  # fmt: skip

    @reads_files
    async def cancel(self, asked: CancelAsked, through: Requests | None = None) -> CancelResult:
        """See MessagePort. From the proposal to the result the message is not handed over. If a hand-over was made
        before, its Lease is applied before the cancel."""
        return await self._changes.cancel(await self._leadership.sure(), asked.id, asked.if_match, through)

    @reads_files
    async def reschedule(self, asked: RescheduleAsked, through: Requests | None = None) -> RescheduleResult:
        """See MessagePort. From the proposal to the result the message is not handed over, and after that not before
        its new due time."""
        term = await self._leadership.sure()
        self._parts.reserve.check()
        return await self._changes.reschedule(
            term, asked.id, due_ms=asked.due_ms, delay_ms=asked.delay_ms, if_match=asked.if_match,
            max_delay_ms=self._parts.config.limits.max_delay_ms, through=through,
        )  # fmt: skip

    @reads_files
    async def _left_as_it_is(self, result: int, id: str) -> Problem:
        return await self._changes.refusal(result, id)

    # -- topics

    def _topic(self, name: str) -> Topic:
        return topic_named(self._parts.store, name)

    async def put_topic(self, asked: TopicPut, through: Requests | None = None) -> TopicView:
        """See TopicPort."""
        term = await self._leadership.sure()
        return await put_topic(self._parts.store, through or self._parts.proposer, term, asked)

    async def topic(self, asked: TopicAsked) -> TopicView:
        """See TopicPort."""
        await self._leadership.sure()
        return view_topic(self._topic(asked.name))

    @reads_files
    async def topics(self, asked: TopicsAsked) -> TopicPage:
        """See TopicPort."""
        await self._leadership.sure()
        found = await self._parts.counting.by_topic(self._leadership.require) if asked.counts else None
        topics = self._parts.store.catalog.topic_page(asked.after, asked.most)
        counts = [None if found is None else found.get(topic.number, NO_MESSAGES) for topic in topics]
        return TopicPage(tuple(map(view_topic, topics, counts)))

    @reads_files
    async def delete_topic(self, asked: TopicDrop, through: Requests | None = None) -> None:
        """See TopicPort."""
        await self._leadership.sure()
        topic, if_match = self._topic(asked.name), asked.if_match
        if if_match not in (None, topic.revision):
            raise another_revision(topic, if_match)
        dropped = None
        while dropped is None:
            await self._operations.settled(topic.number, self._leadership.require)
            try:
                dropped = await self._topic_drops.drop(topic, if_match, self._leadership.require, through)
            except Problem as refused:
                if refused.code != "not-empty" or self._operations.busy(topic.number) is None:
                    raise  # otherwise an operation began meanwhile, whose messages are cancelled already
        if dropped == MISMATCH:
            raise another_revision(self._parts.store.catalog.topic(asked.name), if_match)

    # -- consumers

    @reads_files
    async def pull(self, asked: PullAsked, gone: Gone = stays) -> Deliveries:
        """See PullPort."""
        task = asyncio.current_task()
        assert task is not None
        self._pulls[asked.number] = task
        try:
            return await (await self._leadership.sure()).pull(asked, gone)
        finally:
            del self._pulls[asked.number]

    def end_wait(self, number: int) -> None:
        """See PullPort."""
        if number in self._pulls:
            self._pulls[number].cancel()

    def give_back(self, claims: Claims) -> None:
        """See PullPort."""
        self._parts.life.spawn(self._give_back(NackAsked(claims, 0, counted=False)))

    async def _give_back(self, asked: NackAsked) -> None:
        with contextlib.suppress(Problem):  # no node leads: the leases run
            await self.nack(asked)

    @reads_files
    async def ack(self, claims: Claims) -> Settled:
        """See PullPort."""
        return await self._settling.ack(await self._leadership.sure(), self._topic(claims.topic), claims.rows)

    @reads_files
    async def nack(self, asked: NackAsked) -> Settled:
        """See PullPort."""
        term, topic = await self._leadership.sure(), self._topic(asked.claims.topic)
        return await self._settling.nack(term, topic, asked.claims.rows, asked.delay_ms, counted=asked.counted)

    @reads_files
    async def extend(self, asked: ExtendAsked) -> Settled:
        """See PullPort."""
        term, topic = await self._leadership.sure(), self._topic(asked.claims.topic)
        return await self._settling.extend(term, topic, asked.claims.rows, asked.lease_ms)

    # -- many messages

    @reads_files
    async def messages(self, query: ListQuery) -> MessagePage:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._list.page(query, self._leadership.require)

    @reads_files
    async def count(self, query: CountQuery) -> MessageCount:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._parts.counting.count(query, self._leadership.require)

    @reads_files
    async def histogram(self, asked: HistogramAsked) -> Histogram:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._parts.counting.histogram(asked.query, asked.step_ms, self._leadership.require)

    @reads_files
    async def wheel(self, query: WheelQuery) -> WheelHour:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._wheel.hour(query, self._leadership.require)

    @reads_files
    async def dead(self, query: DeadQuery) -> DeadPage:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._dead.page(self._topic(query.topic), query, self._leadership.require)

    # -- operations

    @reads_files
    async def begin_operation(self, wish: OperationIn, through: Requests | None = None) -> OperationView:
        """See MessagePort."""
        await self._leadership.sure()
        if wish.kind != "cancel" and not wish.dry_run:
            self._parts.reserve.check()
        return await self._operations.begin(wish, self._leadership.require, through)

    async def operation(self, asked: OperationAsked) -> OperationView:
        """See MessagePort."""
        await self._leadership.sure()
        return self._operations.one(asked.id)

    async def change_operation(self, asked: OperationChange) -> OperationView:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._operations.change(asked.id, asked.verb, self._leadership.require)

    async def operations(self, asked: OperationsAsked) -> OperationPage:
        """See MessagePort."""
        await self._leadership.sure()
        return self._operations.page(asked.after, asked.most)

    # -- the ledger

    @reads_files
    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._ledgers.page(query, self._leadership.require)

    @reads_files
    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """See MessagePort."""
        await self._leadership.sure()
        return await self._ledgers.summary(query, self._leadership.require)

    @reads_files
    async def message_ledger(self, asked: MessageAsked) -> MessageLedger:
        """See MessagePort."""
        term = await self._leadership.sure()
        found = find(self._parts.store, asked.id)
        await term.recorded(found.place)
        return await self._ledgers.message(found, self._leadership.require)

    @reads_files
    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """See ClusterPort."""
        return await self._ledgers.records(asked)
