"""The HTTP server of a node: finds the route, passes requests on to the leader, turns refusals into problems.

It stands on aiohttp's low-level server, not on web.Application. Our own route table, and answers that leave as one
write (`api.http.answer`), halve the cost of a request. Every request passes, in order: request id, route (404, 405),
draining (503), principal, leadership (pass on or 503 no-leader), handler. An exception that is not a `Problem` is
logged with its traceback. The client gets 500 with the request id to look for, and nothing else about it.
"""

import asyncio
import itertools
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from api.http.answer import PROBLEM, Answer, http_date
from api.http.client_protocol import ClientProtocol
from api.http.cross_site import refuse_other_sites
from api.http.exchange import Exchange
from api.http.framing import header_too_large, is_too_large
from api.http.listener import Listener
from api.http.listening import listen
from api.http.route import Route, RouteTable
from api.port.forward import Answered, ForwardRequest
from api.port.leadership import FORWARDED, ONCE, WAIT
from api.port.loop_turn import Line, in_turns
from api.port.port import ANONYMOUS, Port, Principal
from api.port.problem import Problem, draining, readable
from api.read.idempotency import HEADER, check_one, key_fault

_log = logging.getLogger("api")

REQUEST_ID: Final = "X-Request-Id"
#: Methods whose body is not read.
_BODILESS: Final = ("GET", "DELETE")
#: Request headers that mean something to the leader. All others stay here.
_PASSED_ON: Final = ("Content-Type", "Content-Encoding", "If-Match", "Accept", HEADER)
_PASSED_ON_BY_RAW: Final = {name.lower().encode(): name for name in _PASSED_ON}
#: Headers of the leader's answer that belong to the contract, by lower-case name.
_PASSED_BACK: Final = {
    name.lower(): name
    for name in (
        ("Location", "ETag", "Retry-After", "Allow", "Idempotency-Replayed") + ("Hourwheel-Node", "Hourwheel-Term")
    )
}
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}", re.ASCII)

#: Seconds between two searches for overdue connections, and seconds that `close` gives requests that are being
#: answered.
WATCH_EVERY_S: Final = 1.0
GRACE_S: Final = 10.0
#: Stands for a grace of 0, which aiohttp takes as no limit. A failed node would then live as long as a slow request.
NO_GRACE_S: Final = 0.05
#: When this node drains, the leader has this long to end the waits that this node passed on to it.
PASSED_ON_S: Final = 0.5


@dataclass(slots=True, eq=False)
class _Wait:
    """A request that may wait for long. If another node passed it on, `came_by` is that node ("" otherwise), and
    `number` is that node's number for it. `ended` is true once the wait was ended. It is then answered with the body
    `nothing`. If `nothing` is empty, only a drain can end the wait."""

    task: "asyncio.Task[Any]"
    came_by: str
    number: str
    nothing: bytes
    ended: bool = False
    cancelled: bool = False  # its task was cancelled, once


