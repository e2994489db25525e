"""From one JSON object to one `MessageIn`, twice: quickly for what is valid, thoroughly for what is not.

The quick path decodes into a typed struct (0.15 us) and calls the checkers of the fields that are there; anything odd
about the object, from a wrong type to a field it does not know, sends it to the thorough path, which alone decides and
explains. The quick path therefore never has to be polite, and never accepts what the other would refuse: both call the
checkers of `api.read.field` (a property test compares the two).

A JSON body is kept as the bytes that came, so it is delivered byte for byte.
"""

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from api.port.duration import parse_duration
from api.port.port import Limits, MessageIn
from api.read.document import FAULTS_MAX, Checker, Faults, Fields, check_utf8, read_members, split_object
from api.read.field import (
    Fault,
    check_body_size,
    pack_headers,
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
    read_topic_text,
)
from api.read.nesting import NESTING_MAX, nests_within
from api.read.retry import read_message_retry
from api.read.target import read_message_target

#: Fields of the contract that this version refuses with `not-supported-yet`.
PLANNED: Final = ("order_key", "priority", "expire_after")
#: Content type of opaque bytes that came without one.
OPAQUE: Final = "application/octet-stream"
JSON: Final = "application/json"
_FINGERPRINT_OF: Final = b"hourwheel-1"


# The fields of both stand twice. Inherited ones would come first, and the decoder looks for fields in their order: it
# took a seventh longer.


class JsonMessage(Struct, forbid_unknown_fields=True, gc=False):
    """The commonest shape of a message: a JSON body and any of the served fields."""

    topic: str
    body: Raw  # no default: msgspec fills a Raw only when the member is there
    delay: str | int | UnsetType = UNSET
    deliver_at: str | int | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    key: str | UnsetType = UNSET
    on_conflict: str = "reject"
    delay_level: int | UnsetType = UNSET
    target: dict[str, Any] | UnsetType = UNSET
    retry: dict[str, Any] | UnsetType = UNSET


class OpaqueMessage(Struct, forbid_unknown_fields=True, gc=False):
    """The same with opaque bytes for a body."""

    topic: str
    body_base64: str
    content_type: str | UnsetType = UNSET
    delay: str | int | UnsetType = UNSET
    deliver_at: str | int | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    key: str | UnsetType = UNSET
    on_conflict: str = "reject"
    delay_level: int | UnsetType = UNSET
    target: dict[str, Any] | UnsetType = UNSET
    retry: dict[str, Any] | UnsetType = UNSET


JSON_MESSAGE: Final = msgspec.json.Decoder(JsonMessage)
OPAQUE_MESSAGE: Final = msgspec.json.Decoder(OpaqueMessage)

#: What the quick path may meet; each sends the object to the thorough path.
ODD: Final = (msgspec.DecodeError, Fault, ValueError, RecursionError)

_known_duration = lru_cache(maxsize=4096)(parse_duration)


def parse_message(data: bytes, now_ms: int, limits: Limits) -> MessageIn:
    """One message from its JSON object; a `Problem` naming all that is wrong with it otherwise."""
    if not data.isascii():
        check_utf8(data)
    try:
        return accept(JSON_MESSAGE.decode(data), now_ms, limits)
    except ODD:
        return explain(data, now_ms, limits)


def accept(wire: JsonMessage | OpaqueMessage, now_ms: int, limits: Limits) -> MessageIn:
    """The quick path: a typed message into a valid one. Anything of `ODD` means: ask `explain`.

    The caller has made sure that the text is UTF-8.
    """
    if type(wire) is JsonMessage:
        body = bytes(wire.body)
        if len(body) > limits.body_bytes_max:
            check_body_size(len(body), limits.body_bytes_max)
        if not nests_within(body, NESTING_MAX - 1):
            raise Fault("malformed-json", "left to explain")
        content_type = ""
    else:
        assert type(wire) is OpaqueMessage
        body = read_base64(wire.body_base64, limits.body_bytes_max)
        content_type = OPAQUE if wire.content_type is UNSET else read_content_type(wire.content_type)
    topic = read_topic_text(wire.topic)
    delay_ms = deliver_at_ms = None
    if (delay := wire.delay) is not UNSET:
        delay_ms = _known_duration(delay)
        if delay_ms > limits.max_delay_ms or wire.deliver_at is not UNSET or wire.delay_level is not UNSET:
            raise Fault("invalid-field", "left to explain")
    elif (deliver_at := wire.deliver_at) is not UNSET:
        deliver_at_ms = read_deliver_at(deliver_at, now_ms, limits.max_delay_ms)
        if wire.delay_level is not UNSET:
            raise Fault("invalid-field", "left to explain")
    elif (level := wire.delay_level) is not UNSET:
        delay_ms = read_delay_level(level, limits.delay_levels_ms, limits.max_delay_ms)
    if wire.tags is wire.headers is wire.key is wire.target is wire.retry is UNSET and wire.on_conflict == "reject":
        return MessageIn(topic, body, content_type, deliver_at_ms, delay_ms)
    return _accept_rest(wire, limits, topic, body, content_type, deliver_at_ms, delay_ms)


