"""reschedule, ack, nack, extend, topic, dead, redrive, cluster transfer, and the new options of schedule and pull: what
is sent, what is shown, and the exit code.
"""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

SCHEDULED = {"id": "0A", "topic": "orders", "due": "2026-11-21T02:10:20.125Z", "state": "scheduled", "revision": 1}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_schedule_with_target_retry_and_level(node: ScriptedNode, call: Call) -> None:
    """Options that belong together become one object; digits alone are numbers."""
    node.say(201, SCHEDULED)
    result = call(
        *("schedule", "orders", "1", "--delay-level", "3", "--target", "http://h/x", "--method", "PUT"),
        *("--target-header", "x-a=1", "--target-timeout", "5s", "--retry-max-attempts", "4"),
        *("--retry-min-backoff", "250", "--retry-max-backoff", "1m", "--retry-max-age", "1d"),
    )
    assert result.exit_code == ExitCode.OK, result.output
    target = {"url": "http://h/x", "method": "PUT", "headers": {"x-a": "1"}, "timeout": 5_000}
    retry = {"max_attempts": 4, "min_backoff": 250, "max_backoff": 60_000, "max_age": 86_400_000}
    sent = {"topic": "orders", "body": 1, "delay_level": 3, "target": target, "retry": retry}
    assert node.requests == [("POST", "/v1/messages", sent)]


def test_pull_by_tags(node: ScriptedNode, call: Call) -> None:
    """The filter goes as it was typed."""
    node.say(200, {"messages": []})
    assert call("pull", "orders", "--tags", "eu || us").exit_code == ExitCode.OK
    assert node.requests[0][2] == {"max": 10, "wait": 0, "tags": "eu || us"}


def test_reschedule(node: ScriptedNode, call: Call) -> None:
    """One of the two times; the revision in If-Match."""
    node.say(200, {"id": "0A", "due": "2026-11-21T02:10:20.125Z", "revision": 3})
    result = call("reschedule", "0A", "--delay", "2h", "--if-match", "2")
    assert result.exit_code == ExitCode.OK, result.output
    assert node.requests == [("PATCH", "/v1/messages/0A", {"delay": 7_200_000})]
    assert node.headers[0]["if-match"] == '"2"'
    assert "2026-11-21T02:10:20.125Z" in result.stdout
    node.say(200, {"id": "0A"})
    call("reschedule", "0A", "--at", "1800000000000")
    assert node.requests[1][2] == {"deliver_at": 1_800_000_000_000}
    assert "if-match" not in node.headers[1]


@pytest.mark.parametrize("args", [(), ("--delay", "1s", "--at", "1800000000000")])
def test_reschedule_needs_one_time(node: ScriptedNode, call: Call, args: tuple[str, ...]) -> None:
    """None or both is a usage error, and nothing is sent."""
    assert call("reschedule", "0A", *args).exit_code == ExitCode.USAGE
    assert not node.requests


def test_cancel_and_reschedule_of_another_revision(node: ScriptedNode, call: Call) -> None:
    """412 is a conflict; If-Match is sent by both."""
    for command in (("cancel", "0A"), ("reschedule", "0A", "--delay", "1s")):
        node.say(412, {"code": "revision-mismatch", "detail": "it has revision 2"})
        result = call(*command, "--if-match", "1")
        assert result.exit_code == ExitCode.CONFLICT
        assert "revision-mismatch" in result.stderr
        assert node.headers[-1]["if-match"] == '"1"'