class Server:
    """The HTTP server of a node: it answers the requests of clients and other nodes through `port`. Made by
    `api.serve`; ended by `close`."""

    def __init__(self, port: Port, routes: Sequence[Route]) -> None:
        self.port = port
        #: True from the first call of `drain`. Then only health routes are answered.
        self.draining = False
        self._table = RouteTable(routes)
        self._direct = {(route.method, route.pattern): route for route in routes if "{" not in route.pattern}
        health = tuple(f"{route.method} {route.pattern} ".encode() for route in routes if route.health)
        self._listener = Listener(self.handle, self._refuse_bytes, port.budget, health)
        self._sockets: list[asyncio.Server] = []
        self._watchdog: asyncio.Task[None] | None = None
        self._waiting: dict[_Wait, None] = {}
        self._numbers = itertools.count(1)
        # GET requests and all other requests wait in separate lines. A client that asks for a thousand large messages
        # does not delay clients that send and pull.
        self._questions, self._orders = Line(self._listener.loop), Line(self._listener.loop)
        self._id_prefix = f"{port.node_id}-{port.now_ms():x}-"
        self._stamp, self._stamped_by = "", (-1, "", -1)

    # The life of the server

    async def listen(self, host: str, listen_port: int) -> None:
        """Listen on this host and port (0: any free port). Raises `ListenFailed` with the reason."""
        self._sockets = await listen(partial(ClientProtocol, self._listener), host, listen_port)
        self._watchdog = asyncio.get_running_loop().create_task(self._watch())

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and port of the socket. The system chose the port if 0 was asked for."""
        assert self._sockets, "listen first"
        name = self._sockets[0].sockets[0].getsockname()
        return name[0], name[1]

    def drain(self) -> None:
        """Refuse new requests with 503 `draining`, and end every wait with that answer. Idempotent. Health routes go
        on.

        Waits that this node passed on to the leader end PASSED_ON_S later. Until then the leader is asked to end and
        answer them (`end_waits`), because it may just have delivered messages to one of them. If this node ended the
        wait itself, it would lose those messages, and they would come again after their lease.
        """
        if self.draining:
            return
        self.draining = True
        if self.port.leads() or self.port.reaches_leader():
            self._cancel_waits()
        else:
            asyncio.get_running_loop().call_later(PASSED_ON_S, self._cancel_waits)

    def _cancel_waits(self) -> None:
        for wait in self._waiting:
            self._listener.endings.add(partial(self._cancel_wait, wait))

    def _cancel_wait(self, wait: _Wait) -> None:
        if wait not in self._waiting or wait.cancelled:
            return
        if wait.task is asyncio.current_task():  # it reads its body, and the bytes behind it came with that
            self._listener.endings.add(partial(self._cancel_wait, wait))
            return
        wait.cancelled = True
        wait.task.cancel()

    def end_waits(self, node_id: str, number: int | None = None) -> int:
        """End the waits that the node `node_id` passed on to this one, or only the one that it gave this `number`. Each
        is answered as a wait that found nothing. Return how many."""
        named = None if number is None else str(number)
        waits = [wait for wait in self._waiting if wait.nothing and wait.came_by == node_id]
        passed_on = [wait for wait in waits if named in (None, wait.number)]
        for wait in passed_on:
            wait.ended = True
            self._listener.endings.add(partial(self._cancel_wait, wait))
        return len(passed_on)

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Drain, stop listening, let requests at work finish for `grace_s`, close all connections. Idempotent."""
        self.drain()
        for each in self._sockets:
            each.close()
        self._sockets = []
        if self._watchdog is not None:
            self._watchdog.cancel()
            with suppress(asyncio.CancelledError):
                await self._watchdog
            self._watchdog = None
        self._listener.pre_shutdown()  # closes idle connections now; otherwise shutdown waits for them
        await self._listener.shutdown(max(grace_s, NO_GRACE_S))
        self._listener.watch.close()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            await in_turns(self._listener.close_overdue(loop.time()))

    # The way of a request

    async def handle(self, request: web.BaseRequest) -> Answer:
        """Answer one request. Raises nothing but cancellation (the client has gone)."""
        request_id = request.headers.get(REQUEST_ID)
        if request_id is None or _SANE_ID.fullmatch(request_id) is None:
            request_id = f"{self._id_prefix}{next(self._numbers)}"
        exchange = Exchange(self, request, request_id, self._principal(request))
        try:
            self._check(exchange)
            route = self._direct.get((request.method, exchange.target))
            if route is None:
                route, exchange.params = self._table.find(request.method, self._relative(exchange))
            if not route.health:
                line = exchange.line = self._questions if route.method == "GET" else self._orders
                if not line.begins():
                    await line.turn()
                if self.draining or self.port.drained():
                    raise draining()
            if route.batch:
                exchange.bytes_max = self.port.limits.batch_bytes_max
            if route.waits:
                return await self._wait(route, exchange)
            return await self._run(route, exchange)
        except Problem as problem:
            return self._refuse(exchange, problem)
        except Exception:
            _log.exception("request %s: %s %s failed", request_id, request.method, exchange.target[:200])
            return self._refuse(exchange, Problem("internal", f"see the node's log for request {request_id}"))
        finally:
            exchange.release()

    def _check(self, exchange: Exchange) -> None:
        """Refuse a request that two nodes could read differently, or that a page of another site sends."""
        if exchange.connection.oversized and is_too_large(exchange.request.raw_headers):
            raise header_too_large()
        if "#" in exchange.target:
            raise Problem("malformed-request", "a request's target has no fragment; write # as %23")
        for raw, text in () if exchange.connection.is_ascii else exchange.request.raw_headers:
            if not text.isascii() and (name := _PASSED_ON_BY_RAW.get(raw.lower())) is not None:
                raise Problem("malformed-request", f"the header {name} holds a byte that is not ASCII")
        headers = exchange.request.headers
        if "Origin" in headers or "Sec-Fetch-Site" in headers:
            refuse_other_sites(headers, self.port.names)

    async def _run(self, route: Route, exchange: Exchange) -> Answer:
        if route.method in _BODILESS:
            exchange.connection.needs_no_body()
        else:
            exchange.check_size()
        if route.leader and not self.port.leads() and not (route.stays is not None and route.stays(exchange)):
            if FORWARDED in exchange.request.headers or not self.port.reaches_leader():
                return await self.pass_on(exchange)
            exchange.asks_elsewhere()
        if not route.keyed and route.method != "GET" and exchange.has_key():
            raise _takes_no_key(route)
        try:
            return await route.handler(exchange)
        except Problem as refused:
            if refused.code != "no-leader" or not self._moves_on(route, exchange):
                raise
        if not self.port.reaches_leader():
            return await self.pass_on(exchange)
        exchange.asks_elsewhere()
        return await route.handler(exchange)

    def _moves_on(self, route: Route, exchange: Exchange) -> bool:
        """True if this node refused the request with `no-leader` and changed nothing, and the request may go to the
        present leader. This node led when the request came, and has given leadership away. Two kinds are not sent on:
        waits, which end with the leader, and requests about the cluster itself."""
        elsewhere = route.leader and not route.waits and not self.port.leads() and exchange.answered is None
        return elsewhere and FORWARDED not in exchange.request.headers and not route.pattern.startswith("/v1/cluster")

    async def _wait(self, route: Route, exchange: Exchange) -> Answer:
        """Run a handler that may wait for long, so that draining can end it."""
        task = asyncio.current_task()
        assert task is not None
        headers = exchange.request.headers
        wait = _Wait(task, headers.get(FORWARDED, ""), headers.get(WAIT, ""), route.nothing)
        connection = exchange.connection
        if route.leader and exchange.has_shut():  # the leader gives it the messages that are ready
            exchange.once = True
            return await self._run(route, exchange)
        self._waiting[wait] = None

        def end() -> None:
            wait.ended = True
            self._cancel_wait(wait)

        try:
            if wait.nothing:
                connection.wait(end)
                exchange.once = connection.unwatched() or ONCE in headers  # nothing would show that the client goes
            return await self._run(route, exchange)
        except asyncio.CancelledError:
            if not (self.draining or wait.ended) or exchange.request.transport is None:
                raise
            if wait.ended:
                return exchange.answer(200, wait.nothing)
            elsewhere = exchange.passed_on or exchange.answered is not None
            raise (_unanswered() if elsewhere else draining()) from None
        finally:
            if wait.nothing:
                connection.waited()
            del self._waiting[wait]
            if wait.cancelled:
                task.uncancel()

    async def pass_on(self, exchange: Exchange) -> Answer:
        """Pass the request to the leader as it came, and return its answer."""
        request = exchange.request
        came_by = request.headers.get(FORWARDED)
        if came_by is not None:
            raise Problem("no-leader", f"{came_by[:64]} took this node for the leader, and it is not; try again")
        check_one(request.headers.getall(HEADER, ()))
        headers = {name: text for name in _PASSED_ON if (text := request.headers.get(name)) is not None}
        headers[FORWARDED] = self.port.node_id
        headers[REQUEST_ID] = exchange.request_id
        if exchange.once:
            headers[ONCE] = "1"
        method = "GET" if request.method == "HEAD" else request.method
        body = await exchange.read_as_sent() if method not in _BODILESS else b""
        exchange.passed_on = True
        answer = await self.port.forward(ForwardRequest(method, exchange.target, headers, body, exchange.gone))
        content_type = "application/octet-stream"
        back: dict[str, str] = {}
        for name, text in answer.headers.items():
            lower = name.lower()
            if lower == "content-type":
                content_type = text
            elif lower in _PASSED_BACK:
                back[_PASSED_BACK[lower]] = text
        return exchange.relay(answer.status, answer.body, content_type, back)

    @staticmethod
    def _principal(request: web.BaseRequest) -> Principal:
        """Return the caller. Authentication will stand here, and only here."""
        return ANONYMOUS

    @staticmethod
    def _relative(exchange: Exchange) -> str:
        """Return the target as path and query. A proxy may send it with scheme and host."""
        if not exchange.target.startswith("/"):
            exchange.target = str(exchange.request.rel_url)
        return exchange.target

    # The headers of every answer

    def stamp(self, answered: Answered | None) -> str:
        """Return Date, Hourwheel-Node and Hourwheel-Term as header lines. They are made once per second and term.
        `answered` names the node that answered, if another one did."""
        second = self.port.now_ms() // 1000
        if answered is not None and answered.node:
            by = (second, answered.node, answered.term)
        else:
            by = (second, self.port.node_id, self.port.term())
        if by != self._stamped_by:
            self._stamp = f"{self.date()}Hourwheel-Node: {by[1]}\r\nHourwheel-Term: {by[2]}\r\n"
            self._stamped_by = by
        return self._stamp

    def date(self) -> str:
        """Return the line of the Date header."""
        return f"Date: {http_date(self.port.now_ms() // 1000)}\r\n"

    def keeps(self, exchange: Exchange) -> bool:
        """True if the connection stays open after this answer. It closes if part of the body is unread."""
        request = exchange.request
        kept = request.keep_alive and not self.draining and request.content.is_eof() and request.version >= (1, 1)
        return kept and exchange.connection.goes_on()

    def _refuse(self, exchange: Exchange, problem: Problem) -> Answer:
        headers = dict(problem.headers)
        if problem.retry_after_s is not None:
            headers["Retry-After"] = str(problem.retry_after_s)
        return exchange.answer(
            problem.status, self._body(problem, exchange.request_id, exchange.answered), PROBLEM, headers
        )

    def _refuse_bytes(self, problem: Problem) -> Answer:
        """Return the answer to bytes that are not HTTP. They have no exchange, and the connection ends."""
        request_id = f"{self._id_prefix}{next(self._numbers)}"
        stamp = f"{self.stamp(None)}{REQUEST_ID}: {request_id}\r\n"
        return Answer.of(problem.status, self._body(problem, request_id, None), PROBLEM, stamp=stamp, keep_alive=False)

    def _body(self, problem: Problem, request_id: str, answered: Answered | None) -> bytes:
        """Encode a problem. Characters of the request that are no UTF-8 become `?`."""
        term = answered.term if answered is not None and answered.node else self.port.term()
        context: dict[str, Any] = {"term": term, "request_id": request_id}
        leader = self.port.leader()
        if leader is not None:
            context["leader"] = leader
        shape = problem.shape(**context)
        try:
            return msgspec.json.encode(shape)
        except UnicodeEncodeError:
            return msgspec.json.encode(readable(shape))


def _unanswered() -> Problem:
    return Problem(
        "outcome-unknown",
        "this node is shutting down, and the leader's answer did not come; "
        "what that handed over comes again when its lease has ended",
    )


def _takes_no_key(route: Route) -> Problem:
    instead = "; each message carries its key in the field key" if route.batch else ""
    return key_fault(f"{route.method} {route.pattern} takes no {HEADER}{instead}; leave it out")
