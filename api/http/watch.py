"""Watches connections whose requests wait, for the moment at which their clients leave.

The loop reads every ready socket, 5 us each, before it does anything else. If a client closes 8,000 polls in one
moment, the loop would read them all in one turn. So if many requests wait, the loop does not read their connections.
Their descriptors stand in an epoll of their own, which the loop reads as one socket. Each round, it reads a few of the
connections that have something to read.
"""

import asyncio
import select
from contextlib import suppress
from typing import Final, Protocol, cast

from api.port.loop_turn import CLOSED_A_TURN

#: Up to this many waiting connections are read like all others: 1 ms, if they end in one moment.
READ_MAX: Final = 200


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """Return the descriptor of the socket, which is open."""
    return cast(int, transport.get_extra_info("socket").fileno())


_SHUT: Final[int] = getattr(select, "POLLRDHUP", select.POLLHUP)
"""macOS has the second only, and tells by it of a client's side too."""
_HAS_EPOLL: Final = hasattr(select, "epoll")
"""Without it, the loop reads all that wait as it reads the others."""


def has_shut(descriptor: int) -> bool:
    """True if the client of this socket has closed its side, or the connection. The end may be unread."""
    look = select.poll()
    look.register(descriptor, _SHUT)
    return bool(look.poll(0))


class Watched(Protocol):
    """A connection, as the watch sees it."""

    def awaits_its_end(self) -> int | None:
        """Return the descriptor of its socket, if nothing but the client's end should come on it. None if it is not to
        be watched now."""

    def hold_reading(self) -> bool:
        """Stop the loop's reading of its socket. True if the loop read it until now."""

    def read_on(self) -> None:
        """Let the loop read it again."""


class Watch:
    """The watch of one listener. While more than READ_MAX requests wait, it watches connections whose requests begin to
    wait. It forgets a connection when its client sends something, or when its request waits no more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None  # made when many wait for the first time
        self._waiting = 0
        self._by_descriptor: dict[int, Watched] = {}
        self._descriptors: dict[Watched, int] = {}  # the inverse; also has closed connections until they end

    def begin(self, connection: Watched) -> None:
        """Called when a request of this connection begins to wait. The connection is watched from the next round of the
        loop on, so a request that finds messages at once is not delayed."""
        self._waiting += 1
        self.again(connection)

    def again(self, connection: Watched) -> None:
        """Watch the connection again after bytes that were not the client's end, such as the rest of the body."""
        if _HAS_EPOLL and self._waiting > READ_MAX:
            self._loop.call_soon(self._add, connection)

    def end(self, connection: Watched) -> None:
        """Called when the request of the connection waits no more. The loop reads the connection again."""
        self._waiting -= 1
        if connection in self._descriptors:
            self._remove(connection)
            connection.read_on()

    def has_left(self, connection: Watched) -> bool:
        """True if the client has closed its side, or the connection, and the end is unread."""
        descriptor = self._descriptors.get(connection)
        return descriptor is not None and has_shut(descriptor)

    def close(self) -> None:
        """Close the epoll, because no connection waits any more."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _add(self, connection: Watched) -> None:
        descriptor = connection.awaits_its_end()
        if descriptor is None:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._some)
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLRDHUP)
        self._by_descriptor[descriptor] = connection
        self._descriptors[connection] = descriptor
        connection.hold_reading()

    def _some(self) -> None:
        """Let the loop read a few of the watched connections that have something to read. The epoll is level-triggered,
        so it reports the others again in the next round."""
        assert self._epoll is not None
        for descriptor, _ in self._epoll.poll(0, CLOSED_A_TURN):
            connection = self._by_descriptor[descriptor]
            self._remove(connection)
            connection.read_on()

    def _remove(self, connection: Watched) -> None:
        descriptor = self._descriptors.pop(connection)
        if self._by_descriptor.get(descriptor) is connection:  # otherwise it was closed, and another has its number
            del self._by_descriptor[descriptor]
            if self._epoll is not None:
                with suppress(OSError):  # it was closed
                    self._epoll.unregister(descriptor)
