"""Nodes with a PeerWire each, behind the real listener of Raft; and strangers, on both ends of a connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec.structs import replace

from node.peer_wire.connection import PeerConnection, Serve
from node.peer_wire.frame import Piece, write_frame
from node.peer_wire.greeting import Greeting, encode_greeting, greet, read_greeting
from node.peer_wire.wire import PeerWire
from node.port.codec import BadFrame
from node.port.group_port import GroupStatus, PeerNode
from replication.wire.frame import HEADER, FrameRefused, seal
from replication.wire.handshake import Refusal
from replication.wire.listener import AsyncTransport
from tests.node.peer_wire.pair import CLUSTER, echo
from tests.replication.socket_node import Stranger as RaftStranger
from tests.replication.socket_node import transport
from tests.waiting import WITHIN_S, turns, until

OTHER_CLUSTER = b"o" * 16


class Node:
    """A node of a group, as far as calls between nodes go."""

    def __init__(self, name: str, listener: AsyncTransport, serve: Serve) -> None:
        self.name, self.listener = name, listener
        self.status = GroupStatus(group=0, node=name, cluster=CLUSTER)
        self.wire = PeerWire(lambda: self.status, serve)
        listener.on_calls = self.wire.accepted

    @property
    def raft(self) -> str:
        """Where it listens."""
        host, port = self.listener.address
        return f"{host}:{port}"

    def knows(self, *others: Node | PeerNode) -> None:
        """These are the other members."""
        peers = [each if isinstance(each, PeerNode) else PeerNode(each.name, each.raft, True) for each in others]
        self.status = replace(self.status, peers=tuple(peers))

    async def to(self, other: str) -> PeerConnection | None:
        """A connection with this member."""
        return await self.wire.reach(next(peer for peer in self.status.peers if peer.node == other))

    async def asks(self, other: str, name: str = "c", frame: bytes = b"") -> bytes:
        """A call; its answer."""
        connection = await self.to(other)
        assert connection is not None, f"{other} takes no connection"
        return (await connection.begin(name, frame).answer).frame

    @property
    def connections(self) -> list[PeerConnection]:
        """Those that stand here, in both directions."""
        return list(self.wire._connections)


@contextlib.asynccontextmanager
async def nodes(*serves: Serve) -> AsyncIterator[list[Node]]:
    """n1 and so on, which know each other, and serve so."""
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for number, serve in enumerate(serves or (echo,), 1):
            listener, _ = await stack.enter_async_context(transport(f"n{number}", {}))
            made.append(Node(f"n{number}", listener, serve))
            stack.push_async_callback(made[-1].wire.close)
        for node in made:
            node.knows(*(other for other in made if other is not node))
        yield made


class Stranger(RaftStranger):
    """A bare connection to a node, on which calls are asked for."""

    def says(self, greeting: Greeting) -> None:
        """Send it."""
        self.writer.write(b"".join(seal(encode_greeting(greeting))))

    def sends(self, number: int, *pieces: Piece) -> None:
        """A frame of these pieces, which have no bytes."""
        self.writer.write(b"".join(write_frame(number, 0, list(pieces), [])))

    async def answer(self) -> Any:
        """The next frame: a greeting, or a Refusal; the head of a frame after that."""
        head = await asyncio.wait_for(self.reader.readexactly(HEADER.size), WITHIN_S)
        size, meta, _crc = HEADER.unpack(head)
        return read((await self.reader.readexactly(size - HEADER.size))[:meta])


def read(meta: bytes) -> Greeting | Refusal | bytes:
    """What a first frame says; the frame where it is no greeting."""
    try:
        return read_greeting(meta)
    except (BadFrame, FrameRefused):
        return meta


async def dial(node: Node) -> Stranger:
    """Connect."""
    return Stranger(*await asyncio.open_connection(*node.listener.address))


async def refusal_of(node: Node, greeting: Greeting) -> Refusal:
    """What a stranger hears that greets so; the connection ends with it."""
    stranger = await dial(node)
    stranger.says(greeting)
    refusal = await stranger.answer()
    assert isinstance(refusal, Refusal)
    assert await stranger.closed_by_peer()
    await stranger.close()
    return refusal


def said_by(node: str, to: str, /, **change: Any) -> Greeting:
    """The greeting of a node of this build, with changes."""
    return replace(greet(CLUSTER, node, to, 0), **change)


async def greeted(node: Node, name: str = "n2") -> Stranger:
    """A stranger that is taken for this member."""
    stranger = await dial(node)
    stranger.says(said_by(name, node.name))
    assert isinstance(await stranger.answer(), Greeting)
    return stranger


@contextlib.asynccontextmanager
async def answering(answer: Callable[[asyncio.StreamWriter], None]) -> AsyncIterator[tuple[PeerNode, list[bool]]]:
    """A member n2 at whose address somebody answers so to whatever comes first, and reads on; and of each connection
    that came there whether it was closed by who made it."""
    closed: list[bool] = []
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = len(closed)
        closed.append(False)
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await reader.read(65536)
                answer(writer)
                while await reader.read(65536):
                    pass
            closed[at] = True
        finally:
            writer.transport.abort()
            under_way.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield PeerNode("n2", f"{host}:{port}", True), closed
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await server.wait_closed()
        await turns()


async def gone(*connections: PeerConnection) -> None:
    """Wait until they have ended, and their wires have heard of it."""
    for connection in connections:
        await until(connection.gone.done, what=f"a connection with {connection.peer} ends")
    await asyncio.sleep(0)  # the future is done one turn of the loop before its callbacks are called
