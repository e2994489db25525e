"""Clients that have closed their side of the connection: they get their answer, but nobody waits for them for long."""

import asyncio
from typing import cast

import pytest

import api.http.connection
import api.http.server
from api.http.connection import Connection
from api.port.backup import SnapshotView
from tests.api.harness import run, running
from tests.api.http.test_stage import message
from tests.waiting import turns, until


def test_who_closes_its_side_after_the_request_is_answered() -> None:
    """`shutdown(SHUT_WR)`: all that was asked for is answered, then the connection is closed."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(message(b"1") + message(b"2"))
            writer.write_eof()
            answers = await reader.read()
            assert answers.count(b"201 Created") == 2
            assert len(client.port.held) == 2
            writer.close()

    run(story())


def test_what_takes_long_ends_where_the_client_has_closed_its_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells whether anybody waits for the answer: clients asked for ledgers of years, closed, and the leader
    went on for minutes."""
    monkeypatch.setattr(api.http.connection, "HALF_CLOSED_MAX_S", 0.1)
    monkeypatch.setattr(api.http.server, "WATCH_EVERY_S", 0.02)

    async def story() -> None:
        async with running() as client:
            at_work, ended = asyncio.Event(), asyncio.Event()

            async def count(*_: object, **__: object) -> int:
                at_work.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()
                return 0

            monkeypatch.setattr(client.port, "count", count)
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(b"GET /v1/messages/count HTTP/1.1\r\nHost: x\r\n\r\n")
            await at_work.wait()
            (connection,) = client.server._listener.connections
            assert isinstance(connection, Connection)
            assert connection._until_s == float("inf"), "who has not closed its side waits for as long as it takes"
            writer.write_eof()
            assert await reader.read() == b""
            await ended.wait()
            writer.close()

    run(story())


def test_who_asks_for_a_backup_and_closes_its_side_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was answered as a pull that found nothing: `{"messages":[]}`, with 200."""

    async def story() -> None:
        async with running() as client:
            write, half_closed = client.port.snapshot, asyncio.Event()

            async def snapshot(directory: str | None) -> SnapshotView:
                await half_closed.wait()
                return await write(directory)

            monkeypatch.setattr(client.port, "snapshot", snapshot)
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(b"POST /v1/cluster/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            writer.write_eof()
            await until(lambda: any(cast(Connection, each).half_closed for each in client.server._listener.connections))
            await turns()
            half_closed.set()
            answer = await reader.read()
            assert b'"directory":' in answer, answer
            writer.close()

    run(story())


def test_who_closes_its_side_in_the_middle_of_a_request_is_gone() -> None:
    """Nothing is done."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(message(b"1")[:-1])
            writer.write_eof()
            assert await reader.read() == b""
            assert not client.port.held
            writer.close()

    run(story())
