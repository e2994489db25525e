"""Attempts against real sockets: whatever a receiver does ends as an answer, in time, and bounded."""

import asyncio
import socket
import threading
from contextlib import AsyncExitStack
from email.utils import formatdate
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import api.port.loop_turn
from api.port.loop_turn import Line
from node.port.failure_code import BROKEN, CONNECT, DNS, ERROR_BYTES_MAX, FORBIDDEN_ADDRESS, STOPPED, TIMEOUT, TLS
from node.push_wire.answer import ANSWER_BYTES_MAX, Answer, retry_after_ms
from tests.calls import calls_of
from tests.node.push_wire.attempt import NOW_MS, Send, attempt, run
from tests.node.receiver import Request, answer, answering, read_request, receiver


def test_the_request_arrives_as_it_was_given() -> None:
    """Method, path, headers and every byte of the body; nothing is added that tells the receiver to compress."""
    seen: list[Request] = []
    body = bytes(range(256)) * 40

    async def play(send: Send) -> None:
        async with receiver(answering(answer(204), seen=seen)) as url:
            path = "/hook%2Fx?a=%20b#part"
            assert await send(url + path, body, method="PUT", headers={"X-Own": "1", "content-type": "a/b"}) == Answer(
                204
            )
            assert await send(url, b"", headers={"content-type": "a/b"}) == Answer(204)

    run(play)
    assert seen[0].line == "PUT /hook%2Fx?a=%20b HTTP/1.1"
    assert (seen[0].body, seen[0].headers["x-own"], seen[0].headers["content-type"]) == (body, "1", "a/b")
    assert "accept-encoding" not in seen[0].headers
    assert (seen[1].body, seen[1].headers["content-length"]) == (b"", "0")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    """And what the receiver says is not kept."""
    got = attempt(answering(answer(status, b"" if status == 204 else b"fine")))
    assert got == Answer(status)
    assert got.delivered


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 410, 500, 503])
def test_anything_else_is_a_failure_with_what_was_said(status: int) -> None:
    """The first kilobyte of the answer is kept."""
    got = attempt(answering(answer(status, b"no: " + b"x" * 5000)))
    assert got == Answer(status, "no: " + "x" * (ERROR_BYTES_MAX - 4))
    assert not got.delivered


def test_a_redirect_is_not_followed() -> None:
    """Not even to an address that is allowed: the second receiver hears nothing."""
    seen: list[Request] = []

    async def play(send: Send) -> None:
        async with receiver(answering(answer(200), seen=seen)) as other:
            async with receiver(answering(answer(302, b"", f"Location: {other}/"))) as url:
                assert await send(url) == Answer(302)
            assert seen == []

    run(play)


def test_retry_after_is_read_from_429_and_503_alone() -> None:
    """Other statuses may carry it; it does not count there."""

    async def play(send: Send) -> None:
        answers = [answer(status, b"", "Retry-After: 7") for status in (429, 503, 500, 200)]
        async with receiver(answering(*answers)) as url:
            assert [(await send(url)).retry_after_ms for _ in answers] == [7000, 7000, None, None]

    run(play)


def test_retry_after_in_seconds_and_as_a_date() -> None:
    """RFC 9110 has both; what is neither is ignored, what is past is now."""
    assert retry_after_ms(" 120 ", NOW_MS) == 120_000
    assert retry_after_ms(formatdate(NOW_MS / 1000 + 90, usegmt=True), NOW_MS) == 90_000
    assert retry_after_ms(formatdate(NOW_MS / 1000 - 90, usegmt=True), NOW_MS) == 0
    assert retry_after_ms("1 day", NOW_MS) is retry_after_ms("-5", NOW_MS) is None


