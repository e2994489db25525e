"""The handlers of /v1/messages: schedule one or many, look one up, reschedule one, cancel one."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.contract.fields import JSON as JSON_BODY
from api.contract.fields import MESSAGE
from api.contract.object import Fields
from api.contract.resource.message import BATCH, CANCEL, LOOK_UP, RESCHEDULE, SCHEDULE
from api.contract.target import show_target
from api.http.answer import JSON, NDJSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.loop_turn import in_turns
from api.port.message import HistoryEvent, MessageView
from api.port.port import Limits, MessageIn, ScheduledOne
from api.port.problem import FieldFault, Problem
from api.port.timestamp import render_time
from api.read.array_batch import MSGPACK, read_array_batch
from api.read.atomic import ATOMIC_BYTES_MAX, check_all_done, check_atomic
from api.read.batch import key_conflict, read_batch, render_batch, show_previous
from api.read.document import Faults, read_members, split_object
from api.read.idempotency import HEADER, key_fault
from api.read.message import due_checkers, note_clashes, parse_message
from api.routes.ledger import show_message_ledger
from storage.format.schedule_status import CHANGING, CONFLICT, KEPT, NEW, OUTCOMES, REPLACED, REPLAYED

#: Most reads of a message and its ledger until both are of one moment.
LOOKS: Final = 4
#: The parsed rows of a batch hold this many times its bytes, measured with lines of 16 tags and 20 headers.
PARSED_TIMES: Final = 3
_JSON_TYPES: Final = (JSON,)
_NDJSON_TYPES: Final = (NDJSON, "application/ndjson", "application/jsonl")


async def schedule(exchange: Exchange) -> Answer:
    """POST /v1/messages: 201 with the message's id. If another message has the key: 409, 200 with that message, or 201
    with the message that replaced it."""
    exchange.require_type(_JSON_TYPES)
    if "?" in exchange.target:
        exchange.query(())
    data = await exchange.read_decompressed()
    message = parse_message(data, exchange.port.now_ms(), exchange.port.limits)
    if message.key is not None and message.on_conflict not in CHANGING and exchange.has_key():
        detail = f'{HEADER} goes with on_conflict "replace" or "extend"; otherwise the field key protects the message'
        raise key_fault(f"{detail}, so leave one of the two out")
    result = await exchange.keyed(data).schedule_one(message, exchange.principal)
    if result.status in (NEW, REPLAYED):
        id_text, due = result.id, render_time(result.due_ms)
        headers = {"Location": f"/v1/messages/{id_text}", "ETag": '"1"'}
        if result.status == REPLAYED:
            headers["Idempotency-Replayed"] = "true"
        # The id is base32 and the topic's characters are checked, so both need no escaping.
        body = (
            f'{{"id":"{id_text}","topic":"{message.topic}","due":"{due}","state":"scheduled","revision":1'
            f',"outcome":"{OUTCOMES[result.status]}"}}'
        )
        return exchange.answer(201, body.encode(), JSON, headers)
    return await _other(exchange, message, result)


async def _other(exchange: Exchange, message: MessageIn, result: ScheduledOne) -> Answer:
    """Answer a single schedule whose key another message had. It is 409, 200 with that message, or 201 with the one
    that replaced it."""
    if result.status == CONFLICT:
        raise key_conflict(result.id, result.due_ms)
    if result.superseded is not None:
        shape = {
            "id": result.id,
            "topic": message.topic,
            "due": render_time(result.due_ms),
            "state": "scheduled",
            "revision": result.superseded.revision,
            "outcome": OUTCOMES[result.status],
            "previous": show_previous(result.superseded),
        }
        headers = {"Location": f"/v1/messages/{result.id}", "ETag": f'"{result.superseded.revision}"'}
        return exchange.document(shape, 201 if result.status == REPLACED else 200, headers=headers)
    assert result.status == KEPT
    view = await exchange.port.message(result.id, local=False, principal=exchange.principal)
    shape = {
        "id": view.id,
        "topic": message.topic,
        "due": render_time(view.due_ms),
        "state": view.state,
        "revision": view.revision,
        "outcome": OUTCOMES[KEPT],
        "kept": True,
    }
    return exchange.document(shape, headers={"Location": f"/v1/messages/{view.id}", "ETag": f'"{view.revision}"'})


async def schedule_batch(exchange: Exchange) -> Answer:
    """POST /v1/messages/batch: 200 with one result per line. With `?atomic=true` 201 if all lines were scheduled, and
    422 with the lines at fault if none was."""
    packed = exchange.require_type((*_NDJSON_TYPES, MSGPACK)) == MSGPACK
    atomic = exchange.query(("atomic",)).get("atomic", "false")
    if atomic not in ("true", "false"):
        detail = f'atomic is "true" or "false", got "{atomic[:40]}"'
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter="atomic")])
    data = await exchange.read_decompressed()
    port = exchange.port
    if atomic == "true" and len(data) > ATOMIC_BYTES_MAX:
        raise Problem("too-large", f"an atomic batch has at most {ATOMIC_BYTES_MAX} bytes, got {len(data)}")
    async with port.budget.parsed(PARSED_TIMES * len(data)):
        read = read_array_batch if packed else read_batch
        batch = await in_turns(read(data, port.now_ms(), port.limits))
        if atomic == "true":
            check_atomic(batch)
            done = await port.schedule_all(batch.messages, exchange.principal)
            check_all_done(batch, done)
            return exchange.answer(201, await in_turns(render_batch(batch, done)), NDJSON)
        result = await port.schedule(batch.messages, exchange.principal) if batch.messages else None
        return exchange.answer(200, await in_turns(render_batch(batch, result)), NDJSON)


async def look_up(exchange: Exchange) -> Answer:
    """GET /v1/messages/{id}: return the message with its ledger. `ledger=false` leaves the ledger out, and so does
    `consistency=local`, which asks this node alone."""
    local = _is_local(exchange)
    told = _choice(exchange, "ledger", ("true", "false")) != "false"
    port, id_text = exchange.port, exchange.params["id"]
    async with port.budget.look_ups:
        view = await port.message(id_text, local=local, principal=exchange.principal)
        also: dict[str, Any] = {}
        if told and not local:
            view, also["ledger"] = await _as_of_one_moment(exchange, id_text, view)
        return exchange.document(show_message(view, history=True) | also, headers={"ETag": f'"{view.revision}"'})


async def _as_of_one_moment(exchange: Exchange, id_text: str, view: MessageView) -> tuple[MessageView, dict[str, Any]]:
    """Return the message and its ledger, as of one moment.

    The ledger asks other nodes, and the message may change meanwhile. So the message is read before and after: if both
    are the same, it did not change in between. An open message is in flight exactly if its state is leased. The ledger
    may say otherwise, because a leader that died may have delivered the message, and its lease is lost. If they differ,
    the ledger is shown as the state has it.
    """
    for _ in range(LOOKS):
        await exchange.go_on()
        ledger = await _ledger(exchange, id_text)
        await exchange.go_on()
        before, view = view, await exchange.port.message(id_text, local=False, principal=exchange.principal)
        if view == before:
            if ledger["class"] in ("pending", "in_flight"):
                ledger["class"] = "in_flight" if view.state == "leased" else "pending"
            return view, ledger
    return view, {"class": None, "why": "the message went on each time that it was looked up; ask again"}


async def _ledger(exchange: Exchange, id_text: str) -> dict[str, Any]:
    """Return the account of the message by the records of all nodes. If it would have to read too many records, return
    the reason why the account is missing."""
    try:
        return show_message_ledger(await exchange.port.message_ledger(id_text))
    except Problem as problem:
        if problem.code != "over-limit":
            raise
        return {"class": None, "why": problem.detail}


def _is_local(exchange: Exchange) -> bool:
    """True if `?consistency=local` asks for this node's own state."""
    return _choice(exchange, "consistency", ("local",)) == "local"


