"""The outside of a node: clocks, chance, the disk, its thread, its sockets. One object makes them all.

`Environment` is the real world. The simulator (chaos/simulator) puts another one in its place and drives the whole
node, as it is, on virtual time. So each part that reaches outside a node is made here. Nothing else in `node` may do
so.
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
    """The real world. Each part is made once for a node, when it is opened."""

    def clock(self) -> NodeClock:
        """Wall clock and monotonic clock, and the node clock between them."""
        return NodeClock()

    def disk(self) -> Disk:
        """The disk, which takes every byte."""
        return Disk()

    def entropy(self) -> Entropy:
        """The source of chance."""
        return Entropy()

    def boot(self) -> int:
        """The number of this run of the machine's kernel."""
        return read_boot(self.disk(), self.entropy())

    def transport(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> Transport:
        """The connections to the Raft peers."""
        return AsyncTransport(identity, listen, peers)

    def writer(self) -> Writer:
        """The writer of the journal."""
        return WriterThread()

    def forwarder(self, leader_http: Callable[[], str | None]) -> Forwarding:
        """The way to the leader. `leader_http` gives its host:port, None while there is none."""
        return Forwarder(leader_http)

    def push_client(
        self, allow: Iterable[str], now_ms: Callable[[], int], may_send: Callable[[PushWork], bool], ended: Ended
    ) -> Client:
        """The connections to receivers of webhooks: public ones, and those in these networks."""
        return PushClient(Addresses(allow), now_ms, may_send, ended)

    def receivers(self, wire: PushWire) -> Receivers:
        """The way from a group to the push wire. Here it is a call."""
        return wire

    def fronted(self, port: GroupPort) -> GroupPort:
        """The way from the front to a group. Here it is a call."""
        return port

    def watchdog(self, held_ms: int) -> Watchdog:
        """The watchdog of the event loop."""
        return LoopWatchdog(held_ms)

    async def serve(self, port: Port, host: str, listen_port: int) -> Serving:
        """The HTTP server. Raises api.http.listening.ListenFailed."""
        return await serve(port, host, listen_port)
