"""Connections whose requests wait, in an epoll of their own.

A client that closes 8,000 polls in one moment has them all read in one turn: the loop reads whatever is ready, 5 us
each, before it does anything else. So where many wait the loop does not read them. Their descriptors stand in an epoll,
which the loop reads as one, and each time it comes round a few of those that have something are read on.
"""

import asyncio
import select
from contextlib import suppress
from typing import Final, Protocol, cast

from api.port.loop_turn import CLOSED_A_TURN

#: So many may wait and are read as all others are: 1 ms, if they end in one moment.
READ_MAX: Final = 200


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """Of the socket, which is open."""
    return cast(int, transport.get_extra_info("socket").fileno())


def has_shut(descriptor: int) -> bool:
    """Whether the client of this socket has closed its side, or the connection; read or not."""
    look = select.poll()
    look.register(descriptor, select.POLLRDHUP)
    return bool(look.poll(0))


class Watched(Protocol):
    """What is asked of a connection."""

    def awaits_its_end(self) -> int | None:
        """The descriptor of its socket; None where it is not to be watched now."""

    def hold_reading(self) -> bool:
        """The loop reads it no more."""

    def read_on(self) -> None:
        """The loop reads it again."""


class Watch:
    """Of one listener. A connection is in it until something comes from its client, or its request waits no more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None  # made when many wait for the first time
        self._waiting = 0
        self._by_descriptor: dict[int, Watched] = {}
        self._descriptors: dict[Watched, int] = {}  # the inverse, also of who is closed and has not said so

    def begin(self, connection: Watched) -> None:
        """A request waits. What it finds at once it finds as if nobody watched."""
        self._waiting += 1
        self.again(connection)

    def again(self, connection: Watched) -> None:
        """Something came that was not the client's end, such as the rest of the body."""
        if self._waiting > READ_MAX:
            self._loop.call_soon(self._add, connection)

    def end(self, connection: Watched) -> None:
        """It waits no more."""
        self._waiting -= 1
        if connection in self._descriptors:
            self._remove(connection)
            connection.read_on()

    def has_left(self, connection: Watched) -> bool:
        """Whether the client has closed its side, or the connection, and that was not read yet."""
        descriptor = self._descriptors.get(connection)
        return descriptor is not None and has_shut(descriptor)

    def close(self) -> None:
        """Nobody waits any more."""
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
        """Let the loop read a few of those that have something: level-triggered, so the others come next."""
        assert self._epoll is not None
        for descriptor, _ in self._epoll.poll(0, CLOSED_A_TURN):
            connection = self._by_descriptor[descriptor]
            self._remove(connection)
            connection.read_on()

    def _remove(self, connection: Watched) -> None:
        descriptor = self._descriptors.pop(connection)
        if self._by_descriptor.get(descriptor) is connection:  # else it was closed, and another one has its number
            del self._by_descriptor[descriptor]
            if self._epoll is not None:
                with suppress(OSError):  # it was closed
                    self._epoll.unregister(descriptor)
