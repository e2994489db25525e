"""Bodies that come later than their header: http.client, for one, sends the two apart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import api.http.connection
from api.http.connection import AHEAD_MAX, Connection
from api.http.stage import Stage
from api.port.budget import Budget
from api.port.port import CancelResult
from tests.api.harness import Client, run, running
from tests.api.http.test_stage import _GET, _POLL, message, only
from tests.api.memory_port import MemoryPort
from tests.waiting import until

_CHUNKED = (
    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@asynccontextmanager
async def _sent(client: Client, part: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client whose request is at work without the rest of its body."""
    reader, writer = await asyncio.open_connection(*client.server.address)
    try:
        await _begin(client, writer, part)
        yield reader, writer
    finally:
        writer.close()


async def _begin(client: Client, writer: asyncio.StreamWriter, part: bytes) -> Connection:
    writer.write(part)
    await until(lambda: client.server._listener.connections and only(client.server).stage is Stage.READING)
    connection = only(client.server)
    await until(lambda: not connection._messages)
    return connection


@pytest.mark.parametrize("broken", [b"zz\r\n", b"5\r\nabcde\r\nzz\r\n"])
def test_a_body_whose_chunks_are_broken_is_refused_at_once(broken: bytes) -> None:
    """It stood as if it were at work, for 30 s: so many connections made no room, and nobody else was let in."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=1))
        async with running(port) as client, _sent(client, _CHUNKED) as (reader, writer):
            assert only(client.server).may_go()
            writer.write(broken)
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            await until(lambda: not client.server._listener.connections)

    run(story())


def test_broken_chunks_of_a_body_that_nobody_wants_raise_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each was an error in the loop, with its traceback."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_CHUNKED.replace(b"/v1/messages", b"/v1/nowhere") + b"5\r\nabcde\r\n")
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 404 ")
            await until(lambda: only(client.server).stage is Stage.LINGERING)
            writer.write(b"zz\r\n")
            await reader.read()
            writer.close()
            await until(lambda: not client.server._listener.connections)

    run(story())
    assert not caplog.records


@pytest.mark.parametrize("half_closed", [False, True])
@pytest.mark.parametrize("count", [1, AHEAD_MAX])
def test_requests_behind_late_bodies_are_all_answered(count: int, half_closed: bool) -> None:
    """Each took one of the places of requests that are parsed ahead, for good: those that had none stood unparsed."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            text = message(b"1")
            for _ in range(count):
                await _begin(client, writer, text[:-5])
                writer.write(text[-5:])
                assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201 ")
            await _begin(client, writer, text[:-5])
            writer.write(text[-5:] + _GET * (AHEAD_MAX + 3))
            if half_closed:
                writer.write_eof()
            for _ in range(AHEAD_MAX + 3):
                await reader.readuntil(b"ok\n")
            writer.close()

    run(story())


@pytest.mark.parametrize(
    ("part", "rest", "stage"),
    [
        (message(b"1")[:-3], message(b"1")[-3:] + _GET[:20], Stage.HEADER),
        (message(b"1")[:-3], message(b"1")[-3:], Stage.IDLE),
        (message(b"1")[:-3], message(b"1")[-3:] + _GET, Stage.IDLE),
        (_CHUNKED, b"18\r\n" + message(b"1")[-24:] + b"\r\n0\r\n\r\n", Stage.IDLE),
        (_CHUNKED, b"18\r\n" + message(b"1")[-24:] + b"\r\n0\r\n\r\n" + _GET, Stage.IDLE),
        (_CHUNKED, b"18\r\n" + message(b"1")[-24:] + b"\r\n0\r\n\r\n" + _GET[:20], Stage.HEADER),
        (message(b"")[:-20], b'"a","body":"\r\n\r\n"}  '[-20:] + _GET, Stage.IDLE),
    ],
)
def test_what_comes_behind_a_late_body_has_its_deadline_and_nothing_has_none(
    part: bytes, rest: bytes, stage: Stage
) -> None:
    """A connection was closed that asked for nothing, and another was left alone with half a header."""

    async def story() -> None:
        async with running() as client, _sent(client, part) as (reader, writer):
            writer.write(rest)
            connection = only(client.server)
            for _ in range(1 + rest.count(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")):
                await reader.readuntil(b"\r\n\r\n")
            await until(lambda: connection.stage not in (Stage.READING, Stage.WORKING, Stage.ANSWERING))
            assert connection.stage is stage

    run(story())


def test_a_poll_behind_a_body_in_chunks_leaves_the_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for half a header, which had had its time when the poll was answered: the next request was lost."""
    monkeypatch.setattr(api.http.connection, "HEADER_MAX_S", 0.05)

    async def story() -> None:
        async with running() as client, _sent(client, _CHUNKED) as (reader, writer):
            rest = b"18\r\n" + message(b"1")[-24:].replace(b"a", b"b", 1) + b"\r\n0\r\n\r\n"
            writer.write(rest + _POLL.replace(b'"20s"', b'"90ms"').replace(b"14\r\n", b"15\r\n"))
            assert (await reader.readuntil(b'{"messages":[]}')).count(b"HTTP/1.1 20") == 2
            connection = only(client.server)
            await until(lambda: connection.stage is Stage.IDLE)
            connection.close_overdue(connection.since_s + 0.05)
            writer.write(_GET)
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")

    run(story())


@pytest.mark.parametrize(("size", "status"), [(100, b" 201 "), (200_000, b" 429 ")])
def test_b4_small_bodies_go_on_where_the_budget_is_used_up(size: int, status: bytes) -> None:
    """An acknowledgement that came in two pieces was refused, and one that came in one was not."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(bytes_max=1_000_000))
        text = message(b"x" * size)
        async with running(port) as client:
            with port.budget.counted(1_000_000):
                reader, writer = await asyncio.open_connection(*client.server.address)
                writer.write(text[:200])
                await until(lambda: client.server._listener.connections)
                await until(lambda: only(client.server).stage is not Stage.HEADER)
                writer.write(text[200:])
                assert status in await reader.readline()
                writer.close()

    run(story())


def test_a_server_that_ends_answers_who_sends_a_body() -> None:
    """Nobody told its client anything, and the server waited for it as long as it waits for requests at work."""

    async def story() -> None:
        async with running() as client:
            text = message(b"x" * 100_000)
            async with _sent(client, text[:50_000]) as (reader, writer):
                await client.server.close(60.0)
                assert b'"code":"draining"' in await reader.read()
                writer.close()

    run(story())


def test_what_needs_no_body_is_at_work_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message was cancelled, and its client told `busy`: another needed the connection's room."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=1))
        async with running(port) as client:
            made = await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
            await client.session.close()
            await until(lambda: not client.server._listener.budget.connections)
            at_work, goes_on, cancel = asyncio.Event(), asyncio.Event(), port.cancel

            async def slowly(*asked: Any, **how: Any) -> CancelResult:
                result = await cancel(*asked, **how)
                at_work.set()
                await goes_on.wait()
                return result

            monkeypatch.setattr(port, "cancel", slowly)
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(
                b"DELETE /v1/messages/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n" % made.json["id"].encode()
            )
            await at_work.wait()
            assert not only(client.server).may_go()
            goes_on.set()
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            writer.close()

    run(story())
