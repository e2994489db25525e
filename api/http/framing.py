"""Bounds for the bytes that a client sends and that belong to no body: headers, and the sizes of chunks.

The budget does not count them, and each costs the parser more than a byte of a body does. This module also finds which
bytes surely belong to a body.
"""

from collections.abc import Iterable
from typing import Final

from aiohttp import StreamReader
from aiohttp.http import RawRequestMessage

from api.port.problem import Problem

#: The header of a request.
HEADER_BYTES_MAX: Final = 32 * 1024
#: A body in chunks may have as many bytes beside it (the sizes of chunks and such) as it has itself, and this many
#: more.
CHUNKS_BYTES_MAX: Final = 64 * 1024
#: A body in chunks is cheap to read if at most one byte in this many is beside it.
CHUNKS_SHARE: Final = 8


class Framing:
    """Counts the bytes of a connection: those of a header that is not complete, and those of the newest body until it
    ends."""

    __slots__ = ("_chunked", "_header", "_length")

    def __init__(self) -> None:
        self._header = 0
        self._length = 0
        self._chunked: int | None = None  # bytes of the body as it came, if it is in chunks

    def header(self, size: int) -> bool:
        """Count `size` more bytes of a header that is not complete. True if it is too large."""
        self._header += size
        return self._header > HEADER_BYTES_MAX

    def begins(self, message: RawRequestMessage, size: int, body: StreamReader) -> bool:
        """Begin to count for the newest request whose header ended in a piece of `size` bytes. `message` and `body` are
        that request's; the piece may hold others before it. True if a header in the piece may be too large."""
        may_be = self._header + size > HEADER_BYTES_MAX
        self._header = 0
        if message.chunked:  # the piece may begin with the end of another body
            self._chunked = min(size, body.total_bytes + HEADER_BYTES_MAX)
        else:
            self._chunked = None
            self._length = 0 if body.is_eof() else int(message.headers.get("Content-Length", "0"))
        return may_be

    def chunks(self, size: int, body: int) -> bool:
        """Count `size` more bytes as they came; `body` bytes of the body have been decoded so far. True if the sizes of
        chunks take too many bytes beside these. A byte in a chunk of its own costs a hundred times as much as one in a
        large chunk."""
        if self._chunked is None:
            return False
        self._chunked += size
        return self._chunked > CHUNKS_BYTES_MAX + 2 * body

    def only_kept(self, body: int, most: int) -> int:
        """Return how many of the next bytes, up to `most`, surely belong to the body, which has `body` bytes so far.
        They are stored and not parsed. 0 if the sizes of a body's chunks take too large a share of its bytes."""
        if self._chunked is None:
            return max(0, min(most, self._length - body))
        return most if self._chunked * (CHUNKS_SHARE - 1) < body * CHUNKS_SHARE else 0

    def behind(self, piece: bytes, before: int) -> int:
        """Return how many bytes of another request follow the body that ended in this piece. `before` bytes of the body
        came earlier."""
        return behind(piece, 0) if self._chunked is not None else len(piece) - (self._length - before)


def is_too_large(header: Iterable[tuple[bytes, bytes]]) -> bool:
    """True if the names and values of a request's header have more than HEADER_BYTES_MAX bytes."""
    return sum(len(name) + len(value) for name, value in header) > HEADER_BYTES_MAX


def behind(piece: bytes, body: int) -> int:
    """Return how many bytes of another request follow the request that ends in this piece. `body` bytes of that request
    stand behind the last empty line. 0 if the piece begins in the middle of that line."""
    end = len(piece) - body
    line = piece.rfind(b"\r\n\r\n", 0, end)
    return end - line - 4 if line >= 0 else 0


def is_alone(piece: bytes, body: int) -> bool:
    """True if the piece in which a header ends holds only that request, whose body has `body` bytes."""
    return piece.find(b"\r\n\r\n") + 4 + body == len(piece) and not piece.startswith((b"\r", b"\n"))


def header_too_large() -> Problem:
    """Return the refusal of a request whose header is too large in all."""
    return Problem("malformed-request", f"the header of a request holds {HEADER_BYTES_MAX} bytes at most")