def _accept_rest(
    wire: JsonMessage | OpaqueMessage,
    limits: Limits,
    topic: str,
    body: bytes,
    content_type: str,
    deliver_at_ms: int | None,
    delay_ms: int | None,
) -> MessageIn:
    """A message with some of the fields that few have."""
    tags = () if wire.tags is UNSET else read_tags(wire.tags)
    headers = b"" if wire.headers is UNSET else pack_headers(read_headers(wire.headers))
    on_conflict = read_on_conflict(wire.on_conflict)
    target = None if wire.target is UNSET else read_message_target(wire.target, limits)
    retry = None if wire.retry is UNSET else read_message_retry(wire.retry)
    key = mark = None
    if wire.key is not UNSET:
        key = read_key(wire.key)
        # Last, when all that goes into it is known to be of the right types and sizes.
        names = _JSON_FINGERPRINTED if type(wire) is JsonMessage else _FINGERPRINTED
        mark = fingerprint([(name, value) for name in names if (value := getattr(wire, name)) is not UNSET], body)
    return MessageIn(
        topic, body, content_type, deliver_at_ms, delay_ms, tags, headers, key, on_conflict, mark, target, retry
    )


def explain(data: bytes, now_ms: int, limits: Limits, faults_max: int = FAULTS_MAX) -> MessageIn:
    """The thorough path: every field checked, every fault named with its pointer, `faults_max` at most."""
    sent: dict[str, Any] = {}
    faults = Faults(faults_max)
    values = read_members(split_object(data), _fields(now_ms, limits, sent), faults)
    if "topic" not in values and "topic" not in sent:
        faults.add("invalid-field", "/topic", 'topic is required, such as "orders"')
    check_one_due(sent, faults)
    if "body" in sent and "body_base64" in sent:
        faults.add("invalid-field", "/body_base64", "at most one of body and body_base64; leave one out")
    if "body" not in sent and "body_base64" not in sent:
        faults.add("invalid-field", "/body", "a body is required: any JSON as body, or bytes as body_base64")
    if "body" in sent and values.get("content_type", JSON) != JSON:
        faults.add("invalid-field", "/content_type", "a body is application/json; send other content as body_base64")
    faults.raise_any()
    opaque = "body_base64" in values
    body: bytes = values["body_base64"] if opaque else values["body"]
    mark = fingerprint([(name, sent[name]) for name in _FINGERPRINTED if name in sent], body) if "key" in sent else None
    return MessageIn(
        topic=values["topic"],
        body=body,
        content_type=values.get("content_type", OPAQUE) if opaque else "",
        deliver_at_ms=values.get("deliver_at"),
        delay_ms=values.get("delay", values.get("delay_level")),
        tags=values.get("tags", ()),
        headers=pack_headers(values.get("headers", {})),
        key=values.get("key"),
        on_conflict=values.get("on_conflict", "reject"),
        fingerprint=mark,
        target=values.get("target"),
        retry=values.get("retry"),
    )


def check_one_due(sent: Collection[str], faults: Faults) -> None:
    """Note every field past the first that says when the message is due."""
    for name in [name for name in ("deliver_at", "delay", "delay_level") if name in sent][1:]:
        faults.add(
            "invalid-field", f"/{name}", "at most one of deliver_at, delay and delay_level; leave the others out"
        )


def due_checkers(now_ms: int, limits: Limits) -> dict[str, Checker]:
    """The fields that say when a message is due."""
    return {
        "delay": lambda value: read_delay(value, limits.max_delay_ms),
        "deliver_at": lambda value: read_deliver_at(value, now_ms, limits.max_delay_ms),
        "delay_level": lambda value: read_delay_level(value, limits.delay_levels_ms, limits.max_delay_ms),
    }


def _fields(now_ms: int, limits: Limits, sent: dict[str, Any]) -> Fields:
    """The fields of a message, each checker noting in `sent` what came, also when it is at fault."""

    def noted(name: str, checker: Any) -> Any:
        def check(value: Any) -> Any:
            sent[name] = value
            return checker(value)

        return check

    def read_body(raw: bytes) -> bytes:
        check_body_size(len(raw), limits.body_bytes_max)
        return raw

    served = {
        "topic": read_topic,
        "body": read_body,
        "body_base64": lambda value: read_base64(value, limits.body_bytes_max),
        "content_type": read_content_type,
        **due_checkers(now_ms, limits),
        "tags": read_tags,
        "headers": read_headers,
        "key": read_key,
        "on_conflict": read_on_conflict,
        "target": lambda value: read_message_target(value, limits),
        "retry": read_message_retry,
    }
    return Fields({name: noted(name, checker) for name, checker in served.items()}, planned=PLANNED, raw=("body",))


#: What the fingerprint covers besides the body, sorted. A field that comes later joins only when it is sent, so keys
#: outlive upgrades. `key` and `on_conflict` are not part of what is asked for.
_JSON_FINGERPRINTED: Final = ("delay", "delay_level", "deliver_at", "headers") + ("retry", "tags", "target", "topic")
_FINGERPRINTED: Final = ("body_base64", "content_type", *_JSON_FINGERPRINTED)


def fingerprint(sent: list[tuple[str, Any]], body: bytes) -> bytes:
    """16 bytes that two requests share when they sent the same fields, given as (name, value as sent) sorted by name.

    Order and white space outside the body do not count; the body counts byte for byte (base64: what it stands for).
    """
    pairs: list[tuple[str, Any]] = []
    for name, value in sent:
        if type(value) is dict:
            value = _sorted(value)
        elif name == "body_base64":
            value = True
        pairs.append((name, value))
    digest = blake2b(msgspec.msgpack.encode(pairs), digest_size=16, person=_FINGERPRINT_OF)
    digest.update(body)
    return digest.digest()


def _sorted(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """The members of an object by name, also of objects in it."""
    return sorted((name, _sorted(item) if isinstance(item, dict) else item) for name, item in value.items())
