"""Reads a JSON object of the contract thoroughly: it finds every fault in one go, each with its pointer.

`read_object` takes the object apart into raw values and calls each field's reader. It keeps going after a fault, so a
client with three mistakes learns of three. The known names are in `Fields` (api/contract/object.py). The result is a
dict of checked values. The caller checks if the values fit together.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.contract.checker import Fault
from api.contract.object import FAULTS_MAX, Fields, pointer_to, told
from api.port.problem import FieldFault, Problem
from api.read.nesting import check_nesting

#: Codes by precedence. If fields are at fault in different ways, the refusal gets the first of these.
_PRECEDENCE: Final = ("too-large", "unknown-field", "invalid-field", "beyond-max-delay", "not-supported-yet")

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder(Any)


class Faults:
    """The faults of a document, collected while reading it. When fault number `most` is added, reading ends with the
    `Problem` of all."""

    def __init__(self, most: int = FAULTS_MAX) -> None:
        self._most = most
        self._found: list[tuple[str, FieldFault]] = []

    def add(self, code: str, pointer: str, detail: str) -> None:
        """Note a fault. `code` is one of the codes of fields (413 or 422). Raises the `Problem` of all faults if this
        is number `most`."""
        self._found.append((code, FieldFault(pointer, detail)))
        if len(self._found) == self._most:
            self.raise_any()

    def raise_any(self) -> None:
        """Raise the `Problem` that names all faults. Do nothing if there are none."""
        if not self._found:
            return
        code, first = min(self._found, key=lambda found: _PRECEDENCE.index(found[0]))
        count = len(self._found)
        unread = "; what follows was not looked at" if count == self._most else ""
        more = f" (and {count - 1} more, see errors{unread})" if count > 1 else ""
        place = f"{first.pointer}: " if first.pointer else ""
        raise Problem(code, f"{place}{first.detail}{more}", errors=[fault for _, fault in self._found])


def check_utf8(data: bytes) -> None:
    """Refuse text that is not UTF-8. The JSON decoder skips over a raw body and does not check its characters."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Problem(
            "malformed-json", f"not valid UTF-8 at byte {error.start}; send UTF-8, or binary data as body_base64"
        ) from None


def split_object(data: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object, values still as they came. Raises `malformed-json`; `invalid-field` for
    another type."""
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
    """Check every member. Return the values of valid ones, and add the faults of the others to `faults`."""
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
            for code, below, detail in told(fault):
                faults.add(code, pointer_to(name) + below, detail)
    return values


def decode_value(raw: msgspec.Raw) -> Any:
    """Return a member's value. Raises `malformed-json` for faults that only a full decode finds (lone surrogates)."""
    try:
        return _VALUE.decode(raw)
    except msgspec.DecodeError as error:
        raise Problem("malformed-json", str(error)) from None


def read_object(data: bytes, fields: Fields) -> dict[str, Any]:
    """Return the checked members of a JSON object. Raises a `Problem` that names every fault."""
    faults = Faults()
    members = split_object(data)
    values = read_members(members, fields, faults)
    for name, detail in fields.required.items():
        if name not in members:
            faults.add("invalid-field", pointer_to(name), detail)
    faults.raise_any()
    return values
