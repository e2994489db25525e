"""Connections that do not behave: slow, broken, huge, old."""

import asyncio
import gc
import time
from contextlib import suppress
from itertools import pairwise

import pytest

import api.http.connection
import api.http.exchange
import api.http.server
from api.port.loop_turn import CLOSED_A_TURN
from tests.api.harness import run, running, talk
from tests.waiting import until

_GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"


def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.http.connection, "HEADER_MAX_S", 0.1)
    monkeypatch.setattr(api.http.server, "WATCH_EVERY_S", 0.02)


@pytest.mark.parametrize("sent", [b"", b"GET /li", _GET + b"X-A: b\r\n"])
def test_a_header_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Nothing, part of a line, part of a header: the server closes without an answer."""
    _hurry(monkeypatch)

    async def story() -> None:
        async with running() as client:
            assert await talk(client.server, sent) == b""

    run(story())


def test_dripping_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further byte of a header does not start the time anew, nor does an earlier request on the connection."""
    _hurry(monkeypatch)

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(_GET + b"\r\n")
            assert b"200 OK" in await reader.readuntil(b"ok\n")
            drip = asyncio.create_task(_drip(writer))
            with suppress(ConnectionResetError):  # a drop that meets the closed socket is answered with a reset
                assert await reader.read() == b""
            assert not drip.done(), "the server has to close before the header is complete"
            drip.cancel()
            writer.close()

    run(story())


async def _drip(writer: asyncio.StreamWriter) -> None:
    for byte in _GET:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


def test_idle_between_requests_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept-alive connection may rest longer than a header may take."""
    _hurry(monkeypatch)

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            for _ in range(2):
                writer.write(_GET + b"\r\n")
                assert b"200 OK" in await reader.readuntil(b"ok\n")
                read_s = time.monotonic()
                await until(lambda read_s=read_s: time.monotonic() > read_s + 0.25)  # type: ignore[misc]
            writer.close()

    run(story())


@pytest.mark.parametrize("path", [b"/v1/messages", b"/v1/topics/a/pull"])
def test_a_closed_connection_leaves_nothing_to_the_search_for_cycles(path: bytes) -> None:
    """The body of its newest request led back to it: 4,000 polls of one client that closed them left 15 MB. What ended
    a wait led to its task: 150 pulls that were aborted within their bodies left 156 MB, which nobody counted."""

    async def story() -> None:
        async with running() as client:
            _, writer = await asyncio.open_connection(*client.server.address)
            writer.write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n{" % path)
            await until(lambda: client.port.budget.held_bytes)
            (held,) = client.server._listener.connections
            number = id(held)
            del held
            gc.disable()
            try:
                writer.close()
                await until(lambda: not any(id(each) == number for each in gc.get_objects()))
            finally:
                gc.enable()

    run(story())


def test_b2_a_crowd_that_goes_is_closed_a_few_at_a_time() -> None:
    """3,000 idle connections that one client closed held each node for 80 ms."""

    async def story() -> None:
        async with running() as client:
            count = 4 * CLOSED_A_TURN
            opened = [await asyncio.open_connection(*client.server.address) for _ in range(count)]
            await until(lambda: len(client.server._listener.opened) == count)
            held = list(client.server._listener.opened)
            for each in held:
                each.eof_received()
            left = [sum(each.may_go() for each in held)]
            while left[-1]:
                await asyncio.sleep(0)
                left.append(sum(each.may_go() for each in held))
            assert max(before - after for before, after in pairwise(left)) <= CLOSED_A_TURN
            for _, writer in opened:
                writer.close()

    run(story())


def test_a_slow_body_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not come within its time is 408, and the connection ends."""
    monkeypatch.setattr(api.http.exchange, "BODY_MAX_S", 0.05)
    monkeypatch.setattr(api.http.connection, "LINGER_S", 0.05)

    async def story() -> None:
        async with running() as client:
            answer = await talk(client.server, b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"request-timeout" in answer
            assert b"Connection: close" in answer

    run(story())


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"b" * 10_000 + b"\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_what_is_not_http(sent: bytes) -> None:
    """400 malformed-request in the shape of every error, then the connection ends."""

    async def story() -> None:
        async with running() as client:
            answer = await talk(client.server, sent)
            assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n")
            assert b'"code":"malformed-request"' in answer
            assert b"Hourwheel-Node: n1\r\n" in answer

    run(story())


def test_a_broken_chunk() -> None:
    """A chunked body that is none is 400, not 500."""

    async def story() -> None:
        async with running() as client:
            head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            assert (await talk(client.server, head + b"zz\r\n")).startswith(b"HTTP/1.1 400 ")

    run(story())


def test_a_chunked_body_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Content-Length the limit holds on what came; with one it holds before anything is read."""
    monkeypatch.setattr(api.http.connection, "LINGER_S", 0.05)

    async def story() -> None:
        async with running() as client:
            limit = client.port.limits.request_bytes_max
            head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            chunk = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(head + chunk * (limit // 65536 + 4))
            answer = await reader.readuntil(b"}")
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"Connection: close" in answer
            writer.close()
            announced = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (limit + 1)
            answer = await talk(client.server, announced)
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"at most %d bytes" % limit in answer

    run(story())


def test_expect_100_continue() -> None:
    """A client that asks first is told to go on, and then answered; one that would send too much is not."""

    async def story() -> None:
        async with running() as client:
            body = b'{"topic":"a","body":1}'
            head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(head % len(body))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 201 ")
            writer.close()
            reader, writer = await asyncio.open_connection(*client.server.address)
            writer.write(head % 10**9)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
            writer.close()

    run(story())


def test_a_large_batch_in_many_packets() -> None:
    """A body far over one buffer arrives whole; so does a large answer."""

    async def story() -> None:
        async with running() as client:
            line = b'{"topic":"a","body":"' + b"x" * 900 + b'"}\n'
            reply = await client.batch(line * 9_000)
            assert len(reply.lines) == 9_000
            assert all("id" in each for each in reply.lines)
            pulled = await client.send("POST", "/v1/topics/a/pull", {"max": 1000})
            assert len(pulled.json["messages"]) == 1000

    run(story())


def test_pipelined_requests_are_answered_in_order() -> None:
    """Several requests in one packet: as many answers, in order, bodies not mixed up."""

    async def story() -> None:
        async with running() as client:
            requests = b""
            for number in range(40):
                body = b'{"topic":"a","body":%d}' % number
                requests += b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Request-Id: r%d\r\n" % number
                requests += b"Content-Length: %d\r\n\r\n" % len(body) + body
            requests += _GET + b"Connection: close\r\n\r\n"
            answer = await talk(client.server, requests)
            assert answer.count(b"HTTP/1.1 201 Created") == 40
            order = [answer.index(b"X-Request-Id: r%d\r\n" % number) for number in range(40)]
            assert order == sorted(order)
            assert [held.message.body for held in client.port.held.values()] == [b"%d" % n for n in range(40)]

    run(story())


def test_an_old_client() -> None:
    """HTTP/1.0 is answered and the connection ends."""

    async def story() -> None:
        async with running() as client:
            answer = await talk(client.server, b"GET /livez HTTP/1.0\r\n\r\n")
            assert answer.endswith(b"Connection: close\r\n\r\nok\n")

    run(story())


def test_a_target_with_scheme_and_host() -> None:
    """The absolute form, as proxies send it, finds the same route."""

    async def story() -> None:
        async with running() as client:
            answer = await talk(
                client.server, b"GET http://x.example/readyz?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"[+] leader: ok\nready\n")

    run(story())
