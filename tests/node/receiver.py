"""Receivers of webhooks on real sockets, well and badly behaved ones."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """What a receiver read."""

    line: str
    headers: dict[str, str]  # names in lower case
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request:
    """One request with a Content-Length. Raises IncompleteReadError when the connection ends before it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return Request(head[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    """An answer on the wire."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answering(*answers: bytes, seen: list[Request] | None = None) -> Behave:
    """Answers requests in this order, on kept connections, the last answer again and again."""
    left = list(answers)

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            if seen is not None:
                seen.append(request)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()

    return behave


@asynccontextmanager
async def receiver(behave: Behave, port: int = 0) -> AsyncIterator[str]:
    """Serve every connection with `behave`; gives `http://127.0.0.1:<port>`, of any free port by default. All
    connections are closed at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behave(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass  # the other side has gone, or the test is over
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
