"""Pull over a real socket."""

import asyncio
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.port import Delivery, Principal, PullIn
from api.port.timestamp import render_time
from api.routes.pull import render_pull
from tests.api.harness import run, running, talk
from tests.api.memory_queries import NOW_MS
from tests.pace import lines_run


def test_pull_shows_the_whole_message() -> None:
    """Every field of the contract, the body byte for byte, texts escaped."""

    async def story() -> None:
        async with running() as client:
            text = (
                b'{"topic":"orders","body":{ "n" : 1.0 },"tags":["e\\"u","\xc3\xa9"],'
                b'"headers":{"X-A":"b\\\\"},"key":"k\\"1"}'
            )
            id_text = (await client.send("POST", "/v1/messages", text)).json["id"]
            client.port.clock_ms += 7
            reply = await client.send("POST", "/v1/topics/orders/pull", {"max": 10, "lease": "1m"})
            assert reply.status == 200
            assert reply.headers["content-type"] == "application/json"
            assert b'"body":{ "n" : 1.0 }' in reply.body
            assert reply.json == {
                "messages": [
                    {
                        "id": id_text,
                        "receipt": f"r-{id_text}-1",
                        "attempt": 1,
                        "term": 7,
                        "leased_until": render_time(NOW_MS + 7 + 60_000),
                        "topic": "orders",
                        "tags": ['e"u', "é"],
                        "headers": {"X-A": "b\\"},
                        "key": 'k"1',
                        "content_type": "application/json",
                        "due": render_time(NOW_MS),
                        "asked_due": render_time(NOW_MS),
                        "created": render_time(NOW_MS + 7),
                        "handed_over": render_time(NOW_MS + 7),
                        "lateness_ms": 7,
                        "priority": 0,
                        "order_key": None,
                        "body": {"n": 1.0},
                    }
                ]
            }

    run(story())


def test_opaque_bodies_and_several() -> None:
    """Plain and opaque messages in one answer; `max` bounds it."""

    async def story() -> None:
        async with running() as client:
            await client.send("POST", "/v1/messages", {"topic": "a", "body_base64": "AP8=", "content_type": "x/y"})
            await client.send("POST", "/v1/messages", {"topic": "a", "body": None})
            await client.send("POST", "/v1/messages", {"topic": "a", "body": 3})
            found = (await client.send("POST", "/v1/topics/a/pull", {"max": 2})).json["messages"]
            assert (found[0]["body_base64"], found[0]["content_type"], found[0]["key"]) == ("AP8=", "x/y", None)
            assert "body" not in found[0]
            assert (found[1]["body"], found[1]["tags"], found[1]["headers"]) == (None, [], {})
            assert len(found) == 2

    run(story())


def test_an_empty_pull() -> None:
    """Without a wait the answer is empty at once; no body at all means the defaults."""

    async def story() -> None:
        async with running() as client:
            for body in (None, {}, {"wait": "0s"}, {"wait": 10, "max": 1000}):
                reply = await client.send("POST", "/v1/topics/a/pull", body)
                assert (reply.status, reply.json) == (200, {"messages": []})
            unknown = await client.send("POST", "/v1/topics/nowhere/pull", {})
            assert (unknown.status, unknown.json) == (200, {"messages": []})

    run(story())


def test_a_waiting_pull_gets_what_comes() -> None:
    """A message that arrives during the wait ends it."""

    async def story() -> None:
        async with running() as client:
            pull = asyncio.create_task(client.send("POST", "/v1/topics/a/pull", {"wait": "30s"}))
            await client.port.waiting.wait()
            await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
            assert [each["body"] for each in (await pull).json["messages"]] == [1]

    run(story())


def test_a_client_that_goes_ends_its_wait() -> None:
    """The closed connection cancels the port's wait, so no lease is made for nobody."""

    async def story() -> None:
        async with running() as client:
            reader, writer = await asyncio.open_connection(*client.server.address)
            body = b'{"wait":"30s"}'
            writer.write(b"POST /v1/topics/a/pull HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await client.port.waiting.wait()
            writer.close()
            await client.port.wait_ended.wait()
            assert await reader.read() == b""

    run(story())


def test_a_pull_knows_whether_its_client_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment at which the connection begins to close; and nothing is written to it from then on."""

    async def story() -> None:
        async with running() as client:
            gone: list[bool] = []

            async def pull(request: PullIn, principal: Principal) -> list[Delivery]:
                gone.append(request.gone())
                (connection,) = client.server._listener.connections
                assert connection.transport is not None
                connection.transport.close()
                gone.append(request.gone())
                return []

            monkeypatch.setattr(client.port, "pull", pull)
            body = b"{}"
            head = b"POST /v1/topics/a/pull HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            assert await talk(client.server, head + body) == b""
            assert gone == [False, True]

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({"max": 0}, "invalid-field", "/max", "1 to 1000"),
        ({"max": 1001}, "invalid-field", "/max", "1 to 1000"),
        ({"max": "5"}, "invalid-field", "/max", "whole number"),
        ({"wait": "31s"}, "invalid-field", "/wait", "30s at most"),
        ({"lease": "10ms"}, "invalid-field", "/lease", "1s to 12h"),
        ({"tags": "eu us"}, "invalid-field", "/tags", "at character 4"),
        ({"tags": ["eu"]}, "invalid-field", "/tags", 'a string such as "eu || us", got an array'),
        ({"subscription": "default"}, "not-supported-yet", "/subscription", "not supported yet"),
        ({"maximum": 5}, "unknown-field", "/maximum", '"max"'),
    ],
)
def test_bad_pulls(sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """Each limit from the outside."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/topics/a/pull", sent)
            assert (reply.status, reply.json["code"]) == (422, code)
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
            assert says in reply.json["errors"][0]["detail"]

    run(story())


