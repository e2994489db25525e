"""Requests that come behind another one on the same connection: when they begin, and what they hold until then."""

import asyncio
import gc
import socket
from contextlib import suppress

import pytest
from aiohttp.web_protocol import RequestHandler

from api.http.answer import Answer
from api.http.connection import AHEAD_MAX
from api.http.stage import Stage
from api.port.budget import UNCOUNTED_BYTES, Budget
from tests.api.harness import run, running
from tests.api.http.test_framing import CHUNKED
from tests.api.http.test_stage import _GET, _POLL, begun, connected, message, narrow, only, question
from tests.api.memory_port import MemoryPort
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
            connection = await begun(client.server)
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
                stall(await begun(client.server))
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


def test_b3_an_answer_that_was_sent_is_let_go() -> None:
    """500 connections whose next requests waited held 255 KB each of what was sent."""

    async def story() -> None:
        async with running() as client:
            get = await question(client, 50_000)
            reader, writer = await asyncio.open_connection(sock=await narrow(client), limit=1_024)
            connection = await begun(client.server)
            stall(connection)
            writer.write(get)
            await until(lambda: connection.stage is Stage.ANSWERING)
            assert not [each for each in gc.get_objects() if isinstance(each, Answer) and each._content]
            await reader.readexactly(50_000)
            await until(lambda: connection.stage is Stage.IDLE)
            assert not [each for each in gc.get_objects() if isinstance(each, Answer)]
            writer.close()

    run(story())


def _post(body: bytes) -> bytes:
    head = b"POST /v1/topics/b/pull HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def _answers(reader: asyncio.StreamReader, count: int) -> bytes:
    """Until so many are here, or the connection is closed."""
    came = b""
    while came.count(b"HTTP/1.1 ") < count and (more := await reader.read(65_536)):
        came += more
    return came


@pytest.mark.parametrize("behind", [message(b"x" * 2 * UNCOUNTED_BYTES), _post(b'{"max":1,"wait":"9s"}') * 15])
def test_pulls_of_what_is_ready_are_answered_with_it_whatever_stands_behind(behind: bytes) -> None:
    """The first was ended before it began; it answered, and then the connection was closed on all behind it."""

    async def story() -> None:
        async with running() as client:
            for number in range(16):
                await client.send("POST", "/v1/messages", {"topic": "b", "body": number, "delay": "0s"})
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_post(b'{"max":1,"wait":"9s"}') + behind)
            count = 1 + behind.count(b" HTTP/1.1\r\n")
            came = await _answers(reader, count)
            assert came.count(b"HTTP/1.1 20") == count
            assert came.count(b'"receipt"') == 1 + behind.count(b"/pull")
            writer.close()

    run(story())


