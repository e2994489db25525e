"""Requests of one connection are answered by one task: what ends one of them ends no other."""

import asyncio

import pytest

from api.http.connection import AHEAD_MAX
from api.http.server import Server
from api.http.stage import Stage
from api.port.backup import SnapshotView
from api.port.budget import UNCOUNTED_BYTES
from api.port.leadership import FORWARDED, WAIT
from tests.api.harness import run, running
from tests.api.http.test_stage import _GET, message, only
from tests.calls import calls_of
from tests.waiting import until


def _poll(number: int) -> bytes:
    """One that another node passed on."""
    head = f"POST /v1/topics/a/pull HTTP/1.1\r\nHost: x\r\n{FORWARDED}: n2\r\n{WAIT}: {number}\r\n"
    return head.encode() + b'Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{"wait":"20s"}'


def test_an_end_that_comes_late_ends_no_other_wait_of_the_connection() -> None:
    """The connection of the next poll was closed, unanswered."""

    async def story() -> None:
        async with running() as client:
            server = client.server
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(_poll(1))
            await client.port.waiting.wait()
            client.port.waiting.clear()
            listener, come_round = server._listener, asyncio.Event()
            for _ in range(1_000):
                listener.endings.add(lambda: None)
            assert server.end_waits("n2", 1) == 1
            listener.endings.add(come_round.set)
            await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
            assert (await reader.readuntil(b"}]}")).startswith(b"HTTP/1.1 200 ")
            client.port.arrived.clear()
            writer.write(_poll(2))
            await client.port.waiting.wait()
            assert not come_round.is_set()
            await come_round.wait()
            assert len(server._waiting) == 1
            assert server.end_waits("n2", 2) == 1
            assert (await reader.readuntil(b'{"messages":[]}')).startswith(b"HTTP/1.1 200 ")
            writer.close()

    run(story())


def test_another_node_ends_no_wait_but_those_that_may_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for a backup, with the headers of one that was passed on, was answered 200 without a body."""

    async def story() -> None:
        async with running() as client:
            write, begun, go_on = client.port.snapshot, asyncio.Event(), asyncio.Event()

            async def snapshot(directory: str | None) -> SnapshotView:
                begun.set()
                await go_on.wait()
                return await write(directory)

            monkeypatch.setattr(client.port, "snapshot", snapshot)
            reader, writer = await asyncio.open_connection(*client.server.address)
            head = f"POST /v1/cluster/snapshot HTTP/1.1\r\nHost: x\r\n{FORWARDED}: n2\r\n{WAIT}: 1\r\n"
            writer.write(head.encode() + b"Content-Length: 0\r\n\r\n")
            await begun.wait()
            assert (client.server.end_waits("n2", 1), client.server.end_waits("n2")) == (0, 0)
            go_on.set()
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201 ")
            writer.close()

    run(story())


def test_a_wait_that_is_ended_twice_leaves_nothing_behind() -> None:
    """The task of its connection stood as one that is being cancelled: a request that was passed on later, to a node
    that leads no more, got no answer."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_poll(1))
            await client.port.waiting.wait()
            connection = only(client.server)
            writer.write(_GET * (AHEAD_MAX - 1) + message(b"x" * 2 * UNCOUNTED_BYTES))
            assert (await reader.readuntil(b'{"messages":[]}')).startswith(b"HTTP/1.1 200 ")
            await until(lambda: connection.stage is Stage.IDLE)
            assert connection._task_handler is not None
            assert not connection._task_handler.cancelling()
            writer.close()

    run(story())


@pytest.mark.parametrize("path", ["/livez", "/nowhere"])
def test_what_one_client_sends_ahead_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """117 requests for a node's health or its figures, in one packet, were answered before anybody else was."""
    rounds = [0]
    handled = calls_of(monkeypatch, Server, "_check", lambda *_: rounds[0])

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_GET.replace(b"/livez", path.encode()) * 40)
            reading = asyncio.ensure_future(reader.read(100))
            while len(handled) < 40:
                rounds[0] += 1
                await asyncio.sleep(0)
            await reading
            writer.close()

    run(story())
    assert max(handled.count(each) for each in handled) == 1


def test_a_connection_whose_task_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood at work for ever, and nobody answered on it."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_GET)
            await reader.readuntil(b"ok\n")
            connection = only(client.server)
            assert connection._task_handler is not None
            connection._task_handler.cancel()
            assert await reader.read() == b""
            writer.close()

    run(story())
