"""Room that is waited for, and what is done with what there is no room for."""

import asyncio
from contextlib import suppress

import pytest

import api.http.connection
from api.http.connection import Connection
from api.http.stage import Stage
from api.port.budget import PARSED_SHARE, ROOM_FREE_BYTES, Budget, Room
from tests.api.harness import run, running
from tests.api.http.test_framing import CHUNKED
from tests.api.http.test_pipelined import stall
from tests.api.http.test_stage import begun, message, narrow, only, question
from tests.api.memory_port import MemoryPort
from tests.calls import calls_of
from tests.waiting import turns, until


def test_who_came_first_goes_first_and_who_needs_more_than_there_is_goes_alone() -> None:
    """Six batches with all that a line may hold, parsed at once, were 300 MB."""

    async def story() -> None:
        room, order, ends = Room(10), list[str](), dict[str, asyncio.Event]()

        async def go(name: str, size: int) -> None:
            ends[name] = asyncio.Event()
            async with room.taken(size):
                order.append(name)
                await ends[name].wait()

        async with asyncio.TaskGroup() as group:
            for name, size in {"a": 6, "b": 6, "large": 99, "c": 1, "d": 9}.items():
                group.create_task(go(name, size))
            await turns()
            assert order == ["a"], "c fits beside a, but stands behind others"
            for name, now in {"a": ["b"], "b": ["large"], "large": ["c", "d"], "c": [], "d": []}.items():
                before = list(order)
                ends[name].set()
                await turns()
                assert order == before + now
        assert room._left == 10

    asyncio.run(story())


def test_who_goes_away_leaves_its_room_to_others() -> None:
    """While it waits, and in the very moment in which it may go."""

    async def story() -> None:
        room = Room(1)

        async def go() -> None:
            async with room.taken(1):
                await turns()

        first, away, woken, last = (asyncio.ensure_future(go()) for _ in range(4))
        await asyncio.sleep(0)
        away.cancel()
        await first
        woken.cancel()
        await last
        for each in away, woken:
            with suppress(asyncio.CancelledError):
                await each
            assert each.cancelled()
        assert room._left == 1

    asyncio.run(story())


def test_small_batches_stand_behind_no_large_ones() -> None:
    """All are counted."""

    async def story() -> None:
        budget = Budget(bytes_max=PARSED_SHARE * ROOM_FREE_BYTES)
        async with budget.parsed(2 * ROOM_FREE_BYTES), budget.parsed(ROOM_FREE_BYTES):
            assert budget.held_bytes == 3 * ROOM_FREE_BYTES
            behind = asyncio.ensure_future(budget.parsed(ROOM_FREE_BYTES + 1).__aenter__())
            await turns()
            assert not behind.done()
            behind.cancel()
        assert budget.held_bytes == 0

    asyncio.run(story())


@pytest.mark.parametrize(("pause_s", "most"), [(60.0, 2_000_000), (0.0, 20_000_000)])
def test_b4_a_body_that_was_refused_is_dropped_a_piece_at_a_time(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, most: int
) -> None:
    """40 clients who sent on where their bodies were refused took all of the loop: 16 MiB each."""
    monkeypatch.setattr(api.http.connection, "LINGER_PAUSE_S", pause_s)
    monkeypatch.setattr(api.http.connection, "LINGER_S", 0.5)
    came = calls_of(monkeypatch, Connection, "data_received", lambda _, data: len(data))

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(bytes_max=1_000_000))) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            head = b"POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
            size = 16_000_000
            writer.write(head + b"Content-Length: %d\r\n\r\n" % size + b" " * size)
            assert b" 429 " in await reader.readuntil(b"\r\n")
            with suppress(ConnectionResetError):
                await reader.read()
            assert (sum(came) < size) is (pause_s > 0)
            assert sum(came) < most
            writer.transport.abort()
            await turns()

    run(story())


def test_bodies_that_fill_the_budget_cut_no_answer() -> None:
    """Two headers filled it, and whoever read an answer that no socket takes at once was closed for it."""

    async def story() -> None:
        async with running(MemoryPort(budget=Budget(bytes_max=32 * 1024 * 1024))) as client:
            budget = client.port.budget
            for _ in range(50):
                await client.send("POST", "/v1/messages", {"topic": "a", "body": "x" * 200_000, "delay": "0s"})
            head = b"POST /v1/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
            writers = []
            for size in (16 * 1024 * 1024, 16 * 1024 * 1024 - 1_000):
                _, writer = await asyncio.open_connection(*client.server.address)
                writer.write(head + b"Content-Length: %d\r\n\r\n" % size)
                writers.append(writer)
            await until(lambda: budget.held_bytes > budget.bytes_max - 2_000)
            pulls = [client.send("POST", "/v1/topics/a/pull", {"max": 25}) for _ in range(2)]
            for reply in await asyncio.gather(*pulls):
                assert (reply.status, len(reply.json["messages"])) == (200, 25)
            for writer in writers:
                writer.close()

    run(story())


def test_a_body_that_stopped_before_it_was_refused_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had been held back behind a request at work, nothing read on, and its client got a reset for its answer."""

    async def story() -> None:
        port = MemoryPort()
        port.before_schedule = begun, goes_on = asyncio.Event(), asyncio.Event()
        async with running(port) as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            size = 4_000_000
            refused = b"POST /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            writer.write(message(b"1") + refused + b" " * size)
            await begun.wait()
            await until(lambda: only(client.server)._reading_paused)
            goes_on.set()
            came = await reader.read()
            assert came.startswith(b"HTTP/1.1 201 ")
            assert came.count(b"HTTP/1.1 404 ") == 1
            writer.close()

    run(story())


def test_what_is_closed_with_an_answer_unread_is_gone_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body behind it whose chunks hold a byte each closed the connection, and nothing was left that ended it."""
    monkeypatch.setattr(api.http.connection, "LINGER_S", 0.1)

    async def story() -> None:
        async with running() as client:
            get = await question(client, 200_000)
            greedy = await narrow(client)
            connection = await begun(client.server)
            stall(connection)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(greedy, get)
            await until(lambda: connection.stage is Stage.ANSWERING)
            with suppress(ConnectionResetError, BrokenPipeError):
                await loop.sock_sendall(greedy, CHUNKED)
                await loop.sock_sendall(greedy, b"1\r\nx\r\n" * 100_000)
            await until(lambda: not client.server._listener.connections)
            assert client.port.budget.held_bytes == 0
            assert client.port.budget.unread_bytes == 0
            greedy.close()

    run(story())
