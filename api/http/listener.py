"""The keeper of all connections of clients. It decides in which order they begin, read and end, and which are closed to
admit others."""

import asyncio
from collections.abc import Callable
from heapq import nsmallest
from typing import Any, Final, cast

from aiohttp import web

from api.http.answering import Refuse
from api.http.client_protocol import LARGE_BYTES, SMALL_BYTES, ClientProtocol
from api.http.connection import Connection
from api.http.listening import ACCEPTS
from api.http.stage import LINGER_PAUSE_S, Stage
from api.http.watch import Watch
from api.port.budget import Budget
from api.port.loop_turn import CLOSED_A_TURN, Crowd, Pieces

#: A connection that began to ask for nothing within this time is not the first to be closed for another. A connection
#: that has kept the node waiting for longer is closed before it.
IDLE_LEAST_S: Final = 2.0
#: Connections that the search for overdue ones checks before it gives the loop back.
LOOK_AT: Final = 1_000
#: One pass over all connections remembers at most this many that may be closed for others.
OUT_AT: Final = 64

#: Connections that begin each time the loop comes round. Each takes 0.1 ms, and the work for its request on top.
BEGUN_A_TURN: Final = 6
#: Connections that resume reading each time the loop comes round.
READ_A_TURN: Final = 2

#: If no connection may be closed for another, the next pass over all connections comes this much later. A pass over
#: 10,000 takes a millisecond.
FULL_S: Final = 0.05
#: Turned-away clients that have a moment to read their refusal, at a time. All others are closed at once and may see a
#: reset.
TURNED_AWAY_MAX: Final = 32

#: A client's connection, before and after it asks for something.
Client = Connection | ClientProtocol
#: Connections, each with its `since_s` when it was found. If its `since_s` is another one later, it no longer counts.
Stood = list[tuple[float, Client]]


