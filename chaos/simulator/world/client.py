"""Simulated clients: they call the service port of the node they are connected to, over the simulated network.

A client learns as much as a program over HTTP: a value, a refusal, or nothing certain. Nothing is certain if the
connection broke, the node died, or the answer did not come in time. A node that does not lead passes the request on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.port import Port
from chaos.client.outcome import Outcome, refusal
from chaos.simulator.network.network import Network, Socket
from chaos.simulator.time.loop import Scheduler
from chaos.simulator.time.trace import Trace
from chaos.simulator.world.environment import Reply, Request, ValuesPiece

#: How long a client waits for a connection, and by default for an answer.
CONNECT_S = 1.0
TIMEOUT_S = 10.0


class Client:
    """A client of one node, connected to its HTTP port. It keeps free connections for later calls. `name` is its host
    in the network."""

    def __init__(self, scheduler: Scheduler, network: Network, trace: Trace, name: str, node: str, port: int) -> None:
        self.name = name
        self.node = node
        self._scheduler = scheduler
        self._network = network
        self._trace = trace
        self._address = (node, port)
        self._idle: list[Socket] = []

    def call(
        self,
        call: Callable[[Port], Awaitable[Any]],
        done: Callable[[Outcome[Any]], None],
        *,
        label: str = "call",
        reads: bool = False,
        pulls: bool = False,
        leader: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Ask the node to carry out `call(port)`. `done(outcome)` is called once.

        - `label`: names the call in the trace, and in the request's target.
        - `reads`: the call changes nothing, as a GET. So a lost answer of the leader is a refusal, not an unknown
          outcome.
        - `pulls`: the call may wait for long. The label ends with its topic. A node that passes the call on to the
          leader gives the messages back if the client has gone.
        - `leader` False: any node answers (`?consistency=local`).
        - `timeout_s`: the client gives up after this time, and takes the outcome for unknown.
        """
        target = f"/v1/topics/{label.rpartition(' ')[2]}/pull" if pulls else f"/{label}"
        method = "GET" if reads else "POST"
        request = Request(method, target, {}, b"", call=call, leader=leader, waits=pulls)
        self._ask(_Asking(self, request, label, done), timeout_s)

    def http(
        self,
        method: str,
        target: str,
        done: Callable[[Outcome[Any]], None],
        *,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Send a request over HTTP: the node's real routes answer it. The outcome's value is an
        api.port.port.ForwardAnswer of any status."""
        headers = {"Content-Type": "application/json"} if body else {}
        request = ForwardRequest(method, target, headers, body)
        self._ask(_Asking(self, request, f"{method} {target}", done), timeout_s)

    def _ask(self, asking: _Asking, timeout_s: float) -> None:
        self._scheduler.after(timeout_s, asking.time_out)
        while self._idle:
            socket = self._idle.pop()
            if not socket.closed:
                asking.send(socket)
                return
        self._scheduler.after(CONNECT_S, asking.no_connection)
        self._network.connect(self.name, _run, self._address, asking.send, asking.no_connection)

    def keep(self, socket: Socket) -> None:
        """Keep a free connection for a later call."""
        socket.attach(lambda _: None, lambda: None)
        self._idle.append(socket)

    def told(self, label: str, outcome: Outcome[Any]) -> None:
        """Note the outcome of a call of this client in the trace."""
        self._trace.note(self.name, label, outcome.kind, outcome.code)


def _run(call: Callable[..., None], *args: Any) -> None:
    call(*args)


class _Asking:
    """One call of a client, from its connection to its outcome."""

    def __init__(
        self, client: Client, request: ForwardRequest, label: str, done: Callable[[Outcome[Any]], None]
    ) -> None:
        self._client = client
        self._label = label
        self._request = request
        self._done: Callable[[Outcome[Any]], None] | None = done
        self._socket: Socket | None = None

    def send(self, socket: Socket) -> None:
        """Send the request on a new connection."""
        if self._done is None:
            socket.reset()
            return
        self._socket = socket
        socket.attach(self._answered, self._broken)
        socket.send(ValuesPiece(self._request, self._label), 1000)

    def no_connection(self) -> None:
        """No connection was made."""
        if self._socket is None:
            self._end(Outcome("refused"))

    def time_out(self) -> None:
        """Stop waiting: the outcome is unknown."""
        if self._done is not None:
            if self._socket is not None:
                self._socket.reset()
            self._end(Outcome("unknown"))

    def _broken(self) -> None:
        self._end(Outcome("unknown"))

    def _answered(self, parcel: ValuesPiece) -> None:
        assert self._socket is not None
        if self._done is None:
            return
        self._client.keep(self._socket)
        reply: ForwardAnswer = parcel.content
        if not isinstance(reply, Reply):
            self._end(Outcome("ok", reply))
            return
        problem = reply.problem
        self._end(Outcome("ok", reply.value) if problem is None else refusal(problem.code, problem.extra))

    def _end(self, outcome: Outcome[Any]) -> None:
        if self._done is not None:
            done, self._done = self._done, None
            self._client.told(self._label, outcome)
            done(outcome)
