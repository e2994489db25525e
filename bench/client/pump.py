"""A client that takes very little processor time. Otherwise the benchmark would measure its client.

The client shares two cores with three nodes, so every microsecond it takes is missing from the result. A pump is one
keep-alive connection that sends requests rendered in advance, one at a time. Of an answer it parses only where it ends.
Latency runs from the moment of sending to the last byte.

A `Framing` finds the first whole answer in the received bytes. There is one for HTTP and one for each protocol of a
peer, so the same loop measures all of them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Self, cast

from chaos.cluster.cluster import ClusterFailed

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"

#: Returns (status, start of the content, end of the answer) for the first whole answer. None: not whole yet.
Framing = Callable[[bytearray], tuple[int, int, int] | None]
Answered = Callable[[int, bytes, float], None]


def render(method: str, path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """Return the bytes of an HTTP request."""
    head = (f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Type: {content_type}", f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + _HEAD_END + body


def http_frame(buffer: bytearray) -> tuple[int, int, int] | None:
    """Find the first whole HTTP answer (see `Framing`), by its Content-Length. Raises ClusterFailed for an answer
    without one."""
    end = buffer.find(_HEAD_END)
    if end < 0:
        return None
    head = bytes(buffer[:end]).lower()
    at = head.find(_LENGTH)
    if at < 0:
        raise ClusterFailed(f"an answer without Content-Length: {head[:100]!r}")
    body_at = end + len(_HEAD_END)
    whole = body_at + int(head[at + len(_LENGTH) :].split(b"\r", 1)[0])
    return (int(buffer[9:12]), body_at, whole) if len(buffer) >= whole else None


class _Framed(asyncio.Protocol):
    """A connection with at most one request under way. `_got(status, body, seconds)` sees each answer."""

    def __init__(self, frame: Framing) -> None:
        self._frame = frame
        self._buffer = bytearray()
        self._sent_s = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, over which requests are sent."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's transports are no subclass of it

    def data_received(self, data: bytes) -> None:
        """Gather bytes until an answer is whole, then give it to `_got`."""
        buffer = self._buffer
        buffer += data
        try:
            found = self._frame(buffer)
            if found is not None:
                status, first, last = found
                body = bytes(buffer[first:last])
                del buffer[:last]
                self._got(status, body, time.perf_counter() - self._sent_s)
        except Exception as error:  # the loop would only log a callback's error
            self._failed(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail, and send nothing again: a benchmark with errors is invalid."""
        self._failed(ClusterFailed(f"the connection was closed: {exc}"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, request: bytes) -> None:
        assert self._transport is not None
        self._sent_s = time.perf_counter()
        self._transport.write(request)

    def _got(self, status: int, body: bytes, seconds: float) -> None:
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        raise NotImplementedError


class Pump(_Framed):
    """Sends each request of `requests` after the answer to the one before. `answered(status, body, seconds)` sees every
    answer.

    `done` is set when `requests` ends. It raises if `answered` fails, or if the connection ends early.
    """

    def __init__(self, requests: Iterator[bytes], answered: Answered, frame: Framing = http_frame) -> None:
        super().__init__(frame)
        self._requests, self._answered = requests, answered
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def run(
        cls, host: str, port: int, requests: Iterator[bytes], answered: Answered, frame: Framing = http_frame
    ) -> None:
        """Connect, pump until `requests` ends, and close."""
        loop = asyncio.get_running_loop()
        _, pump = await loop.create_connection(lambda: cls(requests, answered, frame), host, port)
        try:
            await pump.done
        finally:
            pump.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        super().connection_made(transport)
        self._next()

    def _got(self, status: int, body: bytes, seconds: float) -> None:
        self._answered(status, body, seconds)
        self._next()

    def _failed(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._send(request)
        elif not self.done.done():
            self.done.set_result(None)


class Caller(_Framed):
    """A connection for requests that are not known in advance. `call` returns the answer."""

    def __init__(self, frame: Framing = http_frame) -> None:
        super().__init__(frame)
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None

    @classmethod
    async def connect(cls, host: str, port: int, frame: Framing = http_frame) -> Self:
        """Connect. Raises OSError if no process listens."""
        _, caller = await asyncio.get_running_loop().create_connection(lambda: cls(frame), host, port)
        return caller

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Send one request and return (status, body). Calls do not overlap. Raises ClusterFailed when the connection
        ends."""
        assert self._transport is not None
        assert self._waiting is None
        if self._transport.is_closing():
            raise ClusterFailed("the connection was closed")
        self._waiting = asyncio.get_running_loop().create_future()
        self._send(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def _got(self, status: int, body: bytes, seconds: float) -> None:
        if self._waiting is None:
            raise ClusterFailed(f"an answer nobody asked for: {body[:100]!r}")
        if not self._waiting.done():
            self._waiting.set_result((status, body))

    def _failed(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
