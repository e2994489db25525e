"""An HTTP answer that leaves as one write.

aiohttp's own Response builds a header map, walks it again to serialise it and writes through three awaits: 17 us of the
38 us a request then costs. Every answer here has few headers, all known when it is made, and a whole body; so the head
is one formatted string and the answer is `transport.write(head + body)`. It stands in where aiohttp's connection
expects a StreamResponse: `prepare`, `write_eof`, `keep_alive` are all it uses. It has left when the socket has taken
it: a client that reads none of its answers gets no further one.
"""

from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

if TYPE_CHECKING:
    from api.connection import Connection

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
PROBLEM: Final = "application/problem+json"
TEXT: Final = "text/plain; charset=utf-8"
#: Bodies past this are written on their own: copying them behind the head costs more than a second write.
_JOIN_BELOW: Final = 64 * 1024

_KEEP: Final = "\r\n"
_CLOSE: Final = "Connection: close\r\n\r\n"
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class Answer(web.StreamResponse):
    """Status, head and body, ready to send. Made by `Answer.of`; sent once."""

    def __init__(self, status: int, head: bytes, body: bytes, *, keep_alive: bool, bodyless: bool) -> None:
        # Not calling super().__init__: it would build the header map this class exists to do without.
        self._status = status
        self._head = head
        self._content = b"" if bodyless else body
        self._keep_alive = keep_alive

    @classmethod
    def of(
        cls,
        status: int,
        body: bytes,
        content_type: str,
        *,
        stamp: str,
        headers: Mapping[str, str] | None = None,
        keep_alive: bool = True,
        bodyless: bool = False,
    ) -> "Answer":
        """`stamp` holds whole header lines, each with its CRLF; `bodyless` is for HEAD: the length without the body.

        Header values come from tables, checked names and numbers; nothing that may hold a line break gets here.
        """
        extra = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]) if headers else ""
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n{stamp}{extra}{_KEEP if keep_alive else _CLOSE}"
        )
        return cls(status, head.encode("latin-1"), body, keep_alive=keep_alive, bodyless=bodyless)

    def whole(self) -> bytes:
        """All bytes of it."""
        return self._head + self._content

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write the whole answer, and wait until the socket has taken it; ConnectionResetError when the client has
        gone.

        Nothing is written to a connection that closes: a pull that sees this (Exchange.gone) hands nothing over."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        if len(self._content) < _JOIN_BELOW:
            transport.write(self.whole())
        else:
            transport.write(self._head)
            transport.write(self._content)
        self._content = b""  # aiohttp keeps the answer until the next request's is made
        connection = cast("Connection", request.protocol)
        if connection.writing_paused:
            await connection.taken()
        if not self._keep_alive and request.content.is_eof():
            await connection.drop_rest()
        connection.answered(request)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """All is written by `prepare`."""


def http_date(second: int) -> str:
    """The Date header's text for an epoch second."""
    return formatdate(second, usegmt=True)