@pytest.mark.parametrize(
    ("verb", "wanted", "args", "fields"),
    [
        ("ack", "acked", (), {}),
        ("nack", "nacked", (), {}),
        ("nack", "nacked", ("--delay", "1m30s"), {"delay": 90_000}),
        ("nack", "nacked", ("--delay", "0"), {"delay": 0}),
        ("extend", "extended", (), {}),
        ("extend", "extended", ("--lease", "60000"), {"lease": 60_000}),
    ],
)
def test_receipts(
    node: ScriptedNode, call: Call, verb: str, wanted: str, args: tuple[str, ...], fields: dict[str, object]
) -> None:
    """Receipts from the command line and from stdin; every result is shown; all as wanted is exit 0."""
    results = [{"receipt": name, "result": wanted} for name in ("r1", "r2", "r3")]
    node.say(200, {"results": results})
    result = call(verb, "or/ders", "r1", "-", *args, stdin="r2\n\nr3\n")
    assert result.exit_code == ExitCode.OK, result.output
    sent = {"receipts": ["r1", "r2", "r3"]} | fields
    assert node.requests == [("POST", f"/v1/topics/or%2Fders/{verb}", sent)]
    assert all(name in result.stdout for name in ("r1", "r2", "r3", wanted))


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_receipts_that_are_not_taken(node: ScriptedNode, call: Call, verb: str) -> None:
    """A stale one is a conflict that names it; results are shown all the same; no receipt at all is a usage error."""
    results = [{"receipt": "r1", "result": f"{verb}ed"}, {"receipt": "r2", "result": "stale"}]
    node.say(200, {"results": results})
    result = call(verb, "orders", "r1", "r2", "-o", "json")
    assert result.exit_code == ExitCode.CONFLICT
    assert json.loads(result.stdout) == {"results": results}
    assert "r2: stale" in result.stderr
    assert call(verb, "orders", "-", stdin="").exit_code == ExitCode.USAGE
    assert len(node.requests) == 1


