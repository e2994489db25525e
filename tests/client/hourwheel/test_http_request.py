"""One request over a real socket: its answer, and what is known when none comes."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from hourwheel.core.addresses import Address
from hourwheel.core.errors import OutcomeUnknown, Unreachable
from hourwheel.http_request import ask


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """A listener that reads one request, sends this and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        thread.join()


def test_an_answer_comes_whole_whatever_its_status() -> None:
    """Names of headers are in lower case."""
    with answering(b"HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}") as address:
        answer = ask(address, "GET", "/", connect_s=5.0, timeout_s=5.0)
    assert (answer.status, answer.headers["retry-after"], answer.payload) == (503, "1", b"{}")


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_connection_that_closes_before_the_whole_answer_leaves_the_outcome_unknown(part: bytes) -> None:
    """Closed before the first byte, and within the body."""
    with answering(part) as address, pytest.raises(OutcomeUnknown, match=address.url):
        ask(address, "POST", "/", b"{}", connect_s=5.0, timeout_s=5.0)


@pytest.mark.timeout(20)
def test_a_node_that_keeps_silent_leaves_the_outcome_unknown() -> None:
    """The wait for bytes has its own bound."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(OutcomeUnknown, match="timed out"):
            ask(address, "POST", "/", b"{}", connect_s=60.0, timeout_s=0.05)


def test_a_connection_that_is_refused_sent_nothing() -> None:
    """The error of the socket is the cause."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(Unreachable) as caught:
        ask(address, "POST", "/", b"{}", connect_s=5.0, timeout_s=5.0)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
