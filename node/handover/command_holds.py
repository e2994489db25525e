"""Holds of units that a command in flight ends or moves. The dispatcher does not hand them over until the command has
its result.

A result may stay unknown: the proposer gave up on an entry that is in the Raft log and may still be applied. If its
unit were handed over meanwhile, the command would end a unit that a consumer has. So the unit stays held until a
command that was proposed later is applied. Commands are applied in the order in which they are proposed, so the first
one cannot take effect after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from api.port.problem import Problem
from node.handover.handing_over import HandingOver
from node.runtime.lifecycle import Lifecycle
from node.write.proposer import Proposer
from replication.command.unlink import Unlink


class CommandHolds:
    """The holds that the commands of one term as leader put on units, and their release."""

    def __init__(
        self,
        proposer: Proposer,
        life: Lifecycle,
        handing_over: HandingOver,
        *,
        poke: Callable[[], None],
        over: Callable[[], bool],
    ) -> None:
        """`poke` is called when units were released and may be handed over again. `over` returns True once leadership
        is lost."""
        self._proposer, self._life, self._handing_over = proposer, life, handing_over
        self._poke, self._over = poke, over

    def until(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """Hold the units at these positions until the command that ends or moves them has its result. They stay held
        even if the client of the command has gone away."""
        self._handing_over.hold(positions)
        self.released_by(positions, result)

    def released_by(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """Release these units when the command has its result. They are held already."""

        def done(ended: asyncio.Future[Any]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if isinstance(error, Problem) and error.code == "outcome-unknown" and not self._over():
                self._life.spawn(self._release_late(positions))
            else:
                self._release(positions)

        result.add_done_callback(done)

    def _release(self, positions: Sequence[int]) -> None:
        self._handing_over.release(positions)
        self._poke()

    async def _release_late(self, positions: Sequence[int]) -> None:
        """Release the units of a command with unknown outcome. Propose an empty command, and wait until it is applied:
        the first command can have no effect after it."""
        applied = False
        while not applied and not self._over():
            with suppress(Problem):
                await self._proposer.propose_single(Unlink(np.empty(0, np.int64)))
                applied = True
        self._release(positions)