def test_topic_put_with_every_setting(node: ScriptedNode, call: Call, tmp_path: Path) -> None:
    """Each option is a field of the contract; the secret may come from a file."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    node.say(200, {"topic": "orders", "mode": "push", "revision": 1, "dead_letter": None})
    result = call(
        *("topic", "put", "orders", "--mode", "push", "--lease", "10s", "--handover", "fast", "--paused"),
        *("--target", "http://h/x", "--secret-file", str(tmp_path / "secret"), "--dead-letter", "graveyard"),
        *("--retry-max-attempts", "3", "--if-match", "7"),
    )
    assert result.exit_code == ExitCode.OK, result.output
    sent = {"mode": "push", "lease": 10_000, "handover": "fast", "paused": True, "dead_letter": "graveyard"}
    sent |= {"target": {"url": "http://h/x", "secret": SECRET}, "retry": {"max_attempts": 3}}
    assert node.requests == [("PUT", "/v1/topics/orders", sent)]
    assert node.headers[0]["if-match"] == '"7"'
    assert "dead_letter" not in result.stdout
    assert SECRET not in result.stdout


def test_topic_patch_sends_what_is_given(node: ScriptedNode, call: Call) -> None:
    """Nothing else; settings are taken away with null."""
    for _ in range(3):
        node.say(200, {"topic": "orders"})
    call("topic", "patch", "orders", "--resumed", "--no-dead-letter")
    call("topic", "patch", "orders", "--no-target", "--no-retry")
    call("topic", "patch", "orders", "--target-timeout", "2s", "--secret", SECRET)
    assert [request[0] for request in node.requests] == ["PATCH"] * 3
    assert [request[2] for request in node.requests] == [
        {"paused": False, "dead_letter": None},
        {"target": None, "retry": None},
        {"target": {"timeout": 2_000, "secret": SECRET}},
    ]


@pytest.mark.parametrize(
    "args",
    [
        ("--no-target", "--target", "http://h"),
        ("--no-retry", "--retry-max-age", "1d"),
        ("--no-dead-letter", "--dead-letter", "d"),
        ("--secret", SECRET, "--secret-file", "x"),
        ("--secret-file", "/nonexistent/secret"),
        ("--target-header", "novalue"),
    ],
)
def test_topic_options_that_cannot_both_be_meant(node: ScriptedNode, call: Call, args: tuple[str, ...]) -> None:
    """Refused before anything is sent."""
    assert call("topic", "patch", "orders", *args).exit_code == ExitCode.USAGE
    assert not node.requests


def test_topic_get_list_delete(node: ScriptedNode, call: Call) -> None:
    """One topic as fields, all as a table with a column per state that occurs."""
    items = [
        {"topic": "a", "mode": "pull", "paused": False, "counts": {"scheduled": 7, "dead": 0}},
        {"topic": "b", "mode": "push", "paused": True, "target": {"url": "http://h"}, "counts": {"leased": 3}},
    ]
    node.say(200, items[1])
    node.say(200, {"items": items, "next_cursor": None})
    node.say(200, {"items": items, "next_cursor": None})
    node.say(409, {"code": "not-empty", "detail": "7 messages"})
    assert "http://h" in call("topic", "get", "b").stdout
    rows = [line.split() for line in call("topic", "list").stdout.splitlines()]
    assert rows[0] == ["topic", "mode", "paused", "target", "dead_letter", "scheduled", "dead", "leased"]
    assert rows[1] == ["a", "pull", "no", "7", "0", "0"]
    assert rows[2] == ["b", "push", "yes", "http://h", "0", "0", "3"]
    assert json.loads(call("topic", "list", "-o", "json").stdout)["items"] == items
    assert call("topic", "delete", "a").exit_code == ExitCode.CONFLICT
    assert [request[:2] for request in node.requests] == [
        ("GET", "/v1/topics/b"),
        ("GET", "/v1/topics"),
        ("GET", "/v1/topics"),
        ("DELETE", "/v1/topics/a"),
    ]


def dead(number: int) -> dict[str, object]:
    """A dead message as the list gives it."""
    return {"id": f"0{number}", "asked_due": "d", "died": "e", "reason": "http-500", "attempts": 3, "tags": ["eu"]}


def test_dead_lists_a_page(node: ScriptedNode, call: Call) -> None:
    """The filter is in the query; there being more is said on stderr."""
    node.say(200, {"items": [dead(1)], "next_cursor": "c&1"})
    result = call("dead", "or/ders", "--from", "1800000000000", "--tag", "e u", "--limit", "5")
    assert result.exit_code == ExitCode.OK, result.output
    parts = urlsplit(node.requests[0][1])
    assert (node.requests[0][0], parts.path) == ("GET", "/v1/topics/or%2Fders/dead")
    wanted = {"from": "1800000000000", "tag": "e u", "limit": "5"}
    assert parse_qs(parts.query) == {name: [value] for name, value in wanted.items()}
    assert all(part in result.stdout for part in ("01", "http-500", "3", "eu"))
    assert "--cursor c&1" in result.stderr


def test_dead_follows_all_pages(node: ScriptedNode, call: Call) -> None:
    """--all asks until there is no cursor and gives one document."""
    node.say(200, {"items": [dead(1)], "next_cursor": "c&1"})
    node.say(200, {"items": [dead(2)], "next_cursor": None})
    document = json.loads(call("dead", "orders", "--all", "-o", "json").stdout)
    assert document == {"items": [dead(1), dead(2)], "next_cursor": None}
    assert parse_qs(urlsplit(node.requests[1][1]).query)["cursor"] == ["c&1"]


def test_redrive_counts_asks_and_does(node: ScriptedNode, call: Call) -> None:
    """First a dry run, then the question with its number on stderr, then the change."""
    node.say(200, {"matched": 7})
    node.say(200, {"state": "done", "matched": 7, "changed": 7, "index": 42})
    result = call("redrive", "orders", "--to", "2026-11-21T00:00:00Z", "-o", "json", stdin="y\n")
    assert result.exit_code == ExitCode.OK, result.output
    wish = {"kind": "redrive", "topic": "orders", "to": "2026-11-21T00:00:00Z"}
    assert [request[2] for request in node.requests] == [wish | {"dry_run": True}, wish]
    assert "7 messages match. Make these dead messages due now?" in result.stderr
    assert json.loads(result.stdout)["changed"] == 7


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_redrive_not_confirmed_changes_nothing(node: ScriptedNode, call: Call, answer: str) -> None:
    """No, and no answer at all."""
    node.say(200, {"matched": 7})
    result = call("redrive", "orders", stdin=answer)
    assert result.exit_code == ExitCode.USAGE
    assert "nothing was changed" in result.stderr
    assert len(node.requests) == 1


def test_redrive_without_asking(node: ScriptedNode, call: Call) -> None:
    """--yes is one request; --dry-run is one too and changes nothing; nothing dead asks nothing."""
    node.say(200, {"state": "done", "matched": 7, "changed": 7, "index": 42})
    node.say(200, {"matched": 7})
    node.say(200, {"matched": 0})
    assert call("redrive", "orders", "--yes").exit_code == ExitCode.OK
    assert call("redrive", "orders", "--dry-run", "--yes").exit_code == ExitCode.OK
    assert call("redrive", "orders").exit_code == ExitCode.OK
    dry = [bool(request[2].get("dry_run")) for request in node.requests]
    assert dry == [False, True, True]


def test_drain(node: ScriptedNode, call: Call) -> None:
    """One node, or the one that is meant; undone by the opposite of the same request."""
    answer = {"node": "n1", "draining": True, "led": True, "leader": "n2", "pushes": 0}
    node.say(200, answer)
    node.say(200, answer | {"draining": False})
    node.say(404, {"code": "unknown-node", "detail": "this is node n1, not n9; ask the address of n9 itself"})
    node.say(409, {"code": "not-caught-up", "detail": "no other node is up and able to lead; this node serves on"})
    result = call("node", "drain")
    assert result.exit_code == ExitCode.OK, result.output
    assert "pushes" in result.stdout
    assert json.loads(call("node", "drain", "--undo", "-o", "json").stdout)["draining"] is False
    assert call("node", "drain", "--node", "n9").exit_code == ExitCode.NOT_FOUND
    assert call("node", "drain").exit_code == ExitCode.CONFLICT
    assert [request[:2] for request in node.requests] == [
        (method, "/v1/node/drain") for method in ("POST", "DELETE", "POST", "POST")
    ]
    assert node.requests[2][2] == {"node": "n9"}


def test_transfer(node: ScriptedNode, call: Call) -> None:
    """To a node, or to the best; what it took is shown."""
    answer = {"from": "n1", "to": "n3", "term_before": 4, "term_after": 5, "took_ms": 12}
    node.say(200, answer)
    node.say(200, answer)
    node.say(409, {"code": "not-caught-up", "detail": "n3 lacks 5 entries"})
    result = call("cluster", "transfer", "--to", "n3")
    assert result.exit_code == ExitCode.OK, result.output
    assert "took_ms" in result.stdout
    assert json.loads(call("cluster", "transfer", "-o", "json").stdout) == answer
    assert call("cluster", "transfer", "--to", "n3").exit_code == ExitCode.CONFLICT
    assert [request[2] for request in node.requests] == [{"to": "n3"}, {}, {"to": "n3"}]


def test_snapshot(node: ScriptedNode, call: Call) -> None:
    """Into the node's directory, or one below it; where it is is shown, and what went wrong."""
    answer = {"node": "n2", "directory": "/b/1", "cluster_id": "00", "applied_index": 7, "bytes": 9, "took_ms": 3}
    node.say(201, answer)
    node.say(201, answer)
    node.say(503, {"code": "backup-failed", "detail": "/b has 100 bytes free, the backup needs 9000"})
    node.say(409, {"code": "change-in-progress", "detail": "this node is writing a backup"})
    node.hang_up()
    assert "/b/1" in call("cluster", "snapshot").stdout
    assert json.loads(call("cluster", "snapshot", "--directory", "nightly", "-o", "json").stdout) == answer
    failed = call("cluster", "snapshot")
    assert (failed.exit_code, "100 bytes free" in failed.output) == (ExitCode.UNAVAILABLE, True)
    assert call("cluster", "snapshot").exit_code == ExitCode.CONFLICT
    assert call("cluster", "snapshot").exit_code == ExitCode.UNKNOWN
    assert [request[:2] for request in node.requests] == [("POST", "/v1/cluster/snapshot")] * 5
    assert [request[2] for request in node.requests[:2]] == [{}, {"directory": "nightly"}]
