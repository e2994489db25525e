"""The codec of the values that cross: msgpack, a struct as the list of its fields.

The reader refuses a value that is not of the type, and names the type and the field. A number may be too large, a value
too long, a field missing or one too many, or text no UTF-8. The writer refuses values that have no form in bytes.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_PATH: Final = re.compile(r" - at (?:`key` in )?`\$(.*)`$")
_STEP: Final = re.compile(r"\[([^\]]*)\]")
_FEW: Final = re.compile(r"Expected `array` of at least length \d+, got (\d+)")


class BadFrame(ValueError):
    """A value that came, or that is to go, is not of the type that crosses here. The message names the type and the
    field."""


def encode(value: msgspec.Struct) -> bytes:
    """Encode a value. Raises BadFrame."""
    try:
        return msgspec.msgpack.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError) as wrong:
        raise BadFrame(f"{_at_fault(value)}: {wrong}") from None


def decode(kind: type[T], data: bytes) -> T:
    """Return the value of type `kind` that these bytes encode. Raises BadFrame."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except UnicodeDecodeError as wrong:
        raise BadFrame(f"{_not_text(kind, data)}: {wrong}") from None
    except msgspec.DecodeError as wrong:
        raise BadFrame(_named(kind, str(wrong))) from None
    except RecursionError:
        raise BadFrame(f"{kind.__name__}: nested too deeply") from None


def _at_fault(value: msgspec.Struct) -> str:
    """Return the type, and the first field that cannot be encoded by itself, down to the innermost struct."""
    for name in value.__struct_fields__:
        field = getattr(value, name)
        try:
            msgspec.msgpack.encode(field)
        except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
            at = _at_fault(field).partition(".")[2] if isinstance(field, msgspec.Struct) else ""
            return ".".join(filter(None, (type(value).__name__, name, at)))
    return type(value).__name__


def _named(kind: type[msgspec.Struct], text: str) -> str:
    """Return the text of a decoder's error, with names of fields in place of their numbers."""
    found = _PATH.search(text)
    name, at = kind.__name__, dict[str, Any](_fields_of(kind))
    for step in _STEP.findall(found[1]) if found is not None else ():
        if step.isdigit() and int(step) < len(at):
            field = list(at)[int(step)]
            name, at = f"{name}.{field}", _fields_of(at[field])
        else:
            name, at = f"{name}[{step}]", {}
    said = text if found is None else text[: found.start()]
    if (few := _FEW.fullmatch(said)) is not None and int(few[1]) < len(at):
        return f"{name}.{list(at)[int(few[1])]}: missing"
    return f"{name}: {said}"


def _not_text(kind: type[msgspec.Struct], data: bytes) -> str:
    """Return the type, and the field whose bytes are no UTF-8."""
    try:
        parts = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return kind.__name__  # the bytes behind that text are broken too
    for (name, type_), part in zip(_fields_of(kind).items(), parts, strict=False):
        try:
            msgspec.msgpack.decode(part, type=type_)
        except UnicodeDecodeError:
            inner = issubclass(type_, msgspec.Struct) if isinstance(type_, type) else False
            at = _not_text(type_, bytes(part)).partition(".")[2] if inner else ""
            return ".".join(filter(None, (kind.__name__, name, at)))
        except msgspec.ValidationError:
            continue  # of another kind; the text is at fault first
    return kind.__name__


def _fields_of(kind: Any) -> dict[str, Any]:
    """Return the fields of a struct or a named tuple, or of an optional one: name -> type, in order. Other types have
    no fields."""
    kind = next((each for each in get_args(kind) if hasattr(each, "__struct_fields__")), kind)
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", getattr(kind, "_fields", ()))
    hints = get_type_hints(kind) if names else {}
    return {name: hints[name] for name in names}
