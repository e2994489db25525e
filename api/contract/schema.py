"""Values of the contract as JSON Schema (2020-12), with the bounds that the field readers know.

A schema is for people and for tools that make clients. The field readers decide which values are refused, and with
which words. A schema is less strict: it accepts values that no pattern can tell from valid ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api.contract.checker import (
    CONTENT_TYPE_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    TAG_BYTES_MAX,
    TAGS_MAX,
    TOPIC_CHARS_MAX,
)

Schema = Mapping[str, Any]


def said(value: Schema, words: str) -> dict[str, Any]:
    """Return the schema with the text that says what the value means. Pages print that text beside the field's name
    (deploy/http_pages.py)."""
    return {**value, "description": words}


def text(chars_max: int, chars_min: int = 1, **more: Any) -> dict[str, Any]:
    """A string of `chars_min` to `chars_max` characters. If a field reader bounds the bytes, the same number bounds the
    characters here."""
    return {"type": "string", "minLength": chars_min, "maxLength": chars_max, **more}


def whole(low: int, high: int) -> dict[str, Any]:
    """A whole number from `low` to `high`."""
    return {"type": "integer", "minimum": low, "maximum": high}


def choice(words: Sequence[str]) -> dict[str, Any]:
    """A string that is one of `words`."""
    return {"type": "string", "enum": list(words)}


def listed(items: Schema, most: int, least: int = 0) -> dict[str, Any]:
    """An array of `least` to `most` of these items."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def duration(bound: str, words: str, **more: Any) -> dict[str, Any]:
    """A duration that a client sends. `words` say what it means, `bound` its range, such as `1s to 12h`."""
    return {**DURATION, "description": words, "x-bound": bound, **more}


TOPIC: Final = text(TOPIC_CHARS_MAX, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
DURATION: Final[Schema] = {
    "type": ["string", "integer"],
    "pattern": "^[0-9]{1,15}(ms|s|m|h|d)$",
    "minimum": 0,
    "description": "A whole number with one unit, or whole milliseconds.",
}
TIME: Final[Schema] = {
    "type": ["string", "integer"],
    "format": "date-time",
    "minimum": 10**11,
    "description": "RFC 3339 with an offset, or milliseconds since 1970.",
}
TAG: Final = text(TAG_BYTES_MAX)
TAGS: Final = listed(TAG, TAGS_MAX)
HEADERS: Final[Schema] = {
    "type": "object",
    "maxProperties": HEADERS_MAX,
    "additionalProperties": {"type": "string"},
}
KEY: Final = text(KEY_BYTES_MAX)
CONTENT_TYPE: Final = text(CONTENT_TYPE_BYTES_MAX, chars_min=3)
#: The schemas from here on are of values in answers.
ID: Final = text(64, description="The id of the message; opaque.")
RECEIPT: Final = text(512, description="Names this delivery, for ack, nack and extend; opaque.")
AT: Final[Schema] = {"type": "string", "format": "date-time"}
TIMESPAN: Final[Schema] = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
WORD: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
#: Members that have one meaning in all answers.
NAMED: Final = said(TOPIC, "The name of the topic.")
STATE: Final = said(WORD, "Where the message stands.")
DUE: Final = said(AT, "When it is due now.")
ASKED_DUE: Final = said(AT, "When a client wished it to be due; a retry leaves this as it is.")
CREATED: Final = said(AT, "When it was scheduled.")
REVISION: Final = said(COUNT, "Counts the changes; `If-Match` takes it.")
KEY_SHOWN: Final = {**KEY, "type": ["string", "null"], "description": "The key that the client gave it."}
TAGS_SHOWN: Final = said(TAGS, "The tags of the message.")
HEADERS_SHOWN: Final = said(HEADERS, "The headers of the message.")
