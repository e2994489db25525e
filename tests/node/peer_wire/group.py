"""A group that is asked by other nodes, as the test has it; and hand-overs of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from api.port.problem import Problem
from node.port.group_port import ClusterDocument, GroupPort
from node.port.message_port import CancelAsked, MessageAsked
from node.port.pull_port import Claims, Deliveries, NackAsked, PullAsked, Settled, stays
from node.port.trust_window import TrustWindow

TERM = 7
LEASE_END_MS = 60_000


class Group:
    """In place of a GroupPort. Each call waits until the test gives what it comes to, but for those that say so."""

    def __init__(self) -> None:
        self.number, self.window = 0, TrustWindow()
        self.window.open(TERM, float("inf"), 0.0)
        self.pulls: list[PullAsked] = []
        self.gone: list[Callable[[], bool]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.given_back: list[Claims] = []
        self.nacks: list[NackAsked] = []

    @property
    def port(self) -> GroupPort:
        """As it is asked."""
        return cast(GroupPort, self)

    async def pull(self, asked: PullAsked, gone: Callable[[], bool] = stays) -> Deliveries:
        """See PullPort."""
        self.pulls.append(asked)
        self.gone.append(gone)
        return cast(Deliveries, await self._answer())

    async def cancel(self, asked: CancelAsked) -> Any:
        """See MessagePort."""
        return await self._answer()

    async def message(self, asked: MessageAsked) -> Any:
        """See MessagePort: at once."""
        raise Problem("unknown-message", f"no {asked.id}")

    async def cluster(self) -> ClusterDocument:
        """See ClusterPort: at once."""
        return ClusterDocument({"node": "n2"})

    async def nack(self, asked: NackAsked) -> Settled:
        """See PullPort: at once."""
        self.nacks.append(asked)
        return Settled(b"\0")

    def give_back(self, claims: Claims) -> None:
        """See PullPort."""
        self.given_back.append(claims)

    async def _answer(self) -> Any:
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


def handed_over(*bodies: bytes, term: int = TERM, leased_until_ms: int = LEASE_END_MS) -> Deliveries:
    """These messages, under one lease."""
    n = len(bodies)
    rows = np.arange(1, n + 1, dtype=np.uint64)
    times = rows.astype(np.int64).tobytes()
    return Deliveries(
        topic=3, term=term, handed_over_ms=1000, leased_until_ms=leased_until_ms, position=rows.tobytes(),
        home=rows.tobytes(), random=rows.tobytes(), attempt=np.ones(n, np.uint16).tobytes(), due_ms=times,
        asked_due_ms=times, created_ms=times, bodies=bodies,
    )  # fmt: skip
