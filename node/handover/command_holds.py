"""Units that a command in flight ends or moves: the dispatcher does not hand them over until its result is known.

A result may stay unknown: the proposer gave up on an entry that is in the log and may still be applied. Handed over
before that, a unit would be ended as if nobody had it; so it stays held until a later command has been applied, for
what is proposed after it is applied after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from api.port.problem import Problem
from node.leader.dispatcher import Dispatcher
from replication.command.registry import Unlink

if TYPE_CHECKING:
    from node.leader.leader_term import Reign
    from node.server import Node


class Holding:
    """The holds of one reign."""

    def __init__(self, node: Node, reign: Reign, dispatcher: Dispatcher) -> None:
        self._node = node
        self._reign = reign
        self._dispatcher = dispatcher

    def until(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """Hold these until the command that ends or moves them has its result, whether or not the client still waits
        for that."""
        self._dispatcher.hold(positions)
        self.released_by(positions, result)

    def released_by(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """These are held already: release them when the command has its result."""

        def done(ended: asyncio.Future[Any]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if isinstance(error, Problem) and error.code == "outcome-unknown" and not self._reign.over:
                self._node.life.spawn(self._release_late(positions))
            else:
                self._release(positions)

        result.add_done_callback(done)

    def _release(self, positions: Sequence[int]) -> None:
        self._dispatcher.release(positions)
        self._reign.poke()

    async def _release_late(self, positions: Sequence[int]) -> None:
        """The command was given up on: release when an empty one, proposed after it, is applied."""
        applied = False
        while not applied and not self._reign.over:
            with suppress(Problem):
                await self._node.proposer.propose_single(Unlink(np.empty(0, np.int64)))
                applied = True
        self._release(positions)