def test_a_retry_after_beyond_all_bounds_is_no_leave_to_come_back_at_once() -> None:
    """It was read as if it said nothing, and the receiver that wanted the longest rest got the shortest."""
    assert retry_after_ms("999999999", NOW_MS) == 999_999_999_000
    assert retry_after_ms("999999999999", NOW_MS) == retry_after_ms("9" * 4300, NOW_MS) == 999_999_999_000
    assert retry_after_ms("0" * 40 + "7", NOW_MS) == 7_000
    assert retry_after_ms("0" * 40, NOW_MS) == 0


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,5} [A-Z][a-z]{2} -?\d{1,6} \d+:\d+:\d+ GMT"))
def test_retry_after_never_raises(text: str) -> None:
    """It is written by whoever answers."""
    wait_ms = retry_after_ms(text, NOW_MS)
    assert wait_ms is None or wait_ms >= 0


def test_an_answer_within_the_bound_keeps_its_connection() -> None:
    """A longer one closes it."""
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answering(answer(200, bytes(ANSWER_BYTES_MAX)), answer(200, bytes(20 * ANSWER_BYTES_MAX)))(reader, writer)

    async def play(send: Send) -> None:
        async with receiver(count) as url:
            for expected in (1, 1, 2):
                assert (await send(url)).delivered
                assert connections == expected

    run(play)


def test_who_refuses_connections() -> None:
    """Nobody listens there."""

    async def play(send: Send) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            assert (await send(f"http://127.0.0.1:{taken.getsockname()[1]}/")).code == CONNECT

    run(play)


def test_who_is_no_tls_server() -> None:
    """https to a port that speaks HTTP."""

    async def play(send: Send) -> None:
        async with receiver(_nonsense_first) as url:
            assert (await send(url.replace("http:", "https:"))).code == TLS

    run(play)


async def _nonsense_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 this is not TLS\r\n\r\n")
    await writer.drain()
    await reader.read()


def test_a_name_that_does_not_exist() -> None:
    """The resolver is asked in a thread; its refusal is dns."""

    async def play(send: Send) -> None:
        assert (await send("http://does-not-exist.invalid/", timeout_ms=20_000)).code == DNS

    run(play)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
    ],
)
def test_loopback_is_refused_in_every_notation_and_by_name(host: str) -> None:
    """A receiver listens there and gets no connection; a name is judged by what it resolves to."""
    seen: list[Request] = []

    async def play(send: Send) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            port = url.rpartition(":")[2]
            got = await send(f"http://{host}:{port}/")
            assert got.code == FORBIDDEN_ADDRESS, got
            assert "may not be pushed to" in got.error

    run(play, allow=())
    assert seen == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "[::ffff:127.0.0.1]"])
def test_what_is_allowed_is_reached_in_every_notation(host: str) -> None:
    """As `hourwheel dev` has it."""

    async def play(send: Send) -> None:
        async with receiver(answering(answer(200))) as url:
            assert (await send(f"http://{host}:{url.rpartition(':')[2]}/")).delivered

    run(play)


def test_a_name_is_judged_again_when_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolved to something public may resolve to loopback a moment later: the socket decides."""
    asked = []

    def getaddrinfo(host: str, port: int, **kinds: Any) -> list[Any]:
        asked.append(host)
        rows = ["127.0.0.1", "::1", "10.0.0.1"]
        return [
            (
                socket.AF_INET6 if ":" in row else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (row, port, 0, 0)[: 4 if ":" in row else 2],
            )
            for row in rows
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def play(send: Send) -> None:
        got = await send("http://public.example/")
        assert got.code == FORBIDDEN_ADDRESS
        assert (await send("http://public.example/")).code == FORBIDDEN_ADDRESS

    run(play, allow=())
    assert asked == ["public.example"], "the answer of the name server is kept for a while"


def test_a_name_server_that_hangs_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt ends at its timeout, another one goes through meanwhile, and closing does not wait."""
    release = threading.Event()
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *rest: Any, **kinds: Any) -> list[Any]:
        if host == "hangs.example":
            release.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return real(host, *rest, **kinds)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def play(send: Send) -> None:
        async with receiver(answering(answer(200))) as url:
            hanging = asyncio.ensure_future(send("http://hangs.example/", timeout_ms=400))
            await asyncio.sleep(0)
            assert (await send(url.replace("127.0.0.1", "localhost"))).delivered
            assert not hanging.done()
            assert (await hanging).code == TIMEOUT

    try:
        run(play)
    finally:
        release.set()


