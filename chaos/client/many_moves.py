"""Shifts and releases many messages at once, by topic and window, now and then. Then it asks when each is due.

The messages that may have been of the set are recorded one by one, as if each had been rescheduled alone. One is
`moved` if its due time is another one, else `unknown`. The moment of asking is that of the operation. It may have moved
since then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from chaos.client.caller import Caller
from chaos.client.client import Client, Many, View
from chaos.client.many import ASKED_S, Asked, ManyOperations
from chaos.client.many_cancels import look_at
from chaos.client.outcome import Outcome
from chaos.history.event import MANY, Answered, Event, HandedOver, ManyMoved, Nacked, Rescheduled, Standing
from chaos.history.history import History

RELEASE_SHARE: Final = 0.4
#: This share of them has a rate, of so many messages a second. Their sets stand for seconds.
RATE_SHARE: Final = 0.5
RATES: Final = (2, 20)
#: This share of them is paused for a while.
PAUSE_SHARE: Final = 0.5
PAUSE_S: Final = (0.2, 2.0)
#: A shift moves by at most so much, either way.
BY_MS: Final = 5_000


class ManyMoves(ManyOperations):
    """See ManyOperations."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        self._names: dict[int, Answered] = {}
        self._touched: set[int] = set()  # handed over, given back or moved
        self._paused: list[str] = []  # operations that may be paused
        super().__init__(caller, history, topics, every_s)

    def _see(self, event: Event) -> None:
        super()._see(event)
        if isinstance(event, HandedOver | Nacked | Rescheduled):
            self._touched.add(event.number)
        elif isinstance(event, Answered) and event.outcome == "acknowledged":
            self._names[event.number] = event
            if self._missed(event):
                self._runner.start(self._tell_late(event))

    async def _tell_late(self, message: Answered) -> None:
        """Record that a message may have been moved before its client had the answer (seed 1824)."""
        for asked in self._missed(message):
            self._tell(asked, message, None)

    async def _ask(self, asked: Asked) -> Outcome[Many]:
        rate = self._chance.randint(*RATES) if self._chance.random() < RATE_SHARE else None
        if self._chance.random() < RELEASE_SHARE:
            asked.kind = "release"
            return await self._caller.any().change_many(asked.kind, asked.topic, asked.window, None, rate)
        asked.kind, asked.by_ms = "shift", self._chance.choice((-1, 1)) * self._chance.randint(1, BY_MS)
        return await self._caller.any().change_many(asked.kind, asked.topic, asked.window, asked.by_ms, rate)

    async def _hold(self, asked: Asked, name: str) -> None:
        if self._chance.random() >= PAUSE_SHARE:
            return
        self._paused.append(name)
        await self._caller.any().change_operation(name, "pause")
        await self._meet(asked)
        await self._runner.sleep(self._chance.uniform(*PAUSE_S))
        await self._resume(name)

    async def _meet(self, asked: Asked) -> None:
        """Ask for another operation, which meets one that stands: for a release of a single millisecond of its window,
        at which no message is due."""
        due_ms = {self._open[number].due_ms for number in asked.candidates & self._open.keys()}
        at_ms = next((each for each in reversed(asked.window) if each not in due_ms), None)
        if at_ms is None:
            return
        asked_ms, window = self._history.now()[1], range(at_ms, at_ms + 1)
        outcome = await self._caller.any().change_many("release", asked.topic, window, None, None)
        if outcome.kind == "refused":
            self._history.record(
                ManyMoved(
                    **self._history.stamp(), topic=asked.topic, from_ms=at_ms, to_ms=at_ms + 1, asked_wall_ms=asked_ms,
                    outcome="refused", kind="release", detail=outcome.code,
                )
            )  # fmt: skip

    async def _resume(self, name: str) -> None:
        outcome = await self._caller.insist(
            lambda client: client.change_operation(name, "resume"), for_s=ASKED_S, again=True
        )
        if outcome.kind == "ok" or outcome.code == "already-settled":
            self._paused.remove(name)

    async def _finish(self) -> None:
        for name in [*self._paused]:
            await self._resume(name)
        await super()._finish()

    def _record(self, asked: Asked, answer: dict[str, Any]) -> None:
        self._history.record(
            ManyMoved(
                **asked.stamp, topic=asked.topic, from_ms=asked.window.start, to_ms=asked.window.stop,
                asked_wall_ms=asked.asked_wall_ms, kind=asked.kind, by_ms=asked.by_ms, **answer,
            )
        )  # fmt: skip

    async def _look(self, asked: Asked, for_s: float) -> bool:
        """Ask for each message that was open, and record where it stands. False if one could not be asked for."""
        whole = True
        self._looked_at.append(asked)
        for number in sorted(asked.candidates - asked.looked):
            message = self._names[number]
            outcome = await self._caller.insist(partial(look_at, message.message_id), for_s=for_s, again=True)
            if outcome.value is None and outcome.code != "unknown-message":
                whole = False
                continue
            asked.looked.add(number)
            self._tell(asked, message, None if outcome.value is None else outcome.value[0])
        return whole

    def _tell(self, asked: Asked, message: Answered, view: View | None) -> None:
        """Record where a message stands, and that it may have been rescheduled."""
        about = self._history.stamp() | {
            "number": message.number, "message_id": message.message_id, "asked_wall_ms": asked.asked_wall_ms
        }  # fmt: skip
        if view is not None:
            self._history.record(Standing(**about, state=view.state, due_ms=view.due_ms, attempts=view.attempt))
        touched = message.number in self._touched
        if not touched and message.due_ms not in asked.window:
            return
        moved = view is not None and not touched and asked.sure and view.state in ("scheduled", "ready")
        if moved and view is not None and view.due_ms != message.due_ms:
            self._history.record(Rescheduled(**about, outcome="moved", due_ms=view.due_ms, detail=MANY))
        else:
            self._history.record(Rescheduled(**about, outcome="unknown", detail=MANY))
