"""The operation that pulls, as the document shows it."""

from collections.abc import Mapping
from typing import Any, Final

from api.contract import schema
from api.contract.fields import MESSAGE
from api.contract.operation import Example, Operation, ok
from api.contract.resource.message import DEAD, body_members
from api.contract.resource.receipt import ONE, TWO
from api.contract.schema import Schema
from api.contract.shape import Shape, array, nullable, sent
from api.port.port import PULL_MAX


def _pulled() -> list[str]:
    return [row.name for row in MESSAGE.extension if row.pulled]


def _delivery() -> Mapping[str, Schema | Shape]:
    return {
        "id": schema.ID,
        "receipt": schema.RECEIPT,
        "attempt": schema.said(schema.COUNT, "The number of this attempt, from 1."),
        "term": schema.said(schema.COUNT, "The term of the leader; `(term, attempt)` orders the attempts."),
        "topic": schema.NAMED,
        "leased_until": schema.said(schema.AT, "Until then no other consumer gets the message."),
        "handed_over": schema.said(schema.AT, "When this delivery started."),
        "due": schema.DUE,
        "asked_due": schema.ASKED_DUE,
        "created": schema.CREATED,
        "lateness_ms": schema.said(schema.COUNT, "How far this delivery is behind `asked_due`."),
        "tags": schema.TAGS_SHOWN,
        "headers": schema.HEADERS_SHOWN,
        "key": schema.KEY_SHOWN,
        "priority": schema.said(schema.whole(0, 9), "0, until priorities are supported."),
        "order_key": schema.said(nullable(schema.WORD), "Null, until order keys are supported."),
        **body_members(),
        "dead": DEAD,
        **{name: schema.said(MESSAGE.rows[name].kind.schema, MESSAGE.rows[name].said) for name in _pulled()},
    }


_DELIVERY: Final = Shape("Delivery", _delivery, optional=lambda: ("body", "body_base64", "dead", *_pulled()))


def _shown(id: str, receipt: str, topic: str, tags: list[str], **body: Any) -> dict[str, Any]:
    due = "2026-11-21T14:05:27.414Z"
    return {
        "messages": [
            {
                "id": id,
                "receipt": receipt,
                "attempt": 1,
                "term": 1,
                "topic": topic,
                "leased_until": "2026-11-21T14:06:27.436Z",
                "handed_over": "2026-11-21T14:05:27.436Z",
                "due": due,
                "asked_due": due,
                "created": due,
                "lateness_ms": 22,
                "tags": tags,
                "headers": {},
                "key": None,
                "priority": 0,
                "order_key": None,
                **body,
            }
        ]
    }


PULL: Final = Operation(
    "pullMessages",
    "Take messages that are due, under a lease",
    ok(
        Shape("Pulled", {"messages": schema.said(array(_DELIVERY), "The deliveries.")}),
        "What is due. The list is empty if no message came within `wait`.",
    ),
    said="A lease that ends without an ack brings the message again, as the next attempt. "
    "A topic that does not exist yet has no messages: the pull waits for the first.",
    request=sent(
        "Pull",
        {
            "max": {**schema.whole(1, PULL_MAX), "default": 100, "description": "At most so many messages."},
            "wait": schema.duration("0s to 30s", "How long to wait for the first message.", default="0s"),
            "lease": schema.duration("1s to 12h", "How long the messages are this consumer's; else the topic says."),
            "tags": schema.said(schema.text(4096, 0), "A filter of tags; every message, if it is left out."),
        },
    ),
    optional=True,
    errors=("not-supported-yet", "over-limit"),
    examples=(
        Example(
            "bytes",
            "/v1/topics/jobs/pull",
            _shown("2000F6ZY00000002JQRS7RYRK7", ONE, "jobs", [], content_type="image/png", body_base64="AAEC"),
            200,
            {"max": 10, "wait": "20s", "lease": "1m"},
        ),
        Example(
            "tagged",
            "/v1/topics/payments/pull",
            _shown(
                "2000F6ZY00000004T9ZP8YDR6Q",
                TWO,
                "payments",
                ["eu"],
                content_type="application/json",
                body={"eur": 5},
            ),
            200,
            {"wait": "20s", "tags": "eu && vip || eu"},
            turn=1,
        ),
    ),
)
