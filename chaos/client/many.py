"""Asks for changes of many messages at once, by topic and window, now and then. Subclasses say which change it is, and
how its effect on single messages is found out.

One operation of an asker is under way at a time. After one whose outcome is unknown, its topic gets no other, because
that one may still take effect. What it did is asked for when all faults are healed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
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
    RequestAnswered,
)
from chaos.history.history import History

#: A question without an answer is repeated for this long.
ASKED_S: Final = 20.0
#: While an operation runs, up to so many of its members are changed by other requests, within MEANWHILE_S.
MEANWHILE: Final = 3
MEANWHILE_S: Final = 0.6
#: An operation that runs is asked for this often.
LOOK_S: Final = 0.1
#: This share of the operations is asked for at most BEFORE_MS before a full second. Many messages are due then.
AT_SECOND_SHARE: Final = 0.5
BEFORE_MS: Final = 40
HOUR_MS: Final = 3_600_000
Windows = tuple[tuple[tuple[int, int, int, int], int], ...]
"""Windows, as (earliest and latest begin from now, shortest and longest window), ms, and how often each is drawn."""
WINDOWS: Final[Windows] = (
    ((-500, 500, 200, 2_000), 3),
    ((500, 4_000, 2_000, 6_000), 3),
    ((20_000, 40_000, 2 * HOUR_MS, 40 * HOUR_MS), 3),
)

Change = Callable[[Answered], Coroutine[Any, Any, None]]
"""A request about one message."""
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
    """Draws operations on these topics and in one of `windows`, on average one in `every_s`. `in_flight` counts those
    whose messages are not all looked at. While a set stands, a few of its members get one of the requests of
    `meanwhile`, and all of them get `to_each`."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        super().__init__(caller, every_s)
        self._caller, self._history = caller, history
        self._topics = list(topics)
        self._topic_of: dict[int, str] = {}
        self._offered_ms: dict[int, float] = {}
        self._open: dict[int, Answered] = {}  # acknowledged, and not known to have ended
        self._under_way: list[Asked] = []
        self._looked_at: list[Asked] = []  # of which some messages were looked at, or all
        self._late: list[Asked] = []  # of unknown outcome, or with messages that could not be looked at
        self.windows = WINDOWS
        self.meanwhile: Sequence[Change] = ()
        self.to_each: Change | None = None
        history.listen(self._see)

    def finish(self) -> None:
        """Ask about the messages of operations whose outcome is not known. All faults are healed."""
        self.in_flight += 1
        self._runner.start(self._finish())

    @abstractmethod
    async def _ask(self, asked: Asked) -> Outcome[Many]:
        """Draw the rest of this operation, and ask for it."""

    @abstractmethod
    def _record(self, asked: Asked, answer: dict[str, Any]) -> None:
        """Record the answer, with these fields of its event."""

    @abstractmethod
    async def _look(self, asked: Asked, for_s: float) -> bool:
        """Find out what became of the messages. False if one of them could not be asked for."""

    def _see(self, event: Event) -> None:
        if isinstance(event, Offered):
            self._topic_of[event.number] = event.topic
            self._offered_ms[event.number] = event.mono_ms
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

    def _missed(self, message: Answered) -> list[Asked]:
        """The operations that may have changed a message before its client had the answer. They have looked at their
        messages already."""
        topic, offered_ms = self._topic_of.get(message.number), self._offered_ms.get(message.number, 0.0)
        return [each for each in self._looked_at if each.topic == topic and each.stamp["mono_ms"] >= offered_ms]

    async def _once(self) -> None:
        if not self._topics:
            return
        self.in_flight += 1
        topic = self._chance.choice(self._topics)
        if self._chance.random() < AT_SECOND_SHARE:
            before_ms = self._chance.randint(0, BEFORE_MS)
            await self._runner.sleep((1_000 - (self._history.now()[1] + before_ms) % 1_000) / 1_000)
        _, now_ms = self._history.now()
        early, late, short, long = self._chance.choices(*zip(*self.windows, strict=True))[0]
        from_ms = now_ms + self._chance.randint(early, late)
        asked = Asked(topic, range(from_ms, from_ms + self._chance.randint(short, long)), now_ms)
        asked.candidates = {number for number in self._open if self._topic_of.get(number) == topic}
        self._under_way.append(asked)
        asked_mono_ms = self._history.now()[0]
        outcome = await self._ask(asked)
        asked.stamp, asked.sure = self._history.stamp(), outcome.kind == "ok"
        self._called("operation", asked, asked_mono_ms)
        kind: Begun = "begun" if outcome.kind == "ok" else outcome.kind
        answer: dict[str, Any] = {"outcome": kind, "detail": outcome.code}
        ended = None
        if outcome.value is not None:
            answer["operation"] = outcome.value.name
            if not outcome.value.ended:
                self._change_members(asked)
                await self._hold(asked, outcome.value.name)
            ended = await self._ended(outcome.value.name)
            self._called("running", asked, asked.stamp["mono_ms"])
        if ended is not None:
            answer |= {"changed": ended.changed, "leased": ended.leased}
        self._record(asked, answer)
        if kind == "unknown" or (kind == "begun" and not (ended and await self._look(asked, ASKED_S))):
            self._topics.remove(topic)
            self._late.append(asked)
        self._under_way.remove(asked)
        self.in_flight -= 1
        self._next()

    def _change_members(self, asked: Asked) -> None:
        members = [self._open[number] for number in sorted(asked.candidates & self._open.keys())]
        members = [member for member in members if member.due_ms in asked.window]
        few = self._chance.sample(members, min(MEANWHILE, len(members)) if self.meanwhile else 0)
        changes = [(self._chance.choice(self.meanwhile), member) for member in few]
        changes += [(self.to_each, member) for member in members if self.to_each is not None]
        for change, member in changes:
            self._runner.after(MEANWHILE_S * self._chance.random(), change, member)

    def _called(self, kind: Literal["operation", "running"], asked: Asked, asked_mono_ms: float) -> None:
        name = operation_name(asked.kind, asked.window.start, asked.window.stop)
        self._history.record(
            RequestAnswered(**self._history.stamp(), kind=kind, name=name, asked_mono_ms=asked_mono_ms)
        )

    async def _ended(self, name: str) -> Many | None:
        """An operation at its end. None if nobody says so in time."""
        deadline_s = self._runner.now_s() + ASKED_S
        while self._runner.now_s() < deadline_s:
            outcome = await self._caller.insist(lambda client: client.operation(name), for_s=ASKED_S, again=True)
            if outcome.value is not None and outcome.value.ended:
                return outcome.value
            await self._runner.sleep(LOOK_S)
        return None

    async def _hold(self, asked: Asked, name: str) -> None:
        """Let an operation that has begun stand for a while, or not."""

    async def _finish(self) -> None:
        for asked in self._late:
            asked.sure &= bool(asked.looked)
            await self._look(asked, ASKED_S)
        self.in_flight -= 1


def operation_name(kind: str, from_ms: int | None, to_ms: int | None) -> str:
    """A name for an operation by what its client asked for. The bounds of the windows are drawn, so it is the only
    one."""
    return f"{kind} {from_ms} {to_ms}"
