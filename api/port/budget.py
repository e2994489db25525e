"""Bounds on what all connections of a node hold together. They count connections and bytes: of bodies under way, of
their parsed parts, and of unread answers."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from api.port.problem import Problem

CONNECTIONS_MAX: Final = 10_000
BYTES_MAX: Final = 256 * 1024 * 1024
#: Smaller bodies are not counted, so requests that settle messages go on when the budget is used up.
UNCOUNTED_BYTES: Final = 4_096
#: Bound on the parsed parts of large batches, which is also at most 1/PARSED_SHARE of all bytes. One loop writes them,
#: one after the other.
PARSED_MAX: Final = 12 * 1024 * 1024
PARSED_SHARE: Final = 4
#: Unread answers may hold one part in this many of all bytes. Beyond that, the connection whose answer is unread for
#: longest is closed.
UNREAD_SHARE: Final = 2
#: Look-ups of messages at a time. Each holds its message while it waits for its next turn.
LOOK_UPS_MAX: Final = 32
#: Smaller parsed parts do not wait until large ones are done, so small batches do not stand behind large ones.
ROOM_FREE_BYTES: Final = 1024 * 1024


class Room:
    """A number of bytes that tasks share. They take bytes in the order in which they ask, and wait while too few are
    left. A task that asks for more than the whole number takes all bytes, so no other task has any meanwhile."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are left, and take them until the block ends."""
        size = min(size, self._size)
        if self._waiting or size > self._left:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, mine))
            try:
                await mine
            except asyncio.CancelledError:
                self._give(0 if mine.cancelled() else size)
                raise
        else:
            self._left -= size
        try:
            yield
        finally:
            self._give(size)

    def _give(self, size: int) -> None:
        self._left += size
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= self._left):
            wanted, first = self._waiting.popleft()
            if not first.done():  # cancelled
                self._left -= wanted
                first.set_result(None)


class Budget:
    """The budget of a node. Invariant: `held_bytes` is the sum of the bytes counted and not given back.

    - `connections`: the number of open ones. The listener counts them.
    - `refused`: the number of `busy` answers.
    - `look_ups`: a semaphore that each look-up of a message holds, so that at most LOOK_UPS_MAX run at a time.
    """

    def __init__(self, bytes_max: int = BYTES_MAX, connections_max: int = CONNECTIONS_MAX) -> None:
        self.bytes_max = bytes_max
        self.connections_max = connections_max
        self.held_bytes = 0
        self.unread_bytes = 0  # of these, answers
        self.connections = 0
        self.refused = 0
        self.look_ups = asyncio.Semaphore(LOOK_UPS_MAX)
        self._parsed = Room(min(PARSED_MAX, bytes_max // PARSED_SHARE))

    def take(self, size: int) -> None:
        """Count `size` more bytes. Raises `busy` if they would be too many in all, and counts none of them then."""
        if self.held_bytes + size > self.bytes_max:
            self.refused += 1
            raise Problem(
                "busy",
                f"requests and answers of this node's clients hold {self.held_bytes} bytes, {self.bytes_max} is the "
                "most; send less at once, read what is answered, or use another node",
            )
        self.held_bytes += size

    def give(self, size: int) -> None:
        """Give `size` bytes back."""
        self.held_bytes -= size
        assert self.held_bytes >= 0, f"{size} bytes given back, {self.held_bytes + size} held"

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count `size` bytes that are in memory already until the block ends. They are counted even if they exceed the
        bound. Later requests are then refused."""
        self.held_bytes += size
        try:
            yield
        finally:
            self.give(size)

    @asynccontextmanager
    async def parsed(self, size: int) -> AsyncIterator[None]:
        """Count the `size` bytes that parsed parts will hold, until the block ends. If they are more than
        ROOM_FREE_BYTES, first wait until other such parts leave enough of the bytes that these may hold together."""
        if size <= ROOM_FREE_BYTES:
            with self.counted(size):
                yield
        else:
            async with self._parsed.taken(size):
                with self.counted(size):
                    yield

    @contextmanager
    def unread(self, size: int) -> Iterator[None]:
        """Count an answer that its client has not read, of `size` bytes, until the block ends."""
        self.unread_bytes += size
        try:
            with self.counted(size):
                yield
        finally:
            self.unread_bytes -= size

    def is_unread(self) -> bool:
        """True if unread answers hold more than one part in UNREAD_SHARE of the bytes in the budget."""
        return self.unread_bytes > self.bytes_max // UNREAD_SHARE

    def full(self) -> Problem:
        """Return the refusal of a client that connects while there are as many connections as the bound allows."""
        self.refused += 1
        return Problem("busy", f"this node has {self.connections_max} connections, as many as it takes; use fewer")

    def figures(self) -> dict[str, int]:
        """Return the figures for GET /v1/node."""
        return {
            "connections": self.connections,
            "connections_max": self.connections_max,
            "held_bytes": self.held_bytes,
            "held_bytes_max": self.bytes_max,
            "refused": self.refused,
        }
