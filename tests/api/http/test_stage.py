"""At which stage a connection stands, and what its deadline does: the table of api/http/stage.py, row by row."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

import api.http.connection
import api.http.listener
import api.http.server
from api.http.connection import Connection
from api.http.server import Server
from api.http.stage import Stage
from api.port.budget import Budget
from api.port.port import ScheduleResult
from api.routes.message import PARSED_TIMES
from tests.api.harness import Client, run, running
from tests.api.memory_port import MemoryPort
from tests.waiting import until

_GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
_POLL = (
    b"POST /v1/topics/a/pull HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b'Content-Length: 14\r\n\r\n{"wait":"20s"}'
)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.http.server, "WATCH_EVERY_S", 0.02)


def only(server: Server) -> Connection:
    """The one connection of a server."""
    (connection,) = server._listener.connections
    assert isinstance(connection, Connection)
    return connection


def keeping(client: Client) -> list[Connection]:
    """The connections that keep the server waiting, or wait themselves, while they ask for something."""
    held = [each for each in client.server._listener.connections if isinstance(each, Connection)]
    return [each for each in held if each.may_go() and not each.asks_nothing()]


async def begun(server: Server) -> Connection:
    """The one connection of a server, as if its client had sent something."""
    await until(lambda: server._listener.opened)
    (protocol,) = server._listener.opened
    return protocol.make_connection()


@asynccontextmanager
async def connected(client: Client) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Connection]]:
    """A client's socket, and what the server makes of it."""
    reader, writer = await asyncio.open_connection(*client.server.address)
    try:
        yield reader, writer, await begun(client.server)
    finally:
        writer.close()


async def narrow(client: Client) -> socket.socket:
    """Connected, for a client that reads nothing."""
    greedy = socket.socket()
    greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    greedy.setblocking(False)
    await asyncio.get_running_loop().sock_connect(greedy, client.server.address)
    return greedy


def message(body: bytes) -> bytes:
    """A request that schedules it."""
    text = b'{"topic":"a","body":"' + body + b'"}'
    head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(text) + text


async def question(client: Client, size: int) -> bytes:
    """A request for a message of so many bytes. The client that scheduled it is gone."""
    made = await client.send("POST", "/v1/messages", {"topic": "b", "body": "x" * size})
    await client.session.close()
    await until(lambda: not client.server._listener.connections)
    return b"GET /v1/messages/%s?ledger=false HTTP/1.1\r\nHost: x\r\n\r\n" % made.json["id"].encode()


def test_the_stages_of_one_connection() -> None:
    """Opened, header, working, idle; and again."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            listener = client.server._listener
            await until(lambda: listener.opened)
            assert not listener.connections, "nothing is made for who asks for nothing"
            assert listener.budget.connections == 1
            writer.write(_GET[:10])
            await until(lambda: listener.connections)
            assert not listener.opened
            connection = only(client.server)
            for first in (_GET[:0], _GET[:10]):
                writer.write(first)
                await until(lambda: connection.stage is Stage.HEADER)
                writer.write(_GET[10:])
                await reader.readuntil(b"ok\n")
                await until(lambda: connection.stage is Stage.IDLE)
            writer.write(_POLL)
            await until(lambda: connection.stage is Stage.WORKING)
            writer.close()

    run(story())


def test_a_body_that_nobody_wants_is_no_header() -> None:
    """It comes behind the answer, and is dropped: 32 KB of it were refused as a header, behind the answer."""

    async def story() -> None:
        async with running() as client, connected(client) as (reader, writer, connection):
            writer.write(_GET[:-2] + b"Content-Length: 300000\r\n\r\n")
            await reader.readuntil(b"ok\n")
            await until(lambda: connection.stage is Stage.LINGERING)
            for _ in range(3):
                writer.write(b"x" * 100_000)
                await writer.drain()
            assert await reader.read() == b""

    run(story())


def test_b13_a_body_in_pieces_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second piece was read in the same turn as its header; the wait for a header began, and a client that paused,
    or kept its connection, was closed 10 s later."""
    monkeypatch.setattr(api.http.connection, "HEADER_MAX_S", 0.1)

    async def story() -> None:
        async with running() as client, connected(client) as (reader, writer, connection):
            text = message(b"x" * 200_000)
            connection.data_received(text[:1_000])
            connection.data_received(text[1_000:100_000])
            loop = asyncio.get_running_loop()
            begun_s = loop.time()
            await until(lambda: loop.time() > begun_s + 0.3)
            assert connection.stage is Stage.READING
            connection.data_received(text[100_000:])
            assert b"201 Created" in await reader.readuntil(b"}")
            answered_s = loop.time()
            await until(lambda: loop.time() > answered_s + 0.3)
            writer.write(_GET)
            assert b"200 OK" in await reader.readuntil(b"ok\n")

    run(story())


