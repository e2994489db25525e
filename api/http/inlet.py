"""The protocol of a client's socket: it reads in pieces, and makes the parser when the client asks for something.

aiohttp's protocol comes with a parser and a task. It is made with the first byte: an idle connection costs a fifth of
the time without them. A body of known length is read in large pieces, to its end and no further, since its bytes only
have to be kept. All else is read in small ones: 256 KB may hold 43,000 chunks, or 4,000 requests of which eight are
parsed and the rest is held.
After a full piece the connection waits until the loop has come round, and others have read theirs.

Thousands may connect in one moment. Connections from before go on, and the new ones begin a few at a time. A request
for the node's health begins at once: a load balancer would take the node for dead.
"""

import asyncio
from typing import Final, Protocol, cast

from api.http.answering import Refuse
from api.http.connection import Connection
from api.http.connection_keeper import ConnectionKeeper
from api.http.stage import HEADER_MAX_S, Stage
from api.port.loop_turn import Crowd

#: Read at once of a body whose bytes only have to be kept, and of all else.
LARGE_BYTES: Final = 256 * 1024
SMALL_BYTES: Final = 4 * 1024
#: Who waits for its turn to begin keeps nobody waiting, and is the last that makes room for others.
_NO_TIME_S: Final = float("inf")


class Room(ConnectionKeeper, Protocol):
    """What an inlet may ask of whoever keeps all connections (listener.py). `opened`: those of which the client has
    asked for nothing yet, the oldest first. `small` and `large`: what all of them read into. `health`: how requests
    begin that wait for nobody."""

    loop: asyncio.AbstractEventLoop
    opened: "dict[Inlet, None]"
    small: memoryview
    large: memoryview
    refuse: Refuse
    health: tuple[bytes, ...]

    @property
    def beginnings(self) -> Crowd:
        """Connections that ask for something for the first time, a few at a time."""

    @property
    def readings(self) -> Crowd:
        """Connections that have sent more than is read at once."""

    def admits(self) -> bool:
        """Whether there is room for one more connection, if need be in place of another."""

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Tell a client that there is no room, and close."""


class Inlet(asyncio.BufferedProtocol):
    """Of one client. It counts as a connection itself until it has one."""

    __slots__ = ("_first", "_into", "_room", "_transport", "connection", "since_s")

    stage: Final = Stage.OPENED

    def __init__(self, room: Room) -> None:
        self._room = room
        self._transport: asyncio.Transport | None = None  # of a client that was admitted
        self._into = room.small
        self._first = b""  # the client's first piece, while it waits for its turn to begin
        self.connection: Connection | None = None
        self.since_s = 0.0  # loop time at which it was opened, while nothing was asked

    # -- what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected. One too many is told so and closed."""
        room, opened = self._room, cast(asyncio.Transport, transport)
        if not room.admits():
            room.turn_away(opened)
            return
        self._transport = opened
        self.since_s = room.loop.time()
        room.budget.connections += 1
        room.opened[self] = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is closed, by whomever."""
        connection, self.connection = self.connection, None
        self._forget()
        if self._transport is not None:
            self._room.budget.connections -= 1
            self._room.opened.pop(self, None)
            self._transport = None
        if connection is not None:
            connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next piece goes. All connections share it: it is taken before another one is read."""
        connection, room = self.connection, self._room
        kept = connection.only_kept(LARGE_BYTES) if connection is not None else 0
        self._into = room.large[:kept] if kept > SMALL_BYTES else room.small
        return self._into

    def buffer_updated(self, nbytes: int) -> None:
        """A piece has come, of so many bytes. A full one has more behind it."""
        piece = bytes(self._into[:nbytes])
        if self.connection is not None:
            self._take(self.connection, piece)
        elif self._transport is not None:
            self._first = piece
            if piece.startswith(self._room.health):
                self._begin()
            else:
                self._transport.pause_reading()
                self.since_s = _NO_TIME_S
                self._room.beginnings.add(self._begin)

    def _begin(self) -> None:
        """Its turn has come; who has gone meanwhile is forgotten."""
        if self.may_go():
            piece, self._first = self._first, b""
            connection = self.make_connection()
            if not self._take(connection, piece):
                connection.read_on()

    def _take(self, connection: Connection, piece: bytes) -> bool:
        """Parse it; whether the connection now waits for others to read."""
        connection.more = len(piece) in (SMALL_BYTES, LARGE_BYTES)
        connection.data_received(piece)
        waits = connection.more and (len(piece) == LARGE_BYTES or not connection.only_kept(1))
        if waits and connection.hold_reading():
            self._room.readings.add(self._read_on)
        return waits

    def _read_on(self) -> None:
        """Its turn to read has come, after a full piece."""
        if self.connection is not None:
            self.connection.read_on()
            if self.connection.ended is not None:
                self._room.watch.again(self.connection)

    def eof_received(self) -> bool:
        """The client has sent all that it will. Where it has asked for nothing it is closed, soon."""
        if self.connection is not None:
            return self.connection.eof_received()
        self._room.closings.add(self._close)
        return True

    def make_connection(self) -> Connection:
        """From now on its requests are parsed and answered."""
        assert self._transport is not None, "a client that was not admitted asks for nothing"
        del self._room.opened[self]
        self.connection = Connection(self._room, self._room.refuse)
        self.connection.connection_made(self._transport)
        return self.connection

    # -- what goes

    def pause_writing(self) -> None:
        """The socket takes no more."""
        if self.connection is not None:
            self.connection.pause_writing()

    def resume_writing(self) -> None:
        """It has taken all."""
        if self.connection is not None:
            self.connection.resume_writing()

    # -- how it ends, as long as nothing was asked for

    def asks_nothing(self) -> bool:
        """Whether no part of a request is here."""
        return not self._first

    def may_go(self) -> bool:
        """Whether it may make room for another."""
        return self.connection is None and self._transport is not None and not self._transport.is_closing()

    def make_room(self) -> None:
        """Close it for another; who waits to begin is told why."""
        if self._first and self._transport is not None:
            self._transport.write(self._room.refuse(self._room.budget.full()).whole())
        self._close()

    def end(self) -> None:
        """The server ends: close it, but begin what waits for its turn, so that it is answered."""
        if self._first:
            self._begin()
        else:
            self._close()

    def close_overdue(self, now_s: float) -> None:
        """Close it if nothing was asked for too long."""
        if now_s > self.since_s + HEADER_MAX_S and not self._first:
            self._close()

    def _close(self) -> None:
        self._forget()
        if self.connection is None and self._transport is not None:
            self._transport.close()

    def _forget(self) -> None:
        """It begins nothing any more: a turn is for who is there, and nobody counts the piece."""
        if self._first:
            self._first = b""
            self._room.beginnings.remove(self._begin)
