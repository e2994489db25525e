"""An operator who drains nodes, and ends their drain."""

from __future__ import annotations

from typing import Any

from api.port.port import ANONYMOUS
from chaos.client.outcome import Outcome
from chaos.simulator.world.world import World


class Drains:
    """The drains of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._drained: set[str] = set()

    def begin(self, node_id: str) -> None:
        """Drain this node. Its drain ends by `end`, or when it is started again."""
        self._drained.add(node_id)
        client = self._world.client(node_id)
        client.call(
            lambda port: port.drain(None, principal=ANONYMOUS), _heard, label="drain", leader=False, timeout_s=20
        )

    def end(self, node_id: str) -> None:
        """Let the node serve again."""
        self._drained.discard(node_id)
        client = self._world.client(node_id)
        client.call(lambda port: port.undrain(None, principal=ANONYMOUS), _heard, label="undrain", leader=False)

    def end_all(self) -> None:
        """Let all nodes serve again."""
        for node_id in sorted(self._drained):
            self.end(node_id)


def _heard(_: Outcome[Any]) -> None:
    """Ignore the answer to a drain, because the run does not depend on it."""
