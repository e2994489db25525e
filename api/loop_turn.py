"""Work on the loop in turns: what takes long gives the loop back between its pieces.

Heartbeats, hand-overs and all other clients wait while one callback runs: 0.25 s end a leader's trust, 0.4 s bring an
election. So whoever does work whose size a client or the store decides asks `give_way` between pieces of at most a
millisecond or two; what cannot be cut into pieces goes to a thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

#: The loop is held for no longer; a piece of the work comes on top.
HELD_MAX_S: Final = 0.004
#: Tasks of a crowd that are woken at a time; one takes 0.1 to 0.2 ms, with its answer.
CROWD_A_TURN: Final = 16

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""Work that stops after each piece of at most a millisecond or two, and returns its result in the end."""


class _Line:
    """Those who gave the loop back and want it again: one goes on each time the loop comes round, so that ten large
    requests hold it for as long as one does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Until all before this one have had theirs."""
        mine = self._loop.create_future()
        if not self._waiting:
            self._loop.call_soon(self._next)
        self._waiting.append(mine)
        await mine

    def _next(self) -> None:
        first = self._waiting.popleft()
        if not first.done():  # cancelled
            first.set_result(None)
        if self._waiting:
            self._loop.call_soon(self._next)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


class LoopTurn:
    """The turn of one piece of work; made when it begins."""

    __slots__ = ("_began_s", "_line", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line = _lines.get(self._loop) or _lines.setdefault(self._loop, _Line(self._loop))
        self._began_s = self._loop.time()

    async def give_way(self) -> None:
        """Let all others run, if the loop has been held for `HELD_MAX_S`. What was true before may not be after."""
        if self._loop.time() - self._began_s >= HELD_MAX_S:
            await self._line.turn()
            self._began_s = self._loop.time()


class Crowd:
    """Calls that come by the thousand at once, each of which wakes a task: a few each time the loop comes round.

    A client that closes 8,000 polls in one moment would hold the loop for more than a second otherwise: nothing is cut
    into pieces where each piece is a task of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], object]] = deque()

    def add(self, call: Callable[[], object]) -> None:
        """To be called soon, after those before it."""
        if not self._calls:
            self._loop.call_soon(self._some)
        self._calls.append(call)

    def _some(self) -> None:
        for _ in range(min(CROWD_A_TURN, len(self._calls))):
            self._calls.popleft()()
        if self._calls:
            self._loop.call_soon(self._some)


async def in_turns(work: Pieces[T]) -> T:
    """Do it piece by piece, others in between."""
    turn = LoopTurn()
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await turn.give_way()