def _choice(exchange: Exchange, name: str, words: tuple[str, ...]) -> str | None:
    """Return a parameter of the query that is one of these words. None if it is left out."""
    wish = exchange.query(("consistency", "ledger")).get(name)
    if wish is not None and wish not in words:
        known = " or ".join(f'"{word}"' for word in words)
        detail = f'{name} is {known} or left out, got "{wish[:40]}"'
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter=name)])
    return wish


async def cancel(exchange: Exchange) -> Answer:
    """DELETE /v1/messages/{id}: cancel it."""
    exchange.query(())
    result = await exchange.keyed().cancel(
        exchange.params["id"], if_match=exchange.if_match(), principal=exchange.principal
    )
    return exchange.document(
        {"id": result.id, "result": "cancelled", "attempts_made": result.attempts_made, "prior": result.prior}
    )


async def reschedule(exchange: Exchange) -> Answer:
    """PATCH /v1/messages/{id}: give it another due time."""
    exchange.query(())
    exchange.require_type((JSON,))
    port = exchange.port
    data = await exchange.read()
    values = _read_due(data, port.now_ms(), port.limits)
    result = await exchange.keyed(data).reschedule(
        exchange.params["id"],
        due_ms=values.get("deliver_at"),
        delay_ms=values.get("delay", values.get("delay_level")),
        if_match=exchange.if_match(),
        principal=exchange.principal,
    )
    shape = {
        "id": result.id,
        "topic": result.topic,
        "due": render_time(result.due_ms),
        "state": "scheduled",
        "revision": result.revision,
    }
    return exchange.document(shape, headers={"ETag": f'"{result.revision}"'})


