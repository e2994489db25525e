"""Dead messages over a real socket: pages of them, and making them due again."""

from typing import Any

import pytest

from api.port.timestamp import render_time
from tests.api.harness import Client, run, running
from tests.api.memory_queries import NOW_MS


async def _bury(client: Client, count: int) -> None:
    """Messages of topic a that failed twice, one each second; every other is tagged eu."""
    for number in range(count):
        sent = {"topic": "a", "body": number, "tags": ["eu"] if number % 2 == 0 else [], "key": f"k{number}"}
        await client.send("POST", "/v1/messages", sent)
        for _ in range(2):
            receipt = (await client.send("POST", "/v1/topics/a/pull")).json["messages"][0]["receipt"]
            await client.send("POST", "/v1/topics/a/nack", {"receipts": [receipt], "delay": 0})
        client.port.clock_ms += 1_000


def test_a_page() -> None:
    """Every member of the contract, and the cursor leads on to the rest."""

    async def story() -> None:
        async with running() as client:
            assert (await client.send("GET", "/v1/topics/a/dead")).json == {"items": [], "next_cursor": None}
            await _bury(client, 3)
            first = (await client.send("GET", "/v1/topics/a/dead?limit=2")).json
            assert first["items"][0] == {
                "id": "0" * 26,
                "due": render_time(NOW_MS),
                "asked_due": render_time(NOW_MS),
                "died": render_time(client.port.clock_ms),
                "reason": "nacked",
                "attempts": 2,
                "tags": ["eu"],
                "key": "k0",
            }
            second = (await client.send("GET", f"/v1/topics/a/dead?limit=2&cursor={first['next_cursor']}")).json
            assert [each["key"] for each in first["items"] + second["items"]] == ["k0", "k1", "k2"]
            assert second["next_cursor"] is None
            assert (await client.send("GET", "/v1/topics/nowhere/dead")).json["code"] == "unknown-topic"

    run(story())


def test_by_time_and_tag() -> None:
    """`from` is within, `to` is not; times come in every notation."""

    async def story() -> None:
        async with running() as client:
            await _bury(client, 4)
            for query, keys in (
                (f"from={NOW_MS + 1_000}&to={NOW_MS + 3_000}", ["k1", "k2"]),
                ("from=2026-11-21T02:10:21.125Z", ["k1", "k2", "k3"]),
                ("to=2026-11-21T03:10:21.125%2B01:00", ["k0"]),
                ("tag=eu", ["k0", "k2"]),
                (f"tag=eu&from={NOW_MS + 1}", ["k2"]),
            ):
                found = (await client.send("GET", f"/v1/topics/a/dead?{query}")).json["items"]
                assert [each["key"] for each in found] == keys, query

    run(story())


@pytest.mark.parametrize(
    ("query", "code", "parameter", "says"),
    [
        ("limit=0", "invalid-field", "limit", "1 to 1000"),
        ("limit=1001", "invalid-field", "limit", "1 to 1000"),
        ("limit=ten", "invalid-field", "limit", 'got "ten"'),
        ("from=5", "invalid-field", "from", "seconds"),
        ("from=soon", "invalid-field", "from", "RFC 3339"),
        ("to=2026-11-21T03:10:21+01:00", "invalid-field", "to", "%2B"),
        (f"from={NOW_MS}&to={NOW_MS - 1}", "invalid-field", "from", "not after to"),
        ("tag=", "invalid-field", "tag", "1 to 64 bytes"),
        ("cursor=", "invalid-field", "cursor", "next_cursor"),
        ("cursor=" + "x" * 1025, "invalid-field", "cursor", "next_cursor"),
        ("cursor=%C3%A9", "invalid-field", "cursor", "next_cursor"),
        ("state=dead", "unknown-field", "state", "known: from, to, tag, limit, cursor"),
    ],
)
def test_bad_queries(query: str, code: str, parameter: str, says: str) -> None:
    """Each parameter at fault is named, with its limit."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("GET", f"/v1/topics/a/dead?{query}")
            assert (reply.status, reply.json["code"]) == (422, code)
            (error,) = reply.json["errors"]
            assert (error["pointer"], error["parameter"]) == ("", parameter)
            assert says in error["detail"]

    run(story())


def test_redrive() -> None:
    """A dry run changes nothing; then what matches is due again; nothing left is no entry."""

    async def story() -> None:
        async with running() as client:
            await _bury(client, 3)
            for sent, shape in (
                ({"topic": "a", "dry_run": True}, {"matched": 3}),
                ({"topic": "a", "tag": "eu", "from": NOW_MS + 1}, {"matched": 1, "changed": 1, "index": 1236}),
                (
                    {"topic": "a", "to": "2026-11-21T03:00:00Z", "dry_run": False},
                    {"matched": 2, "changed": 2, "index": 1236},
                ),
                ({"topic": "a"}, {"matched": 0, "changed": 0, "index": 1236}),
            ):
                reply = await client.send("POST", "/v1/messages/redrive", sent)
                assert (reply.status, {name: reply.json[name] for name in shape}) == (200, shape)
            reply = await client.send("POST", "/v1/topics/a/pull")
            assert len(reply.json["messages"]) == 3
            reply = await client.send("POST", "/v1/messages/redrive", {"topic": "nowhere"})
            assert (reply.status, reply.json["code"]) == (404, "unknown-topic")

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({}, "invalid-field", "/topic", "required"),
        ({"topic": "a b"}, "invalid-field", "/topic", "1 to 127"),
        ({"topic": "a", "from": 5}, "invalid-field", "/from", "seconds"),
        ({"topic": "a", "from": NOW_MS, "to": NOW_MS - 1}, "invalid-field", "/from", "not after to"),
        ({"topic": "a", "tag": ""}, "invalid-field", "/tag", "1 to 64 bytes"),
        ({"topic": "a", "tag": ["x"]}, "invalid-field", "/tag", "a string"),
        ({"topic": "a", "dry_run": 1}, "invalid-field", "/dry_run", "true or false"),
        ({"topic": "a", "by": "1h"}, "unknown-field", "/by", "is not a field here"),
        ({"topic": "a", "dryrun": True}, "unknown-field", "/dryrun", 'did you mean "dry_run"?'),
    ],
)
def test_bad_redrives(sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """Each field's fault is named."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/messages/redrive", sent)
            assert (reply.status, reply.json["code"]) == (422, code)
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
            assert says in reply.json["errors"][0]["detail"]

    run(story())
