"""The service as its load sees it, and how long it has been calm. A fault of a plan can wait for calm instead of a
time.

A machine that is slow, or has other work, serves its load later. A fault that waits for calm then comes later too, and
hits a service that runs.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from chaos.cluster.cluster import ClusterFailed
from chaos.history.event import Event, Fault, HandedOver
from chaos.history.history import History

#: After this long without a hand-over the service will not come back by itself.
SILENT_S: Final = 60.0


class Service:
    """Counts the hand-overs in `history`, to tell when the service is calm. `rate` is the number of messages a second
    that the load offers (0: no load, so it is always calm). Hand-overs count only while `serves` says that a node leads
    that no fault holds. The last hand-overs of a killed leader, which are still on their way then, do not count."""

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
        """Wait for `count` more hand-overs. Raises ClusterFailed when none comes for `silent_s`."""
        until = self._served + count
        while self._served < until:
            await self._more(silent_s)

    async def calm(self, seconds: float, *, waits: Callable[[], bool] = lambda: False) -> None:
        """Wait until as many messages were handed over as are offered in `seconds`, and no fault began or ended
        meanwhile. While `waits` returns True, the service does not count as calm. Raises ClusterFailed when nothing is
        handed over for SILENT_S."""
        count = round(seconds * self._rate)
        faults, since = self._faults, self._served
        while waits() or self._served - since < count:
            await self._more(SILENT_S)
            if faults != self._faults or waits():
                faults, since = self._faults, self._served

    async def _more(self, silent_s: float) -> None:
        """Return at the next hand-over, or begin or end of a fault. Raises ClusterFailed after `silent_s` without
        one."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), silent_s)
        except TimeoutError:
            raise ClusterFailed(f"no hand-over for {silent_s:g} s, after {self._served}") from None
