"""Checks the members of a JSON object of the contract, and their names.

Unknown names are refused, because a message with a misspelt `dealy` must not be delivered now. The refusal suggests the
name that was probably meant. If a later version will serve the name, the refusal says so.
"""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

import msgspec

from api.contract.checker import Fault, wrong_type

#: At most this many faults of a document are explained. Members behind them are not checked.
FAULTS_MAX: Final = 16
#: No field's name is longer. So no suggestion is made for a longer one.
NAME_CHARS_MAX: Final = 32

Checker = Callable[[Any], Any]


def or_null(checker: Checker) -> Checker:
    """Return a field reader that returns None for null, and calls `checker` for any other value."""
    return lambda value: None if value is None else checker(value)


class Fields(msgspec.Struct, frozen=True):
    """The names that an object of the contract may carry. It refuses all other names.

    - `served`: name -> field reader.
    - `raw`: served names whose field reader gets the value's bytes as they came.
    - `planned`: names of the contract that are not supported yet.
    - `read_only`: names that only answers carry.
    - `fixed`: names that are set when a message or topic is made, and that this request cannot change.
    - `required`: served names that must be there, each with the detail of the refusal. `read_inner` looks for them;
      `read_members` does not, so its caller does.
    """

    served: Mapping[str, Checker]
    required: Mapping[str, str] = {}
    planned: Collection[str] = ()
    read_only: Collection[str] = ()
    fixed: Collection[str] = ()
    raw: Collection[str] = ()

    def refuse(self, name: str) -> tuple[str, str]:
        """Return the code and the detail of the refusal of a name that is not served."""
        if name in self.planned:
            return "not-supported-yet", f"{name} is part of the contract but not supported yet; leave it out"
        if name in self.read_only:
            return "unknown-field", f"{name} is read-only; leave it out"
        if name in self.fixed:
            return "unknown-field", f"{name} cannot be changed here; cancel and schedule anew, or leave it out"
        meant = _meant(name.lower(), (*self.served, *self.planned)) if len(name) <= NAME_CHARS_MAX else None
        hint = f'did you mean "{meant}"?' if meant else f"known fields: {', '.join(self.served) or 'none'}"
        return "unknown-field", f'"{name[:40]}" is not a field here; {hint}'


@lru_cache(maxsize=1024)
def _meant(name: str, known: tuple[str, ...]) -> str | None:
    """Return the known name that is most like this one. None if none is like it. The result is cached, because a search
    takes 150 us and many lines of a batch repeat the same mistake."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)


def pointer_to(name: str) -> str:
    """Return the RFC 6901 pointer to a member of the document's root."""
    return "/" + name[:100].replace("~", "~0").replace("/", "~1")


def told(fault: Fault) -> list[tuple[str, str, str]]:
    """Return code, pointer and detail of each fault of a value. The caller keeps these and not the `Fault`, which
    refers to the frames that it went through. A frame that refers back to it would keep 20 KB for each line of a batch
    until the collector finds the circle."""
    return [(each.code, each.below, each.detail) for each in (fault, *fault.also)]


def read_inner(value: Any, fields: Fields) -> dict[str, Any]:
    """Check the members of an object that is a value inside the document. Return the checked values. Raises one `Fault`
    that holds the faults of all members."""
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
            found += [Fault(code, detail, pointer_to(name) + below) for code, below, detail in told(fault)]
    for name, detail in fields.required.items():
        if name not in value and len(found) < FAULTS_MAX:
            found.append(Fault("invalid-field", detail, pointer_to(name)))
    if found:
        raise Fault(found[0].code, found[0].detail, found[0].below, tuple(found[1:]))
    return values
