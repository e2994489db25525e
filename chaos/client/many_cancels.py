"""Cancels many messages at once, by topic and window, now and then. Then it asks which are cancelled by that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from chaos.client.caller import Caller
from chaos.client.client import Account, Client, Many, View
from chaos.client.many import ASKED_S, Asked, ManyOperations
from chaos.client.outcome import Outcome
from chaos.history.event import Answered, Cancelled, Event, Gone, HandedOver, ManyCancelled, Rescheduled
from chaos.history.history import History


class ManyCancels(ManyOperations):
    """See ManyOperations."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        self._asked: list[Asked] = []  # all that may have taken effect
        self._touched: set[int] = set()  # handed over or moved
        self._cancelled_ms: dict[int, int] = {}  # when a cancel of the message alone was answered
        super().__init__(caller, history, topics, every_s)

    def _see(self, event: Event) -> None:
        super()._see(event)
        if isinstance(event, HandedOver | Rescheduled):
            self._touched.add(event.number)
        elif isinstance(event, Cancelled) and event.outcome == "cancelled":
            self._cancelled_ms.setdefault(event.number, event.wall_ms)
        elif isinstance(event, Answered) and event.outcome == "acknowledged":
            self._look_later(event)

    def _look_later(self, message: Answered) -> None:
        """Look at a message that an operation may have cancelled before its client had the answer (seed 1261)."""
        missed = self._missed(message)
        if missed:
            self.in_flight += 1
            self._runner.start(self._look_at_late(message, missed[-1]))

    async def _look_at_late(self, message: Answered, asked: Asked) -> None:
        await self._look_at(message, asked, ASKED_S)
        self.in_flight -= 1

    async def _ask(self, asked: Asked) -> Outcome[Many]:
        return await self._caller.any().change_many("cancel", asked.topic, asked.window, None, None)

    def _record(self, asked: Asked, answer: dict[str, Any]) -> None:
        if answer["outcome"] != "refused":
            self._asked.append(asked)
        self._history.record(
            ManyCancelled(
                **asked.stamp, topic=asked.topic, from_ms=asked.window.start, to_ms=asked.window.stop,
                asked_wall_ms=asked.asked_wall_ms, **answer,
            )
        )  # fmt: skip

    async def _look(self, asked: Asked, for_s: float) -> bool:
        """Ask for each open message of the topic if it is cancelled. False if one of them could not be asked for."""
        whole = True
        self._looked_at.append(asked)
        for _, message in sorted(self._open.items()):
            whole &= await self._look_at(message, asked, for_s)
        return whole

    async def _look_at(self, message: Answered, asked: Asked, for_s: float) -> bool:
        number, name = message.number, message.message_id
        before = self._cancelled_ms.get(number, asked.asked_wall_ms) < asked.asked_wall_ms
        if before or self._topic_of.get(number) != asked.topic or number in asked.looked:
            return True
        outcome = await self._caller.insist(partial(look_at, name), for_s=for_s, again=True)
        forgotten = outcome.code == "unknown-message" and self._may_match(message, asked)
        if outcome.value is None and not forgotten:
            return False
        asked.looked.add(number)
        state, attempts = "cancelled", 0
        if outcome.value is not None:
            state, attempts = outcome.value[0].state, outcome.value[0].attempt
        if state == "cancelled" and number in self._open:
            missed = self._not_looked_at(number, asked)
            asked_ms = min([asked.asked_wall_ms, *(each.asked_wall_ms for each in missed)])
            self._history.record(
                Gone(
                    **asked.stamp, number=number, message_id=name, asked_wall_ms=asked_ms,
                    attempts_made=attempts, sure=asked.sure and not missed and not forgotten,
                )
            )  # fmt: skip
        return True

    def _may_match(self, message: Answered, asked: Asked) -> bool:
        """True if the message may have been of the set. One that was handed over or moved may be due at any time."""
        return message.due_ms in asked.window or message.number in self._touched

    def _not_looked_at(self, number: int, asked: Asked) -> list[Asked]:
        """Earlier operations on the topic of a message that may have cancelled it, and did not look at it. The message
        had been sent then, and not been acknowledged yet."""
        return [
            each
            for each in self._asked
            if each is not asked
            and each.topic == asked.topic
            and number not in each.looked
            and each.stamp["mono_ms"] >= self._offered_ms[number]
        ]


async def look_at(name: str, client: Client) -> Outcome[tuple[View, Account | None]]:
    """GET a message."""
    return await client.look(name, ledger=False)
