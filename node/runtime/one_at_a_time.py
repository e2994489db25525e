"""Expensive answers are made with one core at most, one after the other or all in turn. Their number under way is
bounded.

More requests may wait than may be under way. To wait before the beginning costs nothing, while a refused client asks
again at once. 32 clients that searched without end were refused 2,800 times a second, which took more than their
searches.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.port.problem import Problem


class OneAtATime:
    """At most `most` requests that wait or are under way, `at_once` of them under way. `what` they make, in the plural,
    is for the text of a refusal."""

    def __init__(self, what: str, most: int, at_once: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._begun = asyncio.Semaphore(at_once)
        self._taken = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[asyncio.Lock]:
        """Be under way until it is left. The caller does each piece of the work inside the lock that this yields, in
        turn with others. So a small answer is soon made beside large ones. Raises Problem `over-limit` where too many
        are."""
        if self._taken >= self._most:
            raise Problem("over-limit", f"{self._taken} {self._what} are being made, as many as may; ask again later")
        self._taken += 1
        try:
            async with self._begun:
                yield self._turn
        finally:
            self._taken -= 1
