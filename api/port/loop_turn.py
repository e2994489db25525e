"""Turns on the loop. Long work gives the loop back between its pieces. Of thousands of short tasks, a few begin or end
in each round of the loop.

Heartbeats, deliveries and all other clients wait while one callback runs. A loop that is held for 0.25 s ends a
leader's trust, and one held for 0.4 s brings an election. A client or the store may decide the size of some work. Such
work calls `give_way` between pieces of at most a millisecond or two. Work that cannot be cut into pieces goes to a
thread.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from typing import Final, TypeVar
from weakref import WeakValueDictionary

#: The loop is held for no longer than this and one piece of the work.
HELD_MAX_S: Final = 0.002
#: Tasks of a crowd that are woken at a time. A task takes 0.1 to 0.2 ms, with its answer.
CROWD_A_TURN: Final = 8
#: Closed connections that end at a time, 0.05 ms each.
CLOSED_A_TURN: Final = 24

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""Work that stops after each piece of at most a millisecond or two, and returns its result in the end."""


class Line:
    """Tasks that want the loop, in order. Each round of the loop lets as many of them run as there is time for:
    HELD_MAX_S.

    Tasks that have not begun wait here for a turn, and so do tasks that gave the loop back and want to go on. So ten
    large requests hold the loop for as long as one. Before, 500 requests in one moment for a message of 256 KB held it
    for seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._round_s: float | None = None  # when the first of this round began; None: none did
        self._began = 0  # how many did in this round
        self._coming = False  # true if the next round is scheduled
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._woken = 0  # woken tasks that have not checked yet if there is time
        self._passed_over = 0  # tasks that found no time in this round

    def begins(self) -> bool:
        """True if no task waits and this round has time for one more task. If True, the caller's turn has begun."""
        return not (self._waiting or self._woken) and self._has_time()

    async def turn(self, *, goes_on: bool = False) -> None:
        """Wait until a round has time for one more task. `goes_on`: the task has held the loop already, so the tasks
        that wait have their turn before it."""
        if not goes_on and self.begins():
            return
        at = len(self._waiting)
        while True:
            mine = self._loop.create_future()
            self._waiting.insert(at, mine)
            self._come()
            try:
                await mine
            finally:
                self._woken -= mine.done() and not mine.cancelled()
            if self._has_time():
                return
            at, self._passed_over = self._passed_over, self._passed_over + 1

    def _has_time(self) -> bool:
        now_s = self._loop.time()
        if self._round_s is None:
            self._round_s = now_s
            self._come()
        elif now_s - self._round_s >= HELD_MAX_S:
            return False
        self._began += 1
        return True

    def _come(self) -> None:
        if not self._coming:
            self._coming = True
            self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        """Begin a round: wake twice as many tasks as the last round had time for. A woken task that finds no time left
        waits again, before all tasks that were not woken."""
        count = max(4, 2 * self._began)
        self._round_s, self._began, self._passed_over, self._coming = None, 0, 0, False
        while self._waiting and count:
            first = self._waiting.popleft()
            if not first.done():  # cancelled
                first.set_result(None)
                self._woken += 1
                count -= 1
        if self._waiting or self._woken:
            self._come()


_lines: WeakValueDictionary[int, Line] = WeakValueDictionary()
"""The line of each loop, by the loop's id. A line keeps its loop alive. It is freed when no task has a turn or waits,
and no round is scheduled. A new line is then as good."""


class LoopTurn:
    """The turn of one piece of work: how long it has held the loop. Make it when the work begins, inside a
    coroutine."""

    __slots__ = ("_began_s", "_line", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line = _lines.get(id(self._loop)) or _lines.setdefault(id(self._loop), Line(self._loop))
        self.begin_anew()

    async def give_way(self) -> None:
        """Wait for the next turn, if the work has held the loop for `HELD_MAX_S`. Facts from before the call may have
        changed after it."""
        if self._loop.time() - self._began_s >= HELD_MAX_S:
            await self._line.turn(goes_on=True)
            self.begin_anew()

    def begin_anew(self) -> None:
        """Count the turn from now, because the work has waited and others have had the loop."""
        self._began_s = self._loop.time()


class Crowd:
    """A queue of calls that come by the thousand at once, each of which wakes a task. A few of them run each time the
    loop comes round.

    A client that closes 8,000 polls in one moment would otherwise hold the loop for more than a second. `give_way` does
    not help here, because each piece is a task of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, a_turn: int = CROWD_A_TURN) -> None:
        self._loop = loop
        self._a_turn = a_turn
        self._calls: OrderedDict[Callable[[], object], None] = OrderedDict()  # popped in front; a dict would search
        self._coming = False  # true if the next few are scheduled

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Callable[[], object]) -> None:
        """Call `call` in one of the next rounds of the loop, after the calls that were added before it. A call that
        still waits is not added again."""
        self._calls[call] = None
        if not self._coming:
            self._coming = True
            self._loop.call_soon(self._some)

    def remove(self, call: Callable[[], object]) -> None:
        """Take `call` out of the queue, if it is still there."""
        self._calls.pop(call, None)

    def few(self) -> int:
        """Return how many calls run in this round of the loop."""
        return self._a_turn

    def _some(self) -> None:
        try:
            for _ in range(min(self.few(), len(self._calls))):
                self._calls.popitem(last=False)[0]()
        finally:
            self._coming = bool(self._calls)
            if self._coming:
                self._loop.call_soon(self._some)


async def in_turns(work: Pieces[T]) -> T:
    """Do the work piece by piece, and let others have the loop in between. Return its result."""
    turn = LoopTurn()
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await turn.give_way()
