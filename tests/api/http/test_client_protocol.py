"""Sockets of clients: how they are read, and who begins first where thousands connect in one moment."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import uvloop

import api.http.client_protocol
import api.http.listener
from api.http.client_protocol import LARGE_BYTES, SMALL_BYTES, ClientProtocol
from api.http.connection import Connection
from api.http.listener import BEGUN_A_TURN, FirstRequests, Listener
from api.http.listening import ACCEPTS
from api.port.budget import Budget
from tests.api.harness import Client, run, running
from tests.api.http.test_stage import _GET, _POLL, message
from tests.api.memory_port import MemoryPort
from tests.calls import calls_of
from tests.waiting import until

_CHUNKED = (
    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each piece has that is parsed; 0: aiohttp asks for what is left of the one before."""
    return calls_of(monkeypatch, Connection, "data_received", lambda _, data: len(data))


@asynccontextmanager
async def _opened(client: Client) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, ClientProtocol]]:
    """A client that has asked for nothing yet, and what the server holds of it."""
    reader, writer = await asyncio.open_connection(*client.server.address)
    try:
        await until(lambda: client.server._listener.opened)
        (protocol,) = client.server._listener.opened
        yield reader, writer, protocol
    finally:
        writer.close()


def _all_of(other: socket.socket) -> bytes:
    """What comes until the other side closes."""
    return b"".join(iter(lambda: other.recv(65_536), b""))


def _receive(protocol: ClientProtocol, piece: bytes) -> None:
    """As if the loop had read it."""
    protocol.get_buffer(-1)[: len(piece)] = piece
    protocol.buffer_updated(len(piece))


async def _sent(client: Client, text: bytes) -> bytes:
    """The answer's first line, if there is one."""
    reader, writer = await asyncio.open_connection(*client.server.address)
    writer.write(text)
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize(
    ("text", "status", "most"),
    [
        (message(b"x" * 200_000), b" 201 ", LARGE_BYTES),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, b" 400 ", SMALL_BYTES),
        (_POLL + _GET * 4_000, b" 200 ", SMALL_BYTES),
        (_CHUNKED + b"1\r\n \r\n" * 40_000, b" 400 ", SMALL_BYTES),
    ],
    ids=["a body", "a header without end", "many requests", "chunks of a byte"],
)
def test_b13_what_costs_more_than_keeping_it_is_read_in_small_pieces(
    pieces: list[int], text: bytes, status: bytes, most: int
) -> None:
    """256 KB of chunks of a byte took the parser 9 ms, and eight such connections the loop 35 ms each time it came
    round; 500 connections that pipeline held 256 KB each, unparsed."""

    async def story() -> None:
        async with running() as client:
            assert status in await _sent(client, text)

    run(story())
    assert pieces[0] <= SMALL_BYTES
    assert max(pieces) <= most
    assert (max(pieces) > SMALL_BYTES) is (most > SMALL_BYTES)


def test_a_body_is_read_to_its_end_and_no_further(pieces: list[int]) -> None:
    """Behind its last byte 256 KB of chunks of a byte were parsed at once."""

    async def story() -> None:
        async with running() as client:
            text = message(b"x" * 20_000)
            assert b" 201 " in await _sent(client, text + _CHUNKED + b"1\r\n \r\n" * 40_000)

    run(story())
    assert sorted(pieces)[-2] <= SMALL_BYTES, "the body, and it alone"
    assert SMALL_BYTES < max(pieces) < 20_000


def test_a_body_in_large_chunks_is_read_in_large_pieces(pieces: list[int]) -> None:
    """Which costs what a body of known length does."""

    async def story() -> None:
        async with running() as client:
            text = b'{"topic":"a","body":"' + b"x" * 240_000 + b'"}'
            framed = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (text[:60_000], text[60_000:]))
            assert b" 201 " in await _sent(client, _CHUNKED + framed + b"0\r\n\r\n")

    run(story())
    assert max(pieces) > 2 * SMALL_BYTES


