"""docs/openapi.json: every example in it is sent to a node, and each answer is held against its schema.

Answers are held against a closed copy of their schema: a member that the document does not know is found.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

from api.contract.fields import MESSAGE
from api.contract.openapi import document
from api.contract.operation import JSON, NDJSON, Example, Operation, Parameter
from api.http.route import Route
from api.port.port import Limits
from api.port.problem import Problem
from api.read.message import parse_message
from api.serve import ROUTES
from node.node import Node
from storage.format.level import LEVELS
from tests.api.contract.added import added, note
from tests.api.contract.test_fields import smallest
from tests.api.harness import running
from tests.api.memory_queries import NOW_MS
from tests.api.read.test_message import OBJECTS
from tests.docs.page import compare
from tests.examples import examples
from tests.node.single_node import run_node
from tests.waiting import until

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SHOWN = [(route, route.says) for route in ROUTES if route.says is not None]
Run = tuple[Route, Operation, Example]
EXAMPLES: list[Run] = sorted(
    ((route, says, example) for route, says in SHOWN for example in says.examples),
    key=lambda run: run[2].turn,  # in a turn, in the order of the document
)
_BODIES = (JSON, NDJSON, "application/problem+json")


def closed(schema: Any) -> Any:
    """The same, in which an object has no members but those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


CLOSED = closed({"schemas": DOCUMENT["components"]["schemas"]})


def check(schema: Any, value: Any, *, within: Any = CLOSED) -> None:
    """Raises ValidationError."""
    Draft202012Validator({**closed(schema), "components": within}).validate(value)


def written(route: Route) -> Any:
    """What the document says of a route."""
    return DOCUMENT["paths"][route.pattern][route.method.lower()]


def content(part: Any) -> tuple[str, Any]:
    """The first media type and the schema of a request's body or of an answer."""
    if "$ref" in part:
        part = DOCUMENT["components"]["responses"][part["$ref"].rpartition("/")[2]]
    (media, found), *_ = part["content"].items()
    return media, found["schema"]


def documents(media: str, body: bytes | str) -> list[Any]:
    """The JSON of an answer, one a line where there is one a line; of text the text."""
    text = body if isinstance(body, str) else body.decode()
    if media not in _BODIES:
        return [text]
    return [json.loads(line) for line in text.splitlines()] if media == NDJSON else [json.loads(text)]


def body_of(example: Example) -> str | None:
    """As it is sent."""
    return example.body if example.body is None or isinstance(example.body, str) else json.dumps(example.body)


async def play_example(session: aiohttp.ClientSession, base: str, run: Run, names: dict[str, str]) -> None:
    """Send one, and hold against the document what was sent and what came."""
    route, says, example = run
    target, body = example.target, body_of(example)
    for shown, real in names.items():
        target, body = target.replace(shown, real), None if body is None else body.replace(shown, real)
    headers = {"Content-Type": JSON, **example.headers} if body is not None else dict(example.headers)
    async with session.request(route.method, base + target, data=body, headers=headers) as reply:
        came = await reply.read()
        assert reply.status == example.status, (example.name, came)
        part = written(route)["responses"][str(example.status)]
        media, schema = content(part)
        assert reply.content_type == media
        for name in part.get("headers", {}):
            assert name in reply.headers or name == "Idempotency-Replayed", name
    for found in documents(media, came):
        check(schema, found)
    if example.answer is not None:
        shown = example.answer if isinstance(example.answer, str) else json.dumps(example.answer)
        compare(shown, came, names)
        for found in documents(media, shown):
            check(schema, found)
    check_request(route, says, example)


def check_request(route: Route, says: Operation, example: Example) -> None:
    """An example that is refused is refused by the schema too."""
    if example.body is None:
        return
    media, schema = content(written(route)["requestBody"])
    for found in documents(media, str(body_of(example))):
        if example.status < 400:
            check(schema, found)
        else:
            with pytest.raises(ValidationError):
                check(schema, found)


def test_every_example_runs_on_a_node(tmp_path: Path) -> None:
    """In order, with what the ones before left there; status, members and values are those of the document."""

    async def play(node: Node) -> None:
        names: dict[str, str] = {}
        await until(lambda: node.group.machine.level == LEVELS[1])  # a new cluster begins at level 1
        async with aiohttp.ClientSession() as session:
            for run in EXAMPLES:
                if run[2].alone:
                    await play_example(session, f"http://{node.config.http.listen}", run, names)

    run_node(tmp_path, play)


def test_every_example_that_takes_more_nodes_runs_on_a_port_in_memory() -> None:
    """The real server; what three nodes would say is made up."""

    async def play() -> None:
        for run in EXAMPLES:
            if not run[2].alone:
                async with running() as client:
                    await play_example(client.session, client.base, run, {})

    asyncio.run(play())


