"""How a node reaches another one: it connects and greets. A task keeps the connection for Raft's messages open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from replication.wire.frame import encode_message
from replication.wire.handshake import Hello, Refusal, check, check_entries, in_own_words
from replication.wire.link import (
    BACK_OFF_FIRST_S,
    BACK_OFF_MAX_S,
    CONNECT_S,
    PING_S,
    SILENT_S,
    Address,
    Connection,
    log,
)
from replication.wire.periodic import until_next_s

T = TypeVar("T")


async def dial(address: Address, greeting: Callable[[], list[bytes]]) -> tuple[Connection, Hello | Refusal] | None:
    """Connect to this address and send the greeting. Return the connection, with the other node's hello or refusal.

    `greeting` makes the greeting's frame, and is called when the connection is made. Returns None if nothing at the
    address speaks our protocol and answers within CONNECT_S. A caller that does not keep the connection must end it.
    """
    return await _dial(address, greeting, lambda connection, said: (connection, said), None)


async def dial_calls(
    address: Address,
    greeting: Callable[[], list[bytes]],
    opened: Callable[[Connection, bytes], T],
    complain: Callable[..., None],
) -> T | Refusal | None:
    """Connect to this address for calls between nodes, as `dial` does for Raft.

    `opened` gets the connection and the other node's greeting, in the step of the loop in which the greeting comes.
    Returns the result of `opened`, the other node's refusal, or None as in `dial`. `opened` may raise FrameRefused,
    which ends the connection. `complain` is called with a log line that says why a connection was closed.
    """

    def refused(line: Connection, said: Hello | Refusal) -> Refusal | None:
        line.abort()
        return said if isinstance(said, Refusal) else None

    return await _dial(address, greeting, refused, opened, complain)


async def _dial(
    address: Address,
    greeting: Callable[[], list[bytes]],
    greeted: Callable[[Connection, Hello | Refusal], T | None],
    opened: Callable[[Connection, bytes], T] | None,
    complain: Callable[..., None] = log.warning,
) -> T | None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[T | None] = loop.create_future()

    def hear(result: T | None) -> None:
        if not heard.done():
            heard.set_result(result)

    connection = Connection(
        lambda line, said: hear(greeted(line, said)), lambda *_: None, lambda _: hear(None), complain
    )
    if opened is not None:
        connection.calls = lambda line, meta: hear(opened(line, meta))
    found = None
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(lambda: connection, *address)
            connection.write(greeting())
            found = await heard
    except (OSError, TimeoutError, UnicodeError):  # UnicodeError: a host that is no name
        return None
    finally:
        if found is None:
            connection.abort()
    return found


async def probe(own: Hello, address: Address) -> Hello | Refusal | None:
    """Send the hello `own` to the node at this address. Return its hello, or the reason why it cannot be a member.

    None if nothing there speaks our protocol.
    """
    opened = await dial(address, own.encode)  # in the short form: the node's build may not read the long one
    if opened is None:
        return None
    connection, said = opened
    connection.abort()
    if isinstance(said, Refusal):
        return check_entries(own.to, said.formats, own.level) or in_own_words(said, own.to)
    return check(own, said) or said


class Dialler:
    """Keeps a connection to one peer open until `close`. When the connection ends, the dialler connects again.

    `hello` makes this node's hello. `accept` judges the peer's answer, and returns a refusal or None. `up` gets the
    peer's hello of each new connection. `ended` gets the dialler's task when that ends.
    """

    def __init__(
        self,
        peer: str,
        address: Address,
        hello: Callable[[str], Hello],
        accept: Callable[[str, Hello | Refusal], Refusal | None],
        up: Callable[[str, Hello], None],
        ended: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self.peer = peer
        self.connection: Connection | None = None
        """The connection in use, None while there is none."""
        self.address = address
        self._hello = hello
        self._accept = accept
        self._up = up
        self._renewing = False
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"dial {peer}")
        self._task.add_done_callback(ended)

    def hurry(self) -> None:
        """Make the next attempt to connect at once, because the peer is known to be up."""
        self._wake.set()

    def renew(self) -> None:
        """Make a new connection within PING_S. This node has learned its cluster's id, and a new hello says so.

        The old connection stays open until the new one is accepted. All messages sent on it arrive (`Incoming`).
        """
        self._renewing = True

    def end(self) -> None:
        """End the task and the connection. Does not wait for the end of the task."""
        self._task.cancel()
        if self.connection is not None:
            self.connection.abort()

    async def close(self) -> None:
        """End the task and the connection, and wait for the end of the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.connection is not None:
            self.connection.abort()

    async def _run(self) -> None:
        pause = BACK_OFF_FIRST_S
        while True:
            self._wake.clear()
            if await self._converse():
                pause = BACK_OFF_FIRST_S
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pause = min(2 * pause, BACK_OFF_MAX_S)

    async def _converse(self) -> bool:
        """Connect to the peer, and keep the connection until it ends. If it is renewed meanwhile, keep the new one in
        its place. Return False if no connection was made.

        A connection that is renewed stays open until the new one is accepted.
        """
        opened = await self._open()
        try:
            if opened is None:
                return False
            while opened is not None:
                former, (self.connection, said) = self.connection, opened
                if former is not None:
                    former.end()
                self._up(self.peer, said)
                opened = await self._keep(self.connection)
            return True
        finally:
            former, self.connection = self.connection, None
            if former is not None:
                former.abort()

    async def _open(self) -> tuple[Connection, Hello] | None:
        """Make a connection on which each side accepts the other's hello. Return it with the peer's hello, None if
        there is no such connection.
        """
        opened = await dial(self.address, self._say)
        if opened is None:
            return None
        connection, said = opened
        if self._accept(self.peer, said) is not None or isinstance(said, Refusal):
            connection.abort()
            return None
        connection.open(said, self._hello(self.peer).shared(said))
        return connection, said

    def _say(self) -> list[bytes]:
        self._renewing = False  # this hello says all that there is to say
        hello = self._hello(self.peer)
        return hello.encode(hello.form)

    async def _keep(self, connection: Connection) -> tuple[Connection, Hello] | None:
        """Send pings until the connection ends or is silent for SILENT_S, then return None. If the connection is to be
        renewed, return the new one and the peer's hello.
        """
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while not connection.closed.done():
            if self._renewing:
                return await self._open()
            await asyncio.wait([connection.closed], timeout=until_next_s(PING_S))
            now, late = loop.time(), loop.time() - checked > 2 * PING_S
            checked = now
            # If this process stood still (`late`), answers may wait unread. Then silence is judged the next time.
            if not late and now - connection.heard_s > SILENT_S:
                return None
            connection.write(encode_message({"type": "ping"}, connection.protocol))
        return None
