"""Bounds how many expensive answers are made at once. Their work uses one core at most. The answers are made one after
the other, or a piece of each in turn.

More requests may wait than are being answered. A request that waits for its beginning costs nothing, while a refused
client asks again at once. 32 clients that searched without end were refused 2,800 times a second, which took more time
than their searches.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.port.problem import Problem


class OneAtATime:
    """Admits at most `most` requests, those that wait included, and answers `at_once` of them at a time. `what` is a
    plural noun for the answers, which a refusal uses.
    """

    def __init__(self, what: str, most: int, at_once: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._begun = asyncio.Semaphore(at_once)
        self._taken = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[asyncio.Lock]:
        """Wait until fewer than `at_once` requests are being answered. This one then counts as being answered until the
        block ends.

        The caller takes the lock that this yields, for each piece of its work. So requests take turns, and a small one
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
