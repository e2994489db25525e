"""An object that is sent or answered: a row for each of its members.

A schema (api/contract/schema.py) may hold a shape wherever it may hold another schema; in the document that is a
reference (api/contract/openapi.py).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.contract.schema import Schema


@dataclass(frozen=True, slots=True)
class Shape:
    """`members`: name -> schema or shape, or a way to get those, where rows say them. Of an answer all are there but
    those that are `optional`. One that is `sent` has those that are `required`, and no others than its members; `rules`
    say what may stand beside what."""

    name: str
    members: Mapping[str, "Schema | Shape"] | Callable[[], Mapping[str, "Schema | Shape"]]
    said: str = ""
    optional: Collection[str] | Callable[[], Collection[str]] = ()
    sent: bool = False
    required: Collection[str] = ()
    rules: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """As JSON Schema, in which shapes stand for themselves."""
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
    """The body of a request: a name that is not here is refused."""
    return Shape(name, members, said, sent=True, required=required)


def nullable(value: Schema | Shape) -> dict[str, Any]:
    """The same, or null."""
    if isinstance(value, Mapping) and isinstance(value.get("type"), str) and "enum" not in value:
        return {**value, "type": [value["type"], "null"]}
    return {"anyOf": [value, {"type": "null"}]}


def array(item: Schema | Shape) -> dict[str, Any]:
    """Any number of such, in an answer."""
    return {"type": "array", "items": item}


def page(name: str, item: Schema | Shape, **more: Schema | Shape) -> Shape:
    """A page of such, and where the next one begins."""
    cursor = {"type": ["string", "null"], "maxLength": 1024, "description": "Null: this is the last page."}
    return Shape(name, {**more, "items": array(item), "next_cursor": cursor})
