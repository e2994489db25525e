"""/v1/messages/batch over a real socket: a result per line, and what refuses the whole."""

import msgpack
import msgspec

from api.port.port import Limits
from api.port.problem import Problem
from api.port.timestamp import render_time
from tests.api.harness import check_problem, run, running
from tests.api.memory_port import MemoryPort
from tests.api.memory_queries import NOW_MS

_DUE = render_time(NOW_MS + 1_800_000)
_ORDER = {"topic": "orders", "body": {"n": 1}, "delay": "30m"}


def test_batch() -> None:
    """200, NDJSON, one line per line in order; the broken line says so and the others go through."""

    async def story() -> None:
        async with running() as client:
            lines = [
                msgspec.json.encode(_ORDER),
                b'{"topic":"orders","body":',
                msgspec.json.encode({**_ORDER, "key": "k"}),
                msgspec.json.encode({**_ORDER, "key": "k", "delay": "1m"}),
                msgspec.json.encode({**_ORDER, "key": "k"}),
            ]
            reply = await client.batch(b"\n".join(lines))
            assert reply.status == 200
            assert reply.headers["content-type"] == "application/x-ndjson"
            one, two, three, four, five = reply.lines
            assert one == {"line": 1, "id": "0" * 26, "due": _DUE}
            assert (two["line"], two["error"]["code"], two["error"]["status"]) == (2, "malformed-line", 400)
            assert three == {"line": 3, "id": "0" * 25 + "1", "due": _DUE}
            assert (four["error"]["code"], four["error"]["id"]) == ("key-conflict", three["id"])
            assert five == {**three, "line": 5, "outcome": "replayed", "replayed": True}
            assert len(client.port.held) == 2

    run(story())


def test_batch_in_msgpack() -> None:
    """The answer is that to the same lines. With `atomic` too, and no other type is taken."""

    async def story() -> None:
        async with running() as client:
            headers = {"Content-Type": "application/msgpack"}
            packed = msgpack.packb([_ORDER, {**_ORDER, "body": b"\x00"}, {"topic": "orders"}])
            reply = await client.send("POST", "/v1/messages/batch", packed, headers)
            assert (reply.status, reply.headers["content-type"]) == (200, "application/x-ndjson")
            one, two, three = reply.lines
            assert (one, two["line"]) == ({"line": 1, "id": "0" * 26, "due": _DUE}, 2)
            assert (three["line"], three["error"]["errors"][0]["pointer"]) == (3, "/body")
            path = "/v1/messages/batch?atomic=true"
            refused = check_problem(await client.send("POST", path, packed, headers), 422, "invalid-field")
            assert [each["line"] for each in refused["errors"]] == [1, 2, 3]
            keyed = msgpack.packb([{**_ORDER, "key": "k1"}, {**_ORDER, "key": "k2"}])
            assert (await client.send("POST", path, keyed, headers)).status == 201
            assert len(client.port.held) == 4
            reply = await client.send("POST", path, keyed, {"Content-Type": "application/x-msgpack"})
            assert "or application/msgpack" in check_problem(reply, 415, "unsupported-media-type")["detail"]

    run(story())


def test_batch_of_only_bad_lines() -> None:
    """Nothing is scheduled, and the request still has its result per line."""

    async def story() -> None:
        async with running() as client:
            reply = await client.batch(b"{\n[]\n")
            assert reply.status == 200
            assert [line["error"]["code"] for line in reply.lines] == ["malformed-line", "invalid-field"]
            assert client.port.principals == []

    run(story())


def test_batch_rows_that_failed_later() -> None:
    """A message the service could not place has its problem in its line."""

    async def story() -> None:
        async with running() as client:
            client.port.fails = {1: Problem("outcome-unknown", "leadership was lost")}
            reply = await client.batch(b"\n".join([msgspec.json.encode(_ORDER)] * 2))
            assert "error" not in reply.lines[0]
            assert reply.lines[1]["error"]["code"] == "outcome-unknown"
            client.port.fails = {0: Problem("outcome-unknown", "leadership was lost")}
            check_problem(await client.send("POST", "/v1/messages", _ORDER), 504, "outcome-unknown")

    run(story())


