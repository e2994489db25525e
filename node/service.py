"""The node as the HTTP layer sees it (api.port.Port): reads from the store, proposes through the proposer.

Linearizable reads need no entry: the leader answers from what it has applied while its trust window runs, for within it
no other leader can have committed anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from api.port import (
    FAILED,
    TOPIC_DEFAULTS,
    CancelResult,
    Delivery,
    ForwardAnswer,
    ForwardRequest,
    HistoryEvent,
    Limits,
    MessageIn,
    MessageView,
    Principal,
    PullIn,
    Readiness,
    ScheduleResult,
    TopicChange,
    TopicView,
    TransferResult,
)
from api.problem import FieldFault, Problem
from api.timestamp import render_time
from node.queues import GROUP, Placed, problem_of
from node.receipt import Receipt
from node.reign import Reign
from replication.apply_settle import ACKED, CANCELLED, DOUBTFUL, INVALID, KNOWN, LEASED, NONE, STALE, UNKNOWN
from replication.command import PutTopic, Settle
from storage import format as states
from storage.disk import DiskFailed
from storage.message_id import BadId, MessageId, decode_id
from storage.record import Record
from storage.topic import Topic

if TYPE_CHECKING:
    from node.server import Node

RESULTS = {ACKED: "acked", STALE: "stale", INVALID: "invalid"}
PRIORS = {NONE: "none", KNOWN: "known", DOUBTFUL: "unknown"}
EVENTS = {
    states.LEASED: "leased",
    states.DELIVERED: "delivered",
    states.CANCELLED: "cancelled",
    states.MOVED: "moved",
    states.DEAD: "dead",
    states.EXPIRED: "expired",
    states.RELEASED: "released",
}


PENDING_SHOWN = ("scheduled", "ready")
#: How far two nodes' clocks may be apart before a leader yields; bounds what a dead leader may have handed over.
SKEW_MS = 500


P = ParamSpec("P")
T = TypeVar("T")


def _reads_files(
    method: Callable[Concatenate[Service, P], Awaitable[T]],
) -> Callable[Concatenate[Service, P], Coroutine[Any, Any, T]]:
    """A checksum that does not match, or a disk that fails, in a read for a request ends the node: the HTTP layer would
    answer 500 and go on serving doubtful data."""

    @wraps(method)
    async def guarded(self: Service, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except (states.Corrupt, DiskFailed) as error:
            self._node.fatal(error)
            raise

    return guarded


class Service:
    """Implements api.port.Port for one node; `node` owns the parts."""

    def __init__(self, node: Node, limits: Limits) -> None:
        self._node = node
        self.node_id = node.config.node_id
        self.limits = limits

    # -- who leads

    def now_ms(self) -> int:
        """The node clock."""
        return self._node.clock.now_ms()

    def term(self) -> int:
        """The newest term this node knows of."""
        return self._node.group.term

    def leader(self) -> str | None:
        """Node id of the leader as far as known."""
        return self._node.group.leader_id

    def leads(self) -> bool:
        """Whether this node is the established leader and not about to give that away: then requests wait for the
        next leader in the forwarder."""
        return self._node.reign is not None and not self._node.transfer.frozen

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Pass the request to the leader once."""
        return await self._node.forwarder.forward(request)

    def _reign(self) -> Reign:
        """The reign, if this node may act as leader at this moment. Asked again after every await."""
        node = self._node
        if node.draining:
            raise Problem("draining", "this node is shutting down; another one leads in a moment")
        if node.reign is None or not node.reign.trusted():
            raise Problem("no-leader", "this node is not sure to lead; nothing happened", leader=self.leader())
        return node.reign

    # -- messages

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        """Durable on a majority and applied when it returns."""
        self._reign()
        self._node.reserve.check()
        parts = await self._node.proposer.schedule(messages)
        if len(parts) == 1:
            _, _, result = parts[0]
            if isinstance(result, str):
                raise problem_of(result)
            return ScheduleResult(result.ids, result.due_ms, result.status)
        return _join(parts, len(messages))

    @_reads_files
    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        """One message, as this node has applied it; only the leader within its trust window, unless `local`."""
        named, record = self._find(id)
        if not local:
            await self._reign().recorded(named.position)
        store = self._node.store
        at = np.array([named.position], np.uint64)
        state = store.states(at)
        unit = store.units(at)[0]
        now_ms = self.now_ms()
        history = store.history(named.position)
        leases = history[history["what"] == states.LEASED]
        settles = history[(history["what"] != states.LEASED) & (history["what"] != states.RELEASED)]
        handed_over_ms = int(leases["at_ms"][-1]) if len(leases) else None
        return MessageView(
            id=id.upper(),
            topic=self._topic_name(record.topic),
            state=_shown(int(state.state[0]), int(state.lease_end_ms[0]), int(unit["due_ms"]), now_ms),
            due_ms=int(unit["due_ms"]),
            asked_due_ms=record.asked_due_ms,
            created_ms=record.created_ms,
            revision=1,
            attempt=int(state.attempt[0]),
            body=record.body,
            content_type=record.content_type,
            tags=record.tags,
            headers=record.headers or None,
            key=record.key.decode() if record.key else None,
            handed_over_ms=handed_over_ms,
            settled_ms=int(settles["at_ms"][-1]) if len(settles) else None,
            lateness_ms=None if handed_over_ms is None else handed_over_ms - record.asked_due_ms,
            history=self._history(record, history),
        )

    @_reads_files
    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        """From here to the result the dispatcher does not hand the unit over; what it handed over before goes first."""
        reign = self._reign()
        named, record = self._find(id)
        if if_match is not None and if_match != 1:
            raise Problem("revision-mismatch", f"the message has revision 1, If-Match asks for {if_match}")
        store = self._node.store
        due_ms = int(store.units(np.array([named.position], np.uint64))[0]["due_ms"])
        doubtful = reign.may_have_predecessor and due_ms <= reign.promoted_ms + SKEW_MS
        doubtful = doubtful and record.created_ms <= reign.promoted_ms
        outcome = self._node.proposer.cancel(named.position, doubtful=doubtful)
        reign.hold_until(named.position, outcome)
        # Shielded: a client that goes away takes back neither the Cancel nor the hold that goes with it.
        result, attempts, prior = await asyncio.shield(outcome)
        if result == CANCELLED:
            return CancelResult(id.upper(), attempts, PRIORS[prior])
        if result == UNKNOWN:
            raise Problem("unknown-message", "no message has this id; it may be past its retention")
        history = store.history(named.position)
        if result == LEASED:
            lease = history[history["what"] == states.LEASED][-1]
            raise Problem(
                "leased",
                "the message is handed over; wait for its ack or its lease end",
                handed_over=render_time(int(lease["at_ms"])),
                attempt=int(lease["attempt"]),
                leased_until=render_time(int(lease["when"])),
            )
        event = EVENTS[int(history[-1]["what"])]
        raise Problem("already-settled", f"the message was {event} at {render_time(int(history[-1]['at_ms']))}")

    def _find(self, id: str) -> tuple[MessageId, Record]:
        try:
            named = decode_id(id)
        except BadId as bad:
            raise Problem("unknown-message", f"this is no message id: {bad}") from None
        at = np.array([named.position], np.uint64)
        store = self._node.store
        if named.group == GROUP and store.cluster_id is not None and store.states(at).state[0] != states.UNKNOWN:
            record = store.records(at)[0]
            if record.random == named.random:
                return named, record
        raise Problem("unknown-message", "no message has this id; it may be past its retention")

    def _history(self, record: Record, history: Any) -> list[HistoryEvent]:
        nodes = self._nodes()
        events = [HistoryEvent(record.created_ms, "scheduled", "", 0, 0)]
        for row in history:
            node = nodes[row["node"] - 1] if 0 < row["node"] <= len(nodes) else ""
            events.append(
                HistoryEvent(int(row["at_ms"]), EVENTS[int(row["what"])], node, int(row["term"]), int(row["attempt"]))
            )
        return events

    def _nodes(self) -> tuple[str, ...]:
        genesis = self._node.store.catalog.genesis
        return genesis.nodes if genesis else ()

    # -- topics

    def _topic_name(self, number: int) -> str:
        topic = self._node.store.catalog.topic_by_number(number)
        return topic.name if topic else ""

    def _topic(self, name: str) -> Topic:
        topic = self._node.store.catalog.topic(name)
        if topic is None:
            raise Problem("unknown-topic", f"no topic is named {name}; scheduling to it or PUT creates it")
        return topic

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        """Set what `change` names; a PUT replaces all."""
        self._reign()
        if not create:
            self._topic(name)
        if if_match == 0:  # no topic has it, and the command takes 0 for "whatever it is now"
            topic = self._node.store.catalog.topic(name)
            raise _another_revision(topic, if_match)
        settings = {key: value for key, value in _settings(change).items() if value is not None}
        command = PutTopic("default", name, settings, replace=create, revision=if_match or 0)
        put = await self._node.proposer.put_topic(command)
        if not put.changed or put.topic is None:
            raise _another_revision(put.topic, if_match)
        return _view(put.topic)

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        """`unknown-topic`."""
        self._reign()
        return _view(self._topic(name))

    async def topics(self, *, principal: Principal) -> Sequence[TopicView]:
        """All topics by name."""
        self._reign()
        return sorted(map(_view, self._node.store.catalog.topics()), key=lambda view: view.name)

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        """Dropping a topic is not there yet: it needs a count of what is pending in it."""
        self._topic(name)
        detail = "topics cannot be deleted yet; pause it instead: PATCH paused = true"
        raise Problem("not-supported-yet", detail, errors=[FieldFault("", detail)])

    # -- pull

    @_reads_files
    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        """Hand over, waiting up to `wait_ms` for the first."""
        reign = self._reign()
        topic = self._topic(request.topic)
        return await reign.pull(topic, request)

    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        """One result per receipt, durable on a majority."""
        reign = self._reign()
        number = self._topic(topic).number
        read = [reign.receipts.read(text) for text in receipts]
        named = [(row, receipt) for row, receipt in enumerate(read) if receipt is not None and receipt.topic == number]
        results = ["invalid"] * len(receipts)
        if named:
            outcome = await self._node.proposer.settle(_settle([receipt for _, receipt in named]))
            for (row, _), result in zip(named, outcome.tolist(), strict=True):
                results[row] = RESULTS[result]
            self._node.count_acked(results.count("acked"))
        return results

    # -- the cluster

    async def transfer(self, to: str | None, *, principal: Principal) -> TransferResult:
        """Move leadership to node `to`, or to the best."""
        return await self._node.transfer.run(to)

    async def cluster(self) -> Mapping[str, Any]:
        """The document of GET /v1/cluster."""
        return self._node.status.cluster()

    def ready(self) -> Readiness:
        """Whether this node serves."""
        return self._node.status.ready()

    def metrics(self) -> bytes:
        """Prometheus text format."""
        return self._node.metrics.render()


