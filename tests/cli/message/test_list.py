"""list: what is asked for, page by page, and what is shown."""

import json
from urllib.parse import parse_qs, urlsplit

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode

ITEM = {
    "id": "2000F6ZY000000004M16D0WDR1",
    "topic": "orders",
    "state": "scheduled",
    "due": "2026-11-21T02:10:20.125Z",
    "attempt": 0,
    "tags": ["eu", "vip"],
    "key": None,
}


def _asked(node: ScriptedNode) -> list[dict[str, str]]:
    """The query of each request."""
    queries = [parse_qs(urlsplit(path).query) for _, path, _ in node.requests]
    return [{name: text for name, (text,) in query.items()} for query in queries]


def _page(count: int, cursor: str | None) -> dict[str, object]:
    return {"items": [ITEM] * count, "next_cursor": cursor}


def test_a_list(node: ScriptedNode, call: Call) -> None:
    """A line for each message, and where the list goes on."""
    node.say(200, _page(2, "c"))
    result = call("list", "orders", "--limit", "2", "--tag", "eu", "--state", "ready,dead")
    assert result.exit_code == ExitCode.OK
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["id", "topic", "state", "due", "attempt", "tags", "key"]
    assert len(rows) == 2
    assert rows[0].split()[:3] == [ITEM["id"], "orders", "scheduled"]
    assert result.stderr == "more: --cursor c\n"
    (asked,) = _asked(node)
    assert asked == {"topic": "orders", "tag": "eu", "state": "ready,dead", "limit": "2", "body": "false"}
    assert urlsplit(node.requests[0][1]).path == "/v1/messages"


def test_short_pages_are_joined(node: ScriptedNode, call: Call) -> None:
    """Up to the limit, even where a page is empty; and not beyond the last one."""
    for count, cursor in ((2, "c"), (0, "d"), (3, "e")):
        node.say(200, _page(count, cursor))
    result = call("list", "--limit", "5")
    assert len(result.stdout.splitlines()) == 6
    assert result.stderr == "more: --cursor e\n"
    assert [(asked["limit"], asked.get("cursor")) for asked in _asked(node)] == [("5", None), ("3", "c"), ("3", "d")]
    node.say(200, _page(1, None))
    result = call("list", "--cursor", "e")
    assert (len(result.stdout.splitlines()), result.stderr) == (2, "")


def test_all_of_them(node: ScriptedNode, call: Call) -> None:
    """Page by page, each as large as the limit."""
    for count, cursor in ((2, "c"), (1, "d"), (2, None)):
        node.say(200, _page(count, cursor))
    assert len(call("list", "--all", "--limit", "2").stdout.splitlines()) == 6
    assert [asked["limit"] for asked in _asked(node)] == ["2", "2", "2"]


def test_pages_as_json_are_those_of_the_node(node: ScriptedNode, call: Call) -> None:
    """One line a page, as the node wrote it: numbers that no float holds stay."""
    item = json.dumps(ITEM)[:-1]
    node.say(200, (f'{{"items": [{item}, "body": 1e999}}], "next_cursor": "c"}}').encode())
    node.say(200, _page(0, None))
    result = call("list", "--all", "--body", "-o", "json")
    first, second = result.stdout.splitlines()
    assert '"body":1e999' in first
    assert json.loads(second) == {"items": [], "next_cursor": None}
    assert _asked(node)[0]["body"] == "true"


def test_bodies_are_a_column(node: ScriptedNode, call: Call) -> None:
    """If they are asked for."""
    node.say(200, {"items": [{**ITEM, "body": {"n": 7}}], "next_cursor": None})
    head, row = call("list", "--body").stdout.splitlines()
    assert (head.split()[-1], row.replace(" ", "")[-7:]) == ("body", '{"n":7}')


def test_a_refusal(node: ScriptedNode, call: Call) -> None:
    """It ends the list with the node's words."""
    node.say(200, _page(1, "c"))
    node.say(422, {"code": "invalid-field", "detail": "cursor: of another query", "status": 422})
    result = call("list", "--all")
    assert result.exit_code != ExitCode.OK
    assert "of another query" in result.stderr
