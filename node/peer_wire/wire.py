"""The connections for calls of one group on one node: one with each other node, made when it is needed.

They come in at the Raft address, and are dialled there (replication/wire). Two nodes that dial each other at once have
two connections for a moment. Each is closed once no call has been under way on it for a while. A connection on which
nothing is heard is given up, as Raft's are. To close a connection in order, both sides say so first (LEAVE). So no call
is on its way to a side that is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from node.peer_wire.connection import PeerConnection, Serve
from node.peer_wire.greeting import Greeting, check, encode_greeting, greet, read_greeting
from node.port.codec import BadFrame
from node.port.group_port import GroupStatus, PeerNode
from replication.wire.contacts import address_of
from replication.wire.dialler import dial_calls
from replication.wire.frame import FrameRefused, seal
from replication.wire.handshake import Refusal
from replication.wire.link import PING_S, SILENT_S, Connection
from replication.wire.periodic import until_next_s
from replication.wire.said_seldom import SaidSeldom

log = logging.getLogger("hourwheel.calls")

#: A connection on which no call was made for this time is closed.
REST_S: Final = 30.0
#: How long calls under way may take to end when the node closes.
CLOSE_S: Final = 0.5
#: Connections that one other node may have here. It may dial anew before its former connections are given up.
OF_A_NODE_MAX: Final = 2


class PeerWire:
    """The connections of one group with all other nodes. `status` returns the group's newest status. `serve` carries
    out the calls of other nodes."""

    def __init__(self, status: Callable[[], GroupStatus], serve: Serve) -> None:
        self._status, self._serve = status, serve
        self._connections: dict[PeerConnection, None] = {}  # the newest last
        self._dialling: dict[str, asyncio.Task[PeerConnection | None]] = {}
        self._seldom = SaidSeldom(log, lambda: asyncio.get_running_loop().time())
        self._sweeper: asyncio.TimerHandle | None = None
        self._swept_s = 0.0
        self._closed = False
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Functions that are awaited before the wire closes."""

    # -- connections that come in

    def accepted(self, line: Connection, meta: bytes) -> None:
        """Take a connection that asks for calls, or refuse it. `meta` is its first frame. Raises FrameRefused if that
        is no greeting."""
        said, status = _read(meta), self._status()
        if isinstance(said, Refusal):
            line.abort()
            return
        if status.cluster is None or self._closed:
            line.finish(Refusal("not-founded", f"{status.node} knows no cluster, or closes").encode())
            return
        own = greet(status.cluster, status.node, said.node, status.group)
        refusal = check(own, said, frozenset(peer.node for peer in status.peers))
        if refusal is not None:
            self._seldom.warning("calls of %s are refused: %s", line.host, refusal.detail)
            line.finish(refusal.encode())
            return
        line.write(seal(encode_greeting(own)))
        self._keep(line, said)
        former = [each for each in self._connections if each.peer == said.node]
        for each in former[:-OF_A_NODE_MAX]:
            each.abort()

    # -- connections that are made

    def usable(self, node: str) -> PeerConnection | None:
        """Return the newest connection with this node on which calls can be made. None if there is none."""
        for connection in reversed(self._connections):
            if connection.peer == node and connection.usable:
                return connection
        return None

    async def reach(self, peer: PeerNode) -> PeerConnection | None:
        """Return a connection with this node, and dial it if there is none. None if the node takes no connection
        now."""
        if (connection := self.usable(peer.node)) is not None:
            return connection
        dialling = self._dialling.get(peer.node)
        if dialling is None:
            dialling = self._dialling[peer.node] = asyncio.ensure_future(self._dial(peer))
            dialling.add_done_callback(lambda _: self._dialling.pop(peer.node))
        await asyncio.wait([dialling])
        return None if dialling.cancelled() else dialling.result()

    async def _dial(self, peer: PeerNode) -> PeerConnection | None:
        status = self._status()
        if status.cluster is None or self._closed:
            return None
        own = greet(status.cluster, status.node, peer.node, status.group)

        def opened(line: Connection, meta: bytes) -> PeerConnection:
            said = _read(meta)
            refusal = said if isinstance(said, Refusal) else check(own, said, frozenset((peer.node,)))
            if refusal is not None or isinstance(said, Refusal):
                raise FrameRefused(f"{peer.node} answers to calls: {refusal.detail if refusal else said}")
            return self._keep(line, said)

        reached = await dial_calls(
            address_of(peer.raft), lambda: seal(encode_greeting(own)), opened, self._seldom.warning
        )
        if isinstance(reached, Refusal):
            self._seldom.warning("%s refuses calls: %s", peer.node, reached.detail)
            return None
        return reached

    def _keep(self, line: Connection, theirs: Greeting) -> PeerConnection:
        connection = PeerConnection(line, theirs, self._serve, self._ended)
        self._connections[connection] = None
        if self._sweeper is None:
            self._swept_s = asyncio.get_running_loop().time()
            self._sweep_later()
        return connection

    def _ended(self, connection: PeerConnection) -> None:
        del self._connections[connection]

    # -- upkeep of connections

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(until_next_s(PING_S), self._sweep)

    def _sweep(self) -> None:
        """Close connections on which nothing was heard for SILENT_S, and those of nodes that are no members any more.
        Begin to leave connections without calls for REST_S. Ping on the others."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        paused, self._swept_s = now - self._swept_s > SILENT_S / 2, now  # their bytes may wait unread
        members = {peer.node for peer in self._status().peers}
        for connection in list(self._connections):
            if connection.peer not in members or (not paused and now - connection.heard_s > SILENT_S):
                connection.abort()
            elif connection.at_rest and now - connection.used_s > REST_S:
                connection.leave()
            connection.ping()
        if self._connections and not self._closed:
            self._sweep_later()

    async def close(self) -> None:
        """Wait for calls under way, CLOSE_S at most, then close all connections. No connection is made or taken any
        more."""
        for end in self.closing:
            await end()
        self._closed = True
        for connection in self._connections:
            connection.leave()
        if self._connections:
            await asyncio.wait([connection.gone for connection in self._connections], timeout=CLOSE_S)
        for connection in list(self._connections):
            connection.abort()
        for dialling in list(self._dialling.values()):
            dialling.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.sleep(0)  # let aborted sockets be closed before the loop is


def _read(meta: bytes) -> Greeting | Refusal:
    try:
        return read_greeting(meta)
    except BadFrame as bad:
        raise FrameRefused(f"a greeting for calls that cannot be read: {bad}") from None
