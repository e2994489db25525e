"""Consumers: one TCP connection each, a long poll on it, acks gathered beside the polls.

A consumer stays with its node whatever happens to it: polls pinned to a leader that is paused or killed are what the
promises about terms are about. An ack that got no answer is sent again to the next node, as the contract allows (the
receipt that settled a message answers `acked` again).
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import aiohttp
import msgspec

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Acked, HandedOver
from chaos.history.history import History
from chaos.plan.load_plan import Plan

ACK_MAX = 1_000
ACK_TRIES = 40
AGAIN_S = 0.05


class Pulled(msgspec.Struct, gc=False):
    """A message as pulled; the body is the offer's number."""

    id: str
    receipt: str
    term: int
    attempt: int
    due: datetime
    asked_due: datetime
    handed_over: datetime
    leased_until: datetime
    body: int


class PullAnswer(msgspec.Struct):
    """The answer to a pull."""

    messages: list[Pulled]


class AckResult(msgspec.Struct):
    """One result of an ack."""

    receipt: str
    result: str


class AckAnswer(msgspec.Struct):
    """The answer to an ack."""

    results: list[AckResult]


_PULL = msgspec.json.Decoder(PullAnswer)
_ACK = msgspec.json.Decoder(AckAnswer)


def to_ms(moment: datetime) -> int:
    """Unix milliseconds, exact: the contract gives whole ones."""
    return round(moment.timestamp() * 1000)


class Consumer:
    """Polls `node` over one connection; `took` is told of every message."""

    def __init__(
        self, name: str, node: LocalNode, plan: Plan, history: History, took: Callable[[Pulled], None]
    ) -> None:
        self._name, self._node, self._plan, self._history, self._took = name, node, plan, history, took
        self._responses = 0

    async def run(self) -> None:
        """Until cancelled."""
        plan = self._plan
        request = {"max": plan.pull_max, "wait": plan.wait_ms, "lease": plan.lease_ms}
        url = f"{self._node.url}/v1/topics/{plan.topic}/pull"
        timeout = aiohttp.ClientTimeout(total=plan.request_s + plan.wait_ms / 1000)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=1)) as http:
            while True:
                try:
                    async with http.post(url, json=request) as answer:
                        payload = await answer.read()
                except (aiohttp.ClientError, TimeoutError):
                    await asyncio.sleep(AGAIN_S)
                    continue
                if answer.status == 200:
                    self._receive(_PULL.decode(payload).messages)
                else:
                    await asyncio.sleep(AGAIN_S)

    def _receive(self, messages: list[Pulled]) -> None:
        mono_ms, wall_ms = self._history.now()
        self._responses += 1
        for message in messages:
            self._history.record(
                HandedOver(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=message.body,
                    message_id=message.id,
                    term=message.term,
                    attempt=message.attempt,
                    due_ms=to_ms(message.due),
                    asked_due_ms=to_ms(message.asked_due),
                    handed_over_ms=to_ms(message.handed_over),
                    leased_until_ms=to_ms(message.leased_until),
                    node=self._node.node_id,
                    connection=self._name,
                    response=self._responses,
                )
            )
            self._took(message)


class Acker:
    """Acks what the consumers of one node received, gathering what waits; asks the next node when one is silent."""

    def __init__(self, nodes: Sequence[LocalNode], first: int, plan: Plan, history: History) -> None:
        self._nodes, self._turn, self._plan, self._history = list(nodes), first, plan, history
        self.queue: asyncio.Queue[Pulled] = asyncio.Queue()

    async def run(self) -> None:
        """Until cancelled."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._plan.request_s)) as http:
            while True:
                messages = [await self.queue.get()]
                while len(messages) < ACK_MAX and not self.queue.empty():
                    messages.append(self.queue.get_nowait())
                await self._ack(http, messages)
                for _ in messages:
                    self.queue.task_done()

    async def _ack(self, http: aiohttp.ClientSession, messages: list[Pulled]) -> None:
        results: list[AckResult] = []
        asked_wall_ms = self._history.now()[1]
        for _ in range(ACK_TRIES):
            url = f"{self._nodes[self._turn % len(self._nodes)].url}/v1/topics/{self._plan.topic}/ack"
            try:
                async with http.post(url, json={"receipts": [message.receipt for message in messages]}) as answer:
                    payload = await answer.read()
                if answer.status == 200:
                    results = _ACK.decode(payload).results
                    break
            except (aiohttp.ClientError, TimeoutError):
                pass
            self._turn += 1
            await asyncio.sleep(AGAIN_S)
        said = {result.receipt: result.result for result in results}
        mono_ms, wall_ms = self._history.now()
        for message in messages:
            self._history.record(
                Acked(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    number=message.body,
                    message_id=message.id,
                    term=message.term,
                    attempt=message.attempt,
                    result=said.get(message.receipt, "unknown"),
                    asked_wall_ms=asked_wall_ms,
                )
            )