def _read_due(data: bytes, now_ms: int, limits: Limits) -> dict[str, int]:
    """Return the one field that sets the due time."""
    faults = Faults()
    members = split_object(data)
    checkers = due_checkers(now_ms, limits)
    values = read_members(members, Fields(checkers, fixed=MESSAGE.fixed), faults)
    sent = members.keys() & checkers.keys()
    if not sent:
        faults.add("invalid-field", "", "one of deliver_at, delay and delay_level is required")
    note_clashes(sent, values, faults)
    faults.raise_any()
    return values


def show_message(view: MessageView, *, body: bool = True, history: bool = False) -> dict[str, Any]:
    """Return a message as clients see it, with its body and its history where that is asked for."""
    shape: dict[str, Any] = {
        "id": view.id,
        "topic": view.topic,
        "state": view.state,
        "due": render_time(view.due_ms),
        "asked_due": render_time(view.asked_due_ms),
        "created": render_time(view.created_ms),
        "revision": view.revision,
        "attempt": view.attempt,
        "tags": view.tags,
        "headers": view.headers or {},
        "key": view.key,
        "content_type": view.content_type or JSON_BODY,
        "handed_over": None if view.handed_over_ms is None else render_time(view.handed_over_ms),
        "settled": None if view.settled_ms is None else render_time(view.settled_ms),
        "lateness_ms": view.lateness_ms,
        "last_error": view.last_error,
        "target": None if view.target is None else show_target(view.target),
        **_extension_shape(view.extension),
    }
    if view.held is not None:
        since_ms = view.held.since_ms
        shape["held"] = {"by": view.held.by, "since": None if since_ms is None else render_time(since_ms)}
    if history:
        shape["history"] = [_event_shape(event) for event in view.history]
    if view.dead:
        shape["dead"] = view.dead
    if not body:
        return shape
    if view.content_type:
        shape["body_base64"] = view.body  # msgspec writes bytes as base64
    else:
        shape["body"] = msgspec.Raw(view.body)
    return shape


def _extension_shape(extension: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a record's extension, with null for those that the message lacks."""
    if not extension:
        return MESSAGE.none_shown
    return {
        row.name: row.kind.show(extension[row.name]) if row.name in extension else None for row in MESSAGE.extension
    }


def _event_shape(event: HistoryEvent) -> dict[str, Any]:
    return {
        "at": None if event.at_ms is None else render_time(event.at_ms),
        "event": event.event,
        "node": event.node,
        "term": event.term,
        "attempt": event.attempt,
    }


ROUTES: Final = (
    Route("POST", "/v1/messages", schedule, keyed=True, says=SCHEDULE),
    Route("POST", "/v1/messages/batch", schedule_batch, batch=True, says=BATCH),
    Route("GET", "/v1/messages/{id}", look_up, stays=_is_local, says=LOOK_UP),
    Route("PATCH", "/v1/messages/{id}", reschedule, keyed=True, says=RESCHEDULE),
    Route("DELETE", "/v1/messages/{id}", cancel, keyed=True, says=CANCEL),
)
"""The routes of this file."""
