"""The protocol of a client's socket. It reads in pieces, and makes the connection when the client asks for something.

A `Connection` is aiohttp's protocol, with a parser and a task. It is made with the client's first byte. A client that
asks for nothing has no `Connection`, and costs a fifth of the time that it would cost with one. A body of known length
is read in large pieces, to its end and no further, because its bytes are only stored and not parsed. Everything else is
read in small pieces. 256 KB may hold 43,000 chunks, or 4,000 requests of which eight are parsed and the rest is held. A
piece is what one read of the socket brings; a full piece fills the buffer. After a full piece the connection waits for
its turn, so that other connections can read their pieces first.

Thousands may connect in one moment. Older connections go on, and the first requests of the new ones begin a few at a
time. A request for the node's health begins at once. Otherwise a load balancer would take the node for dead.
"""

import asyncio
from typing import Final, Protocol, cast

from api.http.answering import Refuse
from api.http.connection import Connection
from api.http.connection_keeper import ConnectionKeeper
from api.http.stage import HEADER_MAX_S, Stage
from api.port.loop_turn import Crowd

#: Bytes read at once: large pieces of a body that is only stored, small pieces of everything else.
LARGE_BYTES: Final = 256 * 1024
SMALL_BYTES: Final = 4 * 1024
#: `since_s` of a client whose first request waits for its turn. The node keeps that client waiting, not the other way
#: round. So it is the last one to be closed for another.
_NO_TIME_S: Final = float("inf")


class Room(ConnectionKeeper, Protocol):
    """The keeper of all connections (listener.py), as a `ClientProtocol` sees it.

    - `opened`: connections whose client has asked for nothing yet, the oldest first.
    - `small` and `large`: the common buffers that all connections read into.
    - `refuse`: makes the answers to bytes that are not HTTP, and to clients that are not admitted.
    - `health`: the first bytes of requests that begin without a wait.
    """

    loop: asyncio.AbstractEventLoop
    opened: "dict[ClientProtocol, None]"
    small: memoryview
    large: memoryview
    refuse: Refuse
    health: tuple[bytes, ...]

    @property
    def beginnings(self) -> Crowd:
        """The queue of connections whose client asks for something for the first time. A few begin in each round of the
        loop."""

    @property
    def readings(self) -> Crowd:
        """The queue of connections that sent a full piece. A few read on in each round of the loop."""

    def admits(self) -> bool:
        """True if one more connection may be open. To make that true, another connection may be closed."""

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Tell a client that the node has too many connections, and close its connection."""


class ClientProtocol(asyncio.BufferedProtocol):
    """The protocol of one client's socket; asyncio calls it. It makes a `Connection` for the client's first request,
    and passes all bytes to it. Before that request, the keeper treats this object like a connection: it has a stage,
    and can be closed to admit another client."""

    __slots__ = ("_first", "_into", "_room", "_transport", "connection", "since_s")

    stage: Final = Stage.OPENED

    def __init__(self, room: Room) -> None:
        self._room = room
        self._transport: asyncio.Transport | None = None  # of a client that was admitted
        self._into = room.small
        self._first = b""  # the client's first piece, while it waits for its turn to begin
        self.connection: Connection | None = None
        self.since_s = 0.0  # loop time at which it was opened, until a request comes

    # -- what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a client has connected. If the node has too many connections, the client gets a refusal, and its
        socket is closed."""
        room, opened = self._room, cast(asyncio.Transport, transport)
        if not room.admits():
            room.turn_away(opened)
            return
        self._transport = opened
        self.since_s = room.loop.time()
        room.budget.connections += 1
        room.opened[self] = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called when the socket is closed, by either side. Ends the connection and counts it no more."""
        connection, self.connection = self.connection, None
        self._forget()
        if self._transport is not None:
            self._room.budget.connections -= 1
            self._room.opened.pop(self, None)
            self._transport = None
        if connection is not None:
            connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next piece. All connections share it, because each piece is taken before the next
        is read."""
        connection, room = self.connection, self._room
        kept = connection.only_kept(LARGE_BYTES) if connection is not None else 0
        self._into = room.large[:kept] if kept > SMALL_BYTES else room.small
        return self._into

    def buffer_updated(self, nbytes: int) -> None:
        """Take a piece of `nbytes` bytes from the buffer. A client's first piece waits for its turn, unless it asks for
        the node's health."""
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
        """Make the connection and parse the first piece, now that its turn has come. Do nothing if the client has gone
        meanwhile."""
        if self.may_go():
            piece, self._first = self._first, b""
            connection = self.make_connection()
            if not self._take(connection, piece):
                connection.read_on()

    def _take(self, connection: Connection, piece: bytes) -> bool:
        """Give the piece to the connection. True if the connection now waits, after a full piece, until others have
        read."""
        connection.more = len(piece) in (SMALL_BYTES, LARGE_BYTES)
        connection.data_received(piece)
        waits = connection.more and (len(piece) == LARGE_BYTES or not connection.only_kept(1))
        if waits and connection.hold_reading():
            self._room.readings.add(self._read_on)
        return waits

    def _read_on(self) -> None:
        """Resume reading after a full piece, now that the turn has come."""
        if self.connection is not None:
            self.connection.read_on()
            if self.connection.ended is not None:
                self._room.watch.again(self.connection)

    def eof_received(self) -> bool:
        """Called when the client has sent its last byte. If it has asked for nothing, its socket is closed soon."""
        if self.connection is not None:
            return self.connection.eof_received()
        self._room.closings.add(self._close)
        return True

    def make_connection(self) -> Connection:
        """Make the connection, which parses and answers the client's requests from now on."""
        assert self._transport is not None, "a client that was not admitted asks for nothing"
        del self._room.opened[self]
        self.connection = Connection(self._room, self._room.refuse)
        self.connection.connection_made(self._transport)
        return self.connection

    # -- what goes

    def pause_writing(self) -> None:
        """Called when the socket takes no more bytes. Tells the connection."""
        if self.connection is not None:
            self.connection.pause_writing()

    def resume_writing(self) -> None:
        """Called when the socket has taken all bytes. Tells the connection."""
        if self.connection is not None:
            self.connection.resume_writing()

    # -- how it ends, before the client asks for something

    def asks_nothing(self) -> bool:
        """True if no byte of a request has come."""
        return not self._first

    def may_go(self) -> bool:
        """True if the listener may close this socket to admit another client: it is open and has no `Connection`
        yet."""
        return self.connection is None and self._transport is not None and not self._transport.is_closing()

    def make_room(self) -> None:
        """Close the socket, so that another client can be admitted. If its first request waits to begin, it is answered
        429 `busy`."""
        if self._first and self._transport is not None:
            self._transport.write(self._room.refuse(self._room.budget.full()).whole())
        self._close()

    def end(self) -> None:
        """Close the socket, because the server ends. But a first request that waits for its turn begins now, so that it
        is answered."""
        if self._first:
            self._begin()
        else:
            self._close()

    def close_overdue(self, now_s: float) -> None:
        """Close the socket if the client has asked for nothing for HEADER_MAX_S. `now_s` is the loop's time."""
        if now_s > self.since_s + HEADER_MAX_S and not self._first:
            self._close()

    def _close(self) -> None:
        self._forget()
        if self.connection is None and self._transport is not None:
            self._transport.close()

    def _forget(self) -> None:
        """Drop the first piece, and its wait for a turn to begin. The budget never counted the piece, so nothing is
        given back."""
        if self._first:
            self._first = b""
            self._room.beginnings.remove(self._begin)
