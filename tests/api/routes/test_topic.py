"""/v1/topics over a real socket."""

from base64 import b64encode
from typing import Any

import pytest

from api.port.port import Limits
from api.port.timestamp import render_time
from tests.api.harness import run, running
from tests.api.memory_port import MemoryPort
from tests.api.memory_queries import NOW_MS

_RETRY = {"max_attempts": 16, "min_backoff": "1s", "max_backoff": "1h", "max_age": "0s"}
_DEFAULTS = {
    "topic": "orders",
    "mode": "pull",
    "target": None,
    "retry": _RETRY,
    "lease": "30s",
    "handover": "fast",
    "dead_letter": None,
    "paused": False,
    "revision": 1,
    "created": render_time(NOW_MS),
}


def test_put_replaces_and_patch_merges() -> None:
    """PUT fills what is left out with defaults, PATCH leaves it; both answer the whole topic with its ETag."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("PUT", "/v1/topics/orders")
            assert (reply.status, reply.json) == (200, _DEFAULTS)
            assert reply.headers["etag"] == '"1"'
            reply = await client.send("PUT", "/v1/topics/orders", {"lease": "90s", "paused": True})
            assert reply.json == {**_DEFAULTS, "lease": "90s", "paused": True, "revision": 2}
            reply = await client.send("PATCH", "/v1/topics/orders", {"paused": False})
            assert reply.json == {**_DEFAULTS, "lease": "90s", "revision": 3}
            reply = await client.send("PUT", "/v1/topics/orders", {"mode": "pull", "handover": "fast"})
            assert reply.json == {**_DEFAULTS, "revision": 4}
            assert (await client.send("GET", "/v1/topics/orders")).json == {**_DEFAULTS, "revision": 4}

    run(story())


_SECRET = "whsec_" + b64encode(bytes(32)).decode()
_TARGET: dict[str, Any] = {
    "url": "https://example.com/hook",
    "method": "POST",
    "headers": {},
    "timeout": None,
    "secret_set": False,
}


def test_a_topic_that_pushes() -> None:
    """PUT sets target, policy and dead-letter topic; PATCH merges them field by field; null takes away; the secret is
    never shown."""

    async def story() -> None:
        async with running() as client:
            sent: dict[str, Any] = {
                "mode": "push",
                "target": {
                    "url": "https://example.com/hook",
                    "headers": {"X-A": "b"},
                    "timeout": "5s",
                    "secret": _SECRET,
                },
                "retry": {"max_attempts": 3, "min_backoff": 250},
                "dead_letter": "orders.dead",
            }
            reply = await client.send("PUT", "/v1/topics/orders", sent)
            whole = {
                **_DEFAULTS,
                "mode": "push",
                "target": {**_TARGET, "headers": {"X-A": "b"}, "timeout": "5s", "secret_set": True},
                "retry": {**_RETRY, "max_attempts": 3, "min_backoff": "250ms"},
                "dead_letter": "orders.dead",
            }
            assert (reply.status, reply.json) == (200, whole)
            change: dict[str, Any] = {
                "target": {"method": "PUT", "headers": None, "timeout": "1m"},
                "retry": {"min_backoff": None, "max_age": "1d"},
            }
            reply = await client.send("PATCH", "/v1/topics/orders", change)
            target = {**_TARGET, "method": "PUT", "timeout": "1m", "secret_set": True}
            retry = {**_RETRY, "max_attempts": 3, "max_age": "1d"}
            assert reply.json == {**whole, "target": target, "retry": retry, "revision": 2}
            reply = await client.send("PATCH", "/v1/topics/orders", {"target": {"secret": None}})
            assert reply.json["target"] == {**target, "secret_set": False}
            gone = {"target": None, "retry": None, "dead_letter": None, "mode": "pull"}
            reply = await client.send("PATCH", "/v1/topics/orders", gone)
            assert reply.json == {**_DEFAULTS, "revision": 4}
            listed = await client.send("GET", "/v1/topics")
            assert _SECRET.encode() not in listed.body
            reply = await client.send("PUT", "/v1/topics/orders", {"target": {**sent["target"], "headers": None}})
            assert reply.json["target"] == {**_TARGET, "timeout": "5s", "secret_set": True}
            reply = await client.send("PUT", "/v1/topics/orders", {"target": None, "retry": None, "dead_letter": None})
            assert reply.json == {**_DEFAULTS, "revision": 6}

    run(story())


def test_a_target_needs_a_url() -> None:
    """A PUT says so itself; a PATCH may leave it out where the topic has one."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("PUT", "/v1/topics/orders", {"target": {"timeout": "5s"}})
            assert [error["pointer"] for error in reply.json["errors"]] == ["/target/url"]
            await client.send("PUT", "/v1/topics/orders", {})
            assert (await client.send("PATCH", "/v1/topics/orders", {"target": {"timeout": "5s"}})).status == 422

    run(story())


