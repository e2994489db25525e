"""Operations of /v1/ledger, as the document shows them: the accounts of the messages that fell due in a range of
time."""

from typing import Any, Final

from api.contract import schema
from api.contract.operation import CURSOR, LIMIT, Example, Operation, Parameter, ok
from api.contract.shape import Shape, array, nullable, page
from api.port.ledger import CLASSES

_CLASS: Final = schema.choice(CLASSES)
_AT: Final = nullable(schema.AT)
_NUMBER: Final = nullable({"type": "integer"})
_WORD: Final = nullable(schema.WORD)
_COUNTS: Final = {"type": "object", "additionalProperties": schema.COUNT}

_UNREACHABLE: Final = Shape(
    "Unreachable",
    {"node": schema.said(schema.WORD, "The member."), "why": schema.said(schema.WORD, "What happened.")},
)
_GAP: Final = Shape(
    "Gap",
    {
        "node": schema.said(_WORD, "The node that led; null where no account tells."),
        "from": schema.said(schema.AT, "Where the gap begins."),
        "to": schema.said(schema.AT, "Where it ends."),
    },
)
_WINDOW: Final = Shape(
    "LedgerWindow",
    {
        "from": schema.said(schema.AT, "Where the window begins."),
        "to": schema.said(schema.AT, "Where the window ends."),
        "retained_from": schema.said(schema.AT, "Records of messages that were due before this may be forgotten."),
        "removed_until": schema.said(_AT, "The end of the newest hour of the window that age removed."),
        "complete": schema.said(schema.FLAG, "There is no gap, no unreachable node and no removed hour."),
        "unreachable": schema.said(array(_UNREACHABLE), "Members that did not give their account."),
        "gaps": schema.said(array(_GAP), "Times for which an account is missing."),
    },
    "What the answer was made from, and what is missing.",
)
_DELIVERY: Final[dict[str, Any]] = {
    "at": schema.said(_AT, "When the delivery started."),
    "node": schema.said(_WORD, "The node that made it."),
    "term": schema.said(_NUMBER, "The term of that leader."),
    "attempt": schema.said(_NUMBER, "The number of the attempt."),
}
_REPEATED: Final = Shape(
    "Repeated",
    {
        **_DELIVERY,
        "leased_until": schema.said(_AT, "When its lease ended or ends."),
        "id": {**schema.ID, "description": "The other message, of `scheduled_twice` alone."},
    },
    "The earlier delivery.",
    optional=("id",),
)
_DUPLICATE: Final = Shape(
    "Duplicate",
    {
        "cause": schema.said(schema.WORD, "Why it was delivered again."),
        "mode": schema.said(_WORD, "`pull` or `push`."),
        **_DELIVERY,
        "repeats": _REPEATED,
    },
)
_JUDGED: Final[dict[str, Any]] = {
    "class": schema.said(_CLASS, "What became of the message."),
    "flags": schema.said(array(schema.WORD), "What else is true of it."),
    "late_cause": schema.said(_WORD, "Why the first delivery was late; null if it was not."),
    "lost": schema.said(_WORD, "Why it counts as lost; null if it does not."),
    "hand_overs": schema.said(schema.COUNT, "How many deliveries the nodes wrote down."),
    "retries": schema.said(schema.COUNT, "How many of them came after a failure on record."),
    "first_handed_over": schema.said(_AT, "When the first delivery started."),
    "lateness_ms": schema.said(_NUMBER, "How far behind the due time that was."),
    "mode": schema.said(_WORD, "`pull` or `push`, of the first delivery."),
    "term": schema.said(_NUMBER, "The term of the first delivery."),
    "attempt": schema.said(_NUMBER, "The attempt of the first delivery."),
    "node": schema.said(_WORD, "The node that made the first delivery."),
    "code": schema.said(_NUMBER, "The HTTP status or the number of the reason with which it ended."),
    "duplicates": schema.said(array(_DUPLICATE), "Deliveries that repeat another one."),
}
_ENTRY: Final = Shape(
    "LedgerEntry",
    {
        "id": schema.ID,
        "topic": schema.NAMED,
        **_JUDGED,
        "created": schema.said(_AT, "When it was scheduled."),
        "asked_due": schema.ASKED_DUE,
        "due": schema.DUE,
        "settled": schema.said(_AT, "When it ended; null while it is open."),
    },
)
_OUTCOMES: Final = ("delivered", "failed", "given_back", "late", "unknown")
_HAND_OVER: Final = Shape(
    "HandOver",
    {
        **_DELIVERY,
        "mode": schema.said(schema.WORD, "`pull` or `push`."),
        "outcome": schema.said(schema.choice(_OUTCOMES), "How it ended."),
        "ended": schema.said(_AT, "When it ended; null where no end is on record."),
        "code": schema.said(_NUMBER, "The HTTP status or the number of the reason of its end."),
    },
)
LEDGER_OF_MESSAGE: Final = Shape(
    "LedgerOfMessage",
    {
        **_JUDGED,
        "class": schema.said(nullable(_CLASS), "What became of the message; null: `why` says why nobody knows."),
        "deliveries": schema.said(array(_HAND_OVER), "The newest 500 deliveries on record."),
        "window": _WINDOW,
        "why": {**schema.WORD, "description": "Why there is no class, and no other field."},
    },
    "What the records of all nodes say of it.",
    optional=(*(name for name in _JUDGED if name != "class"), "deliveries", "window", "why"),
)
_ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}
_SUMMARY: Final = Shape(
    "LedgerSummary",
    {
        "window": _WINDOW,
        "scheduled": schema.said(schema.COUNT, "The sum of the classes."),
        "classes": Shape("Classes", dict.fromkeys(CLASSES, schema.COUNT), "How many messages of each class there are."),
        "flags": schema.said(_COUNTS, "How many messages have each flag."),
        "late_causes": schema.said(_COUNTS, "How many late messages there are of each cause."),
        "lost": schema.said(_COUNTS, "How many lost messages there are of each reason."),
        "causes": schema.said(_COUNTS, "How many duplicates there are of each cause."),
        "term_changes": schema.said(array(_ANY_OBJECT), "The changes of leader that repeated a delivery."),
        "strict_failover": schema.said(schema.COUNT, "Failover duplicates in strict topics; 0."),
        "hand_overs": schema.said(schema.COUNT, "How many deliveries are on record."),
        "retries": schema.said(schema.COUNT, "How many of them came after a failure on record."),
        "duplicates": schema.said(schema.COUNT, "How many of them repeat another one."),
        "foreign": schema.said(schema.COUNT, "Records that name no message of the window."),
        "beyond": schema.said(schema.COUNT, "Records that are newer than the answer."),
    },
)
_WHICH: Final = (
    Parameter("from", schema.TIME, "Messages scheduled for then or later; an hour before `to`, if it is left out."),
    Parameter("to", schema.TIME, "Messages scheduled for before that; now, if it is left out."),
    Parameter("topic", schema.TOPIC, "The messages of this topic; of all topics, if it is left out."),
)
_ALL: Final = "from=2026-01-01T00:00:00Z&to=2099-01-01T00:00:00Z"
_SEEN: Final[dict[str, Any]] = {
    "from": "2026-01-01T00:00:00.000Z",
    "to": "2099-01-01T00:00:00.000Z",
    "retained_from": "2026-11-20T14:05:27.341Z",
    "removed_until": None,
    "complete": True,
    "unreachable": [],
    "gaps": [],
}

