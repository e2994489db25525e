"""Reading a JSON object of the contract thoroughly: every fault found in one go, each with its pointer.

`read_object` takes the object apart into raw values, runs each field's checker and keeps going after a fault, so a
client with three mistakes learns of three. Unknown names are refused (a misspelt `dealy` must not deliver now) with the
name that was probably meant; names of the contract that this version does not serve yet say so. The result is a dict of
checked values; a value may then be of no use only in combination with another, which is the caller's to say.
"""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

import msgspec

from api.port.problem import FieldFault, Problem
from api.read.field import Fault, wrong_type
from api.read.nesting import check_nesting

#: Which code a refusal gets when its fields are at fault in different ways: the first of these.
_PRECEDENCE: Final = ("too-large", "unknown-field", "invalid-field", "beyond-max-delay", "not-supported-yet")

#: So many faults of a document are explained; what follows is not looked at.
FAULTS_MAX: Final = 16
#: No field's name is longer: nothing is meant by one that is.
NAME_CHARS_MAX: Final = 32

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder(Any)

Checker = Callable[[Any], Any]


class Faults:
    """What is wrong with a document, collected while reading it: `most` faults, with the last of which reading ends."""

    def __init__(self, most: int = FAULTS_MAX) -> None:
        self._most = most
        self._found: list[tuple[str, FieldFault]] = []

    def add(self, code: str, pointer: str, detail: str) -> None:
        """Note one fault; `code` is one of the field codes (413 or 422). Raises the `Problem` with the last one."""
        self._found.append((code, FieldFault(pointer, detail)))
        if len(self._found) == self._most:
            self.raise_any()

    def raise_any(self) -> None:
        """Raise the `Problem` that names all faults; nothing when there are none."""
        if not self._found:
            return
        code, first = min(self._found, key=lambda found: _PRECEDENCE.index(found[0]))
        count = len(self._found)
        unread = "; what follows was not looked at" if count == self._most else ""
        more = f" (and {count - 1} more, see errors{unread})" if count > 1 else ""
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
        meant = _meant(name.lower(), (*self.served, *self.planned)) if len(name) <= NAME_CHARS_MAX else None
        hint = f'did you mean "{meant}"?' if meant else f"known fields: {', '.join(self.served)}"
        return "unknown-field", f'"{name[:40]}" is not a field here; {hint}'


@lru_cache(maxsize=1024)
def _meant(name: str, known: tuple[str, ...]) -> str | None:
    """The known name that is most like this one: 150 us, and the same mistake stands in many lines of a batch."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)


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
            for code, below, detail in _told(fault):
                faults.add(code, pointer_to(name) + below, detail)
    return values


def _told(fault: Fault) -> list[tuple[str, str, str]]:
    """Code, pointer and detail of all that is wrong with a value. The faults themselves are not kept: each holds the
    frames it came through, which would hold it, 20 KB a line of a batch until the collector finds the circle."""
    return [(each.code, each.below, each.detail) for each in (fault, *fault.also)]


def read_inner(value: Any, fields: Fields) -> dict[str, Any]:
    """Check the members of an object inside the document (already decoded); one `Fault` that holds all of theirs."""
    if type(value) is not dict:
        raise wrong_type("an object", value)
    values: dict[str, Any] = {}
    found: list[Fault] = []
    for name, member in value.items():
        if len(found) >= FAULTS_MAX:
            break
        checker = fields.served.get(name)
        try:
            if checker is None:
                raise Fault(*fields.refuse(name))
            values[name] = checker(member)
        except Fault as fault:
            found += [Fault(code, detail, pointer_to(name) + below) for code, below, detail in _told(fault)]
    for name, detail in fields.required.items():
        if name not in value and len(found) < FAULTS_MAX:
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