def test_every_operation_has_an_example_that_is_not_refused() -> None:
    """So every schema of an answer has met an answer."""
    assert [says.name for _, says in SHOWN if not any(each.status < 400 for each in says.examples)] == []


def test_the_document_has_the_routes_of_the_contract() -> None:
    """All but those from node to node, which are marked as such."""
    internal = [route.pattern for route in ROUTES if route.internal]
    outcomes = ["/v1/cluster/outcomes", "/v1/cluster/takeover", "/v1/cluster/waits"]
    assert sorted(internal) == [*outcomes, "/v1/ledger/records"]
    told = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told == {(route.method, route.pattern) for route in ROUTES if not route.internal}
    assert all(route.says is None for route in ROUTES if route.internal)


def _parts(value: Any) -> Iterator[Any]:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(each)


def test_every_reference_leads_somewhere() -> None:
    """And every schema is one."""
    for part in _parts(DOCUMENT):
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            _, first, second, name = part["$ref"].split("/")
            assert name in DOCUMENT[first][second]
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def _parameters() -> list[Any]:
    return [
        pytest.param(written(route), parameter, id=f"{says.name}-{parameter.name}")
        for route, says in SHOWN
        for parameter in says.parameters
    ]


@pytest.mark.parametrize(("operation", "parameter"), _parameters())
def test_examples_of_parameters_are_of_their_schema(operation: Any, parameter: Parameter) -> None:
    """Text, as it stands in a query; a number is one in text."""
    (found,) = [each for each in operation["parameters"] if each["name"] == parameter.name]
    for example in found.get("examples", {}).values():
        whole = found["schema"].get("type") == "integer"
        check(found["schema"], int(example["value"]) if whole else example["value"])


@pytest.mark.parametrize("name", [row.name for row in MESSAGE.served])
def test_a_message_with_the_example_of_a_row_is_of_the_schema(name: str) -> None:
    """And one with two fields that clash is not, nor one without what is required."""
    schema = {"$ref": "#/components/schemas/NewMessage"}
    message = smallest(MESSAGE.rows[name])
    check(schema, message)
    for other, row in MESSAGE.rows.items():
        if name in row.clash and row.since != "planned":
            with pytest.raises(ValidationError):
                check(schema, {**message, other: row.example})
    if MESSAGE.rows[name].required:
        with pytest.raises(ValidationError):
            check(schema, {each: value for each, value in message.items() if each != name})


@examples(300)
@given(OBJECTS)
def test_what_the_server_takes_is_of_the_schema(message: dict[str, Any]) -> None:
    """A client that checks its requests by the document refuses none that it need not."""
    try:
        parse_message(json.dumps(message).encode(), NOW_MS, Limits(push_allow=()))
    except Problem:
        return
    check({"$ref": "#/components/schemas/NewMessage"}, message)


def test_a_value_that_clashes_with_nothing_is_of_the_schema() -> None:
    """A JSON body may say that it is one."""
    schema = {"$ref": "#/components/schemas/NewMessage"}
    check(schema, {"topic": "a", "body": 1, "content_type": "application/json"})
    with pytest.raises(ValidationError):
        check(schema, {"topic": "a", "body": 1, "content_type": "image/png"})


def test_a_field_that_a_test_adds_is_printed() -> None:
    """In a request, in the answer of a GET, where it may be null, and in that of a pull, where it may be missing."""
    with added(note(), note("inner", pulled=False)):
        schemas = document(ROUTES, "0.2.0")["components"]["schemas"]
    sent = schemas["NewMessage"]["properties"]["note"]
    assert (sent["maxLength"], sent["description"], sent["examples"]) == (16, "Words for people.", ["for Ada"])
    assert sent["x-since"] == "0.2.0"
    assert schemas["Message"]["properties"]["note"]["type"] == ["string", "null"]
    assert "note" in schemas["Message"]["required"]
    assert "note" in schemas["Delivery"]["properties"]
    assert "note" not in schemas["Delivery"]["required"]
    assert "inner" not in schemas["Delivery"]["properties"]
    assert "note" not in DOCUMENT["components"]["schemas"]["NewMessage"]["properties"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/components/schemas/Scheduled"}, {"id": "A", "topic": "a", "due": "", "state": "ready"}),
        ({"$ref": "#/components/schemas/Results"}, {"results": [{"receipt": "r", "result": "acked", "more": 1}]}),
        ({"$ref": "#/components/schemas/Count"}, {"count": -1}),
    ],
)
def test_what_differs_from_a_schema_is_found(schema: Any, value: Any) -> None:
    """The check can fail: a member that is missing, one too many, a value past its bound."""
    with pytest.raises(ValidationError):
        check(schema, value)
