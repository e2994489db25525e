"""The handlers of operations, which change many messages at once: begin one, look at it, list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from api.contract.checker import (
    Fault,
    has_control,
    read_choice,
    read_count,
    read_duration,
    read_flag,
    read_topic,
    read_words,
    wrong_type,
)
from api.contract.object import Checker, Fields
from api.contract.resource.operation import ABORT, BEGIN, CANCEL, LIST, ONE, PAUSE, REDRIVE, RESUME, SHIFT
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.query_window import PAGE, check_window, query_cursor, query_limit, read_query, read_tag, read_time
from api.http.route import Route
from api.port.duration import render_duration
from api.port.problem import FieldFault, Problem
from api.port.queries import (
    GONE,
    KIND_FIELDS,
    NOTE_BYTES_MAX,
    RATE_MAX,
    REASON_BYTES_MAX,
    SHIFT_MAX_MS,
    TOPICS_MAX,
    WAIT_LONG_S,
    WAIT_S,
    OperationIn,
    OperationKind,
    OperationVerb,
    OperationView,
)
from api.port.timestamp import render_time
from api.read.document import read_object
from api.read.idempotency import HEADER, key_fault

ALL: Final = "*"
_COUNT_MAX: Final = (1 << 63) - 1


def _read_kind(value: object) -> str:
    return read_choice(value, tuple(KIND_FIELDS))


def _read_by(value: object) -> int:
    """Return a signed duration in ms."""
    sign, size = 1, value
    if type(value) is str and value[:1] in ("-", "+"):
        sign, size = -1 if value[0] == "-" else 1, value[1:]
    elif type(value) is int:
        sign, size = -1 if value < 0 else 1, abs(value)
    try:
        by_ms = sign * read_duration(size)
    except Fault:
        said = f'"{value[:40]}"' if type(value) is str else value
        detail = (
            f'{said} is no way to shift; write a whole number with one unit, such as "30m", with a minus for earlier'
        )
        raise Fault("invalid-field", detail) from None
    if not 1 <= abs(by_ms) <= SHIFT_MAX_MS:
        raise Fault("invalid-field", f"by is 1ms to {render_duration(SHIFT_MAX_MS)}, or that with a minus")
    return by_ms


def _read_reason(value: object) -> str:
    return read_words(value, REASON_BYTES_MAX, "a reason", "; such as http-503 or timeout")


def _read_rate(value: object) -> int:
    return read_count(value, 1, RATE_MAX)


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


_WHICH: Final[dict[str, Checker]] = {
    "topic": _read_topics,
    "from": read_time,
    "to": read_time,
    "tag": read_tag,
    "note": _read_note,
    "confirm": _read_confirm,
    "dry_run": read_flag,
}
_OWN: Final[dict[str, Checker]] = {
    "by": _read_by,
    "to_due": read_time,
    "rate": _read_rate,
    "reason": _read_reason,
}
_TOPIC_NEEDED: Final = {"topic": 'topic is required: a name such as "orders", a list of names, or "*" with confirm'}
_BEGIN: Final = Fields(
    {"kind": _read_kind, **_WHICH, **_OWN}, required={"kind": "kind is required, such as cancel", **_TOPIC_NEEDED}
)


def _fields_of(kind: OperationKind) -> Fields:
    return Fields({**_WHICH, **{name: _OWN[name] for name in KIND_FIELDS[kind]}}, required=_TOPIC_NEEDED)


_CANCEL, _SHIFT, _REDRIVE = _fields_of("cancel"), _fields_of("shift"), _fields_of("redrive")


async def begin(exchange: Exchange) -> Answer:
    """POST /v1/operations: begin an operation. It is waited for a second."""
    return await _begin(exchange, _BEGIN, None, WAIT_S)


async def cancel(exchange: Exchange) -> Answer:
    """POST /v1/messages/cancel: cancel many messages. The operation is waited for half a minute."""
    return await _begin(exchange, _CANCEL, "cancel", WAIT_LONG_S)


async def shift(exchange: Exchange) -> Answer:
    """POST /v1/messages/shift: move many messages in time. The operation is waited for half a minute."""
    return await _begin(exchange, _SHIFT, "shift", WAIT_LONG_S)


async def redrive(exchange: Exchange) -> Answer:
    """POST /v1/messages/redrive: make dead messages due now. The operation is waited for half a minute."""
    return await _begin(exchange, _REDRIVE, "redrive", WAIT_LONG_S)


async def _begin(exchange: Exchange, fields: Fields, kind: OperationKind | None, wait_s: float) -> Answer:
    exchange.query(())
    exchange.require_type((JSON,))
    data = await exchange.read()
    values = read_object(data, fields)
    check_window(values, "/from")
    kind = values["kind"] if kind is None else kind
    _check_own(kind, values)
    wish = OperationIn(
        kind=kind, topics=values["topic"], from_ms=values.get("from"), to_ms=values.get("to"),
        tag=values.get("tag"), reason=values.get("reason"), by_ms=values.get("by"), to_due_ms=values.get("to_due"),
        rate=values.get("rate"), note=values.get("note", ""), confirm=values.get("confirm"),
        dry_run=values.get("dry_run", False), wait_s=wait_s,
    )  # fmt: skip
    if wish.dry_run and exchange.has_key():
        raise key_fault(f"a dry run writes nothing and takes no {HEADER}; leave it out")
    view = await exchange.keyed(data).begin_operation(wish, principal=exchange.principal)
    if view.state == GONE:
        return exchange.document({"id": view.id, "state": GONE})
    if wish.dry_run:
        return exchange.document({"matched": view.matched})
    status = 200 if view.matched is not None else 202
    return exchange.document(_shape(view), status, {"Location": f"/v1/operations/{view.id}"})


def _check_own(kind: OperationKind, values: dict[str, Any]) -> None:
    """Raise a Problem for fields that this kind does not take, or that it lacks."""
    faults: list[FieldFault] = []
    for name in _OWN:
        if name in values and name not in KIND_FIELDS[kind]:
            takes = ", ".join(each for each, names in KIND_FIELDS.items() if name in names)
            faults.append(FieldFault(f"/{name}", f"a {kind} takes no {name}; it goes with: {takes}"))
    if kind == "shift" and ("by" in values) == ("to_due" in values):
        faults.append(FieldFault("/by", 'a shift takes by, such as "-30m", or to_due, a time; give one of them'))
    if faults:
        more = f" (and {len(faults) - 1} more, see errors)" if len(faults) > 1 else ""
        raise Problem("invalid-field", f"{faults[0].pointer}: {faults[0].detail}{more}", errors=faults)


async def one(exchange: Exchange) -> Answer:
    """GET /v1/operations/{id}: return an operation as it is now."""
    exchange.query(())
    return exchange.document(_shape(await exchange.port.operation(exchange.params["id"], principal=exchange.principal)))


async def pause(exchange: Exchange) -> Answer:
    """POST /v1/operations/{id}/pause: let an operation rest."""
    return await _change(exchange, "pause")


async def resume(exchange: Exchange) -> Answer:
    """POST /v1/operations/{id}/resume: let an operation go on."""
    return await _change(exchange, "resume")


async def abort(exchange: Exchange) -> Answer:
    """POST /v1/operations/{id}/abort: end an operation where it stands."""
    return await _change(exchange, "abort")


async def _change(exchange: Exchange, verb: OperationVerb) -> Answer:
    exchange.query(())
    read_object(await exchange.read_optional((JSON,)), _NOTHING)
    view = await exchange.port.change_operation(exchange.params["id"], verb, principal=exchange.principal)
    return exchange.document(_shape(view))


_NOTHING: Final = Fields({})
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
        "reason": view.reason,
        "by": None if view.by_ms is None else _signed(view.by_ms),
        "to_due": None if view.to_due_ms is None else render_time(view.to_due_ms),
        "rate": view.rate,
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


def _signed(by_ms: int) -> str:
    return f"{'-' if by_ms < 0 else ''}{render_duration(abs(by_ms))}"


ROUTES: Final = (
    Route("POST", "/v1/operations", begin, keyed=True, says=BEGIN),
    Route("GET", "/v1/operations", list_operations, says=LIST),
    Route("GET", "/v1/operations/{id}", one, says=ONE),
    Route("POST", "/v1/operations/{id}/pause", pause, says=PAUSE),
    Route("POST", "/v1/operations/{id}/resume", resume, says=RESUME),
    Route("POST", "/v1/operations/{id}/abort", abort, says=ABORT),
    Route("POST", "/v1/messages/cancel", cancel, keyed=True, says=CANCEL),
    Route("POST", "/v1/messages/shift", shift, keyed=True, says=SHIFT),
    Route("POST", "/v1/messages/redrive", redrive, keyed=True, says=REDRIVE),
)
"""The routes of this file."""