def test_tags() -> None:
    """A filter reaches the port as groups, and only what matches is handed over."""

    async def story() -> None:
        async with running() as client:
            for tags in (["eu", "vip"], ["us"], ["eu"], []):
                await client.send("POST", "/v1/messages", {"topic": "a", "body": tags, "tags": tags})
            for wish, bodies in (("eu && vip || us", [["eu", "vip"], ["us"]]), ("*", [["eu"], []]), ("", [])):
                reply = await client.send("POST", "/v1/topics/a/pull", {"tags": wish})
                assert [each["body"] for each in reply.json["messages"]] == bodies

    run(story())


def _delivery(number: int, **changes: Any) -> Delivery:
    plain = Delivery(
        id=f"{number:026d}",
        receipt=f"r{number:04d}",
        attempt=1,
        term=7,
        leased_until_ms=NOW_MS + 30_000,
        topic="orders",
        due_ms=NOW_MS + number,
        asked_due_ms=NOW_MS + number,
        created_ms=NOW_MS - 60_000,
        handed_over_ms=NOW_MS + 1_000,
        body=b'{"n":1}',
    )
    return msgspec.structs.replace(plain, **changes)


_TEXT = st.text(max_size=6)
_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "attempt": st.integers(1, 65_535),
        "term": st.sampled_from([7, 8]),
        "leased_until_ms": st.sampled_from([NOW_MS, NOW_MS + 1]),
        "handed_over_ms": st.sampled_from([NOW_MS - 5, NOW_MS + 10**10]),
        "asked_due_ms": st.integers(0, NOW_MS),
        "body": st.sampled_from(["é".join('""').encode(), b"[ ]", b"null"]),
        "tags": st.lists(_TEXT, max_size=2).map(tuple),
        "headers": st.dictionaries(_TEXT, _TEXT, max_size=2),
        "key": _TEXT,
        "priority": st.integers(0, 9),
        "order_key": _TEXT,
        "dead": st.fixed_dictionaries({"id": _TEXT, "attempts": st.integers(1, 9)}),
    },
)


@given(st.lists(_CHANGES | _CHANGES.map(lambda changes: {**changes, "content_type": 'x/y"'}), max_size=5))
def test_an_answer_reads_as_its_messages(changes: list[dict[str, Any]]) -> None:
    """Whatever messages an answer is put together from, each reads back with all its members."""
    deliveries = [_delivery(number, **each) for number, each in enumerate(changes)]
    found = msgspec.json.decode(render_pull(deliveries))["messages"]
    assert len(found) == len(deliveries)
    for shape, one in zip(found, deliveries, strict=True):
        body = {"body_base64": b64encode(one.body).decode()} if one.content_type else {"body": json.loads(one.body)}
        assert shape == {
            "id": one.id,
            "receipt": one.receipt,
            "attempt": one.attempt,
            "term": one.term,
            "leased_until": render_time(one.leased_until_ms),
            "topic": one.topic,
            "tags": list(one.tags),
            "headers": one.headers or {},
            "key": one.key,
            "content_type": one.content_type or "application/json",
            "due": render_time(one.due_ms),
            "asked_due": render_time(one.asked_due_ms),
            "created": render_time(one.created_ms),
            "handed_over": render_time(one.handed_over_ms),
            "lateness_ms": max(0, one.handed_over_ms - one.asked_due_ms),
            "priority": one.priority,
            "order_key": one.order_key,
            **({"dead": one.dead} if one.dead else {}),
            **body,
        }


def test_a_message_more_costs_twenty_lines_more() -> None:
    """An answer of 1,000 messages is rendered by a line of Python for each field, and by nothing that looks again."""
    deliveries = [_delivery(number, body=b'"' + b"x" * 98 + b'"') for number in range(1000)]
    assert lines_run(lambda: render_pull(deliveries)) - lines_run(lambda: render_pull(deliveries[:1])) < 30 * 999
