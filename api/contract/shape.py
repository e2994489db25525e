"""An object that is sent or answered: a row for each of its members.

A schema (api/contract/schema.py) may hold a shape wherever it may hold another schema. In the document the shape
becomes a reference (api/contract/openapi.py).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.contract.schema import Schema


@dataclass(frozen=True, slots=True)
class Shape:
    """An object of a request or an answer, which the document knows by `name`.

    - `members`: name -> schema or shape, or a function that returns those, if they are made from rows.
    - `optional`: members that an answer may leave out. All others are always there.
    - `sent`: true for a request. It must have the members in `required`, and may have only names of `members`.
    - `rules`: further JSON Schema, such as which members may stand together.
    """

    name: str
    members: Mapping[str, "Schema | Shape"] | Callable[[], Mapping[str, "Schema | Shape"]]
    said: str = ""
    optional: Collection[str] | Callable[[], Collection[str]] = ()
    sent: bool = False
    required: Collection[str] = ()
    rules: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Return the shape as JSON Schema. Shapes among its members stay `Shape` objects."""
        members, optional = _now(self.members), _now(self.optional)
        required = [name for name in members if (name in self.required if self.sent else name not in optional)]
        return {
            "type": "object",
            **({"description": self.said} if self.said else {}),
            "properties": dict(members),
            **({"required": required} if required else {}),
            **({"additionalProperties": False} if self.sent else {}),
            **_now(self.rules),
        }


def _now(rows: Any) -> Any:
    return rows() if callable(rows) else rows


def sent(name: str, members: Mapping[str, Schema | Shape], required: Collection[str] = (), said: str = "") -> Shape:
    """Return the shape of a request's body. It refuses a name that is not a member."""
    return Shape(name, members, said, sent=True, required=required)


def nullable(value: Schema | Shape) -> dict[str, Any]:
    """Return the same value or shape with null allowed."""
    if isinstance(value, Mapping) and isinstance(value.get("type"), str) and "enum" not in value:
        return {**value, "type": [value["type"], "null"]}
    return {"anyOf": [value, {"type": "null"}]}


def array(item: Schema | Shape) -> dict[str, Any]:
    """Return an array of any length, for an answer."""
    return {"type": "array", "items": item}


def page(name: str, item: Schema | Shape, optional: Collection[str] = (), **more: Schema | Shape) -> Shape:
    """Return the shape of a page of items, with the cursor of the next page. `more` are other fields, of which those in
    `optional` may be missing."""
    cursor = {
        "type": ["string", "null"],
        "maxLength": 1024,
        "description": "Where the next page begins; null on the last.",
    }
    members = {**more, "items": {**array(item), "description": "The page."}, "next_cursor": cursor}
    return Shape(name, members, optional=optional)
