"""Pull and ack over a real socket."""

import asyncio
from typing import Any

import pytest

from api.timestamp import render_time
from tests.api.harness import run, running
from tests.api.memory_port import NOW_MS


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
            assert (unknown.status, unknown.json["code"]) == (404, "unknown-topic")

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


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({"max": 0}, "invalid-field", "/max", "1 to 1000"),
        ({"max": 1001}, "invalid-field", "/max", "1 to 1000"),
        ({"max": "5"}, "invalid-field", "/max", "whole number"),
        ({"wait": "31s"}, "invalid-field", "/wait", "30s at most"),
        ({"lease": "10ms"}, "invalid-field", "/lease", "1s to 12h"),
        ({"tags": "eu || us"}, "not-supported-yet", "/tags", "not supported yet"),
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


def test_ack() -> None:
    """One result per receipt in order; what cannot be a receipt is `invalid` and never reaches the port."""

    async def story() -> None:
        async with running() as client:
            await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
            receipt = (await client.send("POST", "/v1/topics/a/pull")).json["messages"][0]["receipt"]
            stale = receipt[:-1] + "0"
            receipts = [receipt, "forged", stale, "é", "x" * 513, receipt]
            reply = await client.send("POST", "/v1/topics/a/ack", {"receipts": receipts})
            assert reply.status == 200
            assert reply.json == {
                "results": [
                    {"receipt": text, "result": result}
                    for text, result in zip(
                        receipts, ["acked", "invalid", "stale", "invalid", "invalid", "acked"], strict=True
                    )
                ]
            }
            reply = await client.send("POST", "/v1/topics/a/ack", {"receipts": ["é"]})
            assert reply.json == {"results": [{"receipt": "é", "result": "invalid"}]}

    run(story())


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({}, "/receipts"),
        ({"receipts": []}, "/receipts"),
        ({"receipts": "r"}, "/receipts"),
        ({"receipts": ["r", 5]}, "/receipts/1"),
        ({"receipts": ["r"] * 10_001}, "/receipts"),
        ({"receipts": ["r"], "lease": "5s"}, "/lease"),
    ],
)
def test_bad_acks(sent: dict[str, Any], pointer: str) -> None:
    """Receipts are required, bounded strings."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/topics/a/ack", sent)
            assert reply.status == 422
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]

    run(story())


def test_nack_and_extend_are_to_come() -> None:
    """They are verbs of the contract, refused as not supported yet."""

    async def story() -> None:
        async with running() as client:
            for verb in ("nack", "extend"):
                reply = await client.send("POST", f"/v1/topics/a/{verb}", {"receipts": ["r"]})
                assert (reply.status, reply.json["code"]) == (422, "not-supported-yet")

    run(story())
