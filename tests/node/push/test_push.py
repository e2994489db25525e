"""Pushes of a real node to real receivers: delivered once, retried, given up, paced by receiver, stopped in order."""

import asyncio
import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from api.contract.checker import Fault, pack_headers
from api.contract.target import read_url
from api.port.message import Target
from api.port.port import ANONYMOUS, MessageIn, PullIn
from node.node import Node
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.record.delivery_record import END, START
from tests.node.pushing import FAST, LOOPBACK, in_state, play, put, schedule, view
from tests.node.receiver import Request, answer, answering, read_request, receiver
from tests.node.single_node import run_node
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("border")

SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()


def test_a_message_arrives_signed_and_is_delivered(tmp_path: Path) -> None:
    """Body byte for byte, headers of the contract, the record says delivered with the status as its code."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(202), seen=seen)) as url:
            await put(node, "orders", url + "/hook", target={"secret": SECRET, "headers": {"X-Topic": "t"}})
            body = b'{"n":  1.0, "\xc3\xa4": "\\u00e4"}'
            (id,) = await schedule(
                node, MessageIn("orders", body, tags=("eu", "vip"), headers=pack_headers({"X-Own": "m"}))
            )
            await until(in_state(node, id, "delivered"))
            got = await view(node, id)
        assert len(seen) == 1
        headers = seen[0].headers
        assert (seen[0].line, seen[0].body) == ("POST /hook HTTP/1.1", body)
        mac = hmac.new(bytes(range(24)), f"{id}.{headers['webhook-timestamp']}.".encode() + body, hashlib.sha256)
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(mac.digest()).decode()}"
        assert (headers["webhook-id"], headers["x-topic"], headers["x-own"]) == (id, "t", "m")
        assert (headers["hourwheel-topic"], headers["hourwheel-tags"]) == ("orders", "eu,vip")
        assert (headers["hourwheel-attempt"], headers["hourwheel-term"]) == ("1", str(node.group.raft.term))
        assert headers["content-type"] == "application/json"
        assert (got.attempt, got.state) == (1, "delivered")

    play(tmp_path, scene)


def test_a_failure_is_tried_again_under_the_same_id(tmp_path: Path) -> None:
    """500, 500, then 200: three attempts with rising numbers, the last error kept until then."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        answers = [answer(500, b"first"), answer(503, b"second"), answer(200)]
        async with receiver(answering(*answers, seen=seen)) as url:
            await put(node, "orders", url)
            (id,) = await schedule(node, MessageIn("orders", b"{}"))
            await until(in_state(node, id, "delivered"))
            got = await view(node, id)
        assert [request.headers["hourwheel-attempt"] for request in seen] == ["1", "2", "3"]
        assert {request.headers["webhook-id"] for request in seen} == {id}
        assert len({request.headers["hourwheel-due"] for request in seen}) == 1, "the asked due time does not move"
        assert got.attempt == 3

    play(tmp_path, scene)


