"""Moving leadership over a real socket."""

from typing import Any

import pytest

from tests.api.harness import run, running


def test_transfer() -> None:
    """To a node by name or to the best; the answer says what it was and what it is."""

    async def story() -> None:
        async with running() as client:
            for sent in ({"to": "n2"}, {}, None):
                reply = await client.send("POST", "/v1/cluster/transfer", sent)
                assert reply.status == 200
                account = {"gap_ms": 9, "in_flight_carried": 4, "repeated": 0}
                moved = {"from": "n1", "to": "n2", "term_before": 7, "term_after": 8, "took_ms": 12}
                assert reply.json == moved | account
            reply = await client.send("POST", "/v1/cluster/transfer", {"to": "n9"})
            assert (reply.status, reply.json["code"]) == (404, "unknown-node")

    run(story())


def test_upgrade() -> None:
    """The level as it is then; who lags is named."""

    async def story() -> None:
        async with running() as client:
            for sent in ({"level": 2}, {}, None):
                reply = await client.send("POST", "/v1/cluster/upgrade", sent)
                assert (reply.status, reply.json) == (200, {"level": 2})
            reply = await client.send("POST", "/v1/cluster/upgrade", {"level": 3})
            assert (reply.status, reply.json["code"], reply.json["node"]) == (422, "not-supported-yet", "n3")
            for wrong in ("2", 2.0, True, 0, 256, -1):
                reply = await client.send("POST", "/v1/cluster/upgrade", {"level": wrong})
                assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/level"), wrong

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointer", "says"),
    [
        ({"to": 3}, "invalid-field", "/to", 'a node\'s id such as "n2", got a whole number'),
        ({"to": None}, "invalid-field", "/to", "leave the field out"),
        ({"to": ""}, "invalid-field", "/to", "1 to 64 characters"),
        ({"to": "n 2"}, "invalid-field", "/to", "GET /v1/cluster"),
        ({"node": "n2"}, "unknown-field", "/node", "known fields: to"),
    ],
)
def test_bad_transfers(sent: dict[str, Any], code: str, pointer: str, says: str) -> None:
    """A node is named by its id."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/cluster/transfer", sent)
            assert (reply.status, reply.json["code"]) == (422, code)
            assert [error["pointer"] for error in reply.json["errors"]] == [pointer]
            assert says in reply.json["errors"][0]["detail"]

    run(story())
