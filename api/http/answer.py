"""An HTTP answer that leaves as one write.

aiohttp's own Response builds a header map, walks it again to serialise it and writes through three awaits. That is 17
us of the 38 us that a request then costs. Every answer here has few headers, all known when it is made, and a whole
body. So the head is one formatted string and the answer is `transport.write(head + body)`.
"""

import asyncio
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
PROBLEM: Final = "application/problem+json"
TEXT: Final = "text/plain; charset=utf-8"
#: Larger bodies are written on their own, because copying them behind the head costs more than a second write.
_JOIN_BELOW: Final = 64 * 1024

_KEEP: Final = "\r\n"
_CLOSE: Final = "Connection: close\r\n\r\n"
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class Answer:
    """An HTTP answer as bytes: the head (status line and headers) and the body. Make it with `Answer.of`, and send it
    once."""

    __slots__ = ("_content", "_head", "keep_alive", "status")

    def __init__(self, status: int, head: bytes, body: bytes, *, keep_alive: bool, bodyless: bool) -> None:
        self.status = status
        self.keep_alive = keep_alive
        self._head = head
        self._content = b"" if bodyless else body

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
        """Make an answer. `stamp` is text of whole header lines, each with its CRLF. With `bodyless`, for HEAD, the
        answer has the body's length and leaves the body out.

        Header values come from tables, checked names and numbers. So no value can hold a line break.
        """
        extra = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]) if headers else ""
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n{stamp}{extra}{_KEEP if keep_alive else _CLOSE}"
        )
        return cls(status, head.encode("latin-1"), body, keep_alive=keep_alive, bodyless=bodyless)

    def whole(self) -> bytes:
        """Return all its bytes."""
        return self._head + self._content

    def send(self, transport: asyncio.Transport | None) -> None:
        """Write the whole answer and drop its content. Raises ConnectionResetError when the client has gone.

        Nothing is written to a connection that is closing. A pull checks that before it delivers (Exchange.gone), and
        then delivers nothing.
        """
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        if len(self._content) < _JOIN_BELOW:
            transport.write(self.whole())
        else:
            transport.write(self._head)
            transport.write(self._content)
        self._content = b""


def http_date(second: int) -> str:
    """Return the Date header's text for an epoch second."""
    return formatdate(second, usegmt=True)
