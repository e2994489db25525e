"""Work on the loop in turns: what takes long gives the loop back between its pieces.

Heartbeats, hand-overs and all other clients wait while one callback runs: 0.25 s end a leader's trust, 0.4 s bring an
election. So whoever does work whose size a client or the store decides asks `give_way` between pieces of at most a
millisecond or two; what cannot be cut into pieces goes to a thread.
"""

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

#: The loop is held for no longer; a piece of the work comes on top.
HELD_MAX_S: Final = 0.004

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""Work that stops after each piece of at most a millisecond or two, and returns its result in the end."""


class LoopTurn:
    """The turn of one piece of work; made when it begins."""

    __slots__ = ("_began_s", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()

    async def give_way(self) -> None:
        """Let all others run, if the loop has been held for `HELD_MAX_S`. What was true before may not be after."""
        if self._loop.time() - self._began_s >= HELD_MAX_S:
            await asyncio.sleep(0)
            self._began_s = self._loop.time()


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