def _join(parts: Sequence[tuple[int, int, Placed | str]], rows: int) -> ScheduleResult:
    """One result out of the parts of a batch that went in several entries."""
    ids, due_ms = np.zeros(rows, "S26"), np.zeros(rows, np.int64)
    status = np.full(rows, FAILED, np.uint8)
    problems: dict[int, Problem] = {}
    for start, count, part in parts:
        if isinstance(part, str):
            problems.update(dict.fromkeys(range(start, start + count), problem_of(part)))
        else:
            of_part = slice(start, start + count)
            ids[of_part], due_ms[of_part], status[of_part] = part.ids, part.due_ms, part.status
    return ScheduleResult(ids, due_ms, status, problems)


def _another_revision(topic: Topic | None, if_match: int | None) -> Problem:
    found = topic.revision if topic else "none"
    return Problem("revision-mismatch", f"the topic has revision {found}, If-Match asks for {if_match}")


def _settle(receipts: Sequence[Receipt]) -> Settle:
    return Settle(
        np.array([receipt.position for receipt in receipts], np.uint64),
        np.array([receipt.term for receipt in receipts], np.uint32),
        np.array([receipt.attempt for receipt in receipts], np.uint16),
        np.zeros(len(receipts), np.uint16),
    )


def _shown(state: int, lease_end_ms: int, due_ms: int, now_ms: int) -> str:
    """The state that API.md names: an unsettled unit is what time makes of it."""
    if state == states.LEASED and lease_end_ms > now_ms:
        return "leased"
    if state in (states.PENDING, states.LEASED):
        return PENDING_SHOWN[due_ms <= now_ms]
    return EVENTS[state]


def _settings(change: TopicChange) -> dict[str, Any]:
    return {
        "mode": change.mode,
        "lease_ms": change.lease_ms,
        "handover": change.handover,
        "paused": change.paused,
    }


def _view(topic: Topic) -> TopicView:
    settings = {**_settings(TOPIC_DEFAULTS), **topic.settings}
    return TopicView(
        name=topic.name,
        mode=settings["mode"],
        lease_ms=settings["lease_ms"],
        handover=settings["handover"],
        paused=settings["paused"],
        revision=topic.revision,
        created_ms=topic.created_ms,
    )
