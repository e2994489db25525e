"""Receivers of webhooks, and their sender: the node's push client on simulated sockets.

Each receiver has an address of its own, and therefore a lane of its own in a node. Its behaviour is set for each
request: it answers with a status after a while, hangs, or closes the connection. All receivers keep one log of their
requests. The log is all that the outside world knows of pushes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from api.port.address_guard import Addresses
from chaos.simulator.network.network import Network, Socket
from chaos.simulator.time.loop import Scheduler, SimLoop
from chaos.simulator.time.trace import Trace
from node.port.failure_code import BROKEN, CONNECT, FORBIDDEN_ADDRESS, STOPPED, TIMEOUT
from node.port.push_port import Origin, PushWork
from node.push_wire.answer import Answer, make_answer
from node.push_wire.client import KEEPALIVE_S
from node.push_wire.connection import Ended

#: The network of the receivers. A node pushes to it only if its configuration allows that.
NETWORK = "10.9.0.0/16"
PORT = 80


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The reaction of a receiver to a request. It answers `status` after a time between `low_s` and `high_s`, hangs, or
    closes the connection after such a time. `retry_after` is the header's value."""

    status: int = 200
    low_s: float = 0.0005
    high_s: float = 0.003
    hang: bool = False
    close: bool = False
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One request as a receiver saw it. `status` is its answer, 0 for none. `at_s` is true time."""

    at_s: float
    url: str
    node: str
    id: str
    attempt: int
    term: int
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    """A request on the wire."""

    url: str
    node: str
    head: bytes
    body: bytes

    @property
    def trace(self) -> str:
        return f"push {self.url}"


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    retry_after: str | None

    @property
    def trace(self) -> str:
        return f"answer {self.status}"


class Receivers:
    """All receivers of a world, by name. `log` has every request in its order. `on_received` is called with each."""

    def __init__(self, scheduler: Scheduler, network: Network, chance: random.Random, trace: Trace) -> None:
        self.log: list[Received] = []
        self.on_received: Callable[[Received], None] = lambda received: None
        self._scheduler = scheduler
        self._network = network
        self._chance = chance
        self._trace = trace
        self._behaviour: dict[str, Callable[[], Behaviour]] = {}
        self._hosts: dict[str, str] = {}

    def url(self, name: str) -> str:
        """The URL of the receiver of this name. The receiver exists from now on, and answers 200."""
        host = self._hosts.get(name)
        if host is None:
            number = len(self._hosts) + 1
            host = self._hosts[name] = f"10.9.{number // 250}.{number % 250 + 1}"
            self._network.listen((host, PORT), _run, self._accepted)
            self._behaviour.setdefault(name, Behaviour)
        return f"http://{host}:{PORT}/{name}"

    def host(self, name: str) -> str:
        """The receiver's host, for faults of the network."""
        self.url(name)
        return self._hosts[name]

    def behave(self, name: str, behaviour: Behaviour | Callable[[], Behaviour]) -> None:
        """Set the receiver's behaviour for all requests, or a call that returns it for each request."""
        fixed = (lambda: behaviour) if isinstance(behaviour, Behaviour) else behaviour
        self._behaviour[name] = fixed
        self.url(name)

    def _accepted(self, socket: Socket) -> None:
        socket.attach(lambda request: self._asked(socket, request), lambda: None)

    def _asked(self, socket: Socket, request: _Request) -> None:
        behaviour = self._behaviour[request.url.rpartition("/")[2]]()
        headers = _headers(request.head)
        silent = behaviour.hang or behaviour.close
        received = Received(
            at_s=self._scheduler.now,
            url=request.url,
            node=request.node,
            id=headers["webhook-id"],
            attempt=int(headers["hourwheel-attempt"]),
            term=int(headers["hourwheel-term"]),
            status=0 if silent else behaviour.status,
            body=request.body,
        )
        self.log.append(received)
        self._trace.note(request.url, "received", received.id, received.term, received.attempt)
        self.on_received(received)
        if behaviour.hang:
            return
        wait_s = behaviour.low_s + (behaviour.high_s - behaviour.low_s) * self._chance.random()
        if behaviour.close:
            self._scheduler.after(wait_s, socket.reset)
        else:
            self._scheduler.after(wait_s, socket.send, _Response(behaviour.status, behaviour.retry_after), 200)


def _run(call: Callable[..., None], *args: Any) -> None:
    call(*args)


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode().split("\r\n")[1:]
    return {name.lower(): value for name, colon, value in (line.partition(": ") for line in lines) if colon}


