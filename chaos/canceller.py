"""Cancels a share of the acknowledged messages around their due time, where the truth of the answer is hardest."""

import asyncio
from collections.abc import Sequence
from typing import Literal

import aiohttp
import msgspec
import numpy as np

from chaos.event import Answered, Cancelled, Event
from chaos.history import History
from chaos.plan import Plan
from cli.local_cluster import LocalNode

AROUND_MS = 50
NOT_DONE = 503


class CancelAnswer(msgspec.Struct):
    """A 200 of a cancel."""

    prior: str
    attempts_made: int


class Canceller:
    """Listens to the history for acknowledgements and cancels some of them."""

    def __init__(self, nodes: Sequence[LocalNode], plan: Plan, history: History) -> None:
        self._nodes, self._plan, self._history = list(nodes), plan, history
        self._random = np.random.default_rng(plan.seed + 1)
        self._chosen: asyncio.Queue[Answered] = asyncio.Queue()
        history.listen(self._choose)

    def _choose(self, event: Event) -> None:
        if (
            isinstance(event, Answered)
            and event.outcome == "acknowledged"
            and self._random.random() < self._plan.cancel_share
        ):
            self._chosen.put_nowait(event)

    async def run(self) -> None:
        """Until cancelled; then the cancels under way are given up, their outcome unknown and not recorded as anything
        else.
        """
        timeout = aiohttp.ClientTimeout(total=self._plan.request_s)
        async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._cancel(http, await self._chosen.get()))

    async def _cancel(self, http: aiohttp.ClientSession, message: Answered) -> None:
        at_ms = message.due_ms + int(self._random.integers(-AROUND_MS, AROUND_MS, endpoint=True))
        await asyncio.sleep(max(0.0, (at_ms - self._history.now()[1]) / 1000))
        asked_wall_ms = self._history.now()[1]
        outcome: Literal["cancelled", "refused", "unknown"] = "unknown"
        told, detail = CancelAnswer("", 0), ""
        node = self._nodes[int(self._random.integers(len(self._nodes)))]
        try:
            async with http.delete(f"{node.url}/v1/messages/{message.message_id}") as answer:
                payload = await answer.read()
            if answer.status == 200:
                outcome, told = "cancelled", msgspec.json.decode(payload, type=CancelAnswer)
            else:
                detail = f"HTTP {answer.status}: {payload[:200].decode('utf-8', 'replace')}"
            if 400 <= answer.status < 500 or answer.status == NOT_DONE:
                outcome = "refused"
        except (aiohttp.ClientError, TimeoutError) as error:
            detail = repr(error)
        mono_ms, wall_ms = self._history.now()
        self._history.record(
            Cancelled(
                mono_ms=mono_ms,
                wall_ms=wall_ms,
                number=message.number,
                message_id=message.message_id,
                outcome=outcome,
                asked_wall_ms=asked_wall_ms,
                prior=told.prior,
                attempts_made=told.attempts_made,
                node=node.node_id,
                detail=detail,
            )
        )
