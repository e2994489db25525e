"""The handlers of operations, which change many messages at once: begin one, look at it, list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from api.contract.checker import Fault, has_control, read_flag, read_topic, wrong_type
from api.contract.object import Checker, Fields
from api.contract.resource.operation import BEGIN, CANCEL, LIST, ONE
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.query_window import PAGE, check_window, query_cursor, query_limit, read_query, read_tag, read_time
from api.http.route import Route
from api.port.queries import NOTE_BYTES_MAX, TOPICS_MAX, WAIT_LONG_S, WAIT_S, OperationIn, OperationView
from api.port.timestamp import render_time
from api.read.document import read_object

ALL: Final = "*"
_LATER_KINDS: Final = ("shift", "release", "redrive", "resend")
_COUNT_MAX: Final = (1 << 63) - 1


def _read_kind(value: object) -> str:
    if type(value) is not str:
        raise wrong_type("a string", value)
    if value in _LATER_KINDS:
        raise Fault("not-supported-yet", f'"{value}" is not supported yet; supported: cancel')
    if value != "cancel":
        raise Fault("invalid-field", f'a kind is cancel, {", ".join(_LATER_KINDS)}; got "{value[:40]}"')
    return value


def _read_topics(value: object) -> tuple[str, ...] | None:
    """Return the names of topics. None for "*", which is all of them."""
    if value == ALL:
        return None
    if type(value) is not list:
        return (read_topic(value),)
    if not 1 <= len(value) <= TOPICS_MAX:
        raise Fault("invalid-field", f'a list has 1 to {TOPICS_MAX} topics, got {len(value)}; "*" stands for all')
    names = tuple(read_topic(name) for name in value)
    if len(set(names)) < len(names):
        raise Fault("invalid-field", "a topic stands in the list twice")
    return names


def _read_note(value: object) -> str:
    if type(value) is not str:
        raise wrong_type("a string", value)
    if len(value.encode(errors="surrogatepass")) > NOTE_BYTES_MAX:
        raise Fault("invalid-field", f"a note has at most {NOTE_BYTES_MAX} bytes")
    if has_control(value):
        raise Fault("invalid-field", "a note is text for people, without control characters")
    return value


def _read_confirm(value: object) -> int:
    if type(value) is not int:
        raise wrong_type("a whole number", value)
    if not 0 <= value <= _COUNT_MAX:
        raise Fault("invalid-field", f"confirm is the matched of a dry run, got {value}")
    return value


_SERVED: Final[dict[str, Checker]] = {
    "topic": _read_topics,
    "from": read_time,
    "to": read_time,
    "tag": read_tag,
    "note": _read_note,
    "confirm": _read_confirm,
    "dry_run": read_flag,
}
_TOPIC_NEEDED: Final = {"topic": 'topic is required: a name such as "orders", a list of names, or "*" with confirm'}
_PLANNED: Final = ("by", "to_due", "rate", "reason")
_CANCEL: Final = Fields(_SERVED, required=_TOPIC_NEEDED, planned=_PLANNED)
_BEGIN: Final = Fields(
    {"kind": _read_kind, **_SERVED}, required={"kind": "kind is required, such as cancel", **_TOPIC_NEEDED},
    planned=_PLANNED,
)  # fmt: skip


async def begin(exchange: Exchange) -> Answer:
    """POST /v1/operations: begin an operation. It is waited for a second."""
    return await _begin(exchange, _BEGIN, WAIT_S)


async def cancel(exchange: Exchange) -> Answer:
    """POST /v1/messages/cancel: cancel many messages. The operation is waited for half a minute."""
    return await _begin(exchange, _CANCEL, WAIT_LONG_S)


async def _begin(exchange: Exchange, fields: Fields, wait_s: float) -> Answer:
    exchange.query(())
    exchange.require_type((JSON,))
    values = read_object(await exchange.read(), fields)
    check_window(values, "/from")
    wish = OperationIn(
        kind="cancel", topics=values["topic"], from_ms=values.get("from"), to_ms=values.get("to"),
        tag=values.get("tag"), note=values.get("note", ""), confirm=values.get("confirm"),
        dry_run=values.get("dry_run", False), wait_s=wait_s,
    )  # fmt: skip
    view = await exchange.port.begin_operation(wish, principal=exchange.principal)
    if wish.dry_run:
        return exchange.document({"matched": view.matched})
    status = 200 if view.matched is not None else 202
    return exchange.document(_shape(view), status, {"Location": f"/v1/operations/{view.id}"})


async def one(exchange: Exchange) -> Answer:
    """GET /v1/operations/{id}: return an operation as it is now."""
    exchange.query(())
    return exchange.document(_shape(await exchange.port.operation(exchange.params["id"], principal=exchange.principal)))


_PARAMETERS: Final[dict[str, Callable[[str], Any]]] = {"limit": query_limit, "cursor": query_cursor}


async def list_operations(exchange: Exchange) -> Answer:
    """GET /v1/operations: return a page of operations, the newest first."""
    values = read_query(exchange, _PARAMETERS)
    page = await exchange.port.operations(values.get("cursor"), values.get("limit", PAGE), principal=exchange.principal)
    return exchange.document({"items": [_shape(each) for each in page.items], "next_cursor": page.next_cursor})


def _shape(view: OperationView) -> dict[str, Any]:
    topics = view.topics
    return {
        "id": view.id,
        "kind": view.kind,
        "state": view.state,
        "topic": ALL if topics is None else topics[0] if len(topics) == 1 else topics,
        "from": None if view.from_ms is None else render_time(view.from_ms),
        "to": None if view.to_ms is None else render_time(view.to_ms),
        "tag": view.tag,
        "note": view.note,
        "begun": render_time(view.begun_ms),
        "ended": None if view.ended_ms is None else render_time(view.ended_ms),
        "matched": view.matched,
        "changed": view.changed,
        "prior": view.prior,
        "skipped": view.skipped,
        "index": view.index,
        "progress": view.progress,
    }


ROUTES: Final = (
    Route("POST", "/v1/operations", begin, says=BEGIN),
    Route("GET", "/v1/operations", list_operations, says=LIST),
    Route("GET", "/v1/operations/{id}", one, says=ONE),
    Route("POST", "/v1/messages/cancel", cancel, says=CANCEL),
)
"""The routes of this file."""
