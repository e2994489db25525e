"""`hourwheel shift`, `release`, `redrive` and `resend`, and what `hourwheel operation` does to one: all that is sent,
asked and shown."""

import json
from typing import Any, Final

import pytest

from cli.operation import operation
from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

PATH: Final = "/v1/operations"
HALF_HOUR_MS: Final = 1_800_000
AT_MS: Final = 1_800_000_000_000

#: Command -> the option that it needs, the field that becomes of it, and the question.
KINDS: Final[dict[str, tuple[tuple[str, ...], dict[str, Any], str]]] = {
    "shift": (("--by", "30m"), {"by": HALF_HOUR_MS}, "Move them?"),
    "release": ((), {}, "Make them due now?"),
    "redrive": ((), {}, "Make these dead messages due now?"),
    "resend": ((), {}, "Deliver them again?"),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def _shown(kind: str = "shift", state: str = "done", changed: int = 7, **more: Any) -> dict[str, Any]:
    """An operation as a node shows it."""
    ended = state in ("done", "aborted")
    return {
        "id": "op-5", "kind": kind, "state": state, "topic": "orders", "from": None, "to": None, "tag": None,
        "reason": None, "by": None, "to_due": None, "rate": None, "note": "", "begun": "2026-11-21T02:10:20.125Z",
        "ended": "2026-11-21T02:10:21.125Z" if ended else None, "matched": changed if ended else None,
        "changed": changed, "prior": {"none": changed, "known": 0, "unknown": 0},
        "skipped": {"leased": 0, "settled": 0, "gone": 0, "key_taken": 0}, "index": 42,
        "progress": 1.0 if state == "done" else 0.5, **more,
    }  # fmt: skip


@each_kind
def test_it_counts_asks_and_does(node: ScriptedNode, call: Call, kind: str) -> None:
    """First a dry run, then the question with its number on stderr, then the operation with the same fields."""
    args, fields, question = KINDS[kind]
    node.say(200, {"matched": 7})
    node.say(200, _shown(kind))
    more = ("--from", str(AT_MS), "--to", "2027-11-21T02:10:20Z", "--tag", "eu", "--note", "twice", "--rate", "9")
    result = call(kind, "orders", *args, *more, stdin="y\n")
    assert result.exit_code == ExitCode.OK, result.output
    wish = {"kind": kind, "topic": "orders", "from": AT_MS, "to": "2027-11-21T02:10:20Z", "tag": "eu", **fields}
    wish |= {"rate": 9, "note": "twice"}
    assert node.requests == [("POST", PATH, wish | {"dry_run": True}), ("POST", PATH, wish)]
    assert f"7 messages match. {question}" in result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert all(line in lines for line in (["kind", kind], ["changed", "7"], ["skipped", "key_taken", "0"]))


@each_kind
@pytest.mark.parametrize("answer", ["n\n", "", "\n"])
def test_not_confirmed_changes_nothing(node: ScriptedNode, call: Call, kind: str, answer: str) -> None:
    """No, no answer at all, and an empty line."""
    node.say(200, {"matched": 7})
    result = call(kind, "orders", *KINDS[kind][0], stdin=answer)
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert "nothing was changed" in result.stderr
    assert [request[2].get("dry_run") for request in node.requests] == [True]


@each_kind
def test_a_dry_run(node: ScriptedNode, call: Call, kind: str) -> None:
    """One request and no question, also with --yes; the number is all that stdout has."""
    args, fields, _ = KINDS[kind]
    for more in ((), ("--yes",), ("-o", "json")):
        node.say(200, {"matched": 7})
        result = call(kind, "orders", *args, "--dry-run", *more)
        assert (result.exit_code, result.stderr) == (ExitCode.OK, "")
        assert "7" in result.stdout
        if "json" in more:
            assert json.loads(result.stdout) == {"matched": 7}
    assert node.requests == [("POST", PATH, {"kind": kind, "topic": "orders", "dry_run": True, **fields})] * 3


@each_kind
def test_without_asking(node: ScriptedNode, call: Call, kind: str) -> None:
    """--yes is one request; where nothing matches nothing is asked. Several topics are a list."""
    args, fields, _ = KINDS[kind]
    node.say(200, _shown(kind))
    node.say(200, {"matched": 0})
    result = call(kind, "a", "b", *args, "--yes")
    assert (result.exit_code, result.stderr) == (ExitCode.OK, "")
    result = call(kind, "a", *args)
    assert (result.exit_code, result.stderr) == (ExitCode.OK, "")
    wishes = [request[2] for request in node.requests]
    assert wishes[0] == {"kind": kind, "topic": ["a", "b"], **fields}
    assert wishes[1:] == [{"kind": kind, "topic": "a", "dry_run": True, **fields}]


@each_kind
@pytest.mark.parametrize("yes", [True, False])
def test_all_topics_are_confirmed_by_number(node: ScriptedNode, call: Call, kind: str, yes: bool) -> None:
    """The number of the dry run goes along, also with --yes; a node that finds another one refuses."""
    args, fields, _ = KINDS[kind]
    node.say(200, {"matched": 7})
    node.say(422, {"code": "invalid-field", "detail": "confirm: all topics: 8 messages match now"})
    result = call(kind, "--all-topics", *args, *(("--yes",) if yes else ()), stdin="y\n")
    assert result.exit_code == ExitCode.REFUSED
    assert "8 messages match now" in result.stderr
    assert ("7 messages match." in result.stderr) is not yes
    wish = {"kind": kind, "topic": "*", **fields}
    assert [request[2] for request in node.requests] == [wish | {"dry_run": True}, wish | {"confirm": 7}]


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (("--by", "-30m"), {"by": -HALF_HOUR_MS}),
        (("--by=-30m",), {"by": -HALF_HOUR_MS}),
        (("--by", "+30m"), {"by": HALF_HOUR_MS}),
        (("--by=1h30m",), {"by": 3 * HALF_HOUR_MS}),
        (("--by", "-1h30m"), {"by": -3 * HALF_HOUR_MS}),
        (("--by", "5"), {"by": 5}),
        (("--by", "-5"), {"by": -5}),
        (("--by", "0"), {"by": 0}),
        (("--to-due", str(AT_MS)), {"to_due": AT_MS}),
        (("--to-due", "2026-11-21T02:10:20.125Z"), {"to_due": "2026-11-21T02:10:20.125Z"}),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_how_far(node: ScriptedNode, call: Call, args: tuple[str, ...], fields: dict[str, Any], first: bool) -> None:
    """A span with a sign, in milliseconds, or a time; before the topic or after it. The node checks the bounds."""
    node.say(200, _shown())
    words = (*args, "orders") if first else ("orders", *args)
    result = call("shift", *words, "--yes")
    assert result.exit_code == ExitCode.OK, result.output
    assert node.requests == [("POST", PATH, {"kind": "shift", "topic": "orders", **fields})]


def test_of_which_reason(node: ScriptedNode, call: Call) -> None:
    """--reason of a redrive is in the dry run too."""
    node.say(200, {"matched": 7})
    node.say(200, _shown("redrive", reason="http-503"))
    result = call("redrive", "orders", "--reason", "http-503", stdin="y\n")
    assert result.exit_code == ExitCode.OK, result.output
    assert [request[2]["reason"] for request in node.requests] == ["http-503", "http-503"]


_WHICH: Final = "topics, or --all-topics"
_ONE_OF: Final = "exactly one of --by and --to-due"
_NO_SPAN: Final = "write whole numbers with units d, h, m, s, ms"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("shift", "--by", "30m"), _WHICH),
        (("release",), _WHICH),
        (("redrive", "--yes"), _WHICH),
        (("resend", "--tag", "eu"), _WHICH),
        (("shift", "a", "--all-topics", "--by", "30m"), "not both"),
        (("release", "a", "b", "--all-topics"), "not both"),
        (("shift", "a"), _ONE_OF),
        (("shift", "a", "--by", "30m", "--to-due", "now"), _ONE_OF),
        (("shift", "a", "--by", "0", "--to-due", "now"), _ONE_OF),
        (("shift", "a", "--by", "soon"), _NO_SPAN),
        (("shift", "a", "--by", "1.5h"), _NO_SPAN),
        (("shift", "a", "--by", "30m1h"), _NO_SPAN),
        (("shift", "a", "--by", ""), _NO_SPAN),
        (("shift", "a", "--by", "-"), _NO_SPAN),
        (("shift", "a", "--by=--5m"), _NO_SPAN),
        (("shift", "a", "--by", "+-5m"), _NO_SPAN),
        (("shift", "a", "--by", "- 5m"), _NO_SPAN),
        (("shift", "a", "--by"), "requires an argument"),
        (("shift", "a", "--to-due", "soon"), "is no time"),
        (("shift", "a", "--by", "5m", "--rate", "0"), "--rate"),
        (("release", "a", "--rate", "fast"), "--rate"),
        (("release", "a", "--by", "5m"), "No such option"),
        (("resend", "a", "--reason", "timeout"), "No such option"),
        (("shift", "a", "--by", "5m", "--reason", "timeout"), "No such option"),
        (("operation", "--pause"), "--pause needs the id"),
        (("operation", "--resume"), "--resume needs the id"),
        (("operation", "--abort"), "--abort needs the id"),
    ],
)
def test_bad_words_are_not_sent(node: ScriptedNode, call: Call, args: tuple[str, ...], says: str) -> None:
    """No topic, none or both of two ways, a span that is none, and options of another command."""
    result = call(*args)
    assert (result.exit_code, node.requests, result.stdout) == (ExitCode.USAGE, [], "")
    assert says in " ".join(result.stderr.split())


