"""Print the contract as an OpenAPI 3.1 document, from the rows of fields, shapes, errors and operations."""

from collections.abc import Iterable, Mapping, Sequence
from re import findall
from typing import Any, Final, Protocol

from api.contract import schema
from api.contract.errors import ALWAYS, WITH_BODY, listed, refusals
from api.contract.operation import (
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    Answered,
    BadOperation,
    Example,
    Operation,
    Parameter,
)
from api.contract.schema import Schema
from api.contract.shape import Shape
from api.port.problem import TABLE

PROBLEM_MEDIA: Final = "application/problem+json"
_ABOUT: Final = (
    "Shapes, words and codes grow and never change: ignore members that you do not know, and treat states, results "
    "and codes that you do not know as not final. A request with an unknown field is refused. Times go out in UTC with "
    "milliseconds. `docs/http/README.md` says the same in sentences."
)
_FAULT: Final = Shape(
    "FieldFault",
    {
        "pointer": {
            "type": "string",
            "description": "A JSON pointer into the body; empty if the fault is elsewhere.",
        },
        "detail": {"type": "string", "description": "What is wrong, the limit, and what to do."},
        "parameter": {"type": "string", "description": "The parameter of the query or path that is at fault."},
        "header": {"type": "string", "description": "The header that is at fault."},
    },
    optional=("parameter", "header"),
)
#: application/problem+json. Some codes add members of their own.
PROBLEM: Final = Shape(
    "Problem",
    {
        "type": {"type": "string", "description": "`/problems/` and the code."},
        "title": {"type": "string", "description": "What the code means."},
        "status": {"type": "integer", "description": "The status of the answer."},
        "code": {**schema.choice(sorted(TABLE)), "description": "The word to decide by."},
        "detail": {"type": "string", "description": "What happened here, and what to do."},
        "errors": {"type": "array", "items": _FAULT, "description": "The faults of the request."},
        "leader": {"type": ["string", "null"], "description": "The node that leads, if it is known."},
        "term": {"type": "integer", "description": "The term that the node knows."},
        "request_id": {"type": "string", "description": "Finds the request in the log of the node."},
    },
    "What was refused, and why.",
    optional=("errors", "leader", "term", "request_id"),
    rules={"additionalProperties": True},
)


_PROBLEM: Final = {"$ref": "#/components/responses/Problem"}


class Described(Protocol):
    """The properties of a route that are printed into the document."""

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def pattern(self) -> str:
        """The path, with `{name}` for a segment."""

    @property
    def leader(self) -> bool:
        """True if only the leader answers."""

    @property
    def keyed(self) -> bool:
        """True if it takes an `Idempotency-Key`."""

    @property
    def internal(self) -> bool:
        """True if the document leaves the route out, because nodes call it and clients do not."""

    @property
    def says(self) -> Operation | None:
        """The texts, shapes and examples of the route."""


