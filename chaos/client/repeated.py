"""A client that does something now and then while a load runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from chaos.client.caller import Caller
from chaos.client.client import Client

#: It is asked this often if anything is in flight.
ANSWERED_S: Final = 0.05


class Repeated(ABC):
    """Draws the moments of `_once`, on average one in `every_s` seconds from `begin` to `end`. `in_flight` counts what
    has no outcome yet."""

    def __init__(self, caller: Caller[Client], every_s: float) -> None:
        self._runner, self._chance = caller.runner, caller.chance
        self.in_flight = 0
        self._every_s = every_s
        self._over = True

    def begin(self) -> None:
        """Begin, because the load begins."""
        self._over = False
        self._next()

    def end(self) -> None:
        """Begin nothing more."""
        self._over = True

    async def answered(self) -> None:
        """Return when nothing is in flight."""
        while self.in_flight:
            await self._runner.sleep(ANSWERED_S)

    @abstractmethod
    async def _once(self) -> None:
        """Do it, and call `_next` when the next time may be drawn."""

    def _next(self) -> None:
        if not self._over:
            self._runner.after(self._chance.expovariate(1 / self._every_s), self._unless_over)

    async def _unless_over(self) -> None:
        if not self._over:
            await self._once()