@dataclass(eq=False, slots=True)
class _Exchange:
    """One attempt of a push. `begun_s` is loop time."""

    work: PushWork
    request: _Request
    begun_s: float
    over: bool = False
    socket: Socket | None = None


@dataclass(slots=True)
class _Line:
    """Idle connections to one receiver, each with the moment when it became idle."""

    idle: list[tuple[Socket, float]] = field(default_factory=list)


class SimPushClient:
    """Sends pushes over simulated sockets, with the interface of the client in node.push_wire.client. It keeps
    connections for later attempts. One timeout covers an attempt from its begin to its answer. `may_send` is asked once
    a connection stands, and `ended` gets each outcome."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        receivers: Receivers,
        addresses: Addresses,
        now_ms: Callable[[], int],
        may_send: Callable[[PushWork], bool],
        ended: Ended,
    ) -> None:
        self._loop = loop
        self._network = network
        self._receivers = receivers
        self._addresses = addresses
        self._now_ms, self._may_send, self._ended = now_ms, may_send, ended
        self._lines: dict[Origin, _Line] = {}
        self._under_way: dict[_Exchange, None] = {}

    async def start(self) -> None:
        """Do nothing: there is no session to open."""

    async def close(self) -> None:
        """Close all connections. Attempts under way end, and no outcome of them is reported."""
        for exchange in list(self._under_way):
            exchange.over = True
            if exchange.socket is not None:
                exchange.socket.reset()
        self._under_way.clear()
        for line in self._lines.values():
            for socket, _since in line.idle:
                socket.reset()
        self._lines.clear()

    def send(self, work: PushWork, head: bytes) -> None:
        """See node.push_wire.wire.Client."""
        target = work.target
        exchange = _Exchange(work, _Request(target.url, self._loop.name, head, work.body), self._loop.time())
        self._under_way[exchange] = None
        self._loop.call_later(target.timeout_ms / 1000, self._timed_out, exchange)
        host, port = target.origin.host, target.origin.port
        if not self._addresses.allows(host):
            self._loop.call_soon(self._end, exchange, Answer(FORBIDDEN_ADDRESS, f"{host} may not be pushed to"))
            return
        line = self._lines.setdefault(target.origin, _Line())
        while line.idle:
            socket, since_s = line.idle.pop()
            if not socket.closed and self._loop.time() - since_s < KEEPALIVE_S:
                self._begin(exchange, socket)
                return
            socket.reset()
        self._network.connect(
            self._loop.name,
            self._loop.arrive,
            (host, port),
            lambda socket: self._connected(exchange, socket),
            lambda: self._end(exchange, Answer(CONNECT, "connection refused")),
        )

    def _connected(self, exchange: _Exchange, socket: Socket) -> None:
        if exchange.over:
            socket.reset()
        else:
            self._begin(exchange, socket)

    def _begin(self, exchange: _Exchange, socket: Socket) -> None:
        if not self._may_send(exchange.work):
            self._keep(exchange.work.target.origin, socket)
            self._end(exchange, Answer(STOPPED, "this node stopped leading before the request was sent"))
            return
        exchange.socket = socket
        socket.attach(
            lambda response: self._answered(exchange, socket, response),
            lambda: self._end(exchange, Answer(BROKEN, "the connection was closed")),
        )
        socket.send(exchange.request, len(exchange.request.head) + len(exchange.request.body))

    def _answered(self, exchange: _Exchange, socket: Socket, response: _Response) -> None:
        if exchange.over:
            return
        self._keep(exchange.work.target.origin, socket)
        answer = make_answer(response.status, b"", response.retry_after, self._now_ms())
        self._end(exchange, answer)

    def _keep(self, origin: Origin, socket: Socket) -> None:
        socket.attach(lambda _: None, lambda: None)
        self._lines.setdefault(origin, _Line()).idle.append((socket, self._loop.time()))

    def _timed_out(self, exchange: _Exchange) -> None:
        if not exchange.over:
            if exchange.socket is not None:
                exchange.socket.reset()
            self._end(exchange, Answer(TIMEOUT, f"no answer within {exchange.work.target.timeout_ms} ms"))

    def _end(self, exchange: _Exchange, answer: Answer) -> None:
        if not exchange.over:
            exchange.over = True
            del self._under_way[exchange]
            self._ended(exchange.work, answer, exchange.begun_s)
