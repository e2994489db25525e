"""/v1/messages over a real socket: the exact shapes of the contract, and of each refusal the issue names."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.budget import LOOK_UPS_MAX
from api.port.message import MessageView
from api.port.port import ANONYMOUS
from api.port.timestamp import render_time
from tests.api.harness import Client, check_problem, run, running
from tests.api.memory_queries import NOW_MS
from tests.examples import examples
from tests.waiting import turns, until

_DUE = render_time(NOW_MS + 1_800_000)
_ORDER = {"topic": "orders", "body": {"n": 1}, "delay": "30m"}


def test_schedule() -> None:
    """201 with the contract's five fields, Location, ETag and the headers of every answer."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/messages", _ORDER)
            assert reply.status == 201
            id_text = reply.json["id"]
            assert reply.json == {
                "id": id_text,
                "topic": "orders",
                "due": _DUE,
                "state": "scheduled",
                "revision": 1,
                "outcome": "created",
            }
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["location"] == f"/v1/messages/{id_text}"
            assert reply.headers["etag"] == '"1"'
            assert reply.headers["hourwheel-node"] == "n1"
            assert reply.headers["hourwheel-term"] == "7"
            assert reply.headers["date"] == "Sat, 21 Nov 2026 02:10:20 GMT"
            assert "idempotency-replayed" not in reply.headers
            assert client.port.principals == [ANONYMOUS]

    run(story())


def test_own_target_and_retry() -> None:
    """What the message said itself, and no more: a part of a policy stays a part."""

    async def story() -> None:
        async with running() as client:
            target = {"url": "https://example.com/x", "headers": {"X-A": "b"}, "timeout": "5s"}
            for sent, shown in (
                ({"target": target, "retry": {"max_attempts": 3}}, (target | {"method": "POST"}, {"max_attempts": 3})),
                (
                    {"target": {"url": "http://h/"}, "retry": {"min_backoff": "90s", "max_age": 0}},
                    (
                        {"url": "http://h/", "method": "POST", "headers": {}, "timeout": None},
                        {"min_backoff": "90s", "max_age": "0s"},
                    ),
                ),
            ):
                reply = await client.send("POST", "/v1/messages", {"topic": "a", "body": 1, **sent})
                found = (await client.send("GET", f"/v1/messages/{reply.json['id']}")).json
                assert (found["target"], found["retry"]) == shown

    run(story())


def test_look_up() -> None:
    """GET shows every field, the body as it came, and what is not known as null."""

    async def story() -> None:
        async with running() as client:
            text = b'{"topic":"orders","body": { "n" : 1.0 },"tags":["eu"],"headers":{"X-A":"b"},"key":"k"}'
            id_text = (await client.send("POST", "/v1/messages", text)).json["id"]
            reply = await client.send("GET", f"/v1/messages/{id_text}?ledger=false")
            now = render_time(NOW_MS)
            assert reply.status == 200
            assert b'"body":{ "n" : 1.0 }' in reply.body
            assert reply.json == {
                "id": id_text,
                "topic": "orders",
                "state": "scheduled",
                "due": now,
                "asked_due": now,
                "created": now,
                "revision": 1,
                "attempt": 0,
                "tags": ["eu"],
                "headers": {"X-A": "b"},
                "key": "k",
                "content_type": "application/json",
                "body": {"n": 1.0},
                "handed_over": None,
                "settled": None,
                "lateness_ms": None,
                "last_error": None,
                "target": None,
                "retry": None,
                "history": [{"at": now, "event": "scheduled", "node": "n1", "term": 7, "attempt": 0}],
            }
            assert reply.headers["etag"] == '"1"'
            local = await client.send("GET", f"/v1/messages/{id_text}?consistency=local")
            assert local.json["last_error"] == "local"
            bad = await client.send("GET", f"/v1/messages/{id_text}?consistency=eventual")
            check_problem(bad, 422, "invalid-field", "")

    run(story())


