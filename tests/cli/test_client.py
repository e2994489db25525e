"""schedule, get, cancel, pull, cluster status: what is sent, what is shown, and the exit code of each failure."""

import json
from pathlib import Path

import pytest

from cli.connection import Connection
from cli.failure import Failure, of_problem
from cli.run import cluster
from node.runtime.exit_code import SENTENCES, ExitCode, of_status
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

SCHEDULED = {"id": "0A", "topic": "orders", "due": "2026-11-21T02:10:20.125Z", "state": "scheduled", "revision": 1}


def test_schedule_sends_what_is_given_and_nothing_else(node: ScriptedNode, call: Call) -> None:
    """Options become fields of the contract; fields not given are not sent, so that the node's defaults hold."""
    node.say(201, SCHEDULED)
    result = call(
        *("schedule", "orders", '{"a": [1]}', "--delay", "30m", "--tag", "eu", "--tag", "vip"),
        *("--header", "x-trace=a=b", "--key", "17", "--on-conflict", "keep"),
    )
    assert result.exit_code == ExitCode.OK, result.output
    sent = {"topic": "orders", "body": {"a": [1]}, "delay": 1_800_000, "tags": ["eu", "vip"]}
    sent |= {"headers": {"x-trace": "a=b"}, "key": "17", "on_conflict": "keep"}
    assert node.requests == [("POST", "/v1/messages", sent)]
    assert "0A" in result.stdout
    assert "2026-11-21T02:10:20.125Z" in result.stdout


def test_schedule_times_in_milliseconds_are_numbers(node: ScriptedNode, call: Call) -> None:
    """--at and --delay take integers as milliseconds, as the contract does."""
    node.say(201, SCHEDULED)
    node.say(201, SCHEDULED)
    call("schedule", "orders", "null", "--at", "1800000000000")
    call("schedule", "orders", "null", "--delay", "250")
    assert node.requests[0][2] == {"topic": "orders", "body": None, "deliver_at": 1_800_000_000_000}
    assert node.requests[1][2] == {"topic": "orders", "body": None, "delay": 250}


@pytest.mark.parametrize("body", ['{"a" :1E2, "b": 12345678901234567890.123456789, "é": "\\u00e9"}', "1e400"])
def test_a_json_body_goes_out_as_it_was_written(node: ScriptedNode, call: Call, body: str) -> None:
    """The service keeps bodies byte for byte; to read and write the numbers again would change them."""
    node.say(201, SCHEDULED)
    assert call("schedule", "orders", body).exit_code == ExitCode.OK
    assert b'"body": ' + body.encode() + b"}" in node.bodies[0]


@pytest.mark.parametrize("body", ["NaN", "[-Infinity]", "[" * 20_000 + "]" * 20_000])
def test_what_python_alone_reads_as_json_is_refused(node: ScriptedNode, call: Call, body: str) -> None:
    """And so is what nests deeper than anybody reads; nothing is sent."""
    result = call("schedule", "orders", body)
    assert (result.exit_code, node.requests) == (ExitCode.USAGE, [])
    assert "not JSON" in result.stderr


@pytest.mark.parametrize(
    "args",
    [("schedule", "t", '"\udcff"'), ("schedule", "t", "1", "--tag", "\udcff"), ("schedule", "t", "--text", "\udcff")]
    + [("get", "\udcff"), ("pull", "\udcff"), ("ack", "t", "\udcff")],
)
def test_arguments_that_are_no_utf8_are_refused(node: ScriptedNode, call: Call, args: tuple[str, ...]) -> None:
    """The command line may hold any bytes: exit code 2 and a sentence, no traceback."""
    result = call(*args)
    assert (result.exit_code, node.requests) == (ExitCode.USAGE, [])


@pytest.mark.parametrize(
    ("args", "stdin", "sent"),
    [
        (("--text", "héllo"), None, {"body_base64": "aMOpbGxv", "content_type": "text/plain; charset=utf-8"}),
        (("--file", "-"), b"\x00\xff", {"body_base64": "AP8=", "content_type": "application/octet-stream"}),
        (("--file", "-", "--content-type", "image/png"), b"", {"body_base64": "", "content_type": "image/png"}),
    ],
)
def test_schedule_bodies_that_are_not_json(
    node: ScriptedNode, call: Call, args: tuple[str, ...], stdin: bytes | None, sent: dict[str, str]
) -> None:
    """Text and files go byte for byte."""
    node.say(201, SCHEDULED)
    assert call("schedule", "orders", *args, stdin=stdin).exit_code == ExitCode.OK
    assert node.requests[0][2] == {"topic": "orders"} | sent


