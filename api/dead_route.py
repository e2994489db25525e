"""The handlers of messages that were given up: list a topic's, and make them due again."""

import re
from collections.abc import Callable
from typing import Any, Final

from api.answer import JSON, Answer
from api.document import Checker, Fields, read_object
from api.exchange import Exchange
from api.field import Fault, read_flag, read_tags, read_topic, wrong_type
from api.port import DeadMessage, DeadQuery
from api.problem import FieldFault, Problem
from api.route import Route
from api.timestamp import BadTime, parse_time, render_time
from api.topic_route import topic_of

PAGE_MAX: Final = 1_000
CURSOR_CHARACTERS_MAX: Final = 1_024

_CURSOR = re.compile(rf"[\x21-\x7e]{{1,{CURSOR_CHARACTERS_MAX}}}", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def _read_time(value: object) -> int:
    try:
        return parse_time(value)
    except BadTime as error:
        raise Fault("invalid-field", str(error)) from None


def _read_tag(value: object) -> str:
    if type(value) is not str:
        raise wrong_type("a string", value)
    try:
        return read_tags([value])[0]
    except Fault as fault:
        raise Fault(fault.code, fault.detail) from None


def _query_time(text: str) -> int:
    if " " in text:
        raise Fault("invalid-field", f'"{text[:40]}" holds a space: a + in a query stands for one; write %2B, or Z')
    return _read_time(int(text) if _WHOLE.fullmatch(text) else text)


def _query_limit(text: str) -> int:
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= PAGE_MAX:
        raise Fault("invalid-field", f'a page holds 1 to {PAGE_MAX} messages, got "{text[:20]}"')
    return int(text)


def _query_cursor(text: str) -> str:
    if not _CURSOR.fullmatch(text):
        raise Fault("invalid-field", "a cursor is the next_cursor of the page before, as it came")
    return text


_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {
    "from": _query_time,
    "to": _query_time,
    "tag": _read_tag,
    "limit": _query_limit,
    "cursor": _query_cursor,
}


async def dead(exchange: Exchange) -> Answer:
    """GET /v1/topics/{topic}/dead: a page of the messages that were given up."""
    topic = topic_of(exchange)
    values: dict[str, Any] = {}
    for name, text in exchange.query(_PARAMETERS).items():
        try:
            values[name] = _PARAMETERS[name](text)
        except Fault as fault:
            raise Problem(
                "invalid-field", f"{name}: {fault.detail}", errors=[FieldFault("", fault.detail, parameter=name)]
            ) from None
    query = _query(topic, values, "")
    page = await exchange.port.dead(query, principal=exchange.principal)
    return exchange.document({"items": [_shape(each) for each in page.items], "next_cursor": page.next_cursor})


def _query(topic: str, values: dict[str, Any], pointer: str) -> DeadQuery:
    """What was asked for; `pointer` is where `from` stands if it is in the body."""
    from_ms, to_ms = values.get("from"), values.get("to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        detail = f"from is not after to, got {render_time(from_ms)} and {render_time(to_ms)}"
        fault = FieldFault(pointer, detail, parameter="" if pointer else "from")
        raise Problem("invalid-field", detail, errors=[fault])
    return DeadQuery(
        topic=topic,
        from_ms=from_ms,
        to_ms=to_ms,
        tag=values.get("tag"),
        limit=values.get("limit", 100),
        cursor=values.get("cursor"),
    )


def _shape(one: DeadMessage) -> dict[str, Any]:
    return {
        "id": one.id,
        "due": render_time(one.due_ms),
        "asked_due": render_time(one.asked_due_ms),
        "died": render_time(one.died_ms),
        "reason": one.reason,
        "attempts": one.attempts,
        "tags": one.tags,
        "key": one.key,
    }


_FILTER: Final[dict[str, Checker]] = {
    "topic": read_topic,
    "from": _read_time,
    "to": _read_time,
    "tag": _read_tag,
    "dry_run": read_flag,
}
_REDRIVE: Final = Fields(
    _FILTER, required={"topic": 'topic is required, such as "orders"'}, planned=("by", "state", "subscription")
)


async def redrive(exchange: Exchange) -> Answer:
    """POST /v1/messages/redrive: dead messages of a topic are due now, with all their attempts before them."""
    exchange.query(())
    exchange.require_type((JSON,))
    values = read_object(await exchange.read(), _REDRIVE)
    query = _query(values["topic"], values, "/from")
    result = await exchange.port.redrive(query, dry_run=values.get("dry_run", False), principal=exchange.principal)
    return exchange.document({"matched": result.matched, "changed": result.changed, "index": result.index})


ROUTES: Final = (
    Route("GET", "/v1/topics/{topic}/dead", dead),
    Route("POST", "/v1/messages/redrive", redrive),
)
"""What this file serves."""
