"""Expensive answers are made one at a time, and only so many requests may wait for theirs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.problem import Problem


class Turns:
    """At most `most` requests at work or waiting; `what` they make, in the plural, is what a refusal says."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._taken = 0

    @asynccontextmanager
    async def mine(self) -> AsyncGenerator[None]:
        """Inside, no other request is at work. Raises Problem `over-limit` where too many are before it."""
        if self._taken >= self._most:
            raise Problem("over-limit", f"{self._taken} {self._what} are being made, as many as may; ask again later")
        self._taken += 1
        try:
            async with self._turn:
                yield
        finally:
            self._taken -= 1
