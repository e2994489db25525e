"""Draining, and what nodes tell each other around a change of leader: what is taken, and how the rest is refused."""

import asyncio
import base64
from typing import Any

import pytest

from api.port.leadership import FORWARDED, OUTCOMES_MAX, TOLD_MAX, WAIT, PushOutcome
from tests.api.harness import run, running


def column(count: int) -> str:
    """So many rows of eight bytes, as they stand in JSON."""
    return base64.b64encode(bytes(8 * count)).decode()


def test_a_drained_node_refuses_work_and_says_so() -> None:
    """Health, the cluster page, the drain itself and what other nodes tell it are answered; undone, all is."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/node/drain")
            drained = {"node": "n1", "draining": True, "led": True, "leader": "n2", "pushes": 0}
            assert (reply.status, reply.json) == (200, drained)
            for method, path in (("POST", "/v1/messages"), ("GET", "/v1/topics"), ("POST", "/v1/cluster/transfer")):
                reply = await client.send(method, path, {} if method == "POST" else None)
                assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "draining", "1")
            for path in ("/livez", "/metrics", "/v1/cluster"):
                assert (await client.send("GET", path)).status == 200
            told = {"outcomes": [{"receipt": "r", "code": 200}]}
            assert (await client.send("POST", "/v1/cluster/outcomes", told)).status == 200
            reply = await client.send("DELETE", "/v1/node/drain", {"node": "n1"})
            assert (reply.status, reply.json["draining"]) == (200, False)
            assert (await client.send("GET", "/v1/topics")).status == 200

    run(story())


def test_outcomes_are_told_with_all_that_was_said() -> None:
    """Receipt, code, text and wait; a result for each, in order."""

    async def story() -> None:
        async with running() as client:
            first = {"receipt": "a", "code": 204}
            second = {"receipt": "b", "code": 503, "text": "closed", "retry_after_ms": 2_000}
            reply = await client.send("POST", "/v1/cluster/outcomes", {"outcomes": [first, second]})
            results = [{"receipt": "a", "result": "acked"}, {"receipt": "b", "result": "nacked"}]
            assert (reply.status, reply.json) == (200, {"results": results})
            assert client.port.told == [PushOutcome("a", 204), PushOutcome("b", 503, "closed", 2_000)]

    run(story())


def test_a_takeover_answers_with_an_account() -> None:
    """Two columns of the same length, or none."""

    async def story() -> None:
        async with running() as client:
            for count in (0, 3):
                told = {"term": 7, "positions": column(count), "lease_ends_ms": column(count)}
                reply = await client.send("POST", "/v1/cluster/takeover", told)
                account = {"node": "n1", "term": 8, "ready_us": 1, "in_flight_carried": count, "repeated": 0}
                assert (reply.status, reply.json) == (200, account)

    run(story())


def test_one_wait_that_was_passed_on_ends_by_its_number() -> None:
    """The client behind it has gone; the others of the same node go on."""

    async def story() -> None:
        async with running() as leader:
            await leader.send("PUT", "/v1/topics/a", {})
            waits = [
                asyncio.create_task(leader.send("POST", "/v1/topics/a/pull", {"wait": "30s"}, headers))
                for headers in (
                    {FORWARDED: "n2", WAIT: "1"},
                    {FORWARDED: "n2", WAIT: "2"},
                    {FORWARDED: "n3", WAIT: "1"},
                )
            ]
            while len(leader.server._waiting) < 3:
                await leader.port.waiting.wait()
                await asyncio.sleep(0)
            for wait, ended in ((3, 0), (1, 1)):
                asked = await leader.send("POST", "/v1/cluster/waits", {"node": "n2", "wait": wait})
                assert (asked.status, asked.json) == (200, {"ended": ended})
            assert (await waits[0]).json == {"messages": []}
            assert not waits[1].done()
            assert not waits[2].done()
            refused = await leader.send("POST", "/v1/cluster/waits", {"node": "n2", "wait": 0})
            assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/wait")
            leader.server.drain()
            await asyncio.wait(waits)

    run(story())


@pytest.mark.parametrize(
    ("path", "sent", "status", "pointer", "says"),
    [
        ("node/drain", {"node": 3}, 422, "/node", "a node's id"),
        ("node/drain", {"to": "n2"}, 422, "/to", "known fields: node"),
        ("node/drain", b"{", 400, None, ""),
        ("cluster/outcomes", {"outcomes": []}, 422, "/outcomes", f"1 to {OUTCOMES_MAX}"),
        ("cluster/outcomes", {"outcomes": [{"receipt": "r", "code": 200}] * (OUTCOMES_MAX + 1)}, 422, "/outcomes", ""),
        ("cluster/outcomes", {"outcomes": [{"receipt": "r", "code": 0}]}, 422, "/outcomes/0/code", "1 to 65535"),
        ("cluster/outcomes", {"outcomes": [{"receipt": "r", "code": 1 << 16}]}, 422, "/outcomes/0/code", "65536"),
        ("cluster/outcomes", {"outcomes": [{"receipt": 1, "code": 200}]}, 422, "", "receipt"),
        ("cluster/outcomes", {"outcomes": [{"receipt": "r", "code": 200, "no": 1}]}, 422, "", "no"),
        (
            "cluster/outcomes",
            {"outcomes": [{"receipt": "r", "code": 503, "retry_after_ms": -1}]},
            422,
            "/outcomes/0/retry_after_ms",
            "0 to",
        ),
        ("cluster/outcomes", b'{"outcomes": [', 400, None, ""),
        ("cluster/takeover", {"term": 7, "positions": column(1), "lease_ends_ms": column(2)}, 422, "/positions", "16"),
        ("cluster/takeover", {"term": 7, "positions": "AAAA", "lease_ends_ms": "AAAA"}, 422, "/positions", "8 bytes"),
        ("cluster/takeover", {"term": 7, "positions": "!", "lease_ends_ms": ""}, 422, "", "positions"),
        ("cluster/takeover", {"term": "7", "positions": "", "lease_ends_ms": ""}, 422, "", "term"),
        (
            "cluster/takeover",
            {"term": 7, "positions": column(TOLD_MAX + 1), "lease_ends_ms": column(TOLD_MAX + 1)},
            422,
            "/positions",
            f"at most {TOLD_MAX}",
        ),
    ],
)
def test_what_is_wrong_is_named(path: str, sent: Any, status: int, pointer: str | None, says: str) -> None:
    """The field and the limit; nothing reaches the node."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", f"/v1/{path}", sent)
            assert reply.status == status
            if pointer is not None:
                assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
                assert says in reply.json["errors"][0]["detail"]
            assert client.port.told == []
            assert not client.port.drained()

    run(story())
