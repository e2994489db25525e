"""Clients of every node, and calls that try one node after the other."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from chaos.client.client import Client, Runner
from chaos.client.outcome import Outcome

C = TypeVar("C", bound=Client, covariant=True)
T = TypeVar("T")

#: The pause between two tries, times 0.5 to 1.5.
AGAIN_S: Final = 0.1


def every_node(node: str) -> bool:
    """True: in a cluster whose members stay, each node is always a member."""
    return True


class Caller(Generic[C]):
    """Calls nodes, with chance of its own. `is_member` says if a node is a member now. Others get no calls."""

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
        """The client of a random member."""
        return self.chance.choice([client for node, client in self.clients.items() if self.is_member(node)])

    async def pause(self) -> None:
        """Wait before the next try."""
        await self.runner.sleep(AGAIN_S * (0.5 + self.chance.random()))

    async def insist(self, ask: Callable[[C], Awaitable[Outcome[T]]], *, for_s: float, again: bool) -> Outcome[T]:
        """Ask one node after the other until the call is done or refused for good. An unknown outcome is asked again if
        `again`. From then on the call counts as unknown, unless it is done."""
        deadline_s = self.runner.now_s() + for_s
        doubtful = False
        while True:
            outcome = await ask(self.any())
            doubtful |= outcome.kind == "unknown"
            if outcome.may_go_again(again) and self.runner.now_s() < deadline_s:
                await self.pause()
                continue
            return outcome.after(doubtful)
