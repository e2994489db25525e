"""wheel: what is asked for, and what is shown."""

import json

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

HOUR = {
    "hour": "2026-11-21T02:00:00.000Z",
    "tick": "2026-11-21T02:10:20.000Z",
    "seconds": [
        {"second": "2026-11-21T02:10:19.000Z", "open": 1, "units": 3},
        {"second": "2026-11-21T02:10:21.000Z", "open": 4, "units": 4},
    ],
}


def test_an_hour(node: ScriptedNode, call: Call) -> None:
    """A line for each second, and what they add up to."""
    node.say(200, HOUR)
    result = call("wheel", "2026-11-21T02:30:00Z", "--topic", "orders")
    assert result.exit_code == ExitCode.OK
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["second", "open", "units"]
    assert [row.split()[-2:] for row in rows] == [["1", "3"], ["4", "4"]]
    assert "5 open of 7 in the hour from 2026-11-21T02:00:00.000Z" in result.stderr
    assert "the leader is at 2026-11-21T02:10:20.000Z" in result.stderr
    assert [path for _, path, _ in node.requests] == ["/v1/wheel?topic=orders&hour=2026-11-21T02%3A30%3A00Z"]


def test_the_present_hour(node: ScriptedNode, call: Call) -> None:
    """Nothing is asked for by name; a program gets the node's own words."""
    node.say(200, HOUR)
    assert json.loads(call("wheel", "-o", "json").stdout) == HOUR
    assert [path for _, path, _ in node.requests] == ["/v1/wheel"]
    node.say(200, HOUR | {"seconds": []})
    assert "0 open of 0" in call("wheel").stderr
