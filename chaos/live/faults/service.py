"""The service as its load sees it, and how long it has been calm: what faults of a plan wait for instead of the clock.

A machine that is slow, or has other work, serves its load later; a fault that waits for calm comes later then, and
meets a service that runs.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from chaos.cluster.cluster import ClusterFailed
from chaos.history.event import Event, Fault, HandedOver
from chaos.history.history import History

#: So long without a hand-over, and the service will not come back by itself.
SILENT_S: Final = 60.0


class Service:
    """For a load of `rate` messages a second (0: none; then it is always calm), recorded in `history`. Hand-overs count
    while `serves` says that a node leads that no fault holds: a killed leader's last ones are still on their way."""

    def __init__(self, history: History, rate: float, serves: Callable[[], bool]) -> None:
        self._rate, self._serves = rate, serves
        self._served = 0
        self._faults = 0  # begins and ends so far
        self._news = asyncio.Event()
        history.listen(self._see)

    def _see(self, event: Event) -> None:
        if isinstance(event, HandedOver):
            self._served += self._serves()
        elif isinstance(event, Fault):
            self._faults += 1
        else:
            return
        self._news.set()

    async def served(self, count: int, silent_s: float = SILENT_S) -> None:
        """Until so many more messages were handed over. Raises ClusterFailed when none is for `silent_s`."""
        until = self._served + count
        while self._served < until:
            await self._more(silent_s)

    async def calm(self, seconds: float, *, waits: Callable[[], bool] = lambda: False) -> None:
        """Until as many messages were handed over as are offered in so many seconds, and no fault began or ended
        meanwhile; not while `waits`. Raises ClusterFailed when nothing is handed over for SILENT_S."""
        count = round(seconds * self._rate)
        faults, since = self._faults, self._served
        while waits() or self._served - since < count:
            await self._more(SILENT_S)
            if faults != self._faults or waits():
                faults, since = self._faults, self._served

    async def _more(self, silent_s: float) -> None:
        """Returns with the next hand-over, or fault. Raises ClusterFailed after `silent_s` without one."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), silent_s)
        except TimeoutError:
            raise ClusterFailed(f"no hand-over for {silent_s:g} s, after {self._served}") from None
