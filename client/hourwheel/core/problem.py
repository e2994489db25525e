"""Reads an answer that is not a success: the problem document (RFC 9457) and its headers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Python reads whole numbers of at most so many digits; longer ones need time by the square of their length.
DIGITS_MAX: Final = 4_300


@dataclass(frozen=True, slots=True)
class Field:
    """One field at fault. `pointer` is where it stands in the body; a fault elsewhere names a parameter or a header."""

    pointer: str
    detail: str
    parameter: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """The members of a refusal. One that is missing or has another type is empty here. `document` has all of them.

    `code` is empty if the answer is no problem document. Then it may come from a proxy on the way.
    """

    status: int
    code: str = ""
    title: str = ""
    detail: str = ""
    fields: tuple[Field, ...] = ()
    retry_after_s: float | None = None
    leader: str = ""
    term: int = 0
    request_id: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code or 'no-code'} (HTTP {self.status}): {self.detail or self.title or 'no detail given'}"


def read_document(payload: bytes | str) -> dict[str, Any] | None:
    """The JSON object of an answer. None if it is none. A body may hold a whole number that is too long for Python: it
    is read as text."""
    try:
        document = json.loads(payload, parse_int=read_whole)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_problem(status: int, headers: Mapping[str, str], payload: bytes | Mapping[str, Any]) -> Problem:
    """The problem of an answer whose status is no success. It takes any bytes and raises nothing.

    Names in `headers` may be written in any case.
    """
    document = (read_document(payload) if isinstance(payload, bytes) else payload) or {}
    term = document.get("term")
    errors = document.get("errors")
    return Problem(
        status=status,
        code=_text(document, "code"),
        title=_text(document, "title"),
        detail=_text(document, "detail"),
        fields=tuple(_field(each) for each in errors if isinstance(each, Mapping)) if isinstance(errors, list) else (),
        retry_after_s=_seconds(next((value for name, value in headers.items() if name.lower() == "retry-after"), "")),
        leader=_text(document, "leader"),
        term=term if isinstance(term, int) else 0,
        request_id=_text(document, "request_id"),
        document=document,
    )


def read_whole(digits: str) -> int | str:
    """A whole number of a JSON document; its text if it is too long for Python."""
    return int(digits) if len(digits) <= DIGITS_MAX else digits


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _field(error: Mapping[str, Any]) -> Field:
    return Field(*(_text(error, name) for name in ("pointer", "detail", "parameter", "header")))


def _seconds(value: str) -> float | None:
    """`Retry-After` in seconds. Nodes send no date, and one that a proxy sends is not read."""
    value = value.strip()
    return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
