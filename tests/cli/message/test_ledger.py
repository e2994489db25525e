"""ledger, and what get says of it: what is asked, what is shown, what is said to be missing."""

import json
from urllib.parse import parse_qs, urlsplit

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

FROM, TO = "2026-11-21T02:00:00.000Z", "2026-11-21T03:00:00.000Z"
WHOLE = {"from": FROM, "to": TO, "complete": True, "unreachable": [], "gaps": []}
MISSING = WHOLE | {
    "removed_until": TO,
    "complete": False,
    "unreachable": [{"node": "n3", "why": "is down, or cannot be reached"}],
    "gaps": [{"node": "n2", "from": FROM, "to": TO}, {"node": None, "from": FROM, "to": TO}],
}
SUMMARY = {
    "window": MISSING,
    "scheduled": 40,
    "classes": {"delivered_once": 30, "delivered_more": 10, "lost": 0},
    "flags": {"late": 3, "early": 0},
    "causes": {"failover": 10, "unexplained": 0},
    "late_causes": {},
    "lost": {"no_trace": 0},
    "term_changes": [{"from_term": 4, "to_term": 5, "duplicates": 10, "first_ms": 1, "last_ms": 31, "span_ms": 30}],
}
DUPLICATE = {
    "cause": "failover",
    "term": 5,
    "attempt": 1,
    "repeats": {"term": 4, "attempt": 1, "at": FROM, "node": "n1"},
}
ITEM = {
    "id": "0A",
    "topic": "orders",
    "class": "delivered_more",
    "hand_overs": 2,
    "due": FROM,
    "lateness_ms": 1,
    "settled": None,
    "flags": ["late", "strict"],
    "duplicates": [DUPLICATE],
}


def asked(node: ScriptedNode, request: int) -> tuple[str, dict[str, str]]:
    """Path and parameters of a request."""
    _, path, _ = node.requests[request]
    return urlsplit(path).path, {name: text for name, (text,) in parse_qs(urlsplit(path).query).items()}


def test_counts_are_shown_by_class_and_cause(node: ScriptedNode, call: Call) -> None:
    """Classes in full, of the rest what there is; whose account is missing goes to stderr."""
    node.say(200, SUMMARY)
    result = call("ledger", "orders", "--from", FROM)
    assert result.exit_code == ExitCode.OK, result.output
    assert asked(node, 0) == ("/v1/ledger/summary", {"topic": "orders", "from": FROM})
    words = result.stdout.split()
    for word in ("delivered_more", "lost", "late", "failover", "30"):
        assert word in words
    assert "early" not in words
    assert "unexplained" not in words
    assert "the account of n3, which is down" in result.stderr
    assert f"missing: hours before {TO}, which were removed by age" in result.stderr
    assert f"what n2 did from {FROM} to {TO}" in result.stderr
    assert f"a leader that no account tells of, did from {FROM} to {TO}" in result.stderr
    node.say(200, SUMMARY)
    assert json.loads(call("ledger", "-o", "json").stdout) == SUMMARY
    assert asked(node, 1) == ("/v1/ledger/summary", {})


def test_messages_are_listed_page_by_page_in_one_window(node: ScriptedNode, call: Call) -> None:
    """The window of the first page holds for all, though it ended at that moment."""
    node.say(200, {"window": WHOLE, "items": [ITEM], "next_cursor": "c1"})
    node.say(200, {"window": WHOLE, "items": [ITEM | {"id": "0B"}], "next_cursor": None})
    result = call("ledger", "--class", "delivered_more,lost", "--limit", "1", "--all")
    assert result.exit_code == ExitCode.OK, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split()[:3] == ["0A", "orders", "delivered_more"]
    assert lines[1].endswith("late strict  failover")
    assert lines[2].startswith("0B")
    fields = {"class": "delivered_more,lost", "limit": "1"}
    assert asked(node, 0) == ("/v1/ledger", fields)
    assert asked(node, 1) == ("/v1/ledger", fields | {"from": FROM, "to": TO, "cursor": "c1"})


def test_a_page_says_how_to_go_on(node: ScriptedNode, call: Call) -> None:
    """With the cursor and the window that belong together."""
    node.say(200, {"window": WHOLE, "items": [ITEM], "next_cursor": "c1"})
    result = call("ledger", "--list")
    assert f"--cursor c1 --from {FROM} --to {TO}" in result.stderr
    node.say(200, {"window": WHOLE, "items": [], "next_cursor": None})
    assert json.loads(call("ledger", "--list", "-o", "json").stdout)["items"] == []


def test_a_message_is_shown_with_its_hand_overs_and_why_it_came_twice(node: ScriptedNode, call: Call) -> None:
    """And what could not be known; a node that says nothing of it is no failure."""
    delivery = {"at": FROM, "node": "n1", "term": 4, "attempt": 1, "mode": "pull", "outcome": "unknown", "ended": None}
    twin = DUPLICATE | {"cause": "scheduled_twice", "repeats": {"id": "0C", "term": 4, "attempt": 1}}
    ledger = {
        "class": "delivered_more",
        "flags": ["late"],
        "deliveries": [delivery],
        "duplicates": [DUPLICATE, twin],
        "window": MISSING,
    }
    node.say(200, {"id": "0A", "state": "delivered", "ledger": ledger})
    result = call("get", "0A")
    assert "ledger  delivered_more  (late)" in result.stdout
    assert "unknown" in result.stdout
    assert "duplicate  failover: term 5, attempt 1 repeats term 4, attempt 1" in result.stdout
    assert "scheduled_twice: term 5, attempt 1 repeats message 0C" in result.stdout
    assert "the account of n3" in result.stderr
    node.say(200, {"id": "0A", "state": "delivered", "ledger": {"class": None, "why": "n2: too many records"}})
    assert "n2: too many records" in call("get", "0A").stdout
    node.say(200, {"id": "0A", "state": "delivered"})
    assert "ledger" not in call("get", "0A").stdout
