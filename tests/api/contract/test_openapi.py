"""The document made of routes: what cannot be told is refused by name."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from api.contract import schema
from api.contract.openapi import document
from api.contract.operation import BadOperation, Example, Operation, Parameter, ok
from api.contract.shape import Shape, array, nullable, sent

_COUNT = Shape("Count", {"count": schema.COUNT})


class Told(msgspec.Struct):
    """What a route says of itself."""

    says: Operation | None
    method: str = "GET"
    pattern: str = "/v1/things/{id}"
    leader: bool = False
    keyed: bool = False
    internal: bool = False


def _document(*routes: Told) -> Any:
    return document(routes, "0.1.0")


@pytest.mark.parametrize(
    ("routes", "says"),
    [
        ([Told(None)], "GET /v1/things/{id} says nothing of itself"),
        (
            [Told(Operation("a", "A", ok(_COUNT))), Told(Operation("a", "B", ok(_COUNT)))],
            "operation a stands there twice",
        ),
        ([Told(Operation("a", "A", ok(_COUNT), request=Shape("Count", {})))], "two shapes are named Count"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(routes: Sequence[Told], says: str) -> None:
    """When the document is made."""
    with pytest.raises(BadOperation, match=says.replace("{", r"\{")):
        _document(*routes)


def test_a_code_that_is_in_no_table_is_refused_at_import() -> None:
    """And an example that is answered as nothing is."""
    with pytest.raises(BadOperation, match="operation a: there is no code wrong"):
        Operation("a", "A", ok(_COUNT), errors=("wrong",))
    with pytest.raises(BadOperation, match="operation a: example b is answered 201"):
        Operation("a", "A", ok(_COUNT), examples=(Example("b", "/", {}, 201),))


def test_a_route_from_node_to_node_is_left_out() -> None:
    """Whatever it says."""
    assert _document(Told(None, internal=True))["paths"] == {}


def test_shapes_are_told_once_and_referred_to() -> None:
    """Wherever they stand in another one."""
    inner = Shape("Inner", {"a": schema.FLAG}, optional=("a",))
    outer = Shape("Outer", {"one": inner, "some": array(inner), "none": nullable(inner)})
    schemas = _document(Told(Operation("a", "A", ok(outer))))["components"]["schemas"]
    here = {"$ref": "#/components/schemas/Inner"}
    assert schemas["Outer"] == {
        "type": "object",
        "properties": {
            "one": here,
            "some": {"type": "array", "items": here},
            "none": {"anyOf": [here, {"type": "null"}]},
        },
        "required": ["one", "some", "none"],
    }
    assert schemas["Inner"] == {"type": "object", "properties": {"a": {"type": "boolean"}}}


def test_codes_stand_under_their_status() -> None:
    """Its own, those of fields where there are some, and those of the leader's routes; a change may be unknown."""
    fields = sent("Wish", {"a": schema.FLAG}, ("a",))
    says = Operation("a", "A", ok(_COUNT), request=fields, errors=("unknown-topic", "leased"))
    told = _document(Told(says, "POST", leader=True))["paths"]["/v1/things/{id}"]["post"]
    codes = {status: each["description"] for status, each in told["responses"].items() if "description" in each}
    assert codes == {
        "200": "Done.",
        "404": "`unknown-topic`",
        "409": "`leased`",
        "422": "`invalid-field`, `unknown-field`",
        "503": "`no-leader`",
        "504": "`outcome-unknown`",
    }
    keyed = _document(Told(says, "POST", keyed=True))["paths"]["/v1/things/{id}"]["post"]
    assert [each["name"] for each in keyed["parameters"]] == ["id", "Idempotency-Key"]
    assert "`key-reused`" in keyed["responses"]["422"]["description"]
    assert list(keyed["responses"]["200"]["headers"]) == ["Idempotency-Replayed"]
    read = _document(Told(Operation("b", "B", ok(_COUNT)), leader=True))["paths"]["/v1/things/{id}"]["get"]
    assert list(read["responses"]) == ["200", "503", "default"]


def test_examples_stand_at_what_they_show() -> None:
    """The path, the query, a header, the body and the answer."""
    parameters = (
        Parameter("limit", schema.whole(1, 9), "So many."),
        Parameter("If-Match", schema.WORD, "It.", "header"),
    )
    example = Example("one", "/v1/things/n7?limit=3", {"count": 1}, 200, {"a": True}, {"If-Match": '"2"'})
    says = Operation(
        "a", "A", ok(_COUNT), parameters=parameters, request=sent("Wish", {"a": schema.FLAG}), examples=(example,)
    )
    told = _document(Told(says, "POST"))["paths"]["/v1/things/{id}"]["post"]
    assert [(each["name"], each["in"], each["required"], each["examples"]) for each in told["parameters"]] == [
        ("id", "path", True, {"one": {"value": "n7"}}),
        ("limit", "query", False, {"one": {"value": "3"}}),
        ("If-Match", "header", False, {"one": {"value": '"2"'}}),
    ]
    assert told["requestBody"]["content"]["application/json"]["examples"] == {"one": {"value": {"a": True}}}
    assert told["responses"]["200"]["content"]["application/json"]["examples"] == {"one": {"value": {"count": 1}}}
    assert told["tags"] == ["things"]
