"""Values that cross, as bytes: msgpack, a struct as the list of its fields.

Both sides refuse what is not of the type, by the type's name and the field's: too large, too long, not there, one too
many, or text that is no UTF-8.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_FIELD: Final = re.compile(r" - at `\$\[(\d+)\](.*)`$")
_FEW: Final = re.compile(r"Expected `array` of at least length \d+, got (\d+)")


class BadFrame(ValueError):
    """What came, or is to go, is not of the type that crosses here. The message names the type and the field."""


def encode(value: msgspec.Struct) -> bytes:
    """As bytes. Raises BadFrame."""
    try:
        return msgspec.msgpack.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError) as wrong:
        raise BadFrame(f"{_at_fault(value)}: {wrong}") from None


def decode(kind: type[T], data: bytes) -> T:
    """The value of this type. Raises BadFrame."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise BadFrame(_named(kind, str(wrong))) from None


def _at_fault(value: msgspec.Struct) -> str:
    """The type, and the first field that cannot be encoded by itself."""
    for name in value.__struct_fields__:
        try:
            msgspec.msgpack.encode(getattr(value, name))
        except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
            return f"{type(value).__name__}.{name}"
    return type(value).__name__


def _named(kind: type[msgspec.Struct], text: str) -> str:
    """An error of the decoder with the field's name in place of its number."""
    fields = kind.__struct_fields__
    if (found := _FIELD.search(text)) is not None:
        return f"{kind.__name__}.{fields[int(found[1])]}{found[2]}: {text[: found.start()]}"
    if (few := _FEW.fullmatch(text)) is not None:
        return f"{kind.__name__}.{fields[int(few[1])]}: missing"
    return f"{kind.__name__}: {text}"
