"""Headers without end, chunks that hold little: what is beside a body costs no more than a body does."""

import asyncio
import gc
from contextlib import suppress

import pytest
from aiohttp.http_exceptions import HttpProcessingError

from api.http.connection import AHEAD_MAX
from api.http.stage import Stage
from tests.api.harness import run, running
from tests.api.http.test_stage import only
from tests.api.memory_port import MemoryPort
from tests.waiting import turns, until

CHUNKED = (
    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def test_bytes_that_are_no_request_are_let_go() -> None:
    """The failure of each held all that was read of its connection, in a cycle: 8 connections after each other made a
    node grow by a gigabyte."""

    async def story() -> None:
        async with running() as client:
            gc.collect()
            gc.disable()
            try:
                for junk in (
                    b"GET /" + b"x" * 20_000,
                    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000,
                    b"\xff" * 100,
                ):
                    reader, writer = await asyncio.open_connection(*client.server.address)
                    writer.write(junk)
                    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
                    writer.close()
                    await until(lambda: not client.server._listener.connections)
                await turns()
                held = [each for each in gc.get_objects() if isinstance(each, HttpProcessingError)]
            finally:
                gc.enable()
            assert held == []

    run(story())


@pytest.mark.parametrize(
    "piece",
    [
        b"1\r\nx\r\n" * 100_000,
        b"5;" + b"x" * 100 + b"\r\nabcde\r\n",
        b"1;" + b"x" * 4_000 + b"\r\nx\r\n",
        b"0\r\n" + b"X: y\r\n" * 2_000,
    ],
    ids=["a byte each", "small ones", "extensions", "trailers"],
)
def test_chunks_that_hold_more_than_the_body_end_the_connection(piece: bytes) -> None:
    """Eight connections that sent bodies a byte a chunk held the leader for seconds."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(CHUNKED)
            with suppress(ConnectionError):
                for _ in range(2_000_000 // len(piece)):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            with suppress(ConnectionError):
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            await until(lambda: not client.server._listener.connections)
            assert not client.port.held
            writer.close()

    run(story())


def test_a_body_in_chunks_of_any_common_size_is_taken() -> None:
    """Of 16 bytes and more."""

    async def story() -> None:
        async with running() as client:
            for size in (16, 1_000, 60_000):
                text = b'{"topic":"a","body":"' + b"x" * 200_000 + b'"}'
                reader, writer = await asyncio.open_connection(*client.server.address)
                pieces = (text[at : at + size] for at in range(0, len(text), size))
                framed = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces)
                writer.write(CHUNKED + framed + b"0\r\n\r\n")
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 201 ")
                writer.close()

    run(story())


def test_bodies_in_chunks_follow_each_other() -> None:
    """What stood before the second one in a piece was counted as if it stood beside it: a whole request was refused."""

    async def story() -> None:
        async with running() as client:
            text = b'{"topic":"a","body":"' + b"x" * 200_000 + b'"}'
            request = CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(request * 6)
            for _ in range(6):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
                await reader.readuntil(b"}")
            writer.close()

    run(story())


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("whole", [0, AHEAD_MAX])
def test_a_header_behind_a_body_in_chunks_is_bounded_too(whole: int, apart: bool) -> None:
    """What came with the last chunk was read in one piece, and not counted: 60 connections held 22 MB of headers. On a
    busy machine the socket may bring it apart from the chunk; it is refused then by itself."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            body = b"x" * 40_000
            writer.write(CHUNKED + b"%x\r\n" % (2 * len(body)) + body)
            await until(lambda: client.port.budget.held_bytes >= len(body))
            header = b"GET /livez HTTP/1.1\r\nHost: x\r\n" + (b"X: " + b"y" * 8_000 + b"\r\n") * 6
            connection = only(client.server)
            writer.write(body + b"\r\n0\r\n\r\n" + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * whole)
            if apart:
                await until(lambda: connection.stage is Stage.IDLE)
            writer.write(header)
            await until(lambda: connection._cut_off or not client.server._listener.connections)
            with suppress(ConnectionError):
                writer.write(b"\r\n")
                said = await reader.read()
                assert said.startswith(b"HTTP/1.1 400 "), "the chunks are no message"
                assert said.count(b"HTTP/1.1 200 ") == whole, "and nobody answers the header"
            await until(lambda: not client.server._listener.connections)
            writer.close()

    run(story())


def test_a_connection_that_is_cut_off_is_not_read_on() -> None:
    """The request at work is its last one: what comes behind it would be parsed for nothing."""

    async def story() -> None:
        port = MemoryPort()
        port.before_schedule = at_work, goes_on = asyncio.Event(), asyncio.Event()
        async with running(port) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            text = b'{"topic":"a","body":1}'
            writer.write(CHUNKED + b"%x\r\n%s\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n" % (len(text), text))
            await at_work.wait()
            connection = only(client.server)
            writer.write((b"X: " + b"y" * 8_000 + b"\r\n") * 6)
            await until(lambda: connection._cut_off)
            connection.read_on()
            assert connection.transport is not None
            assert not connection.transport.is_reading()
            goes_on.set()
            assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            writer.close()

    run(story())