@each_kind
def test_it_is_followed_to_its_end(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """One that still runs after a second is asked for again and again. stdout has one document, the last."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(202, _shown(kind, "running", 3), {"Location": f"{PATH}/op-5"})
    node.say(200, _shown(kind, "running", 5))
    node.say(200, _shown(kind))
    result = call(kind, "orders", *KINDS[kind][0], "--yes", "-o", "json")
    assert result.exit_code == ExitCode.OK, result.output
    assert json.loads(result.stdout) == _shown(kind)
    wanted = [("POST", PATH), ("GET", f"{PATH}/op-5"), ("GET", f"{PATH}/op-5")]
    assert [request[:2] for request in node.requests] == wanted


def test_one_that_is_aborted_meanwhile(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is its end too: the command shows how far it came."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(202, _shown("release", "running", 3))
    node.say(200, _shown("release", "aborted", 5))
    result = call("release", "orders", "--yes")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert all(line in lines for line in (["state", "aborted"], ["matched", "5"]))
    assert len(node.requests) == 2


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (409, "in-progress", ExitCode.CONFLICT),
        (422, "beyond-max-delay", ExitCode.REFUSED),
        (429, "over-limit", ExitCode.UNAVAILABLE),
        (504, "outcome-unknown", ExitCode.UNKNOWN),
    ],
)
@each_kind
def test_refusals(node: ScriptedNode, call: Call, kind: str, status: int, code: str, exit_code: ExitCode) -> None:
    """They are said as they came, and are not sent a second time."""
    node.say(status, {"status": status, "code": code, "detail": "it is so"})
    result = call(kind, "orders", *KINDS[kind][0], "--yes")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert f"{code} (HTTP {status}): it is so" in result.stderr
    assert len(node.requests) == 1


@each_kind
def test_near_topics_are_named(node: ScriptedNode, call: Call, kind: str) -> None:
    """A single topic that does not exist is compared with those that do; of several none is guessed at."""
    unknown = {"code": "unknown-topic", "detail": "no topic is named ordrs"}
    node.say(404, unknown)
    node.say(200, {"items": [{"topic": "orders"}], "next_cursor": None})
    node.say(404, unknown)
    result = call(kind, "ordrs", *KINDS[kind][0])
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "did you mean orders?" in result.stderr
    assert "did you mean" not in call(kind, "ordrs", "bills", *KINDS[kind][0]).stderr


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("resume", "running"), ("abort", "aborted")])
def test_pause_resume_and_abort(node: ScriptedNode, call: Call, verb: str, state: str) -> None:
    """One POST without a body, with the id as the node reads it; the answer is shown."""
    node.say(200, _shown(state=state))
    node.say(200, _shown(state=state))
    node.say(409, {"code": "already-settled", "detail": "the operation is done"})
    node.say(404, {"code": "unknown-operation", "detail": "there is no operation op/5"})
    result = call("operation", "op-5", f"--{verb}")
    assert result.exit_code == ExitCode.OK, result.output
    assert ["state", state] in [line.split() for line in result.stdout.splitlines()]
    assert json.loads(call("operation", f"--{verb}", "op-5", "-o", "json").stdout) == _shown(state=state)
    result = call("operation", "op-5", f"--{verb}")
    assert (result.exit_code, result.stdout) == (ExitCode.CONFLICT, "")
    assert "the operation is done" in result.stderr
    assert call("operation", "op/5", f"--{verb}").exit_code == ExitCode.NOT_FOUND
    path = f"{PATH}/op-5/{verb}"
    assert node.requests == [("POST", path, None)] * 3 + [("POST", f"{PATH}/op%2F5/{verb}", None)]


def test_resumed_and_followed(node: ScriptedNode, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """--resume --follow waits for the end of what goes on again."""
    monkeypatch.setattr(operation, "LOOK_S", 0.0)
    node.say(200, _shown(state="running", changed=3))
    node.say(200, _shown())
    result = call("operation", "op-5", "--resume", "--follow", "-o", "json")
    assert json.loads(result.stdout)["state"] == "done"
    assert [request[:2] for request in node.requests] == [("POST", f"{PATH}/op-5/resume"), ("GET", f"{PATH}/op-5")]


def test_one_verb_at_a_time(node: ScriptedNode, call: Call) -> None:
    """An abort cannot be taken back, so it is not guessed which of two is meant."""
    result = call("operation", "op-5", "--pause", "--abort")
    assert result.exit_code == ExitCode.USAGE
    assert "give one of --pause and --abort" in result.stderr
    assert node.requests == []