def test_b3_so_many_messages_are_looked_up_at_a_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds its message while it waits for its next turn: 500 of them held 250 MB."""

    async def story() -> None:
        async with running() as client:
            made = await client.send("POST", "/v1/messages", {"topic": "a", "body": 1})
            at_work, goes_on, message = [0, 0], asyncio.Event(), client.port.message

            async def held(*args: Any, **kwargs: Any) -> MessageView:
                at_work[0] += 1
                at_work[1] = max(at_work)
                await goes_on.wait()
                at_work[0] -= 1
                return await message(*args, **kwargs)

            monkeypatch.setattr(client.port, "message", held)
            path = f"/v1/messages/{made.json['id']}?ledger=false"
            asked = [asyncio.ensure_future(client.send("GET", path)) for _ in range(LOOK_UPS_MAX + 20)]
            await until(lambda: at_work[0] == LOOK_UPS_MAX)
            await until(lambda: len(client.server._listener.connections) >= len(asked))
            await turns()
            goes_on.set()
            assert {(await each).status for each in asked} == {200}
            assert at_work == [0, LOOK_UPS_MAX]

    run(story())


def test_opaque_body_comes_back_as_base64() -> None:
    """Bytes in, the same bytes out, with their content type."""

    async def story() -> None:
        async with running() as client:
            data = base64.b64encode(bytes(range(256))).decode()
            sent = {"topic": "a", "body_base64": data, "content_type": "image/png"}
            id_text = (await client.send("POST", "/v1/messages", sent)).json["id"]
            found = (await client.send("GET", f"/v1/messages/{id_text}")).json
            assert (found["body_base64"], found["content_type"]) == (data, "image/png")
            assert "body" not in found

    run(story())


def test_cancel() -> None:
    """200 twice; leased is 409 with what is known; unknown is 404; If-Match is honoured."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", _ORDER)).json["id"]
            path = f"/v1/messages/{id_text}"
            mismatch = await client.send("DELETE", path, headers={"If-Match": '"2"'})
            check_problem(mismatch, 412, "revision-mismatch")
            garbled = await client.send("DELETE", path, headers={"If-Match": "abc"})
            assert check_problem(garbled, 422, "invalid-field", "")["errors"][0]["header"] == "If-Match"
            for if_match in ({"If-Match": '"1"'}, {"If-Match": "*"}, {}):
                reply = await client.send("DELETE", path, headers=if_match)
                assert reply.status == 200
                assert reply.json == {"id": id_text, "result": "cancelled", "attempts_made": 0, "prior": "none"}
            client.port.held[id_text].state = "leased"
            leased = check_problem(await client.send("DELETE", path), 409, "leased")
            assert leased["attempt"] == 1
            assert leased["leased_until"] == render_time(NOW_MS + 30_000)
            for method in ("GET", "DELETE"):
                for unknown in ("0" * 25 + "Z", "not-an-id", "%C3%A9%00"):
                    check_problem(await client.send(method, f"/v1/messages/{unknown}"), 404, "unknown-message")

    run(story())


