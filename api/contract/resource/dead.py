"""The operation of dead letters, as the document shows it: list a topic's."""

from typing import Final

from api.contract import schema
from api.contract.operation import CURSOR, LIMIT, Example, Operation, ok
from api.contract.resource.count import TAG, WINDOW
from api.contract.shape import Shape, page

_ID: Final = "2000F6ZY00000004T9ZP8YDR6Q"
_DUE: Final = "2026-11-21T14:05:27.525Z"
_DEAD: Final = Shape(
    "DeadMessage",
    {
        "id": schema.ID,
        "due": schema.said(schema.AT, "When its last attempt was due."),
        "asked_due": schema.ASKED_DUE,
        "died": schema.said(schema.AT, "When it was given up."),
        "reason": schema.said(schema.WORD, "Why: one of the reasons below."),
        "attempts": schema.said(schema.COUNT, "How many attempts it had."),
        "tags": schema.TAGS_SHOWN,
        "key": schema.KEY_SHOWN,
    },
)
LIST: Final = Operation(
    "listDeadMessages",
    "List the messages of a topic that were given up",
    ok(page("DeadMessages", _DEAD), "In order of hours, then of arrival."),
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
