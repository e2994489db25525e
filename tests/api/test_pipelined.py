"""Requests that come behind another one on the same connection: when they begin, and what they hold until then."""

import asyncio
import socket
from contextlib import suppress

import pytest
from aiohttp.web_protocol import RequestHandler

from api.budget import UNCOUNTED_BYTES, Budget
from api.connection import AHEAD_MAX
from api.stage import Stage
from tests.api.harness import run, running
from tests.api.memory_port import MemoryPort
from tests.api.test_stage import _GET, _POLL, connected, message, narrow, only, question
from tests.waiting import until


def stall(connection: RequestHandler) -> None:
    """Its socket takes little of an answer."""
    assert connection.transport is not None
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)


def test_what_stands_behind_a_wait_that_makes_room_is_not_begun() -> None:
    """Its answer says that the connection ends, and it does: the others on it have to be sent again, elsewhere."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(connections_max=1))) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_POLL + message(b"1"))
            await client.port.waiting.wait()
            _, other = await asyncio.open_connection(*client.server.address)
            answers = await reader.read()
            assert answers.startswith(b"HTTP/1.1 200 ")
            assert answers.count(b"HTTP/1.1") == 1
            assert b"\r\nConnection: close\r\n" in answers
            assert not client.port.held
            writer.close()
            other.close()

    run(story())


def test_half_a_body_behind_a_request_is_waited_for_as_one_alone_is() -> None:
    """It stood as if it were at work: whoever needed its connection did not get it, and the end of its client was
    taken for the end of a request that is here."""

    async def story() -> None:
        async with running() as client, connected(client) as (reader, writer, connection):
            writer.write(_GET + message(b"1")[:-1])
            await reader.readuntil(b"ok\n")
            await until(lambda: connection.stage is Stage.READING)
            assert connection.may_go()
            writer.write_eof()
            assert await reader.read() == b""
            assert not client.port.held

    run(story())


@pytest.mark.parametrize("split", [False, True], ids=["at once", "while it waits"])
@pytest.mark.parametrize("whole", [False, True], ids=["a part", "all of it"])
def test_a_body_behind_a_wait_ends_it(split: bool, whole: bool) -> None:
    """Nobody counts it before its turn comes: 64 KB stood behind each poll for 20 s."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            behind = message(b"x" * 2 * UNCOUNTED_BYTES)
            behind = behind if whole else behind[:-1]
            if split:
                writer.write(_POLL)
                await client.port.waiting.wait()
                writer.write(behind)
            else:
                writer.write(_POLL + behind)
            assert (await reader.readuntil(b'{"messages":[]}')).startswith(b"HTTP/1.1 200 ")
            if not whole:
                await until(lambda: client.port.budget.held_bytes)
                writer.write(b"}")
            assert b"201 Created" in await reader.readuntil(b"\r\n\r\n")
            writer.close()

    run(story())


def test_a_small_request_behind_a_wait_lets_it_wait() -> None:
    """What settles messages comes behind polls, of some clients."""

    async def story() -> None:
        async with running() as client, connected(client) as (_, writer, connection):
            writer.write(_POLL)
            await client.port.waiting.wait()
            writer.write(message(b"1"))
            await until(lambda: connection._messages)
            assert connection.ended is not None
            assert len(client.server._waiting) == 1

    run(story())


def test_a_client_that_closes_its_side_while_it_reads_is_closed_behind_the_answer() -> None:
    """It stood idle for 75 s, with nobody at the other end who could ask."""

    async def story() -> None:
        async with running() as client:
            get = await question(client, 200_000)
            reader, writer = await asyncio.open_connection(sock=await narrow(client), limit=1_024)
            await until(lambda: client.server._listener.connections)
            connection = only(client.server)
            stall(connection)
            writer.write(get)
            await until(lambda: connection.stage is Stage.ANSWERING)
            writer.write_eof()
            await until(lambda: connection.half_closed)
            assert len(await reader.read()) > 200_000
            writer.close()

    run(story())


def test_a_body_in_chunks_has_nothing_behind_it() -> None:
    """Its last bytes were taken for the first of another request, whose header never came: closed after 10 s."""
    chunked = message(b"1").partition(b"\r\n\r\n")
    head = chunked[0].rpartition(b"\r\n")[0] + b"\r\nTransfer-Encoding: chunked"
    text = head + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(chunked[2]), chunked[2])

    async def story() -> None:
        async with running() as client, connected(client) as (reader, _, connection):
            connection.data_received(text)
            assert b"201 Created" in await reader.readuntil(b"}")
            await until(lambda: connection.stage is not Stage.WORKING)
            assert connection.stage is Stage.IDLE

    run(story())


def test_so_many_requests_are_parsed_ahead_and_no_more() -> None:
    """A connection that read nothing held 32 of them, and 500 such connections 60 MB."""

    async def story() -> None:
        async with running() as client, connected(client) as (_, writer, connection):
            writer.write(_POLL)
            await client.port.waiting.wait()
            connection.data_received(_GET * 40)
            assert len(connection._messages) == AHEAD_MAX

    run(story())


def test_b3_who_leaves_answers_unread_for_longest_makes_room_where_clients_hold_too_much() -> None:
    """Answers count past the bound, and nothing bounded how many clients left one unread."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(bytes_max=300_000))) as client:
            get = await question(client, 200_000)
            unread = []
            for _ in range(2):
                unread.append(await asyncio.open_connection(sock=await narrow(client), limit=1_024))
                await until(lambda: len(client.server._listener.connections) == len(unread))
                stall(client.server._listener.connections[-1])
                unread[-1][1].write(get)
                await until(lambda: client.port.budget.held_bytes > 150_000)
            reader, _ = unread[0]
            with suppress(ConnectionResetError):
                assert len(await reader.read()) < 200_000
            for reader, _ in unread[1:]:
                assert len(await reader.readuntil(b'"history"')) > 0
            for _, writer in unread:
                writer.close()

    run(story())