def test_refused_addresses() -> None:
    """An address that pushes may not go to is refused when the topic is set, by the operator's rules."""

    async def story() -> None:
        limits = Limits(push_allow=("10.0.0.1/32",))
        async with running(MemoryPort(limits=limits)) as client:
            for url in ("http://127.0.0.1:9000/", "http://0xA9FEA9FE/", "http://[::ffff:7f00:1]/", "http://localhost/"):
                reply = await client.send("PUT", "/v1/topics/orders", {"target": {"url": url}})
                assert (reply.status, reply.json["code"]) == (422, "invalid-field")
                assert reply.json["errors"][0]["pointer"] == "/target/url"
                assert "[push] allow" in reply.json["errors"][0]["detail"]
            reply = await client.send("PUT", "/v1/topics/orders", {"target": {"url": "http://10.1/"}})
            assert reply.json["target"]["url"] == "http://10.1/"

    run(story())


def test_list_counts_by_state() -> None:
    """All topics by name, each with counts."""

    async def story() -> None:
        async with running() as client:
            assert (await client.send("GET", "/v1/topics")).json == {"items": [], "next_cursor": None}
            await client.send("PUT", "/v1/topics/orders", {})
            reply = await client.send("GET", "/v1/topics")
            assert reply.json == {"items": [{**_DEFAULTS, "counts": {"scheduled": 2}}], "next_cursor": None}

    run(story())


def test_list_without_counts() -> None:
    """Counting takes a pass over all messages; who only wants the topics goes without."""

    async def story() -> None:
        async with running() as client:
            await client.send("PUT", "/v1/topics/a")
            for flag, counted in (("false", False), ("true", True)):
                (item,) = (await client.send("GET", f"/v1/topics?counts={flag}")).json["items"]
                assert ("counts" in item) == counted
            for query in ("counts=no", "counts=", "limit=0", "limit=1001", "limit=x", "cursor=%20", "cursor="):
                parameter = query.partition("=")[0]
                reply = await client.send("GET", f"/v1/topics?{query}")
                assert reply.status == 422
                assert reply.json["errors"][0]["parameter"] == parameter

    run(story())


def test_b5_a_list_has_pages() -> None:
    """100,000 topics were one answer of 34 MB, built in one step: 0.98 s in which nobody was answered."""

    async def story() -> None:
        async with running() as client:
            names = [f"t{number:03d}" for number in range(105)]
            for name in names:
                await client.send("PUT", f"/v1/topics/{name}")
            found: list[list[str]] = []
            for limit in ("", "&limit=50"):
                cursor = ""
                while cursor is not None:
                    after = f"&cursor={cursor}" if cursor else ""
                    page = (await client.send("GET", f"/v1/topics?counts=false{limit}{after}")).json
                    found.append([item["topic"] for item in page["items"]])
                    cursor = page["next_cursor"]
            assert found == [names[:100], names[100:], names[:50], names[50:100], names[100:]]
            page = (await client.send("GET", "/v1/topics?limit=105")).json
            assert (len(page["items"]), page["next_cursor"]) == (105, None)

    run(story())


