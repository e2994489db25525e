"""The header `Idempotency-Key`: which routes take it, what is a repeat, and what is refused."""

from typing import Any

import pytest

from api.serve import ROUTES
from tests.api.harness import check_problem, run, running

ORDER: dict[str, Any] = {"topic": "orders", "body": 1}
TAKES = {
    ("POST", "/v1/messages"),
    ("PATCH", "/v1/messages/{id}"),
    ("DELETE", "/v1/messages/{id}"),
    ("PUT", "/v1/topics/{topic}"),
    ("PATCH", "/v1/topics/{topic}"),
    ("DELETE", "/v1/topics/{topic}"),
    ("POST", "/v1/operations"),
    ("POST", "/v1/messages/cancel"),
    ("POST", "/v1/messages/shift"),
    ("POST", "/v1/messages/redrive"),
}


def key(name: str = "a") -> dict[str, str]:
    """The header."""
    return {"Idempotency-Key": name}


def test_routes_that_take_none_say_so() -> None:
    """422 with the header's name, on every route that changes something and takes no key."""
    takes_none = [(each.method, each.pattern) for each in ROUTES if each.method != "GET" and not each.keyed]
    assert {(each.method, each.pattern) for each in ROUTES if each.keyed} == TAKES
    assert ("POST", "/v1/messages/batch") in takes_none

    async def story() -> None:
        async with running() as client:
            for method, pattern in takes_none:
                path = pattern.replace("{topic}", "orders").replace("{id}", "x")
                problem = check_problem(await client.send(method, path, ORDER, key()), 422, "invalid-field", "")
                assert problem["errors"][0]["header"] == "Idempotency-Key", path
            assert (await client.send("GET", "/v1/topics", headers=key())).status == 200

    run(story())


def test_a_repeat_and_another_request() -> None:
    """The same answer with the header; another body, query or If-Match under the key is refused."""

    async def story() -> None:
        async with running() as client:
            first = await client.send("POST", "/v1/messages", b'{"topic": "orders", "body": 1}', key())
            again = await client.send("POST", "/v1/messages", b'{"body":1,"topic":"orders"}', key())
            assert (first.status, first.body) == (again.status, again.body)
            assert "idempotency-replayed" not in first.headers
            assert again.headers["idempotency-replayed"] == "true"
            for body in (ORDER | {"body": 2}, ORDER | {"delay": "1h"}):
                refused = check_problem(await client.send("POST", "/v1/messages", body, key()), 422, "key-reused", "")
                assert refused["errors"][0]["header"] == "Idempotency-Key"
            sent = await client.send("PUT", "/v1/topics/a", {}, key("t") | {"If-Match": "*"})
            assert sent.status == 200
            check_problem(await client.send("PUT", "/v1/topics/a", {}, key("t")), 422, "key-reused", "")

    run(story())


@pytest.mark.parametrize("bad", ["", "   ", "k" * 256])
def test_keys_that_are_none(bad: str) -> None:
    """422 with the header's name and the limit."""

    async def story() -> None:
        async with running() as client:
            problem = check_problem(
                await client.send("POST", "/v1/messages", ORDER, key(bad)), 422, "invalid-field", ""
            )
            assert "255" in problem["detail"]
            longest = await client.send("POST", "/v1/messages", ORDER, key("k" * 255))
            assert longest.status == 201

    run(story())


def test_where_it_does_not_go() -> None:
    """Beside the field key with reject or keep, and with a dry run."""

    async def story() -> None:
        async with running() as client:
            for rule in ({}, {"on_conflict": "reject"}, {"on_conflict": "keep"}):
                body = ORDER | {"key": "k"} | rule
                problem = check_problem(
                    await client.send("POST", "/v1/messages", body, key()), 422, "invalid-field", ""
                )
                assert problem["errors"][0]["header"] == "Idempotency-Key"
            for rule in ({"on_conflict": "replace"}, {"on_conflict": "extend"}):
                reply = await client.send("POST", "/v1/messages", ORDER | {"key": "k"} | rule, key(str(rule)))
                assert reply.status in (200, 201)
            dry = {"topic": "orders", "dry_run": True}
            check_problem(await client.send("POST", "/v1/messages/cancel", dry, key("d")), 422, "invalid-field", "")

    run(story())
