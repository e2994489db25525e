"""Ack, nack and extend over a real socket."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.routes.receipt import render_results
from tests.api.harness import Client, run, running


async def _pulled(client: Client, count: int = 1) -> list[str]:
    """Receipts of new messages of topic a."""
    for _ in range(count):
        await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
    reply = await client.send("POST", "/v1/topics/a/pull")
    return [each["receipt"] for each in reply.json["messages"]]


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


def test_nack() -> None:
    """Messages are given back, to come again at once, after a delay, or as the policy has it; results are in place."""

    async def story() -> None:
        async with running() as client:
            now, later, policy = await _pulled(client, 3)
            wishes: tuple[tuple[dict[str, Any], int], ...] = (
                ({"receipts": [now, "é"], "delay": 0}, 0),
                ({"receipts": [later, "é"], "delay": "3m"}, 180_000),
                ({"receipts": [policy, "é"]}, 1_000),
            )
            for sent, due_in_ms in wishes:
                reply = await client.send("POST", "/v1/topics/a/nack", sent)
                assert reply.status == 200
                assert reply.json["results"] == [
                    {"receipt": sent["receipts"][0], "result": "nacked"},
                    {"receipt": "é", "result": "invalid"},
                ]
                held = client.port.held[sent["receipts"][0].split("-")[1]]
                assert (held.state, held.due_ms - client.port.clock_ms) == ("scheduled", due_in_ms)
            again = (await client.send("POST", "/v1/topics/a/pull")).json["messages"]
            assert [each["attempt"] for each in again] == [2]
            reply = await client.send("POST", "/v1/topics/a/nack", {"receipts": [now, again[0]["receipt"], "forged"]})
            assert [each["result"] for each in reply.json["results"]] == ["stale", "nacked", "invalid"]

    run(story())


def test_a_nack_that_does_not_count() -> None:
    """For whoever did not begin; what is neither true nor false is refused."""

    async def story() -> None:
        async with running() as client:
            (receipt,) = await _pulled(client, 1)
            body = {"receipts": [receipt], "delay": 0}
            assert (await client.send("POST", "/v1/topics/a/nack", body)).status == 200
            (again,) = (await client.send("POST", "/v1/topics/a/pull")).json["messages"]
            body = {"receipts": [again["receipt"]], "delay": 0}
            assert (await client.send("POST", "/v1/topics/a/nack", body | {"counted": 0})).status == 422
            assert (await client.send("POST", "/v1/topics/a/nack", body | {"counted": False})).status == 200
            (held,) = (await client.send("POST", "/v1/topics/a/pull")).json["messages"]
            assert held["attempt"] == 3

    run(story())


def test_extend() -> None:
    """Leases end later: by the topic's own lease, or by what was asked for."""

    async def story() -> None:
        async with running() as client:
            (receipt,) = await _pulled(client)
            held = client.port.held[receipt.split("-")[1]]
            for sent, ends_in_ms in (
                ({"receipts": [receipt]}, 30_000),
                ({"receipts": [receipt], "lease": "2m"}, 120_000),
            ):
                reply = await client.send("POST", "/v1/topics/a/extend", sent)
                assert (reply.status, reply.json) == (200, {"results": [{"receipt": receipt, "result": "extended"}]})
                assert held.leased_until_ms - client.port.clock_ms == ends_in_ms

    run(story())


@pytest.mark.parametrize(
    ("verb", "sent", "code", "pointer", "says"),
    [
        ("nack", {"receipts": ["r"], "delay": "3651d"}, "beyond-max-delay", "/delay", "max_delay = 3650d"),
        ("nack", {"receipts": ["r"], "delay": -1}, "invalid-field", "/delay", "not negative"),
        ("nack", {"receipts": ["r"], "lease": "5s"}, "unknown-field", "/lease", "known fields: receipts, delay"),
        ("nack", {"delay": "1s"}, "invalid-field", "/receipts", "required"),
        ("extend", {"receipts": ["r"], "lease": "13h"}, "invalid-field", "/lease", "1s to 12h"),
        ("extend", {"receipts": ["r"], "leese": "1m"}, "unknown-field", "/leese", 'did you mean "lease"?'),
        ("extend", {"receipts": ["r"], "subscription": "x"}, "not-supported-yet", "/subscription", "not supported yet"),
    ],
)
def test_bad_nacks_and_extends(verb: str, sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """Each field's limit is named."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", f"/v1/topics/a/{verb}", sent)
            assert (reply.status, reply.json["code"]) == (422, code)
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
            assert says in reply.json["errors"][0]["detail"]

    run(story())


_PLAIN_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'))


@given(st.lists(st.tuples(_PLAIN_TEXT, st.sampled_from(["acked", "stale", "invalid"])), min_size=1, max_size=6))
def test_results_read_as_they_were(rows: list[tuple[str, str]]) -> None:
    """One result for all or a mixture: each receipt with its own."""
    receipts, results = [receipt for receipt, _ in rows], [result for _, result in rows]
    found = msgspec.json.decode(render_results(receipts, results))["results"]
    assert [(each["receipt"], each["result"]) for each in found] == rows