class FirstRequests(Crowd):
    """Begins connections, a few in each round of the loop. While the loop accepts as many connections as it can, only
    one begins in each round.

    Thousands of clients must be accepted faster than they connect. Otherwise a request for the node's health stands
    behind them in the kernel's backlog.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, BEGUN_A_TURN)
        self.came = 0
        """Connections since the loop came round."""

    def few(self) -> int:
        """Return how many connections begin in this round of the loop: 1 while many clients connect."""
        came, self.came = self.came, 0
        return 1 if came >= ACCEPTS else super().few()


class Listener(web.Server):
    """The keeper of all connections. If a client connects at the bound on connections, it closes one that keeps the
    node waiting, or refuses the client. When a connection is closed, the work for it ends soon after, in its turn."""

    def __init__(
        self, handler: Callable[..., object], refuse: Refuse, budget: Budget, health: tuple[bytes, ...] = ()
    ) -> None:
        """`handler` answers a request; `refuse` makes the answers to bytes that are not HTTP. `health`: the first bytes
        of requests that begin without a wait."""
        super().__init__(handler)  # type: ignore[arg-type]
        self.loop = self._loop
        #: Ends waits whose client may be gone.
        self.endings = Crowd(self.loop)
        #: Ends the work for connections that are closed, or whose client is gone.
        self.closings = Crowd(self.loop, CLOSED_A_TURN)
        #: Begins connections that ask for something for the first time.
        self.beginnings = FirstRequests(self.loop)
        #: Resumes connections that have sent more than is read at once.
        self.readings = Crowd(self.loop, READ_A_TURN)
        #: Watches connections whose requests wait, if many do.
        self.watch = Watch(self.loop)
        self.small, self.large = memoryview(bytearray(SMALL_BYTES)), memoryview(bytearray(LARGE_BYTES))
        self.budget = budget
        self.refuse = refuse
        self.health = health
        #: Connections whose client has asked for nothing yet, the oldest first.
        self.opened: dict[ClientProtocol, None] = {}
        #: The next connections to close for others, and the next to close because of an unread answer. The first stands
        #: last.
        self._next_out: Stood = []
        self._next_unread: Stood = []
        self._full_until_s = 0.0  # until then no search for a connection that may make room
        self._turned_away: set[asyncio.Transport] = set()  # closed in a moment

    def admits(self) -> bool:
        """True if one more connection may be open. To make that true, another connection may be closed."""
        self.beginnings.came += 1
        if self.budget.connections < self.budget.connections_max:
            return True
        now_s = self.loop.time()
        if now_s < self._full_until_s:
            return False
        longest = self._take_longest()
        if longest is None:
            self._full_until_s = now_s + FULL_S
            return False
        longest.make_room()
        return True

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Tell a client that the node has too many connections, and close its connection. The client has a moment to
        read the refusal. Bytes that it has sent meanwhile are dropped, because a connection closed with unread bytes is
        reset."""
        transport.write(self.refuse(self.budget.full()).whole())
        if len(self._turned_away) == TURNED_AWAY_MAX:
            transport.close()
            return
        self._turned_away.add(transport)
        transport.write_eof()
        self.loop.call_later(LINGER_PAUSE_S, self._close_turned_away, transport)

    def _close_turned_away(self, transport: asyncio.Transport) -> None:
        self._turned_away.discard(transport)
        transport.close()

    def _take_longest(self) -> Client | None:
        """Return the connection to close for another: the one that has asked for nothing for longest. None if none may
        be closed.

        A connection that has asked for nothing for less than IDLE_LEAST_S counts among those that ask for something. If
        all do, the one whose stage or wait began first is taken. Otherwise a client with thousands of requests that
        lack their last byte would close connections in steady use, such as other nodes'.
        """
        fresh_s = self.loop.time() - IDLE_LEAST_S

        def order(each: Client) -> tuple[bool, float]:
            return not each.asks_nothing() or each.since_s > fresh_s, each.since_s

        return self._first(self._next_out, lambda each: each.may_go(), order)

    def unburden(self, newest: object) -> None:
        """If unread answers hold too much memory, close the connection whose answer is unread for longest, but not
        `newest`. A client that reads its answers is at the stage ANSWERING for a moment only."""
        if self.budget.is_unread():

            def leaves_unread(each: Client) -> bool:
                return each.stage is Stage.ANSWERING and each is not newest and each.may_go()

            longest = self._first(self._next_unread, leaves_unread, lambda each: each.since_s)
            if longest is not None:
                longest.make_room()

    def _first(self, those: Stood, fits: Callable[[Client], bool], order: Callable[[Client], Any]) -> Client | None:
        """Return the first connection of `those` that `fits` and has the same stage and wait as when it was found. If
        there is none, fill `those` in one pass over all connections, sorted by `order`, and look again. Later calls use
        the rest. None if no connection fits."""
        for looked in (False, True):
            if looked:
                fitting = (each for each in self._all() if fits(each))
                those[:] = [(each.since_s, each) for each in reversed(nsmallest(OUT_AT, fitting, order))]
            while those:
                since_s, connection = those.pop()
                if connection.since_s == since_s and fits(connection):
                    return connection
        return None

    def _all(self) -> list[Client]:
        return [*self.opened, *cast(list[Connection], self.connections)]

    def close_overdue(self, now_s: float) -> Pieces[None]:
        """Close connections that stood at one stage for too long. `now_s` is the loop's time."""
        for number, each in enumerate(self._all()):
            if number % LOOK_AT == LOOK_AT - 1:
                yield
            each.close_overdue(now_s)

    def pre_shutdown(self) -> None:
        """Close connections that ask for nothing. A client that waits to begin, or sends a body, still gets an
        answer."""
        for transport in list(self._turned_away):
            self._close_turned_away(transport)
        for each in list(self.opened):
            each.end()
        for connection in cast(list[Connection], self.connections):
            if connection.stage in (Stage.READING, Stage.LINGERING):
                connection.refuse_body()
            else:
                connection.close()
