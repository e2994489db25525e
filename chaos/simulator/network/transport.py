"""The real Raft transport over simulated sockets, with callbacks for observers (faults/door_probe.py,
faults/upgrade.py)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from chaos.simulator.build.older_build import as_older
from chaos.simulator.network.network import Address, Network
from chaos.simulator.network.stream import StreamTransport
from chaos.simulator.time.loop import SimLoop
from replication.wire.frame import Message
from replication.wire.handshake import Hello, Range, Refusal
from replication.wire.link import Connection
from replication.wire.listener import AsyncTransport, Identity

#: A duplicate of a message is sent within this time after the first.
DUPLICATE_S = 2.0

Heard = Callable[[Connection, str, Callable[[], None]], None]
"""Takes a connection, the kind of a message on it, and a call that makes the node hear the message."""


class SimTransport(AsyncTransport):
    """The real Raft transport over simulated sockets. It sends a share of the messages twice if a fault of the network
    says so. `older`: it says hello as the build before."""

    def __init__(
        self,
        identity: Identity,
        listen: Address,
        peers: dict[str, Address],
        network: Network,
        chance: random.Random,
        older: bool = False,
    ) -> None:
        super().__init__(identity, listen, peers)
        self._network = network
        self._chance = chance
        self._older = older
        self.around: Heard = lambda _connection, _what, hear: hear()
        """Makes the node hear a message on an accepted connection by calling `hear`. An observer may replace it."""
        self.on_up: Callable[[str, Hello], None] = lambda _peer, _hello: None
        """Called with each accepted peer and its hello, before any other part hears of the peer."""

    def _hello(self, to: str, *, guest: bool = False) -> Hello:
        said = super()._hello(to, guest=guest)
        return as_older(said) if self._older else said

    async def start(self) -> None:
        """Listen for connections, and dial the other members."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._network.listen(
            self._listen,
            loop.arrive,
            lambda socket: self._accepted(StreamTransport(socket, loop)),  # type: ignore[arg-type]
        )
        self._begin()

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self._network.unlisten(self._listen)
        await super().close()

    def reads_calls(self, peer: str) -> Range | None:
        """See AsyncTransport. An older build makes no calls."""
        return None if self._older else super().reads_calls(peer)

    def connected(self, peer: str) -> bool:
        """True if a connection stands in each direction between this node and the peer."""
        return all(line is not None and line.alive for line in self._lines(peer))

    def stands(self, peer: str) -> bool:
        """True if a connection stands in each direction, and on both each side knows the cluster id."""
        return all(line is not None and line.alive and not line.guest for line in self._lines(peer))

    def _lines(self, peer: str) -> tuple[Connection | None, Connection | None]:
        return self._dialled(peer), self._incoming.get(peer)

    def _up(self, peer: str, hello: Hello) -> None:
        self.on_up(peer, hello)
        super()._up(peer, hello)

    def _greeted(self, connection: Connection, said: Hello | Refusal) -> None:
        self.around(connection, "a greeting", partial(super()._greeted, connection, said))

    def _received(self, connection: Connection, message: Message) -> None:
        self.around(connection, str(message["type"]), partial(super()._received, connection, message))

    def send(self, peer: str, message: Message) -> bool:
        """See events.Wire. A fault of the network may send a duplicate later."""
        share = self._network.duplicate_share
        if share and self._chance.random() < share:
            again_s = DUPLICATE_S * self._chance.random()
            asyncio.get_running_loop().call_later(again_s, super().send, peer, message)
        return super().send(peer, message)