def test_who_never_takes_it_ends_as_a_dead_letter(tmp_path: Path) -> None:
    """After max_attempts; the message is dead with the last error, and a copy is in the dead-letter topic."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(404, b"nobody here"), seen=seen)) as url:
            await put(node, "orders", url, retry={**FAST, "max_attempts": 2}, dead_letter="graves")
            (id,) = await schedule(node, MessageIn("orders", b'"x"'))
            await until(in_state(node, id, "dead"))
            got = await view(node, id)
            copies = await node.front.pull(PullIn("graves", wait_ms=5000), ANONYMOUS)
        assert len(seen) == got.attempt == 2
        assert got.last_error is not None
        assert "nobody here" in got.last_error
        assert [copy.body for copy in copies] == [b'"x"']

    play(tmp_path, scene)


def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    """A 429 says one second: no attempt comes sooner."""
    times: list[float] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            times.append(asyncio.get_running_loop().time())
            writer.write(answer(429, b"", "Retry-After: 1") if len(times) == 1 else answer(200))
            await writer.drain()

    async def scene(node: Node) -> None:
        async with receiver(behave) as url:
            await put(node, "orders", url, retry={"min_backoff_ms": 10, "max_backoff_ms": 60_000})
            (id,) = await schedule(node, MessageIn("orders", b"{}"))
            await until(in_state(node, id, "delivered"))
        assert len(times) == 2
        assert times[1] - times[0] >= 0.99

    play(tmp_path, scene)


def test_a_messages_own_target_goes_elsewhere(tmp_path: Path) -> None:
    """With its own method and headers; the topic's credential does not go along."""
    seen: list[Request] = []
    own: list[Request] = []

    async def scene(node: Node) -> None:
        async with (
            receiver(answering(answer(200), seen=seen)) as url,
            receiver(answering(answer(200), seen=own)) as other,
        ):
            await put(node, "orders", url, target={"headers": {"Authorization": "Bearer s"}})
            target = Target(url=other + "/own", method="PUT", headers={"X-Own": "1"})
            ids = await schedule(node, MessageIn("orders", b"1"), MessageIn("orders", b"2", target=target))
            for id in ids:
                await until(in_state(node, id, "delivered"))
        assert [(request.body, request.headers.get("authorization")) for request in seen] == [(b"1", "Bearer s")]
        assert [(request.line, request.body, request.headers.get("authorization")) for request in own] == [
            ("PUT /own HTTP/1.1", b"2", None)
        ]

    play(tmp_path, scene)


def test_a_closed_address_is_a_failed_attempt_by_name(tmp_path: Path) -> None:
    """Without `[push] allow` nothing reaches loopback, by number or by name; the message dies with that reason."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            port = url.rpartition(":")[2]
            for topic, host in (("t1", "127.0.0.1"), ("t2", "localhost"), ("t3", "0x7f.1")):
                await put(node, topic, f"http://{host}:{port}/", retry={**FAST, "max_attempts": 1})
                (id,) = await schedule(node, MessageIn(topic, b"{}"))
                await until(in_state(node, id, "dead"))
                error = (await view(node, id)).last_error
                assert error is not None
                assert error.startswith("forbidden-address"), error
        assert seen == []

    run_node(tmp_path, scene)


def test_a_topic_that_lost_its_target_fails_by_name(tmp_path: Path) -> None:
    """no-target is a reason like any other."""

    async def scene(node: Node) -> None:
        await put(node, "orders", "http://127.0.0.1:9/", paused=True)
        (id,) = await schedule(node, MessageIn("orders", b"{}"))
        await put(node, "orders", None, retry={**FAST, "max_attempts": 1}, paused=False)
        await until(in_state(node, id, "dead"))
        error = (await view(node, id)).last_error
        assert error is not None
        assert error.startswith("no-target"), error

    play(tmp_path, scene)


def test_headers_that_cannot_be_sent_fail_by_name(tmp_path: Path) -> None:
    """Whatever let them in: nothing is sent, and the next message goes its way."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", url, retry={**FAST, "max_attempts": 1})
            (id,) = await schedule(
                node, MessageIn("orders", b"{}", headers=pack_headers({"X-Own": "a\r\nX-Forged: 1"}))
            )
            (other,) = await schedule(node, MessageIn("orders", b"{}"))
            await until(in_state(node, id, "dead"))
            await until(in_state(node, other, "delivered"))
            assert "bad-url" in str((await view(node, id)).last_error)
        assert len(seen) == 1

    play(tmp_path, scene)


