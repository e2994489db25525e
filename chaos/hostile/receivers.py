"""Receivers of webhooks that misbehave, one kind a port."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final, Self

from cli.local.local_nodes import LOOPBACK

Misbehave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_LARGE_BYTES: Final = 1_000_000


def _answering(answer: bytes, after_s: float = 0.0) -> Misbehave:
    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)
            await asyncio.sleep(after_s)
            writer.write(answer)
            await writer.drain()

    return answer_all


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read, and never answer."""
    while await reader.read(65_536):
        pass


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Break the connection when the request is there."""
    await reader.read(65_536)
    writer.transport.abort()


def _status(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + line, *headers, b"Content-Length: %d" % len(body), b"", body])


KINDS: Final[dict[str, Misbehave]] = {
    "good": _answering(_status(b"200 OK")),
    "slow": _answering(_status(b"200 OK"), after_s=2.0),
    "failing": _answering(_status(b"500 Oops", body=b"x" * 2_000)),
    "busy": _answering(_status(b"429 Later", b"Retry-After: 3")),
    "gone": _answering(_status(b"410 Gone")),
    "moved": _answering(_status(b"302 Found", b"Location: http://127.0.0.1:9/")),
    "large": _answering(_status(b"200 OK", body=b"x" * _LARGE_BYTES)),
    "garbage": _answering(b"\x00\xff what?\r\n\r\n"),
    "hanging": _hang,
    "resetting": _reset,
}


class Receivers:
    """One receiver of each kind on loopback. `urls` has their URLs by kind. The kind `closed` is a port on which no
    process listens. Use as `async with`."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {"closed": f"http://{LOOPBACK}:9/"}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for kind, misbehave in KINDS.items():
            server = await self._stack.enter_async_context(await asyncio.start_server(_quiet(misbehave), LOOPBACK, 0))
            self.urls[kind] = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


def _quiet(misbehave: Misbehave) -> Misbehave:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await misbehave(reader, writer)
        writer.close()

    return serve
