"""What a client sends beside bodies: headers, and the sizes of chunks.

Nobody counts it among what clients hold, and a byte of it costs the parser more than a byte of a body does. So it has
bounds, and bytes that are surely a body's are told from all else.
"""

from collections.abc import Iterable
from typing import Final

from aiohttp.http import RawRequestMessage

#: Of one request.
HEADER_BYTES_MAX: Final = 32 * 1024
#: Beside a body in chunks stands as much as the body and this, and no more.
CHUNKS_BYTES_MAX: Final = 64 * 1024
#: Such a body is cheap to read if no more than one byte in so many stands beside it.
CHUNKS_SHARE: Final = 8


class Framing:
    """Of one connection, in bytes: the header that is not complete, and the newest body."""

    __slots__ = ("_chunked", "_header", "length")

    def __init__(self) -> None:
        self._header = 0
        self.length = 0  # of the newest body; 0 if it is in chunks
        self._chunked: int | None = None  # the newest body as it came, if it is in chunks

    def header(self, size: int) -> bool:
        """So many bytes more of a header that is not complete. Whether it is too large."""
        self._header += size
        return self._header > HEADER_BYTES_MAX

    def requests(self, size: int, begun: Iterable[object], body: int) -> bool:
        """Requests begin in a piece of so many bytes: what the parser made of them, and what the newest has of its
        body. Whether a header is too large."""
        may_be = self._header + size > HEADER_BYTES_MAX
        newest: object = None
        too_large = False
        for newest in begun:
            too_large |= may_be and _header_bytes(newest) > HEADER_BYTES_MAX
        self._header = 0
        # The piece may begin with the end of another body.
        self._chunked = min(size, body + HEADER_BYTES_MAX) if getattr(newest, "chunked", False) else None
        self.length = _length(newest)
        return too_large

    def chunks(self, size: int, body: int) -> bool:
        """So many bytes more of the newest body, which has `body` so far. Whether too much stands beside it: chunks of
        a byte cost a hundred times what a body does."""
        if self._chunked is None:
            return False
        self._chunked += size
        return self._chunked > CHUNKS_BYTES_MAX + 2 * body

    def only_kept(self, body: int, most: int) -> int:
        """How many bytes to come, up to `most`, only have to be kept: the rest of the newest body, which has `body` so
        far and is not complete. 0 if it has too much beside it."""
        if self._chunked is None:
            return min(most, self.length - body)
        return most if self._chunked * (CHUNKS_SHARE - 1) < body * CHUNKS_SHARE else 0


def _length(message: object) -> int:
    """Of the body, as its header says; 0 if that says none."""
    length = message.headers.get("Content-Length", "") if isinstance(message, RawRequestMessage) else ""
    return int(length) if length.isdigit() else 0


def _header_bytes(message: object) -> int:
    """Of what the parser made of a request; 0 of what was none."""
    return sum(len(name) + len(value) for name, value in getattr(message, "raw_headers", ()))
