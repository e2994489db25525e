"""Cancels and reschedules a share of the messages that were answered 201. The requests come around the due time, when
they race the delivery and a true answer is hardest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chaos.client.caller import Caller
from chaos.client.client import Client
from chaos.client.outcome import Outcome
from chaos.history.event import Answered, Cancelled, Event, Rescheduled
from chaos.history.history import History

#: A message that is due later than this from now is far ahead.
FAR_MS: Final = 60_000
#: Chance sends each change at most this much before or after its aim.
AROUND_MS: Final = 50
#: The aim of a change is at most this long before the due time.
LEAD_MAX_MS: Final = 5_000
FIRST_REVISION: Final = 1
#: The codes of a change that was refused because the message had been handed over.
LATE: Final = ("leased", "already-settled")
_REFUSALS: Final = (*LATE, "unknown-message", "revision-mismatch", "in-progress")


@dataclass(frozen=True)
class Changes:
    """The share of messages that a Changer cancels and reschedules, and the times of its requests."""

    cancel_share: float  # of the messages that were answered 201
    move_share: float
    move_ms: int = 1_500  # the delay that a move adds
    #: The aim is the moment before the due time at which changes are sent. A change that came too late moves the aim
    #: this much earlier, a change in time moves it this much later. So about half of the changes are in time on a
    #: machine of any speed, and the rest are close. Another refusal, such as by a busy node, says nothing about the
    #: time.
    aim_ms: int = 0
    under_way_s: float = 0.0  # a request sent this shortly before the load's end may take effect after it


class Changer:
    """Draws for each message that is answered 201 if it is cancelled, moved (rescheduled) or left alone. Each message
    is drawn once. When the load ends, `bring_near` moves messages that are due far ahead, so that the run need not wait
    for them. `in_flight` counts the requests that have no answer yet."""

    def __init__(self, caller: Caller[Client], history: History, changes: Changes) -> None:
        self.in_flight = 0
        self._caller, self._history, self._changes = caller, history, changes
        self._runner, self._chance = caller.runner, caller.chance
        #: Others may move messages, too, so that one has another revision than this one knows.
        self.others_move = False
        self._lead_ms = 0
        self._over = False
        self._end_s = float("inf")
        self._brought: set[int] = set()
        self._moves: Counter[int] = Counter()
        history.listen(self._choose)

    def begin(self, seconds: float) -> None:
        """Note that a load of `seconds` begins now."""
        self._end_s = self._runner.now_s() + seconds

    def end(self) -> None:
        """Send no more cancels and moves, except those of `bring_near`."""
        self._over = True

    def _choose(self, event: Event) -> None:
        if self._over or not isinstance(event, Answered) or event.outcome != "acknowledged":
            return
        drawn, changes = self._chance.random(), self._changes
        if drawn >= changes.cancel_share + changes.move_share:
            return
        around_ms = self._chance.randint(-AROUND_MS, AROUND_MS)
        wait_ms = event.due_ms - self._lead_ms - event.wall_ms + around_ms
        if wait_ms > FAR_MS:
            wait_ms = self._chance.randint(0, 3_000)
        change = self.cancel if drawn < changes.cancel_share else self.move
        self._runner.after(max(0, wait_ms) / 1000, change, event)

    async def cancel(self, message: Answered) -> None:
        """Ask a random member once to cancel the message, and record the answer. Do nothing after `end`."""
        if self._over:
            return
        self.in_flight += 1
        asked_ms, name = self._now_ms(), message.message_id
        outcome = await self._caller.any().cancel(name)
        self.in_flight -= 1
        told = outcome.value
        self._history.record(
            Cancelled(
                **self._about(message.number, name, asked_ms, outcome),
                outcome="cancelled" if told else _kind(outcome),
                prior=told.prior if told else "",
                attempts_made=told.attempts_made if told else 0,
            )
        )

    async def move(self, message: Answered) -> None:
        """Ask a random member once to make the message due `move_ms` later, and record the answer. Do nothing after
        `end`."""
        if not self._over:
            self._moves[message.number] += 1
            due_ms = max(message.due_ms, self._now_ms()) + self._changes.move_ms
            await self._reschedule(message.number, message.message_id, due_ms, False)

    def bring_near(self, far: Mapping[int, str]) -> None:
        """Reschedule messages (id by number) that are due far ahead to 0.5 to 4 s from now. Each request is repeated
        until it is done, for 30 s at most."""
        self._brought.update(far)
        for number, name in sorted(far.items()):
            due_ms = self._now_ms() + self._chance.randint(500, 4_000)
            self._runner.start(self._reschedule(number, name, due_ms, True))

    def _now_ms(self) -> int:
        return self._history.now()[1]

    async def _reschedule(self, number: int, name: str, due_ms: int, insist: bool) -> None:
        self.in_flight += 1
        asked_ms = self._now_ms()
        # A move to far ahead that takes effect after `bring_near` would leave the message there. So near the end a move
        # requires the first revision (`if_match`). `bring_near` raises the revision, so a move that comes after it is
        # refused.
        late = self._runner.now_s() > self._end_s - self._changes.under_way_s
        if_match = FIRST_REVISION if late and not insist and due_ms - asked_ms > FAR_MS else None
        if insist:
            outcome = await self._caller.insist(
                lambda client: client.reschedule(name, due_ms, if_match), for_s=30.0, again=True
            )
        else:
            outcome = await self._caller.any().reschedule(name, due_ms, if_match)
        self.in_flight -= 1
        again = number in self._brought or self._moves[number] > 1 or self.others_move
        assert outcome.code != "revision-mismatch" or again, f"message {number} was moved by nobody else"
        told = outcome.value
        self._history.record(
            Rescheduled(
                **self._about(number, name, asked_ms, outcome),
                outcome="moved" if told else _kind(outcome),
                due_ms=due_ms,
                revision=told.revision if told else 0,
            )
        )

    def _about(self, number: int, name: str, asked_ms: int, outcome: Outcome[Any]) -> dict[str, Any]:
        late = outcome.kind == "refused" and outcome.code in LATE
        step_ms = self._changes.aim_ms * (late - (outcome.kind == "ok"))
        self._lead_ms = min(max(0, self._lead_ms + step_ms), LEAD_MAX_MS)
        about = {"number": number, "message_id": name, "asked_wall_ms": asked_ms, "detail": outcome.code}
        return self._history.stamp() | about


def _kind(outcome: Outcome[Any]) -> Any:
    """Return "refused" or "unknown". Fail if the code of a refusal is none that the contract allows for a change."""
    assert outcome.kind != "refused" or outcome.not_done or outcome.code in _REFUSALS, outcome.code
    return outcome.kind
