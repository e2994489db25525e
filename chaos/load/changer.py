"""Cancels and reschedules a share of the acknowledged messages around their due time, where the truth of the answer is
hardest, and looks at some of them afterwards.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import aiohttp
import msgspec
import numpy as np

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Answered, Cancelled, Event, Rescheduled
from chaos.history.history import History
from chaos.load.account import look
from chaos.plan.load_plan import Plan

AROUND_MS = 50
LEAD_STEP_MS = 5
LEAD_MAX_MS = 5_000
NOT_DONE = 503
GONE_OUT = 409  # `leased`, or `already-settled`: without If-Match there is no other
LOOKED = 4  # one of so many


class CancelAnswer(msgspec.Struct):
    """A 200 of a cancel."""

    prior: str
    attempts_made: int


class Racer:
    """Listens to the history for acknowledgements; races each message's due time with at most one command.

    It aims earlier after each that came too late, and later after each that was in time. So about half of them are in
    time on a machine of any speed, and the rest are close. What was refused for another reason, such as a node that is
    busy, says nothing of the time.
    """

    def __init__(self, nodes: Sequence[LocalNode], plan: Plan, history: History) -> None:
        self._nodes, self._plan, self._history = list(nodes), plan, history
        self._random = np.random.default_rng(plan.seed + 1)
        self._lead_ms = 0
        self._chosen: asyncio.Queue[tuple[Answered, bool]] = asyncio.Queue()
        history.listen(self._choose)

    def _choose(self, event: Event) -> None:
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            drawn = self._random.random()
            if drawn < self._plan.cancel_share + self._plan.reschedule_share:
                self._chosen.put_nowait((event, drawn < self._plan.cancel_share))

    async def run(self) -> None:
        """Until cancelled; then the commands under way are given up, their outcome unknown and not recorded as anything
        else.
        """
        timeout = aiohttp.ClientTimeout(total=self._plan.request_s)
        async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as tasks:
            while True:
                message, cancels = await self._chosen.get()
                tasks.create_task(self._race(http, message, cancels))

    async def _race(self, http: aiohttp.ClientSession, message: Answered, cancels: bool) -> None:
        around_ms = int(self._random.integers(-AROUND_MS, AROUND_MS, endpoint=True))
        at_ms = message.due_ms - self._lead_ms + around_ms
        await asyncio.sleep(max(0.0, (at_ms - self._history.now()[1]) / 1000))
        asked_wall_ms = self._history.now()[1]
        node = self._nodes[int(self._random.integers(len(self._nodes)))]
        url = f"{node.url}/v1/messages/{message.message_id}"
        due_ms = message.due_ms + self._plan.reschedule_ms
        answer = await (ask(http, "DELETE", url) if cancels else ask(http, "PATCH", url, {"deliver_at": due_ms}))
        self._aim(answer)
        mono_ms, wall_ms = self._history.now()
        common: dict[str, Any] = {
            "mono_ms": mono_ms,
            "wall_ms": wall_ms,
            "number": message.number,
            "message_id": message.message_id,
            "asked_wall_ms": asked_wall_ms,
            "detail": answer.detail,
        }
        if cancels:
            told = CancelAnswer("", 0) if answer.kind != "done" else msgspec.convert(answer.document, CancelAnswer)
            event: Event = Cancelled(
                **common,
                outcome="cancelled" if answer.kind == "done" else answer.kind,
                prior=told.prior,
                attempts_made=told.attempts_made,
                node=node.node_id,
            )
        else:
            event = Rescheduled(**common, outcome="moved" if answer.kind == "done" else answer.kind, due_ms=due_ms)
        self._history.record(event)
        if message.number % LOOKED == 0:
            await look(http, node, message, self._history)

    def _aim(self, answer: "CommandAnswer") -> None:
        step_ms = LEAD_STEP_MS if answer.late else -LEAD_STEP_MS if answer.kind == "done" else 0
        self._lead_ms = min(max(0, self._lead_ms + step_ms), LEAD_MAX_MS)


class CommandAnswer(msgspec.Struct):
    """What became of a command: `refused` did nothing, `unknown` may have done it. `late`: the message had gone out."""

    kind: Literal["done", "refused", "unknown"]
    document: dict[str, Any]
    detail: str
    late: bool = False


async def ask(
    http: aiohttp.ClientSession, method: str, url: str, document: dict[str, object] | None = None
) -> CommandAnswer:
    """Sends a command once."""
    try:
        async with http.request(method, url, json=document) as answer:
            payload = await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        return CommandAnswer("unknown", {}, repr(error))
    if answer.status == 200:
        return CommandAnswer("done", msgspec.json.decode(payload), "")
    detail = f"HTTP {answer.status}: {payload[:200].decode('utf-8', 'replace')}"
    refused = 400 <= answer.status < 500 or answer.status == NOT_DONE
    return CommandAnswer("refused" if refused else "unknown", {}, detail, answer.status == GONE_OUT)
