"""Asks for changes of many messages at once, by topic and window, now and then. Subclasses say which change it is, and
how its effect on single messages is found out.

One operation of an asker is under way at a time. After one whose outcome is unknown, its topic gets no other, because
that one may still take effect. What it did is asked for when all faults are healed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from chaos.client.caller import Caller
from chaos.client.client import Client, Many
from chaos.client.outcome import Outcome
from chaos.client.repeated import Repeated
from chaos.history.event import (
    Acked,
    Answered,
    DeadLettered,
    Event,
    Gone,
    HandedOver,
    Offered,
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

Begun = Literal["begun", "refused", "unknown"]


@dataclass
class Asked:
    """An operation: its topic and window, when it was asked for, its answer's time as an event has it, and if it was
    begun. `kind` and `by_ms` are those of a move. `looked`: the messages whose fate is recorded. `candidates`: those of
    its topic that were open when it was asked for, or came before its end was seen."""

    topic: str
    window: range
    asked_wall_ms: int
    kind: str = "cancel"
    by_ms: int = 0
    stamp: dict[str, Any] = field(default_factory=dict)
    sure: bool = False
    looked: set[int] = field(default_factory=set)
    candidates: set[int] = field(default_factory=set)


class ManyOperations(Repeated):
    """Draws operations on these topics, on average one in `every_s`. `in_flight` counts those whose messages are not
    all looked at."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        super().__init__(caller, every_s)
        self.in_flight = 0
        self._caller, self._history = caller, history
        self._topics = list(topics)
        self._topic_of: dict[int, str] = {}
        self._open: dict[int, Answered] = {}  # acknowledged, and not known to have ended
        self._under_way: list[Asked] = []
        self._late: list[Asked] = []  # of unknown outcome, or with messages that could not be looked at
        history.listen(self._see)

    def finish(self) -> None:
        """Ask about the messages of operations whose outcome is not known. All faults are healed."""
        self.in_flight += 1
        self._runner.start(self._finish())

    @abstractmethod
    async def _ask(self, asked: Asked) -> Outcome[Many]:
        """Draw the rest of this operation, and ask for it."""

    @abstractmethod
    def _record(self, asked: Asked, outcome: Begun, name: str, changed: int) -> None:
        """Record the answer. `changed` is -1 if its end was not seen."""

    @abstractmethod
    async def _look(self, asked: Asked, for_s: float) -> bool:
        """Find out what became of the messages. False if one of them could not be asked for."""

    def _see(self, event: Event) -> None:
        if isinstance(event, Offered):
            self._topic_of[event.number] = event.topic
        elif isinstance(event, Answered) and event.outcome == "acknowledged":
            self._open[event.number] = event
            for asked in (*self._under_way, *self._late):
                if self._topic_of.get(event.number) == asked.topic:
                    asked.candidates.add(event.number)
        elif (
            (isinstance(event, Acked) and event.result == "acked")
            or (isinstance(event, HandedOver) and event.pushed and event.taken)
            or isinstance(event, DeadLettered | Gone)
        ):
            self._open.pop(event.number, None)

    async def _once(self) -> None:
        if not self._topics:
            return
        self.in_flight += 1
        topic = self._chance.choice(self._topics)
        if self._chance.random() < AT_SECOND_SHARE:
            before_ms = self._chance.randint(0, BEFORE_MS)
            await self._runner.sleep((1_000 - (self._history.now()[1] + before_ms) % 1_000) / 1_000)
        _, now_ms = self._history.now()
        early, late, short, long = self._chance.choices([window for window, _ in WINDOWS], [w for _, w in WINDOWS])[0]
        from_ms = now_ms + self._chance.randint(early, late)
        asked = Asked(topic, range(from_ms, from_ms + self._chance.randint(short, long)), now_ms)
        asked.candidates = {number for number in self._open if self._topic_of.get(number) == topic}
        self._under_way.append(asked)
        outcome = await self._ask(asked)
        asked.stamp, asked.sure = self._history.stamp(), outcome.kind == "ok"
        name = "" if outcome.value is None else outcome.value.name
        kind: Begun = "begun" if outcome.kind == "ok" else outcome.kind
        changed = -1 if not name else await self._ended(name)
        self._record(asked, kind, name, changed)
        if kind == "unknown" or (kind == "begun" and not (changed >= 0 and await self._look(asked, ASKED_S))):
            self._topics.remove(topic)
            self._late.append(asked)
        self._under_way.remove(asked)
        self.in_flight -= 1
        self._next()

    async def _ended(self, name: str) -> int:
        """How many messages an operation has changed in the end, -1 if nobody says so in time."""
        deadline_s = self._runner.now_s() + ASKED_S
        while self._runner.now_s() < deadline_s:
            outcome = await self._caller.insist(lambda client: client.operation(name), for_s=ASKED_S, again=True)
            if outcome.value is not None and outcome.value.ended:
                return outcome.value.changed
            await self._runner.sleep(LOOK_S)
        return -1

    async def _finish(self) -> None:
        for asked in self._late:
            asked.sure &= bool(asked.looked)
            await self._look(asked, ASKED_S)
        self.in_flight -= 1
