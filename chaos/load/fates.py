"""What a consumer does with a message it took: mostly it acks at once; some are acked twice, late or never, given back,
or kept longer.

These are the ways in which honest consumers are slow, careless or gone; each has its promise (a message given back or
forgotten comes again, an ack that comes too late is refused or harmless).
"""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final, Literal

import aiohttp
import msgspec
import numpy as np

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Extended, GaveBack
from chaos.history.history import History
from chaos.load.consumer import AckAnswer, Pulled, to_ms
from chaos.plan.load_plan import Plan

Word = Literal["twice", "late", "forget", "nack", "extend", "ack"]

#: An ack is late by so much after the lease, a second one comes so much after the first.
LATE_S: Final = 0.4
TWICE_S: Final = 0.2
GATHER_S: Final = 0.02
_ANSWER: Final = msgspec.json.Decoder(AckAnswer)


class Fates:
    """Of the messages that the consumers of one node take; what is to be acked goes to `acks`."""

    def __init__(
        self, nodes: Sequence[LocalNode], first: int, plan: Plan, history: History, acks: "asyncio.Queue[Pulled]"
    ) -> None:
        self._nodes = itertools.cycle([*nodes[first:], *nodes[:first]])
        self._plan, self._history, self._acks = plan, history, acks
        self._random = np.random.default_rng((plan.seed, first, 3))
        shares = (plan.twice_share, plan.late_share, plan.forget_share, plan.nack_share, plan.extend_share)
        self._bounds = np.cumsum(shares)
        self._waiting: dict[Word, list[Pulled]] = {"nack": [], "extend": []}
        self._more = asyncio.Event()

    def decide(self, message: Pulled) -> None:
        """Draws what becomes of a message, and sees to it."""
        words: tuple[Word, ...] = ("twice", "late", "forget", "nack", "extend", "ack")
        word = words[int(np.searchsorted(self._bounds, self._random.random(), "right"))]
        loop = asyncio.get_running_loop()
        match word:
            case "ack":
                self._acks.put_nowait(message)
            case "twice":
                self._acks.put_nowait(message)
                loop.call_later(TWICE_S, self._acks.put_nowait, message)
            case "late":
                left_s = (to_ms(message.leased_until) - self._history.now()[1]) / 1000
                loop.call_later(max(left_s, 0) + LATE_S, self._acks.put_nowait, message)
            case "forget":
                return
            case _:
                self._waiting[word].append(message)
                self._more.set()

    async def run(self) -> None:
        """Gives back and extends, until cancelled; what was extended is acked afterwards."""
        timeout = aiohttp.ClientTimeout(total=self._plan.request_s)
        async with aiohttp.ClientSession(timeout=timeout) as http, asyncio.TaskGroup() as asking:
            while True:
                await self._more.wait()
                await asyncio.sleep(GATHER_S)
                self._more.clear()
                for word in self._waiting:
                    messages, self._waiting[word] = self._waiting[word], []
                    if messages:
                        asking.create_task(self._ask(http, word, messages))

    async def _ask(self, http: aiohttp.ClientSession, word: Word, messages: list[Pulled]) -> None:
        """One request, whose outcome may stay unknown."""
        asked_wall_ms = self._history.now()[1]
        more = {"delay": self._plan.nack_delay_ms} if word == "nack" else {"lease": self._plan.lease_ms}
        said: dict[str, str] = {}
        try:
            url = f"{next(self._nodes).url}/v1/topics/{self._plan.topic}/{word}"
            async with http.post(url, json={"receipts": [each.receipt for each in messages], **more}) as answer:
                payload = await answer.read()
            if answer.status == 200:
                said = {each.receipt: each.result for each in _ANSWER.decode(payload).results}
        except (aiohttp.ClientError, TimeoutError):
            pass
        for message in messages:
            self._record(word, message, said.get(message.receipt, "unknown"), asked_wall_ms)
            if word == "extend":
                self._acks.put_nowait(message)

    def _record(self, word: Word, message: Pulled, result: str, asked_wall_ms: int) -> None:
        mono_ms, wall_ms = self._history.now()
        event = GaveBack(
            mono_ms=mono_ms,
            wall_ms=wall_ms,
            number=message.body,
            message_id=message.id,
            term=message.term,
            attempt=message.attempt,
            result=result,
            asked_wall_ms=asked_wall_ms,
        )
        if word == "nack":
            self._history.record(event)
        else:
            self._history.record(Extended(**msgspec.structs.asdict(event), lease_ms=self._plan.lease_ms))
