"""An HTTP client that costs next to nothing, or the benchmark measures its client.

The client shares two cores with three nodes, so every microsecond it takes is missing from what it measures. A pump is
one keep-alive connection that sends requests rendered in advance, one at a time, and of an answer parses no more than
the status and the length. Latency is taken from the moment of sending to the last byte.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import cast

from chaos.cluster import ClusterFailed

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


def render(method: str, path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """The bytes of a request."""
    head = (f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Type: {content_type}", f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + _HEAD_END + body


class Pump(asyncio.Protocol):
    """Sends what `requests` yields, each after the answer to the one before; `answered(status, body, seconds)` sees
    every answer.

    `done` is set when `requests` ends or the connection does; a connection that ends early makes `done` raise
    ClusterFailed.
    """

    def __init__(self, requests: Iterator[bytes], answered: Callable[[int, bytes, float], None]) -> None:
        self._requests, self._answered = requests, answered
        self._buffer = bytearray()
        self._need: int | None = None
        self._body_at = 0
        self._sent_s = 0.0
        self._transport: asyncio.WriteTransport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def run(
        cls, host: str, port: int, requests: Iterator[bytes], answered: Callable[[int, bytes, float], None]
    ) -> None:
        """Connects, pumps until `requests` ends, closes."""
        _, pump = await asyncio.get_running_loop().create_connection(lambda: cls(requests, answered), host, port)
        await pump.done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the first request."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's transports are no subclass of it
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is sent again: a benchmark with errors is none."""
        if not self.done.done():
            self.done.set_exception(ClusterFailed(f"the node closed the connection: {exc}"))

    def data_received(self, data: bytes) -> None:
        """Gathers one answer."""
        buffer = self._buffer
        buffer += data
        if self._need is None:
            end = buffer.find(_HEAD_END)
            if end < 0:
                return
            head = bytes(buffer[:end]).lower()
            at = head.find(_LENGTH)
            if at < 0:
                self.done.set_exception(ClusterFailed("an answer without Content-Length"))
                self._close()
                return
            self._body_at = end + len(_HEAD_END)
            self._need = self._body_at + int(head[at + len(_LENGTH) :].split(b"\r", 1)[0])
        if len(buffer) >= self._need:
            body = bytes(buffer[self._body_at : self._need])
            status = int(buffer[9:12])
            del buffer[: self._need]
            self._need = None
            self._answered(status, body, time.perf_counter() - self._sent_s)
            self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            if not self.done.done():
                self.done.set_result(None)
            self._close()
            return
        assert self._transport is not None
        self._sent_s = time.perf_counter()
        self._transport.write(request)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