def test_reschedule() -> None:
    """200 with the new due time and revision; the same refusals as a cancel; If-Match is honoured."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", _ORDER)).json["id"]
            path = f"/v1/messages/{id_text}"
            revision = 1
            for sent, due_ms in (
                ({"delay": "1h"}, NOW_MS + 3_600_000),
                ({"deliver_at": "2026-11-21T03:00:00.0001Z"}, 1_795_230_000_001),
                ({"delay_level": 2}, NOW_MS + 5_000),
                ({"deliver_at": NOW_MS - 1}, NOW_MS),
            ):
                reply = await client.send("PATCH", path, sent, {"If-Match": f'"{revision}"'})
                revision += 1
                assert reply.status == 200
                assert reply.json == {
                    "id": id_text,
                    "topic": "orders",
                    "due": render_time(due_ms),
                    "state": "scheduled",
                    "revision": revision,
                }
                assert reply.headers["etag"] == f'"{revision}"'
            old = await client.send("PATCH", path, {"delay": "1h"}, {"If-Match": '"1"'})
            check_problem(old, 412, "revision-mismatch")
            client.port.held[id_text].state = "leased"
            check_problem(await client.send("PATCH", path, {"delay": "1h"}), 409, "leased")
            client.port.held[id_text].state = "delivered"
            check_problem(await client.send("PATCH", path, {"delay": "1h"}), 409, "already-settled")
            unknown = await client.send("PATCH", "/v1/messages/none", {"delay": "1h"})
            check_problem(unknown, 404, "unknown-message")

    run(story())


@pytest.mark.parametrize(
    ("sent", "code", "pointers", "says"),
    [
        ({}, "invalid-field", [""], "one of deliver_at, delay and delay_level is required"),
        ({"delay": "1s", "deliver_at": NOW_MS}, "invalid-field", ["/delay"], "at most one"),
        ({"delay": "1s", "delay_level": 1}, "invalid-field", ["/delay_level"], "at most one"),
        ({"delay": "3651d"}, "beyond-max-delay", ["/delay"], "max_delay = 3650d"),
        ({"delay_level": 99}, "invalid-field", ["/delay_level"], "1 to 18, standing for 1s 5s"),
        ({"delay": None}, "invalid-field", ["/delay"], "expected a string"),
        ({"delay": "1s", "body": 1}, "unknown-field", ["/body"], "cannot be changed here"),
        ({"delay": "1s", "revision": 1}, "unknown-field", ["/revision"], "known fields"),
        ({"dealy": "1s"}, "unknown-field", ["/dealy", ""], 'did you mean "delay"?'),
        ([], "invalid-field", [""], "JSON object"),
    ],
)
def test_bad_reschedules(sent: Any, code: str, pointers: list[str], says: str) -> None:
    """Each fault is named, and the message stays where it was."""

    async def story() -> None:
        async with running() as client:
            id_text = (await client.send("POST", "/v1/messages", _ORDER)).json["id"]
            problem = check_problem(await client.send("PATCH", f"/v1/messages/{id_text}", sent), 422, code)
            assert [error["pointer"] for error in problem["errors"]] == pointers
            assert says in problem["detail"]
            assert client.port.held[id_text].revision == 1

    run(story())


@pytest.mark.parametrize(
    ("sent", "status", "code", "pointer", "says"),
    [
        ({**_ORDER, "dealy": "3m"}, 422, "unknown-field", "/dealy", 'did you mean "delay"?'),
        ({**_ORDER, "delay": True}, 422, "invalid-field", "/delay", "expected a string or whole milliseconds"),
        ({"body": 1}, 422, "invalid-field", "/topic", "required"),
        ({**_ORDER, "deliver_at": NOW_MS}, 422, "invalid-field", "/delay", "at most one of deliver_at, delay and"),
        ({**_ORDER, "delay": "3651d"}, 422, "beyond-max-delay", "/delay", "max_delay = 3650d"),
        ({"topic": "a", "body": 1, "deliver_at": 1_795_227_020}, 422, "invalid-field", "/deliver_at", "seconds"),
        ({"topic": "a", "body": "x" * 262_143}, 413, "too-large", "/body", "262144 bytes, got 262145"),
        ({**_ORDER, "priority": 5}, 422, "not-supported-yet", "/priority", "not supported yet"),
        (b'{"topic":"a","body":"\xc3("}', 400, "malformed-json", None, "UTF-8 at byte 21"),
        (b'{"topic":', 400, "malformed-json", None, "truncated"),
    ],
)
def test_bad_input(sent: Any, status: int, code: str, pointer: str | None, says: str) -> None:
    """Each mistake the issue lists: which field, what limit, what to do; and nothing is scheduled."""

    async def story() -> None:
        async with running() as client:
            problem = check_problem(await client.send("POST", "/v1/messages", sent), status, code, pointer)
            assert says in problem["detail"]
            assert client.port.held == {}

    run(story())


def test_the_largest_body_is_taken() -> None:
    """A body of exactly the limit goes through, plain and as base64."""

    async def story() -> None:
        async with running() as client:
            plain = await client.send("POST", "/v1/messages", {"topic": "a", "body": "x" * 262_142})
            data = base64.b64encode(b"x" * 262_144).decode()
            opaque = await client.send("POST", "/v1/messages", {"topic": "a", "body_base64": data})
            assert (plain.status, opaque.status) == (201, 201)

    run(story())


def test_media_types() -> None:
    """JSON with parameters or without a type is taken; forms and others are 415 and say what to send."""

    async def story() -> None:
        async with running() as client:
            body = msgspec.json.encode(_ORDER)
            for content_type in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
                reply = await client.send("POST", "/v1/messages", body, {"Content-Type": content_type})
                assert reply.status == 201
            for content_type in ("application/x-www-form-urlencoded", "text/plain", "application/msgpack"):
                reply = await client.send("POST", "/v1/messages", body, {"Content-Type": content_type})
                assert "application/json" in check_problem(reply, 415, "unsupported-media-type")["detail"]
            reply = await client.send("POST", "/v1/messages", body, {"Content-Encoding": "br"})
            check_problem(reply, 415, "unsupported-media-type")
            reply = await client.send("POST", "/v1/messages/batch", body, {"Content-Type": "application/json"})
            assert "application/x-ndjson" in check_problem(reply, 415, "unsupported-media-type")["detail"]

    run(story())


async def _fuzz(client: Client, bodies: list[bytes]) -> None:
    for body in bodies:
        single = await client.send("POST", "/v1/messages", body)
        assert single.status in (201, 400, 413, 422), single.body
        batch = await client.batch(body)
        assert batch.status in (200, 422), batch.body
        pull = await client.send("POST", "/v1/topics/a/pull", body)
        assert pull.status in (200, 400, 422), pull.body
        topic = await client.send("PUT", "/v1/topics/a", body)
        assert topic.status in (200, 400, 422), topic.body
        ack = await client.send("POST", "/v1/topics/a/ack", body)
        assert ack.status in (200, 400, 422), ack.body
        for method, path in (
            ("POST", "/v1/topics/a/nack"),
            ("POST", "/v1/topics/a/extend"),
            ("POST", "/v1/messages/redrive"),
            ("POST", "/v1/cluster/transfer"),
            ("PATCH", "/v1/topics/a"),
            ("PATCH", f"/v1/messages/{0:026d}"),
        ):
            reply = await client.send(method, path, body)
            assert reply.status in (200, 400, 404, 409, 422), reply.body


_NAMES = (
    ("topic", "body", "delay", "deliver_at", "tags", "headers", "key", "max", "lease", "receipts", "paused", "x")
    + ("target", "url", "method", "timeout", "secret", "retry", "max_attempts", "min_backoff", "delay_level")
    + ("dead_letter", "mode", "to", "from", "tag", "dry_run")
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=6).map(msgspec.json.encode) | st.binary(
    max_size=40
)


@examples(15)
@given(st.lists(_DOCUMENTS, min_size=1, max_size=10))
def test_no_document_is_an_internal_error(bodies: list[bytes]) -> None:
    """Fuzz: any document on any route that takes one gets an answer of the contract, never 500."""

    async def story() -> None:
        async with running() as client:
            await _fuzz(client, bodies)

    run(story())
