"""Expensive answers are made with one core at most, by one after the other or by all in turn, and only so many requests
may be under way.

More of them wait before they begin, which costs nothing, than are under way: who is refused asks again at once. 32
clients that searched without end were refused 2,800 times a second, which took more than their searches.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.port.problem import Problem


class OneAtATime:
    """At most `most` requests that wait or are under way, `at_once` of them under way; `what` they make, in the plural,
    is what a refusal says."""

    def __init__(self, what: str, most: int, at_once: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._begun = asyncio.Semaphore(at_once)
        self._taken = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[asyncio.Lock]:
        """Under way until it is left. Each piece of the work is done inside what this yields, in turn with those of
        others: so a small answer is soon made beside large ones. Raises Problem `over-limit` where too many are."""
        if self._taken >= self._most:
            raise Problem("over-limit", f"{self._taken} {self._what} are being made, as many as may; ask again later")
        self._taken += 1
        try:
            async with self._begun:
                yield self._turn
        finally:
            self._taken -= 1
