"""An operation of the HTTP contract, as docs/openapi.json shows it: a row beside its route.

The route itself has the method, the path and whether the leader answers (api/http/route.py). Codes that every route may
answer are added in openapi.py, and so are the codes of every route that takes a body.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.contract import schema
from api.contract.schema import Schema
from api.contract.shape import Shape
from api.port.forward import REQUEST_KEY_MAX
from api.port.problem import TABLE

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
MSGPACK: Final = "application/msgpack"
TEXT: Final = "text/plain"


class BadOperation(ValueError):
    """An operation that contradicts itself or the problem table. The text says which and how."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, of the path or of a header; `where` is query, path or header."""

    name: str
    schema: Schema
    said: str
    where: str = "query"


IF_MATCH: Final = Parameter(
    "If-Match", schema.text(32), "The revision that the client saw, as `ETag` gave it.", "header"
)
IDEMPOTENCY_KEY: Final = Parameter(
    "Idempotency-Key",
    schema.text(REQUEST_KEY_MAX),
    "Makes the request safe to send again: under the same key it has no second effect, and gets the first answer.",
    "header",
)
IDEMPOTENCY_REPLAYED: Final = {"Idempotency-Replayed": "`true`: this request came before."}
LIMIT: Final = Parameter("limit", {**schema.whole(1, 1_000), "default": 100}, "At most so many items a page.")
CURSOR: Final = Parameter("cursor", schema.text(1024), "The `next_cursor` of the page before.")


@dataclass(frozen=True, slots=True)
class Example:
    """A request and its answer, on a cluster in which one node led all the while.

    - `target`: the path and query.
    - `body`: a JSON value, or text of lines for NDJSON.
    - `answer`: likewise. None if the answer is too long to be shown.
    - `turn`: examples run in the order of their turns, and within a turn in the order of the document. An id, receipt
      or cursor shown by one example stands for the real one in the examples after it.
    - `alone`: true if a cluster of one node can show it. Other examples run against a port in memory.
    """

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
    """An answer: a schema or shape, its text, its media type, and headers by name."""

    schema: Schema | Shape
    said: str = "Done."
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation of the contract, as the documents show it.

    - `name`: one word for clients, such as `scheduleMessage`.
    - `answers`: the status of each success -> its answer.
    - `errors`: the codes that this operation may answer, beside those of every route.
    - `also`: further media types of the request, in which it is an array of what `media` has a line for.
    - `optional`: true if the request's body may be left out.
    """

    name: str
    summary: str
    answers: Mapping[int, Answered]
    said: str = ""
    parameters: Sequence[Parameter] = ()
    request: Schema | Shape | None = None
    media: str = JSON
    also: Sequence[str] = ()
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


REVISION: Final = {"ETag": "The revision, for `If-Match`."}


def ok(answered: Schema | Shape, said: str = "Done.", **headers: str) -> dict[int, Answered]:
    """Return the answers of an operation with status 200 only."""
    return {200: Answered(answered, said, headers=headers)}
