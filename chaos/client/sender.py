"""Sends messages until the outcome of each is final, and records an unknown outcome as unknown.

The contract says which messages may be sent again. After a refused connection or a 503 nothing was done, so all may.
After a broken connection, a timeout or a 504 the outcome is open, so only a message with a key is sent again.
So is one under an `Idempotency-Key`. Any other is recorded as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from chaos.client.caller import Caller
from chaos.client.client import Client, Offer, Placed
from chaos.client.outcome import Outcome
from chaos.history.event import Answered, Offered
from chaos.history.history import History


class Sender:
    """Sends requests that schedule messages, and repeats them for `retry_s`. `leaps` returns how often the simulator
    has set all clocks together. Once that has happened during a call, nodes may have forgotten a key, so no message is
    sent again."""

    def __init__(
        self, caller: Caller[Client], history: History, retry_s: float, leaps: Callable[[], int] = lambda: 0
    ) -> None:
        self._caller, self._history, self._retry_s, self._leaps = caller, history, retry_s, leaps

    def offer(self, offers: Sequence[Offer], strict: Collection[str]) -> None:
        """Record that these offers are about to be sent for the first time. `strict` has the strict topics."""
        stamp = self._history.stamp()
        for each in offers:
            self._history.record(
                Offered(
                    **stamp,
                    number=each.number,
                    keyed=each.keyed,
                    asked_due_ms=each.asked_due_ms,
                    strict=each.topic in strict,
                    topic=each.topic,
                    once=each.once,
                )
            )

    async def send(self, offers: Sequence[Offer]) -> None:
        """Send the offers as one request to a random member. Repeat it with those that may be sent again, until none is
        left. Record the outcome of each offer."""
        caller = self._caller
        leaps, deadline_s = self._leaps(), caller.runner.now_s() + self._retry_s
        doubtful: set[int] = set()  # an earlier try may have been done, so a later refusal says nothing
        while True:
            client, sent_ms = caller.any(), self._history.now()[0]
            outcomes = await client.schedule(offers)
            final = caller.runner.now_s() >= deadline_s
            again: list[Offer] = []
            for offer, outcome in zip(offers, outcomes, strict=True):
                if outcome.kind == "unknown":
                    doubtful.add(offer.number)
                if not final and outcome.may_go_again(offer.keyed or offer.once):
                    again.append(offer)
                else:
                    self._record(offer, client.node, sent_ms, outcome, doubtful)
            if not again:
                return
            await caller.pause()
            if self._leaps() != leaps:  # by the new clocks the key may be forgotten
                for offer in again:
                    self._record(offer, client.node, sent_ms, Outcome("refused"), doubtful)
                return
            offers = again

    def _record(
        self, offer: Offer, node: str, sent_ms: float, outcome: Outcome[Placed], doubtful: Collection[int]
    ) -> None:
        placed = outcome.value
        if placed is not None:
            told: dict[str, Any] = {"outcome": "acknowledged", "message_id": placed.id, "due_ms": placed.due_ms}
            told["detail"] = "replayed" if placed.replayed else ""
        else:
            told = {"outcome": outcome.after(offer.number in doubtful).kind, "detail": outcome.code}
        self._history.record(
            Answered(**self._history.stamp(), number=offer.number, node=node, sent_mono_ms=sent_ms, **told)
        )
