"""Receivers of a load's webhooks. Most requests are answered 200 at once. The others are answered late, with an error,
or not at all."""

from __future__ import annotations

from typing import Final

from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.simulator.load.load import PUSH_LEASE_MORE_MS, PUSH_TIMEOUT_MS
from chaos.simulator.load.probe import Probe
from chaos.simulator.world.receivers import Behaviour, Received
from chaos.simulator.world.world import World

OK: Final = Behaviour()
#: The behaviours of a mixed receiver, and their weights.
MIXED: Final = (
    (OK, 0.74),
    (Behaviour(low_s=0.05, high_s=0.6), 0.1),
    (Behaviour(status=500), 0.06),
    (Behaviour(status=429, retry_after="1"), 0.03),
    (Behaviour(hang=True), 0.03),
    (Behaviour(close=True), 0.04),
)
#: The recorded status of a webhook without an answer: not taken.
NO_ANSWER: Final = 599


class Targets:
    """Sets up the receivers of a load and records what they see."""

    def __init__(self, world: World, history: History, probe: Probe) -> None:
        self._history, self._probe = history, probe
        self._chance = world.random("targets")
        self._calm = False
        world.receivers.behave("mixed", self._draw)
        world.receivers.behave("strict", self._draw)
        world.receivers.behave("poison", Behaviour(status=500))
        world.receivers.on_received = self._received

    def calm(self) -> None:
        """From now on let all receivers take every message, except `poison`, which refuses everything."""
        self._calm = True

    def _draw(self) -> Behaviour:
        behaviours, weights = zip(*MIXED, strict=True)
        drawn: Behaviour = self._chance.choices(behaviours, weights)[0]
        return OK if self._calm else drawn

    def _received(self, received: Received) -> None:
        """Record a push that a receiver got. Only its node knows when it began: the probe saw that before the first
        byte left."""
        begun = self._probe.begun.get((received.id, received.term, received.attempt))
        at_ms = begun.at_ms if begun else 0
        # In a strict topic the lease is in the log, and runs from the planned moment. The send may wait.
        leased_until_ms = begun.leased_until_ms if begun else 0
        # No header says when a retry is due. The leader that heard of the failure set it by its own clock.
        due_ms = begun.asked_due_ms if begun and received.attempt == 1 else 0
        self._history.record(
            HandedOver(
                **self._history.stamp(),
                number=int(received.body),
                message_id=received.id,
                term=received.term,
                attempt=received.attempt,
                due_ms=due_ms,
                asked_due_ms=begun.asked_due_ms if begun else 0,
                handed_over_ms=at_ms,
                leased_until_ms=leased_until_ms or at_ms + PUSH_TIMEOUT_MS + PUSH_LEASE_MORE_MS,
                gives_up_ms=at_ms + PUSH_TIMEOUT_MS,
                node=received.node,
                connection=f"push {received.id} {received.term} {received.attempt}",
                response=1,
                status=received.status or NO_ANSWER,
                begun_wall_ms=begun.wall_ms if begun else 0,
            )
        )
