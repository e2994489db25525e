"""The sockets that clients connect to: refused with a reason, and quick where many connect at once."""

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack

import pytest
import uvloop

from api.http.listening import ACCEPTS, ListenFailed, listen
from api.serve import serve
from tests.api.harness import run, running
from tests.api.memory_port import MemoryPort


def test_a_port_in_use() -> None:
    """The second server says which address and what to do; the first goes on."""

    async def story() -> None:
        async with running() as client:
            host, number = client.server.address
            with pytest.raises(ListenFailed, match=rf"{host}:{number}: the address is in use; .*another port"):
                await serve(MemoryPort(), host, number)
            assert (await client.send("GET", "/livez")).status == 200

    run(story())


def test_an_address_that_is_not_ours() -> None:
    """Any other reason not to listen is passed on in words."""

    async def story() -> None:
        with pytest.raises(ListenFailed, match=r"cannot listen for HTTP on 192\.0\.2\.1:1"):
            await serve(MemoryPort(), "192.0.2.1", 1)

    run(story())


def test_many_connections_are_accepted_each_time_the_loop_comes_round() -> None:
    """uvloop accepts one a socket: behind 500 connections of one client the next one waited for 500 rounds, two seconds
    where each was 4 ms."""

    async def story() -> None:
        rounds, made = 0, Counter[int]()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made[rounds] += 1
                transport.close()

        servers = await listen(Accepted, "127.0.0.1", 0)
        assert len(servers) == ACCEPTS
        address = servers[0].sockets[0].getsockname()
        with ExitStack() as held:
            for _ in range(10 * ACCEPTS):
                held.enter_context(socket.create_connection(address))
            while made.total() < 10 * ACCEPTS:
                rounds += 1
                await asyncio.sleep(0)
        assert max(made.values()) >= ACCEPTS
        assert len(made) <= 20
        for each in servers:
            each.close()
        for each in servers:
            await each.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    uvloop.run(story())
