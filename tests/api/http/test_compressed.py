"""Compressed bodies over a real socket: what is taken where, what is refused, and how answers come."""

import asyncio
import gzip
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import zstandard

import api.http.exchange
from api.http.exchange import COMPRESSED_FROM_BYTES, PLAIN_BYTES
from api.port.budget import Budget
from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.leadership import FORWARDED
from api.port.port import Limits, MessageIn, Principal, ScheduleResult
from api.read.compression import ENCODINGS, compressed, decompressed
from api.routes.message import PARSED_TIMES
from tests.api.harness import check_problem, run, running, talk
from tests.api.memory_port import MemoryPort

PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
NDJSON = {"Content-Type": "application/x-ndjson"}


def lines(count: int, size: int = 10) -> bytes:
    """A batch of messages with bodies of that size."""
    return b"\n".join(json.dumps({"topic": "a", "body": str(n) * size, "delay": "1h"}).encode() for n in range(count))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [3, 2_000])
def test_a_batch_may_come_compressed(encoding: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ones on the loop, long ones in a thread; each line has its result, and no byte stays counted."""
    at_work: list[bool] = []

    def watched(*args: Any) -> bytes:
        at_work.append(threading.current_thread() is threading.main_thread())
        return decompressed(*args)

    monkeypatch.setattr(api.http.exchange, "decompressed", watched)

    async def story() -> None:
        async with running() as client:
            sent = {**NDJSON, "Content-Encoding": encoding.upper()}
            reply = await client.send("POST", "/v1/messages/batch", PACK[encoding](lines(count)), sent)
            assert reply.status == 200
            assert reply.body.count(b'"id"') == count
            assert client.port.budget.held_bytes == 0

    run(story())
    assert at_work == ([True] if count == 3 else [True, False])


def test_a_single_message_may_come_compressed() -> None:
    """And one that is not what its header says is refused by name."""

    async def story() -> None:
        async with running() as client:
            body = b'{"topic":"a","body":1}'
            for encoding in ENCODINGS:
                sent = {"Content-Encoding": encoding}
                assert (await client.send("POST", "/v1/messages", PACK[encoding](body), sent)).status == 201
                reply = await client.send("POST", "/v1/messages", body, sent)
                assert encoding in check_problem(reply, 400, "malformed-request")["detail"]

    run(story())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_longer_than_allowed_is_refused(encoding: str) -> None:
    """By the same limit as a plain body: at it, and a byte beyond it. A bomb is not unfolded, and nothing stays
    counted."""
    most = PLAIN_BYTES * 4
    port = MemoryPort(limits=Limits(batch_bytes_max=most))

    async def story() -> None:
        async with running(port) as client:
            sent = {**NDJSON, "Content-Encoding": encoding}
            full = lines(3) + b" " * (most - len(lines(3)))
            assert (await client.send("POST", "/v1/messages/batch", PACK[encoding](full), sent)).status == 200
            for longer in (full + b" ", bytes(300 << 20)):
                reply = await client.send("POST", "/v1/messages/batch", PACK[encoding](longer), sent)
                assert f"at most {most} bytes" in check_problem(reply, 413, "too-large")["detail"]
            assert client.port.budget.held_bytes == 0

    run(story())


def test_bytes_that_came_of_it_count_in_the_budget() -> None:
    """A node whose budget has no room for them refuses them; a short body it takes."""
    port = MemoryPort(budget=Budget(bytes_max=70_000))

    async def story() -> None:
        async with running(port) as client:
            sent = {**NDJSON, "Content-Encoding": "gzip"}
            reply = await client.send("POST", "/v1/messages/batch", gzip.compress(lines(2_000)), sent)
            check_problem(reply, 429, "busy")
            assert (await client.send("POST", "/v1/messages/batch", gzip.compress(lines(3)), sent)).status == 200
            assert client.port.budget.held_bytes == 0

    run(story())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_many_compressed_batches_at_once_are_all_taken(encoding: str) -> None:
    """Sixty-four, each of which may stand for 16 MiB, in a budget of 64 MiB: they are decompressed one by one."""
    port = MemoryPort(budget=Budget(bytes_max=64 << 20))

    async def story() -> None:
        async with running(port) as client:
            sent = {**NDJSON, "Content-Encoding": encoding}
            body = PACK[encoding](lines(1_500))
            asked = [client.send("POST", "/v1/messages/batch", body, sent) for _ in range(64)]
            assert {reply.status for reply in await asyncio.gather(*asked)} == {200}
            assert client.port.budget.held_bytes == 0

    run(story())


def test_a_pull_whose_wait_is_ended_while_its_answer_is_compressed_brings_its_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are leased by then: an answer without them would keep them from everyone for as long as the lease. It comes
    plain, because there is no time left."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(data: bytes, encoding: str) -> bytes:
        begun.set()
        assert go_on.wait(20)
        return compressed(data, encoding)

    monkeypatch.setattr(api.http.exchange, "compressed", slowly)

    async def story() -> None:
        async with running() as client:
            many = lines(50, 2_000).replace(b'"1h"', b'"0s"')
            assert (await client.send("POST", "/v1/messages/batch", many, NDJSON)).status == 200
            pull = client.send("POST", "/v1/topics/a/pull", {"max": 50, "wait": "9s"}, {"Accept-Encoding": "gzip"})
            pulling = asyncio.ensure_future(pull)
            await asyncio.to_thread(begun.wait, 20)
            for wait in list(client.server._waiting):
                client.server._cancel_wait(wait)
            reply = await pulling
            go_on.set()
            assert reply.status == 200
            assert len(reply.json["messages"]) == 50

    run(story())


def test_other_encodings_and_other_routes() -> None:
    """415, which says what is taken."""

    async def story() -> None:
        async with running() as client:
            body = gzip.compress(b'{"topic":"a","body":1}')
            for encoding in ("br", "deflate", "gzip, zstd", "gzip, identity", "x" * 99):
                reply = await client.send("POST", "/v1/messages", body, {"Content-Encoding": encoding})
                assert (
                    "send zstd, gzip or the body plain" in check_problem(reply, 415, "unsupported-media-type")["detail"]
                )
            for method, path in (("PUT", "/v1/topics/a"), ("POST", "/v1/topics/a/pull"), ("PATCH", "/v1/messages/x")):
                reply = await client.send(method, path, body, {"Content-Encoding": "gzip"})
                assert "send the body plain" in check_problem(reply, 415, "unsupported-media-type")["detail"]

    run(story())


@pytest.mark.parametrize("size", [10, 200, 2_000])
def test_answers_come_compressed_where_they_are_long(size: int) -> None:
    """A pull and a list, for a client that takes it so; short answers stay as they are."""

    async def story() -> None:
        async with running() as client:
            sent = await client.send("POST", "/v1/messages/batch", lines(50, size).replace(b'"1h"', b'"0s"'), NDJSON)
            assert sent.status == 200
            plain = await client.send("GET", "/v1/messages?topic=a", headers={"Accept-Encoding": "identity"})
            assert "vary" not in plain.headers
            passed_on = {"Accept-Encoding": "gzip", FORWARDED: "n2"}  # by an older build, which would not say so
            assert (await client.send("GET", "/v1/messages?topic=a", headers=passed_on)).body == plain.body
            for encoding in ENCODINGS:
                reply = await client.send("GET", "/v1/messages?topic=a", headers={"Accept-Encoding": encoding})
                assert reply.headers["content-encoding"] == encoding
                assert reply.headers["vary"] == "Accept-Encoding"
                assert len(reply.body) < len(plain.body) / 2
                assert decompressed(reply.body, encoding, 1 << 24) == plain.body
            headers = {"Accept-Encoding": "zstd"}
            reply = await client.send("POST", "/v1/topics/a/pull", {"max": 50}, headers)
            pulled = json.loads(decompressed(reply.body, "zstd", 1 << 24))
            assert len(pulled["messages"]) == 50
            reply = await client.send("POST", "/v1/topics/a/pull", {"max": 50}, headers)
            assert len(reply.body) < COMPRESSED_FROM_BYTES
            assert "content-encoding" not in reply.headers

    run(story())


def test_while_it_is_served_a_body_counts_as_what_it_is() -> None:
    """Not as the longest that it could have been."""
    held: list[int] = []

    class Watched(MemoryPort):
        async def schedule(self, messages: Sequence[MessageIn], principal: Principal) -> ScheduleResult:
            held.append(self.budget.held_bytes)
            return await super().schedule(messages, principal)

    async def story() -> None:
        async with running(Watched()) as client:
            body = lines(2_000)
            sent = {**NDJSON, "Content-Encoding": "gzip"}
            packed = gzip.compress(body)
            assert (await client.send("POST", "/v1/messages/batch", packed, sent)).status == 200
            assert held[0] <= (1 + PARSED_TIMES) * len(body) + len(packed)

    run(story())


def test_a_compressed_body_is_passed_on_as_it_came() -> None:
    """The leader decompresses it, or refuses it if its build does not."""

    async def story() -> None:
        async with running() as client:
            client.port.leading = False

            async def leader(request: ForwardRequest) -> ForwardAnswer:
                assert request.headers["Content-Encoding"] == "gzip"
                return ForwardAnswer(200, {"Content-Type": "text/plain"}, request.body)

            client.port.forward_to = leader
            body = gzip.compress(lines(3))
            reply = await client.send("POST", "/v1/messages/batch", body, {**NDJSON, "Content-Encoding": "gzip"})
            assert (reply.status, reply.body) == (200, body)

    run(story())


def test_lines_of_one_header_are_read_together() -> None:
    """Two encodings on two lines are two encodings."""

    async def story() -> None:
        async with running() as client:
            body = gzip.compress(b'{"topic":"a","body":1}')
            head = (
                f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            )
            for first, second, status in (("gzip", "zstd", 415), ("identity", "gzip", 415), ("gzip", "", 415)):
                both = f"Content-Encoding: {first}\r\nContent-Encoding: {second}\r\n\r\n"
                answer = await talk(client.server, f"{head}{both}".encode() + body)
                assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (first, second, answer)

    run(story())
