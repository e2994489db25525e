"""Holds of units that a command in flight ends or moves. The dispatcher does not hand them over until the result is
known.

A result may stay unknown: the proposer gave up on an entry that is in the log and may still be applied. The command
would then end a unit that a consumer has. So the unit stays held until a later command is applied, because commands are
applied in the order in which they are proposed.
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
    """The holds of one term."""

    def __init__(
        self,
        proposer: Proposer,
        life: Lifecycle,
        handing_over: HandingOver,
        *,
        poke: Callable[[], None],
        over: Callable[[], bool],
    ) -> None:
        """`poke`: called when units may go out again. `over`: True if leadership is lost."""
        self._proposer, self._life, self._handing_over = proposer, life, handing_over
        self._poke, self._over = poke, over

    def until(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """Hold these units until the command that ends or moves them has its result, even if its client waits no
        more."""
        self._handing_over.hold(positions)
        self.released_by(positions, result)

    def released_by(self, positions: Sequence[int], result: asyncio.Future[Any]) -> None:
        """Release these units, which are held already, when the command has its result."""

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
        """Release the units of a command that was given up, once an empty command proposed after it is applied."""
        applied = False
        while not applied and not self._over():
            with suppress(Problem):
                await self._proposer.propose_single(Unlink(np.empty(0, np.int64)))
                applied = True
        self._release(positions)
