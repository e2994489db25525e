"""Answers that are read in one look: they say what aiohttp's parser says, and what is not simple is left to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.push_wire.answer import ANSWER_BYTES_MAX, Simple, read_simple


def test_a_whole_answer_with_a_length_is_simple() -> None:
    """Status, body and Retry-After; names in any case, blanks around values."""
    assert read_simple(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 2 \r\nDate: x\r\n\r\nhi") == Simple(200, b"hi", None)
    assert read_simple(b"HTTP/1.1 204\r\nConnection: Keep-Alive\r\n\r\n") == Simple(204, b"", None)
    said = b"HTTP/1.1 429 Slow down\r\nRetry-After:\t7\r\nContent-Length: 0\r\n\r\n"
    assert read_simple(said) == Simple(429, b"", "7")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n folded: x\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 102 Wait\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (ANSWER_BYTES_MAX + 1) + bytes(ANSWER_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nX: \xff\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"Content-Length: 0\r\n\r\n",
        b"",
    ],
)
def test_what_has_another_reading_is_not_simple(data: bytes) -> None:
    """Cut, longer than it says, twice as long, chunked, folded, closing, interim: a parser decides."""
    assert read_simple(data) is None


@given(st.binary(max_size=200), st.integers(200, 599).filter(lambda status: status not in (204, 304)))
def test_no_byte_of_a_body_is_lost(body: bytes, status: int) -> None:
    """Whatever it holds, an end of a head too."""
    assert read_simple(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body) == Simple(
        status, body, None
    )
