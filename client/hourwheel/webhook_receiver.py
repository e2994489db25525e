"""A small HTTP/1.1 server for webhooks: one callback per request, answers of a few bytes.

`hourwheel listen`, the demo and the benchmarks receive with it, on the cores that the nodes run on too. A web framework
would cost more per request than the node that pushes. It takes what a sender of webhooks sends: a request line,
headers, a body with Content-Length. Anything else is refused by status, and the connection is closed.
"""

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 2 * 1024 * 1024
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(slots=True)
class Request:
    """One request. Header names are in lower case; of several headers with one name the last counts."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request, sent `delay_s` after it was received whole."""

    status: int = 200
    delay_s: float = 0.0


class Refused(Exception):
    """The bytes are no request that this server accepts. `status` is the HTTP status that says why."""

    def __init__(self, status: int) -> None:
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


def read_head(head: bytes) -> tuple[str, str, dict[str, str], int]:
    """Return method, path, headers and content length from a head without its empty line. Raises Refused."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused(400)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise Refused(400)
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise Refused(411)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 12):
        raise Refused(400)
    if int(length) > BODY_BYTES_MAX:
        raise Refused(413)
    return parts[0], parts[1], headers, int(length)


@functools.lru_cache(maxsize=64)
def render_answer(status: int, close: bool = False) -> bytes:
    """Return the bytes of an answer, whose body is the phrase of its status. `close`: the connection ends after it."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Chosen"
    has_body = status >= 200 and status not in (204, 304)
    body = f"{phrase}\n" if has_body else ""
    length = f"Content-Length: {len(body)}\r\n" if has_body else ""
    ending = "Connection: close\r\n" if close else ""
    return f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\n{length}{ending}\r\n{body}".encode()


class Connection(asyncio.Protocol):
    """One sender. Requests are answered one after the other: the next is read when the last is answered."""

    def __init__(
        self, receive: Callable[[Request], Reply], open_connections: "set[Connection]", none_open: asyncio.Event
    ) -> None:
        self._receive, self._open, self._none_open = receive, open_connections, none_open
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str], int] | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection as open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass of it
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection. If an answer still waits for its time, it is not sent."""
        self._open.discard(self)
        if not self._open:
            self._none_open.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def data_received(self, data: bytes) -> None:
        """Gather bytes, and answer each request that is whole."""
        self._buffer += data
        if self._waiting is None:
            self._read()

    def end(self) -> None:
        """Read no more requests. If an answer waits for its time, close the connection when it is sent, otherwise at
        once."""
        self._ending = True
        if self._waiting is None:
            assert self._transport is not None
            self._transport.close()

    def _read(self) -> None:
        """Answer whole requests from the buffer, until one has to wait for the time of its answer."""
        try:
            while self._waiting is None and not self._ending and (request := self._next()) is not None:
                reply = self._receive(request)
                if reply.delay_s > 0:
                    loop = asyncio.get_running_loop()
                    self._waiting = loop.call_later(reply.delay_s, self._answer_late, reply.status)
                else:
                    self._answer(reply.status)
        except Refused as refused:
            assert self._transport is not None
            self._transport.write(render_answer(refused.status, close=True))
            self._transport.close()

    def _next(self) -> Request | None:
        """The next request if it is whole. Raises Refused."""
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(_HEAD_END)
            if end < 0:
                if len(buffer) > HEAD_BYTES_MAX:
                    raise Refused(431)
                return None
            self._head = read_head(bytes(buffer[:end]))
            del buffer[: end + len(_HEAD_END)]
        method, path, headers, length = self._head
        if len(buffer) < length:
            return None
        body = bytes(buffer[:length])
        del buffer[:length]
        self._head = None
        return Request(method, path, headers, body)

    def _answer_late(self, status: int) -> None:
        self._waiting = None
        self._answer(status)
        if self._ending:
            self.end()
        else:
            self._read()

    def _answer(self, status: int) -> None:
        assert self._transport is not None
        self._transport.write(render_answer(status))


class Receiver:
    """Listens on some ports of one address; `receive(port, request)` decides each answer."""

    def __init__(self, receive: Callable[[int, Request], Reply]) -> None:
        self._receive = receive
        self._servers: list[asyncio.Server] = []
        self._open: set[Connection] = set()
        self._none_open = asyncio.Event()
        self.ports: list[int] = []

    async def listen(self, host: str, port: int) -> int:
        """Begin to listen on this port (0: one that the system chooses). Return the port. Raises OSError."""
        own = [port]

        def receive(request: Request) -> Reply:
            return self._receive(own[0], request)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(receive, self._open, self._none_open), host, port, backlog=1024
        )
        own[0] = int(server.sockets[0].getsockname()[1])
        self._servers.append(server)
        self.ports.append(own[0])
        return own[0]

    async def close(self) -> None:
        """Stop listening. Answers that wait for their time are sent, then each connection is closed. Return when all
        are closed."""
        for server in self._servers:
            server.close()
        for connection in list(self._open):
            connection.end()
        while self._open:
            self._none_open.clear()
            await self._none_open.wait()
