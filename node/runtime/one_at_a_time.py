"""Bounds how many expensive answers are made at once. They use one core at most, one after the other or piece by piece
in turn.

More requests may wait than are being answered. A request that waits for its beginning costs nothing, while a refused
client asks again at once. 32 clients that searched without end were refused 2,800 times a second, which took more time
than their searches.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.port.problem import Problem


class OneAtATime:
    """Admits at most `most` requests that wait or are being answered, and answers `at_once` of them at a time. `what`
    says in a refusal what is made, as a plural noun.
    """

    def __init__(self, what: str, most: int, at_once: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._begun = asyncio.Semaphore(at_once)
        self._taken = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[asyncio.Lock]:
        """Wait until fewer than `at_once` requests are being answered, and be one of them until the block is left.

        The caller holds the lock that this yields for each piece of its work. So requests take turns, and a small one
        ends soon beside large ones. Raises Problem `over-limit` if `most` are admitted already.
        """
        if self._taken >= self._most:
            raise Problem("over-limit", f"{self._taken} {self._what} are being made, as many as may; ask again later")
        self._taken += 1
        try:
            async with self._begun:
                yield self._turn
        finally:
            self._taken -= 1