def test_who_sends_more_than_a_piece_reads_on_when_the_loop_has_come_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop would read up to 32 pieces of one connection, one behind the other."""
    rounds = [0]
    pieces = calls_of(monkeypatch, Connection, "data_received", lambda _, data: rounds[0] if data else None)

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_CHUNKED + b"1\r\n \r\n" * 40_000)
            answered = asyncio.ensure_future(reader.readline())
            while not answered.done():
                rounds[0] += 1
                await asyncio.sleep(0)
            writer.close()

    uvloop.run(story())
    read = [each for each in pieces if each is not None]
    assert len(read) > 5
    assert max(read.count(each) for each in read) == 1


def test_b2_a_crowd_that_asks_for_the_first_time_begins_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 polls in one moment kept those waiting who were there before; and whoever asked whether the node lives."""
    rounds = [0]
    begins = calls_of(monkeypatch, ClientProtocol, "make_connection", lambda _: rounds[0])

    async def story() -> None:
        async with running() as client:
            listener, count = client.server._listener, 10 * BEGUN_A_TURN
            crowd = [await asyncio.open_connection(*client.server.address) for _ in range(count)]
            await until(lambda: len(listener.opened) == count)
            assert listener.beginnings.came == count
            for protocol in list(listener.opened):
                _receive(protocol, _POLL)
            assert not begins
            reader, health = await asyncio.open_connection(*client.server.address)
            await until(lambda: len(listener.opened) + len(begins) > count)
            newest = next(reversed(listener.opened))
            before = len(begins)
            _receive(newest, _GET)
            assert len(begins) == before + 1, "it waits for nobody"
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
            while len(begins) <= count:
                rounds[0] += 1
                await asyncio.sleep(0)
            for _, writer in (*crowd, (reader, health)):
                writer.close()

    run(story())
    assert max(begins.count(each) for each in range(1, rounds[0] + 1)) <= BEGUN_A_TURN


def test_one_begins_at_a_time_while_as_many_connect_as_are_accepted() -> None:
    """Who connected by the thousand was accepted no faster than it connected: a look at the node's health stood behind
    it for 0.16 s."""
    loop = asyncio.new_event_loop()
    beginnings, begun = FirstRequests(loop), list[int]()
    for number in range(3 * BEGUN_A_TURN):
        beginnings.add(partial(begun.append, number))
    beginnings.came = ACCEPTS
    for count in (1, 1 + BEGUN_A_TURN):
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert len(begun) == count
        beginnings.came = ACCEPTS - 1
    loop.close()


