"""The fields of a message as clients send them to /v1/messages: a row each.

To add an optional field, add its row, with `stored=EXTENSION` (the default). That row alone makes the field read,
refused, fingerprinted, kept, shown and printed into docs/openapi.json and docs/http.
"""

from typing import Final

from msgspec import Raw

from api.contract import schema
from api.contract.checker import (
    CONTENT_TYPE_BYTES_MAX,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    TAG_BYTES_MAX,
    TAGS_MAX,
    TOPIC_CHARS_MAX,
    check_body_size,
    read_base64,
    read_content_type,
    read_delay,
    read_delay_level,
    read_deliver_at,
    read_headers,
    read_key,
    read_on_conflict,
    read_tags,
    read_topic,
)
from api.contract.extend import EXTEND
from api.contract.field import BODY, NOT_STORED, PLANNED, Field, MessageFields
from api.contract.kind import Kind, duration, plain, text, whole
from api.contract.retry import RETRY
from api.contract.target import TARGET
from api.port.duration import render_duration
from api.port.port import DELAY_LEVELS_MS, Limits
from storage.format.schedule_status import ON_CONFLICT

#: Content type of opaque bytes that were sent without one.
OPAQUE: Final = "application/octet-stream"
#: Content type of a body that is a JSON document.
JSON: Final = "application/json"

_FIRST: Final = "0.1.0"
_DUE: Final = "at most one of deliver_at, delay and delay_level; leave the others out"
_BODY_BYTES: Final = Limits().body_bytes_max
_INT_BYTES: Final = 9


def _read_body(raw: bytes, now_ms: int, limits: Limits) -> bytes:
    check_body_size(len(raw), limits.body_bytes_max)
    return raw


MESSAGE: Final = MessageFields(
    [
        Field(
            "topic",
            Kind(plain(read_topic), str, TOPIC_CHARS_MAX, schema.TOPIC),
            "The name of the topic; one that does not exist is made, with mode `pull`.",
            "orders",
            _FIRST,
            stored="topic",
            required='topic is required, such as "orders"',
            rare=False,
        ),
        Field(
            BODY,
            Kind(_read_body, Raw, _BODY_BYTES, {}),
            "Any JSON, delivered byte for byte.",
            {"id": 7},
            _FIRST,
            stored="body",
            required="a body is required: any JSON as body, or bytes as body_base64",
            rare=False,
        ),
        Field(
            "body_base64",
            Kind(
                lambda value, now_ms, limits: read_base64(value, limits.body_bytes_max),
                str,
                _BODY_BYTES,
                schema.text(4 * -(-_BODY_BYTES // 3), 0, contentEncoding="base64"),
            ),
            "Any bytes, instead of `body`.",
            "AAEC",
            _FIRST,
            stored="body",
            required="a body is required: any JSON as body, or bytes as body_base64",
            clash={BODY: "at most one of body and body_base64; leave one out"},
            rare=False,
        ),
        Field(
            "content_type",
            Kind(plain(read_content_type), str, CONTENT_TYPE_BYTES_MAX, schema.CONTENT_TYPE),
            f"The media type of `body_base64`; `{OPAQUE}` where it is not said.",
            "image/png",
            _FIRST,
            stored="content_type",
            clash={BODY: "a body is application/json; send other content as body_base64"},
            harmless=JSON,
            rare=False,
        ),
        Field(
            "delay",
            Kind(
                lambda value, now_ms, limits: read_delay(value, limits.max_delay_ms),
                str | int,
                _INT_BYTES,
                {**schema.DURATION, "x-bound": f"0 to {render_duration(Limits().max_delay_ms)}"},
            ),
            "Due so long after it came in.",
            "30m",
            _FIRST,
            stored="asked_due_ms",
            clash={"deliver_at": _DUE},
            movable=True,
            rare=False,
        ),
        Field(
            "deliver_at",
            Kind(
                lambda value, now_ms, limits: read_deliver_at(value, now_ms, limits.max_delay_ms),
                str | int,
                _INT_BYTES,
                schema.TIME,
            ),
            "Due at that time; the past means now.",
            "2026-11-21T14:35:27.263Z",
            _FIRST,
            stored="asked_due_ms",
            movable=True,
            rare=False,
        ),
        Field(
            "delay_level",
            Kind(
                lambda value, now_ms, limits: read_delay_level(value, limits.delay_levels_ms, limits.max_delay_ms),
                int,
                _INT_BYTES,
                schema.whole(1, len(DELAY_LEVELS_MS)),
            ),
            "Due after the delay of this number, from `[limits] delay_levels`.",
            5,
            _FIRST,
            stored="asked_due_ms",
            clash={"deliver_at": _DUE, "delay": _DUE},
            movable=True,
        ),
        Field(
            "tags",
            Kind(plain(read_tags), list[str], TAGS_MAX * (TAG_BYTES_MAX + 1), schema.TAGS),
            "A pull can ask for them, and so can a count.",
            ["eu", "vip"],
            _FIRST,
            stored="tags",
            rare=False,
        ),
        Field(
            "headers",
            Kind(plain(read_headers), dict[str, str], HEADER_BYTES_MAX + 4 * HEADERS_MAX, schema.HEADERS),
            f"A webhook sends them. They hold {HEADER_BYTES_MAX:,} bytes in all.",
            {"X-Trace": "4bf92f35"},
            _FIRST,
            stored="headers",
            rare=False,
        ),
        Field(
            "key",
            Kind(plain(read_key), str, KEY_BYTES_MAX, schema.KEY),
            "The client's own name for it. The same key and request again gets the first answer.",
            "order-7",
            _FIRST,
            stored="key",
            fingerprinted=False,
            rare=False,
        ),
        Field(
            "on_conflict",
            Kind(
                plain(read_on_conflict),
                str,
                max(map(len, ON_CONFLICT)),
                {**schema.choice(ON_CONFLICT), "default": ON_CONFLICT[0]},
            ),
            "What follows where another message has the key: 409, 200 with it, or a change of it.",
            "keep",
            _FIRST,
            stored=NOT_STORED,
            fingerprinted=False,
            rare=False,
        ),
        Field(
            "extend",
            EXTEND,
            "How `on_conflict: extend` changes the message that has the key.",
            {"max_wait": "10m", "body": "last"},
            _FIRST,
            stored=NOT_STORED,
            fingerprinted=False,
        ),
        Field(
            "target",
            TARGET,
            "Where this message is pushed, instead of to its topic's target.",
            {"url": "https://example.com/hook"},
            _FIRST,
            "target",
        ),
        Field(
            "retry",
            RETRY,
            "What differs from its topic's retry policy.",
            {"max_attempts": 3, "max_age": "1d"},
            _FIRST,
            pulled=False,
        ),
        Field("order_key", text(128), "One at a time of those with the same.", "user-7", PLANNED, "order_key"),
        Field("priority", whole(0, 9), "Higher first, of what is due.", 5, PLANNED, "priority"),
        Field("expire_after", duration("1ms", "3650d"), "No delivery starts later.", "1h", PLANNED, "expiry_ms"),
    ]
)
"""The fields of this build."""
