"""A client for each node, and calls that go to one random node after the other until the outcome is final."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from chaos.client.client import Client, Runner
from chaos.client.outcome import Outcome

C = TypeVar("C", bound=Client, covariant=True)
T = TypeVar("T")

#: The mean pause between two tries of a call. Chance makes it 0.5 to 1.5 times as long.
AGAIN_S: Final = 0.1


def every_node(node: str) -> bool:
    """The default of `is_member`: True for every node, for a cluster whose members never change."""
    return True


class Caller(Generic[C]):
    """Chooses a node for each call of the load, by draws from `chance`. Only nodes for which `is_member` returns True
    at that moment get calls."""

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
        """Wait before the next try of a call, for 0.5 to 1.5 times AGAIN_S."""
        await self.runner.sleep(AGAIN_S * (0.5 + self.chance.random()))

    async def insist(self, ask: Callable[[C], Awaitable[Outcome[T]]], *, for_s: float, again: bool) -> Outcome[T]:
        """Send the call to one random member after the other, until it is done, refused for good, or `for_s` has
        passed. Return the outcome of all tries together. A try with an unknown outcome is repeated only if `again` is
        True. After such a try the call counts as unknown, unless a later try is done."""
        deadline_s = self.runner.now_s() + for_s
        doubtful = False
        while True:
            outcome = await ask(self.any())
            doubtful |= outcome.kind == "unknown"
            if outcome.may_go_again(again) and self.runner.now_s() < deadline_s:
                await self.pause()
                continue
            return outcome.after(doubtful)
