"""Two nodes joined by one connection for calls, on loopback; or one node, and a bare line that plays the other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from node.peer_wire.connection import PeerConnection, Reply, Serve
from node.peer_wire.frame import ANSWER, CALL, Head, Piece, read_frame, write_frame
from node.peer_wire.greeting import BYTES_MAX, CALLS_MAX, Greeting, greet
from replication.wire.link import Connection
from tests.waiting import WITHIN_S, until

CLUSTER = b"c" * 16
TERM = 7


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene. What its loop complains of fails the test: an error in a callback, or one that nobody took."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(WITHIN_S):
            await main()

    asyncio.run(watched())
    assert not complaints, complaints


async def echo(name: str, frame: bytes, full: Callable[[], bool]) -> Reply:
    """Answers at once, with what was asked."""
    return Reply(name.encode() + b"(" + frame + b")", TERM)


@dataclass(eq=False)
class Asked:
    """A call that a node serves, and its answer, which the test gives."""

    name: str
    frame: bytes
    full: Callable[[], bool]
    reply: asyncio.Future[Reply]

    def answers(self, frame: bytes, **more: Any) -> None:
        """Give it."""
        self.reply.set_result(Reply(frame, TERM, **more))


class Desk:
    """Serves calls as the test says."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def serve(self, name: str, frame: bytes, full: Callable[[], bool]) -> Reply:
        """See connection.Serve."""
        asked = Asked(name, frame, full, asyncio.get_running_loop().create_future())
        self.asked.append(asked)
        return await asked.reply

    async def has(self, count: int) -> list[Asked]:
        """Wait until so many have come."""
        await until(lambda: len(self.asked) >= count, what=f"{count} calls served")
        return self.asked


class Side:
    """A node's end of the connection, and what it said of it."""

    def __init__(self, name: str, other: str, end: tuple[Connection, list[str]], serve: Serve, **bounds: int) -> None:
        self.line, self.said = end
        self.ended: list[PeerConnection] = []
        self.wire = PeerConnection(self.line, theirs(other, name, **bounds), serve, self.ended.append)

    async def ask(self, name: str, frame: bytes = b"") -> bytes:
        """Make a call; its answer."""
        return (await self.wire.begin(name, frame).answer).frame


def theirs(node: str, to: str, calls_max: int = CALLS_MAX, bytes_max: int = BYTES_MAX) -> Greeting:
    """What a node says of itself to another one."""
    said = greet(CLUSTER, node, to, 0)
    return Greeting(said.kind, said.oldest, said.newest, said.cluster, node, to, 0, calls_max, bytes_max)


async def joined() -> tuple[tuple[Connection, list[str]], tuple[Connection, list[str]]]:
    """Both ends of a new TCP connection, each with what it complained of."""
    loop = asyncio.get_running_loop()
    said: tuple[list[str], list[str]] = ([], [])

    def line(said: list[str]) -> Connection:
        return Connection(
            lambda *_: None, lambda *_: None, lambda _: None, lambda text, *values: said.append(text % values)
        )

    one, two = map(line, said)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await loop.create_connection(lambda: one, *listening.getsockname())
        accepted, _ = listening.accept()
    accepted.setblocking(False)
    await loop.connect_accepted_socket(lambda: two, accepted)
    return (one, said[0]), (two, said[1])


async def hang_up(*lines: Connection) -> None:
    """Close these, and wait until they are."""
    for line in lines:
        line.abort()
        await line.closed
    await asyncio.sleep(0)  # whoever hears of it has heard


@contextlib.asynccontextmanager
async def pair(one: Serve = echo, two: Serve = echo, **bounds: int) -> AsyncIterator[tuple[Side, Side]]:
    """The nodes n1 and n2; `bounds` are what each keeps for the other."""
    first, second = await joined()
    sides = Side("n1", "n2", first, one, **bounds), Side("n2", "n1", second, two, **bounds)
    try:
        yield sides
    finally:
        await hang_up(*(side.line for side in sides))
    assert [side.said for side in sides] == [[], []]
    assert [len(side.ended) for side in sides] == [1, 1]


class Bare:
    """Plays n2: it says what the test wants, and shows what came. It numbers its frames and calls itself."""

    def __init__(self, line: Connection) -> None:
        self.line = line
        self.heads: list[Head] = []
        self.bytes = 0
        self._sent = 0
        line.carry(self._frame)
        line.trust()

    def _frame(self, meta: bytes, blob: memoryview, crc: int) -> None:
        head, data = read_frame(meta, blob, crc)
        self.heads.append(head)
        self.bytes += len(data)

    def says(self, *pieces: Piece, data: bytes = b"", taken: int = 0, number: int | None = None) -> None:
        """Send a frame."""
        self._sent += 1
        self.line.write(write_frame(self._sent if number is None else number, taken, list(pieces), [data]))

    def calls(self, number: int, frame: bytes = b"", name: str = "echo", **more: Any) -> None:
        """Make a call in a frame of its own."""
        self.says(Piece(CALL, number, len(frame), name=name), data=frame, **more)

    @property
    def pieces(self) -> list[Piece]:
        """All that came."""
        return [piece for head in self.heads for piece in head.pieces]

    def of(self, kind: int) -> list[Piece]:
        """Of these."""
        return [piece for piece in self.pieces if piece.kind == kind]

    @property
    def answered(self) -> list[int]:
        """The calls whose answers are complete."""
        return [piece.number for piece in self.of(ANSWER) if not piece.more]

    def stop_reading(self) -> None:
        """What comes stays in the sockets."""
        transport(self.line).pause_reading()

    def go_on_reading(self) -> None:
        """Again."""
        transport(self.line).resume_reading()


def transport(line: Connection) -> asyncio.Transport:
    """Below a connection."""
    assert line._transport is not None, "not connected"
    return line._transport


@contextlib.asynccontextmanager
async def with_bare(serve: Serve = echo, **bounds: int) -> AsyncIterator[tuple[Side, Bare]]:
    """A node n1, and a line that plays n2, which keeps so much for it."""
    first, (line, _) = await joined()
    side, bare = Side("n1", "n2", first, serve, **bounds), Bare(line)
    try:
        yield side, bare
    finally:
        await hang_up(side.line, line)
    assert len(side.ended) == 1


async def outcome(waiting: Awaitable[Any]) -> Any:
    """What it gives, or raises."""
    return (await asyncio.gather(waiting, return_exceptions=True))[0]
