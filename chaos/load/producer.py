"""Producers: open loop, and honest about what they do not know.

Messages leave at their moment whatever became of those before, so that a stalled cluster is seen as unknown and late,
not as a slower workload. What may be sent again follows the contract: a connection refused and a 503 have done
nothing, so anything may; a broken connection, a timeout and a 504 leave it open, so only a message with a key is sent
again, and one without is recorded as unknown.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import aiohttp
import msgspec
import numpy as np

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Answered, Offered
from chaos.history.history import History
from chaos.plan.load_plan import Plan

NOT_DONE = {"no-leader", "draining", "over-limit", "disk-full"}
AGAIN_S = 0.05


@dataclass(frozen=True)
class Offer:
    """One message: its number is its body, `k<number>` its key."""

    number: int
    asked_due_ms: int
    keyed: bool
    topic: str

    def document(self) -> dict[str, object]:
        """The request; the same for every try, so that its fingerprint is."""
        fields: dict[str, object] = {"topic": self.topic, "body": self.number, "deliver_at": self.asked_due_ms}
        return fields | {"key": f"k{self.number}"} if self.keyed else fields


@dataclass(frozen=True)
class Outcome:
    """What one try says of one message; `not-done` is safe to send again by anybody."""

    kind: Literal["acknowledged", "refused", "unknown", "not-done"]
    message_id: str = ""
    due_ms: int = 0
    detail: str = ""


class Line(msgspec.Struct):
    """A 201, a line of a batch's answer, or a problem (which has a code)."""

    id: str = ""
    due: datetime | None = None
    error: dict[str, object] | None = None
    code: str = ""

    def outcome(self) -> Outcome:
        """Of the message this line is about."""
        code = str(self.error.get("code", "")) if self.error is not None else self.code
        if self.id and self.due is not None:
            return Outcome("acknowledged", self.id, round(self.due.timestamp() * 1000))
        if code in NOT_DONE:
            return Outcome("not-done", detail=code)
        if code in ("outcome-unknown", "internal", ""):
            return Outcome("unknown", detail=code)
        return Outcome("refused", detail=str(self.error or code))


class Producer:
    """Offers the plan's messages to `nodes` in turn; what it sees goes into `history`."""

    def __init__(self, nodes: Sequence[LocalNode], plan: Plan, history: History) -> None:
        self._nodes, self._plan, self._history = list(nodes), plan, history
        self._random = np.random.default_rng(plan.seed)
        self._turn = itertools.count()
        self._stopped = False

    def stop(self) -> None:
        """Nothing new is offered from now on."""
        self._stopped = True

    async def run(self) -> None:
        """Sends every message at its moment, until all or `stop`; returns when each has its final outcome."""
        plan, loop = self._plan, asyncio.get_running_loop()
        start, count = loop.time(), plan.count
        timeout = aiohttp.ClientTimeout(total=plan.request_s)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http, asyncio.TaskGroup() as sending:
            for first in range(0, count, plan.batch):
                await asyncio.sleep(max(0.0, start + first / plan.rate - loop.time()))
                if self._stopped:
                    break
                sending.create_task(self._send(http, self._draw(first, min(plan.batch, count - first))))

    def _draw(self, first: int, count: int) -> list[Offer]:
        """The next offers, recorded as such."""
        mono_ms, wall_ms = self._history.now()
        low, high = self._plan.delay_ms
        delays = self._random.integers(low, high, count, endpoint=True)
        keyed = bool(self._random.random() < self._plan.keyed_share)
        pushed = bool(self._random.random() < self._plan.push_share)
        topic = self._plan.push_topic if pushed else self._plan.topic
        together_ms = self._plan.due_together_ms
        dues = [-(-(wall_ms + int(delay)) // together_ms) * together_ms for delay in delays]
        offers = [Offer(first + row, dues[row], keyed, topic) for row in range(count)]
        for offer in offers:
            seen = Offered(
                mono_ms=mono_ms,
                wall_ms=wall_ms,
                number=offer.number,
                keyed=keyed,
                asked_due_ms=offer.asked_due_ms,
                strict=self._plan.strict,
            )
            self._history.record(seen)
        return offers

    async def _send(self, http: aiohttp.ClientSession, offers: list[Offer]) -> None:
        """Tries one request until all its outcomes are final, at another node each time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._plan.retry_s
        doubtful: set[int] = set()  # an earlier try may have been done: what refuses a later one says nothing of it
        while offers:
            node = self._nodes[next(self._turn) % len(self._nodes)]
            sent_mono_ms = self._history.now()[0]
            outcomes = await self._try(http, node, offers)
            final = loop.time() >= deadline
            again: list[Offer] = []
            for offer, outcome in zip(offers, outcomes, strict=True):
                if outcome.kind == "unknown":
                    doubtful.add(offer.number)
                if not final and (outcome.kind == "not-done" or (outcome.kind == "unknown" and offer.keyed)):
                    again.append(offer)
                else:
                    if outcome.kind != "acknowledged" and offer.number in doubtful:
                        outcome = replace(outcome, kind="unknown")
                    self._record(offer, node, outcome, sent_mono_ms)
            offers = again
            if offers:
                await asyncio.sleep(AGAIN_S)

    async def _try(self, http: aiohttp.ClientSession, node: LocalNode, offers: list[Offer]) -> list[Outcome]:
        payload = b"\n".join(msgspec.json.encode(offer.document()) for offer in offers)
        single = len(offers) == 1
        path, kind = ("", "application/json") if single else ("/batch", "application/x-ndjson")
        try:
            async with http.post(
                f"{node.url}/v1/messages{path}", data=payload, headers={"Content-Type": kind}
            ) as answer:
                lines = msgspec.json.Decoder(Line).decode_lines(await answer.read())
                status = answer.status
        except aiohttp.ClientConnectorError as error:
            return [Outcome("not-done", detail=str(error))] * len(offers)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as error:
            return [Outcome("unknown", detail=repr(error))] * len(offers)
        if status >= 300 and len(lines) == 1:
            return [lines[0].outcome()] * len(offers)
        if len(lines) != len(offers):
            return [Outcome("unknown", detail=f"{len(lines)} lines for {len(offers)} messages")] * len(offers)
        return [line.outcome() for line in lines]

    def _record(self, offer: Offer, node: LocalNode, outcome: Outcome, sent_mono_ms: float) -> None:
        mono_ms, wall_ms = self._history.now()
        kind: Literal["acknowledged", "refused", "unknown"] = "refused" if outcome.kind == "not-done" else outcome.kind
        self._history.record(
            Answered(
                mono_ms=mono_ms,
                wall_ms=wall_ms,
                number=offer.number,
                node=node.node_id,
                outcome=kind,
                sent_mono_ms=sent_mono_ms,
                message_id=outcome.message_id,
                due_ms=outcome.due_ms,
                detail=outcome.detail,
            )
        )
