"""From one JSON object to one `MessageIn`, by two paths: a quick one for valid objects, a thorough one for all others.

The quick path decodes into a typed struct (0.15 us) and calls the field readers of the fields that were sent. It leaves
any fault to the thorough path, so its own errors need no good texts. It never accepts an object that the thorough path
would refuse, because both call the field readers of `api.contract.checker` (a property test compares the two). The
known fields are in `MESSAGE` (api/contract/fields.py).

A JSON body is kept as the bytes that came, so it is delivered byte for byte.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import UNSET

from api.contract.checker import (
    Fault,
    check_body_size,
    pack_headers,
    read_base64,
    read_content_type,
    read_delay_level,
    read_deliver_at,
    read_headers,
    read_key,
    read_on_conflict,
    read_tags,
    read_topic_text,
)
from api.contract.extend import read_extend
from api.contract.field import BODY, Field, pack_extension
from api.contract.fields import MESSAGE, OPAQUE
from api.contract.object import FAULTS_MAX, Checker, Fields
from api.contract.target import read_message_target
from api.port.duration import parse_duration
from api.port.port import Limits, MessageIn
from api.read.document import Faults, check_utf8, read_members, split_object
from api.read.nesting import NESTING_MAX, nests_within
from storage.format.schedule_status import CHANGING

_FINGERPRINT_OF: Final = b"hourwheel-1"
#: Levels of a body. Its document has one more.
_LEVELS_MAX: Final = NESTING_MAX - 1

#: Exceptions of the quick path. Each sends the object to the thorough path.
ODD: Final = (msgspec.DecodeError, Fault, ValueError, RecursionError)

_known_duration = lru_cache(maxsize=4096)(parse_duration)


def parse_message(data: bytes, now_ms: int, limits: Limits) -> MessageIn:
    """Read a message from its JSON object. Raises a `Problem` that names every fault."""
    if not data.isascii():
        check_utf8(data)
    try:
        return accept(MESSAGE.json.decode(data), now_ms, limits)
    except ODD:
        return explain(data, now_ms, limits)


def accept(wire: Any, now_ms: int, limits: Limits) -> MessageIn:
    """Take the quick path: make a valid message from the result of a `MESSAGE` decoder. An exception of `ODD` sends the
    caller to `explain`. The caller has checked that the text is UTF-8."""
    if type(wire) is MESSAGE.json_message:
        body = bytes(wire.body)
        size = len(body)
        if size > limits.body_bytes_max:
            check_body_size(size, limits.body_bytes_max)
        if size > _LEVELS_MAX and not nests_within(body, _LEVELS_MAX):  # a shorter body has no room for so many levels
            raise Fault("malformed-json", "left to explain")
        content_type = ""
    else:
        body = read_base64(wire.body_base64, limits.body_bytes_max)
        content_type = OPAQUE if wire.content_type is UNSET else read_content_type(wire.content_type)
    topic = read_topic_text(wire.topic)
    delay_ms = due_ms = None
    if (delay := wire.delay) is not UNSET:
        delay_ms = _known_duration(delay)
        if delay_ms > limits.max_delay_ms or wire.deliver_at is not UNSET or wire.delay_level is not UNSET:
            raise Fault("invalid-field", "left to explain")
    elif (deliver_at := wire.deliver_at) is not UNSET:
        due_ms = read_deliver_at(deliver_at, now_ms, limits.max_delay_ms)
        if wire.delay_level is not UNSET:
            raise Fault("invalid-field", "left to explain")
    elif (level := wire.delay_level) is not UNSET:
        delay_ms = read_delay_level(level, limits.delay_levels_ms, limits.max_delay_ms)
    rare = MESSAGE.rare(wire)
    extended = rare is not UNSET and rare != MESSAGE.none_sent
    unkeyed = wire.key is wire.on_conflict is wire.extend is UNSET
    if unkeyed and wire.tags is wire.headers is wire.target is UNSET and not extended:
        return MessageIn(topic, body, content_type, due_ms, delay_ms)
    extension = _extension(wire, now_ms, limits) if extended else b""
    return _accept_rest(wire, limits, topic, body, content_type, due_ms, delay_ms, extension)


def _accept_rest(
    wire: Any,
    limits: Limits,
    topic: str,
    body: bytes,
    content_type: str,
    due_ms: int | None,
    delay_ms: int | None,
    extension: bytes,
) -> MessageIn:
    """Make a message that has some of the fields that few messages have."""
    tags = () if wire.tags is UNSET else read_tags(wire.tags)
    headers = b"" if wire.headers is UNSET else pack_headers(read_headers(wire.headers))
    on_conflict = "reject" if wire.on_conflict is UNSET else read_on_conflict(wire.on_conflict)
    target = None if wire.target is UNSET else read_message_target(wire.target, limits)
    extend = None if wire.extend is UNSET else read_extend(wire.extend)
    if MESSAGE.clashes and any(_sent(wire, name) and _sent(wire, other) for name, other in MESSAGE.clashes):
        raise Fault("invalid-field", "left to explain")
    key = mark = None
    if wire.key is not UNSET:
        key = read_key(wire.key)
        # Comes last, when all values in it are known to have the right types and sizes.
        names = MESSAGE.json_covered if type(wire) is MESSAGE.json_message else MESSAGE.opaque_covered
        mark = fingerprint([(name, value) for name in names if (value := getattr(wire, name)) is not UNSET], body)
    for _ in conflict_faults(on_conflict, has_key=key is not None, has_extend=extend is not None):
        raise Fault("invalid-field", "left to explain")
    return MessageIn(
        topic, body, content_type, due_ms, delay_ms, tags, headers, key, on_conflict, mark, target, extension, extend
    )


def conflict_faults(on_conflict: str, *, has_key: bool, has_extend: bool) -> Iterator[tuple[str, str]]:
    """Yield the pointer and the detail of each fault among `key`, `on_conflict` and `extend`."""
    if on_conflict in CHANGING and not has_key:
        yield "/key", f'key is required with on_conflict "{on_conflict}"'
    if has_extend and on_conflict != "extend":
        yield "/extend", 'extend goes with on_conflict "extend"; leave it out'


def _sent(wire: Any, name: str) -> bool:
    """True if a decoded message has that field. False also if its type has no such member, because that field is only
    for the other kind of body."""
    return getattr(wire, name, UNSET) is not UNSET


def _extension(wire: Any, now_ms: int, limits: Limits) -> bytes:
    """Return a decoded message's fields for the record's extension, packed."""
    return pack_extension(
        [
            name + row.read(value, now_ms, limits)
            for row, name in MESSAGE.packed_names
            if (value := getattr(wire, row.name)) is not UNSET
        ]
    )


def explain(data: bytes, now_ms: int, limits: Limits, faults_max: int = FAULTS_MAX) -> MessageIn:
    """Take the thorough path: check every field, and name every fault with its pointer, `faults_max` at most."""
    sent: dict[str, Any] = {}
    faults = Faults(faults_max)
    values = read_members(split_object(data), _fields(now_ms, limits, sent), faults)
    for row in MESSAGE.served:
        if row.required and row.name not in sent and not row.clash and row.name != BODY:
            faults.add("invalid-field", f"/{row.name}", row.required)
    note_clashes(sent, values, faults)
    if BODY not in sent and "body_base64" not in sent:
        faults.add("invalid-field", f"/{BODY}", MESSAGE.rows[BODY].required)
    on_conflict = values.get("on_conflict", "reject")
    if "on_conflict" in values or "on_conflict" not in sent:  # a word that is none was named above
        for pointer, detail in conflict_faults(on_conflict, has_key="key" in sent, has_extend="extend" in sent):
            faults.add("invalid-field", pointer, detail)
    faults.raise_any()
    opaque = "body_base64" in values
    body: bytes = values["body_base64"] if opaque else values[BODY]
    covered = [(name, sent[name]) for name in MESSAGE.fingerprinted if name in sent]
    return MessageIn(
        topic=values["topic"],
        body=body,
        content_type=values.get("content_type", OPAQUE) if opaque else "",
        due_ms=values.get("deliver_at"),
        delay_ms=values.get("delay", values.get("delay_level")),
        tags=values.get("tags", ()),
        headers=pack_headers(values.get("headers", {})),
        key=values.get("key"),
        on_conflict=on_conflict,
        fingerprint=fingerprint(covered, body) if "key" in sent else None,
        target=values.get("target"),
        extension=pack_extension([name + values[row.name] for row, name in MESSAGE.packed_names if row.name in values]),
        extend=values.get("extend"),
    )


def note_clashes(sent: Collection[str], values: Mapping[str, Any], faults: Faults) -> None:
    """Add a fault for every field that was sent beside a field with which it clashes. `values` has the checked values
    of valid fields: a harmless value clashes with nothing."""
    for row in MESSAGE.clashing:
        if row.name not in sent or (row.harmless is not UNSET and values.get(row.name, row.harmless) == row.harmless):
            continue
        for other, detail in row.clash.items():
            if other in sent:
                faults.add("invalid-field", f"/{row.name}", detail)
                break


def due_checkers(now_ms: int, limits: Limits) -> dict[str, Checker]:
    """Return the field readers of the fields that set the due time, by the field's name."""
    return {row.name: _checker(row, now_ms, limits) for row in MESSAGE.movable}


def _checker(row: Field, now_ms: int, limits: Limits) -> Checker:
    return lambda value: row.read(value, now_ms, limits)


def _fields(now_ms: int, limits: Limits, sent: dict[str, Any]) -> Fields:
    """Return the fields of a message. Each field reader notes the sent value in `sent`, also a value at fault."""

    def noted(row: Field) -> Checker:
        def check(value: Any) -> Any:
            sent[row.name] = value
            return row.read(value, now_ms, limits)

        return check

    return Fields({row.name: noted(row) for row in MESSAGE.served}, planned=MESSAGE.planned, raw=(BODY,))


def fingerprint(sent: list[tuple[str, Any]], body: bytes) -> bytes:
    """Return 16 bytes that are equal for two requests with the same fields and body. `sent` has (name, value as sent),
    sorted by name.

    The order of fields, and white space outside the body, make no difference. Each byte of the body does (base64: the
    decoded bytes).
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
    """Return the members of an object by name, also of objects inside it."""
    return sorted((name, _sorted(item) if isinstance(item, dict) else item) for name, item in value.items())
