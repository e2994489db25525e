"""What the server does for every route: ids, leadership, draining, refusing, listening."""

import asyncio
import logging
from typing import Any

import aiohttp
import msgspec
import pytest

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.problem import Problem
from tests.api.harness import Client, Reply, run, running, talk
from tests.api.memory_port import MemoryPort

_ORDER = {"topic": "orders", "body": 1}


def test_request_ids() -> None:
    """A sane one is taken over, any other is replaced by one of our own, and no two of those are equal."""

    async def story() -> None:
        async with running() as client:
            for sane in ("abc", "0193-a.b_c:d/e+f=g@h", "x" * 128):
                reply = await client.send("GET", "/livez", headers={"X-Request-Id": sane})
                assert reply.headers["x-request-id"] == sane
            ours = set()
            for other in ("", "a b", "x" * 129, '"><script>', "é"):
                reply = await client.send("GET", "/livez", headers={"X-Request-Id": other})
                ours.add(reply.headers["x-request-id"])
            assert len(ours) == 5
            assert all(text.startswith("n1-") for text in ours)

    run(story())


def test_routes_that_are_not_there() -> None:
    """404, 405 with Allow, and what is planned, as problems with the headers of every answer."""

    async def story() -> None:
        async with running() as client:
            unknown = await client.send("GET", "/v1/nothing")
            assert (unknown.status, unknown.json["code"]) == (404, "unknown-route")
            wrong = await client.send("PUT", "/v1/messages", {})
            assert (wrong.status, wrong.json["code"], wrong.headers["allow"]) == (
                405,
                "method-not-allowed",
                "GET, HEAD, POST",
            )
            planned = await client.send("POST", "/v1/transactions", {})
            assert (planned.status, planned.json["code"]) == (404, "unknown-route")
            assert "not supported yet" in planned.json["detail"]
            for reply in (unknown, wrong, planned):
                assert reply.headers["hourwheel-node"] == "n1"
                assert reply.headers["content-type"] == "application/problem+json"

    run(story())


def test_an_error_of_ours_is_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback goes to the log under the request id; the client learns the id and nothing else."""

    async def story() -> None:
        async with running() as client:
            client.port.raises = RuntimeError("secret detail")
            with caplog.at_level(logging.ERROR, "api"):
                reply = await client.send("POST", "/v1/messages", _ORDER)
            assert (reply.status, reply.json["code"]) == (500, "internal")
            assert reply.headers["x-request-id"] in reply.json["detail"]
            assert b"secret" not in reply.body
            assert "secret detail" in caplog.text
            assert reply.headers["x-request-id"] in caplog.text
            client.port.raises = None
            assert (await client.send("POST", "/v1/messages", _ORDER)).status == 201

    run(story())


@pytest.mark.parametrize("code", ["no-leader", "disk-full", "over-limit"])
def test_what_can_be_tried_again_has_retry_after(code: str) -> None:
    """503 and 429 say when, in whole seconds; the port may say otherwise."""

    async def story() -> None:
        async with running() as client:
            client.port.raises = Problem(code, "later")
            reply = await client.send("POST", "/v1/messages", _ORDER)
            assert reply.json["code"] == code
            assert int(reply.headers["retry-after"]) >= 1
            client.port.raises = Problem(code, "later", retry_after_s=17, leader="n3")
            reply = await client.send("POST", "/v1/messages", _ORDER)
            assert (reply.headers["retry-after"], reply.json["leader"]) == ("17", "n3")

    run(story())


async def _both(leader: Client, follower: Client, method: str, path: str, body: Any = None) -> tuple[Reply, Reply]:
    """The same request to the leader and through the follower."""
    headers = {"X-Request-Id": "same"}
    return (
        await leader.send(method, path, body, headers),
        await follower.send(method, path, body, headers),
    )


def test_a_follower_passes_everything_on() -> None:
    """Through a follower every answer is the leader's own, header by header and byte by byte."""

    async def story() -> None:
        follower_port = MemoryPort("n2")
        follower_port.leading = False
        follower_port.known_leader = "n1"
        async with running(MemoryPort("n1")) as leader, running(follower_port) as follower:
            follower_port.forward_to = leader.pass_on
            keyed = {**_ORDER, "key": "k"}
            first = await follower.send("POST", "/v1/messages", keyed)
            assert first.status == 201
            assert first.headers["hourwheel-node"] == "n1"
            path = f"/v1/messages/{first.json['id']}"
            requests: list[tuple[str, str, Any]] = [
                ("POST", "/v1/messages", keyed),
                ("POST", "/v1/messages", {**keyed, "body": 2}),
                ("POST", "/v1/messages", {"topic": "a b"}),
                ("GET", path, None),
                ("GET", "/v1/messages/none", None),
                ("PATCH", "/v1/topics/none", {}),
                ("GET", "/v1/topics", None),
                ("POST", "/v1/topics/other/pull", {}),
                ("POST", "/v1/topics/other/nack", {"receipts": ["r"], "delay": "1s"}),
                ("POST", "/v1/topics/other/extend", {"receipts": ["r"]}),
                ("GET", "/v1/topics/other/dead?limit=5", None),
                ("POST", "/v1/messages/redrive", {"topic": "other", "dry_run": True}),
                ("PATCH", path, {"delay": "1x"}),
                ("PATCH", "/v1/messages/none", {"delay": "1s"}),
                ("POST", "/v1/cluster/transfer", {}),
                ("DELETE", path, None),
            ]
            for request in requests:
                ours, theirs = await _both(leader, follower, *request)
                assert (ours.status, ours.body, ours.headers) == (theirs.status, theirs.body, theirs.headers), request
            sent = follower_port.forwarded[0]
            assert (sent.method, sent.target) == ("POST", "/v1/messages")
            assert sent.headers["Hourwheel-Forwarded"] == "n2"
            assert follower_port.held == {}
            raw = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 22\r\n\r\n"
            untyped = await talk(follower.server, raw + b'{"topic":"a","body":1}')
            assert untyped.startswith(b"HTTP/1.1 201 ")
            assert (await follower.batch(b'{"topic":"a","body":1}\n{')).lines[1]["error"]["code"] == "malformed-line"

    run(story())


