"""Many requests that wait: the ends of their clients are read a few at a time, and nothing else changes for them."""

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

import api.http.watch
from api.http.client_protocol import SMALL_BYTES
from api.http.connection import Connection
from api.http.watch import Watch
from api.port.loop_turn import CLOSED_A_TURN
from tests.api.harness import Client, run, running
from tests.api.http.test_stage import _GET, _POLL
from tests.calls import calls_of
from tests.waiting import until

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
Opened = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits is many."""
    monkeypatch.setattr(api.http.watch, "READ_MAX", 0)


def in_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop], story: Callable[[Client], Coroutine[Any, Any, None]]
) -> None:
    """Run it against a server in a loop of this kind."""

    async def whole() -> None:
        async with running() as client:
            await story(client)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(whole())


async def polling(client: Client, count: int, before: int = 0) -> Opened:
    """So many clients whose polls wait, and are watched."""
    opened = [await asyncio.open_connection(*client.server.address) for _ in range(count)]
    for _, writer in opened:
        writer.write(_POLL)
    watch = client.server._listener.watch
    await until(lambda: len(watch._descriptors) == before + count)
    return opened


@pytest.mark.parametrize("new_loop", LOOPS)
def test_ends_of_polls_are_read_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """8,000 that were closed in one moment were read in one turn of 40 ms, and messages came late by as much."""

    async def story(client: Client) -> None:
        count, rounds = 5 * CLOSED_A_TURN, [0]
        opened = await polling(client, count)
        begins = calls_of(monkeypatch, Connection, "eof_received", lambda _: rounds[0])
        loop = asyncio.get_running_loop()

        def come_round() -> None:
            rounds[0] += 1
            loop.call_soon(come_round)

        come_round()
        for _, writer in opened:
            writer.close()
        await until(lambda: len(begins) == count)
        assert max(begins.count(each) for each in set(begins)) <= CLOSED_A_TURN
        await until(lambda: not client.server._listener.connections)
        watch = client.server._listener.watch
        assert (watch._waiting, watch._descriptors, watch._by_descriptor) == (0, {}, {})

    in_loop(new_loop, story)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_what_comes_behind_a_poll_is_read(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A request behind it, or its end: the poll is answered as it is where few wait."""

    async def story(client: Client) -> None:
        (reader, writer), (other, its_writer) = await polling(client, 2)
        writer.write(_GET)
        watch, connections = client.server._listener.watch, client.server._listener.connections
        await until(lambda: any(cast(Connection, each)._messages for each in connections))
        await until(lambda: len(watch._descriptors) == 2)
        its_writer.write_eof()
        assert b'{"messages":[]}' in await other.read()
        writer.write_eof()
        answers = await reader.read()
        assert answers.count(b"HTTP/1.1 200 OK") == 2
        writer.close()
        its_writer.close()

    in_loop(new_loop, story)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_poll_whose_body_comes_later_is_watched(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """It waits from its header on, and was read as if few waited."""

    async def story(client: Client) -> None:
        reader, writer = await asyncio.open_connection(*client.server.address)
        writer.write(_POLL[:-1])
        watch = client.server._listener.watch
        await until(lambda: watch._waiting)
        assert not watch._descriptors
        writer.write(_POLL[-1:])
        await until(lambda: watch._descriptors)
        writer.write_eof()
        assert b'{"messages":[]}' in await reader.read()
        writer.close()

    in_loop(new_loop, story)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_poll_that_ends_with_a_full_piece_is_watched(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """It waited for its turn to read, and nobody watched it then: thousands of such were read in one turn."""

    async def story(client: Client) -> None:
        opened = [await asyncio.open_connection(*client.server.address) for _ in range(5 * CLOSED_A_TURN)]
        head = _POLL.replace(b"\r\nHost", b"\r\nX-Padding: %s\r\nHost")
        poll = head % (b"x" * (SMALL_BYTES - len(head) + 2))
        assert len(poll) == SMALL_BYTES
        for _, writer in opened:
            writer.write(poll)
        watch = client.server._listener.watch
        await until(lambda: len(watch._descriptors) == len(opened))
        for _, writer in opened:
            writer.close()

    in_loop(new_loop, story)


@pytest.mark.parametrize("split", [1, -3])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_the_end_of_a_poll_that_offers_another_protocol_is_seen(
    new_loop: Callable[[], asyncio.AbstractEventLoop], split: int
) -> None:
    """Java's client offers HTTP/2 with the first request of a connection. That was read no more: who had left was
    handed messages, and who had not lost its connection behind each answer."""
    upgrade = b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHost"
    offer, poll = _GET.replace(b"\r\nHost", upgrade), _POLL.replace(b"\r\nHost", upgrade)

    async def story(client: Client) -> None:
        reader, writer = await asyncio.open_connection(*client.server.address)
        watch = client.server._listener.watch
        for text in (offer, _GET):
            writer.write(text)
            assert b"HTTP/1.1 200 OK" in await reader.readuntil(b"ok\n")
        writer.write(poll[:split])
        await until(lambda: client.server._listener.connections)
        writer.write(poll[split:])
        await until(lambda: watch._descriptors)
        writer.write_eof()
        assert b'{"messages":[]}' in await reader.read()
        writer.close()

    in_loop(new_loop, story)


@pytest.mark.parametrize("behind", [_GET, _GET[:20]])
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize("first", [_POLL, _GET])
def test_what_stands_behind_an_offer_of_another_protocol_ends_the_connection(
    first: bytes, protocol: bytes, behind: bytes
) -> None:
    """The parser drops it. The poll before it does not wait: nothing would tell that its client had left."""
    offer = first.replace(b"\r\nHost", b"\r\nConnection: Upgrade\r\nUpgrade: %s\r\nHost" % protocol)

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(offer + behind)
            answer = await reader.read()
            assert answer.count(b"HTTP/1.1 200 OK") == 1
            assert b"Connection: close" in answer
            writer.close()

    run(story())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_reset_ends_a_poll(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Though the loop does not look at its socket."""

    async def story(client: Client) -> None:
        ((_, writer),) = await polling(client, 1)
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        await until(lambda: not client.server._listener.connections)

    in_loop(new_loop, story)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_poll_that_is_answered_is_read_again(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Its connection goes on, and one that only now begins to wait is watched again."""

    async def story(client: Client) -> None:
        ((reader, writer),) = await polling(client, 1)
        (connection,) = client.server._listener.connections
        assert isinstance(connection, Connection)
        connection.end_wait_soon()
        assert b"200 OK" in await reader.readuntil(b"]}")
        watch = client.server._listener.watch
        assert not watch._descriptors
        writer.write(_POLL)
        await until(lambda: bool(watch._descriptors))
        connection.end_wait_soon()
        assert b"200 OK" in await reader.readuntil(b"]}")
        writer.close()

    in_loop(new_loop, story)


def test_whose_client_has_left_is_handed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is seen before it is read: what it would be handed came again only when its lease had ended."""

    async def story() -> None:
        async with running() as client:
            gone = calls_of(monkeypatch, client.port, "pull", lambda request, _: request.gone)
            ((_, writer),) = await polling(client, 1)
            ((_, stays),) = await polling(client, 1, before=1)
            assert [each() for each in gone] == [False, False]
            ends = calls_of(monkeypatch, client.server._listener.endings, "add")
            writer.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
            assert [each() for each in gone] == [True, False]
            with monkeypatch.context() as later:
                later.setattr(client.server._listener.endings, "few", lambda: 0)
                await until(lambda: bool(ends))
                assert [each() for each in gone] == [True, False], "read, and its turn to end has not come"
            stays.close()
            writer.close()

    run(story())


def test_a_descriptor_that_was_given_to_another_is_its_own() -> None:
    """Who was closed gives up its number before it says so."""
    loop = asyncio.new_event_loop()
    watch = Watch(loop)
    here, there = socket.socketpair()
    old, new = (_Waits(here.fileno()) for _ in range(2))
    watch._add(old)
    assert watch._epoll is not None
    watch._epoll.unregister(here.fileno())  # as the kernel does
    watch._add(new)
    watch.end(old)
    there.send(b"1")
    watch._some()
    assert (old.read, new.read) == (1, 1)
    assert not watch._descriptors
    watch.close()
    for each in (here, there, loop):
        each.close()


class _Waits:
    """Of a connection what the watch asks for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.read = 0

    def awaits_its_end(self) -> int:
        return self._descriptor

    def hold_reading(self) -> bool:
        return True

    def read_on(self) -> None:
        self.read += 1


@pytest.mark.parametrize("new_loop", LOOPS)
def test_without_epoll_the_loop_reads_all(
    monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Polls that wait find their message, and ends of clients are seen."""
    monkeypatch.setattr(api.http.watch, "_HAS_EPOLL", False)
    monkeypatch.delattr(select, "epoll")

    async def story(client: Client) -> None:
        opened = [await asyncio.open_connection(*client.server.address) for _ in range(3)]
        for _, writer in opened:
            writer.write(_POLL)
        watch = client.server._listener.watch
        await until(lambda: watch._waiting == 3)
        for _, writer in opened:
            writer.close()
        await until(lambda: watch._waiting == 0)
        assert not watch._descriptors

    in_loop(new_loop, story)
