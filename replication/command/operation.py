"""Commands of an operation: begin it, change its messages chunk by chunk, pause it, let it go on, end it early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from replication.command.column import ColumnReader, filled, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import U64
from storage.tables.operation_kind import OPERATION_KINDS
from storage.tables.operation_row import ABORTED, PAUSED, RUNNING, OperationWish, Point, wish_of

_CHANGES: Final = (RUNNING, PAUSED, ABORTED)


@dataclass(frozen=True, slots=True)
class BeginOperation:
    """Begin the operation of this wish. Its set is fixed at the entry of this command.

    `mark` is a random number by which the leader knows the command again. At most one operation begins in an entry.
    """

    wish: OperationWish
    mark: int

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.BEGIN_OPERATION, 1, [pack_map(self.wish.as_map() | {"mark": self.mark})]

    @classmethod
    def unpack(cls, section: Section) -> BeginOperation:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        try:
            wish = wish_of(value)
        except ValueError as refused:
            raise EntryRefused(f"operation: {refused}") from None
        if wish.kind not in OPERATION_KINDS:
            raise EntryRefused(f"operation {wish.kind!r}; known: {', '.join(OPERATION_KINDS)}")
        return cls(wish, filled(value.get("mark"), int, "mark"))


@dataclass(frozen=True, slots=True)
class OperationChunk:
    """Change the next messages of an operation, n rows by place, in the order of its work.

    `begin` is the point that the operation has reached before, or the chunk is void. `end` is the point that it has
    reached after. If it is the `last`, the operation has ended.
    """

    number: int
    begin: Point
    end: Point
    last: bool
    place: U64

    def pack(self) -> Packed:
        """The command as a section."""
        value = {"number": self.number, "begin": list(self.begin), "end": list(self.end), "last": self.last}
        return Kind.OPERATION_CHUNK, len(self.place), [pack_map(value), *pack_columns(self.place)]

    @classmethod
    def unpack(cls, section: Section) -> OperationChunk:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        place = reader.column(np.uint64)
        reader.end()
        return cls(
            number=filled(value.get("number"), int, "number"),
            begin=_point(value, "begin"),
            end=_point(value, "end"),
            last=filled(value.get("last"), bool, "last"),
            place=place,
        )


@dataclass(frozen=True, slots=True)
class ChangeOperation:
    """Let an operation go on (RUNNING), or pause it (PAUSED), or end it early (ABORTED).

    `paused_ms`: only if it is paused since then. 0: in any case.
    """

    number: int
    state: int
    paused_ms: int = 0

    def pack(self) -> Packed:
        """The command as a section."""
        value = {"number": self.number, "state": self.state, "paused": self.paused_ms}
        return Kind.CHANGE_OPERATION, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> ChangeOperation:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        state = filled(value.get("state"), int, "state")
        if state not in _CHANGES:
            raise EntryRefused(f"state {state}: no client may ask for it")
        return cls(
            number=filled(value.get("number"), int, "number"),
            state=state,
            paused_ms=filled(value.get("paused"), int, "paused"),
        )


def _point(value: dict[str, Any], name: str) -> Point:
    found = filled(value.get(name), list, name)
    if [type(each) for each in found] != [int, int]:
        raise EntryRefused(f"{name}: a due time and a position expected")
    point = Point(*found)
    if not (0 <= point.due_ms < 1 << 63 and 0 <= point.place < 1 << 64):
        raise EntryRefused(f"{name}: a due time and a position expected, found {found}")
    return point