def test_nothing_is_sent_when_trust_is_lost_while_connecting() -> None:
    """Asked when the connection stands; the receiver sees a connection and not a byte, and it serves the next one."""
    seen: list[Request] = []
    trusted = False

    async def play(send: Send) -> None:
        nonlocal trusted
        async with receiver(answering(answer(200), seen=seen)) as url:
            assert (await send(url, may_send=lambda: trusted)).code == STOPPED
            assert seen == []
            trusted = True
            assert (await send(url, may_send=lambda: trusted)).delivered

    run(play)
    assert len(seen) == 1


def test_a_kept_connection_that_breaks_is_not_tried_again_by_itself() -> None:
    """The receiver may have read the first request: whether to send it again is the retry policy's to say."""
    seen: list[Request] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(answer(200))
        await writer.drain()
        seen.append(await read_request(reader))

    async def play(send: Send) -> None:
        async with receiver(behave) as url:
            assert (await send(url, method="PUT")).delivered
            assert (await send(url, method="PUT")).code == BROKEN

    run(play)
    assert len(seen) == 2


def test_many_at_once_share_connections_and_none_is_lost() -> None:
    """Those that wait for a new connection take one that became free meanwhile."""
    seen: list[Request] = []

    async def play(send: Send) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            for numbers in (range(20), range(20, 60)):
                got = await asyncio.gather(*(send(url, b"%d" % number) for number in numbers))
                assert got == [Answer(200)] * len(numbers)
        assert sorted(int(each.body) for each in seen) == list(range(60))

    run(play)


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    """An answer ahead of its request would be taken for the next one's."""
    connections = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(answer(201))
        await writer.drain()
        writer.write(answer(500))
        assert await reader.read() == b""
        closed.release()

    closed = asyncio.Semaphore(0)

    async def play(send: Send) -> None:
        async with receiver(behave) as url:
            for expected in (1, 2):
                assert await send(url) == Answer(201)
                async with asyncio.timeout(5):
                    await closed.acquire()
                assert connections == expected

    run(play)


def test_b11_first_connections_begin_as_the_loop_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,300 receivers of one topic that never answer: making a connection to each at once held the loop for a second.
    A receiver with a connection gets its next one at once."""
    monkeypatch.setattr(api.port.loop_turn, "HELD_MAX_S", 0.0)
    rounds = 0
    begun = calls_of(monkeypatch, aiohttp.TCPConnector, "connect", lambda *_: rounds)

    async def play(send: Send) -> None:
        nonlocal rounds
        async with AsyncExitStack() as receivers:
            urls = [await receivers.enter_async_context(receiver(answering(answer(204)))) for _ in range(12)]
            sent = [asyncio.ensure_future(send(url, b"1")) for url in urls]
            while not all(each.done() for each in sent):
                rounds += 1
                await asyncio.sleep(0)
            assert {each.result() for each in sent} == {Answer(204)}

    run(play)
    assert len(begun) == len(set(begun)) == 12, "one each time the loop comes round"


def test_b11_an_attempt_has_its_time_from_when_its_first_connection_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 receivers of one topic with a time of 300 ms: all their first attempts failed in our own queue."""
    has_time = asyncio.Event()
    turns: list[object] = []

    async def turn(line: Line) -> None:
        turns.append(line)
        if len(turns) > 1:
            await has_time.wait()

    monkeypatch.setattr(Line, "turn", turn)

    async def play(send: Send) -> None:
        async with receiver(answering(b"")) as silent, receiver(answering(answer(204))) as url:
            first = asyncio.ensure_future(send(silent, timeout_ms=150))
            second = asyncio.ensure_future(send(url, timeout_ms=100))  # it would be over before the first
            assert (await first).code == TIMEOUT
            assert not second.done()
            has_time.set()
            assert await second == Answer(204)

    run(play)