PAGE: Final = Operation(
    "listLedger",
    "What became of each message",
    ok(page("Ledger", _ENTRY, window=_WINDOW), "In order of due time."),
    parameters=(
        *_WHICH,
        Parameter("class", schema.WORD, "One class, or several with commas between."),
        LIMIT,
        CURSOR,
    ),
    errors=("unknown-topic", "over-limit"),
    examples=(
        Example(
            "cancelled",
            f"/v1/ledger?topic=orders&class=cancelled,lost&{_ALL}",
            {
                "window": _SEEN,
                "items": [
                    {
                        "id": "2000F6ZY000000004M16D0WDR1",
                        "topic": "orders",
                        "class": "cancelled",
                        "flags": ["rescheduled"],
                        "late_cause": None,
                        "lost": None,
                        "hand_overs": 0,
                        "retries": 0,
                        "created": "2026-11-21T14:05:27.263Z",
                        "asked_due": "2026-11-21T16:05:27.309Z",
                        "due": "2026-11-21T16:05:27.309Z",
                        "first_handed_over": None,
                        "lateness_ms": None,
                        "settled": "2026-11-21T14:05:27.322Z",
                        "mode": None,
                        "term": None,
                        "attempt": None,
                        "node": None,
                        "code": None,
                        "duplicates": [],
                    }
                ],
                "next_cursor": None,
            },
        ),
    ),
)
SUMMARY: Final = Operation(
    "summarizeLedger",
    "How many messages there are of each class",
    ok(_SUMMARY, "`scheduled` is the sum of the classes."),
    parameters=_WHICH,
    errors=("unknown-topic", "over-limit"),
    examples=(Example("orders", f"/v1/ledger/summary?topic=orders&{_ALL}"),),
)
