"""The values of a node's documents as tables show them: words in place of JSON and base64, and how far off a time is.

Text comes from clients. Characters that a terminal would act on are shown as escapes.
"""

import base64
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

#: A time as nodes write it.
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
#: Fields of the contract that hold a time. A key or a tag may look like one and is none.
TIMES: Final = frozenset(
    ("asked_due", "at", "begun", "created", "deliver_at", "died", "due", "ended", "first_handed_over", "from")
    + ("handed_over", "hour", "leased_until", "removed_until", "retained_from", "second", "settled", "since", "tick")
    + ("to", "to_due")
)
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def away(time_ms: int, now_ms: int) -> str:
    """How far a time is from now, in its two largest units: `in 59 min`, `1 h 5 min ago`, `now`."""
    seconds = round(abs(time_ms - now_ms) / 1000)
    counts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        counts.append((count, unit))
    first = next((place for place, (count, _) in enumerate(counts) if count), None)
    if first is None:
        return "now"
    # Seconds beside minutes are noise: they have passed before a user has read them.
    pair = counts[first : first + 2] if first < 2 else counts[first : first + 1]
    span = " ".join(f"{count} {unit}" for count, unit in pair if count)
    return f"in {span}" if time_ms > now_ms else f"{span} ago"


def time_ms_of(text: str) -> int | None:
    """Milliseconds since 1970 of a time as nodes write it; None for anything else."""
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)


def words(value: object) -> str:
    """Return a value in words: lists with commas, objects as `name value, name value`, nothing as `-`."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return plain(value)
        case Mapping():
            parts = [
                f"{plain(str(name))} {f'({words(part)})' if isinstance(part, Mapping) and part else words(part)}"
                for name, part in value.items()
                if part is not None
            ]
            return ", ".join(parts) or "-"
        case list() | tuple():
            return ", ".join(f"({words(part)})" if isinstance(part, Mapping) else words(part) for part in value) or "-"
    return str(value)


def field(name: str, value: object, now_ms: int) -> str:
    """A field's value in words; a time with how far off it is."""
    if name in TIMES and isinstance(value, str):
        time_ms = time_ms_of(value)
        if time_ms is not None:
            return f"{value} ({away(time_ms, now_ms)})"
    return words(value)


def body(message: Mapping[str, object]) -> str | None:
    """The body of a message in one line: text as it is, JSON as JSON, other bytes as `<12 bytes>`; None without one."""
    encoded = message.get("body_base64")
    if isinstance(encoded, str):
        raw = base64.b64decode(encoded)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        return plain(text) if text and "\0" not in text else f"<{len(raw)} bytes>"
    if "body" not in message:
        return None
    value = message["body"]
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def plain(text: str) -> str:
    """The text in one line: what is not printed as a letter or a mark is shown as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
