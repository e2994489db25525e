"""Expensive answers are made with one core at most, by one after the other or by all in turn, and only so many requests
may be under way."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.problem import Problem


class Turns:
    """At most `most` requests under way; `what` they make, in the plural, is what a refusal says."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self._turn = asyncio.Lock()
        self._taken = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[asyncio.Lock]:
        """Under way until it is left. Each piece of the work is done inside what this yields, in turn with those of
        others: so a small answer is soon made beside large ones. Raises Problem `over-limit` where too many are."""
        if self._taken >= self._most:
            raise Problem("over-limit", f"{self._taken} {self._what} are being made, as many as may; ask again later")
        self._taken += 1
        try:
            yield self._turn
        finally:
            self._taken -= 1

    @asynccontextmanager
    async def mine(self) -> AsyncGenerator[None]:
        """Inside, no other request is at work. Raises Problem `over-limit` where too many are before it."""
        async with self.shared() as turn, turn:
            yield
