"""The operation that lists messages, as the document shows it: GET /v1/messages."""

from typing import Final

from api.contract import schema
from api.contract.operation import CURSOR, LIMIT, Example, Operation, Parameter, ok
from api.contract.resource.count import SETTLING, WHICH
from api.contract.resource.message import message_members
from api.contract.shape import Shape, page

_LISTED: Final = Shape(
    "ListedMessage",
    message_members,
    "A message without its history.",
    optional=("body", "body_base64", "held", "dead"),
)
_BODY: Final = Parameter(
    "body", {**schema.choice(("true", "false")), "default": "true"}, "false: without bodies, so pages are smaller."
)
LIST: Final = Operation(
    "listMessages",
    "List messages",
    ok(
        page("Messages", _LISTED, optional=("settling",), settling=SETTLING),
        "In order of due time. A page may be short, or empty, although another follows.",
    ),
    parameters=(*WHICH, _BODY, LIMIT, CURSOR),
    errors=("unknown-topic", "over-limit"),
    examples=(
        Example(
            "cancelled",
            "/v1/messages?topic=orders&tag=vip&state=cancelled&limit=10",
            {
                "items": [
                    {
                        "id": "2000F6ZY000000004M16D0WDR1",
                        "topic": "orders",
                        "state": "cancelled",
                        "due": "2026-11-21T14:35:27.276Z",
                        "asked_due": "2026-11-21T14:35:27.276Z",
                        "created": "2026-11-21T14:05:27.263Z",
                        "revision": 2,
                        "attempt": 0,
                        "tags": ["eu", "vip"],
                        "headers": {},
                        "key": "order-7",
                        "content_type": "application/json",
                        "handed_over": None,
                        "settled": "2026-11-21T14:05:27.283Z",
                        "lateness_ms": None,
                        "last_error": None,
                        "target": None,
                        "retry": None,
                        "body": {"id": 7},
                    }
                ],
                "next_cursor": None,
            },
        ),
    ),
)
