"""All that a simulated node sees of the world: node.environment.Environment on virtual time.

As much as possible is the real code. The Raft transport with its greetings, pings and back-off runs over simulated
sockets. So does the forwarder, with its waits for a leader and the time that it leaves to a former one. The listener,
the HTTP client and the HTTP server are replaced. Requests and answers travel as Python values, which the service port
takes and gives anyway.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from api.port.address_guard import Addresses
from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.port import Delivery, Port
from api.port.problem import Problem
from chaos.simulator.disk.disk import SimDisk
from chaos.simulator.network.http import Routes
from chaos.simulator.network.network import Address, Network, Socket
from chaos.simulator.network.stream import dial
from chaos.simulator.network.transport import SimTransport
from chaos.simulator.time.loop import SimLoop
from chaos.simulator.world.receivers import Receivers as SimReceivers
from chaos.simulator.world.receivers import SimPushClient
from node.environment import Environment
from node.front.pass_on import Forwarder, lost_answer
from node.port.group_port import GroupPort
from node.port.loopback import FramedReceivers, framed_group
from node.port.push_port import PushWork, Receivers
from node.push_wire.connection import Ended
from node.push_wire.wire import PushWire
from node.runtime.clock import NodeClock
from node.runtime.entropy import RANDOM_BITS, Entropy
from node.runtime.watchdog import Watchdog
from replication.journal.sync import Sync
from replication.journal.writer import Writer, Written
from replication.wire.listener import Identity
from storage.file.disk import DiskFailed

#: How long dialling the leader may take, as in node.front.pass_on.
CONNECT_S = 1.0


class Request(ForwardRequest, frozen=True, kw_only=True):
    """A request without HTTP: the answering node carries out `call` on its port. `leader`: only the leader may answer,
    and other nodes pass the request on. `waits`: the call may wait for long, and a node that drains ends it."""

    call: Callable[[Port], Awaitable[Any]]
    leader: bool = True
    waits: bool = False


class Reply(ForwardAnswer, frozen=True, kw_only=True):
    """The result of a request: a value, or a Problem."""

    value: Any = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class ValuesPiece:
    """A piece on a connection that carries a value instead of bytes. `trace` names the piece in the trace."""

    content: Any
    trace: str


class SimEntropy(Entropy):
    """A node's source of chance, whose draws follow from the seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def bytes(self, count: int) -> bytes:
        """See Entropy."""
        return self._chance.randbytes(count)

    def id_bits(self, count: int) -> npt.NDArray[np.uint64]:
        """See Entropy."""
        drawn = np.frombuffer(self._chance.randbytes(8 * count), np.uint64)
        return drawn >> np.uint64(64 - RANDOM_BITS)

    def random(self) -> random.Random:
        """See Entropy."""
        return random.Random(self._chance.getrandbits(64))


