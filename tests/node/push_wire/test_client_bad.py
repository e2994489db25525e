"""Receivers that hang, drip, flood, break off and talk nonsense: each ends as an answer, in time, and bounded."""

import asyncio
import contextlib
import gc
import random
import socket
import threading
import time
import tracemalloc
from typing import Any

import pytest

from api.port.address_guard import Addresses
from node.port.failure_code import BROKEN, CONNECT, REASONS, TIMEOUT
from node.push.target import make_target
from node.push_wire.answer import Answer
from node.push_wire.client import PushClient
from node.push_wire.connection import INTERIM_MAX, Exchange, Wire
from tests.node.push_wire.attempt import LOOPBACK, NOW_MS, Send, attempt, run, work
from tests.node.receiver import Behave, answer, read_request, receiver
from tests.waiting import turns


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _drip_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 1000:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0.02)


async def _drip_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"y")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("behave", [_hang, _drip_headers, _drip_body])
def test_who_hangs_or_drips_ends_at_the_timeout(behave: Behave) -> None:
    """From connecting to the answer's last byte, a 200 that does not end included."""

    async def play(send: Send) -> None:
        loop = asyncio.get_running_loop()
        async with receiver(behave) as url:
            began = loop.time()
            assert (await send(url, timeout_ms=300)).code == TIMEOUT
            assert 0.25 < loop.time() - began < 1.5

    run(play)


def test_an_answer_that_came_while_the_process_stood_still_counts() -> None:
    """A paused process wakes long after the deadline, with the 200 in the socket: that is no timeout."""
    arrived = threading.Event()

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.recv(65_536)
        arrived.set()
        stands.wait(10)
        connection.sendall(answer(200))
        stopped.wait(10)
        connection.close()

    stands, stopped = threading.Event(), threading.Event()

    async def play(send: Send) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=serve, args=(listening,))
            thread.start()
            try:
                sending = asyncio.ensure_future(send(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout_ms=300))
                assert await asyncio.to_thread(arrived.wait, 10)
                stands.set()
                time.sleep(1)  # noqa: ASYNC251 - the process stands still
                assert await sending == Answer(200)
            finally:
                stopped.set()
                thread.join()

    run(play)


def test_closing_ends_attempts_without_an_answer() -> None:
    """Nobody is told of an attempt that was under way when the client was closed, and its connection is closed."""
    told: list[Answer] = []
    connected, closed = asyncio.Event(), asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async def main() -> None:
        client = PushClient(
            Addresses(LOOPBACK), lambda: NOW_MS, lambda work: True, lambda work, answer, begun_s: told.append(answer)
        )
        await client.start()
        async with receiver(behave) as url:
            client.send(work(make_target({}, {"url": url}, 5000), body=b""), b"POST / HTTP/1.1\r\n\r\n")
            await connected.wait()
            await client.close()
            async with asyncio.timeout(5):
                await closed.wait()

    asyncio.run(main())
    assert told == []


def test_who_does_not_accept_ends_at_the_timeout() -> None:
    """A full backlog: the connection never stands, and the attempt ends all the same."""

    async def play(send: Send) -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            port = listening.getsockname()[1]
            crowd = []
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
                crowd.append(each)
            got = await send(f"http://127.0.0.1:{port}/", timeout_ms=300)
            assert got.code == TIMEOUT
            for each in crowd:
                each.close()

    run(play)


async def _close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def _close_in_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Le")


async def _close_in_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")


async def _nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(bytes(range(256)) * 4)


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.transport.abort()


async def _endless_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: and more\r\n" * 1000)
        await writer.drain()


async def _endless_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-More: ")
    while True:
        writer.write(b"more" * 5000)
        await writer.drain()


async def _endless_interim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)
        await writer.drain()


@pytest.mark.parametrize(
    "behave",
    [
        _close_at_once, _close_in_headers, _close_in_body, _nonsense, _reset, _endless_headers, _endless_header,
        _endless_interim,
    ],
)  # fmt: skip
def test_who_breaks_off_or_talks_nonsense_is_broken(behave: Behave) -> None:
    """Before the timeout, and with a word about it."""
    got = attempt(behave, timeout_ms=20_000)
    assert got.code == BROKEN
    assert got.error


def test_a_flood_of_interim_answers_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read holds a thousand of them; making objects of all held up the loop for ten milliseconds, again and again."""
    parsed = 0
    feed_data = Wire.feed_data

    def counted(self: Wire, data: Any, size: int = 0) -> None:
        nonlocal parsed
        parsed += 1
        feed_data(self, data, size)

    monkeypatch.setattr(Wire, "feed_data", counted)
    assert attempt(_endless_interim, timeout_ms=20_000).code == BROKEN
    assert parsed <= 2 * (INTERIM_MAX + 1)


def test_a_flood_is_read_to_its_bound() -> None:
    """A 200 with a body of 1 GB is delivered after 16 KiB of it, in little memory."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        piece = bytes(100_000)
        for _ in range(10_000):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    tracemalloc.start()
    try:
        assert attempt(flood) == Answer(200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent < 20_000_000
    assert peak < 20_000_000


def test_no_answer_is_too_strange() -> None:
    """Answers cut, spliced and garbled at random: each attempt ends as some answer, none raises."""
    chance = random.Random(7)
    parts = [
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n", b"\r\n",
        b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 999 \xff\xfe\r\n", b"Set-Cookie: a=b; Max-Age=x\r\n", b"Content-Encoding: gzip\r\n", b"hello",
        b"Content-Type: \xff/\x80; charset=no-such\r\n", b"Location: http://[::1\r\n", b"HTTP/9.9 200 OK\r\n",
        b"HTTP/1.1 429 Slow\r\nRetry-After: Tue, 99 Foo 99999 99:99:99 GMT\r\n", b"ffffffffffffffffff\r\n",
    ]  # fmt: skip
    answers = [b"".join(chance.choices(parts, k=chance.randint(1, 7))) for _ in range(300)]
    left = list(answers)

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(left.pop())

    async def play(send: Send) -> None:
        async with receiver(behave) as url:
            got = [await send(url, timeout_ms=2000) for _ in answers]
        assert all(100 <= each.code <= 599 or each.code in REASONS for each in got)
        assert {BROKEN, 200} <= {each.code for each in got}

    run(play)


def test_who_refuses_leaves_nothing_behind() -> None:
    """Each failure held its attempt, with the message, in a cycle: the leader of a soak had thousands of them."""

    async def play(send: Send) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    assert (await send(url)).code == CONNECT
                await turns()
                left = [each for each in gc.get_objects() if isinstance(each, OSError | Exchange)]
            finally:
                gc.enable()
            assert left == []

    run(play)
