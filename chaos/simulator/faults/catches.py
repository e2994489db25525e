"""Faults of the kind `catch`. They wait until their node begins a hand-over, or proposes a request, and end the node
within WITHIN_S or PROPOSED_S after that. At that moment no other node may know of the hand-over, and the request may be
committed, answered, or neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from chaos.history.event import Answered, Begun, Event, Proposal
from chaos.history.history import History
from chaos.plan.fault_plan import Fault
from chaos.simulator.world.world import World

WITHIN_S: Final = 0.05
PROPOSED_S: Final = 0.004
#: A message is new for this long after it was acknowledged.
NEW_MS: Final = 300


class Catches:
    """The faults of one world that wait for a hand-over. `kill(fault)` kills the node that the fault names,
    `power(fault)` cuts its power."""

    def __init__(
        self, world: World, history: History, kill: Callable[[Fault], object], power: Callable[[Fault], object]
    ) -> None:
        self._world = world
        self._chance = world.random("catches")
        self._strikes = {"kill": kill, "power": power}
        self._waiting: dict[str, Fault] = {}
        self._old: dict[str, float] = {}  # id: the moment when it was acknowledged
        history.listen(self._see)

    def wait(self, node_id: str, fault: Fault) -> None:
        """Let this fault wait for what its argument `what` says. The node begins a hand-over of any message, or of one
        that was acknowledged within NEW_MS, or it proposes a request."""
        self._waiting[node_id] = fault

    def end(self) -> None:
        """Drop all faults that still wait."""
        self._waiting.clear()

    def _see(self, event: Event) -> None:
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            self._old[event.message_id] = event.mono_ms
        if not isinstance(event, Begun | Proposal) or (fault := self._waiting.get(event.node)) is None:
            return
        if self._is_meant(event, fault.word("what")):
            del self._waiting[event.node]
            strike = self._strikes[fault.word("how")]
            hit = replace(fault, target=event.node, arguments=(("unsynced", "lost"),))
            within_s = PROPOSED_S if isinstance(event, Proposal) else WITHIN_S
            self._world.after(within_s * self._chance.random(), strike, hit)

    def _is_meant(self, event: Begun | Proposal, what: str) -> bool:
        if isinstance(event, Proposal) or what == "request":
            return isinstance(event, Proposal) and what == "request"
        return what == "any" or event.mono_ms < self._old.get(event.message_id, event.mono_ms) + NEW_MS
