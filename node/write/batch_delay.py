"""Decides if the leader waits a moment before it proposes, so that requests which its own answers will bring go in the
same entry.

Clients that send one message and wait for its answer come in two waves. While an entry of one wave is written, the
other wave comes and is proposed right after it. An entry costs every node about as much as twenty messages, so two half
entries cost more than a whole one. So after an entry that answered a suitable number of requests, the next one waits
for at most `GATHER_S`. It waits until as many requests are there as were answered by that entry and waited at its end,
together. A single client is never waited for, because its next request is all that can come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: The longest wait: enough for 64 clients on a busy computer, where to write their answers takes a millisecond.
GATHER_S: Final = 0.004
#: Numbers of requests for which it waits. With fewer there is no load. With more an entry's own cost does not matter.
GATHER_REQUESTS: Final = range(8, 1_000)


class BatchDelay:
    """Decides if the next entry waits for more requests, and for how many. `flush` is called when the entry has waited
    for GATHER_S."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, answered: int, waiting: int) -> bool:
        """Decide if the next entry waits, after an entry that answered `answered` requests of one message each.
        `waiting` is how many requests wait now. Return True if the next entry waits for more."""
        wanted = answered + waiting
        if not answered or wanted not in GATHER_REQUESTS:
            return False
        self._wanted = wanted
        self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._over)
        return True

    def waits(self, waiting: int) -> bool:
        """True if the next entry, for which `waiting` requests are there, should still wait."""
        return waiting < self._wanted

    def _over(self) -> None:
        self.end()
        self._flush()

    def end(self) -> None:
        """Stop waiting, because an entry is proposed or leadership is over."""
        self._wanted = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
