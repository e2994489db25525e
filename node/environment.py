"""Everything outside a node that it touches: clocks, random numbers, the disk, the journal's thread, its sockets. An
`Environment` makes all of it.

The simulator (chaos/simulator) puts another environment in its place and drives the whole node, unchanged, on virtual
time. So every part that reaches outside a node is made here. No other file in `node` may make one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from api.port.address_guard import Addresses
from api.port.port import Port
from api.serve import serve
from node.front.forwarding import Forwarding
from node.front.pass_on import Forwarder
from node.port.group_port import GroupPort
from node.port.push_port import PushWork, Receivers
from node.push_wire.client import PushClient
from node.push_wire.connection import Ended
from node.push_wire.wire import Client, PushWire
from node.runtime.boot import read_boot
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.runtime.watchdog import LoopWatchdog, Watchdog
from replication.journal.writer import Writer, WriterThread
from replication.wire.link import Address
from replication.wire.listener import AsyncTransport, Identity
from replication.wire.transport import Transport
from storage.file.disk import Disk


class Serving(Protocol):
    """A running HTTP server, as api.http.server has it."""

    def drain(self) -> None: ...

    async def close(self, grace_s: float = ...) -> None: ...


class Environment:
    """Makes the real parts of a node. Parts of the whole process are made once. Parts of a group are made each time
    that the group is opened."""

    def clock(self) -> NodeClock:
        """Make the node clock, from the wall clock and the monotonic clock of the computer."""
        return NodeClock()

    def disk(self) -> Disk:
        """Make the disk, through which every byte is read and written."""
        return Disk()

    def entropy(self) -> Entropy:
        """Make the source of random numbers."""
        return Entropy()

    def boot(self) -> int:
        """Return a number that names this run of the computer's kernel, from one boot to the next."""
        return read_boot(self.disk(), self.entropy())

    def transport(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> Transport:
        """Make the connections to the Raft peers."""
        return AsyncTransport(identity, listen, peers)

    def writer(self) -> Writer:
        """Make the writer of the journal."""
        return WriterThread()

    def forwarder(self, leader_http: Callable[[], str | None]) -> Forwarding:
        """Make the forwarder of requests to the leader. `leader_http` returns the leader's host:port, None while there
        is no leader."""
        return Forwarder(leader_http)

    def push_client(
        self, allow: Iterable[str], now_ms: Callable[[], int], may_send: Callable[[PushWork], bool], ended: Ended
    ) -> Client:
        """Make the client that sends webhooks. It may connect to public addresses, and to the networks in `allow`."""
        return PushClient(Addresses(allow), now_ms, may_send, ended)

    def receivers(self, wire: PushWire) -> Receivers:
        """Return the interface by which groups call the push wire. Here it is the push wire itself."""
        return wire

    def fronted(self, port: GroupPort) -> GroupPort:
        """Return the interface by which the front calls a group. Here it is the group's own port."""
        return port

    def watchdog(self, held_ms: int) -> Watchdog:
        """Make the watchdog of the event loop. It notices if a step holds the loop for longer than `held_ms`."""
        return LoopWatchdog(held_ms)

    async def serve(self, port: Port, host: str, listen_port: int) -> Serving:
        """Start the HTTP server. Raises api.http.listening.ListenFailed."""
        return await serve(port, host, listen_port)
