"""/v1/topics over a real socket."""

from typing import Any

import pytest

from api.timestamp import render_time
from tests.api.harness import run, running
from tests.api.memory_port import NOW_MS

_DEFAULTS = {
    "topic": "orders",
    "mode": "pull",
    "lease": "30s",
    "handover": "fast",
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


def test_list_counts_by_state() -> None:
    """All topics by name, each with counts."""

    async def story() -> None:
        async with running() as client:
            assert (await client.send("GET", "/v1/topics")).json == {"items": [], "next_cursor": None}
            await client.send("PUT", "/v1/topics/orders", {})
            reply = await client.send("GET", "/v1/topics")
            assert reply.json == {"items": [{**_DEFAULTS, "counts": {"scheduled": 2}}], "next_cursor": None}

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
        ({"mode": "push"}, "not-supported-yet", "/mode", "supported: pull"),
        ({"handover": "strict"}, "not-supported-yet", "/handover", "supported: fast"),
        ({"target": {"url": "http://x"}}, "not-supported-yet", "/target", "not supported yet"),
        ({"retry": {}}, "not-supported-yet", "/retry", "not supported yet"),
        ({"rate": {}}, "not-supported-yet", "/rate", "not supported yet"),
        ({"dead_letter": "x"}, "not-supported-yet", "/dead_letter", "not supported yet"),
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
