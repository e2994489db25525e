"""Reads the answer of a receiver, and makes it the outcome of the attempt.

Nearly every answer comes whole, in one piece, with a Content-Length. `read_simple` takes exactly those. A head that
came before is not read again, but looked up in a dictionary. `read_simple` refuses any answer that could be read in
more than one way, and aiohttp's parser decides on that.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, NamedTuple

import aiohttp

from api.port.address_guard import FORBIDDEN_ERRNO
from node.port.failure_code import BAD_URL, BROKEN, CONNECT, DNS, ERROR_BYTES_MAX, FORBIDDEN_ADDRESS, TLS

#: Bytes of an answer's body that are read. A connection whose answer has more is closed.
ANSWER_BYTES_MAX: Final = 16 * 1024
#: A number above this is no HTTP status.
STATUS_MAX: Final = 599
#: Statuses whose Retry-After counts.
_ASKS_TO_WAIT: Final = (429, 503)
_RETRY_AFTER_DIGITS: Final = 9

_HEAD_END: Final = b"\r\n\r\n"
_HEAD_BYTES_MAX: Final = 4096
_HEADERS_MAX: Final = 128
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [\t\x20-\x7e]*)?")
_FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t ]*([\t\x20-\x7e]*)")
_LENGTH: Final = re.compile(rb"[0-9]{1,5}")
_NO_BODY: Final = (204, 304)


class Answer(NamedTuple):
    """The outcome of an attempt.

    - `code`: the HTTP status or one of node.port.failure_code.REASONS.
    - `error`: the error text of the receiver or the system, "" on success.
    - `retry_after_ms`: the wait that a 429 or 503 asked for.
    """

    code: int
    error: str = ""
    retry_after_ms: int | None = None

    @property
    def delivered(self) -> bool:
        """True if the receiver took the message."""
        return 200 <= self.code < 300


class Simple(NamedTuple):
    """A whole answer that can be read in one way only. Its connection may be kept. `retry_after` is the header as it
    was sent."""

    status: int
    body: bytes
    retry_after: str | None


class _Head(NamedTuple):
    status: int
    length: int  # bytes of body
    retry_after: str | None


def read_simple(data: bytes) -> Simple | None:
    """Return the answer in `data` if these bytes are one whole answer and nothing else. None if a parser has to
    decide."""
    end = data.find(_HEAD_END, 0, _HEAD_BYTES_MAX)
    if end < 0:
        return None
    head = _read_head(data[:end])
    start = end + len(_HEAD_END)
    if head is None or len(data) != start + head.length:
        return None
    return Simple(head.status, data[start:], head.retry_after)


@lru_cache(maxsize=256)
def _read_head(head: bytes) -> _Head | None:
    """Read a head without its empty line. None if it is not of the simple kind."""
    first, *lines = head.split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None or len(lines) > _HEADERS_MAX:
        return None
    status = int(status_line[1])
    fields: dict[bytes, bytes] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            return None
        name = field[1].lower()
        if name in fields and name in (b"content-length", b"connection", b"retry-after"):
            return None
        fields[name] = field[2].rstrip(b"\t ")
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    if b"transfer-encoding" in fields or b"upgrade" in fields:
        return None
    length = fields.get(b"content-length")
    if status in _NO_BODY:
        if length is not None:
            return None
        length = b"0"
    if length is None or _LENGTH.fullmatch(length) is None or int(length) > ANSWER_BYTES_MAX:
        return None
    retry_after = fields.get(b"retry-after")
    return _Head(status, int(length), None if retry_after is None else retry_after.decode("ascii"))


def make_answer(status: int, body: bytes, retry_after: str | None, now_ms: int) -> Answer:
    """Make the outcome of an attempt from a final status. `body` is the part that was read, which becomes the error
    text of a failure. `now_ms` is for a Retry-After that is a date."""
    if 200 <= status < 300:
        return Answer(status)
    if status > STATUS_MAX:
        return Answer(BROKEN, f"status {status}")
    wait_ms = None
    if retry_after is not None and status in _ASKS_TO_WAIT:
        wait_ms = retry_after_ms(retry_after, now_ms)
    return Answer(status, body[:ERROR_BYTES_MAX].decode(errors="replace"), wait_ms)


def failed(failure: BaseException) -> Answer:
    """Make the outcome of an attempt whose connection or request failed with this error."""
    return Answer(code_of(failure), str(failure) or type(failure).__name__)


def code_of(failure: BaseException) -> int:
    """Return the code of node.port.failure_code for an error of a connection or a request."""
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
    """Return the wait in ms that a Retry-After header asks for, in seconds or as an HTTP date. None if it is neither. A
    number with too many digits counts as the largest that is read: such a receiver is not asked again at once."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = text.lstrip("0") or "0"
        return int(seconds if len(seconds) <= _RETRY_AFTER_DIGITS else "9" * _RETRY_AFTER_DIGITS) * 1000
    try:
        until = parsedate_to_datetime(text)
        return max(0, int(until.timestamp() * 1000) - now_ms)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
