"""count and histogram: what is asked, what is shown, and the exit code."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import click
import pytest

import cli.message.count
from node.runtime.exit_code import ExitCode
from storage.format.states import STANDINGS
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

BUCKETS = {
    "step": "1h",
    "buckets": [
        {"from": "2026-11-21T02:00:00.000Z", "count": 200},
        {"from": "2026-11-21T03:00:00.000Z", "count": 0},
        {"from": "2026-11-21T04:00:00.000Z", "count": 1},
    ],
}


def test_count(node: ScriptedNode, call: Call) -> None:
    """A number alone, for scripts; all of them without a filter."""
    node.say(200, {"count": 12})
    result = call("count")
    assert (result.exit_code, result.stdout) == (ExitCode.OK, "12\n")
    node.say(200, {"count": 0})
    assert json.loads(call("count", "orders", "-o", "json").stdout) == {"count": 0}
    assert [path for _, path, _ in node.requests] == ["/v1/messages/count", "/v1/messages/count?topic=orders"]


@pytest.mark.parametrize("command", ["count", "histogram"])
def test_what_is_asked(node: ScriptedNode, call: Call, command: str) -> None:
    """Every option is a parameter, quoted; what is not given is not sent."""
    node.say(200, {"count": 1, "buckets": []})
    args = ("--from", "2026-11-21T03:00:00+01:00", "--to", "1800000000000", "--tag", "a&b ü", "--state", "ready,dead")
    step = ("--step", "2h") if command == "histogram" else ()
    assert call(command, "orders", *args, *step).exit_code == ExitCode.OK
    ((method, path, body),) = node.requests
    assert (method, urlsplit(path).path, body) == ("GET", f"/v1/messages/{command}", None)
    asked = {name: text for name, (text,) in parse_qs(urlsplit(path).query).items()}
    assert asked == {
        "topic": "orders",
        "from": "2026-11-21T03:00:00+01:00",
        "to": "1800000000000",
        "tag": "a&b ü",
        "state": "ready,dead",
    } | ({"step": "7200000"} if step else {})


def test_histogram(node: ScriptedNode, call: Call) -> None:
    """Bars as long as their share of the largest bucket, one sign at least for one message."""
    node.say(200, BUCKETS)
    lines = call("histogram", "orders", "--step", "1h").stdout.splitlines()
    assert [re.sub(r"\(.*\)", "", line).split() for line in lines] == [
        ["from", "count"],
        ["2026-11-21T02:00:00.000Z", "200", "#" * 50],
        ["2026-11-21T03:00:00.000Z", "0"],
        ["2026-11-21T04:00:00.000Z", "1", "#"],
    ]
    node.say(200, BUCKETS)
    assert json.loads(call("histogram", "-o", "json").stdout) == BUCKETS
    node.say(200, {"buckets": [{"from": "2026-11-21T02:00:00.000Z", "count": 0}]})
    assert call("histogram", "--step", "1h").exit_code == ExitCode.OK


def test_the_step_that_the_node_chose_is_said(node: ScriptedNode, call: Call) -> None:
    """For people, beside the table, unless there is none to read. A step that was asked for is known."""
    node.say(200, BUCKETS)
    result = call("histogram", "--from", "2026-11-21T00:00:00Z")
    assert "each line is 1h; --step chooses another" in result.stderr
    node.say(200, BUCKETS)
    assert "each line" not in call("histogram", "--step", "1h").output
    node.say(200, {"step": "1s", "buckets": []})
    assert "each line" not in call("histogram").output
    assert [urlsplit(path).query for _, path, _ in node.requests] == [
        "from=2026-11-21T00%3A00%3A00Z",
        "step=3600000",
        "",
    ]


def test_refusals(node: ScriptedNode, call: Call) -> None:
    """The node's words, and the code of its status."""
    for status, code, command in ((404, ExitCode.NOT_FOUND, "count"), (422, ExitCode.REFUSED, "histogram")):
        node.say(status, {"code": "x", "detail": "take a longer step"})
        result = call(command, "orders")
        assert result.exit_code == code
        assert "take a longer step" in result.stderr
    assert call("count", "--step", "1m").exit_code == ExitCode.USAGE


def test_help_names_each_state() -> None:
    """By hand, for the command starts without numpy, but as the rows do."""
    found = next(each for each in cli.message.count.command.params if each.name == "state")
    assert isinstance(found, click.Option)
    assert found.help == ", ".join(STANDINGS)


@pytest.mark.parametrize(
    ("command", "answer"),
    [("count", {"count": 12}), ("histogram", BUCKETS), ("list", {"items": [], "next_cursor": None})],
)
def test_what_a_running_cancel_has_yet_to_reach(
    node: ScriptedNode, call: Call, command: str, answer: dict[str, object]
) -> None:
    """Said on stderr, so that scripts read the same number."""
    node.say(200, answer)
    before = call(command)
    assert "cancelled already" not in before.stderr
    node.say(200, answer | {"settling": 3})
    result = call(command)
    assert result.stdout == before.stdout
    assert "3 of these are cancelled already: an operation has not reached them yet" in result.stderr
