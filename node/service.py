"""The node as the HTTP layer sees it: asks that this node leads, and passes on to the parts that do it.

Linearizable reads need no entry: the leader answers from what it has applied while its trust window runs, for within it
no other leader can have committed anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from api.port.backup import SnapshotView
from api.port.budget import Budget
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import LedgerPage, LedgerQuery, LedgerSummary, MessageLedger, RecordsAsked, RecordsFound
from api.port.member import MemberView
from api.port.port import (
    CancelResult,
    Delivery,
    ForwardAnswer,
    ForwardRequest,
    Limits,
    MessageIn,
    MessageView,
    Principal,
    PullIn,
    Readiness,
    RescheduleResult,
    ScheduleResult,
    TopicChange,
    TopicView,
    TransferResult,
)
from api.port.problem import Problem
from api.port.queries import BulkResult, CountQuery, DeadPage, DeadQuery, HistogramBucket
from node.handover.term import Term
from node.ledger.ask_members import MemberAccounts
from node.ledger.ledger import Ledgers
from node.ledger.own_log import HandOverRecords
from node.message.change import MessageChange
from node.message.dead_letter import DeadLetters
from node.message.topic import check_target, settings_of, view_topic
from node.message.topic_drop import TopicDrop
from node.message.view import find, tell, view_message
from node.pull.settling import Settling
from node.service_parts import ServiceParts
from node.settle.former_leader_outcomes import FormerLeaderOutcomes
from node.write.schedule import schedule_messages
from replication.apply.topic import MISMATCH
from replication.command.topic import PutTopic
from storage.catalog.topic import Topic, subscription_of
from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt

P = ParamSpec("P")
T = TypeVar("T")


def _reads_files(
    method: Callable[Concatenate[Service, P], Awaitable[T]],
) -> Callable[Concatenate[Service, P], Coroutine[Any, Any, T]]:
    """A checksum that does not match, or a disk that fails, in a request ends the node: the HTTP layer would answer 500
    and go on serving doubtful data."""

    @wraps(method)
    async def guarded(self: Service, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except (Corrupt, DiskFailed) as error:
            self._parts.life.fatal(error)
            raise

    return guarded


class Service:
    """Implements api.port.port.Port for one node."""

    def __init__(self, parts: ServiceParts, limits: Limits, budget: Budget) -> None:
        self._parts = parts
        self._leadership = parts.leadership
        self._changes = MessageChange(parts.store, parts.proposer, parts.clock, lambda: parts.group.term)
        self._settling = Settling(
            parts.store, parts.clock, parts.entropy, parts.proposer, delivery_log=parts.delivery_log,
            topic_metrics=parts.topic_metrics, counters=parts.counters, reserve=parts.reserve, life=parts.life,
        )  # fmt: skip
        self._former_leaders = FormerLeaderOutcomes(
            parts.store, parts.clock, parts.entropy, parts.proposer, parts.topic_metrics
        )
        self._dead = DeadLetters(parts.store, parts.proposer, parts.clock)
        self._topic_drop = TopicDrop(
            parts.store, parts.proposer, parts.counting, parts.group, parts.driver, parts.topic_metrics
        )
        records = HandOverRecords(
            parts.deliveries, parts.disk, parts.delivery_log, parts.config.node_id, lambda: parts.members.number
        )
        self._ledgers = Ledgers(
            parts.store, parts.clock, parts.members, records,
            MemberAccounts(records, parts.members, parts.group, parts.forwarder),
            parts.config.storage.retention_ms,
        )  # fmt: skip
        self.node_id = parts.config.node_id
        self.limits = limits
        self.budget = budget
        self.names: Collection[str] = parts.config.http_names

    # -- who leads

    def now_ms(self) -> int:
        """The node clock."""
        return self._parts.clock.now_ms()

    def term(self) -> int:
        """The newest term this node knows of."""
        return self._parts.group.term

    def leader(self) -> str | None:
        """Node id of the leader as far as known."""
        return self._parts.group.leader_id

    def leads(self) -> bool:
        """Whether this node is the established leader and not about to give that away: then requests wait for the
        next leader in the forwarder."""
        return self._leadership.term is not None and not self._leadership.frozen

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Pass the request to the leader once."""
        return await self._parts.forwarder.forward(request)

    # -- messages

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Durable on a majority and applied when it returns."""
        await self._leadership.sure()
        parts = self._parts
        parts.reserve.check()
        return await schedule_messages(parts.store, parts.proposer, parts.config.limits.max_topics, messages)

    @_reads_files
    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        """One message, as this node has applied it; only the leader within its trust window, unless `local`."""
        store = self._parts.store
        found, term = find(store, id), None
        if not local:
            term = await self._leadership.sure()
            await term.recorded(found.place)
        found, told = await tell(store, id)  # it may have been moved meanwhile
        pledged = None if term is None else term.handing_over.strict.pledged(found.place)
        topic = store.catalog.topic_by_number(found.record.topic)
        return view_message(
            store, found, id, topic=topic.name if topic else "", now_ms=self.now_ms(), term=self.term(),
            nodes=[member.id for member in self._parts.members.table.all()], told=told, pledged=pledged,
        )  # fmt: skip

    @_reads_files
    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """From here to the result the dispatcher does not hand the unit over; what it handed over before goes first."""
        return await self._changes.cancel(await self._leadership.sure(), id, if_match)

    @_reads_files
    async def reschedule(
        self, id: str, *, deliver_at_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        """Like cancel: no hand-over from here to the result, and none before the new due time after it."""
        term = await self._leadership.sure()
        self._parts.reserve.check()
        return await self._changes.reschedule(
            term, id, deliver_at_ms=deliver_at_ms, delay_ms=delay_ms, if_match=if_match,
            max_delay_ms=self.limits.max_delay_ms,
        )  # fmt: skip

    # -- topics

    def _topic(self, name: str) -> Topic:
        topic = self._parts.store.catalog.topic(name)
        if topic is None:
            raise Problem("unknown-topic", f"no topic is named {name}; scheduling to it or PUT creates it")
        return topic

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """Set what `change` names; a PUT replaces all."""
        term = await self._leadership.sure()
        topic = self._parts.store.catalog.topic(name) if create else self._topic(name)
        if if_match == 0:  # no topic has it, and the command takes 0 for "whatever it is now"
            raise _another_revision(topic, if_match)
        settings = settings_of(change)
        if create:
            settings = {key: value for key, value in settings.items() if value is not None}
        check_target(settings, None if create else topic)
        command = PutTopic("default", name, settings, replace=create, revision=if_match or 0)
        if topic is not None and settings.get("handover") == "strict":
            term.handing_over.strict.expect(subscription_of(topic.number))
        put = await self._parts.proposer.put_topic(command)
        if not put.changed or put.topic is None:
            if put.topic is not None:
                term.handing_over.strict.on_settings(subscription_of(put.topic.number), put.topic.settings)
            raise _another_revision(put.topic, if_match)
        return view_topic(put.topic)

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        """`unknown-topic`."""
        await self._leadership.sure()
        return view_topic(self._topic(name))

    @_reads_files
    async def topics(self, after: str, most: int, *, counts: bool, principal: Principal) -> Sequence[TopicView]:
        """At most so many by name, behind `after`."""
        await self._leadership.sure()
        found = await self._parts.counting.by_topic(self._leadership.require) if counts else None
        topics = self._parts.store.catalog.topic_page(after, most)
        return [view_topic(topic, None if found is None else found[topic.number]) for topic in topics]

    @_reads_files
    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """Only what has nothing left that has not ended."""
        await self._leadership.sure()
        topic = self._topic(name)
        if if_match not in (None, topic.revision):
            raise _another_revision(topic, if_match)
        if await self._topic_drop.drop(topic, if_match, self._leadership.require) == MISMATCH:
            raise _another_revision(self._parts.store.catalog.topic(name), if_match)

    # -- consumers

    @_reads_files
    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        """Hand over, waiting up to `wait_ms` for the first."""
        return await (await self._leadership.sure()).pull(self._topic(request.topic), request)

    @_reads_files
    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        """One result per receipt, durable on a majority."""
        return await self._settling.ack(await self._leadership.sure(), self._topic(topic), receipts)

    @_reads_files
    async def nack(
        self, topic: str, receipts: Sequence[str], *, delay_ms: int | None, principal: Principal, counted: bool = True
    ) -> Sequence[str]:
        """One result per receipt, durable on a majority."""
        return await self._settling.nack(
            await self._leadership.sure(), self._topic(topic), receipts, delay_ms, counted=counted
        )

    @_reads_files
    async def extend(
        self, topic: str, receipts: Sequence[str], *, lease_ms: int | None, principal: Principal
    ) -> Sequence[str]:
        """One result per receipt, durable on a majority."""
        return await self._settling.extend(await self._leadership.sure(), self._topic(topic), receipts, lease_ms)

    # -- many messages

    @_reads_files
    async def count(self, query: CountQuery, *, principal: Principal) -> int:
        """`unknown-topic`, `over-limit`."""
        await self._leadership.sure()
        return await self._parts.counting.count(query, self._leadership.require)

    @_reads_files
    async def histogram(self, query: CountQuery, *, step_ms: int, principal: Principal) -> Sequence[HistogramBucket]:
        """`unknown-topic`, `over-limit`; `invalid-field` for too many buckets."""
        await self._leadership.sure()
        return await self._parts.counting.histogram(query, step_ms, self._leadership.require)

    @_reads_files
    async def dead(self, query: DeadQuery, *, principal: Principal) -> DeadPage:
        """`unknown-topic`."""
        await self._leadership.sure()
        return await self._dead.page(self._topic(query.topic), query, self._leadership.require)

    @_reads_files
    async def redrive(self, query: DeadQuery, *, dry_run: bool, principal: Principal) -> BulkResult:
        """`unknown-topic`."""
        await self._leadership.sure()
        if not dry_run:
            self._parts.reserve.check()
        return await self._dead.redrive(self._topic(query.topic), query, self._leadership.require, dry_run=dry_run)

    # -- the ledger

    @_reads_files
    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """`unknown-topic`, `invalid-field`, `over-limit`."""
        await self._leadership.sure()
        return await self._ledgers.page(query, self._leadership.require)

    @_reads_files
    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """`unknown-topic`, `over-limit`."""
        await self._leadership.sure()
        return await self._ledgers.summary(query, self._leadership.require)

    @_reads_files
    async def message_ledger(self, id: str) -> MessageLedger:
        """`unknown-message`, `over-limit`."""
        term = await self._leadership.sure()
        found = find(self._parts.store, id)
        await term.recorded(found.place)
        return await self._ledgers.message(found, self._leadership.require)

    @_reads_files
    async def hand_over_records(self, asked: RecordsAsked) -> RecordsFound:
        """From this node's own delivery log."""
        return await self._ledgers.records(asked)

    # -- the cluster

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        """Move leadership to node `to`, or to the best."""
        return await self._parts.transfer.run(to)

    def drained(self) -> bool:
        """Whether an operator drained this node."""
        return self._parts.drain.drained

    async def drain(self, node: str | None, *, principal: Principal) -> DrainView:
        """This node leads nothing and takes no requests from here on."""
        return await self._parts.drain.drain(node)

    async def undrain(self, node: str | None, *, principal: Principal) -> DrainView:
        """It serves again."""
        return await self._parts.drain.undo(node)

    @_reads_files
    async def outcomes(self, told: Sequence[PushOutcome], *, principal: Principal) -> Sequence[str]:
        """What became of a former leader's pushes; taken also by a leader that only waits for them."""
        return await self._former_leaders.take(self._established(), told)

    async def takeover(self, told: OpenHandOvers, *, principal: Principal) -> TakeoverView:
        """This new leader's account of what it took over."""
        return await self._established().account(told)

    def _established(self) -> Term:
        if self._leadership.term is None:
            raise Problem("no-leader", "this node does not lead; nothing happened")
        return self._leadership.term

    async def add_member(self, node_id: str, raft: str, http: str) -> MemberView:
        """A node becomes a learner."""
        return await self._parts.member_changes.add(node_id, raft, http)

    async def snapshot(self, directory: str | None) -> SnapshotView:
        """A backup on this node's disk."""
        return await self._parts.backups.write(directory)

    async def remove_member(self, node_id: str) -> MemberView:
        """A node is a member no more."""
        return await self._parts.member_changes.remove(node_id)

    async def upgrade(self, level: int | None) -> int:
        """The level of the cluster rises."""
        return await self._parts.levels.upgrade(level)

    async def cluster(self) -> Mapping[str, Any]:
        """The document of GET /v1/cluster."""
        return self._parts.status.cluster()

    def ready(self) -> Readiness:
        """Whether this node serves."""
        return self._parts.status.ready()

    def metrics(self) -> bytes:
        """Prometheus text format."""
        return self._parts.metrics.render()


def _another_revision(topic: Topic | None, if_match: int | None) -> Problem:
    found = topic.revision if topic else "none"
    return Problem("revision-mismatch", f"the topic has revision {found}, If-Match asks for {if_match}")
