"""Shifts and releases many messages at once, by topic and window, now and then. Then it asks when each is due.

The messages that may have been of the set are recorded one by one, as if each had been rescheduled alone. One is
`moved` if its due time is another one, else `unknown`. The moment of asking is that of the operation. It may have moved
since then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from chaos.client.caller import Caller
from chaos.client.client import Client, Many, View
from chaos.client.many import Asked, Begun, ManyOperations
from chaos.client.many_cancels import look_at
from chaos.client.outcome import Outcome
from chaos.history.event import MANY, Answered, Event, HandedOver, ManyMoved, Nacked, Rescheduled, Standing
from chaos.history.history import History

RELEASE_SHARE: Final = 0.4
#: A shift moves by at most so much, either way.
BY_MS: Final = 5_000


class ManyMoves(ManyOperations):
    """See ManyOperations."""

    def __init__(self, caller: Caller[Client], history: History, topics: Sequence[str], every_s: float) -> None:
        self._names: dict[int, Answered] = {}
        self._touched: set[int] = set()  # handed over, given back or moved
        super().__init__(caller, history, topics, every_s)

    def _see(self, event: Event) -> None:
        super()._see(event)
        if isinstance(event, HandedOver | Nacked | Rescheduled):
            self._touched.add(event.number)
        elif isinstance(event, Answered) and event.outcome == "acknowledged":
            self._names[event.number] = event

    async def _ask(self, asked: Asked) -> Outcome[Many]:
        if self._chance.random() < RELEASE_SHARE:
            asked.kind = "release"
            return await self._caller.any().change_many(asked.kind, asked.topic, asked.window, None)
        asked.kind, asked.by_ms = "shift", self._chance.choice((-1, 1)) * self._chance.randint(1, BY_MS)
        return await self._caller.any().change_many(asked.kind, asked.topic, asked.window, asked.by_ms)

    def _record(self, asked: Asked, outcome: Begun, name: str, changed: int) -> None:
        self._history.record(
            ManyMoved(
                **asked.stamp, topic=asked.topic, from_ms=asked.window.start, to_ms=asked.window.stop,
                asked_wall_ms=asked.asked_wall_ms, outcome=outcome, operation=name, changed=changed, kind=asked.kind,
                by_ms=asked.by_ms,
            )
        )  # fmt: skip

    async def _look(self, asked: Asked, for_s: float) -> bool:
        """Ask for each message that was open, and record where it stands. False if one could not be asked for."""
        whole = True
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
