"""The keys of messages over HTTP: what each answer says of the message that had the key."""

from tests.api.harness import check_problem, run, running

_ORDER = {"topic": "orders", "body": {"id": 7}, "delay": "30m"}


def test_keys() -> None:
    """Same request again: the first answer with Idempotency-Replayed; another request: 409 or the kept holder."""

    async def story() -> None:
        async with running() as client:
            keyed = {**_ORDER, "key": "k1"}
            first = await client.send("POST", "/v1/messages", keyed)
            client.port.clock_ms += 5_000
            for again in (keyed, {**keyed, "on_conflict": "keep"}):
                second = await client.send("POST", "/v1/messages", again)
                assert (second.status, second.json) == (201, {**first.json, "outcome": "replayed"})
                assert second.headers["idempotency-replayed"] == "true"
                assert second.headers["location"] == first.headers["location"]
            other = {**keyed, "delay": "31m"}
            conflict = check_problem(await client.send("POST", "/v1/messages", other), 409, "key-conflict", "/key")
            assert conflict["id"] == first.json["id"]
            kept = await client.send("POST", "/v1/messages", {**other, "on_conflict": "keep"})
            assert kept.status == 200
            assert kept.json == {**first.json, "outcome": "kept", "kept": True}

    run(story())


def test_replace_and_extend() -> None:
    """201 with the new message, 200 with the old one; both name the message before, and its revision is the ETag."""

    async def story() -> None:
        async with running() as client:
            keyed = {**_ORDER, "key": "k1", "on_conflict": "extend"}
            first = await client.send("POST", "/v1/messages", keyed)
            assert (first.status, first.json["outcome"], "previous" in first.json) == (201, "created", False)
            again = {**keyed, "delay": "45m", "extend": {"max_wait": "2h"}}
            extended = await client.send("POST", "/v1/messages", again)
            before = {"id": first.json["id"], "attempts_made": 0, "prior": "none"}
            assert (extended.status, extended.headers["etag"]) == (200, '"2"')
            assert extended.headers["location"] == f"/v1/messages/{first.json['id']}"
            assert extended.json == {
                **first.json,
                "due": extended.json["due"],
                "revision": 2,
                "outcome": "extended",
                "previous": before,
            }
            assert extended.json["due"] > first.json["due"]
            replaced = await client.send("POST", "/v1/messages", {**keyed, "on_conflict": "replace"})
            assert (replaced.status, replaced.headers["etag"], replaced.json["revision"]) == (201, '"1"', 1)
            assert (replaced.json["outcome"], replaced.json["previous"]) == ("replaced", before)
            assert replaced.headers["location"] == f"/v1/messages/{replaced.json['id']}"
            assert replaced.json["id"] != first.json["id"]

    run(story())