def document(routes: Iterable[Described], version: str) -> dict[str, Any]:
    """Return the whole document. Raises BadOperation for a route without an operation, or a name that stands twice."""
    shapes = _Shapes()
    paths: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for route in routes:
        if route.internal:
            continue
        if route.says is None:
            raise BadOperation(f"{route.method} {route.pattern} says nothing of itself")
        if route.says.name in names:
            raise BadOperation(f"operation {route.says.name} stands there twice")
        names.add(route.says.name)
        paths.setdefault(route.pattern, {})[route.method.lower()] = _operation(route, route.says, shapes)
    told = f"Refused. Every route may answer {listed(ALWAYS)}; one that takes a body also {listed(WITH_BODY)}."
    refusal = {"description": told, "content": {PROBLEM_MEDIA: {"schema": shapes.written(PROBLEM)}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hourwheel", "version": version, "description": _ABOUT},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "http://localhost:7400", "description": "Any node."}],
        "paths": paths,
        "components": {"schemas": shapes.all(), "responses": {"Problem": refusal}},
    }


class _Shapes:
    """The shapes that the document has referred to so far, as schemas. Two shapes may not have one name."""

    def __init__(self) -> None:
        self._met: dict[str, Shape] = {}
        self._schemas: dict[str, Any] = {}

    def written(self, value: Any) -> Any:
        """Return the value with references in place of shapes."""
        if isinstance(value, Shape):
            if self._met.setdefault(value.name, value) is not value:
                raise BadOperation(f"two shapes are named {value.name}")
            if value.name not in self._schemas:
                self._schemas[value.name] = {}  # the shape may hold itself
                self._schemas[value.name] = self.written(value.schema())
            return {"$ref": f"#/components/schemas/{value.name}"}
        if isinstance(value, Mapping):
            return {name: self.written(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.written(each) for each in value]
        return value

    def all(self) -> dict[str, Any]:
        """Return all schemas, sorted by name."""
        return dict(sorted(self._schemas.items()))


def _operation(route: Described, says: Operation, shapes: _Shapes) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": says.name,
        "tags": [_tag(route.pattern)],
        "summary": says.summary,
        **({"description": says.said} if says.said else {}),
    }
    keyed = (IDEMPOTENCY_KEY,) if route.keyed else ()
    parameters = [*_of_path(route.pattern), *says.parameters, *keyed]
    if parameters:
        found["parameters"] = [_parameter(each, says.examples, route.pattern, shapes) for each in parameters]
    if says.request is not None:
        bodies = {each.name: {"value": each.body} for each in says.examples if each.body is not None}
        content = _content(says.request, bodies, shapes)
        arrays = {media: {"schema": {"type": "array", "items": content["schema"]}} for media in says.also}
        found["requestBody"] = {"required": not says.optional, "content": {says.media: content, **arrays}}
    found["responses"] = _responses(route, says, shapes)
    return found


def _tag(pattern: str) -> str:
    """Return the tag of a path, which names its resource: the first word behind /v1."""
    words = pattern.split("/")
    return words[2] if words[1] == "v1" else "health"


def _of_path(pattern: str) -> list[Parameter]:
    known = {"topic": Parameter("topic", schema.TOPIC, "The topic's name.", "path")}
    names = findall(r"\{(\w+)\}", pattern)
    return [
        known.get(name, Parameter(name, schema.text(64), "The id, as an answer gave it.", "path")) for name in names
    ]


def _parameter(parameter: Parameter, examples: Sequence[Example], pattern: str, shapes: _Shapes) -> dict[str, Any]:
    shown = {each.name: {"value": text} for each in examples if (text := _value(parameter, each, pattern)) is not None}
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.said,
        "schema": shapes.written(parameter.schema),
        **({"examples": shown} if shown else {}),
    }


def _value(parameter: Parameter, example: Example, pattern: str) -> str | None:
    """Return an example's value for a parameter."""
    if parameter.where == "header":
        return example.headers.get(parameter.name)
    path, _, query = example.target.partition("?")
    if parameter.where == "path":
        return dict(zip(pattern.split("/"), path.split("/"), strict=True))[f"{{{parameter.name}}}"]
    return dict(pair.partition("=")[::2] for pair in query.split("&")).get(parameter.name)


def _content(value: Schema | Shape, examples: Mapping[str, Any], shapes: _Shapes) -> dict[str, Any]:
    return {"schema": shapes.written(value), **({"examples": dict(examples)} if examples else {})}


def _responses(route: Described, says: Operation, shapes: _Shapes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, answered in says.answers.items():
        examples = [each for each in says.examples if each.status == status]
        headers = {**answered.headers, **(IDEMPOTENCY_REPLAYED if route.keyed else {})}
        found[str(status)] = _answer(answered, headers, examples, shapes)
    for status, codes in refusals(route, says).items():
        refused = {each.name: {"value": each.answer} for each in says.examples if each.status == status}
        found[str(status)] = {**_PROBLEM, "description": listed(codes)}
        if refused:
            content = {PROBLEM_MEDIA: _content(PROBLEM, refused, shapes)}
            found[str(status)] = {"description": listed(codes), "content": content}
    return {**found, "default": _PROBLEM}


def _answer(
    answered: Answered, said: Mapping[str, str], examples: Sequence[Example], shapes: _Shapes
) -> dict[str, Any]:
    shown = {each.name: {"value": each.answer} for each in examples if each.answer is not None}
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in said.items()}
    return {
        "description": answered.said,
        **({"headers": headers} if headers else {}),
        "content": {answered.media: _content(answered.schema, shown, shapes)},
    }
