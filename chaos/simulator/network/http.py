"""Answers HTTP requests to a simulated node: those that another node sends, and those that a test writes.

The real routes of `api.http.server` answer them. The routes get an object that looks like aiohttp's request, as far as
they read it. Only the parser and the socket are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from aiohttp import web
from multidict import CIMultiDict

from api.http.server import Server
from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.port import Port
from api.serve import ROUTES

_HEAD_END = b"\r\n\r\n"


class _Body:
    """The body of a request. All of it is there from the start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.total_bytes = len(data)

    def is_eof(self) -> bool:
        """True: the body is complete."""
        return True

    def read_nowait(self, _: int) -> bytes:
        """The whole body."""
        return self._data


class _Connection:
    """The connection that an answer is written to. It carries one request, and keeps the answer's bytes in
    `written`."""

    is_ascii = False
    oversized = False

    def __init__(self) -> None:
        self.written = bytearray()

    def is_closing(self) -> bool:
        """Return False: the connection stays open."""
        return False

    def write(self, data: bytes) -> None:
        """Keep the bytes."""
        self.written += data

    def get_extra_info(self, _: str) -> None:
        """Return None, because there is no socket behind this connection."""

    def goes_on(self) -> bool:
        """See api.http.connection."""
        return True

    def needs_no_body(self) -> None:
        """Do nothing: the body is here already."""

    def unwatched(self) -> bool:
        """Return False: the client of a simulated request never leaves early."""
        return False

    def wait(self, _: Callable[[], None]) -> None:
        """Do nothing: a simulated connection is never closed to make way for another one."""

    def waited(self) -> None:
        """See api.http.connection."""

    def has_left(self) -> bool:
        """Return False: the client of a simulated request never leaves early."""
        return False


class _Incoming:
    """A request with the attributes of aiohttp's that the routes read."""

    keep_alive = True
    version = (1, 1)

    def __init__(self, request: ForwardRequest) -> None:
        self.method = request.method
        self.raw_path = request.target
        self.headers = CIMultiDict(request.headers)
        self.raw_headers = [(name.encode(), text.encode()) for name, text in request.headers.items()]
        self.content = _Body(request.body)
        self.content_length = len(request.body)
        self.transport = self.protocol = _Connection()


class Routes:
    """The HTTP routes of one node. They answer by calls of its port (api.port)."""

    def __init__(self, port: Port) -> None:
        self._server = Server(port, ROUTES)

    def drain(self) -> None:
        """See api.http.server."""
        self._server.drain()

    async def answer(self, request: ForwardRequest) -> ForwardAnswer:
        """The answer that an HTTP client would get."""
        incoming = _Incoming(request)
        answer = await self._server.handle(cast(web.BaseRequest, incoming))
        answer.send(cast(asyncio.Transport, incoming.transport))
        head, _, body = bytes(incoming.transport.written).partition(_HEAD_END)
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
        return ForwardAnswer(answer.status, {name: value for name, _colon, value in lines}, body)