def test_local_reads_stay() -> None:
    """`consistency=local` is answered by the node that was asked."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", _ORDER)).json["id"]
            client.port.leading = False
            local = await client.send("GET", f"/v1/messages/{id_text}?consistency=local")
            assert local.status == 200
            assert client.port.forwarded == []
            assert (await client.send("GET", f"/v1/messages/{id_text}")).status == 503

    run(story())


def test_a_request_is_passed_on_once() -> None:
    """One that came from another node and still meets no leader is 503 no-leader, so nodes never pass it in circles."""

    async def story() -> None:
        async with running() as client:
            client.port.leading = False
            headers = {"Hourwheel-Forwarded": "n3"}
            reply = await client.send("POST", "/v1/messages", _ORDER, headers)
            assert (reply.status, reply.json["code"]) == (503, "no-leader")
            assert reply.headers["retry-after"] == "1"
            assert client.port.forwarded == []
            reply = await client.send("POST", "/v1/messages", _ORDER)
            assert reply.json["code"] == "no-leader"
            assert len(client.port.forwarded) == 1

    run(story())


def test_a_request_that_a_former_leader_did_nothing_with_goes_on() -> None:
    """It came while this node led and is refused as `no-leader` when it leads no more: the new leader gets it, whole.
    Not when it leads on, not for what another node passed on, and never for an outcome that is not known."""

    async def story() -> None:
        old_port = MemoryPort("n2")
        async with running(MemoryPort("n1")) as new, running(old_port) as old:
            old_port.forward_to = new.pass_on

            async def send(code: str, leads_on: bool, headers: dict[str, str] | None = None) -> int:
                old_port.raises, old_port.leading = Problem(code, "meanwhile"), True
                entered, go_on = old_port.before_schedule = (asyncio.Event(), asyncio.Event())
                asked = asyncio.ensure_future(old.send("POST", "/v1/messages", _ORDER, headers))
                await entered.wait()
                old_port.leading = leads_on
                go_on.set()
                return (await asked).status

            assert await send("no-leader", leads_on=False) == 201
            assert [request.body for request in old_port.forwarded] == [msgspec.json.encode(_ORDER)]
            assert await send("no-leader", leads_on=True) == 503
            assert await send("no-leader", leads_on=False, headers={"Hourwheel-Forwarded": "n3"}) == 503
            assert await send("outcome-unknown", leads_on=False) == 504
            assert len(old_port.forwarded) == 1
            assert len(new.port.held) == 1

    run(story())


def test_only_headers_of_the_contract_come_back() -> None:
    """Hop-by-hop and unknown headers of the leader's answer end here."""

    async def story() -> None:
        async def answer(request: ForwardRequest) -> ForwardAnswer:
            headers = {"Connection": "close", "X-Other": "1", "content-type": "a/b", "etag": '"5"', "Server": "x"}
            return ForwardAnswer(207, headers, b"relayed")

        async with running() as client:
            client.port.leading = False
            client.port.forward_to = answer
            reply = await client.send("GET", "/v1/topics/a")
            assert (reply.status, reply.body) == (207, b"relayed")
            assert set(reply.headers) == {"content-type", "content-length", "date", "x-request-id", "etag"}

    run(story())


