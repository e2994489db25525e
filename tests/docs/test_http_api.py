"""docs/http-api.md: every example is run against a node, and every route has one."""

import asyncio
from pathlib import Path

import pytest

from api.http.route import RouteTable
from api.serve import ROUTES
from node.node import Node
from storage.format.level import LEVELS
from tests.docs.page import Request, compare, examples, read_command, send, send_plainly
from tests.node.single_node import run_node
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"
EXAMPLES = examples(PAGE)
ADDRESS = "localhost:7400"


def test_every_block_is_an_example() -> None:
    """A command without an answer, or an answer without a command, would not be run."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```sh\n") == len(EXAMPLES)
    assert text.count("```") == 4 * len(EXAMPLES)
    assert text.count("\ncurl ") == len(EXAMPLES)


def test_every_route_has_an_example() -> None:
    """What the server serves is shown, and answered as it should be by at least one of its examples."""
    table = RouteTable(ROUTES)
    shown = set()
    for example in EXAMPLES:
        request = read_command(example.command)
        shown.add(table.find(request.method, request.target)[0])
    assert {(route.method, route.pattern) for route in ROUTES} == {(route.method, route.pattern) for route in shown}


def test_the_page_is_true(tmp_path: Path) -> None:
    """Each command, in order, gets the status and the shape of answer that the page shows."""

    async def play(node: Node) -> None:
        names: dict[str, str] = {ADDRESS: node.config.http.listen}
        await until(lambda: node.group.machine.level == LEVELS[1])  # a new cluster begins at level 1
        for example in EXAMPLES:
            command = example.command
            for shown, real in names.items():
                command = command.replace(shown, real)
            answer = await send(command)
            assert answer.status == example.status, (example.command, answer.body)
            compare(example.answer, answer.body, names)

    run_node(tmp_path, play)


def test_a_command_is_read_as_curl_reads_it(tmp_path: Path) -> None:
    """Where there is no curl, the same request is sent by the standard library."""
    assert read_command("""curl -X PATCH h:1/v1/a -H 'If-Match: "1"' --json '{"a": 1}'""") == Request(
        "PATCH", "h:1", "/v1/a", {"If-Match": '"1"', "Content-Type": "application/json"}, b'{"a": 1}'
    )
    assert read_command("curl 'h:1/x?a&b'") == Request("GET", "h:1", "/x?a&b", {}, None)
    assert read_command("curl h:1/x --data-binary '1\n2'").body == b"1\n2"

    async def play(node: Node) -> None:
        for command in (f"curl {ADDRESS}/livez", f"curl {ADDRESS}/v1/messages --json '{{}}'"):
            here = command.replace(ADDRESS, node.config.http.listen)
            plainly = await asyncio.to_thread(send_plainly, read_command(here))
            assert plainly.status == (await send(here)).status

    run_node(tmp_path, play)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ('{"a": 1}', b'{"a":2}'),
        ('{"a": 1}', b'{"a":1,"b":2}'),
        ('{"id": "X", "of": {"id": "X"}}', b'{"id":"Y","of":{"id":"Z"}}'),
        ('{"at": "2026-11-21T02:10:20.125Z"}', b'{"at":"soon"}'),
        ('{"term": 1}', b'{"term":"1"}'),
        ('{"a": [1]}', b'{"a":[1,1]}'),
        ('{"a": 1}\n{"a": 2}', b'{"a":1}\n{"a":3}'),
        ("ok", b"not ok"),
        ("b\n...", b"a\nc"),
    ],
)
def test_what_differs_is_found(shown: str, found: bytes) -> None:
    """The comparison can fail: values, members, kinds, and one id for two."""
    with pytest.raises(AssertionError):
        compare(shown, found, {})


def test_what_may_differ_is_let_through() -> None:
    """Ids and times are others each time; an id stands for the same one ever after."""
    names: dict[str, str] = {}
    shown = '{"id": "X", "due": "2026-11-21T02:10:20.125Z", "term": 1, "key": null}'
    compare(shown, b'{"id":"Y","due":"2027-11-21T02:10:20.000Z","term":5,"key":null}', names)
    assert names == {"X": "Y"}
