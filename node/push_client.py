"""One attempt of a webhook over one aiohttp session per node: what became of it, as a code, whatever the receiver does.

A receiver may refuse, hang, drip, flood, break off or talk nonsense; each ends as an Answer within the timeout, which
covers everything from the look-up of the name to the last byte of the answer. Bounds, per attempt: 16 KiB of body, 128
headers of 8 KiB, a few interim (1xx) answers, and a small receive buffer (node.push_address), since what has arrived is
parsed in the event loop in one go. Redirects are not followed: a 3xx is a failure like any other.

    connect (name -> addresses -> guarded socket -> TLS) -> may_send()? -> request -> status, <= 16 KiB -> Answer

A request goes out once. aiohttp's own second try on a kept connection that breaks is off, since the first may have been
read; instead idle connections are dropped before the usual servers drop them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from node.push_address import FORBIDDEN_ERRNO, Addresses
from node.push_target import PushTarget
from node.retry import BAD_URL, BROKEN, CONNECT, DNS, ERROR_BYTES_MAX, FORBIDDEN_ADDRESS, STOPPED, TIMEOUT, TLS

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

#: Bytes of an answer that are read; then the connection is closed.
ANSWER_BYTES_MAX: Final = 16 * 1024
#: What is above is no HTTP status.
STATUS_MAX: Final = 599
#: Interim answers (1xx) before the final one.
INTERIM_MAX: Final = 32
#: Kept connections are closed by us after this: servers commonly close them after 5 s, and a request that meets such
#: a close is a failed attempt.
KEEPALIVE_S: Final = 4.0
#: Names stay resolved for this long: long enough for a burst, short enough to follow a receiver that moves.
DNS_S: Final = 10
#: Names looked up at the same time.
LOOKUPS_MAX: Final = 256
#: Statuses whose Retry-After counts.
_ASKS_TO_WAIT: Final = (429, 503)
_RETRY_AFTER_DIGITS: Final = 9

#: A deadline that comes later than this was held up by the whole process; what then waits in sockets is read first.
STOOD_STILL_S: Final = 0.2
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)

MaySend = Callable[[], bool]
_may_send: ContextVar[MaySend] = ContextVar("may_send")


class Answer(NamedTuple):
    """What became of an attempt. `code` is the HTTP status or one of node.retry.REASONS; `error` what was said, by the
    receiver or the system, "" on success; `retry_after_ms` the wait that a 429 or 503 asked for."""

    code: int
    error: str = ""
    retry_after_ms: int | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver took the message."""
        return 200 <= self.code < 300


class _NotSent(Exception):
    """`may_send` said no: not a byte of the request has left."""


class _Deadline:
    """Cancels the task that made it when an attempt's time is over. If the process itself stood still until long after
    that, the answer may have come meanwhile and wait in the socket: then there is a moment to read it."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._at_s = self._loop.time() + seconds
        self._passed = False
        self._timer = self._loop.call_at(self._at_s, self._come)

    def _come(self) -> None:
        if self._loop.time() - self._at_s > STOOD_STILL_S:
            self._timer = self._loop.call_later(STOOD_STILL_S, self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        assert self._task is not None
        self._passed = True
        self._task.cancel()

    def passed(self) -> bool:
        """Whether a cancellation that has come is this one's; then the task is not cancelled any more, unless somebody
        else wants that too."""
        assert self._task is not None
        return self._passed and self._task.uncancel() == 0

    def end(self) -> None:
        """The attempt has ended."""
        self._timer.cancel()


class PushClient:
    """The session of one node. `addresses` says what may be connected to, `now_ms` is for dates in Retry-After."""

    def __init__(self, addresses: Addresses, now_ms: Callable[[], int]) -> None:
        self._addresses = addresses
        self._now_ms = now_ms
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0,  # the pump bounds what is on the wire, by receiver and in all
                keepalive_timeout=KEEPALIVE_S,
                ttl_dns_cache=DNS_S,
                resolver=_Resolver(),
                socket_factory=self._addresses.open_socket,
            ),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding",),
            read_bufsize=ANSWER_BYTES_MAX,
        )
        assert self._session._retry_connection is True, "aiohttp has moved its switch"
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close the session and its connections; attempts must have ended or been cancelled."""
        if self._session is not None:
            await self._session.close()

    async def send(self, target: PushTarget, headers: Mapping[str, str], body: bytes, may_send: MaySend) -> Answer:
        """One attempt. `may_send` is asked when the connection stands; if it says no nothing is sent, and the code is
        STOPPED. Raises only CancelledError."""
        assert self._session is not None, "send before start"
        _may_send.set(may_send)
        deadline = _Deadline(target.timeout_ms / 1000)
        try:
            answer = await self._session.request(
                target.method, target.url, data=body, headers=headers, allow_redirects=False, timeout=_NO_TIMEOUT
            )
            try:
                return await self._read(answer)
            finally:
                answer.release()
        except _NotSent:
            return Answer(STOPPED, "this node stopped leading before the request was sent")
        except asyncio.CancelledError:
            if not deadline.passed():
                raise
            return Answer(TIMEOUT, f"no answer within {target.timeout_ms} ms")
        except Exception as failure:  # whatever a receiver makes aiohttp raise, it must not end the node
            return Answer(code_of(failure), str(failure) or type(failure).__name__)
        finally:
            deadline.end()

    async def _read(self, answer: aiohttp.ClientResponse) -> Answer:
        text = bytearray()
        while len(text) < ANSWER_BYTES_MAX and (more := await answer.content.read(ANSWER_BYTES_MAX - len(text))):
            text += more
        if not answer.content.at_eof():
            answer.close()
        code = answer.status
        if 200 <= code < 300:
            return Answer(code)
        if code > STATUS_MAX:
            return Answer(BROKEN, f"status {code}")
        wait_ms = None
        if code in _ASKS_TO_WAIT and (asked := answer.headers.get("Retry-After")) is not None:
            wait_ms = retry_after_ms(asked, self._now_ms())
        return Answer(code, text[:ERROR_BYTES_MAX].decode(errors="replace"), wait_ms)


