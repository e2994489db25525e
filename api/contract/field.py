"""A field of a message as a row: its values, its place in the record, the fields that it excludes, and its texts.

`MessageFields` makes from the rows:

- the two decoders of the quick path, and the field readers of the thorough one (api/read/message.py)
- the lists of names: those that are refused, those in the fingerprint, and those that a PATCH may not change
- the extension of a record: the msgpack map with the fields for which a record has no column.

A row that is wrong ends the import with an error that names it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from api.contract.checker import Fault
from api.contract.kind import Kind
from api.contract.object import NAME_CHARS_MAX
from api.port.port import Limits, MessageIn
from storage.record.record import EXTENSION_OF_APPLY, Record

#: `since` of a field that is in the contract, and that this version refuses with `not-supported-yet`.
PLANNED: Final = "planned"
#: `stored` of a field that stands in the record's extension, under its name.
EXTENSION: Final = "extension"
#: Members of the answers of a look-up and a pull. These answers also show the fields of the extension.
OF_ANSWERS: Final = frozenset(
    ("id", "receipt", "state", "revision", "attempt", "term", "topic", "due", "asked_due", "created", "handed_over")
) | {"leased_until", "settled", "lateness_ms", "last_error", "history", "held", "dead"}
#: `stored` of a field that is not needed once the message is scheduled.
NOT_STORED: Final = ""
#: A record's extension holds 65,535 bytes, and apply adds members of its own.
EXTENSION_FIELDS_BYTES_MAX: Final = 32 * 1024

#: A msgpack map of at most this many members has a head of one byte.
EXTENSION_FIELDS_MAX: Final = 15
_HEADS: Final = (b"", *(bytes((0x80 | count,)) for count in range(1, EXTENSION_FIELDS_MAX + 1)))

#: The field of JSON documents. Fields that clash with it are only for messages with opaque bytes.
BODY: Final = "body"

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_BUILD = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
#: Bytes of the head of a name and of a map.
_HEAD_BYTES: Final = 5
_pack = msgspec.msgpack.Encoder().encode


class BadField(ValueError):
    """A row that is not valid among the fields. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. `said` (its meaning) and `example` are printed into docs/openapi.json and docs/http.

    - `since`: the first build that serves it, or PLANNED.
    - `stored`: EXTENSION, NOT_STORED, or the column of the record.
    - `fingerprinted`: true if a second request with the same key and another value here is a conflict.
    - `clash`: the names of fields that may not be sent beside it, each with the detail of the refusal.
    - `harmless`: if the field has this value, it clashes with no field.
    - `required`: the detail of the refusal when it is missing; "" for an optional field.
    - `movable`: a PATCH may send it.
    - `rare`: few messages have it, so the decoder looks for it after the others.
    - `pulled`: a pull shows it, if it stands in the extension. A look-up always does.
    """

    name: str
    kind: Kind
    said: str
    example: Any
    since: str
    stored: str = EXTENSION
    fingerprinted: bool = True
    clash: Mapping[str, str] = field(default_factory=dict)
    harmless: Any = UNSET
    required: str = ""
    movable: bool = False
    rare: bool = True
    pulled: bool = True

    def read(self, value: Any, now_ms: int, limits: Limits) -> Any:
        """Return the checked value, packed if it goes into the extension. Raises `Fault`."""
        if self.stored != EXTENSION:
            return self.kind.read(value, now_ms, limits)
        packed = _pack(self.kind.read(value, now_ms, limits))
        if len(packed) > self.kind.bytes_max:
            raise Fault("invalid-field", f"at most {self.kind.bytes_max} bytes are kept of it, got {len(packed)}")
        return packed


def registered(rows: Iterable[Field]) -> dict[str, Field]:
    """Return the rows by name. Raises BadField if a row is wrong, or if the rows do not fit together."""
    found: dict[str, Field] = {}
    for row in rows:
        _check(row)
        if row.name in found:
            raise BadField(f"field {row.name} stands here twice")
        found[row.name] = row
    for row in found.values():
        unknown = sorted(set(row.clash) - found.keys())
        if unknown:
            raise BadField(f"field {row.name} clashes with {unknown[0]}, which is no field")
    kept = [row for row in found.values() if row.stored == EXTENSION]
    if len(kept) > EXTENSION_FIELDS_MAX:
        raise BadField(f"field {kept[-1].name}: an extension has room for {EXTENSION_FIELDS_MAX} fields")
    size = sum(len(row.name) + _HEAD_BYTES + row.kind.bytes_max for row in kept)
    if size > EXTENSION_FIELDS_BYTES_MAX:
        names = ", ".join(row.name for row in kept)
        raise BadField(f"fields {names}: an extension has room for {EXTENSION_FIELDS_BYTES_MAX} bytes, not {size}")
    return found


def _check(row: Field) -> None:
    """Raise BadField for a row that is wrong on its own, without regard to the other rows."""
    if _NAME.fullmatch(row.name) is None or len(row.name) > NAME_CHARS_MAX:
        raise BadField(f'field "{row.name}": a name is 1 to {NAME_CHARS_MAX} of a-z 0-9 _ and begins with a letter')
    if not isinstance(row.kind, Kind) or not callable(row.kind.read):
        raise BadField(f"field {row.name} has no checker")
    if type(row.kind.bytes_max) is not int or row.kind.bytes_max <= 0:
        raise BadField(f"field {row.name} has no bound")
    if not _is_as_sent(row.kind.wire):
        raise BadField(f"field {row.name}: {row.kind.wire} would be decoded into another value than was sent")
    if not row.said or row.example is None:
        raise BadField(f"field {row.name} has no words or no example for people")
    if row.since != PLANNED and _BUILD.fullmatch(row.since) is None:
        raise BadField(f'field {row.name} is served since a build such as "0.1.0", or planned; got "{row.since}"')
    if row.stored == EXTENSION:
        if row.name in EXTENSION_OF_APPLY:
            raise BadField(f"field {row.name}: apply keeps something of that name in the extension")
        if row.name in OF_ANSWERS:
            raise BadField(f"field {row.name}: answers have a member of that name, and it would hide it")
        if row.required or row.movable:
            raise BadField(f"field {row.name}: what stands in the extension is optional and stays as it is")
        return
    if row.stored not in (NOT_STORED, *Record.__struct_fields__):
        raise BadField(f"field {row.name}: a record has no column {row.stored}")
    carried = (row.stored or row.name) in MessageIn.__struct_fields__
    if row.since != PLANNED and not (carried or row.movable):
        raise BadField(f"field {row.name} has a column of its own, and MessageIn has no member for that")


def _is_as_sent(wire: Any) -> bool:
    """True if a typed decoder returns the same value as an untyped one. Two types do not: float makes 1.0 of 1, and
    bytes decode text."""
    return wire in (str, int, bool, Any, Raw) or (
        get_origin(wire) in (list, dict, Union, UnionType) and all(map(_is_as_sent, get_args(wire)))
    )


class MessageFields:
    """The fields of a message, and the tables made from them. `rows` has the present fields by name."""

    def __init__(self, rows: Iterable[Field]) -> None:
        self.set(rows)

    def set(self, rows: Iterable[Field]) -> None:
        """Replace the fields. If it raises BadField, the fields are as before."""
        self.rows = registered(rows)
        #: Fields that this build serves, in the order of the pages.
        self.served = tuple(row for row in self.rows.values() if row.since != PLANNED)
        self.planned = tuple(row.name for row in self.rows.values() if row.since == PLANNED)
        self.movable = tuple(row for row in self.served if row.movable)
        self.fixed = tuple(row.name for row in self.rows.values() if not row.movable)
        self.extension = tuple(row for row in self.served if row.stored == EXTENSION)
        #: The same fields, each with its name as the extension has it.
        self.packed_names = tuple((row, _pack(row.name)) for row in self.extension)
        #: Fields that the fingerprint covers besides the body, sorted. A later field joins only when it is sent, so
        #: keys outlive upgrades.
        self.fingerprinted = tuple(sorted(row.name for row in self.served if row.fingerprinted and row.name != BODY))
        #: Fields that clash, the ones about the body last.
        self.clashing = tuple(sorted((row for row in self.served if row.clash), key=lambda row: BODY in row.clash))
        #: Pairs of clashing fields that the quick path looks for here. It finds two due times, and two bodies, by
        #: itself.
        self.clashes = tuple(
            (row.name, other)
            for row in self.clashing
            for other in row.clash
            if other != BODY and not (row.movable and self.rows[other].movable)
        )
        # The decoder looks for fields in this order.
        ordered = sorted(self.served, key=lambda row: row.rare)
        self.json_message: type[Any] = _struct("JsonMessage", [row for row in ordered if BODY not in row.clash])
        self.opaque_message: type[Any] = _struct("OpaqueMessage", [row for row in ordered if row.name != BODY])
        self.json: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.json_message)
        self.opaque: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.opaque_message)
        self.json_covered = _within(self.json_message, self.fingerprinted)
        self.opaque_covered = _within(self.opaque_message, self.fingerprinted)
        #: The fields of the extension as an answer shows them for a message that has none.
        self.none_shown: Mapping[str, None] = dict.fromkeys(row.name for row in self.extension)
        #: A function that gets the extension's fields of a decoded message. If none was sent, it returns `none_sent`.
        self.rare, self.none_sent = _getter([row.name for row in self.extension])

    def kept(self, extension: Mapping[str, Any]) -> dict[str, Any]:
        """Return those members of a record's extension that are fields of a message. Its other members were set by the
        state machine when it applied commands, or by a later build."""
        return {row.name: extension[row.name] for row in self.extension if row.name in extension}

    def pulled(self, extension: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields in a record's extension that a pull shows."""
        return {row.name: extension[row.name] for row in self.extension if row.pulled and row.name in extension}