@pytest.mark.parametrize("before", [_GET, message(b"1")])
@pytest.mark.parametrize("together", [True, False])
def test_half_a_header_behind_a_request_has_its_deadline(
    monkeypatch: pytest.MonkeyPatch, before: bytes, together: bool
) -> None:
    """In one piece with the request, or while that is at work: it was kept for 75 s."""
    monkeypatch.setattr(api.http.connection, "HEADER_MAX_S", 0.1)

    async def story() -> None:
        async with running() as client, connected(client) as (reader, _, connection):
            if together:
                connection.data_received(before + _GET[:10])
            else:
                connection.data_received(before)
                connection.data_received(_GET[:10])
            await reader.readuntil(b"\r\n\r\n")
            await until(lambda: connection.stage is Stage.HEADER)
            with suppress(ConnectionResetError):
                await reader.read()
            assert connection.transport is None

    run(story())


@pytest.mark.parametrize(("pieces", "held_back"), [(1, 0), (5, 0), (9, 1)])
def test_b2_a_header_is_bounded_in_all(pieces: int, held_back: int) -> None:
    """128 fields of 8 KB each were a megabyte a connection, which nobody counted. One that is too large is refused
    before its end."""

    async def story() -> None:
        async with running() as client:
            for fields, status in ((3, b"200 OK"), (5, b"400 Bad Request")):
                reader, writer = await asyncio.open_connection(*client.server.address)
                header = _GET[:-2] + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 8_000) for number in range(fields))
                header += b"\r\n"
                size = -(-len(header) // pieces)
                connection = await begun(client.server)
                until_byte = len(header) - (held_back * size if status.startswith(b"400") else 0)
                for first in range(0, until_byte, size):
                    connection.data_received(header[first : first + size])
                assert status in await reader.readuntil(b"\r\n")
                if status.startswith(b"400"):
                    assert b"32768 bytes" in await reader.read()
                writer.close()
                await until(lambda: not client.server._listener.connections)

    run(story())


def test_b3_answers_that_nobody_reads_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """15,000 pipelined requests for 40 KB, and nothing read: 600 MB, for good. One answer waits now, counted, and after
    its deadline the connection is aborted."""
    monkeypatch.setattr(api.http.connection, "ANSWER_MAX_S", 0.3)
    monkeypatch.setattr(api.http.connection, "ANSWER_BYTES_PER_S", 1e9)

    async def story() -> None:
        async with running() as client:
            made = await client.send("POST", "/v1/messages", {"topic": "a", "body": "x" * 40_000})
            get = b"GET /v1/messages/%s?ledger=false HTTP/1.1\r\nHost: x\r\n\r\n" % made.json["id"].encode()
            greedy = await narrow(client)
            loop = asyncio.get_running_loop()
            writing = loop.create_task(loop.sock_sendall(greedy, get * 15_000))
            budget = client.port.budget
            await until(lambda: budget.held_bytes)
            stages = [each.stage for each in client.server._listener.connections if isinstance(each, Connection)]
            assert sorted(stages) == [Stage.ANSWERING, Stage.IDLE]
            assert budget.held_bytes < 100_000
            await until(lambda: len(client.server._listener.connections) == 1)
            assert budget.held_bytes == 0
            with suppress(ConnectionResetError, BrokenPipeError):
                await writing
            greedy.close()

    run(story())


def test_b4_bodies_under_way_are_counted() -> None:
    """40 batches of which all but one byte was sent held 630 MB. What is past the bound is 429 busy, small requests go
    on, and all is given back."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(bytes_max=300_000))) as client:
            budget = client.port.budget
            head = b"POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
            slow = [await asyncio.open_connection(*client.server.address) for _ in range(2)]
            for _, writer in slow:
                writer.write(head + b"Content-Length: 140000\r\n\r\n" + b" " * 139_000)
            await until(lambda: budget.held_bytes == 280_000)
            reply = await client.batch(b" " * 140_000)
            assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (429, "busy", "1")
            assert (await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})).status == 201
            for _, writer in slow:
                writer.close()
            await until(lambda: budget.held_bytes == 0)

    run(story())


def test_b4_rows_parsed_of_a_batch_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold more than the lines that they were made of, until they are written."""

    async def story() -> None:
        async with running() as client:
            port, lines = client.port, b'{"topic":"a","body":1}\n' * 1_000
            held: list[int] = []
            schedule = port.schedule

            async def written(*args: Any) -> ScheduleResult:
                held.append(port.budget.held_bytes)
                return await schedule(*args)

            monkeypatch.setattr(port, "schedule", written)
            assert (await client.batch(lines)).status == 200
            assert held == [(1 + PARSED_TIMES) * len(lines)]
            assert port.budget.held_bytes == 0

    run(story())


def test_b2_idle_connections_make_room_and_what_is_past_that_is_told_so() -> None:
    """1,100 idle connections took the descriptors that a node needs for its files, and ended it."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(connections_max=3))) as client:
            idle = [await asyncio.open_connection(*client.server.address) for _ in range(3)]
            for reader, writer in idle:
                writer.write(_GET)
                await reader.readuntil(b"ok\n")
            first, _, _ = idle
            _, poll = await asyncio.open_connection(*client.server.address)
            poll.write(_POLL)
            assert await first[0].read() == b"", "the one that was idle for longest"
            for each in (poll, *(held for _, held in idle)):
                each.close()

    run(story())


def test_b2_whoever_keeps_the_node_waiting_for_longest_makes_room() -> None:
    """So that one client who fills all connections with requests that never end, or with polls, keeps nobody out: the
    first had half a header, the second half a body, the third does not read; then a poll, answered as one that found
    nothing, and closed. Who is answered meanwhile is left alone, and where all are one too many is told so."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(connections_max=4))) as client:
            get = await question(client, 40_000)
            client.port.arrived.clear()
            held = []
            for sent in (_GET[:10], message(b"1")[:-1], get * 1_000, _POLL[:-1]):
                held.append(await asyncio.open_connection(sock=await narrow(client), limit=1_024))
                held[-1][1].write(sent)
                await until(lambda: len(keeping(client)) == len(held))
            held[-1][1].write(_POLL[-1:])
            await until(client.port.waiting.is_set)
            half_header, half_body, unread, poll = (reader for reader, _ in held)
            newer = []
            for _ in range(4):
                newer.append(await asyncio.open_connection(*client.server.address))
                newer[-1][1].write(_POLL)
                await until(lambda: len(client.server._waiting) == min(4, 1 + len(newer)))
                await until(lambda: len(keeping(client)) == 4)
            for reader in half_header, half_body:
                assert b'"code":"busy"' in await reader.read()
            with suppress(ConnectionResetError):
                assert len(await unread.read()) < 1_000 * 40_000
            assert (await poll.read()).endswith(b'{"messages":[]}')
            assert len(client.server._waiting) == len(newer)
            for _, writer in newer + held:
                writer.close()

    run(story())


def test_who_has_just_asked_makes_no_room_while_another_has_kept_the_node_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One client sent thousands of requests to the leader but for their last bytes. The connections closed for it were
    those of the other nodes, idle for a moment between two requests: their clients got `outcome-unknown`."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(connections_max=2))) as client:
            await client.session.close()
            await until(lambda: not client.server._listener.connections)
            half_reader, half = await asyncio.open_connection(*client.server.address)
            half.write(message(b"1")[:-1])
            await until(lambda: keeping(client))
            used_reader, used = await asyncio.open_connection(*client.server.address)
            used.write(_GET)
            await used_reader.readuntil(b"ok\n")
            await until(
                lambda: any(cast(Connection, each).stage is Stage.IDLE for each in client.server._listener.connections)
            )
            _, other = await asyncio.open_connection(*client.server.address)
            assert b'"code":"busy"' in await half_reader.read()
            used.write(_GET)
            await used_reader.readuntil(b"ok\n")
            monkeypatch.setattr(api.http.listener, "IDLE_LEAST_S", 0.0)
            other.write(message(b"1")[:-1])
            await until(lambda: keeping(client))
            _, newest = await asyncio.open_connection(*client.server.address)
            assert await used_reader.read() == b""
            for writer in half, used, other, newest:
                writer.close()

    run(story())


def test_b2_one_connection_too_many_is_told_so_where_all_others_are_at_work() -> None:
    """None is closed whose request is being done."""

    async def story() -> None:
        async with (
            running(MemoryPort(budget=Budget(connections_max=1))) as client,
            connected(client) as (_, _, at_work),
        ):
            at_work._enter(Stage.WORKING)
            reader, writer = await asyncio.open_connection(*client.server.address)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b'"code":"busy"' in answer
            assert client.server._listener.connections == [at_work]
            writer.close()

    run(story())


@pytest.mark.parametrize("behind", [b"", _GET * 40], ids=["alone", "more pipelined than is parsed"])
def test_a_poll_whose_client_may_be_gone_ends(behind: bytes) -> None:
    """Its client closed its side; or sent so much behind it that its end would not be seen: leased to nobody."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_POLL + behind)
            if not behind:
                await client.port.waiting.wait()
                writer.write_eof()
            assert (await reader.readuntil(b'{"messages":[]}')).startswith(b"HTTP/1.1 200 ")
            writer.close()

    run(story())
