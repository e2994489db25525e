"""Operations of /v1/messages, as the document shows them: schedule one or many; look up, reschedule, cancel one."""

from collections.abc import Mapping
from typing import Any, Final

from api.contract import schema
from api.contract.field import BODY, Field
from api.contract.fields import MESSAGE
from api.contract.openapi import PROBLEM
from api.contract.operation import IF_MATCH, MSGPACK, NDJSON, REVISION, Answered, Example, Operation, Parameter, ok
from api.contract.resource.ledger import LEDGER_OF_MESSAGE
from api.contract.schema import Schema
from api.contract.shape import Shape, array, nullable
from api.port.queries import STATES
from storage.format.schedule_status import OUTCOMES

_ID: Final = "2000F6ZY000000004M16D0WDR1"
_DUE: Final = "2026-11-21T14:35:27.263Z"
STATE: Final = schema.said(schema.choice(STATES), "Where the message stands.")


def _described(row: Field) -> dict[str, Any]:
    return {**row.kind.schema, "description": row.said, "examples": [row.example], "x-since": row.since}


def _alone(row: Field, other: str) -> dict[str, Any]:
    """Return the rule (JSON Schema) that forbids to send the field beside `other`, unless its value is harmless."""
    both: dict[str, Any] = {"required": [row.name, other]}
    if isinstance(row.harmless, str):
        both["properties"] = {row.name: {"not": {"const": row.harmless}}}
    return {"not": both}


def _sent() -> dict[str, Schema | Shape]:
    return {row.name: _described(row) for row in MESSAGE.served}


def _rules() -> dict[str, Any]:
    clashes = [_alone(row, other) for row in MESSAGE.clashing for other in row.clash if other not in MESSAGE.planned]
    bodies = [row.name for row in MESSAGE.served if row.required and BODY in (row.name, *row.clash)]
    return {"anyOf": [{"required": [name]} for name in bodies], "allOf": clashes}


_REQUIRED: Final = [row.name for row in MESSAGE.served if row.required and not row.clash and row.name != BODY]
NEW_MESSAGE: Final = Shape("NewMessage", _sent, sent=True, required=_REQUIRED, rules=_rules)
_DUE_TIME: Final = Shape(
    "DueTime",
    lambda: {row.name: _described(row) for row in MESSAGE.movable},
    sent=True,
    rules={"minProperties": 1, "maxProperties": 1},
)
_KEPT: Final = schema.said(schema.FLAG, "true: another request has the key; this is its message.")
_OUTCOME: Final = schema.said(
    schema.choice(tuple(OUTCOMES.values())), "What became of the request, and of the message that had the key."
)
_PREVIOUS: Final = Shape(
    "Previous",
    {
        "id": schema.said(schema.ID, "Its id."),
        "attempts_made": schema.said(schema.COUNT, "How many attempts are on record."),
        "prior": schema.said(schema.choice(("none", "known", "unknown")), "What that number is worth."),
    },
    "The message that had the key: cancelled now (`replaced`), or due at another time (`extended`).",
)
_MOVED: Final[dict[str, Schema | Shape]] = {
    "id": schema.ID,
    "topic": schema.NAMED,
    "due": schema.DUE,
    "state": STATE,
    "revision": schema.REVISION,
}
_RESCHEDULED: Final = Shape("Rescheduled", _MOVED)
_SCHEDULED: Final = Shape(
    "Scheduled",
    {**_MOVED, "outcome": _OUTCOME, "kept": _KEPT, "previous": _PREVIOUS},
    optional=("kept", "previous"),
)
_LINE: Final = Shape(
    "BatchResult",
    {
        "line": schema.said(schema.COUNT, "The number of the line, from 1."),
        "id": schema.ID,
        "due": schema.DUE,
        "outcome": _OUTCOME,
        "revision": schema.REVISION,
        "previous": _PREVIOUS,
        "replayed": schema.said(schema.FLAG, "true: this request came before, and this is its answer."),
        "kept": _KEPT,
        "error": PROBLEM,
    },
    "Of one line of the request: an id, or an error. `outcome` is left out where it is `created`.",
    optional=("id", "due", "outcome", "revision", "previous", "replayed", "kept", "error"),
)
_EVENT: Final = Shape(
    "Event",
    {
        "at": schema.said(nullable(schema.AT), "When it happened; null where no node knows."),
        "event": schema.said(schema.WORD, "What happened."),
        "node": schema.said(schema.WORD, "The node that did it; empty where it does not matter."),
        "term": schema.said(schema.COUNT, "The term in which it happened."),
        "attempt": schema.said(schema.COUNT, "The attempt that it is about; 0 for none."),
    },
)
DEAD: Final = Shape(
    "DeadLetter",
    {
        "id": schema.said(schema.ID, "The id of the dead message."),
        "topic": schema.said(schema.TOPIC, "Its topic."),
        "reason": schema.said(schema.WORD, "Why it is dead."),
        "attempts": schema.said(schema.COUNT, "How many attempts it had."),
        "error": schema.said(schema.WORD, "What the last attempt said."),
    },
    "What a copy in a dead-letter topic is a copy of.",
)


