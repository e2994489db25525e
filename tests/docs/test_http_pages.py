"""docs/http: each example is run against a node, each route has one, and the tables are printed from the contract."""

import asyncio
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from api.contract.errors import ADVICE
from api.contract.openapi import document
from api.http.route import Route, RouteTable
from api.port.problem import TABLE
from api.serve import ROUTES
from node.node import Node
from storage.format.level import LEVELS
from tests.api.contract.added import added, note
from tests.docs.page import Request, compare, examples, read_command, send, send_plainly
from tests.node.single_node import run_node
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "docs" / "http"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
ADDRESS = "localhost:7400"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_an_example(name: str) -> None:
    """A command without an answer, or an answer without a command, would not be run."""
    text, found = (FOLDER / name).read_text(encoding="utf-8"), examples(FOLDER / name)
    assert found, name
    assert text.count("```sh\n") == len(found)
    assert text.count("```") == 4 * len(found)
    assert text.count("\ncurl ") == len(found)


@pytest.mark.parametrize("name", PAGES)
def test_every_route_of_a_page_has_an_example_there(name: str) -> None:
    """A route that a page tells of is shown on that page."""
    shown = {f"{route.method} {route.pattern}" for route in _shown(name)}
    text = (FOLDER / name).read_text(encoding="utf-8")
    told = set(re.findall(r"^\*\*`([A-Z]+ /[^`]*)`\*\*$", text, re.MULTILINE))
    assert told - shown == set()


def test_every_route_has_an_example() -> None:
    """Those from node to node too."""
    shown = {(route.method, route.pattern) for name in PAGES for route in _shown(name)}
    assert {(route.method, route.pattern) for route in ROUTES} == shown


def _shown(name: str) -> list[Route]:
    table = RouteTable(ROUTES)
    requests = [read_command(example.command) for example in examples(FOLDER / name)]
    return [table.find(request.method, request.target)[0] for request in requests]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_true(name: str, tmp_path: Path) -> None:
    """Each command of it, in order, gets the status and the shape of answer that the page shows, on a new node."""

    async def play(node: Node) -> None:
        names: dict[str, str] = {ADDRESS: node.config.http.listen}
        await until(lambda: node.group.machine.level == LEVELS[1])  # a new cluster begins at level 1
        for example in examples(FOLDER / name):
            command = example.command
            for shown, real in names.items():
                command = command.replace(shown, real)
            answer = await send(command)
            assert answer.status == example.status, (example.command, answer.body)
            compare(example.answer, answer.body, names)

    run_node(tmp_path, play)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that prints the tables."""
    spec = importlib.util.spec_from_file_location("http_pages", FOLDER.parents[1] / "deploy" / "http_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_tables_of_today(script: ModuleType, name: str) -> None:
    """`python deploy/http_pages.py` would change nothing."""
    found = script.pages()
    assert found[name] == script.Printer(found).page(name), "run PYTHONPATH=. python deploy/http_pages.py"


def test_every_operation_stands_on_a_page(script: ModuleType) -> None:
    """On one: the printer refuses two."""
    found = script.pages()
    assert script.Printer(found).missing() == []
    with pytest.raises(script.BadPage, match="pullMessages stands on"):
        script.Printer({**found, "twice.md": "<!-- operation pullMessages -->\n<!-- end -->\n"})


def test_a_mark_that_names_nothing_is_refused(script: ModuleType) -> None:
    """An operation or a shape that the contract does not have."""
    for mark in ("operation none", "shape None"):
        printer = script.Printer({"a.md": f"<!-- {mark} -->\n<!-- end -->\n"})
        with pytest.raises(script.BadPage, match="does not have"):
            printer.page("a.md")


def test_a_field_that_a_test_adds_is_printed(script: ModuleType) -> None:
    """With its bound and what it means, and nothing else changes."""
    found = script.pages()
    with added(note()):
        printer = script.Printer(found)
        pages = {name: printer.page(name) for name in ("messages.md", "pull.md")}
    for name, text in pages.items():
        lines = set(text.splitlines()) - set(found[name].splitlines())
        assert lines, name
        assert all("note`" in line for line in lines), lines
    assert "| `note` | text | 1 to 16 characters |  | Words for people. |" in pages["messages.md"]


def test_a_field_without_a_meaning_is_refused(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no table has an empty cell for one."""
    without = document(ROUTES, "")
    del without["components"]["schemas"]["Count"]["properties"]["count"]["description"]
    monkeypatch.setattr(script, "document", lambda routes, version: without)
    with pytest.raises(script.BadPage, match="what it means"):
        script.Printer(script.pages()).page("counts.md")


def test_every_code_has_advice() -> None:
    """And none has that does not exist."""
    assert ADVICE.keys() == TABLE.keys()


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    """To a file, and to a heading of it."""
    for target in re.findall(r"\]\(([^)]+)\)", (FOLDER / name).read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        page, _, anchor = target.partition("#")
        path = (FOLDER / (page or name)).resolve()
        assert path.is_file(), target
        if anchor:
            assert anchor in _anchors(path.read_text(encoding="utf-8")), target


def _anchors(text: str) -> set[str]:
    """Those that GitHub gives to headings."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


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
    assert names == {"X": "Y", "2026-11-21T02:10:20.125Z": "2027-11-21T02:10:20.000Z"}
