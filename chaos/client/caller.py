"""Clients of every node, and calls that are tried at one node after the other."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Generic, TypeVar

from chaos.client.client import Client, Runner
from chaos.client.outcome import Outcome

C = TypeVar("C", bound=Client, covariant=True)
T = TypeVar("T")

#: Between two tries, half to one and a half times as long.
AGAIN_S: Final = 0.1


def every_node(node: str) -> bool:
    """For callers of a cluster whose members stay: each is one all the time."""
    return True


class Caller(Generic[C]):
    """One caller, with chance of its own. `is_member`: whether a node is one now; others are not asked."""

    def __init__(
        self,
        clients: Iterable[C],
        runner: Runner,
        chance: random.Random,
        is_member: Callable[[str], bool] = every_node,
    ) -> None:
        self.runner, self.chance, self.is_member = runner, chance, is_member
        self.clients: Mapping[str, C] = {client.node: client for client in clients}

    def any(self) -> C:
        """The client of any node."""
        return self.chance.choice([client for node, client in self.clients.items() if self.is_member(node)])

    async def pause(self) -> None:
        """Before the next try."""
        await self.runner.sleep(AGAIN_S * (0.5 + self.chance.random()))

    async def insist(self, ask: Callable[[C], Awaitable[Outcome[T]]], *, for_s: float, again: bool) -> Outcome[T]:
        """Asks one node after the other until it is done or refused for good. What is unknown is asked again if
        `again`, and counts as unknown from then on unless it is done."""
        deadline_s = self.runner.now_s() + for_s
        doubtful = False
        while True:
            outcome = await ask(self.any())
            doubtful |= outcome.kind == "unknown"
            more = outcome.not_done or (outcome.kind == "unknown" and again)
            if more and self.runner.now_s() < deadline_s:
                await self.pause()
                continue
            return replace(outcome, kind="unknown") if doubtful and outcome.kind == "refused" else outcome