@pytest.mark.parametrize(
    "args",
    [
        (),
        ('{"a":1}', "--text", "x"),
        ("not json",),
        ("1", "--content-type", "text/plain"),
        ("1", "--header", "novalue"),
        ("--file", "/nonexistent/body"),
    ],
)
def test_schedule_usage_errors_send_nothing(node: ScriptedNode, call: Call, args: tuple[str, ...]) -> None:
    """A command line that cannot be meant is refused before anything is sent."""
    result = call("schedule", "orders", *args)
    assert result.exit_code == ExitCode.USAGE, result.output
    assert not node.requests


def test_schedule_says_when_a_key_was_answered_before(node: ScriptedNode, call: Call) -> None:
    """A replayed answer is marked, in both forms."""
    node.say(201, SCHEDULED, {"Idempotency-Replayed": "true"})
    node.say(201, SCHEDULED, {"Idempotency-Replayed": "true"})
    assert "replayed" in call("schedule", "orders", "1", "--key", "k").stdout
    assert json.loads(call("schedule", "orders", "1", "--key", "k", "-o", "json").stdout)["replayed"] is True


def test_problem_is_shown_with_field_and_limit(node: ScriptedNode, call: Call) -> None:
    """A refusal names code, field and limit on stderr, and stdout stays empty; JSON output is the problem itself."""
    problem = {"code": "beyond-max-delay", "status": 422, "detail": "too far", "request_id": "r1"}
    problem["errors"] = [{"pointer": "/delay", "detail": "4000d is beyond max_delay 3650d"}]
    node.say(422, problem)
    node.say(422, problem)
    result = call("schedule", "orders", "1", "--delay", "4000d")
    assert result.exit_code == ExitCode.REFUSED
    assert result.stdout == ""
    for part in ("beyond-max-delay", "HTTP 422", "/delay: 4000d is beyond max_delay 3650d", "r1"):
        assert part in result.stderr
    assert json.loads(call("schedule", "orders", "1", "--delay", "4000d", "-o", "json").stderr) == problem


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ExitCode.REFUSED),
        (404, ExitCode.NOT_FOUND),
        (409, ExitCode.CONFLICT),
        (413, ExitCode.REFUSED),
        (429, ExitCode.UNAVAILABLE),
        (500, ExitCode.FAILED),
        (503, ExitCode.UNAVAILABLE),
        (504, ExitCode.UNKNOWN),
    ],
)
def test_exit_code_follows_the_status(node: ScriptedNode, call: Call, status: int, code: ExitCode) -> None:
    """Each kind of answer has its fixed exit code."""
    node.say(status, {"code": "some-code", "detail": "why"}, {"Retry-After": "2"})
    result = call("cancel", "0A")
    assert result.exit_code == code
    assert "some-code" in result.stderr
    assert "retry_after: 2 s" in result.stderr


def test_exit_codes_are_one_complete_table() -> None:
    """Every code has its sentence, and no number is used twice."""
    assert set(SENTENCES) == set(ExitCode)
    assert len({int(code) for code in ExitCode}) == len(ExitCode.__members__)
    assert of_status(201) == ExitCode.OK
    assert of_status(418) == ExitCode.FAILED


def test_nobody_listens(call: Call) -> None:
    """A refused connection says so, with the address, and nothing was sent."""
    result = call("get", "0A", "--url", "http://127.0.0.1:9")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "http://127.0.0.1:9" in result.stderr
    assert "refused" in result.stderr


def test_connection_that_breaks_after_sending(node: ScriptedNode, call: Call) -> None:
    """A change without an answer is unknown and says how to go on; a read without one changed nothing."""
    for args, advice in (
        (("schedule", "orders", "1", "--key", "a"), "send again with the same key"),
        (("schedule", "orders", "1"), "without --key a second one may be there beside it"),
        (("pull", "orders"), "messages that it took come again when their lease ends"),
        (("ack", "orders", "r1"), "look before you send it again"),
        (("topic", "delete", "pull"), "look before you send it again"),
    ):
        node.hang_up()
        result = call(*args)
        assert result.exit_code == ExitCode.UNKNOWN
        assert advice in result.stderr
    node.hang_up()
    assert call("get", "0A").exit_code == ExitCode.UNREACHABLE


