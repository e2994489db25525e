"""The real server on a loopback socket, and a client that shows exactly what it answered."""

import asyncio
import io
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from api.http.server import Server
from api.port.forward import ForwardAnswer, ForwardRequest
from api.serve import serve
from tests.api.memory_port import MemoryPort


class Reply(msgspec.Struct):
    """An answer: `headers` by lower-case name, and the body read as JSON where it is JSON."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def lines(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.body.splitlines()]


class Client:
    """A keep-alive client of one server."""

    def __init__(self, server: Server, port: MemoryPort, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.port = port
        host, number = server.address
        self.base = f"http://{host}:{number}"
        self.session = session

    async def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """`body`: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers = dict(headers or {})
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        source = None if data is None else io.BytesIO(data)  # aiohttp warns of large bytes
        async with self.session.request(method, self.base + path, data=source, headers=headers) as reply:
            found = {name.lower(): text for name, text in reply.headers.items()}
            return Reply(reply.status, found, await reply.read())

    async def batch(self, body: bytes, path: str = "/v1/messages/batch") -> Reply:
        """POST NDJSON."""
        return await self.send("POST", path, body, {"Content-Type": "application/x-ndjson"})

    async def pass_on(self, request: ForwardRequest) -> ForwardAnswer:
        """What a node's forwarding does: the same request, sent once to this server."""
        async with self.session.request(
            request.method,
            self.base + request.target,
            data=request.body or None,
            headers=request.headers,
            skip_auto_headers=("Content-Type",),
        ) as reply:
            return ForwardAnswer(reply.status, dict(reply.headers), await reply.read())


@asynccontextmanager
async def running(port: MemoryPort | None = None) -> AsyncIterator[Client]:
    """A server over `port` and a client of it; both closed at the end."""
    port = port or MemoryPort()
    server = await serve(port, "127.0.0.1", 0)
    try:
        plain = {"Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(auto_decompress=False, headers=plain) as session:
            yield Client(server, port, session)
    finally:
        await server.close(grace_s=1.0)


async def talk(server: Server, data: bytes) -> bytes:
    """Send bytes on a socket of their own and read until the server closes."""
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        writer.write(data)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run one test's coroutine; a hang fails after 20 s, and so does an exception that only the loop heard of."""
    unheard: list[str] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(str(told)))
        async with asyncio.timeout(20):
            await story

    asyncio.run(bounded())
    assert unheard == []


def check_problem(reply: Reply, status: int, code: str, pointer: str | None = None) -> dict[str, Any]:
    """The parts every problem has; gives the document."""
    problem: dict[str, Any] = reply.json
    assert (reply.status, problem["status"], problem["code"]) == (status, status, code)
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"/problems/{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["term"] == 7
    assert problem["leader"] == "n1"
    assert problem["request_id"] == reply.headers["x-request-id"]
    if pointer is not None:
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
    return problem