def test_draining() -> None:
    """Waits end with 503 draining, new work is refused and its connection closed, health goes on and says not ready."""

    async def story() -> None:
        async with running() as client:
            pull = asyncio.create_task(client.send("POST", "/v1/topics/a/pull", {"wait": "30s"}))
            await client.port.waiting.wait()
            client.server.drain()
            ended = await pull
            assert (ended.status, ended.json["code"]) == (503, "draining")
            assert ended.headers["connection"] == "close"
            assert client.port.wait_ended.is_set()
            refused = await client.send("POST", "/v1/messages", _ORDER)
            assert (refused.status, refused.json["code"]) == (503, "draining")
            assert refused.headers["retry-after"] == "1"
            assert (await client.send("GET", "/livez")).status == 200
            ready = await client.send("GET", "/readyz")
            assert (ready.status, ready.body.splitlines()[-1]) == (503, b"not ready")
            assert client.port.held == {}

    run(story())


def test_a_pull_passed_on_ends_too() -> None:
    """Draining a follower ends the waits it holds at the leader, which may have handed something over (FOUND D9)."""

    async def story() -> None:
        entered, left = asyncio.Event(), asyncio.Event()

        async def hang(request: ForwardRequest) -> ForwardAnswer:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
            raise AssertionError("unreachable")

        async with running() as client:
            client.port.leading = False
            client.port.forward_to = hang
            pull = asyncio.create_task(client.send("POST", "/v1/topics/a/pull", {"wait": "30s"}))
            await entered.wait()
            client.server.drain()
            ended = await pull
            assert (ended.status, ended.json["code"]) == (504, "outcome-unknown")
            assert left.is_set()

    run(story())


def test_a_pull_asked_of_another_node_is_of_unknown_outcome_when_this_one_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 19381: the leader had handed something over, and stopped as this node did: the answer said that nothing was
    done."""

    async def story() -> None:
        async with running() as client:
            client.port.leading = False
            monkeypatch.setattr(client.port, "reaches_leader", lambda: True)
            pull = asyncio.create_task(client.send("POST", "/v1/topics/a/pull", {"wait": "30s"}))
            await client.port.waiting.wait()
            client.server.drain()
            ended = await pull
            assert (ended.status, ended.json["code"]) == (504, "outcome-unknown")

    run(story())


def test_a_node_that_stops_lets_the_leader_end_the_waits_it_passed_on() -> None:
    """Draining leaves them for a moment; the leader, asked by that node, answers them as having found nothing, and no
    others; what it had to hand over it hands over to those."""

    async def story() -> None:
        follower_port = MemoryPort("n2")
        follower_port.leading = False
        async with running(MemoryPort("n1")) as leader, running(follower_port) as follower:
            follower_port.forward_to = leader.pass_on
            await leader.send("PUT", "/v1/topics/a", {})
            waits = [
                asyncio.create_task(client.send("POST", "/v1/topics/a/pull", {"wait": "30s"}))
                for client in (follower, leader)
            ]
            while len(leader.server._waiting) < 2:
                await leader.port.waiting.wait()
                await asyncio.sleep(0)
            follower.server.drain()
            for named, ended in (("n3", 0), ("n2", 1)):
                asked = await leader.send("POST", "/v1/cluster/waits", {"node": named})
                assert (asked.status, asked.json) == (200, {"ended": ended})
            answer = await waits[0]
            assert (answer.status, answer.json) == (200, {"messages": []})
            assert not waits[1].done()
            leader.server.drain()
            assert (await waits[1]).json["code"] == "draining"
            missing = await leader.send("POST", "/v1/cluster/waits", {})
            assert (missing.status, missing.json["errors"][0]["pointer"]) == (422, "/node")

    run(story())


def test_close_lets_work_finish() -> None:
    """A request at work is answered before its connection goes; then nothing listens."""

    async def story() -> None:
        port = MemoryPort()
        entered, go_on = asyncio.Event(), asyncio.Event()
        port.before_schedule = (entered, go_on)
        async with running(port) as client:
            address = client.server.address
            post = asyncio.create_task(client.send("POST", "/v1/messages", _ORDER))
            await entered.wait()
            closing = asyncio.create_task(client.server.close(5.0))
            await asyncio.sleep(0)
            go_on.set()
            assert (await post).status == 201
            await closing
            with pytest.raises(OSError, match=r"."):
                await asyncio.open_connection(*address)
            await client.server.close()

    run(story())


def test_close_without_grace_waits_for_nobody() -> None:
    """A node that failed ends at once: a request at work that takes its time does not keep it, it gets no answer."""

    async def story() -> None:
        port = MemoryPort()
        entered, never = asyncio.Event(), asyncio.Event()
        port.before_schedule = (entered, never)
        async with running(port) as client:
            post = asyncio.create_task(client.send("POST", "/v1/messages", _ORDER))
            await entered.wait()
            async with asyncio.timeout(1.0):
                await client.server.close(0)
            with pytest.raises(aiohttp.ClientError):
                await post

    run(story())