def pack_extension(members: Sequence[bytes]) -> bytes:
    """Return the extension of a record with these fields, each a packed name and value. No fields make no bytes."""
    return b"".join((_HEADS[len(members)], *members))


def _struct(name: str, rows: Iterable[Field]) -> type[Struct]:
    """Return the type that the quick decoder fills. There is one type for each kind of body. A common type would be
    slower, because the decoder would look for the fields of both kinds. Types that inherit from a base were a seventh
    slower, because the decoder looks for the base's fields first."""
    members: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for row in rows:
        if row.required:
            members.append((row.name, row.kind.wire))
        else:
            members.append((row.name, row.kind.wire | UnsetType, UNSET))
    return msgspec.defstruct(name, members, forbid_unknown_fields=True, gc=False, module=__name__)


def _within(message: type[Any], names: Iterable[str]) -> tuple[str, ...]:
    """Return those of `names` that are fields of the type `message`."""
    return tuple(name for name in names if name in message.__struct_fields__)


def _getter(names: list[str]) -> tuple[Callable[[Any], Any], Any]:
    """Return a function that gets these members of a decoded message at once, and its result for a message that sent
    none."""
    if not names:
        return lambda wire: UNSET, UNSET
    return attrgetter(*names), UNSET if len(names) == 1 else (UNSET,) * len(names)
