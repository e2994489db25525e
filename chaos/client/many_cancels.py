"""Cancels many messages at once, by topic and window, now and then. Then it asks which messages are cancelled by that.

One operation is under way at a time. After one whose outcome is unknown, its topic gets no other, because that one may
still take effect. What it did is asked for when all faults are healed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from chaos.client.caller import Caller
from chaos.client.client import Account, Client, View
from chaos.client.outcome import Outcome
from chaos.history.event import (
    Acked,
    Answered,
    Cancelled,
    DeadLettered,
    Event,
    Gone,
    HandedOver,
    ManyCancelled,
    Offered,
    Rescheduled,
)
from chaos.history.history import History

#: A question without an answer is repeated for this long.
ASKED_S: Final = 20.0
#: An operation that runs is asked for this often.
LOOK_S: Final = 0.1
#: This share of the operations is asked for at most BEFORE_MS before a full second. Many messages are due then.
AT_SECOND_SHARE: Final = 0.5
BEFORE_MS: Final = 40
HOUR_MS: Final = 3_600_000
#: Windows, as (earliest and latest begin from now, shortest and longest window), ms, and how often each is drawn.
WINDOWS: Final = (
    ((-500, 500, 200, 2_000), 3),
    ((500, 4_000, 2_000, 6_000), 3),
    ((20_000, 40_000, 2 * HOUR_MS, 40 * HOUR_MS), 3),
)


@dataclass
class _Asked:
    """An operation: its topic and window, when it was asked for, its answer's time as an event has it, and if it was
    begun."""

    topic: str
    window: range
    asked_wall_ms: int
    stamp: dict[str, Any]
    sure: bool
    looked: set[int] = field(default_factory=set)


class ManyCancels:
    """Draws operations on these topics, on average one in `every_s`. `in_flight` counts those whose messages are not
    all looked at."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        self.in_flight = 0
        self._caller, self._history, self._every_s = caller, history, every_s
        self._topics = list(topics)
        self._runner, self._chance = caller.runner, caller.chance
        self._over = True
        self._topic_of: dict[int, str] = {}
        self._open: dict[int, Answered] = {}  # acknowledged, and not known to have ended
        self._asked: list[_Asked] = []  # all that may have taken effect
        self._offered_ms: dict[int, float] = {}
        self._touched: set[int] = set()  # handed over or moved
        self._cancelled_ms: dict[int, int] = {}  # when a cancel of the message alone was answered
        self._late: list[_Asked] = []  # of unknown outcome, or with messages that could not be looked at
        history.listen(self._see)

    def begin(self) -> None:
        """Begin to ask."""
        self._over = False
        self._next()

    def end(self) -> None:
        """Ask for no further operation."""
        self._over = True

    def finish(self) -> None:
        """Ask about the messages of operations whose outcome is not known. All faults are healed."""
        self.in_flight += 1
        self._runner.start(self._finish())

    def _see(self, event: Event) -> None:
        if isinstance(event, HandedOver | Rescheduled):
            self._touched.add(event.number)
        if isinstance(event, Offered):
            self._topic_of[event.number], self._offered_ms[event.number] = event.topic, event.mono_ms
        elif isinstance(event, Answered) and event.outcome == "acknowledged":
            self._open[event.number] = event
        elif (
            (isinstance(event, Acked) and event.result == "acked")
            or (isinstance(event, HandedOver) and event.pushed and event.taken)
            or isinstance(event, DeadLettered | Gone)
        ):
            self._open.pop(event.number, None)
        elif isinstance(event, Cancelled) and event.outcome == "cancelled":
            self._cancelled_ms.setdefault(event.number, event.wall_ms)

    def _next(self) -> None:
        if not self._over:
            self._runner.after(self._chance.expovariate(1 / self._every_s), self._one)

    async def _one(self) -> None:
        if self._over or not self._topics:
            return
        self.in_flight += 1
        topic = self._chance.choice(self._topics)
        if self._chance.random() < AT_SECOND_SHARE:
            before_ms = self._chance.randint(0, BEFORE_MS)
            await self._runner.sleep((1_000 - (self._history.now()[1] + before_ms) % 1_000) / 1_000)
        _, now_ms = self._history.now()
        early, late, short, long = self._chance.choices([window for window, _ in WINDOWS], [w for _, w in WINDOWS])[0]
        from_ms = now_ms + self._chance.randint(early, late)
        to_ms = from_ms + self._chance.randint(short, long)
        outcome = await self._caller.any().cancel_many(topic, from_ms, to_ms)
        asked = _Asked(topic, range(from_ms, to_ms), now_ms, self._history.stamp(), outcome.kind == "ok")
        name = "" if outcome.value is None else outcome.value.name
        kind: Literal["begun", "refused", "unknown"] = "begun" if outcome.kind == "ok" else outcome.kind
        if kind != "refused":
            self._asked.append(asked)
        changed = -1 if not name else await self._ended(name)
        self._history.record(
            ManyCancelled(
                **asked.stamp, topic=topic, from_ms=from_ms, to_ms=to_ms, asked_wall_ms=now_ms, outcome=kind,
                operation=name, changed=changed,
            )
        )  # fmt: skip
        if kind == "unknown" or (kind == "begun" and not (changed >= 0 and await self._look(asked, ASKED_S))):
            self._topics.remove(topic)
            self._late.append(asked)
        self.in_flight -= 1
        self._next()

    async def _ended(self, name: str) -> int:
        """How many messages an operation has cancelled in the end, -1 if nobody says so in time."""
        deadline_s = self._runner.now_s() + ASKED_S
        while self._runner.now_s() < deadline_s:
            outcome = await self._caller.insist(lambda client: client.operation(name), for_s=ASKED_S, again=True)
            if outcome.value is not None and outcome.value.ended:
                return outcome.value.changed
            await self._runner.sleep(LOOK_S)
        return -1

    async def _look(self, asked: _Asked, for_s: float) -> bool:
        """Ask for each open message of the topic if it is cancelled. False if one of them could not be asked for."""
        whole = True
        for number, message in sorted(self._open.items()):
            before = self._cancelled_ms.get(number, asked.asked_wall_ms) < asked.asked_wall_ms
            if before or self._topic_of.get(number) != asked.topic or number in asked.looked:
                continue
            name = message.message_id
            outcome = await self._caller.insist(partial(_look_at, name), for_s=for_s, again=True)
            forgotten = outcome.code == "unknown-message" and self._may_match(message, asked)
            if outcome.value is None and not forgotten:
                whole = False
                continue
            asked.looked.add(number)
            state, attempts = "cancelled", 0
            if outcome.value is not None:
                state, attempts = outcome.value[0].state, outcome.value[0].attempt
            if state == "cancelled" and number in self._open:
                missed = self._missed(number, asked)
                asked_ms = min([asked.asked_wall_ms, *(each.asked_wall_ms for each in missed)])
                self._history.record(
                    Gone(
                        **asked.stamp, number=number, message_id=name, asked_wall_ms=asked_ms,
                        attempts_made=attempts, sure=asked.sure and not missed and not forgotten,
                    )
                )  # fmt: skip
        return whole

    def _may_match(self, message: Answered, asked: _Asked) -> bool:
        """True if the message may have been of the set. One that was handed over or moved may be due at any time."""
        return message.due_ms in asked.window or message.number in self._touched

    def _missed(self, number: int, asked: _Asked) -> list[_Asked]:
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

    async def _finish(self) -> None:
        for asked in self._late:
            asked.sure &= bool(asked.looked)
            await self._look(asked, ASKED_S)
        self.in_flight -= 1


async def _look_at(name: str, client: Client) -> Outcome[tuple[View, Account | None]]:
    return await client.look(name, ledger=False)
