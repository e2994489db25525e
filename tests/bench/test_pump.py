"""The benchmark's client: whole answers however they are cut, one request at a time, errors that end the run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bench.pump import Pump, render
from chaos.cluster import ClusterFailed

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def pumped(handler: Handler, requests: list[bytes]) -> list[tuple[int, bytes]]:
    """(status, body) of each request, sent over one connection to `handler`."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    answers: list[tuple[int, bytes]] = []
    async with server:
        port = server.sockets[0].getsockname()[1]
        await Pump.run("127.0.0.1", port, iter(requests), lambda status, body, _: answers.append((status, body)))
    return answers


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
        writer.close()

    assert asyncio.run(pumped(handler, requests)) == [(201, b""), (201, b"hello")]


def test_connection_that_closes_ends_the_run() -> None:
    """A benchmark with errors is none."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    with pytest.raises(ClusterFailed):
        asyncio.run(pumped(handler, [render("GET", "/a", b"")]))
