"""Operations of /v1/ledger, as the document shows them: the accounts of the messages that fell due in a window."""

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

_WINDOW: Final = Shape(
    "LedgerWindow",
    {
        "from": schema.AT,
        "to": schema.AT,
        "retained_from": schema.AT,
        "removed_until": _AT,
        "complete": schema.FLAG,
        "unreachable": array(Shape("Unreachable", {"node": schema.WORD, "why": schema.WORD})),
        "gaps": array(Shape("Gap", {"node": _WORD, "from": schema.AT, "to": schema.AT})),
    },
    "What the answer was made from, and what is missing.",
)
_REPEATED: Final = Shape(
    "Repeated",
    {"at": _AT, "node": _WORD, "term": _NUMBER, "attempt": _NUMBER, "leased_until": _AT, "id": schema.ID},
    optional=("id",),
)
_DUPLICATE: Final = Shape(
    "Duplicate",
    {
        "cause": schema.WORD,
        "mode": _WORD,
        "at": _AT,
        "node": _WORD,
        "term": _NUMBER,
        "attempt": _NUMBER,
        "repeats": _REPEATED,
    },
)
_JUDGED: Final[dict[str, Any]] = {
    "class": _CLASS,
    "flags": array(schema.WORD),
    "late_cause": _WORD,
    "lost": _WORD,
    "hand_overs": schema.COUNT,
    "retries": schema.COUNT,
    "first_handed_over": _AT,
    "lateness_ms": _NUMBER,
    "mode": _WORD,
    "term": _NUMBER,
    "attempt": _NUMBER,
    "node": _WORD,
    "code": _NUMBER,
    "duplicates": array(_DUPLICATE),
}
_ENTRY: Final = Shape(
    "LedgerEntry",
    {
        "id": schema.ID,
        "topic": schema.TOPIC,
        **_JUDGED,
        "created": _AT,
        "asked_due": schema.AT,
        "due": schema.AT,
        "settled": _AT,
    },
)
_HAND_OVER: Final = Shape(
    "HandOver",
    {
        "at": schema.AT,
        "node": schema.WORD,
        "term": schema.COUNT,
        "attempt": schema.COUNT,
        "mode": schema.WORD,
        "outcome": schema.choice(("delivered", "failed", "given_back", "late", "unknown")),
        "ended": _AT,
        "code": _NUMBER,
    },
)
LEDGER_OF_MESSAGE: Final = Shape(
    "LedgerOfMessage",
    {
        **_JUDGED,
        "class": nullable(_CLASS),
        "deliveries": array(_HAND_OVER),
        "window": _WINDOW,
        "why": {**schema.WORD, "description": "There is no class, and nothing else, for that reason."},
    },
    optional=(*(name for name in _JUDGED if name != "class"), "deliveries", "window", "why"),
)
_SUMMARY: Final = Shape(
    "LedgerSummary",
    {
        "window": _WINDOW,
        "scheduled": schema.COUNT,
        "classes": Shape("Classes", dict.fromkeys(CLASSES, schema.COUNT)),
        "flags": _COUNTS,
        "late_causes": _COUNTS,
        "lost": _COUNTS,
        "causes": _COUNTS,
        "term_changes": array({"type": "object", "additionalProperties": True}),
        **dict.fromkeys(("strict_failover", "hand_overs", "retries", "duplicates", "foreign", "beyond"), schema.COUNT),
    },
)
_WHICH: Final = (
    Parameter("from", schema.TIME, "Scheduled for then or later; an hour before `to`, if it is left out."),
    Parameter("to", schema.TIME, "Scheduled for before that; now, if it is left out."),
    Parameter("topic", schema.TOPIC, "Of one topic."),
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
        Parameter("class", schema.WORD, "One class or several, with commas between."),
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
