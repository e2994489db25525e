"""The small HTTP server: whole requests however they are cut, one answer each in order, refusals, a clean end."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourwheel.webhook_receiver import BODY_BYTES_MAX, HEAD_BYTES_MAX, Receiver, Reply, Request, render_answer
from tests.examples import examples

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Receiver], Awaitable[None]]


def received(talk: Talk, reply: Callable[[Request], Reply] = lambda request: Reply()) -> list[Request]:
    """What a receiver got while `talk` talked to it over one connection."""
    requests: list[Request] = []

    def receive(port: int, request: Request) -> Reply:
        requests.append(request)
        return reply(request)

    async def run() -> None:
        receiver = Receiver(receive)
        port = await receiver.listen("127.0.0.1", 0)
        assert receiver.ports == [port]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(10):
            await talk(reader, writer, receiver)
            await receiver.close()
        writer.close()

    asyncio.run(run())
    return requests


def request(body: bytes, path: str = "/hook", *lines: str) -> bytes:
    """A POST with these further header lines."""
    head = [f"POST {path} HTTP/1.1", "Host: h", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def answers(reader: asyncio.StreamReader, count: int) -> list[int]:
    """The status of each of the next answers."""
    found = []
    for _ in range(count):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found.append(int(head.split(" ")[1]))
        length = [line for line in head.splitlines() if line.startswith("Content-Length")]
        if length:
            await reader.readexactly(int(length[0].split(":")[1]))
    return found


@examples(30)
@given(bodies=st.lists(st.binary(max_size=50), min_size=1, max_size=4), cuts=st.lists(st.integers(1, 400), max_size=6))
def test_requests_cut_anywhere(bodies: list[bytes], cuts: list[int]) -> None:
    """Several requests on one connection, in pieces of any size: each is received once, whole and in order."""
    stream = b"".join(request(body, f"/{place}") for place, body in enumerate(bodies))
    places = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        for first, last in itertools.pairwise(places):
            writer.write(stream[first:last])
            await writer.drain()
            await asyncio.sleep(0)
        assert await answers(reader, len(bodies)) == [200] * len(bodies)

    got = received(talk)
    assert [(one.path, one.body) for one in got] == [(f"/{place}", body) for place, body in enumerate(bodies)]


def test_headers_in_lower_case() -> None:
    """Names in any case, values without the spaces around them."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        writer.write(request(b"", "/", "WebHook-ID:  a:b "))
        assert await answers(reader, 1) == [200]

    assert received(talk)[0].headers == {"host": "h", "webhook-id": "a:b", "content-length": "0"}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / SMTP/1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES_MAX, 431),
    ],
)
def test_refused_and_closed(sent: bytes, status: int) -> None:
    """What is no request, or too large, has its status and ends the connection; it is not received."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        writer.write(sent)
        assert await answers(reader, 1) == [status]
        assert await reader.read() == b""

    assert received(talk) == []


def test_late_answers_keep_their_order() -> None:
    """The next request of a connection waits for the answer to the one before."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        writer.write(request(b"", "/slow") + request(b"", "/fast"))
        assert await answers(reader, 2) == [202, 200]

    got = received(talk, lambda one: Reply(202, 0.05) if one.path == "/slow" else Reply())
    assert [one.path for one in got] == ["/slow", "/fast"]


def test_end_gives_the_answer_that_waits() -> None:
    """Closing waits for what was received, takes nothing further, and closes the connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        writer.write(request(b"", "/slow") + request(b"", "/never"))
        await got.wait()
        await receiver.close()
        assert await answers(reader, 1) == [200]
        assert await reader.read() == b""

    got = asyncio.Event()

    def reply(one: Request) -> Reply:
        got.set()
        return Reply(200, 0.05)

    assert [one.path for one in received(talk, reply)] == ["/slow"]


def test_sender_that_goes_away() -> None:
    """An answer that nobody waits for any more is dropped, and does not hold up the end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, receiver: Receiver) -> None:
        writer.write(request(b""))
        await writer.drain()
        await got.wait()
        writer.close()
        await receiver.close()

    got = asyncio.Event()

    def reply(one: Request) -> Reply:
        got.set()
        return Reply(200, 30.0)

    assert len(received(talk, reply)) == 1


@pytest.mark.parametrize("status", [200, 204, 304, 429, 599])
def test_answers_are_well_formed(status: int) -> None:
    """A body where one may stand, with its length; a status nobody named has a phrase."""
    head, _, body = render_answer(status).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    if status in (204, 304):
        assert body == b""
        assert b"Content-Length" not in head
    else:
        assert b"Content-Length: %d" % len(body) in head