def body_members() -> dict[str, Schema]:
    """Return the members of an answer that show a message's body. An answer has either `body` or `body_base64`."""
    return {
        "content_type": schema.said(schema.CONTENT_TYPE, "The media type of the body."),
        "body": {"description": "The body, if it is JSON."},
        "body_base64": {"type": "string", "contentEncoding": "base64", "description": "The body, if it is not JSON."},
    }


def message_members() -> dict[str, Schema | Shape]:
    """Return the members of a message in an answer, without its history and its ledger."""
    extension = {row.name: nullable({**row.kind.schema, "description": row.said}) for row in MESSAGE.extension}
    return {
        "id": schema.ID,
        "topic": schema.NAMED,
        "state": STATE,
        "due": schema.DUE,
        "asked_due": schema.ASKED_DUE,
        "created": schema.CREATED,
        "revision": schema.REVISION,
        "attempt": schema.said(schema.COUNT, "How many attempts were made."),
        "tags": schema.TAGS_SHOWN,
        "headers": schema.HEADERS_SHOWN,
        "key": schema.KEY_SHOWN,
        **body_members(),
        "handed_over": schema.said(nullable(schema.AT), "When the newest delivery started."),
        "settled": schema.said(nullable(schema.AT), "When it ended; null while it is open."),
        "lateness_ms": schema.said(
            {"type": ["integer", "null"]}, "How far the newest delivery was behind `asked_due`."
        ),
        "last_error": schema.said(nullable(schema.WORD), "What the newest failed attempt said."),
        "target": schema.said(nullable(_OWN_TARGET), "Its own target; null is that of its topic."),
        **extension,
        "held": _HELD,
        "dead": DEAD,
    }


def _message() -> Mapping[str, Schema | Shape]:
    history = schema.said(array(_EVENT), "The newest 500 events; `scheduled` stands first.")
    return {**message_members(), "history": history, "ledger": LEDGER_OF_MESSAGE}


_HELD: Final = Shape(
    "Held",
    {
        "by": schema.said(schema.WORD, "The rule that holds it, such as `pause`."),
        "since": schema.said(nullable(schema.AT), "Since when; null if that is not known."),
    },
    "Why a message that is due is not delivered.",
)
_OWN_TARGET: Final = Shape(
    "ShownTarget",
    {
        "url": schema.said(schema.WORD, "Where the webhook goes."),
        "method": schema.said(schema.WORD, "Its method."),
        "headers": schema.said(schema.HEADERS, "Its headers."),
        "timeout": schema.said(nullable(schema.TIMESPAN), "How long it may take; null is the node's own."),
    },
)
_MESSAGE: Final = Shape("Message", _message, optional=("body", "body_base64", "held", "dead", "ledger"))
_CANCELLED: Final = Shape(
    "Cancelled",
    {
        "id": schema.ID,
        "result": schema.said(schema.choice(("cancelled",)), "What it is now."),
        "attempts_made": schema.said(schema.COUNT, "How many attempts are on record."),
        "prior": schema.said(schema.choice(("none", "known", "unknown")), "What that number is worth."),
    },
)
_PLACE: Final = {"Location": "Where the message can be looked up.", **REVISION}
_DIGEST: Final = {
    "topic": "digests",
    "body": {"user": 7},
    "delay": "10m",
    "key": "user-7",
    "on_conflict": "extend",
    "extend": {"max_wait": "1h", "body": "last"},
}
_OPEN: Final = ("unknown-message", "leased", "already-settled", "revision-mismatch")

