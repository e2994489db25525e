"""When the leader waits a moment before it proposes: for small requests that its own answers are about to bring.

Clients that send one message and wait for its answer come in waves. An entry answers half of them. The other half came
meanwhile and is proposed at once in another entry. An entry costs every node about as much as twenty messages, so two
halves cost more than the whole. So after an entry that answered few enough requests, the next one waits, for `GATHER_S`
at most. It waits for as many requests as were answered and as wait already. A single client is never waited for,
because its next request is all that can come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: The longest wait: enough for 64 clients on a busy machine, whose answers alone take a millisecond to write.
GATHER_S: Final = 0.004
#: How many requests are worth a wait. Fewer are no load. More make an entry's own cost small beside theirs.
GATHER_REQUESTS: Final = range(8, 1_000)


class BatchDelay:
    """Says if the next entry waits, and for how many requests. `flush` is called when it has waited long enough."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, answered: int, waiting: int) -> bool:
        """Begin after an entry that answered so many requests of one message each, while so many wait. True if the next
        entry waits for more."""
        wanted = answered + waiting
        if not answered or wanted not in GATHER_REQUESTS:
            return False
        self._wanted = wanted
        self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._over)
        return True

    def waits(self, waiting: int) -> bool:
        """True if an entry of so many requests should still wait."""
        return waiting < self._wanted

    def _over(self) -> None:
        self.end()
        self._flush()

    def end(self) -> None:
        """Wait no more. An entry is proposed, or no entry is proposed any more."""
        self._wanted = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
