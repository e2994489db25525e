"""`hourwheel cancel` of many messages, and `hourwheel operation`: what is sent, asked and shown."""

import json
from typing import Any

import pytest

from cli.operation import operation
from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

PATH = "/v1/operations"


def shown(state: str = "done", changed: int = 7, **more: Any) -> dict[str, Any]:
    """An operation as a node shows it."""
    return {
        "id": "op-5", "kind": "cancel", "state": state, "topic": "orders", "tag": None, "note": "",
        "begun": "2026-11-21T02:10:20.125Z", "matched": changed if state == "done" else None, "changed": changed,
        "prior": {"none": changed, "known": 0, "unknown": 0}, "skipped": {"leased": 0, "settled": 0}, "index": 42,
        "progress": 1.0 if state == "done" else 0.5, **more,
    }  # fmt: skip


def test_it_counts_asks_and_does(node: ScriptedNode, call: Call) -> None:
    """First a dry run, then the question with its number on stderr, then the operation."""
    node.say(200, {"matched": 7})
    node.say(200, shown())
    args = ("--topic", "orders", "--from", "1800000000000", "--tag", "eu", "--note", "twice")
    result = call("cancel", *args, stdin="y\n")
    assert result.exit_code == ExitCode.OK, result.output
    wish = {"kind": "cancel", "topic": "orders", "from": 1_800_000_000_000, "tag": "eu", "note": "twice"}
    assert node.requests == [("POST", PATH, wish | {"dry_run": True}), ("POST", PATH, wish)]
    assert "7 messages match. Cancel them?" in result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert all(line in lines for line in (["changed", "7"], ["prior", "none", "7"], ["skipped", "leased", "0"]))


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_not_confirmed_changes_nothing(node: ScriptedNode, call: Call, answer: str) -> None:
    """No, and no answer at all."""
    node.say(200, {"matched": 7})
    result = call("cancel", "--topic", "orders", stdin=answer)
    assert result.exit_code == ExitCode.USAGE
    assert "nothing was changed" in result.stderr
    assert len(node.requests) == 1


def test_without_asking(node: ScriptedNode, call: Call) -> None:
    """--yes is one request, --dry-run too; where nothing matches nothing is asked. Several topics are a list."""
    node.say(200, shown())
    node.say(200, {"matched": 7})
    node.say(200, {"matched": 0})
    assert call("cancel", "--topic", "a", "--topic", "b", "--yes").exit_code == ExitCode.OK
    assert "7" in call("cancel", "--topic", "a", "--dry-run", "--yes").stdout
    assert call("cancel", "--topic", "a").exit_code == ExitCode.OK
    assert [request[2]["topic"] for request in node.requests] == [["a", "b"], "a", "a"]
    assert [bool(request[2].get("dry_run")) for request in node.requests] == [False, True, True]


def test_all_topics_are_confirmed_by_number(node: ScriptedNode, call: Call) -> None:
    """The number of the dry run goes along, also with --yes; a node that finds another one refuses."""
    node.say(200, {"matched": 7})
    node.say(422, {"code": "invalid-field", "detail": "confirm: all topics: 8 messages match now"})
    result = call("cancel", "--all-topics", "--yes")
    assert result.exit_code == ExitCode.REFUSED
    assert "8 messages match now" in result.stderr
    assert node.requests[1][2] == {"kind": "cancel", "topic": "*", "confirm": 7}


def test_it_is_followed_to_its_end(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that still runs after a second is asked for again and again. stdout has one document, the last."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(202, shown("running", 3))
    node.say(200, shown("running", 5))
    node.say(200, shown())
    result = call("cancel", "--topic", "orders", "--yes", "-o", "json")
    assert result.exit_code == ExitCode.OK, result.output
    assert json.loads(result.stdout)["changed"] == 7
    assert [request[1] for request in node.requests] == [PATH, f"{PATH}/op-5", f"{PATH}/op-5"]


def test_one_that_cannot_be_followed_goes_on(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with the node's refusal, and says the id and what to do."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(202, shown("running", 3))
    node.say(404, {"code": "unknown-operation", "detail": "there is no operation op-5"})
    result = call("cancel", "--topic", "orders", "--yes")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "op-5 goes on; hourwheel operation op-5 --follow" in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "--topic TOPIC"),
        (("0A", "--topic", "a"), "not both"),
        (("0A", "--yes"), "not both"),
        (("--topic", "a", "--all-topics"), "not both"),
        (("--topic", "a", "--if-match", "3"), "--if-match goes with the ID"),
    ],
)
def test_what_makes_no_sense_is_not_sent(node: ScriptedNode, call: Call, args: tuple[str, ...], says: str) -> None:
    """One message or many; each option with what it belongs to."""
    result = call("cancel", *args)
    assert (result.exit_code, node.requests) == (ExitCode.USAGE, [])
    assert says in result.stderr


def test_operations_are_shown(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest as a table, one by its id, and one that is followed."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(200, {"items": [shown(), shown("running", 3, id="op-4")], "next_cursor": None})
    node.say(200, shown("running", 3))
    node.say(200, shown("running", 3))
    node.say(200, shown())
    listed = call("operation", "--limit", "2")
    assert all(part in listed.stdout for part in ("op-5", "op-4", "running", "orders", "0.5"))
    assert "running" in call("operation", "op/5").stdout
    assert "done" in call("operation", "op-5", "--follow").stdout
    wanted = [f"{PATH}?limit=2", f"{PATH}/op%2F5", f"{PATH}/op-5", f"{PATH}/op-5"]
    assert [request[1] for request in node.requests] == wanted
    assert call("operation", "--follow").exit_code == ExitCode.USAGE