@pytest.mark.parametrize("first", [0, -1], ids=["at once", "in two pieces"])
def test_half_a_body_behind_a_request_at_work_does_not_answer_it(first: int) -> None:
    """A client that needed the connection's room got it. The client of the request at work was told `busy`, and its
    message had been scheduled."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=1))
        port.before_schedule = at_work, goes_on = asyncio.Event(), asyncio.Event()
        text = message(b"1")
        async with running(port) as client, connected(client) as (reader, writer, connection):
            writer.write(text[:first])
            await until(lambda: connection.stage is (Stage.READING if first else Stage.HEADER))
            writer.write(text[first:] + message(b"2")[:-1])
            await at_work.wait()
            assert connection.stage is Stage.WORKING
            other_reader, other = await asyncio.open_connection(*client.server.address)
            assert b'"code":"busy"' in await other_reader.read()
            goes_on.set()
            assert (await _answers(reader, 1)).startswith(b"HTTP/1.1 201 ")
            await until(lambda: connection.stage is Stage.READING)
            other.close()

    run(story())


def test_the_end_of_a_client_with_half_a_body_behind_a_request_at_work_does_not_end_that() -> None:
    """The request at work was complete: it is answered, and only the one behind it is lost."""

    async def story() -> None:
        port = MemoryPort()
        port.before_schedule = begun, goes_on = asyncio.Event(), asyncio.Event()
        async with running(port) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(message(b"1") + message(b"2")[:-1])
            await begun.wait()
            writer.write_eof()
            await until(lambda: only(client.server).half_closed)
            goes_on.set()
            came = await reader.read()
            assert came.startswith(b"HTTP/1.1 201 ")
            assert came.count(b"HTTP/1.1") == 1
            assert b"\r\nConnection: close\r\n" in came
            assert len(port.held) == 1
            writer.close()

    run(story())


@pytest.mark.parametrize("count", [1, AHEAD_MAX - 2, AHEAD_MAX - 1, AHEAD_MAX, AHEAD_MAX + 1, 20])
def test_half_a_header_behind_many_requests_has_its_deadline_and_nothing_has_none(count: int) -> None:
    """The parser goes on with bytes that came earlier. They say nothing of what comes next."""

    async def story() -> None:
        for behind, stage in (b"", Stage.IDLE), (_GET[:20], Stage.HEADER):
            async with running() as client, connected(client) as (reader, writer, connection):
                writer.write(_GET * count + behind)
                await _answers(reader, count)
                await until(lambda: connection.stage is not Stage.WORKING)
                assert connection.stage is stage

    run(story())


@pytest.mark.parametrize(
    ("ahead", "in_front"),
    [(AHEAD_MAX - 3, True), (AHEAD_MAX - 2, True), (AHEAD_MAX - 2, False), (AHEAD_MAX - 1, False), (AHEAD_MAX, False)],
)
def test_a_large_body_where_the_parser_stops_is_no_header(ahead: int, in_front: bool) -> None:
    """What stood behind the last request that was parsed was taken for a header, and too large: clients that sent
    eight requests ahead of a large one were cut off (seeds 71 and 237 of streams cut at random)."""

    async def story() -> None:
        port = MemoryPort()
        port.before_schedule = at_work, goes_on = asyncio.Event(), asyncio.Event()
        questions, large = _GET * ahead, message(b"x" * 40_000)
        body = b'{"topic":"a","body":"%s"}' % (b"y" * 80_000)
        chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        async with running(port) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(message(b"0"))
            await at_work.wait()
            connection = only(client.server)
            writer.write(questions * in_front + CHUNKED + chunk[:40_000])
            await until(lambda: connection._newest is not None and connection._newest.total_bytes > 30_000)
            writer.write(chunk[40_000:] + questions * (not in_front) + large)
            await until(lambda: connection._newest is None or connection._newest.total_bytes < 30_000)
            writer.write(message(b"2"))
            goes_on.set()
            assert (await _answers(reader, ahead + 4)).count(b"HTTP/1.1 20") == ahead + 4
            writer.close()

    run(story())


@pytest.mark.parametrize("ahead", range(AHEAD_MAX - 3, AHEAD_MAX + 1))
def test_what_was_parsed_is_not_kept(ahead: int) -> None:
    """The piece was kept where seven requests waited, as if the parser had stopped: 96 KB of each idle connection."""

    async def story() -> None:
        port = MemoryPort()
        port.before_schedule = at_work, goes_on = asyncio.Event(), asyncio.Event()
        async with running(port) as client, connected(client) as (reader, writer, connection):
            writer.write(message(b"0"))
            await at_work.wait()
            large = message(b"x" * 60_000)
            writer.write(_GET * ahead + large[:-10_000])
            await until(lambda: len(connection._messages) >= min(ahead + 1, AHEAD_MAX))
            writer.write(large[-10_000:])
            goes_on.set()
            assert (await _answers(reader, ahead + 2)).count(b"HTTP/1.1 20") == ahead + 2
            await until(lambda: connection.stage is Stage.IDLE)
            assert connection._unparsed == b""

    run(story())
