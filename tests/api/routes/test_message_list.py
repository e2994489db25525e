"""Which messages there are, over a real socket: what is asked for, what is answered, and each fault by its name."""

import pytest

from api.port.timestamp import render_time
from tests.api.harness import Client, check_problem, run, running
from tests.api.memory_queries import NOW_MS


async def _fill(client: Client) -> None:
    """Due now, in 1, 2 .. 5 minutes; every other one tagged eu; the last one of topic b, and one cancelled."""
    for minute in range(6):
        sent = {"topic": "ab"[minute == 5], "body": {"n": minute}, "delay": f"{minute}m", "tags": ["eu"][minute % 2 :]}
        await client.send("POST", "/v1/messages", sent)
    await client.send("DELETE", "/v1/messages/" + "0" * 25 + "1")


@pytest.mark.parametrize(
    ("query", "minutes"),
    [
        ("", [0, 2, 3, 4, 5]),
        ("?topic=a", [0, 2, 3, 4]),
        ("?tag=eu", [0, 2, 4]),
        ("?state=cancelled", [1]),
        (f"?from={NOW_MS + 60_000}&to={NOW_MS + 240_000}", [2, 3]),
        ("?limit=2", [0, 2]),
        ("?limit=2&cursor=2", [3, 4]),
        ("?state=dead", []),
    ],
)
def test_list(query: str, minutes: list[int]) -> None:
    """By topic, window, tag, states and page: each as GET shows it, without its history."""

    async def story() -> None:
        async with running() as client:
            await _fill(client)
            reply = await client.send("GET", f"/v1/messages{query}")
            assert reply.status == 200
            assert [item["body"] for item in reply.json["items"]] == [{"n": minute} for minute in minutes]
            for item in reply.json["items"]:
                shown = (await client.send("GET", f"/v1/messages/{item['id']}?ledger=false")).json
                assert item == {name: value for name, value in shown.items() if name != "history"}
            more = (query, minutes) in (("?limit=2", [0, 2]), ("?limit=2&cursor=2", [3, 4]))
            assert (reply.json["next_cursor"] is not None) == more

    run(story())


def test_without_bodies() -> None:
    """Only where it is said."""

    async def story() -> None:
        async with running() as client:
            await _fill(client)
            (first, *_) = (await client.send("GET", "/v1/messages?body=false")).json["items"]
            assert first["due"] == render_time(NOW_MS)
            assert not {"body", "body_base64", "history"} & first.keys()
            (first, *_) = (await client.send("GET", "/v1/messages?body=true")).json["items"]
            assert first["body"] == {"n": 0}

    run(story())


@pytest.mark.parametrize(
    ("query", "parameter", "code", "detail"),
    [
        ("limit=0", "limit", "invalid-field", "1 to 1000"),
        ("limit=1001", "limit", "invalid-field", "1 to 1000"),
        ("body=no", "body", "invalid-field", '"true" or "false"'),
        ("cursor=", "cursor", "invalid-field", "next_cursor"),
        ("state=gone", "state", "invalid-field", "states are"),
        ("state=half", "state", "not-supported-yet", "half"),
        ("from=2&to=1", "from", "invalid-field", "seconds"),
        (f"from={NOW_MS}&to={NOW_MS - 1}", "from", "invalid-field", "not after to"),
        ("order_key=k", "order_key", "not-supported-yet", "not supported yet"),
        ("schedule=s", "schedule", "not-supported-yet", "not supported yet"),
        ("transaction=t", "transaction", "not-supported-yet", "not supported yet"),
    ],
)
def test_faults(query: str, parameter: str, code: str, detail: str) -> None:
    """Each names the parameter and its limit."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("GET", f"/v1/messages?{query}")
            problem = check_problem(reply, 422, code)
            (fault,) = [each for each in problem["errors"] if each["parameter"] == parameter]
            assert detail in fault["detail"]

    run(story())