def test_delete() -> None:
    """An empty topic goes; one with messages does not; `pending=cancel` is still to come."""

    async def story() -> None:
        async with running() as client:
            await client.send("PUT", "/v1/topics/orders", {})
            await client.send("POST", "/v1/messages", {"topic": "busy", "body": 1})
            reply = await client.send("DELETE", "/v1/topics/orders")
            assert (reply.status, reply.json) == (200, {"topic": "orders", "result": "deleted"})
            assert (await client.send("DELETE", "/v1/topics/orders")).json["code"] == "unknown-topic"
            assert (await client.send("DELETE", "/v1/topics/busy")).json["code"] == "not-empty"
            reply = await client.send("DELETE", "/v1/topics/busy?pending=cancel")
            assert (reply.status, reply.json["code"]) == (422, "not-supported-yet")
            assert reply.json["errors"][0]["parameter"] == "pending"

    run(story())


def test_revisions() -> None:
    """If-Match is honoured, weak or strong; unknown topics are 404 for PATCH and GET."""

    async def story() -> None:
        async with running() as client:
            assert (await client.send("PATCH", "/v1/topics/orders", {})).status == 404
            assert (await client.send("GET", "/v1/topics/orders")).json["code"] == "unknown-topic"
            await client.send("PUT", "/v1/topics/orders", {})
            reply = await client.send("PUT", "/v1/topics/orders", {}, {"If-Match": '"7"'})
            assert (reply.status, reply.json["code"]) == (412, "revision-mismatch")
            reply = await client.send("PUT", "/v1/topics/orders", {}, {"If-Match": 'W/"1"'})
            assert reply.json["revision"] == 2

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({"handover": "exact"}, "invalid-field", "/handover", "fast"),
        ({"target": {"url": "ftp://x"}}, "invalid-field", "/target/url", "http:// or https://"),
        ({"target": {"url": "http://x", "method": "GET"}}, "invalid-field", "/target/method", "POST, PUT, PATCH"),
        ({"target": {"url": "http://x", "secret": "s3cret"}}, "invalid-field", "/target/secret", "24 to 64 bytes"),
        ({"target": {"url": "http://x", "secret_set": True}}, "unknown-field", "/target/secret_set", "read-only"),
        ({"target": "http://x"}, "invalid-field", "/target", "an object"),
        ({"retry": {"max_attempts": 0}}, "invalid-field", "/retry/max_attempts", "1 to 1000"),
        ({"retry": {"max_attempt": 1}}, "unknown-field", "/retry/max_attempt", '"max_attempts"'),
        ({"dead_letter": "orders"}, "invalid-field", "/dead_letter", "its own"),
        ({"dead_letter": "a b"}, "invalid-field", "/dead_letter", "1 to 127"),
        ({"mode": None}, "invalid-field", "/mode", "leave the field out"),
        ({"rate": {}}, "not-supported-yet", "/rate", "not supported yet"),
        ({"mode": "pul"}, "invalid-field", "/mode", "pull, push"),
        ({"lease": "13h"}, "invalid-field", "/lease", "1s to 12h"),
        ({"lease": "soon"}, "invalid-field", "/lease", '"10s"'),
        ({"paused": "yes"}, "invalid-field", "/paused", "true or false"),
        ({"pause": True}, "unknown-field", "/pause", '"paused"'),
        ({"revision": 3}, "unknown-field", "/revision", "read-only"),
    ],
)
def test_bad_settings(sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """Each wrong setting is named, and nothing is changed."""

    async def story() -> None:
        async with running() as client:
            for method in ("PUT", "PATCH"):
                reply = await client.send(method, "/v1/topics/orders", sent)
                assert (reply.status, reply.json["code"]) == (422, code)
                assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
                assert says in reply.json["errors"][0]["detail"]
            assert client.port.topic_views == {}

    run(story())


def test_bad_name() -> None:
    """A name that no topic can have is refused as such, not as unknown."""

    async def story() -> None:
        async with running() as client:
            for method, path in (
                ("PUT", "/v1/topics/a%20b"),
                ("GET", "/v1/topics/-x"),
                ("POST", "/v1/topics/%00/pull"),
            ):
                reply = await client.send(method, path)
                assert (reply.status, reply.json["code"]) == (422, "invalid-field")
                assert reply.json["errors"][0]["parameter"] == "topic"

    run(story())
