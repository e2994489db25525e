"""Attempts of webhooks over kept connections. Each ends with a code, whatever the receiver does.

A receiver may refuse, hang, drip, flood, break off or talk nonsense. Each attempt ends as an Answer within the timeout.
The timeout covers everything from the look-up of the name to the last byte of the answer. Redirects are not followed: a
3xx is a failure like any other.

    connect (name -> addresses -> guarded socket -> TLS) -> may_send(work)? -> request -> status, <= 16 KiB -> Answer
       aiohttp's connector                                                     connection.py

aiohttp makes the connections, and our code the requests: a session of aiohttp costs several times what the bytes of a
webhook do. On a kept connection an attempt is a write and a callback, without a task. If an attempt finds no idle
connection, a new one is made. The attempt takes the first connection that is ready: the new one, or one that another
attempt is done with.

A request goes out once, since a receiver may have read it. If a kept connection breaks under a request, the attempt has
failed. So idle connections are dropped before the usual servers drop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from api.port.address_guard import Addresses
from api.port.loop_turn import Line
from api.port.traceback import let_go
from node.port.failure_code import STOPPED, TIMEOUT
from node.port.push_port import Origin, PushTarget, PushWork
from node.push_wire.answer import Answer, failed
from node.push_wire.connection import Ended, Exchange, Wire
from node.push_wire.deadlines import Deadlines
from node.push_wire.names import TOPIC, Names

#: Seconds after which this side closes an idle connection. Servers commonly close theirs after 5 s, and a request that
#: meets such a close is a failed attempt.
KEEPALIVE_S: Final = 4.0
#: Seconds between two searches for such connections.
SWEEP_S: Final = 0.5
#: At most this many connections to one receiver are made at the same time, or as many as stand already, if that is
#: more. Otherwise each attempt of a burst would make a connection, at ten times the price of a push. The first to stand
#: would soon be free for the other attempts.
CONNECTING_LEAST: Final = 8
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)


class _Pool:
    """The idle connections to one receiver, those being made, and the attempts that wait for one."""

    __slots__ = ("begun", "connecting", "idle", "in_use", "waiting")

    def __init__(self) -> None:
        self.idle: list[Wire] = []  # the last one was used last and is used next
        self.waiting: dict[Exchange, None] = {}  # the first is next
        self.connecting: list[asyncio.Task[None]] = []
        self.begun = 0  # connections being made that have had their turn
        self.in_use = 0

    @property
    def empty(self) -> bool:
        return not (self.idle or self.waiting or self.connecting or self.in_use)

    @property
    def lacking(self) -> bool:
        """True if one more connection is to be made."""
        most = max(CONNECTING_LEAST, self.in_use + len(self.idle))
        return len(self.connecting) < min(len(self.waiting), most)


class PushClient:
    """The connections of one process to receivers.

    - `addresses` decides which addresses may be connected to.
    - `now_ms` is for dates in Retry-After.
    - `may_send` is asked right before a request goes out. If it returns false, nothing is sent and the code is STOPPED.
    - `ended` is called once for each attempt, perhaps before `send` returns.
    """

    def __init__(
        self, addresses: Addresses, now_ms: Callable[[], int], may_send: Callable[[PushWork], bool], ended: Ended
    ) -> None:
        self._addresses = addresses
        self._now_ms, self._may_send, self._ended = now_ms, may_send, ended
        self._connector: _Connector | None = None
        self._names = Names()
        self._pools: dict[Origin, _Pool] = {}
        self._under_way: dict[Exchange, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Make the connector. Call it before the first `send`."""
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._passed)
        self._first = Line(self._loop)  # connections to receivers without one: 2,000 held the loop for a second
        self._connector = _Connector(
            limit=0,  # the pump bounds the attempts on the wire, by receiver and in all
            force_close=True,  # this class keeps idle connections
            use_dns_cache=False,  # the resolver remembers
            resolver=self._names,
            socket_factory=self._addresses.open_socket,
        )

    async def close(self) -> None:
        """Close all connections. Attempts under way are dropped without a call of `ended`."""
        if self._connector is None:
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._deadlines.clear()
        connecting = [task for pool in self._pools.values() for task in pool.connecting]
        for task in connecting:
            task.cancel()
        for exchange in self._under_way:
            exchange.forget()
            if exchange.wire is not None:
                exchange.wire.drop()
        for pool in self._pools.values():
            for wire in pool.idle:
                wire.drop(abort=False)
        self._under_way.clear()
        self._pools.clear()
        await asyncio.gather(*connecting, return_exceptions=True)
        await self._connector.close()

    def send(self, work: PushWork, head: bytes) -> None:
        """Begin one attempt. `head` is the head of its request, with the empty line."""
        assert self._connector is not None, "send before start"
        target = work.target
        exchange = Exchange(work, head, self._loop.time(), self._ended)
        self._under_way[exchange] = None
        pool = self._pools.get(target.origin)
        if pool is None:
            pool = self._pools[target.origin] = _Pool()
        while pool.idle:
            wire = pool.idle.pop()
            if wire.is_connected():
                self._deadlines.add(exchange, target.timeout_ms / 1000)
                if not self._begin(wire, exchange):
                    self._keep(wire, target.origin)
                return
            wire.drop()
        if pool.in_use or pool.begun:
            self._deadlines.add(exchange, target.timeout_ms / 1000)
        pool.waiting[exchange] = None
        self._connect_more(work.group, target, pool)

    def _begin(self, wire: Wire, exchange: Exchange) -> bool:
        """Send the request if `may_send` allows it. Otherwise end the attempt. Return true if the request was sent, so
        that the wire is in use now."""
        if self._may_send(exchange.work):
            self._pools[exchange.work.target.origin].in_use += 1
            wire.begin(exchange)
            return True
        self._end(
            exchange, Answer(STOPPED, "this node stopped leading, or the lease ended, before the request was sent")
        )
        return False

    def _end(self, exchange: Exchange, answer: Answer) -> None:
        del self._under_way[exchange]
        self._deadlines.remove(exchange)
        exchange.end(answer)

    # -- connections

    def _connect_more(self, group: int, target: PushTarget, pool: _Pool) -> None:
        """Make as many connections as waiting attempts need. While an attempt waits, at least one connection is being
        made. The task that makes it holds no message."""
        while pool.lacking:
            pool.connecting.append(self._loop.create_task(self._connect(group, target, pool)))

    async def _connect(self, group: int, target: PushTarget, pool: _Pool) -> None:
        """Make one more connection. When it stands or fails, the attempt that has waited longest gets it or its
        failure. Attempts that wait too long time out by themselves."""
        assert self._connector is not None
        TOPIC.set((group, target.topic))
        broken: BaseException | None = aiohttp.ServerDisconnectedError()
        if not (pool.in_use or pool.idle):
            await self._first.turn()
        for exchange in reversed(pool.waiting):  # attempts with a deadline stand before those without
            if exchange.due_s:
                break
            # The timeout begins now: the wait for this turn was not the receiver's fault.
            self._deadlines.add(exchange, exchange.work.target.timeout_ms / 1000)
        pool.begun += 1
        try:
            request = aiohttp.ClientRequest("GET", URL(target.url, encoded=True), loop=self._loop)
            async with asyncio.timeout(target.timeout_ms / 1000) as limit:
                connection = await self._connector.connect(request, [], _NO_TIMEOUT)
        except TimeoutError as failure:
            broken = None if limit.expired() else failure
        except Exception as failure:  # no error that a name or an address makes aiohttp raise may end the node
            broken = failure
        else:
            wire = connection.protocol
            assert isinstance(wire, Wire)
            wire.open(connection, self._now_ms, self._done, partial(self._gone, target.origin))
            if wire.is_connected():
                self._connected(pool)
                self._keep(wire, target.origin)
                self._connect_more(group, target, pool)
                return
            wire.drop()
        finally:
            pool.begun -= 1
        self._connected(pool)
        let_go(broken)
        if pool.waiting and broken is not None:
            self._end(self._next(pool), failed(broken))
        self._connect_more(group, target, pool)
        self._forget(target.origin)

    @staticmethod
    def _connected(pool: _Pool) -> None:
        """Remove the running task from the connections being made, because its work is done."""
        task = asyncio.current_task()
        assert task is not None
        pool.connecting.remove(task)

    def _next(self, pool: _Pool) -> Exchange:
        exchange = next(iter(pool.waiting))
        del pool.waiting[exchange]
        return exchange

    def _keep(self, wire: Wire, origin: Origin) -> None:
        """Give a free connection to the attempt that has waited longest. If none waits, keep the connection as idle."""
        pool = self._pools[origin]
        while pool.waiting:
            if self._begin(wire, self._next(pool)):
                return
        wire.idle_since_s = self._loop.time()
        pool.idle.append(wire)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _done(self, wire: Wire, exchange: Exchange, answer: Answer) -> None:
        """Take the outcome of an attempt. Keep its connection if that still stands."""
        origin = exchange.work.target.origin
        self._pools[origin].in_use -= 1
        if wire.is_connected():
            self._keep(wire, origin)
        else:
            wire.drop()
        self._end(exchange, answer)
        self._forget(origin)

    def _passed(self, exchange: Exchange) -> None:
        """End an attempt whose timeout has passed. It counts as a failed attempt, unless the look-up of the receiver's
        name still waits for its turn."""
        origin = exchange.work.target.origin
        pool = self._pools[origin]
        if exchange.wire is not None:
            pool.in_use -= 1
            exchange.wire.drop()
        else:
            del pool.waiting[exchange]
            if len(pool.connecting) > len(pool.waiting):
                pool.connecting.pop(0).cancel()
        if exchange.wire is None and self._names.waits(origin.host):  # our own queue is not the receiver's fault
            self._end(exchange, Answer(STOPPED, "its name waited to be looked up behind many others"))
        else:
            self._end(exchange, Answer(TIMEOUT, f"no answer within {exchange.work.target.timeout_ms} ms"))
        self._forget(origin)

    def _gone(self, origin: Origin, wire: Wire) -> None:
        """Forget an idle connection that the other side closed."""
        pool = self._pools.get(origin)
        if pool is not None and wire in pool.idle:
            pool.idle.remove(wire)
            self._forget(origin)

    def _forget(self, origin: Origin) -> None:
        pool = self._pools.get(origin)
        if pool is not None and pool.empty:
            del self._pools[origin]

    def _sweep(self) -> None:
        """Close connections that were idle for too long."""
        self._sweeping = None
        before_s = self._loop.time() - KEEPALIVE_S
        for origin, pool in list(self._pools.items()):
            old = sum(wire.idle_since_s < before_s for wire in pool.idle)  # the connections used last are at the end
            for wire in pool.idle[:old]:
                wire.drop(abort=False)
            del pool.idle[:old]
            self._forget(origin)
        if any(pool.idle for pool in self._pools.values()):
            self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)


class _Connector(aiohttp.TCPConnector):
    """Makes connections of our class."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        assert self._factory.func is ResponseHandler, "aiohttp makes its protocols in another way"
        make: Callable[[asyncio.AbstractEventLoop], ResponseHandler] = Wire
        self._factory = partial(make, self._loop)