class SimWriter:
    """The journal's writer without a thread. Each Sync takes effect at one moment within the time of its job."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._written: Written | None = None
        self._under_way: Sync | None = None

    def start(self, written: Written) -> None:
        """See Writer."""
        self._written = written

    def put(self, sync: Sync) -> None:
        """See Writer."""
        self._under_way = sync
        self._loop.job(lambda: self._run(sync), lambda _, error: self._tell(sync, error))

    def _run(self, sync: Sync) -> None:
        if self._under_way is sync:
            self._under_way = None
            sync.run()

    def close(self) -> None:
        """See Writer. The Sync under way takes effect, as if its thread were waited for, and its error is dropped. On a
        dead loop the Sync takes no effect: the process was killed, and this call comes only because its coroutines are
        closed."""
        self._written = None
        if self._under_way is not None and not self._loop.dead:
            with suppress(DiskFailed):
                self._run(self._under_way)

    def _tell(self, sync: Sync, error: BaseException | None) -> None:
        if self._written is not None:
            self._written(sync, error)


class SimForwarder(Forwarder):
    """The real forwarder. It reaches the leader over a simulated socket."""

    def __init__(self, leader_http: Callable[[], str | None], network: Network) -> None:
        super().__init__(leader_http)
        self._network = network
        self._sockets: dict[Socket, None] = {}

    async def start(self) -> None:
        """Do nothing: there is no session to open."""

    async def close(self) -> None:
        """Break the connections of all requests under way, so that they end."""
        for socket in list(self._sockets):
            socket.reset()
            socket.end()

    async def _send(self, address: str, request: ForwardRequest) -> ForwardAnswer | None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_S):
                socket = await dial(self._network, loop, (host, int(port)))
        except (OSError, TimeoutError):
            return None
        answer: asyncio.Future[ForwardAnswer | None] = loop.create_future()

        def answered(parcel: ValuesPiece | None) -> None:
            if not answer.done():
                answer.set_result(None if parcel is None else parcel.content)

        socket.attach(answered, lambda: answered(None))
        self._sockets[socket] = None
        try:
            socket.send(ValuesPiece(request, f"{request.method} {request.target}"), 1000)
            reply = await answer
        finally:
            del self._sockets[socket]
            socket.reset()
        if reply is None:
            raise lost_answer(request, "the leader's answer did not come")
        return reply


@dataclass(eq=False, slots=True)
class _Answering:
    """A request that a node is answering: its task, and `waits` of the request."""

    task: asyncio.Task[None]
    waits: bool
    elsewhere: bool = False  # it was passed on to the leader, which may have done it


class SimServing:
    """A node's HTTP server without HTTP. It takes requests, answers them by the node's port or by the leader, refuses
    them while it drains, and ends those whose clients have gone."""

    def __init__(
        self, port: Port, address: Address, network: Network, complain: Callable[[BaseException], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.draining = False
        self._port = port
        self._address = address
        self._network = network
        self._complain = complain
        self._loop = loop
        self._sockets: dict[Socket, None] = {}
        self._at_work: dict[Socket, _Answering] = {}
        self._routes = Routes(port)
        network.listen(address, loop.arrive, self._accepted)

    def _accepted(self, socket: Socket) -> None:
        self._sockets[socket] = None
        socket.attach(lambda request: self._asked(socket, request), lambda: self._gone(socket))

    def _asked(self, socket: Socket, request: ValuesPiece) -> None:
        asked = request.content
        if isinstance(asked, Request):
            task = self._loop.create_task(self._answer(socket, asked))
            self._at_work[socket] = _Answering(task, asked.waits)
        else:
            self._at_work[socket] = _Answering(self._loop.create_task(self._route(socket, asked)), False)

    async def _route(self, socket: Socket, request: ForwardRequest) -> None:
        """Answer a request of HTTP by the real routes."""
        try:
            answer = await self._routes.answer(request)
        except Exception as error:
            self._complain(error)
            raise
        self._reply(socket, answer)

    def _reply(self, socket: Socket, answer: ForwardAnswer) -> None:
        self._at_work.pop(socket, None)
        socket.send(ValuesPiece(answer, f"http {answer.status}"), 1000)

    def _gone(self, socket: Socket) -> None:
        self._sockets.pop(socket, None)
        at_work = self._at_work.pop(socket, None)
        if at_work is not None:
            at_work.task.cancel()

    async def _answer(self, socket: Socket, request: Request) -> None:
        try:
            reply = await self._run(socket, request)
        except Problem as problem:
            reply = refusal(problem)
        except asyncio.CancelledError:
            if socket.closed or not self.draining:
                raise
            at_work = self._at_work.get(socket)
            elsewhere = at_work is not None and at_work.elsewhere
            code = "outcome-unknown" if elsewhere else "draining"
            reply = refusal(Problem(code, "this node is shutting down; ask another node"))
        except Exception as error:
            self._complain(error)
            reply = refusal(Problem("internal", repr(error)))
        self._reply(socket, reply)

    async def _run(self, socket: Socket, request: Request) -> Reply:
        if self.draining:
            raise Problem("draining", "this node is shutting down; ask another node")
        port = self._port
        elsewhere = request.leader and not port.leads()
        self._at_work[socket].elsewhere = elsewhere
        if elsewhere and not port.reaches_leader():
            if "Hourwheel-Forwarded" in request.headers:
                raise Problem("no-leader", "took this node for the leader, and it is not; try again")
            passed_on = msgspec.structs.replace(request, headers={"Hourwheel-Forwarded": port.node_id})
            reply = await port.forward(passed_on)
            assert isinstance(reply, Reply)
            return reply
        value = await request.call(port)
        return Reply(200, {}, _receipts(value) if request.waits else b"", value=value)

    def drain(self) -> None:
        """Refuse new requests, and end the pulls that wait."""
        self.draining = True
        self._routes.drain()
        for at_work in list(self._at_work.values()):
            if at_work.waits:
                at_work.task.cancel()

    async def close(self, grace_s: float = 10.0) -> None:
        """Stop listening, let requests at work finish for `grace_s`, close all connections."""
        self.drain()
        self._network.unlisten(self._address)
        left = [at_work.task for at_work in self._at_work.values()]
        if left and grace_s:
            await asyncio.wait(left, timeout=grace_s)
        for at_work in list(self._at_work.values()):
            at_work.task.cancel()
        for socket in list(self._sockets):
            socket.finish()


def _receipts(deliveries: Sequence[Delivery]) -> bytes:
    """The JSON body of the answer to a pull, with the receipts only. A node that passed the pull on reads them if its
    client has left, to give the messages back."""
    return msgspec.json.encode({"messages": [{"receipt": each.receipt} for each in deliveries]})


def refusal(problem: Problem) -> Reply:
    """The answer that carries this problem. Its body has the code, which the forwarder reads."""
    return Reply(problem.status, {}, msgspec.json.encode({"code": problem.code}), problem=problem)


class SimEnvironment(Environment):
    """The environment of one incarnation of a node: made at each start of its process. `older`: the node runs as the
    build before. `framed`: calls between front, group and push wire cross as bytes. `boot` is the number of the
    machine's run."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        disk: SimDisk,
        clock: Callable[[], NodeClock],
        receivers: SimReceivers,
        chance: random.Random,
        complain: Callable[[BaseException], None],
        older: bool = False,
        *,
        framed: bool = False,
        boot: int,
    ) -> None:
        self._loop = loop
        self._boot = boot
        self._older = older
        self._framed = framed
        self._network = network
        self._disk = disk
        self._clock = clock
        self._receivers = receivers
        self._chance = chance
        self._complain = complain

    def clock(self) -> NodeClock:
        """See Environment."""
        return self._clock()

    def disk(self) -> SimDisk:
        """See Environment."""
        return self._disk

    def entropy(self) -> Entropy:
        """See Environment."""
        return SimEntropy(self._chance)

    def boot(self) -> int:
        """See Environment."""
        return self._boot

    def transport(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> SimTransport:
        """See Environment."""
        return SimTransport(identity, listen, peers, self._network, self._chance, self._older)

    def writer(self) -> Writer:
        """See Environment."""
        return SimWriter(self._loop)

    def forwarder(self, leader_http: Callable[[], str | None]) -> SimForwarder:
        """See Environment."""
        return SimForwarder(leader_http, self._network)

    def push_client(
        self, allow: Iterable[str], now_ms: Callable[[], int], may_send: Callable[[PushWork], bool], ended: Ended
    ) -> SimPushClient:
        """See Environment."""
        return SimPushClient(self._loop, self._network, self._receivers, Addresses(allow), now_ms, may_send, ended)

    def receivers(self, wire: PushWire) -> Receivers:
        """See Environment. With `framed` only bytes cross from a group to the push wire."""
        return FramedReceivers(wire) if self._framed else wire

    def fronted(self, port: GroupPort) -> GroupPort:
        """See Environment. With `framed` only bytes cross from the front to a group."""
        return framed_group(port) if self._framed else port

    def watchdog(self, held_ms: int) -> Watchdog:
        """A watchdog that does nothing: the real one has a thread and clocks that say nothing about virtual time."""
        return Watchdog()

    async def serve(self, port: Port, host: str, listen_port: int) -> SimServing:
        """See Environment."""
        return SimServing(port, (host, listen_port), self._network, self._complain)
