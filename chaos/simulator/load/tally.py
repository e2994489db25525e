"""Clients that count the open messages of a topic now and then during the load, and at the end ask for the ledger's
sums.

The history gets the answers. chaos/check/message/sums.py compares them with the numbers that are possible.
"""

from __future__ import annotations

from typing import Final

from api.port.port import ANONYMOUS
from api.port.queries import CountQuery
from chaos.client.account import Accounts
from chaos.history.event import Counted
from chaos.history.history import History
from chaos.simulator.load.client import caller_of
from chaos.simulator.load.load import IDLE, PULL, PUSH, STRICT_PULL, STRICT_PUSH
from chaos.simulator.world.world import World

#: The average time between two counts.
EVERY_S: Final = 1.5
#: Topics in which no message is given up.
TOPICS: Final = (PULL, PUSH, STRICT_PULL, STRICT_PUSH, IDLE)


class Tally:
    """Counts the open messages of topics while a load runs. Only a run with an Asker has one. `sum_up` asks for the
    ledger's sums."""

    def __init__(self, world: World, history: History) -> None:
        self._history = history
        self._caller = caller_of(world, "tally")
        self._accounts = Accounts(self._caller, history)
        self._over = False

    @property
    def in_flight(self) -> int:
        """0 once the ledger has answered with its sums."""
        return self._accounts.in_flight

    def begin(self) -> None:
        """Begin to count the open messages of a drawn topic, every EVERY_S on average."""
        self._caller.runner.start(self._count())

    def end(self) -> None:
        """Stop counting, because the load has ended."""
        self._over = True

    async def _count(self) -> None:
        runner, chance = self._caller.runner, self._caller.chance
        while not self._over:
            runner.start(self._count_one(chance.choice(TOPICS)))
            await runner.sleep(chance.expovariate(1 / EVERY_S))

    async def _count_one(self, topic: str) -> None:
        asked_ms, query = self._history.now()[0], CountQuery(topic=topic)
        outcome = await self._caller.any().call(lambda port: port.count(query, principal=ANONYMOUS), "count")
        if outcome.value is not None:
            stamp = self._history.stamp()
            self._history.record(Counted(**stamp, topic=topic, asked_mono_ms=asked_ms, count=outcome.value.count))

    def sum_up(self) -> None:
        """Ask the ledger for its sums."""
        self._caller.runner.start(self._accounts.sum_up())
