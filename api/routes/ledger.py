"""The handlers of /v1/ledger: the account of each message that fell due in a range of time, and how many there are of
each class.

The leader answers, as with every read. It asks all members for their records of deliveries, by POST /v1/ledger/records.
Only nodes call that route, and each node answers it for itself.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from api.contract.checker import Fault, read_count, read_topic_text
from api.contract.resource.ledger import PAGE, SUMMARY
from api.http.answer import Answer
from api.http.exchange import Exchange
from api.http.query_window import check_window, query_time, read_query
from api.http.route import Route
from api.port.ledger import (
    ASKED_MAX,
    CLASSES,
    WINDOW_DEFAULT_MS,
    HandOverEntry,
    LedgerCoverage,
    LedgerDuplicate,
    LedgerEntry,
    LedgerQuery,
    MessageLedger,
    RecordsAsked,
)
from api.port.problem import FieldFault, Problem
from api.port.timestamp import render_time

MSGPACK: Final = "application/msgpack"
LIMIT_MAX: Final = 1_000
LIMIT_DEFAULT: Final = 100

_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_ASKED: Final = msgspec.msgpack.Decoder(RecordsAsked)


def _query_classes(text: str) -> frozenset[str]:
    names = text.split(",")
    for name in names:
        if name not in CLASSES:
            raise Fault("invalid-field", f'classes are {", ".join(CLASSES)}, separated by commas; got "{name[:40]}"')
    return frozenset(names)


def _query_limit(text: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise Fault("invalid-field", f'a limit is a whole number from 1 to {LIMIT_MAX}, got "{text[:40]}"')
    return read_count(int(text), 1, LIMIT_MAX)


_WINDOW: Final[dict[str, Callable[[str], Any]]] = {
    "from": query_time,
    "to": query_time,
    "topic": read_topic_text,
}
_PAGE: Final[dict[str, Callable[[str], Any]]] = {
    **_WINDOW,
    "class": _query_classes,
    "limit": _query_limit,
    "cursor": str,
}


def _query(exchange: Exchange, parameters: dict[str, Callable[[str], Any]]) -> LedgerQuery:
    """Return the query. Without `from` and `to` it covers the last hour. With `to` only it covers the hour before that,
    with `from` only the time until now."""
    values = read_query(exchange, parameters)
    check_window(values)
    from_ms, to_ms = values.get("from"), values.get("to")
    if to_ms is None:
        now_ms = exchange.port.now_ms() + 1
        to_ms = now_ms if from_ms is None else max(now_ms, from_ms)
    return LedgerQuery(
        from_ms=max(0, to_ms - WINDOW_DEFAULT_MS) if from_ms is None else from_ms,
        to_ms=to_ms,
        topic=values.get("topic"),
        classes=tuple(sorted(values["class"])) if "class" in values else None,
        limit=values.get("limit", LIMIT_DEFAULT),
        cursor=values.get("cursor"),
    )


async def page(exchange: Exchange) -> Answer:
    """GET /v1/ledger: return a page of messages."""
    found = await exchange.port.ledger(_query(exchange, _PAGE))
    return exchange.document(
        {
            "window": _sight(found.sight),
            "items": [_entry(entry) for entry in found.items],
            "next_cursor": found.next_cursor,
        }
    )


async def summary(exchange: Exchange) -> Answer:
    """GET /v1/ledger/summary: return how many messages there are of each class."""
    found = await exchange.port.ledger_summary(_query(exchange, _WINDOW))
    return exchange.document({"window": _sight(found.sight), **found.counts})


async def records(exchange: Exchange) -> Answer:
    """POST /v1/ledger/records: return this node's records of some deliveries. Only nodes call it."""
    exchange.query(())
    exchange.require_type((MSGPACK,))
    try:
        asked = _ASKED.decode(await exchange.read())
    except (msgspec.ValidationError, msgspec.DecodeError) as wrong:
        raise _invalid(f"the body is no request for records: {wrong}") from None
    if len(asked.homes) % 8 or len(asked.homes) > 8 * ASKED_MAX:
        raise _invalid(f"homes hold 8 bytes each, at most {ASKED_MAX} of them; got {len(asked.homes)} bytes")
    found = await exchange.port.hand_over_records(asked)
    return exchange.answer(200, msgspec.msgpack.encode(found), MSGPACK)


def _invalid(detail: str) -> Problem:
    return Problem("invalid-field", detail, errors=[FieldFault("/homes", detail)])


def show_message_ledger(found: MessageLedger) -> dict[str, Any]:
    """Return the `ledger` member of GET /v1/messages/{id}."""
    shape = _entry(found.entry)
    for name in ("id", "topic", "created", "asked_due", "due", "settled"):  # the message itself has these
        del shape[name]
    shape["deliveries"] = [_hand_over(each) for each in found.hand_overs]
    return {**shape, "window": _sight(found.sight)}


def _sight(sight: LedgerCoverage) -> dict[str, Any]:
    return {
        "from": render_time(sight.from_ms),
        "to": render_time(sight.until_ms),
        "retained_from": render_time(sight.retained_from_ms),
        "removed_until": _time(sight.removed_until_ms),
        "complete": sight.complete,
        "unreachable": [{"node": node, "why": why} for node, why in sight.unreachable.items()],
        "gaps": [
            {"node": node or None, "from": render_time(from_ms), "to": render_time(until_ms)}
            for node, from_ms, until_ms in sight.gaps
        ],
    }


def _time(at_ms: int) -> str | None:
    return render_time(at_ms) if at_ms else None


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "topic": entry.topic,
        "class": entry.kind,
        "flags": entry.flags,
        "late_cause": entry.late_cause or None,
        "lost": entry.lost or None,
        "hand_overs": entry.hand_overs,
        "retries": entry.retries,
        "created": _time(entry.created_ms),
        "asked_due": render_time(entry.asked_due_ms),
        "due": render_time(entry.due_ms),
        "first_handed_over": _time(entry.first_ms),
        "lateness_ms": entry.late_ms if entry.first_ms else None,
        "settled": _time(entry.settled_ms),
        "mode": entry.mode or None,
        "term": entry.term or None,
        "attempt": entry.attempt or None,
        "node": entry.node or None,
        "code": entry.code or None,
        "duplicates": [_duplicate(each) for each in entry.duplicates],
    }


def _duplicate(each: LedgerDuplicate) -> dict[str, Any]:
    repeats = {
        "at": _time(each.before_ms),
        "node": each.before_node or None,
        "term": each.before_term or None,
        "attempt": each.before_attempt or None,
        "leased_until": _time(each.lease_end_ms),
    }
    if each.other:
        repeats["id"] = each.other
    return {
        "cause": each.cause,
        "mode": each.mode or None,
        "at": _time(each.at_ms),
        "node": each.node or None,
        "term": each.term,
        "attempt": each.attempt,
        "repeats": repeats,
    }


def _hand_over(each: HandOverEntry) -> dict[str, Any]:
    return {
        "at": render_time(each.at_ms),
        "node": each.node,
        "term": each.term,
        "attempt": each.attempt,
        "mode": each.mode,
        "outcome": each.outcome,
        "ended": _time(each.ended_ms),
        "code": each.code or None,
    }


ROUTES: Final = (
    Route("GET", "/v1/ledger", page, says=PAGE),
    Route("GET", "/v1/ledger/summary", summary, says=SUMMARY),
    Route("POST", "/v1/ledger/records", records, leader=False, batch=True, health=True, internal=True),
)
"""The routes of this file."""
