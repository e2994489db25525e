"""Pulls that wait for a topic which does not exist yet. A worker may start before the first message names its topic."""

from __future__ import annotations

import asyncio
from functools import partial

from api.port.loop_turn import Crowd


def wake(waiter: asyncio.Future[None]) -> None:
    """End a wait by its future. If the wait has ended already, do nothing."""
    if not waiter.done():
        waiter.set_result(None)


class TopicWaits:
    """The pulls of one term that wait for a topic which does not exist, by the topic's name."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[str, dict[asyncio.Future[None], None]] = {}

    async def wait(self, name: str, left_s: float) -> None:
        """Wait until a topic of this name is created, `left_s` have passed, or the term ends."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters = self._waiters.setdefault(name, {})
        waiters[waiter] = None
        timer = self._loop.call_later(left_s, wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            del waiters[waiter]
            if not waiters and self._waiters.get(name) is waiters:
                del self._waiters[name]

    def created(self, name: str) -> None:
        """Wake the pulls that wait for this topic."""
        for waiter in self._waiters.get(name, ()):
            self._crowd.add(partial(wake, waiter))

    def end(self) -> None:
        """Wake all pulls, because the term is over."""
        for name in self._waiters:
            self.created(name)
