"""Clients that schedule messages under few keys, each of which replaces the holder of its key or extends it. Some are
sent for several keys at once, as an atomic batch.

Their messages have numbers of their own, and the other clients, consumers and checkers deal with them as with any. A
holder that was replaced counts as cancelled, one that was extended as rescheduled. If the outcome of a wish is unknown,
that may hold for every message that may have had the key. No further wish is made under that key. `Wished` has each
answer as it came, for chaos/check/message/keys.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from chaos.client.caller import Caller
from chaos.client.client import Client, Wish, WishAnswer
from chaos.client.outcome import Outcome
from chaos.client.repeated import Repeated
from chaos.history.event import (
    Acked,
    Answered,
    BatchAnswered,
    Cancelled,
    DeadLettered,
    Event,
    HandedOver,
    Offered,
    RequestAnswered,
    Rescheduled,
    Wished,
)
from chaos.history.history import History

#: The numbers of these messages begin here.
FIRST_NUMBER: Final = 1 << 24
#: The average time between two wishes, and how many come at once for one key at most.
EVERY_S: Final = 0.5
AT_ONCE: Final = 3
KEYS: Final = 5
EXTEND_SHARE: Final = 0.5
#: So many wishes are an atomic batch of several, each for another key.
WHOLE_SHARE: Final = 0.25
WHOLE: Final = (2, 4)
#: A message is due so soon, and an extended one at most so long after its creation (ms).
SOON_MS: Final = (1, 3_000)
MAX_WAIT_MS: Final = 4_000

Name = tuple[str, str]
"""Topic and key."""


class _Asked(NamedTuple):
    """A wish, and when it was asked."""

    wish: Wish
    mono_ms: float
    wall_ms: int


class Wishes(Repeated):
    """Makes wishes in these topics while the load runs. `strict` has the strict ones. `in_flight` counts the wishes
    without an answer."""

    def __init__(
        self, caller: Caller[Client], history: History, topics: Sequence[str], strict: Collection[str]
    ) -> None:
        super().__init__(caller, EVERY_S)
        self._caller, self._topics, self._strict = caller, topics, strict
        self._history = history
        self._number = FIRST_NUMBER
        self._by_id: dict[str, int] = {}
        self._open: defaultdict[Name, dict[int, str]] = defaultdict(dict)  # numbers and ids that may have the key
        self._ends: defaultdict[Name, list[tuple[float, str]]] = defaultdict(list)  # when each holder ended, and its id
        self._doubts: defaultdict[Name, list[tuple[int, bool]]] = defaultdict(list)  # unknown wishes: asked, extends
        self._early: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)  # changes of ids not known yet
        self._newest = [0] * KEYS  # the number in each key's name
        self._name_of: dict[int, Name] = {}
        history.listen(self._see)

    def _see(self, event: Event) -> None:
        if isinstance(event, Acked):
            if event.result == "acked":
                self._ended(event.number)
        elif isinstance(event, DeadLettered) or (isinstance(event, HandedOver) and event.pushed and event.taken):
            self._ended(event.number)

    def _ended(self, number: int) -> None:
        for name, holders in self._open.items():
            if (id := holders.pop(number, None)) is not None:
                self._ends[name].append((self._history.now()[0], id))

    async def _once(self) -> None:
        chance = self._chance
        if chance.random() < WHOLE_SHARE:
            self._runner.start(
                self._whole([self._name(at) for at in chance.sample(range(KEYS), chance.randint(*WHOLE))])
            )
        else:
            name = self._name(chance.randrange(KEYS))
            for _ in range(chance.randint(1, AT_ONCE)):
                self._runner.start(self._wish(name))
        self._next()

    def _name(self, at: int) -> Name:
        """The name of a key, another one after a wish of unknown outcome."""
        name = self._topics[at % len(self._topics)], f"wish-{at}-{self._newest[at]}"
        if name in self._doubts:
            self._newest[at] += 1
            name = name[0], f"wish-{at}-{self._newest[at]}"
        return name

    async def again(self, message: Answered) -> None:
        """Make a wish under the key of this message. Do nothing if it has none, or after the end."""
        name = self._name_of.get(message.number)
        if name is not None and name not in self._doubts and not self._over:
            await self._wish(name)

    async def _wish(self, name: Name) -> None:
        client, asked = self._caller.any(), self._offer(name)
        self.in_flight += 1
        outcome = await client.wish(asked.wish)
        self.in_flight -= 1
        self._requested("extend" if asked.wish.extends else "replace", asked)
        self._answered(client, asked, outcome)

    async def _whole(self, names: Sequence[Name]) -> None:
        client, asked = self._caller.any(), [self._offer(name) for name in names]
        self.in_flight += 1
        outcome = await client.wish_all([each.wish for each in asked])
        self.in_flight -= 1
        self._requested("batch", asked[0])
        kind = "acknowledged" if outcome.kind == "ok" else outcome.kind
        numbers = tuple(each.wish.number for each in asked)
        new = (False,) * len(outcome.value or ())
        self._history.record(BatchAnswered(**self._history.stamp(), numbers=numbers, outcome=kind, replayed=new))
        for row, each in enumerate(asked):
            self._answered(client, each, outcome.read(itemgetter(row)))

    def _offer(self, name: Name) -> _Asked:
        """Make up a wish, and record it."""
        chance, history, number = self._chance, self._history, self._number
        self._number += 1
        self._name_of[number] = name
        topic, key = name
        extends = chance.random() < EXTEND_SHARE
        mono_ms, wall_ms = history.now()
        due_ms = wall_ms + chance.randint(*SOON_MS)
        strict = topic in self._strict
        history.record(
            Offered(
                **history.stamp(), number=number, keyed=False, asked_due_ms=due_ms, topic=topic, strict=strict
            )
        )  # fmt: skip
        # The body is the number by which checkers know a message. So an extended holder keeps its own.
        return _Asked(Wish(number, topic, key, due_ms, extends, MAX_WAIT_MS), mono_ms, wall_ms)

    def _requested(self, kind: Literal["extend", "replace", "batch"], asked: _Asked) -> None:
        history, name = self._history, str(asked.wish.number)
        history.record(RequestAnswered(**history.stamp(), kind=kind, name=name, asked_mono_ms=asked.mono_ms))

    def _answered(self, client: Client, asked: _Asked, outcome: Outcome[WishAnswer]) -> None:
        """Record the answer to a wish, and what it says of the holder of the key."""
        answer, wish, history = outcome.value, asked.wish, self._history
        history.record(
            Wished(
                **history.stamp(),
                number=wish.number,
                name=f"{wish.topic} {wish.key}",
                extends=wish.extends,
                asked_mono_ms=asked.mono_ms,
                outcome=outcome.kind if answer is None else answer.outcome,
                message_id="" if answer is None else answer.id,
                previous="" if answer is None else answer.previous,
            )
        )
        told: dict[str, Any] = {"number": wish.number, "node": client.node, "sent_mono_ms": asked.mono_ms}
        if answer is not None:
            self._tell((wish.topic, wish.key), told, asked.wall_ms, wish.extends, answer)
        elif outcome.kind == "unknown":
            self._doubt(asked)
            self._answer(**told, outcome="unknown", detail=outcome.code)
        else:
            self._answer(**told, outcome="refused", detail=outcome.code)

    def _tell(self, name: Name, told: dict[str, Any], asked_ms: int, extends: bool, answer: WishAnswer) -> None:
        """Record what an answer says of the message, and of the one before."""
        number: int = told["number"]
        if answer.outcome == "extended":
            self._answer(**told, outcome="refused", detail="extended")
        else:
            self._by_id[answer.id] = number
            self._open[name][number] = answer.id
            self._answer(**told, outcome="acknowledged", message_id=answer.id, due_ms=answer.due_ms)
            for doubt_ms, extended in self._doubts.get(name, ()):
                self._change(answer.id, doubt_ms, extended, outcome="unknown")
            for change in self._early.pop(answer.id, ()):
                change()
        before = answer.previous
        if not before:
            return
        if answer.outcome == "extended":
            more = {"outcome": "moved", "due_ms": answer.due_ms, "revision": answer.revision}
        else:
            more = {"outcome": "cancelled", "prior": answer.prior, "attempts_made": answer.attempts_made}
        change = partial(self._change, before, asked_ms, extends, **more)
        if before in self._by_id:
            change()
        else:  # the answer to the message before has not come yet, or never comes
            self._early[before].append(change)

    def _doubt(self, asked: _Asked) -> None:
        """Note that a wish of unknown outcome may have changed each message that has the key, or had it meanwhile. One
        may have been extended, delivered and settled since the wish was sent (seed 4314)."""
        name, extends = (asked.wish.topic, asked.wish.key), asked.wish.extends
        self._doubts[name].append((asked.wall_ms, extends))
        ended = [id for ended_ms, id in self._ends[name] if ended_ms >= asked.mono_ms]
        for id in [*self._open[name].values(), *ended]:
            self._change(id, asked.wall_ms, extends, outcome="unknown")

    def _answer(self, **told: Any) -> None:
        self._history.record(Answered(**self._history.stamp(), **told))

    def _change(self, id: str, asked_ms: int, extends: bool, **more: Any) -> None:
        number = self._by_id[id]
        if more["outcome"] == "cancelled":
            self._ended(number)
        about: dict[str, Any] = {"number": number, "message_id": id, "asked_wall_ms": asked_ms}
        self._history.record((Rescheduled if extends else Cancelled)(**self._history.stamp(), **about, **more))
