"""All connections of clients: which of them make room for others."""

from collections.abc import Callable
from heapq import nsmallest
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from api.budget import Budget
from api.connection import Connection, Refuse
from api.loop_turn import CLOSED_A_TURN, Crowd, Pieces
from api.stage import Stage

#: Who has asked for something makes no room for so long, if another keeps the node waiting for longer.
IDLE_LEAST_S: Final = 2.0
#: Connections looked at in a piece.
LOOK_AT: Final = 1_000
#: So many that may make room are found in one look at all.
OUT_AT: Final = 64

#: Connections, and since when each stands as it did.
Stood = list[tuple[float, Connection]]


class Listener(web.Server):
    """Makes a `Connection` for each client. Where there are as many as may be, one that keeps the node waiting makes
    room. The end of a connection ends the work for it, soon."""

    def __init__(self, handler: Callable[..., object], refuse: Refuse, budget: Budget) -> None:
        super().__init__(handler)  # type: ignore[arg-type]
        self.loop = self._loop
        #: Of waits of which nobody knows whether anybody waits.
        self.endings = Crowd(self.loop)
        #: Of connections that are closed, or whose client is gone.
        self.closings = Crowd(self.loop, CLOSED_A_TURN)
        self.budget = budget
        self._refuse = refuse
        #: Who makes room next, the first one last, and since when each stands as it did; and whose answer goes next.
        self._next_out: Stood = []
        self._next_unread: Stood = []

    def __call__(self) -> RequestHandler:
        return Connection(self, self._refuse)

    def admits(self) -> bool:
        """Whether there is room for one more connection, if need be in place of another."""
        if self.budget.connections < self.budget.connections_max:
            return True
        longest = self._take_longest()
        if longest is None:
            return False
        longest.make_room()
        return True

    def _take_longest(self) -> Connection | None:
        """Who makes room: those that ask for nothing, longest first; but who has just asked makes no room while another
        keeps the node waiting for longer. Else who sends thousands of requests but for their last byte has those
        closed that are used all the time, such as the other nodes'."""
        fresh_s = self.loop.time() - IDLE_LEAST_S

        def order(each: Connection) -> tuple[bool, float]:
            return not each.asks_nothing() or each.since_s > fresh_s, each.since_s

        return self._first(self._next_out, Connection.may_go, order)

    def unburden(self, newest: Connection) -> None:
        """Where answers that nobody reads hold too much, close who has left one unread for longest: who reads stands
        there for a moment."""
        if self.budget.is_unread():

            def leaves_unread(each: Connection) -> bool:
                return each.stage is Stage.ANSWERING and each is not newest and each.may_go()

            longest = self._first(self._next_unread, leaves_unread, lambda each: each.since_s)
            if longest is not None:
                longest.make_room()

    def _first(
        self, those: Stood, fits: Callable[[Connection], bool], order: Callable[[Connection], Any]
    ) -> Connection | None:
        """The first of those who still stand as they did. A look at all connections finds some, for who comes next
        too."""
        for looked in (False, True):
            if looked:
                fitting = (each for each in self.connections if isinstance(each, Connection) and fits(each))
                those[:] = [(each.since_s, each) for each in reversed(nsmallest(OUT_AT, fitting, order))]
            while those:
                since_s, connection = those.pop()
                if connection.since_s == since_s and fits(connection):
                    return connection
        return None

    def close_overdue(self, now_s: float) -> Pieces[None]:
        """Close connections that stood at one stage for too long."""
        for number, each in enumerate(self.connections):
            if number % LOOK_AT == LOOK_AT - 1:
                yield
            if isinstance(each, Connection):
                each.close_overdue(now_s)
