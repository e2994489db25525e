"""The benchmark's client: whole answers however they are cut, one request at a time, errors that end the run."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from bench.client.pump import Caller, Pump, render
from chaos.cluster.cluster import ClusterFailed

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def served(handler: Handler, use: Callable[[int], Awaitable[None]]) -> None:
    """Runs `use(port)`, which opens one connection, while `handler` answers there; returns when both are over."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        try:
            await use(server.sockets[0].getsockname()[1])
        finally:
            await over.wait()


def pumped(handler: Handler, requests: list[bytes]) -> list[tuple[int, bytes]]:
    """(status, body) of each request, sent over one connection to `handler`."""
    answers: list[tuple[int, bytes]] = []

    async def use(port: int) -> None:
        await Pump.run("127.0.0.1", port, iter(requests), lambda status, body, _: answers.append((status, body)))

    asyncio.run(served(handler, use))
    return answers


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request without a body with 200 and "hello"."""
    while not reader.at_eof():
        try:
            await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            break
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_answers_cut_anywhere() -> None:
    """Head and body in pieces of one byte, the header's name in any case; each request is sent after the answer."""
    requests = [render("POST", "/a", b"one"), render("POST", "/b", b"", "application/x-ndjson")]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request, body in zip(requests, (b"", b"hello"), strict=True):
            assert await reader.readexactly(len(request)) == request
            head = b"HTTP/1.1 201 Created\r\nContent-LENGTH: %d\r\nX: y\r\n\r\n" % len(body)
            for byte in head + body:
                writer.write(bytes([byte]))
                await writer.drain()

    assert pumped(handler, requests) == [(201, b""), (201, b"hello")]


def test_connection_that_closes_ends_the_run() -> None:
    """A benchmark with errors is none."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    with pytest.raises(ClusterFailed):
        pumped(handler, [render("GET", "/a", b"")])


def test_answer_without_a_length_ends_the_run() -> None:
    """What cannot be framed is said, not waited for."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    with pytest.raises(ClusterFailed, match="without Content-Length"):
        pumped(handler, [render("GET", "/a", b"")])


def test_error_of_the_callback_ends_the_run() -> None:
    """It would otherwise be logged by the loop and the run wait for ever."""

    async def use(port: int) -> None:
        def answered(status: int, body: bytes, seconds: float) -> None:
            raise ValueError("not what was expected")

        await Pump.run("127.0.0.1", port, iter([render("GET", "/a", b"")]), answered)

    with pytest.raises(ValueError, match="not what was expected"):
        asyncio.run(served(hello, use))


def test_caller_asks_one_after_the_other() -> None:
    """An answer per call on one connection; after close a call says so."""

    async def use(port: int) -> None:
        caller = await Caller.connect("127.0.0.1", port)
        assert [await caller.call(render("GET", "/a", b"")) for _ in range(3)] == [(200, b"hello")] * 3
        caller.close()
        with pytest.raises(ClusterFailed):
            await caller.call(render("GET", "/a", b""))

    asyncio.run(served(hello, use))