def code_of(failure: Exception) -> int:
    """The reason that stands for an error of the client."""
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return DNS
    if isinstance(failure, aiohttp.ClientSSLError):
        return TLS
    if isinstance(failure, aiohttp.ClientConnectorError):
        return FORBIDDEN_ADDRESS if failure.os_error.errno == FORBIDDEN_ERRNO else CONNECT
    if isinstance(failure, ValueError):  # InvalidURL too, and headers that cannot be sent
        return BAD_URL
    return BROKEN


def retry_after_ms(text: str, now_ms: int) -> int | None:
    """The wait that a Retry-After header asks for, seconds or an HTTP date; None if it says neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text[:_RETRY_AFTER_DIGITS]) * 1000 if len(text) <= _RETRY_AFTER_DIGITS else None
    try:
        until = parsedate_to_datetime(text)
        return max(0, int(until.timestamp() * 1000) - now_ms)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


class _Connector(aiohttp.TCPConnector):
    """Asks `may_send` between the connection and the first byte of the request, and bounds interim answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        assert self._factory.func is ResponseHandler, "aiohttp makes its protocols in another way"
        make: Callable[[asyncio.AbstractEventLoop], ResponseHandler] = _Protocol
        self._factory = partial(make, self._loop)

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        assert isinstance(protocol, _Protocol)
        protocol.interim = 0
        if not _may_send.get()():
            connection.release()
            raise _NotSent
        return connection


class _Protocol(ResponseHandler):
    """Counts the messages of one answer: aiohttp passes over interim ones for as long as they come."""

    interim = 0

    def feed_data(self, data: Any, size: int = 0) -> None:
        """One more message of the parser."""
        self.interim += 1
        if self.interim > INTERIM_MAX:
            if self.transport is not None:
                self.transport.abort()
            self.set_exception(aiohttp.ClientPayloadError(f"more than {INTERIM_MAX} interim answers"))
            return
        super().feed_data(data, size)


class _Resolver(AbstractResolver):
    """getaddrinfo in threads of its own: a name server that hangs must not hold up the reads of slots, which share the
    loop's pool, nor the end of the process. aiohttp asks once per name at a time."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(LOOKUPS_MAX)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of a name. Raises OSError."""
        async with self._room:
            found: asyncio.Future[list[ResolveResult]] = asyncio.get_running_loop().create_future()
            threading.Thread(target=_look_up, args=(found, host, port, family), daemon=True).start()
            return await found

    async def close(self) -> None:
        """Threads that still wait are left behind; nobody reads what they find."""


def _look_up(found: asyncio.Future[list[ResolveResult]], host: str, port: int, family: int) -> None:
    """In a thread: ask, and tell the loop."""
    try:
        rows = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, UnicodeError) as failure:
        failed = failure if isinstance(failure, OSError) else OSError(None, str(failure))
        _tell(found, lambda: found.set_exception(failed))
        return
    addresses: list[ResolveResult] = [
        ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=0)
        for kind, _, protocol, _, address in rows
    ]
    _tell(found, lambda: found.set_result(addresses))


def _tell(found: asyncio.Future[Any], resolve: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        found.get_loop().call_soon_threadsafe(lambda: None if found.done() else resolve())
