"""Field readers: one function for each field of the contract, the same for every way in which the field can come.

A field reader validates one value: it takes the decoded JSON value and returns the value that the port wants. Or it
raises `Fault` with the code, the limit that was exceeded and what to do. (The checkers of histories in the tests are
another thing.) A field reader does not know the place of the field. The reader of the document adds the pointer. Two
paths in api/read call the same field readers: the quick path of a batch, and the thorough path that explains a refusal.
So both agree about which values are valid.
"""

import binascii
import re
from functools import lru_cache
from typing import Final

import msgspec

from api.port.duration import BadDuration, parse_duration, render_duration
from api.port.timestamp import BadTime, parse_time
from storage.format.schedule_status import ON_CONFLICT

TOPIC_CHARS_MAX: Final = 127
TAGS_MAX: Final = 16
TAG_BYTES_MAX: Final = 64
HEADERS_MAX: Final = 32
HEADER_BYTES_MAX: Final = 4096
KEY_BYTES_MAX: Final = 128
CONTENT_TYPE_BYTES_MAX: Final = 128
LEASE_MIN_MS: Final = 1_000
LEASE_MAX_MS: Final = 12 * 3_600_000

_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_CONTENT_TYPE = re.compile(r"[!#$&^_.+0-9A-Za-z-]+/[!#$&^_.+0-9A-Za-z-]+(?:\s*;[\x20-\x7e]*)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_BUT_TAB = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: Headers that a message may not set. They belong to the hop, to the target's address, or to Hourwheel itself. Expect
#: asks the hop to wait, and a push does not send it.
_HOP: Final = frozenset(
    ("host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection")
    + ("te", "trailer", "trailers", "transfer-encoding", "upgrade", "content-length", "expect")
)
_OWN_PREFIXES: Final = ("webhook-", "hourwheel-")

_NAMES: Final = {str: "a string", int: "a whole number", float: "a number with a fraction", bool: "true or false"}


class Fault(Exception):
    """A field's value is refused. `code` is a key of the problem table, `detail` says what is wrong and what to do.

    - `below`: a pointer inside the field to the part at fault, "" for the whole field.
    - `also`: further faults of the same value, when it is an object with several members at fault.
    """

    def __init__(self, code: str, detail: str, below: str = "", also: "tuple[Fault, ...]" = ()) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.below = below
        self.also = also


def kind_of(value: object) -> str:
    """Return the JSON type of a decoded value, in words."""
    if value is None:
        return "null"
    return _NAMES.get(type(value), "an array" if isinstance(value, list | tuple) else "an object")


def wrong_type(expected: str, value: object) -> Fault:
    """Return the refusal of a value of another JSON type than `expected`, which is given in words."""
    hint = "; leave the field out instead" if value is None else ""
    return Fault("invalid-field", f"expected {expected}, got {kind_of(value)}{hint}")


def has_control(text: str) -> bool:
    """True if the text has a control character of ASCII."""
    return _CONTROL.search(text) is not None


def read_flag(value: object) -> bool:
    """Return the value if it is true or false."""
    if type(value) is not bool:
        raise wrong_type("true or false", value)
    return value


def read_topic(value: object) -> str:
    """Return a topic's name."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    return read_topic_text(value)


@lru_cache(maxsize=4096)
def read_topic_text(name: str) -> str:
    """Return a topic's name. The caller knows that `name` is text; all else is validated here."""
    if _TOPIC.fullmatch(name) is None:
        raise Fault(
            "invalid-field",
            "a topic is 1 to 127 characters of A-Z a-z 0-9 _ . - and begins with a letter or a digit",
        )
    return name


def read_duration(value: object) -> int:
    """Return a duration in ms."""
    try:
        return parse_duration(value)
    except BadDuration as error:
        raise Fault("invalid-field", str(error)) from None


def read_delay(value: object, max_delay_ms: int) -> int:
    """Return a delay in ms, at most `max_delay_ms`."""
    try:
        delay_ms = parse_duration(value)
    except BadDuration as error:
        raise Fault("invalid-field", str(error)) from None
    if delay_ms > max_delay_ms:
        raise Fault(
            "beyond-max-delay",
            f"the longest delay is max_delay = {render_duration(max_delay_ms)}; send it later or raise max_delay",
        )
    return delay_ms


def read_deliver_at(value: object, now_ms: int, max_delay_ms: int) -> int:
    """Return a due time in ms, at most `max_delay_ms` ahead of `now_ms`. A past time is accepted and means now."""
    try:
        due_ms = parse_time(value)
    except BadTime as error:
        raise Fault("invalid-field", str(error)) from None
    if due_ms > now_ms + max_delay_ms:
        hint = "; are these microseconds? integers are milliseconds" if type(value) is int and value > 10**14 else ""
        raise Fault(
            "beyond-max-delay",
            f"a due time may lie max_delay = {render_duration(max_delay_ms)} ahead at most{hint or '; send it later'}",
        )
    return due_ms


def read_delay_level(value: object, levels_ms: tuple[int, ...], max_delay_ms: int) -> int:
    """Return the delay in ms of a delay level, at most `max_delay_ms`. `levels_ms` has the delays; level 1 is the
    first."""
    if type(value) is not int:
        raise wrong_type(f"a whole number from 1 to {len(levels_ms)}", value)
    if not 1 <= value <= len(levels_ms):
        shown = " ".join(map(render_duration, levels_ms))
        raise Fault("invalid-field", f"delay levels are 1 to {len(levels_ms)}, standing for {shown}")
    return read_delay(levels_ms[value - 1], max_delay_ms)


def read_lease(value: object) -> int:
    """Return a lease in ms, 1 s to 12 h."""
    lease_ms = read_duration(value)
    if not LEASE_MIN_MS <= lease_ms <= LEASE_MAX_MS:
        raise Fault("invalid-field", f"a lease lasts 1s to 12h, got {render_duration(lease_ms)}")
    return lease_ms


def read_count(value: object, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if type(value) is not int:
        raise wrong_type("a whole number", value)
    if not low <= value <= high:
        raise Fault("invalid-field", f"expected {low} to {high}, got {value if abs(value) < 10**18 else 'far more'}")
    return value


def read_choice(value: object, served: tuple[str, ...], planned: tuple[str, ...] = ()) -> str:
    """Return a word of `served`. A word of `planned` is refused with `not-supported-yet`, any other with
    `invalid-field`."""
    if type(value) is str:
        if value in served:
            return value
        if value in planned:
            raise Fault("not-supported-yet", f'"{value}" is not supported yet; supported: {", ".join(served)}')
        raise Fault("invalid-field", f'expected one of {", ".join(served + planned)}, got "{value[:40]}"')
    raise wrong_type(f"one of {', '.join(served + planned)}", value)


def read_tags(value: object) -> tuple[str, ...]:
    """Return at most 16 tags of 1 to 64 bytes."""
    if not isinstance(value, list | tuple):
        raise wrong_type("an array of strings", value)
    if len(value) > TAGS_MAX:
        raise Fault("invalid-field", f"at most {TAGS_MAX} tags, got {len(value)}")
    for place, tag in enumerate(value):
        if type(tag) is not str:
            raise Fault("invalid-field", f"expected a string, got {kind_of(tag)}", f"/{place}")
        if tag.isascii() and tag.isprintable() and 1 <= len(tag) <= TAG_BYTES_MAX:
            continue
        size = len(tag.encode())
        if not 1 <= size <= TAG_BYTES_MAX:
            raise Fault("invalid-field", f"a tag is 1 to {TAG_BYTES_MAX} bytes of UTF-8, got {size}", f"/{place}")
        if _CONTROL.search(tag):
            raise Fault("invalid-field", "a tag holds no control characters", f"/{place}")
    return tuple(value)


def read_headers(value: object) -> dict[str, str]:
    """Return at most 32 message headers of 4096 bytes in all (names and values)."""
    if not isinstance(value, dict):
        raise wrong_type("an object of strings", value)
    if len(value) > HEADERS_MAX:
        raise Fault("invalid-field", f"at most {HEADERS_MAX} headers, got {len(value)}")
    size = 0
    seen: set[str] = set()
    for name, text in value.items():
        size += _check_header(name, text, seen)
    if size > HEADER_BYTES_MAX:
        raise Fault("invalid-field", f"headers hold at most {HEADER_BYTES_MAX} bytes (names and values), got {size}")
    return value


def pack_headers(headers: dict[str, str]) -> bytes:
    """Return a message's headers as they are kept: a msgpack map, or no bytes without headers. They are packed because
    the headers of a large batch would hold five times as many bytes as separate names and values."""
    return msgspec.msgpack.encode(headers) if headers else b""


def _check_header(name: str, text: object, seen: set[str]) -> int:
    """Return the bytes of a header. It must be valid, and its name must not be in `seen`."""
    below = "/" + name.replace("~", "~0").replace("/", "~1")
    if _TOKEN.fullmatch(name) is None:
        raise Fault("invalid-field", "a header name is an RFC 9110 token: letters, digits and !#$%&'*+-.^_`|~", below)
    if type(text) is not str:
        raise Fault("invalid-field", f"expected a string, got {kind_of(text)}", below)
    lower = name.lower()
    if lower in _HOP:
        raise Fault("invalid-field", f"{name} belongs to the connection and cannot be set", below)
    if lower.startswith(_OWN_PREFIXES):
        raise Fault("invalid-field", "webhook-* and Hourwheel-* are set by Hourwheel; choose another name", below)
    if lower in seen:
        raise Fault("invalid-field", "the same header twice (names ignore case)", below)
    seen.add(lower)
    if _CONTROL_BUT_TAB.search(text):
        raise Fault("invalid-field", "a header's value holds no control characters", below)
    return len(name) + len(text.encode())


def read_key(value: object) -> str:
    """Return an idempotency key of 1 to 128 bytes."""
    if type(value) is str and value.isascii() and value.isprintable() and 1 <= len(value) <= KEY_BYTES_MAX:
        return value
    return read_words(value, KEY_BYTES_MAX, "a key", "; send a hash of it")


def read_words(value: object, bytes_max: int, name: str = "it", hint: str = "") -> str:
    """Return text of 1 to `bytes_max` bytes without control characters. A refusal calls the value `name`, and ends with
    `hint` if the length is wrong."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    size = len(value.encode())
    if not 1 <= size <= bytes_max:
        raise Fault("invalid-field", f"{name} is 1 to {bytes_max} bytes of UTF-8, got {size}{hint}")
    if _CONTROL.search(value):
        raise Fault("invalid-field", f"{name} holds no control characters")
    return value


def read_on_conflict(value: object) -> str:
    """Return a choice of ON_CONFLICT: what to do if another request holds the key."""
    return read_choice(value, ON_CONFLICT)


def read_content_type(value: object) -> str:
    """Return a media type."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    if len(value) > CONTENT_TYPE_BYTES_MAX or _CONTENT_TYPE.fullmatch(value) is None:
        raise Fault(
            "invalid-field",
            f'a content type is a media type such as "image/png", at most {CONTENT_TYPE_BYTES_MAX} bytes',
        )
    return value


def read_base64(value: object, bytes_max: int) -> bytes:
    """Decode standard base64 with padding into at most `bytes_max` bytes."""
    if type(value) is not str:
        raise wrong_type("a string of base64", value)
    try:
        data = binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise Fault("invalid-field", f"no valid base64 (RFC 4648 section 4, with padding): {error}") from None
    if len(data) > bytes_max:
        check_body_size(len(data), bytes_max)
    return data


def check_body_size(size: int, bytes_max: int) -> None:
    """Refuse a body over the limit."""
    if size > bytes_max:
        raise Fault(
            "too-large",
            f"a body is at most {bytes_max} bytes, got {size}; put large data elsewhere and send its address",
        )
