"""The front of a node: the part that its clients touch. It answers the HTTP layer (api.port.port.Port) by asking its
groups.

    HTTP -> Front -> GroupDirectory: which group -> GroupPort: plain values -> the group, here or where it leads
                 '-> PassOn, where the leader is of a build that knows no calls between nodes

It makes ids, receipts and metrics pages from what groups answer. A front knows ports, never a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from api.port.backup import SnapshotView
from api.port.budget import Budget
from api.port.forward import ForwardAnswer, ForwardRequest, RequestKey
from api.port.leadership import DrainView, OpenHandOvers, PushOutcome, TakeoverView, TransferResult
from api.port.ledger import LedgerPage, LedgerQuery, LedgerSummary, MessageLedger, RecordsAsked, RecordsFound
from api.port.member import MemberView
from api.port.message import MessagePage, MessageView
from api.port.port import (
    CancelResult,
    Delivery,
    KeyedPort,
    Limits,
    MessageIn,
    Principal,
    PullIn,
    Readiness,
    RescheduleResult,
    ScheduledOne,
    ScheduleResult,
    TopicChange,
    TopicView,
)
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
    OperationVerb,
    OperationView,
    WheelHour,
    WheelQuery,
)
from node.front.delivered import make_deliveries
from node.front.forwarding import Forwarding
from node.front.groups import GroupDirectory
from node.front.keyed import KeyedFront
from node.front.metrics_page import MetricsPage
from node.front.scheduled import many, one
from node.front.shown_receipts import ShownReceipts
from node.port.draft import encode_draft
from node.port.group_port import BackupAsked, LevelAsked, MemberAsked, NodeNamed, OutcomesSent
from node.port.message_port import (
    CancelAsked,
    HistogramAsked,
    MessageAsked,
    OperationAsked,
    OperationChange,
    OperationsAsked,
    RescheduleAsked,
)
from node.port.pull_port import Claims, ExtendAsked, NackAsked, PullAsked, check_window, give_back
from node.port.topic_port import TopicAsked, TopicDrop, TopicPut, TopicsAsked
from node.runtime.clock import ProcessClock


class Front:
    """Implements api.port.port.Port for one node. Errors are as described there."""

    def __init__(
        self,
        node_id: str,
        groups: GroupDirectory,
        forwarder: Forwarding,
        limits: Limits,
        budget: Budget,
        names: Collection[str],
        clock: ProcessClock,
        metrics: MetricsPage,
        numbers: Iterator[int],
    ) -> None:
        """`numbers` number all waits in this process."""
        self.node_id, self.limits, self.budget, self.names = node_id, limits, budget, names
        self.groups, self._forwarder = groups, forwarder
        self._clock, self._metrics = clock, metrics
        self._numbers = numbers

    # -- the leader

    def now_ms(self) -> int:
        """Return the time of this process's clock in ms."""
        return self._clock.now_ms()

    def term(self) -> int:
        """Return the newest term that this node knows of."""
        return self.groups.home.status.term

    def leader(self) -> str | None:
        """Return the node id of the leader, or None while this node knows of no leader."""
        return self.groups.home.status.leader

    def leads(self) -> bool:
        """True if this node is the established leader and is not giving leadership away. While it does that, requests
        wait in the forwarder for the next leader."""
        return self.groups.home.status.leads

    def reaches_leader(self) -> bool:
        """True if this node can ask the leader by calls between nodes. Otherwise requests are passed on as they
        came."""
        return self.groups.home.reaches_leader

    def drained(self) -> bool:
        """True if an operator has drained this node."""
        return self.groups.home.status.drained

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Pass the request to the leader once."""
        return await self._forwarder.forward(request)

    # -- messages

    def keyed(self, key: RequestKey) -> KeyedPort:
        """Return what carries out a request under its `Idempotency-Key`."""
        return KeyedFront(self.groups, key)

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Schedule messages. They are durable on a majority and applied when it returns."""
        place = self.groups.of_topic(messages[0].topic)
        return many(await place.leading.schedule(messages), place.number)

    async def schedule_all(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Schedule all messages in one entry, or none. See Port."""
        place = self.groups.of_topic(messages[0].topic)
        return many(await place.leading.schedule_all(encode_draft(messages)), place.number)

    async def schedule_one(self, message: MessageIn, principal: Principal) -> ScheduledOne:
        """Schedule the message of a request with a single message. Its refusal is raised."""
        place = self.groups.of_topic(message.topic)
        return one(await place.leading.schedule_one(message), place.number)

    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        """Return a message. With `local` this node answers with what it has applied. Otherwise the leader answers,
        within its trust window."""
        place = self.groups.of_message(id)
        return await (place.port if local else place.leading).message(MessageAsked(id, local))

    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """Cancel a message. The dispatcher does not hand it over until the result is known. If a hand-over began before
        that and has not ended, the cancel is refused."""
        return await self.groups.of_message(id).leading.cancel(CancelAsked(id, if_match))

    async def reschedule(
        self, id: str, *, due_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        """Give a message another due time. As with `cancel`, it is not handed over until the result is known. After
        success it is not handed over before the new due time."""
        asked = RescheduleAsked(id, due_ms, delay_ms, if_match)
        return await self.groups.of_message(id).leading.reschedule(asked)

    # -- topics

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """Set the settings that `change` names. `create`: it is a PUT, which names all settings."""
        return await self.groups.of_topic(name).leading.put_topic(TopicPut(name, change, create, if_match))

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        """Return a topic. Raises `unknown-topic`."""
        return await self.groups.of_topic(name).leading.topic(TopicAsked(name))

    async def topics(self, after: str, most: int, *, counts: bool, principal: Principal) -> Sequence[TopicView]:
        """Return at most `most` topics by name, behind the name `after`."""
        return (await self.groups.home.leading.topics(TopicsAsked(after, most, counts))).topics

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """Delete a topic all of whose messages have ended."""
        await self.groups.of_topic(name).leading.delete_topic(TopicDrop(name, if_match))

    # -- consumers

    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        """Hand over messages, and wait up to `wait_ms` for the first one. Messages that reach no client are given
        back."""
        place = self.groups.of_topic(request.topic)
        port, number = place.leading, next(self._numbers)
        asked = PullAsked(number, request.topic, request.max, request.wait_ms, request.lease_ms, request.tags)
        handed = await port.pull(asked, request.gone)
        if not handed.bodies:
            return []
        check_window(port, request.topic, handed, self._clock.monotonic())
        if request.gone():
            give_back(port, request.topic, handed)
            return []
        return make_deliveries(handed, place.number, request.topic, place.receipts)

    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        """End the messages of these receipts. Return one result per receipt, durable on a majority."""
        place, shown = self.groups.of_topic(topic), ShownReceipts(receipts)
        return shown.answer("acked", await place.leading.ack(Claims(topic, await shown.read(place.receipts))))

    async def nack(
        self, topic: str, receipts: Sequence[str], *, delay_ms: int | None, principal: Principal, counted: bool = True
    ) -> Sequence[str]:
        """Give back the messages of these receipts. Return one result per receipt, durable on a majority."""
        place, shown = self.groups.of_topic(topic), ShownReceipts(receipts)
        asked = NackAsked(Claims(topic, await shown.read(place.receipts)), delay_ms, counted)
        return shown.answer("nacked", await place.leading.nack(asked))

    async def extend(
        self, topic: str, receipts: Sequence[str], *, lease_ms: int | None, principal: Principal
    ) -> Sequence[str]:
        """Make the leases of these receipts longer. Return one result per receipt, durable on a majority."""
        place, shown = self.groups.of_topic(topic), ShownReceipts(receipts)
        asked = ExtendAsked(Claims(topic, await shown.read(place.receipts)), lease_ms)
        return shown.answer("extended", await place.leading.extend(asked))

    # -- many messages

    async def messages(self, query: ListQuery, *, principal: Principal) -> MessagePage:
        """Return a page of messages. Raises `unknown-topic`, `over-limit`, `invalid-field`."""
        return await self.groups.of_topic(query.topic).leading.messages(query)

    async def count(self, query: CountQuery, *, principal: Principal) -> MessageCount:
        """Count messages. Raises `unknown-topic`, `over-limit`."""
        return await self.groups.of_topic(query.topic).leading.count(query)

    async def histogram(self, query: CountQuery, *, step_ms: int | None, principal: Principal) -> Histogram:
        """Count messages by due time. Raises `unknown-topic`, `over-limit`, and `invalid-field` for too many
        buckets."""
        return await self.groups.of_topic(query.topic).leading.histogram(HistogramAsked(query, step_ms))

    async def wheel(self, query: WheelQuery, *, principal: Principal) -> WheelHour:
        """Return an hour of the wheel, second by second. Raises `unknown-topic`, `over-limit`."""
        return await self.groups.of_topic(query.topic).leading.wheel(query)

    async def dead(self, query: DeadQuery, *, principal: Principal) -> DeadPage:
        """Return a page of dead letters. Raises `unknown-topic`."""
        return await self.groups.of_topic(query.topic).leading.dead(query)

    # -- operations

    async def begin_operation(self, wish: OperationIn, *, principal: Principal) -> OperationView:
        """Begin an operation, and wait for its end at most `wait_s`."""
        return await self.groups.home.leading.begin_operation(wish)

    async def operation(self, id: str, *, principal: Principal) -> OperationView:
        """Return an operation. Raises `unknown-operation`."""
        return await self.groups.home.leading.operation(OperationAsked(id))

    async def change_operation(self, id: str, verb: OperationVerb, *, principal: Principal) -> OperationView:
        """Pause an operation, let it go on, or end it early."""
        return await self.groups.home.leading.change_operation(OperationChange(id, verb))

    async def operations(self, after: str | None, most: int, *, principal: Principal) -> OperationPage:
        """Return at most `most` operations, newest first, that began before the operation `after`."""
        return await self.groups.home.leading.operations(OperationsAsked(after, most))

    # -- the ledger

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """Return a page of the ledger. Raises `unknown-topic`, `invalid-field`, `over-limit`."""
        return await self.groups.of_topic(query.topic).leading.ledger(query)

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """Return counts of the ledger. Raises `unknown-topic`, `over-limit`."""
        return await self.groups.of_topic(query.topic).leading.ledger_summary(query)

    async def message_ledger(self, id: str) -> MessageLedger:
        """Return the ledger of one message. Raises `unknown-message`, `over-limit`."""
        return await self.groups.of_message(id).leading.message_ledger(MessageAsked(id))

    async def hand_over_records(self, asked: RecordsAsked) -> RecordsFound:
        """Return records of this node's own delivery log."""
        return await self.groups.home.port.records(asked)

    # -- the cluster

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        """Move leadership to node `to`, or if None to the node that lacks least."""
        return await self.groups.home.leading.transfer(NodeNamed(to))

    async def drain(self, node: str | None, *, principal: Principal) -> DrainView:
        """Make this node lead nothing and take no requests from here on."""
        return await self.groups.home.port.drain(NodeNamed(node))

    async def undrain(self, node: str | None, *, principal: Principal) -> DrainView:
        """Let this node serve again."""
        return await self.groups.home.port.undrain(NodeNamed(node))

    async def outcomes(self, told: Sequence[PushOutcome], *, principal: Principal) -> Sequence[str]:
        """Take the outcomes of a former leader's pushes. A leader that leaves and only waits for such outcomes takes
        them too."""
        return (await self.groups.home.port.outcomes(OutcomesSent(tuple(told)))).results

    async def takeover(self, told: OpenHandOvers, *, principal: Principal) -> TakeoverView:
        """Return this node's account of what it took over as the new leader."""
        return await self.groups.home.port.takeover(told)

    async def add_member(self, node_id: str, raft: str, http: str) -> MemberView:
        """Make a node a learner of the cluster."""
        return await self.groups.home.leading.add_member(MemberAsked(node_id, raft, http))

    async def remove_member(self, node_id: str) -> MemberView:
        """Remove a member."""
        return await self.groups.home.leading.remove_member(NodeNamed(node_id))

    async def upgrade(self, level: int | None) -> int:
        """Raise the level of the cluster. This node tries first, because it may be the node that cannot read the
        level."""
        place, asked = self.groups.home, LevelAsked(level)
        try:
            return (await place.port.upgrade(asked)).level
        except Problem as refused:
            if refused.code != "no-leader" or not place.reaches_leader:
                raise
        return (await place.leading.upgrade(asked)).level

    async def snapshot(self, directory: str | None) -> SnapshotView:
        """Write a backup on this node's disk."""
        return await self.groups.home.port.snapshot(BackupAsked(directory))

    async def cluster(self) -> Mapping[str, Any]:
        """Return the document of GET /v1/cluster."""
        return (await self.groups.home.port.cluster()).members

    async def ready(self) -> Readiness:
        """Return if this node serves, and what is missing if not."""
        try:
            return await self.groups.home.port.ready()
        except Problem as gone:
            return Readiness(False, {"group": gone.detail})

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus text format."""
        try:
            of_group = (await self.groups.home.port.metrics()).families
        except Problem:
            of_group = ()
        return self._metrics.render(of_group)
