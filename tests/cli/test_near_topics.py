"""An unknown topic, and those whose names are near."""

import json

import pytest

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

UNKNOWN = {"code": "unknown-topic", "detail": "no topic is named ordrs"}
TOPICS = {"items": [{"topic": name} for name in ("bills", "orders", "orders-eu")], "next_cursor": None}


@pytest.mark.parametrize(
    "args", [("dead", "ordrs"), ("topic", "get", "ordrs"), ("count", "ordrs"), ("redrive", "ordrs", "--dry-run")]
)
def test_near_topics_are_named(node: ScriptedNode, call: Call, args: tuple[str, ...]) -> None:
    """The exit code and the node's own words stay."""
    node.say(404, UNKNOWN)
    node.say(200, TOPICS)
    result = call(*args)
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "no topic is named ordrs" in result.stderr
    assert "did you mean orders or orders-eu?" in result.stderr


def test_an_empty_pull_says_that_the_topic_does_not_exist(node: ScriptedNode, call: Call) -> None:
    """The pull waited all the same, and the exit code is that of an empty one. A topic that exists is not spoken of."""
    node.say(200, {"messages": []})
    node.say(404, UNKNOWN)
    node.say(200, TOPICS)
    result = call("pull", "ordrs")
    assert result.exit_code == 0
    assert result.stderr == "no topic is named ordrs yet; did you mean orders or orders-eu?\n"
    node.say(200, {"messages": []})
    node.say(200, {"topic": "orders", "mode": "pull"})
    assert call("pull", "orders").stderr == ""
    node.say(200, {"topic": "orders", "mode": "push"})
    node.say(200, {"messages": []})
    assert "orders is a push topic" in call("pull", "orders", "--wait", "1s").stderr
    node.say(200, {"messages": []})
    node.hang_up()
    assert call("pull", "orders").exit_code == 0


def test_no_topic_is_near_or_none_can_be_listed(node: ScriptedNode, call: Call) -> None:
    """Then nothing is added; a document for programs stays as it came."""
    node.say(404, UNKNOWN)
    node.say(200, {"items": [{"topic": "bills"}]})
    node.say(404, UNKNOWN)
    node.hang_up()
    for _ in range(2):
        result = call("dead", "ordrs")
        assert (result.exit_code, "did you mean" in result.stderr) == (ExitCode.NOT_FOUND, False)
    node.say(404, UNKNOWN)
    node.say(200, TOPICS)
    assert json.loads(call("dead", "ordrs", "-o", "json").stderr) == UNKNOWN


def test_another_failure_asks_nothing_more(node: ScriptedNode, call: Call) -> None:
    """One request, one answer."""
    node.say(404, {"code": "unknown-message", "detail": "no such message"})
    assert call("get", "0A").exit_code == ExitCode.NOT_FOUND
    assert len(node.requests) == 1
