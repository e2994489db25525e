"""A port of a few dictionaries: enough service behind the real server to see every shape of the contract.

It keeps the port's rules (who may call what, what is raised when) and no others: nothing is replicated or durable.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from api.contract.fields import MESSAGE
from api.port.budget import Budget
from api.port.forward import ForwardAnswer, ForwardRequest, RequestKey
from api.port.message import HistoryEvent, MessagePage, MessageView, Target
from api.port.port import (
    RETRY_DEFAULTS,
    TOPIC_DEFAULTS,
    CancelResult,
    Delivery,
    Limits,
    MessageIn,
    Principal,
    PullIn,
    RescheduleResult,
    RetryPolicy,
    ScheduledOne,
    ScheduleResult,
    Superseded,
    TopicChange,
    TopicView,
)
from api.port.problem import Problem
from api.port.queries import ListQuery
from api.port.timestamp import render_time
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, KEPT, NEW, REPLACED, REPLAYED
from tests.api.contract.added import extension_of
from tests.api.memory_keyed import MemoryKeyed
from tests.api.memory_queries import Held, MemoryQueries


class MemoryPort(MemoryQueries):
    """See the module. `principals` records who asked; `forwarded` what was passed on."""

    def __init__(self, node_id: str = "n1", limits: Limits | None = None, budget: Budget | None = None) -> None:
        super().__init__(node_id)
        self.limits = limits or Limits()
        self.budget = budget or Budget()
        self.names: Collection[str] = ("localhost", "n1.example")
        self.leading = True
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.topic_views: dict[str, TopicView] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, tuple[bytes, Any]] = {}
        self.principals: list[Principal] = []
        self.forwarded: list[ForwardRequest] = []
        self.forward_to: Any = None
        self.raises: Exception | None = None
        #: Set on entering `schedule`, and awaited there, when a test wants to hold a request at work.
        self.before_schedule: tuple[asyncio.Event, asyncio.Event] | None = None
        self.fails: dict[int, Problem] = {}
        self.arrived = asyncio.Event()
        self.wait_ended = asyncio.Event()
        self.waiting = asyncio.Event()

    def now_ms(self) -> int:
        return self.clock_ms

    def term(self) -> int:
        return 7

    def leader(self) -> str | None:
        return self.known_leader

    def leads(self) -> bool:
        return self.leading

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        self.forwarded.append(request)
        if self.forward_to is None:
            raise Problem("no-leader", "no leader is known")
        answer: ForwardAnswer = await self.forward_to(request)
        return answer

    async def schedule_one(self, message: MessageIn, principal: Principal) -> ScheduledOne:
        result = await self.schedule((message,), principal)
        if result.status[0] == FAILED:
            raise result.problems[0]
        one = result.ids[0].decode(), int(result.due_ms[0]), int(result.status[0])
        return ScheduledOne(*one, result.superseded.get(0))

    async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        self.principals.append(principal)
        if self.before_schedule is not None:
            self.before_schedule[0].set()
            await self.before_schedule[1].wait()
        if self.raises is not None:
            raise self.raises
        ids, dues, statuses = [], [], []
        superseded: dict[int, Superseded] = {}
        for row, message in enumerate(messages):
            before = self.keys.get((message.topic, message.key)) if message.key is not None else None
            held, status = self._keep(message)
            if status in (REPLACED, EXTENDED) and before is not None:
                superseded[row] = Superseded(before[0], 0, "none", held.revision)
            ids.append(held.id)
            dues.append(held.due_ms)
            statuses.append(FAILED if row in self.fails else status)
        self.arrived.set()
        return ScheduleResult(
            np.array(ids, "S26"), np.array(dues, np.int64), np.array(statuses, np.uint8), dict(self.fails), superseded
        )

    async def schedule_all(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
        held, keys = dict(self.held), dict(self.keys)
        result = await self.schedule(messages, principal)
        if result.problems or CONFLICT in result.status:
            self.held, self.keys = held, keys
        return result

    def _keep(self, message: MessageIn) -> tuple[Held, int]:
        if message.key is not None and (message.topic, message.key) in self.keys:
            id_text, mark = self.keys[message.topic, message.key]
            if message.on_conflict == "extend":
                held = self.held[id_text]
                held.due_ms, held.revision = self.clock_ms + (message.delay_ms or 0), held.revision + 1
                return held, EXTENDED
            if message.on_conflict == "replace":
                self.held[id_text].state = "cancelled"
                return self._put(message), REPLACED
            if mark == message.fingerprint:
                return self.held[id_text], REPLAYED
            return self.held[id_text], KEPT if message.on_conflict == "keep" else CONFLICT
        return self._put(message), NEW

    def _put(self, message: MessageIn) -> Held:
        due_ms = self.clock_ms + (message.delay_ms or 0)
        if message.due_ms is not None:
            due_ms = max(self.clock_ms, message.due_ms)
        held = Held(f"{len(self.held):026d}", message, due_ms)
        self.held[held.id] = held
        if message.key is not None:
            assert message.fingerprint is not None
            assert len(message.fingerprint) == 16
            self.keys[message.topic, message.key] = (held.id, message.fingerprint)
        return held

    def _find(self, id_text: str) -> Held:
        held = self.held.get(id_text)
        if held is None:
            raise Problem("unknown-message", f"there is no message {id_text[:64]}")
        return held

    async def message(self, id: str, *, local: bool, principal: Principal) -> MessageView:
        held = self._find(id)
        message = held.message
        return MessageView(
            id=id,
            topic=message.topic,
            state=held.state,
            due_ms=held.due_ms,
            asked_due_ms=held.due_ms,
            created_ms=self.clock_ms,
            revision=held.revision,
            attempt=held.attempt,
            body=message.body,
            content_type=message.content_type,
            tags=message.tags,
            headers=msgspec.msgpack.decode(message.headers) if message.headers else None,
            key=message.key,
            last_error="local" if local else None,
            history=[HistoryEvent(self.clock_ms, "scheduled", "n1", 7, 0)],
            target=message.target,
            extension=extension_of(message),
        )

    async def messages(self, query: ListQuery, *, principal: Principal) -> MessagePage:
        """The cursor is how many went before."""
        found = sorted(self._counted(query), key=lambda held: held.due_ms)
        start = int(query.cursor or 0)
        end = start + query.limit
        views = [await self.message(held.id, local=False, principal=principal) for held in found[start:end]]
        return MessagePage([replace(view, history=()) for view in views], str(end) if end < len(found) else None)

    def _find_open(self, id_text: str, if_match: int | None) -> Held:
        """The message, if it may be changed."""
        held = self._find(id_text)
        if if_match not in (None, held.revision):
            raise Problem("revision-mismatch", f"the revision is {held.revision}, not {if_match}")
        if held.state == "leased":
            until = render_time(self.clock_ms + 30_000)
            raise Problem("leased", "a consumer has it", handed_over=until, attempt=1, leased_until=until)
        return held

    async def cancel(self, id: str, *, if_match: int | None, principal: Principal) -> CancelResult:
        self._find_open(id, if_match).state = "cancelled"
        return CancelResult(id, 0, "none")

    async def reschedule(
        self, id: str, *, due_ms: int | None, delay_ms: int | None, if_match: int | None, principal: Principal
    ) -> RescheduleResult:
        held = self._find_open(id, if_match)
        if held.state != "scheduled":
            raise Problem("already-settled", f"the message is {held.state}")
        held.due_ms = max(self.clock_ms, due_ms or 0, self.clock_ms + (delay_ms or 0))
        held.revision += 1
        return RescheduleResult(id, held.message.topic, held.due_ms, held.revision)

    def keyed(self, key: RequestKey) -> Any:
        return MemoryKeyed(self, key, self.kept)

    async def put_topic(
        self, name: str, change: TopicChange, *, create: bool, if_match: int | None, principal: Principal
    ) -> TopicView:
        old = self.topic_views.get(name)
        if old is None and not create:
            raise Problem("unknown-topic", f"there is no topic {name}")
        if if_match is not None and (old is None or old.revision != if_match):
            raise Problem("revision-mismatch", "the topic has changed")
        settings = {} if create else dict(self.settings[name])
        for field, value in msgspec.structs.asdict(change).items():
            if value is msgspec.UNSET or (value is None and field not in ("target", "retry", "dead_letter")):
                continue
            if isinstance(value, Mapping):
                value = {**(settings.get(field) or {}), **value}
                value = {inner: item for inner, item in value.items() if item is not None}
            settings[field] = value
        if settings.get("target") and "url" not in settings["target"]:
            raise Problem("invalid-field", "the topic has no target to change")
        settings = {**msgspec.structs.asdict(TOPIC_DEFAULTS), **settings}
        self.settings[name] = settings
        view = TopicView(
            name=name,
            mode=settings["mode"],
            lease_ms=settings["lease_ms"],
            handover=settings["handover"],
            paused=settings["paused"],
            target=Target(**settings["target"]) if settings["target"] else None,
            retry=RetryPolicy(**{**msgspec.structs.asdict(RETRY_DEFAULTS), **(settings["retry"] or {})}),
            dead_letter=settings["dead_letter"],
            revision=old.revision + 1 if old else 1,
            created_ms=self.clock_ms,
        )
        self.topic_views[name] = view
        return view

    async def topic(self, name: str, *, principal: Principal) -> TopicView:
        if name not in self.topic_views:
            raise Problem("unknown-topic", f"there is no topic {name}")
        return self.topic_views[name]

    async def topics(self, after: str, most: int, *, counts: bool, principal: Principal) -> Sequence[TopicView]:
        views = [view for name, view in sorted(self.topic_views.items()) if name > after][:most]
        return [msgspec.structs.replace(view, counts={"scheduled": 2}) for view in views] if counts else views

    async def delete_topic(self, name: str, *, if_match: int | None, principal: Principal) -> None:
        if any(held.message.topic == name for held in self.held.values()):
            raise Problem("not-empty", f"{name} has pending messages")
        if self.topic_views.pop(name, None) is None:
            raise Problem("unknown-topic", f"there is no topic {name}")

    async def pull(self, request: PullIn, principal: Principal) -> Sequence[Delivery]:
        ready = self._ready(request)
        if not ready and request.wait_ms:
            self.waiting.set()
            try:
                async with asyncio.timeout(request.wait_ms / 1000):
                    await self.arrived.wait()
            except TimeoutError:
                return []
            except asyncio.CancelledError:
                self.wait_ended.set()
                raise
            ready = self._ready(request)
        return [self._hand_over(held, request) for held in ready]

    def _ready(self, request: PullIn) -> list[Held]:
        fitting = [
            held
            for held in self.held.values()
            if held.state == "scheduled"
            and held.message.topic == request.topic
            and held.due_ms <= self.clock_ms
            and (not request.tags or any(set(group) <= set(held.message.tags) for group in request.tags))
        ]
        return fitting[: request.max]

    def _hand_over(self, held: Held, request: PullIn) -> Delivery:
        held.state = "leased"
        held.attempt += 1
        message = held.message
        return Delivery(
            id=held.id,
            receipt=f"r-{held.id}-{held.attempt}",
            attempt=held.attempt,
            term=7,
            leased_until_ms=self.clock_ms + (request.lease_ms or 30_000),
            topic=message.topic,
            due_ms=held.due_ms,
            asked_due_ms=held.due_ms,
            created_ms=self.clock_ms,
            handed_over_ms=self.clock_ms,
            body=message.body,
            content_type=message.content_type,
            tags=message.tags,
            headers=msgspec.msgpack.decode(message.headers) if message.headers else None,
            key=message.key,
            extension=MESSAGE.pulled(extension_of(message)) or None,
        )

    async def ack(self, topic: str, receipts: Sequence[str], principal: Principal) -> Sequence[str]:
        return self._settle(receipts, "acked", {"state": "delivered"})

    async def nack(
        self, topic: str, receipts: Sequence[str], *, delay_ms: int | None, principal: Principal, counted: bool = True
    ) -> Sequence[str]:
        """A message is dead after its second failure here, if it is counted."""
        results = []
        for receipt in receipts:
            held = self._named(receipt)
            dead = counted and held is not None and held.attempt >= 2
            due_ms = self.clock_ms + (1_000 if delay_ms is None else delay_ms)
            change = {"state": "dead" if dead else "scheduled", "due_ms": due_ms}
            results += self._settle([receipt], "nacked", change)
        return results

    async def extend(
        self, topic: str, receipts: Sequence[str], *, lease_ms: int | None, principal: Principal
    ) -> Sequence[str]:
        return self._settle(receipts, "extended", {"leased_until_ms": self.clock_ms + (lease_ms or 30_000)})

    def _named(self, receipt: str) -> Held | None:
        parts = receipt.split("-")
        return self.held.get(parts[1]) if len(parts) == 3 else None

    def _settle(self, receipts: Sequence[str], result: str, change: Mapping[str, Any]) -> list[str]:
        results = []
        for receipt in receipts:
            held = self._named(receipt)
            if held is None:
                results.append("invalid")
            elif receipt.rpartition("-")[2] != str(held.attempt):
                results.append("stale")
            else:
                for field, value in change.items():
                    setattr(held, field, value)
                results.append(result)
        return results
