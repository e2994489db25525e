"""How a node reaches another one: a connection with a greeting, and the task that keeps the one for Raft up."""

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
    """Connect to this address and return the answer to the greeting, which is made once the connection stands.

    None if nothing there speaks our protocol and answers within CONNECT_S. A caller that does not keep the connection
    must end it.
    """
    return await _dial(address, greeting, lambda connection, said: (connection, said), None)


async def dial_calls(
    address: Address,
    greeting: Callable[[], list[bytes]],
    opened: Callable[[Connection, bytes], T],
    complain: Callable[..., None],
) -> T | Refusal | None:
    """The same for calls between nodes.

    `opened` gets the connection with the other side's greeting, in the step in which that comes. Its result is
    returned. It may raise FrameRefused.
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
    """Greet the node at this address as `own`. Return its hello, or why it cannot be a member.

    None if nothing there speaks our protocol.
    """
    opened = await dial(address, own.encode)  # its build may not read the longer form
    if opened is None:
        return None
    connection, said = opened
    connection.abort()
    if isinstance(said, Refusal):
        return check_entries(own.to, said.formats, own.level) or in_own_words(said, own.to)
    return check(own, said) or said


class Dialler:
    """Keeps the connection to one peer up until `close`.

    `accept` judges the peer's hello. `up` gets each connection. `ended` gets the end of the task.
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
        """Skip the rest of the pause: the peer is known to be up."""
        self._wake.set()

    def renew(self) -> None:
        """Dial again, within PING_S: this node knows its cluster now, and says so in its hello.

        The old connection stands until the new one does, and all sent on it arrives (`Incoming`).
        """
        self._renewing = True

    def end(self) -> None:
        """End the task and the connection, soon."""
        self._task.cancel()
        if self.connection is not None:
            self.connection.abort()

    async def close(self) -> None:
        """End the task and the connection."""
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
        """Hold connections from dialling to the end of the last. False if none came about.

        A connection that is renewed stands until the new one does.
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
        """A connection on which both sides agreed, and the peer's hello."""
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
        """Watch the connection until it ends (None), or until a newer one takes its place."""
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while not connection.closed.done():
            if self._renewing:
                return await self._open()
            await asyncio.wait([connection.closed], timeout=until_next_s(PING_S))
            now, late = loop.time(), loop.time() - checked > 2 * PING_S
            checked = now
            # After a pause of ours (`late`) answers may wait unread: silence is judged the next time.
            if not late and now - connection.heard_s > SILENT_S:
                return None
            connection.write(encode_message({"type": "ping"}, connection.protocol))
        return None