def test_batch_limits_and_parameters() -> None:
    """Lines, bytes, atomic and unknown parameters are each refused by name."""

    async def story() -> None:
        async with running(MemoryPort(limits=Limits(batch_lines_max=2, batch_bytes_max=4000))) as client:
            line = msgspec.json.encode(_ORDER) + b"\n"
            many = check_problem(await client.batch(line * 3), 413, "too-large")
            assert "2 lines" in many["detail"]
            long = check_problem(await client.batch(b" " * 4001), 413, "too-large")
            assert "4000 bytes" in long["detail"]
            check_problem(await client.batch(b""), 422, "invalid-field", "")
            atomic = await client.batch(line, "/v1/messages/batch?atomic=yes")
            problem = check_problem(atomic, 422, "invalid-field", "")
            assert problem["errors"][0]["parameter"] == "atomic"
            unknown = await client.batch(line, "/v1/messages/batch?atomik=true")
            assert check_problem(unknown, 422, "unknown-field", "")["errors"][0]["parameter"] == "atomik"
            assert (await client.batch(line, "/v1/messages/batch?atomic=false")).status == 200

    run(story())


def test_all_or_none() -> None:
    """201 with all lines, also when they come again; 422 with each line at fault by its number and code, and nothing
    is scheduled."""

    async def story() -> None:
        async with running() as client:
            keyed = [msgspec.json.encode({**_ORDER, "key": f"k{row}"}) for row in range(3)]
            path = "/v1/messages/batch?atomic=true"
            first = await client.batch(b"\n".join(keyed), path)
            assert (first.status, [line["line"] for line in first.lines]) == (201, [1, 2, 3])
            again = await client.batch(b"\n".join(keyed), path)
            assert again.status == 201
            assert again.lines == [{**line, "outcome": "replayed", "replayed": True} for line in first.lines]
            count = len(client.port.held)
            wrong = [
                msgspec.json.encode({**_ORDER, "key": "new"}),
                b"{",
                msgspec.json.encode(_ORDER),
                msgspec.json.encode({**_ORDER, "key": "new"}),
                msgspec.json.encode({**_ORDER, "key": "k1", "dealy": 1}),
            ]
            problem = check_problem(await client.batch(b"\n".join(wrong), path), 422, "invalid-field")
            assert problem["detail"].startswith("4 of the lines cannot be scheduled, so none was; the first is line 2")
            assert [(each["line"], each["code"], each["pointer"]) for each in problem["errors"]] == [
                (2, "malformed-line", ""),
                (3, "invalid-field", "/key"),
                (4, "invalid-field", "/key"),
                (5, "unknown-field", "/dealy"),
            ]
            taken = msgspec.json.encode({**_ORDER, "key": "k1", "delay": "31m"})
            refused = check_problem(await client.batch(wrong[0] + b"\n" + taken, path), 422, "invalid-field", "/key")
            assert [(each["line"], each["code"]) for each in refused["errors"]] == [(2, "key-conflict")]
            assert len(client.port.held) == count
            large = b'{"topic":"a","key":"k","body":"' + b"x" * (4 << 20) + b'"}'
            assert "4194304 bytes" in check_problem(await client.batch(large, path), 413, "too-large")["detail"]

    run(story())


def test_lines_that_change_holders_in_an_atomic_batch() -> None:
    """Each says what it did. 1,000 of them are taken, and the lines beyond are named."""

    async def story() -> None:
        async with running() as client:
            path = "/v1/messages/batch?atomic=true"
            plain = [{**_ORDER, "key": f"k{row}"} for row in range(1_002)]
            assert (await client.batch(b"\n".join(map(msgspec.json.encode, plain)), path)).status == 201
            rules = ["replace", "extend"] * 501
            changing = [{**line, "on_conflict": rule} for line, rule in zip(plain, rules, strict=True)]
            lines = [msgspec.json.encode(line) for line in changing]
            problem = check_problem(await client.batch(b"\n".join(lines), path), 422, "invalid-field")
            assert [each["pointer"] for each in problem["errors"]] == ["/on_conflict"] * 2
            assert [each["line"] for each in problem["errors"]] == [1_001, 1_002]
            assert "at most 1000 lines that replace or extend" in problem["errors"][0]["detail"]
            done = await client.batch(b"\n".join(lines[:1_000]), path)
            assert (done.status, [line["outcome"] for line in done.lines[:2]]) == (201, ["replaced", "extended"])

    run(story())
