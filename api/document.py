"""Reading a JSON object of the contract thoroughly: every fault found in one go, each with its pointer.

`read_object` takes the object apart into raw values, runs each field's checker and keeps going after a fault, so a
client with three mistakes learns of three. Unknown names are refused (a misspelt `dealy` must not deliver now) with the
name that was probably meant; names of the contract that this version does not serve yet say so. The result is a dict of
checked values; a value may then be of no use only in combination with another, which is the caller's to say.
"""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from api.field import Fault, wrong_type
from api.nesting import check_nesting
from api.problem import FieldFault, Problem

#: Which code a refusal gets when its fields are at fault in different ways: the first of these.
_PRECEDENCE: Final = ("too-large", "unknown-field", "invalid-field", "beyond-max-delay", "not-supported-yet")

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder(Any)

Checker = Callable[[Any], Any]


class Faults:
    """What is wrong with a document, collected while reading it."""

    def __init__(self) -> None:
        self._found: list[tuple[str, FieldFault]] = []

    def add(self, code: str, pointer: str, detail: str) -> None:
        """Note one fault; `code` is one of the field codes (413 or 422)."""
        self._found.append((code, FieldFault(pointer, detail)))

    def raise_any(self) -> None:
        """Raise the `Problem` that names all faults; nothing when there are none."""
        if not self._found:
            return
        code, first = min(self._found, key=lambda found: _PRECEDENCE.index(found[0]))
        more = f" (and {len(self._found) - 1} more, see errors)" if len(self._found) > 1 else ""
        place = f"{first.pointer}: " if first.pointer else ""
        raise Problem(code, f"{place}{first.detail}{more}", errors=[fault for _, fault in self._found])


class Fields(msgspec.Struct, frozen=True):
    """The names an object of the contract may carry.

    `served`: name -> checker. `raw`: served names whose checker gets the value's bytes as they came. `planned`: names
    of the contract that are not supported yet. `read_only`: names that only answers carry. `fixed`: names that were
    given when the thing was made and cannot be changed here. `required`: served names
    that have to be there, with what to say when they are not (not by `read_members`).
    """

    served: Mapping[str, Checker]
    required: Mapping[str, str] = {}
    planned: Collection[str] = ()
    read_only: Collection[str] = ()
    fixed: Collection[str] = ()
    raw: Collection[str] = ()

    def refuse(self, name: str) -> tuple[str, str]:
        """Code and detail for a name that is not served."""
        if name in self.planned:
            return "not-supported-yet", f"{name} is part of the contract but not supported yet; leave it out"
        if name in self.read_only:
            return "unknown-field", f"{name} is read-only; leave it out"
        if name in self.fixed:
            return "unknown-field", f"{name} cannot be changed here; cancel and schedule anew, or leave it out"
        meant = get_close_matches(name.lower(), [*self.served, *self.planned], n=1, cutoff=0.6)
        hint = f'did you mean "{meant[0]}"?' if meant else f"known fields: {', '.join(self.served)}"
        return "unknown-field", f'"{name[:40]}" is not a field here; {hint}'


def pointer_to(name: str) -> str:
    """RFC 6901 pointer to a member of the document's root."""
    return "/" + name[:100].replace("~", "~0").replace("/", "~1")


def check_utf8(data: bytes) -> None:
    """Refuse text that is not UTF-8. The JSON decoder skips over a raw body without looking at its characters."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Problem(
            "malformed-json", f"not valid UTF-8 at byte {error.start}; send UTF-8, or binary data as body_base64"
        ) from None


def split_object(data: bytes) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, values still as they came. `malformed-json`; `invalid-field` for another type."""
    check_utf8(data)
    check_nesting(data)
    if not data or data.isspace():
        raise Problem("malformed-json", "the body is empty; send a JSON object")
    try:
        return _OBJECT.decode(data)
    except msgspec.ValidationError:
        decode_value(msgspec.Raw(data))  # not an object, and perhaps not JSON either
        raise Problem(
            "invalid-field",
            "the document has to be a JSON object",
            errors=[FieldFault("", "expected an object such as {...}")],
        ) from None
    except msgspec.DecodeError as error:
        raise Problem("malformed-json", str(error)) from None


def read_members(members: Mapping[str, msgspec.Raw], fields: Fields, faults: Faults) -> dict[str, Any]:
    """Check every member; the values of those in order, and all that is wrong in `faults`."""
    values: dict[str, Any] = {}
    for name, raw in members.items():
        checker = fields.served.get(name)
        if checker is None:
            code, detail = fields.refuse(name)
            faults.add(code, pointer_to(name), detail)
            continue
        try:
            values[name] = checker(bytes(raw) if name in fields.raw else decode_value(raw))
        except Fault as fault:
            for each in (fault, *fault.also):
                faults.add(each.code, pointer_to(name) + each.below, each.detail)
    return values


def read_inner(value: Any, fields: Fields) -> dict[str, Any]:
    """Check the members of an object inside the document (already decoded); one `Fault` that holds all of theirs."""
    if type(value) is not dict:
        raise wrong_type("an object", value)
    values: dict[str, Any] = {}
    found: list[Fault] = []
    for name, member in value.items():
        checker = fields.served.get(name)
        try:
            if checker is None:
                raise Fault(*fields.refuse(name))
            values[name] = checker(member)
        except Fault as fault:
            found += [Fault(each.code, each.detail, pointer_to(name) + each.below) for each in (fault, *fault.also)]
    for name, detail in fields.required.items():
        if name not in value:
            found.append(Fault("invalid-field", detail, pointer_to(name)))
    if found:
        raise Fault(found[0].code, found[0].detail, found[0].below, tuple(found[1:]))
    return values


def decode_value(raw: msgspec.Raw) -> Any:
    """A member's value. `malformed-json` for what only shows on looking closely (lone surrogates)."""
    try:
        return _VALUE.decode(raw)
    except msgspec.DecodeError as error:
        raise Problem("malformed-json", str(error)) from None


def read_object(data: bytes, fields: Fields) -> dict[str, Any]:
    """The checked members of a JSON object; a `Problem` that names every fault otherwise."""
    faults = Faults()
    members = split_object(data)
    values = read_members(members, fields, faults)
    for name, detail in fields.required.items():
        if name not in members:
            faults.add("invalid-field", pointer_to(name), detail)
    faults.raise_any()
    return values