def test_answer_that_is_not_a_nodes(node: ScriptedNode, call: Call) -> None:
    """Something else listening on the port is named as such."""
    node.say(200, b"<html>hello</html>")
    result = call("get", "0A")
    assert result.exit_code == ExitCode.FAILED
    assert "is it a Hourwheel node?" in result.stderr


@pytest.mark.parametrize("url", ["ftp://h", "http://h:99999", "http://h/path", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    """An address is HOST:PORT with nothing behind it."""
    with pytest.raises(Failure) as refused:
        Connection(url)
    assert refused.value.code == ExitCode.USAGE


def test_get_shows_the_message_and_its_history(node: ScriptedNode, call: Call) -> None:
    """Fields that are absent are left out; --local is passed on; the id is quoted."""
    event = {"at": "2026-11-21T02:10:20.125Z", "event": "scheduled", "node": "n1", "term": 3, "attempt": 0}
    document = {"id": "0A", "state": "scheduled", "body": {"a": 1}, "settled": None, "history": [event]}
    node.say(200, document)
    node.say(200, document)
    table = call("get", "0A/..", "--local").stdout
    assert node.requests[0][1] == "/v1/messages/0A%2F..?consistency=local"
    assert '{"a": 1}' in table
    assert "settled" not in table
    assert "scheduled" in table
    assert json.loads(call("get", "0A", "-o", "json").stdout) == document


def test_cancel_shows_what_came_before(node: ScriptedNode, call: Call) -> None:
    """The answer's `prior` is part of the truth."""
    node.say(200, {"id": "0A", "result": "cancelled", "attempts_made": 1, "prior": "known"})
    result = call("cancel", "0A")
    assert result.exit_code == ExitCode.OK
    assert "known" in result.stdout
    assert node.requests == [("DELETE", "/v1/messages/0A", None)]


def pulled(number: int) -> dict[str, object]:
    """A message as a pull gives it."""
    return {
        "id": f"0{number}",
        "receipt": f"r{number}",
        "attempt": 1,
        "term": 2,
        "due": "d",
        "lateness_ms": 1,
        "body": number,
    }


def test_pull_leaves_the_messages_leased(node: ScriptedNode, call: Call) -> None:
    """Without --ack nothing is settled; whole ids and receipts are printed, however wide."""
    node.say(200, {"topic": "orders", "mode": "pull"})
    node.say(200, {"messages": [pulled(1) | {"receipt": "r" * 300}]})
    result = call("pull", "orders", "--max", "5", "--wait", "1.5", "--lease", "10s")
    assert node.requests[1:] == [("POST", "/v1/topics/orders/pull", {"max": 5, "wait": 1500, "lease": 10_000})]
    assert result.stderr == ""
    assert "r" * 300 in result.stdout


def test_pull_with_ack_settles_what_was_printed(node: ScriptedNode, call: Call) -> None:
    """--ack sends every receipt once; nothing to ack sends nothing."""
    node.say(200, {"messages": [pulled(1), pulled(2)]})
    node.say(200, {"results": [{"receipt": "r1", "result": "acked"}, {"receipt": "r2", "result": "acked"}]})
    node.say(200, {"messages": []})
    assert call("pull", "orders", "--ack", "-o", "json").exit_code == ExitCode.OK
    assert node.requests[1] == ("POST", "/v1/topics/orders/ack", {"receipts": ["r1", "r2"]})
    assert call("pull", "orders", "--ack").exit_code == ExitCode.OK
    assert [path for _, path, _ in node.requests].count("/v1/topics/orders/ack") == 1


def test_pull_says_what_was_not_acked(node: ScriptedNode, call: Call) -> None:
    """A stale receipt ends the command with a conflict that names it."""
    node.say(200, {"messages": [pulled(1), pulled(2)]})
    node.say(200, {"results": [{"receipt": "r1", "result": "acked"}, {"receipt": "r2", "result": "stale"}]})
    result = call("pull", "orders", "--ack")
    assert result.exit_code == ExitCode.CONFLICT
    assert "1 of 2 not acked: r2: stale" in result.stderr


def test_cluster_status(node: ScriptedNode, call: Call) -> None:
    """Leader, term and each node's row."""
    rows = [{"id": "n1", "role": "leader", "state": "up", "applied_index": 7, "lag": 0, "clock_offset_ms": 0.1}]
    node.say(200, {"cluster_id": "c", "leader": "n1", "term": 4, "commit_index": 7, "nodes": rows})
    result = call("cluster", "status")
    assert result.exit_code == ExitCode.OK
    for part in ("n1", "leader", "4", "7"):
        assert part in result.stdout


FOURTH = {"id": "n4", "number": 4, "raft": "h:7500", "http": "h:7400", "role": "learner", "index": 12}


def test_cluster_add_and_remove(node: ScriptedNode, call: Call) -> None:
    """What is sent, and that the answer is shown."""
    node.say(201, FOURTH)
    result = call("cluster", "add", "n4", "--raft", "h:7500", "--http", "h:7400")
    assert result.exit_code == ExitCode.OK
    assert "learner" in result.stdout
    node.say(200, FOURTH | {"role": "removed"})
    assert "removed" in call("cluster", "remove", "n4").stdout
    added = ("POST", "/v1/cluster/members", {"id": "n4", "raft": "h:7500", "http": "h:7400"})
    assert node.requests == [added, ("DELETE", "/v1/cluster/members/n4", None)]


def test_cluster_add_waits_for_the_vote(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """--wait looks until the node is no learner any more; in vain, it says that the node gets its vote by itself."""
    monkeypatch.setattr(cluster, "WAIT_LOOK_S", 0.001)
    node.say(201, FOURTH)
    for role in ("learner", "learner", "follower"):
        node.say(200, {"nodes": [{"id": "n1", "role": "leader"}, {"id": "n4", "role": role}]})
    result = call("cluster", "add", "n4", "--raft", "h:7500", "--http", "h:7400", "--wait", "30")
    assert (result.exit_code, "follower" in result.stdout) == (ExitCode.OK, True)
    node.say(201, FOURTH)
    for _ in range(200):
        node.say(200, {"nodes": [{"id": "n4", "role": "learner"}]})
    result = call("cluster", "add", "n4", "--raft", "h:7500", "--http", "h:7400", "--wait", "0.02")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "n4 is added and has not caught up" in result.stderr


def test_file_body_is_read(node: ScriptedNode, call: Call, tmp_path: Path) -> None:
    """--file PATH sends the file's bytes."""
    (tmp_path / "body").write_bytes(b"abc")
    node.say(201, SCHEDULED)
    call("schedule", "orders", "--file", str(tmp_path / "body"))
    assert node.requests[0][2]["body_base64"] == "YWJj"


def test_one_error_is_said_once() -> None:
    """The detail of a problem with one error is that error: it is not repeated; further ones have a line each."""
    delay = {"pointer": "/delay", "detail": "too long"}
    tags = {"pointer": "/tags", "detail": "too many"}
    one = of_problem(422, {"code": "invalid-field", "detail": "/delay: too long", "errors": [delay]})
    assert one.message == "invalid-field (HTTP 422): /delay: too long"
    two = of_problem(422, {"code": "invalid-field", "detail": "2 fields", "errors": [delay, tags]})
    assert two.message.splitlines()[1:] == ["  /delay: too long", "  /tags: too many"]


def test_a_body_is_shown_as_it_was_written(node: ScriptedNode, call: Call) -> None:
    """Numbers that Python has no room for, and members named twice, stay: one line, of the node's own bytes."""
    digits = "7" * 5_000
    sent = f'{{"messages": [{{"id": "0A",\n "receipt": "r", "body": [1e999, 1.00000000000000000001, {digits}]}}]}}'
    for args in (("pull", "orders", "-o", "json"), ("get", "0A", "-o", "json")):
        node.say(200, sent.encode())
        assert call(*args).stdout == sent.replace("\n", "").replace(" ", "") + "\n"
    node.say(200, sent.encode())
    assert digits in call("pull", "orders").stdout
    node.say(201, {"id": "0A"})
    assert call("schedule", "orders", digits).exit_code == ExitCode.OK


def test_a_sentence_is_said_once(node: ScriptedNode, call: Call) -> None:
    """The fault of a parameter has no pointer, and its sentence is the detail."""
    detail = "state must be one of scheduled, leased"
    node.say(422, {"code": "invalid-field", "detail": detail, "errors": [{"detail": detail, "parameter": "state"}]})
    assert call("count", "--state", "sched").stderr.count(detail) == 1
