"""A transport on loopback with a recorder for what it tells, and a bare socket that plays a peer badly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from replication.wire.frame import HEADER, Message
from replication.wire.handshake import Hello, Range, Refusal, decode_greeting
from replication.wire.link import BACK_OFF_MAX_S, CONNECT_S, Address
from replication.wire.listener import AsyncTransport, Identity
from tests.waiting import WITHIN_S, turns


class Recorder:
    """wire.events.WireEvents that remembers, and wakes whoever waits for a condition."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Message]] = []
        self.connections: list[tuple[str, bytes]] = []
        self.errors: list[BaseException] = []
        self.changed = asyncio.Event()

    def receive(self, peer: str, message: Message) -> None:
        """A message."""
        self.messages.append((peer, message))
        self.changed.set()

    def peer_connected(self, peer: str, store_id: bytes) -> None:
        """A connection."""
        self.connections.append((peer, store_id))
        self.changed.set()

    def fail(self, error: BaseException) -> None:
        """A mistake."""
        self.errors.append(error)
        self.changed.set()

    async def until(self, condition: Callable[[], bool], seconds: float = WITHIN_S) -> None:
        """Wait for the condition, looking whenever something was told and every few milliseconds besides. Beside a load
        of 8 a process may have no processor for many seconds."""
        async with asyncio.timeout(seconds):
            while not condition():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.02)


@contextlib.asynccontextmanager
async def transport(
    node_id: str,
    peers: dict[str, Address],
    *,
    port: int = 0,
    store_id: bytes = b"",
    cluster_id: bytes | None = None,
    formats: dict[str, Range] | None = None,
) -> AsyncIterator[tuple[AsyncTransport, Recorder]]:
    """A started transport and its recorder; closed at the end, and no task of it may have failed."""
    recorder = Recorder()
    identity = Identity(node_id, store_id or node_id.encode(), cluster_id, formats or {})
    wire = AsyncTransport(identity, ("127.0.0.1", port), peers).attach(recorder)
    await wire.start()
    try:
        yield wire, recorder
    finally:
        await wire.close()
    assert not recorder.errors


def rests_longest(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether a dialler that cannot connect has come, from now on, to its longest pause."""
    waits: list[float | None] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        waits.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr("replication.wire.link.asyncio.timeout", noted)
    return lambda: waits[-2:] == [CONNECT_S, BACK_OFF_MAX_S]


class Stranger:
    """A bare connection to a transport."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def dial(cls, wire: AsyncTransport) -> Stranger:
        """Connect."""
        return cls(*await asyncio.open_connection(*wire.address))

    async def greet(self, **change: Any) -> Hello | Refusal:
        """Say hello as n2 to n1, with changes; the answer."""
        values: dict[str, Any] = {"node_id": "n2", "to": "n1", "store_id": b"s2", "cluster_id": None}
        self.writer.write(b"".join(Hello(**(values | change)).encode()))
        return await self.answer()

    async def answer(self) -> Hello | Refusal:
        """The next frame, which is a greeting."""
        head = await asyncio.wait_for(self.reader.readexactly(HEADER.size), 5)
        size, meta, _crc = HEADER.unpack(head)
        body = await self.reader.readexactly(size - HEADER.size)
        return decode_greeting(body[:meta])

    async def closed_by_peer(self, seconds: float = 5.0) -> bool:
        """Whether the other side hangs up in time; what it still says is dropped."""
        try:
            async with asyncio.timeout(seconds):
                while await self.reader.read(65536):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def deaf_peer(port: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """A peer at `port` that says hello and then reads nothing but what it must not miss."""
    paused: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"".join(Hello("n2", "n1", b"s2", None).encode()))
        paused.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield paused
    finally:
        server.close()
        await turns()  # whom it has accepted is among them
        for writer in paused:
            writer.transport.abort()
        await server.wait_closed()
        await turns()


LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(
    test: Coroutine[Any, Any, None], loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
) -> None:
    """Run a test's coroutine on that kind of loop."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test)