_DIGEST_ID: Final = "2000F6ZY00000006XVQ1N0S2AB"
_BEFORE: Final = {"id": _DIGEST_ID, "attempts_made": 0, "prior": "none"}


def _answer(id: str, topic: str, outcome: str, *, revision: int = 1, **also: Any) -> dict[str, Any]:
    place = {"id": id, "topic": topic, "due": _DUE, "state": "scheduled", "revision": revision}
    return {**place, "outcome": outcome, **also}


SCHEDULE: Final = Operation(
    "scheduleMessage",
    "Schedule a message",
    {
        201: Answered(
            _SCHEDULED,
            "The message is on disk on a majority. A request that came before gets its answer again.",
            headers=_PLACE,
        ),
        200: Answered(_SCHEDULED, "The message that has the key, kept (`keep`) or changed (`extend`).", headers=_PLACE),
    },
    request=NEW_MESSAGE,
    errors=("key-conflict", "leased", "in-progress", "beyond-max-delay", "over-limit", "disk-full"),
    examples=(
        Example(
            "delayed",
            "/v1/messages",
            _answer(_ID, "orders", "created"),
            201,
            {"topic": "orders", "body": {"id": 7}, "delay": "30m", "tags": ["eu", "vip"], "key": "order-7"},
        ),
        Example(
            "kept",
            "/v1/messages",
            _answer(_ID, "orders", "kept", kept=True),
            200,
            {"topic": "orders", "body": {"id": 8}, "key": "order-7", "on_conflict": "keep"},
        ),
        Example("debounced", "/v1/messages", _answer(_DIGEST_ID, "digests", "created"), 201, _DIGEST),
        Example(
            "extended",
            "/v1/messages",
            _answer(_DIGEST_ID, "digests", "extended", revision=2, previous=_BEFORE),
            200,
            _DIGEST,
        ),
        Example(
            "replaced",
            "/v1/messages",
            _answer("2000F6ZY00000008Z7MBCV3T4E", "digests", "replaced", previous=_BEFORE),
            201,
            {"topic": "digests", "body": {"user": 7}, "delay": "1h", "key": "user-7", "on_conflict": "replace"},
        ),
        Example(
            "bytes",
            "/v1/messages",
            _answer("2000F6ZY00000002JQRS7RYRK7", "jobs", "created"),
            201,
            {"topic": "jobs", "body_base64": "AAEC", "content_type": "image/png", "retry": {"max_attempts": 3}},
        ),
        Example(
            "at-once",
            "/v1/messages",
            _answer("2000F6ZY00000004T9ZP8YDR6Q", "payments", "created"),
            201,
            {"topic": "payments", "body": {"eur": 5}, "tags": ["eu"]},
            turn=1,
        ),
        Example(
            "once",
            "/v1/messages",
            _answer("2000F6ZY0000000A1XKDN4PXR8", "invoices", "created"),
            201,
            {"topic": "invoices", "body": {"eur": 7}, "delay": "30m"},
            {"Idempotency-Key": "7e6ed3bf-0f1c-4e58-b6a3-5c2b6e9e2f10"},
            turn=99,
        ),
        Example(
            "misspelt",
            "/v1/messages",
            {
                "type": "/problems/unknown-field",
                "title": "A field is not known",
                "status": 422,
                "code": "unknown-field",
                "detail": '/dealy: "dealy" is not a field here; did you mean "delay"?',
                "errors": [{"pointer": "/dealy", "detail": '"dealy" is not a field here; did you mean "delay"?'}],
                "leader": "n1",
                "term": 1,
                "request_id": "n1-1a1fe6d1ee1-1",
            },
            422,
            {"topic": "orders", "body": 1, "dealy": "3m"},
        ),
    ),
)
BATCH: Final = Operation(
    "scheduleBatch",
    "Schedule up to 10,000 messages",
    {
        200: Answered(_LINE, "One result a line, in order.", NDJSON),
        201: Answered(_LINE, "With `atomic`: all lines are scheduled.", NDJSON),
    },
    said="A message a line, or an array of them in msgpack. A wrong one holds up no other, unless the batch is atomic.",
    parameters=(
        Parameter(
            "atomic",
            {**schema.choice(("true", "false")), "default": "false"},
            "`true`: all lines are scheduled in one step, or none. Each has a key of its own.",
        ),
    ),
    request=NEW_MESSAGE,
    media=NDJSON,
    also=(MSGPACK,),
    errors=("not-supported-yet", "over-limit", "disk-full"),
    examples=(
        Example(
            "two",
            "/v1/messages/batch",
            '{"line": 1, "id": "2000F70000000000Z8JN6R0HH4", "due": "2026-11-21T16:05:27.284Z"}\n'
            '{"line": 2, "id": "2000F6ZZ00000000FN5HJK0SJ5", "due": "2026-11-21T15:05:27.284Z"}\n',
            200,
            '{"topic": "orders", "body": 1, "delay_level": 18, "tags": ["eu"]}\n'
            '{"topic": "orders", "body": 2, "delay": "1h"}\n',
            {"Content-Type": NDJSON},
        ),
    ),
)
LOOK_UP: Final = Operation(
    "getMessage",
    "Look a message up",
    ok(_MESSAGE, "The message, and what the ledger says of it.", **REVISION),
    parameters=(
        Parameter("consistency", schema.choice(("local",)), "As the node that is asked knows it, without the ledger."),
        Parameter(
            "ledger",
            {**schema.choice(("true", "false")), "default": "true"},
            "false: without the ledger, so no other node is asked.",
        ),
    ),
    errors=("unknown-message", "over-limit"),
    examples=(
        Example(
            "scheduled",
            f"/v1/messages/{_ID}?ledger=false",
            {
                "id": _ID,
                "topic": "orders",
                "state": "scheduled",
                "due": _DUE,
                "asked_due": _DUE,
                "created": "2026-11-21T14:05:27.263Z",
                "revision": 1,
                "attempt": 0,
                "tags": ["eu", "vip"],
                "headers": {},
                "key": "order-7",
                "content_type": "application/json",
                "handed_over": None,
                "settled": None,
                "lateness_ms": None,
                "last_error": None,
                "target": None,
                "retry": None,
                "history": [
                    {"at": "2026-11-21T14:05:27.263Z", "event": "scheduled", "node": "", "term": 0, "attempt": 0}
                ],
                "body": {"id": 7},
            },
        ),
    ),
)
RESCHEDULE: Final = Operation(
    "rescheduleMessage",
    "Give a message another due time",
    ok(_RESCHEDULED, "No delivery starts before the new due time.", **REVISION),
    parameters=(IF_MATCH,),
    request=_DUE_TIME,
    errors=(*_OPEN, "beyond-max-delay", "over-limit"),
    examples=(
        Example(
            "later",
            f"/v1/messages/{_ID}",
            {"id": _ID, "topic": "orders", "due": "2026-11-21T16:05:27.309Z", "state": "scheduled", "revision": 2},
            200,
            {"delay": "2h"},
            {"If-Match": '"1"'},
        ),
    ),
)
CANCEL: Final = Operation(
    "cancelMessage",
    "Cancel a message",
    ok(_CANCELLED, "No delivery starts after this answer."),
    parameters=(IF_MATCH,),
    errors=_OPEN,
    examples=(
        Example(
            "cancelled",
            f"/v1/messages/{_ID}",
            {"id": _ID, "result": "cancelled", "attempts_made": 0, "prior": "none"},
        ),
    ),
)
