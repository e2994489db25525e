"""Cancels and moves a share of the acknowledged messages around their due time, where the truth is hardest to tell."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from api.port.port import ANONYMOUS, CancelResult, RescheduleResult
from chaos.history.event import Answered, Cancelled, Event, Rescheduled
from chaos.history.history import History
from chaos.simulator.load.load import NOT_DONE, TIMEOUT_S, Caller, Shape, code_of
from chaos.simulator.world.client import Outcome
from chaos.simulator.world.world import World

MOVE_MS = 1_500
#: What is due later than so much from now is far ahead.
FAR_MS = 60_000
#: A request of so long before the load's end may be on its way still behind it, its client gone or not.
UNDER_WAY_S = 2 * TIMEOUT_S
FIRST_REVISION = 1


class Changer:
    """Changes each message at most once by itself; `bring_near` moves what is left far ahead at the load's end."""

    def __init__(self, world: World, history: History, shape: Shape) -> None:
        self.in_flight = 0
        self._world, self._history, self._shape = world, history, shape
        self._caller = Caller(world, "changer")
        self._chance = self._caller.chance
        self._over = False
        self._end_s = 0.0
        self._brought: set[int] = set()
        self._moves: Counter[int] = Counter()
        history.listen(self._choose)

    def begin(self, seconds: float) -> None:
        """The load begins, and lasts so long."""
        self._end_s = self._world.now_s + seconds

    def end(self) -> None:
        """Nothing more is changed at random."""
        self._over = True

    def _choose(self, event: Event) -> None:
        if self._over or not isinstance(event, Answered) or event.outcome != "acknowledged":
            return
        drawn, shape = self._chance.random(), self._shape
        if drawn >= shape.cancel_share + shape.move_share:
            return
        wait_ms = event.due_ms - event.wall_ms + self._chance.randint(-shape.around_ms, shape.around_ms)
        if wait_ms > FAR_MS:
            wait_ms = self._chance.randint(0, 3_000)
        change = self.cancel if drawn < shape.cancel_share else self.move
        self._world.after(max(0, wait_ms) / 1000, change, event)

    def cancel(self, message: Answered) -> None:
        """Ask for it once, while the load lasts."""
        if self._over:
            return
        self.in_flight += 1
        asked_ms = self._history.now()[1]

        def done(outcome: Outcome) -> None:
            self.in_flight -= 1
            told: CancelResult | None = outcome.value
            kind: Literal["cancelled", "refused", "unknown"] = "cancelled" if told else _kind(outcome)
            self._history.record(
                Cancelled(
                    **self._about(message.number, message.message_id, asked_ms, outcome),
                    outcome=kind,
                    prior=told.prior if told else "",
                    attempts_made=told.attempts_made if told else 0,
                )
            )

        name = message.message_id
        self._caller.call(
            self._caller.node(),
            lambda port: port.cancel(name, if_match=None, principal=ANONYMOUS),
            done,
            "cancel",
            timeout_s=TIMEOUT_S,
        )

    def move(self, message: Answered) -> None:
        """Ask once for a later due time, while the load lasts."""
        if not self._over:
            self._moves[message.number] += 1
            self._reschedule(message.number, message.message_id, max(message.due_ms, self._now_ms()) + MOVE_MS, False)

    def bring_near(self, far: dict[int, str]) -> None:
        """Messages due far ahead are moved to the next seconds, however often that has to be asked."""
        self._brought.update(far)
        for number, name in sorted(far.items()):
            self._reschedule(number, name, self._now_ms() + self._chance.randint(500, 4_000), True)

    def _now_ms(self) -> int:
        return self._history.now()[1]

    def _reschedule(self, number: int, name: str, due_ms: int, insist: bool) -> None:
        self.in_flight += 1
        asked_ms = self._now_ms()
        # A move to far ahead that takes effect behind `bring_near` would leave the message there. So near the end it is
        # made of the message as it was scheduled, and refused behind that one.
        late = self._world.now_s > self._end_s - UNDER_WAY_S
        if_match = FIRST_REVISION if late and not insist and due_ms - asked_ms > FAR_MS else None

        def done(outcome: Outcome) -> None:
            self.in_flight -= 1
            told: RescheduleResult | None = outcome.value
            kind: Literal["moved", "refused", "unknown"] = "moved" if told else _kind(outcome)
            mismatch = code_of(outcome.problem) == "revision-mismatch"
            again = number in self._brought or self._moves[number] > 1
            assert not mismatch or again, f"message {number} was moved by nobody else"
            self._history.record(
                Rescheduled(
                    **self._about(number, name, asked_ms, outcome),
                    outcome=kind,
                    due_ms=due_ms,
                    revision=told.revision if told else 0,
                )
            )

        def ask(port: Any) -> Any:
            return port.reschedule(name, deliver_at_ms=due_ms, delay_ms=None, if_match=if_match, principal=ANONYMOUS)

        if insist:
            self._caller.insist(ask, done, "reschedule", for_s=30.0, again=True)
        else:
            self._caller.call(self._caller.node(), ask, done, "reschedule", timeout_s=TIMEOUT_S)

    def _about(self, number: int, name: str, asked_ms: int, outcome: Outcome) -> dict[str, Any]:
        mono_ms, wall_ms = self._history.now()
        common: dict[str, Any] = {"mono_ms": mono_ms, "wall_ms": wall_ms, "number": number, "message_id": name}
        return common | {"asked_wall_ms": asked_ms, "detail": code_of(outcome.problem)}


def _kind(outcome: Outcome) -> Literal["refused", "unknown"]:
    """A refusal that says that nothing was done is one, whatever the reason."""
    refused = outcome.kind == "refused" and (outcome.problem is None or outcome.problem.code not in ("internal",))
    assert not refused or code_of(outcome.problem) in ("", *NOT_DONE, *_REFUSALS), outcome.problem
    return "refused" if refused else "unknown"


_REFUSALS = ("leased", "already-settled", "unknown-message", "revision-mismatch")
