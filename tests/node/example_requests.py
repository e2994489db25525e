"""The examples of docs/openapi.json as requests: each on topics and keys of the side that is asked."""

import json
import re
from collections.abc import Iterator
from typing import Any

from api.contract.operation import Example
from api.http.route import Route
from api.serve import ROUTES
from tests.node.every_request import Request

_OURS = re.compile(r"\b(orders|jobs|payments|hooks|digests|invoices|order-7)\b")
#: Members whose values name something that is asked for later.
_NAMES = ("id", "receipt")


def example_requests() -> list[Request]:
    """In the order in which they run, but for those that change the leader or a member."""
    shown = [(route, each) for route in ROUTES if route.says is not None for each in route.says.examples if each.alone]
    return [_request(route, each) for route, each in sorted(shown, key=lambda run: run[1].turn)]


def _request(route: Route, example: Example) -> Request:
    keep = {_name(text): place for place, text in _named(_documents(example.answer))}
    body = example.body if example.body is None or isinstance(example.body, str) else json.dumps(example.body)
    code = example.answer["code"] if example.status >= 400 else ""
    own = {"Idempotency-Key": "~"}  # each side has keys of its own
    headers = tuple(f"{name}: {own.get(name, '')}{text}" for name, text in example.headers.items())
    line = f"{route.method} {_ours(example.target)}"
    return Request(line, f"{example.status} {code}".strip(), body and _ours(body), headers, keep)


def _documents(answer: Any) -> list[Any]:
    if not isinstance(answer, str):
        return [answer]
    return [json.loads(line) for line in answer.splitlines() if line.startswith("{")]


def _named(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Where each id and receipt stands in an answer."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        here = f"{place}/{name}".lstrip("/")
        if name in _NAMES and isinstance(part, str) and (len(part) >= 26 or part.startswith("op-")):
            yield here, part
        yield from _named(part, here)


def _name(text: str) -> str:
    return re.sub(r"\W", "_", text)


def _ours(text: str) -> str:
    """With the side's own topics, and with names for ids and receipts."""
    named = re.sub(r"\b(?:[0-9A-Z]{26}|op-[0-9]+|A[\w-]{50,})(?![\w-])", lambda found: f"${_name(found[0])}", text)
    return _OURS.sub(r"~.shown-\1", named)