@pytest.mark.parametrize("ends", ["makes room", "is lost"])
def test_who_goes_before_its_turn_leaves_nothing_in_line(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """Of a flood of connections the pieces of the dead were kept, 56 MB, and nearly every turn was for one of them."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=1))
        async with running(port) as client, _opened(client) as (_, _, protocol):
            listener = client.server._listener
            monkeypatch.setattr(listener.beginnings, "few", lambda: 0)
            _receive(protocol, _POLL)
            assert len(listener.beginnings) == 1
            if ends == "makes room":
                assert listener.admits()
                assert len(listener.beginnings) == 0
            elif protocol._transport is not None:
                protocol._transport.abort()
            await until(lambda: not listener.opened)
            assert len(listener.beginnings) == 0

    run(story())


def test_who_asks_for_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time; what waits for its turn to begin is not."""
    monkeypatch.setattr(api.http.client_protocol, "HEADER_MAX_S", 0.05)

    async def story() -> None:
        async with running() as client, _opened(client) as (reader, _, protocol):
            listener = client.server._listener
            protocol.close_overdue(protocol.since_s + 0.04)
            assert protocol.may_go()
            protocol.close_overdue(protocol.since_s + 0.06)
            assert await reader.read() == b""
            await until(lambda: not listener.opened)
            assert listener.budget.connections == 0

    run(story())


@pytest.mark.parametrize("ends", [asyncio.StreamWriter.write_eof, lambda writer: writer.transport.abort()])
def test_a_client_that_asks_for_nothing_and_goes_is_forgotten(ends: Callable[[asyncio.StreamWriter], None]) -> None:
    """By an end of what it sends, or at once."""

    async def story() -> None:
        async with running() as client, _opened(client) as (_, writer, _):
            listener = client.server._listener
            ends(writer)
            await until(lambda: not listener.opened)
            assert listener.budget.connections == 0

    run(story())


def test_b2_who_waits_to_begin_and_makes_room_is_told_so() -> None:
    """Like everybody of whom a part of a request is here."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=1))
        async with running(port) as client, _opened(client) as (reader, _, protocol):
            _receive(protocol, _POLL)
            assert client.server._listener.admits()
            assert b'"code":"busy"' in await reader.read()
            assert protocol.connection is None

    run(story())


def test_who_waits_to_begin_is_the_last_that_makes_room() -> None:
    """It keeps nobody waiting, though it came before a half request that began meanwhile: a consumer's ack was refused
    for 9,500 of those."""

    async def story() -> None:
        port = MemoryPort(budget=Budget(connections_max=2))
        async with running(port) as client, _opened(client) as (_, _, protocol):
            half, its_writer = await asyncio.open_connection(*client.server.address)
            its_writer.write(_POLL[:10])
            await until(lambda: client.server._listener.connections)
            _receive(protocol, _POLL)
            assert client.server._listener.admits()
            assert b'"code":"busy"' in await half.read()
            await until(port.waiting.is_set)
            its_writer.close()

    run(story())


@pytest.mark.parametrize(("asked", "answer"), [(b"", b""), (_POLL, b" 503 ")])
def test_a_server_that_ends_waits_for_nobody_and_answers_who_waits(asked: bytes, answer: bytes) -> None:
    """A connection that asked for nothing is closed. One that had sent a request was told `busy`."""

    async def story() -> None:
        async with running() as client, _opened(client) as (reader, _, protocol):
            if asked:
                _receive(protocol, asked)
            await client.server.close()
            said = await reader.read()
            assert answer in said
            assert bool(said) is bool(asked)

    run(story())


def test_the_first_piece_of_a_client_that_went_meanwhile_is_dropped(pieces: list[int]) -> None:
    """Its turn comes when nobody is there."""

    async def story() -> None:
        async with running() as client, _opened(client) as (_, _, protocol):
            _receive(protocol, _POLL)
            assert isinstance(protocol._transport, asyncio.Transport)
            protocol._transport.abort()
            await until(lambda: not client.server._listener.opened)
            assert protocol.connection is None
            assert not client.server._waiting

    run(story())
    assert not pieces


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_sends_more_behind_the_last_request_gets_its_answer(loop: Callable[..., None]) -> None:
    """The kernel reset the connection for the bytes that were not read, and its client saw no answer."""

    async def story() -> None:
        async with running() as client:
            size = 300_000
            last = _GET[:-2] + b"Connection: close\r\n"
            for text in (last + b"\r\n", last + b"Content-Length: %d\r\n\r\n" % size, b"no request\r\n\r\n"):
                reader, writer = await asyncio.open_connection(*client.server.address)
                writer.write(text + b"x" * size)
                assert (await reader.read()).startswith(b"HTTP/1.1 ")
                writer.close()

    loop(story())


@asynccontextmanager
async def _full() -> AsyncIterator[Client]:
    """A server with room for one connection, whose request is at work."""
    port = MemoryPort(budget=Budget(connections_max=1))
    port.before_schedule = at_work, _ = asyncio.Event(), asyncio.Event()
    async with running(port) as client:
        _, first = await asyncio.open_connection(*client.server.address)
        first.write(message(b"1"))
        await at_work.wait()
        yield client
        first.close()


def test_who_finds_no_room_is_told_so_though_it_has_sent_something() -> None:
    """The kernel reset the connection, since it was closed with a request unread: its client saw nothing else."""

    async def story() -> None:
        async with _full() as client:
            with socket.create_connection(client.server.address) as other:
                other.sendall(message(b"x" * 10_000))
                other.settimeout(10)
                said = await asyncio.to_thread(_all_of, other)
            assert said.startswith(b"HTTP/1.1 429 ")
            assert said.endswith(b"}")

    run(story())


def test_b2_who_finds_no_room_costs_no_look_at_all_others_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 8,000 were at work each refusal took a millisecond, and 24 were refused each time the loop came round."""
    looks = calls_of(monkeypatch, Listener, "_all")

    async def story() -> None:
        async with _full() as client:
            monkeypatch.setattr(api.http.listener, "FULL_S", 60.0)
            looks.clear()
            for _ in range(20):
                reader, other = await asyncio.open_connection(*client.server.address)
                assert (await reader.readline()).startswith(b"HTTP/1.1 429 ")
                other.close()
            assert len(looks) == 1

    run(story())
