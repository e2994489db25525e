"""An operation of the HTTP contract, as docs/openapi.json shows it: a row beside its route.

Method, path and who answers stand in the route itself (api/http/route.py). Codes that every route may answer, or every
one that takes a body, are added where the document is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.contract import schema
from api.contract.schema import Schema
from api.contract.shape import Shape
from api.port.problem import TABLE

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
TEXT: Final = "text/plain"


class BadOperation(ValueError):
    """A row that says what cannot be; says which and what."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of the query, or a header."""

    name: str
    schema: Schema
    said: str
    where: str = "query"


IF_MATCH: Final = Parameter("If-Match", schema.text(32), "The revision that the caller saw, as its ETag.", "header")
LIMIT: Final = Parameter("limit", {**schema.whole(1, 1_000), "default": 100}, "So many a page.")
CURSOR: Final = Parameter("cursor", schema.text(1024), "The `next_cursor` of the page before.")


@dataclass(frozen=True, slots=True)
class Example:
    """A request, and what it is answered where one node led all the while. `target`: the path and query. `body`: a JSON
    value; text of lines for NDJSON. `answer`: the same; None: it is too long to be shown. `turn`: examples run by
    turns, and within one in the order of the document. What one shows as an id, a receipt or a cursor stands for the
    real one in those behind it. `alone`: one node can show it; others are asked of a port in memory."""

    name: str
    target: str
    answer: Any = None
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    turn: int = 0
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: a schema or shape, its media type, in which words, and headers by name."""

    schema: Schema | Shape
    said: str = "Done."
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`name`: one word for clients, as `scheduleMessage`. `answers`: status -> what is answered, and which headers come
    with it. `errors`: codes of its own. `optional`: the body may be left out."""

    name: str
    summary: str
    answers: Mapping[int, Answered]
    said: str = ""
    parameters: Sequence[Parameter] = ()
    request: Schema | Shape | None = None
    media: str = JSON
    optional: bool = False
    errors: Sequence[str] = ()
    examples: Sequence[Example] = ()

    def __post_init__(self) -> None:
        for code in self.errors:
            if code not in TABLE:
                raise BadOperation(f"operation {self.name}: there is no code {code}")
        for example in self.examples:
            refused = example.status in {status for status, _ in TABLE.values()}
            if not (example.status in self.answers or refused):
                raise BadOperation(f"operation {self.name}: example {example.name} is answered {example.status}")


REVISION: Final = {"ETag": "The revision, for If-Match."}


def ok(answered: Schema | Shape, said: str = "Done.", **headers: str) -> dict[int, Answered]:
    """200 with this."""
    return {200: Answered(answered, said, headers=headers)}
