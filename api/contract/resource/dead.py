"""Operations of dead letters, as the document shows them: list a topic's, make them due again."""

from typing import Final

from api.contract import schema
from api.contract.operation import CURSOR, LIMIT, Example, Operation, ok
from api.contract.resource.count import TAG, WINDOW
from api.contract.shape import Shape, nullable, page, sent

_ID: Final = "2000F6ZY00000004T9ZP8YDR6Q"
_DUE: Final = "2026-11-21T14:05:27.525Z"
_DEAD: Final = Shape(
    "DeadMessage",
    {
        "id": schema.ID,
        "due": schema.AT,
        "asked_due": schema.AT,
        "died": schema.AT,
        "reason": schema.WORD,
        "attempts": schema.COUNT,
        "tags": schema.TAGS,
        "key": nullable(schema.KEY),
    },
)
LIST: Final = Operation(
    "listDeadMessages",
    "List the messages of a topic that were given up",
    ok(page("DeadMessages", _DEAD), "A page, in the order of hours and arrival."),
    parameters=(*WINDOW, TAG, LIMIT, CURSOR),
    errors=("unknown-topic",),
    examples=(
        Example(
            "given-up",
            "/v1/topics/payments/dead?tag=eu&limit=10",
            {
                "items": [
                    {
                        "id": _ID,
                        "due": _DUE,
                        "asked_due": _DUE,
                        "died": "2026-11-21T14:05:27.547Z",
                        "reason": "nacked",
                        "attempts": 1,
                        "tags": ["eu"],
                        "key": None,
                    }
                ],
                "next_cursor": None,
            },
            turn=3,
        ),
    ),
)
REDRIVE: Final = Operation(
    "redriveMessages",
    "Make messages that were given up due now",
    ok(
        Shape("Changed", {"matched": schema.COUNT, "changed": schema.COUNT, "index": schema.COUNT}),
        "With all their attempts before them.",
    ),
    request=sent(
        "Redrive",
        {
            "topic": schema.TOPIC,
            "from": schema.TIME,
            "to": schema.TIME,
            "tag": schema.TAG,
            "dry_run": {**schema.FLAG, "description": "true: they are counted and stay as they are."},
        },
        ("topic",),
    ),
    errors=("unknown-topic",),
    examples=(
        Example(
            "dry-run",
            "/v1/messages/redrive",
            {"matched": 1, "changed": 0, "index": 0},
            200,
            {"topic": "payments", "tag": "eu", "dry_run": True},
            turn=3,
        ),
    ),
)