def test_stopping_waits_for_what_is_on_the_wire(tmp_path: Path) -> None:
    """A node that stops in order lets the receiver answer, and the record has it after the restart."""
    ids: list[str] = []
    servers: list[Any] = []
    nodes: list[Node] = []
    arrived = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        await until(lambda: nodes[0].group.life.draining)
        writer.write(answer(200))
        await writer.drain()

    async def scene(node: Node) -> None:
        nodes.append(node)
        servers.append(receiver(behave))  # outlives the scene, as a receiver outlives a node
        url = await servers[0].__aenter__()
        await put(node, "orders", url)
        ids.extend(await schedule(node, MessageIn("orders", b"{}")))
        await arrived.wait()

    async def again(node: Node) -> None:
        assert (await view(node, ids[0])).state == "delivered"

    play(tmp_path, scene)
    play(tmp_path, again)


def test_the_nodes_own_log_has_a_start_and_an_end(tmp_path: Path) -> None:
    """The start stands before the receiver has heard anything; the end says what came of it."""
    starts: list[int] = []

    def rows(node: Node) -> Any:
        directory = tmp_path / "deliveries"
        files = [directory / file.name for file in delivery_files(directory, node.group.disk)]
        found = [row for file in files for part, _ in read_delivery_file(file, node.group.disk) for row in part]
        return [row for row in found if row["kind"] in (START, END)]

    async def scene(node: Node) -> None:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            starts.append(len(rows(node)))
            writer.write(answer(200))
            await writer.drain()

        async with receiver(behave) as url:
            await put(node, "orders", url)
            (id,) = await schedule(node, MessageIn("orders", b"{}"))
            await until(in_state(node, id, "delivered"))
        assert starts == [1]
        start, end = rows(node)
        assert start["home"] == end["home"]
        assert (int(end["code"]), int(end["attempt"])) == (200, 1)

    play(tmp_path, scene)


def test_metrics_name_outcomes_and_no_topic(tmp_path: Path) -> None:
    """Attempts by class or reason, the wire, what is staged, and how long attempts took."""

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(500), answer(200))) as url:
            await put(node, "secret-topic", url)
            (id,) = await schedule(node, MessageIn("secret-topic", b"{}"))
            await until(in_state(node, id, "delivered"))
        text = (await node.front.metrics()).decode()
        assert 'hourwheel_push_attempts_total{outcome="2xx"} 1.0' in text
        assert 'hourwheel_push_attempts_total{outcome="5xx"} 1.0' in text
        assert "hourwheel_push_on_wire 0.0" in text
        assert "hourwheel_push_seconds_count 2.0" in text
        assert not [line for line in text.splitlines() if "hourwheel_push" in line and "secret-topic" in line]
        assert 'hourwheel_topic_acked_total{topic="secret-topic"} 1.0' in text
        assert 'hourwheel_topic_failed_total{topic="secret-topic"} 1.0' in text
        assert 'hourwheel_topic_handed_over_total{topic="secret-topic"} 2.0' in text
        assert 'hourwheel_topic_lateness_seconds_count{topic="secret-topic"} 1.0' in text
        assert id not in text

    play(tmp_path, scene)


@pytest.mark.parametrize("count", [300])
def test_a_burst_is_delivered_once_each(tmp_path: Path, count: int) -> None:
    """More than one bite of staging, more than one turn of the slots; every message exactly once."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", url)
            ids = await schedule(node, *[MessageIn("orders", json.dumps(n).encode()) for n in range(count)])
            await until(lambda: len(seen) >= count)
            for id in ids:
                await until(in_state(node, id, "delivered"))
        assert sorted(request.headers["webhook-id"] for request in seen) == sorted(ids)

    play(tmp_path, scene, per_target=7)


def test_the_api_is_told_what_may_be_pushed_to(tmp_path: Path) -> None:
    """A literal address is refused when the message or topic comes, by the guard that stands at the socket."""

    async def scene(node: Node) -> None:
        limits = node.front.limits
        assert limits.push_allow == tuple(LOOPBACK["allow"])
        assert read_url("http://127.0.0.1/", limits) == "http://127.0.0.1/"
        with pytest.raises(Fault, match="may not go to 10"):
            read_url("http://10.0.0.1/", limits)

    play(tmp_path, scene)
