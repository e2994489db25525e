"""Clients that schedule messages under few keys, each of which replaces the holder of its key or extends it.

Their messages have numbers of their own, and the other clients, consumers and checkers deal with them as with any. A
holder that was replaced counts as cancelled, one that was extended as rescheduled. If the outcome of a wish is unknown,
that may hold for every message that may have had the key. No further wish is made under that key. `Wished` has each
answer as it came, for chaos/check/message/keys.py.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from api.port.port import ANONYMOUS, Extend, MessageIn, ScheduledOne
from chaos.client.repeated import Repeated
from chaos.history.event import Acked, Answered, Cancelled, Event, HandedOver, Offered, Rescheduled, Wished
from chaos.history.history import History
from chaos.simulator.load.client import caller_of
from chaos.simulator.load.load import PULL, PUSH
from chaos.simulator.world.world import World
from storage.format.schedule_status import EXTENDED, OUTCOMES

#: The numbers of these messages begin here.
FIRST_NUMBER: Final = 1 << 20
#: The average time between two wishes, and how many come at once for one key at most.
EVERY_S: Final = 0.5
AT_ONCE: Final = 3
KEYS: Final = 4
TOPICS: Final = (PULL, PUSH)
EXTEND_SHARE: Final = 0.5
#: A message is due so soon, and an extended one at most so long after its creation (ms).
SOON_MS: Final = (1, 3_000)
MAX_WAIT_MS: Final = 4_000

Name = tuple[str, str]
"""Topic and key."""


class Wishes(Repeated):
    """Makes wishes while the load runs. `in_flight` counts those without an answer."""

    def __init__(self, world: World, history: History) -> None:
        self._caller = caller_of(world, "wishes")
        super().__init__(self._caller, EVERY_S)
        self.in_flight = 0
        self._history = history
        self._number = FIRST_NUMBER
        self._by_id: dict[str, int] = {}
        self._open: defaultdict[Name, dict[int, str]] = defaultdict(dict)  # numbers and ids that may have the key
        self._doubts: defaultdict[Name, list[tuple[int, bool]]] = defaultdict(list)  # unknown wishes: asked, extends
        self._early: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)  # changes of ids not known yet
        self._newest = [0] * KEYS  # the number in each key's name
        history.listen(self._see)

    def _see(self, event: Event) -> None:
        if isinstance(event, Acked):
            if event.result == "acked":
                self._ended(event.number)
        elif isinstance(event, HandedOver) and event.pushed and event.taken:
            self._ended(event.number)

    def _ended(self, number: int) -> None:
        for holders in self._open.values():
            holders.pop(number, None)

    async def _once(self) -> None:
        at = self._chance.randrange(KEYS)
        name = TOPICS[at % len(TOPICS)], f"wish-{at}-{self._newest[at]}"
        if name in self._doubts:
            self._newest[at] += 1
            name = name[0], f"wish-{at}-{self._newest[at]}"
        for _ in range(self._chance.randint(1, AT_ONCE)):
            self._runner.start(self._wish(name))
        self._next()

    async def _wish(self, name: Name) -> None:
        self.in_flight += 1
        chance, history, number = self._chance, self._history, self._number
        self._number += 1
        topic, key = name
        extends = chance.random() < EXTEND_SHARE
        asked_mono_ms, asked_ms = history.now()
        due_ms = asked_ms + chance.randint(*SOON_MS)
        history.record(Offered(**history.stamp(), number=number, keyed=False, asked_due_ms=due_ms, topic=topic))
        message = MessageIn(
            topic,
            str(number).encode(),
            due_ms=due_ms,
            key=key,
            on_conflict="extend" if extends else "replace",
            fingerprint=hashlib.blake2b(str(number).encode(), digest_size=16).digest(),
            # The body is the number by which checkers know a message. So the holder keeps its own.
            extend=Extend(MAX_WAIT_MS, due_only=True) if extends else None,
        )
        client = self._caller.any()
        outcome = await client.call(lambda port: port.schedule_one(message, ANONYMOUS), message.on_conflict)
        self.in_flight -= 1
        result = outcome.value
        history.record(
            Wished(
                **history.stamp(),
                number=number,
                name=f"{topic} {key}",
                extends=extends,
                asked_mono_ms=asked_mono_ms,
                outcome=outcome.kind if result is None else OUTCOMES[result.status],
                message_id="" if result is None else result.id,
                previous="" if result is None or result.superseded is None else result.superseded.id,
            )
        )
        told: dict[str, Any] = {"number": number, "node": client.node, "sent_mono_ms": asked_mono_ms}
        if result is not None:
            self._tell(name, told, asked_ms, extends, result)
        elif outcome.kind == "unknown":
            self._doubt(name, asked_ms, extends)
            self._answer(**told, outcome="unknown", detail=outcome.code)
        else:
            self._answer(**told, outcome="refused", detail=outcome.code)

    def _tell(self, name: Name, told: dict[str, Any], asked_ms: int, extends: bool, result: ScheduledOne) -> None:
        """Record what an answer says of the message, and of the one before."""
        number: int = told["number"]
        if result.status == EXTENDED:
            self._answer(**told, outcome="refused", detail="extended")
        else:
            self._by_id[result.id] = number
            self._open[name][number] = result.id
            self._answer(**told, outcome="acknowledged", message_id=result.id, due_ms=result.due_ms)
            for doubt_ms, extended in self._doubts.get(name, ()):
                self._change(result.id, doubt_ms, extended, outcome="unknown")
            for change in self._early.pop(result.id, ()):
                change()
        before = result.superseded
        if before is None:
            return
        if result.status == EXTENDED:
            more = {"outcome": "moved", "due_ms": result.due_ms, "revision": before.revision}
        else:
            more = {"outcome": "cancelled", "prior": before.prior, "attempts_made": before.attempts_made}
        change = partial(self._change, before.id, asked_ms, extends, **more)
        if before.id in self._by_id:
            change()
        else:  # the answer to the message before has not come yet, or never comes
            self._early[before.id].append(change)

    def _doubt(self, name: Name, asked_ms: int, extends: bool) -> None:
        """Note that a wish of unknown outcome may have changed each message that has the key, or had it meanwhile."""
        self._doubts[name].append((asked_ms, extends))
        for id in [*self._open[name].values()]:
            self._change(id, asked_ms, extends, outcome="unknown")

    def _answer(self, **told: Any) -> None:
        self._history.record(Answered(**self._history.stamp(), **told))

    def _change(self, id: str, asked_ms: int, extends: bool, **more: Any) -> None:
        number = self._by_id[id]
        if more["outcome"] == "cancelled":
            self._ended(number)
        about: dict[str, Any] = {"number": number, "message_id": id, "asked_wall_ms": asked_ms}
        self._history.record((Rescheduled if extends else Cancelled)(**self._history.stamp(), **about, **more))
