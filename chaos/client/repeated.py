"""A client that does something now and then while a load runs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from chaos.client.caller import Caller
from chaos.client.client import Client


class Repeated(ABC):
    """Draws the moments of `_once`, on average one in `every_s` seconds from `begin` to `end`."""

    def __init__(self, caller: Caller[Client], every_s: float) -> None:
        self._runner, self._chance = caller.runner, caller.chance
        self._every_s = every_s
        self._over = True

    def begin(self) -> None:
        """Begin, because the load begins."""
        self._over = False
        self._next()

    def end(self) -> None:
        """Begin nothing more."""
        self._over = True

    @abstractmethod
    async def _once(self) -> None:
        """Do it, and call `_next` when the next time may be drawn."""

    def _next(self) -> None:
        if not self._over:
            self._runner.after(self._chance.expovariate(1 / self._every_s), self._unless_over)

    async def _unless_over(self) -> None:
        if not self._over:
            await self._once()
