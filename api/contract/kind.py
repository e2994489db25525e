"""A kind of value that a field may hold: how it is validated, bounded, kept and shown.

Each row of fields.py has a `Kind`. The functions here make kinds that need only bounds and no field reader of their
own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from api.contract import schema
from api.contract.checker import Fault, read_count, read_duration, read_words
from api.contract.schema import Schema
from api.port.duration import parse_duration, render_duration
from api.port.port import Limits

Read = Callable[[Any, int, Limits], Any]

#: msgpack's head of a string, and its longest form of a whole number.
_HEAD_BYTES: Final = 5
_WHOLE_BYTES: Final = 9


def same(value: Any) -> Any:
    """Return the value unchanged."""
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that a field may hold: how they are validated, bounded and shown.

    - `read`: takes the decoded value, the clock (ms) and the limits, and returns the checked value. Raises `Fault`. A
      value for a record's extension is plain: text, numbers, and lists and maps of them.
    - `wire`: the JSON type that the quick decoder accepts. It must not change the value: not float, which makes 1.0 of
      1.
    - `bytes_max`: the most bytes of a value; if the extension keeps it, of the packed value.
    - `schema`: the JSON Schema of a sent value.
    - `show`: makes the member of an answer from the kept value.
    """

    read: Read
    wire: Any
    bytes_max: int
    schema: Schema
    show: Callable[[Any], Any] = same


def plain(checker: Callable[[Any], Any]) -> Read:
    """Return a `Read` function that calls a field reader without the clock and the limits."""
    return lambda value, now_ms, limits: checker(value)


def text(bytes_max: int) -> Kind:
    """A string of 1 to `bytes_max` bytes, without control characters."""
    read = plain(lambda value: read_words(value, bytes_max))
    return Kind(read, str, bytes_max + _HEAD_BYTES, schema.text(bytes_max))


def whole(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`."""
    return Kind(plain(lambda value: read_count(value, low, high)), int, _WHOLE_BYTES, schema.whole(low, high))


def duration(shortest: str, longest: str) -> Kind:
    """A duration from `shortest` to `longest`, kept in ms."""
    low_ms, high_ms = parse_duration(shortest), parse_duration(longest)

    def read(value: Any) -> int:
        found_ms = read_duration(value)
        if not low_ms <= found_ms <= high_ms:
            raise Fault("invalid-field", f"expected {shortest} to {longest}, got {render_duration(found_ms)}")
        return found_ms

    bounds = {**schema.DURATION, "x-bound": f"{shortest} to {longest}"}
    return Kind(plain(read), str | int, _WHOLE_BYTES, bounds, show=render_duration)
