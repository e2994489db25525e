"""When the leader waits a moment for more before it proposes: small requests that its own answers are about to bring.

Clients that send one message and wait for its answer come in waves: an entry answers half of them, and the other half,
which came meanwhile, is proposed at once in another entry. An entry costs every node about as much as twenty messages,
so two halves cost more than the whole. So when the entry before answered few enough to be worth it, the next one waits
until as many are there as were answered and as wait already, for `GATHER_S` at most. A single client is never waited
for: what it sends next is all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: The longest wait: enough for 64 clients on a busy machine, whose answers alone take a millisecond to write.
GATHER_S: Final = 0.004
#: How many requests are worth a wait: fewer are no load, and more make an entry's own cost small beside theirs.
GATHER_REQUESTS: Final = range(8, 1_000)


class BatchDelay:
    """Whether the next entry waits, and for how many requests. `flush` is called when it has waited long enough."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, answered: int, waiting: int) -> bool:
        """An entry answered so many requests of one message each, and so many wait: whether the next waits for more."""
        wanted = answered + waiting
        if not answered or wanted not in GATHER_REQUESTS:
            return False
        self._wanted = wanted
        self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._over)
        return True

    def waits(self, waiting: int) -> bool:
        """Whether an entry of so many requests would still better wait."""
        return waiting < self._wanted

    def _over(self) -> None:
        self.end()
        self._flush()

    def end(self) -> None:
        """An entry is proposed, or nothing is any more."""
        self._wanted = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
