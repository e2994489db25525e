"""Commands of an operation: the one that begins it, and the chunks in which its messages are changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from replication.command.column import ColumnReader, filled, names, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import U64
from storage.format.position import HOUR_MAX, HOUR_MS
from storage.tables.operations import CANCEL

_FAR_MS = (HOUR_MAX + 1) * HOUR_MS


class Reached(NamedTuple):
    """A point in the order of an operation's work: all messages before it are done. See Progress."""

    due_ms: int
    place: int


@dataclass(frozen=True, slots=True)
class BeginOperation:
    """Begin an operation. Its set is fixed at the entry of this command. `topics` are names, None for all topics.

    `mark` is a random number by which the leader knows the command again. At most one operation begins in an entry.
    """

    kind: str
    namespace: str
    topics: tuple[str, ...] | None
    from_ms: int | None
    to_ms: int | None
    tag: str | None
    note: str
    mark: int

    def pack(self) -> Packed:
        """The command as a section."""
        value = {
            "kind": self.kind,
            "namespace": self.namespace,
            "topics": None if self.topics is None else list(self.topics),
            "from": self.from_ms,
            "to": self.to_ms,
            "tag": self.tag,
            "note": self.note,
            "mark": self.mark,
        }
        return Kind.BEGIN_OPERATION, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> BeginOperation:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        kind = filled(value.get("kind"), str, "kind")
        if kind != CANCEL:
            raise EntryRefused(f"operation {kind!r}; {CANCEL} is known")
        return cls(
            kind=kind,
            namespace=filled(value.get("namespace"), str, "namespace"),
            topics=None if value.get("topics") is None else names(value, "topics"),
            from_ms=_optional(value, "from", int),
            to_ms=_optional(value, "to", int),
            tag=_optional(value, "tag", str),
            note=filled(value.get("note"), str, "note"),
            mark=filled(value.get("mark"), int, "mark"),
        )


@dataclass(frozen=True, slots=True)
class OperationChunk:
    """Change the next messages of an operation, n rows by place, in the order of its work.

    `begin` is the point that the operation has reached before, or the chunk is void. `end` is the point that it has
    reached after. If it is the `last`, the operation has ended.
    """

    number: int
    begin: Reached
    end: Reached
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
            begin=_reached(value, "begin"),
            end=_reached(value, "end"),
            last=filled(value.get("last"), bool, "last"),
            place=place,
        )


def _optional(value: dict[str, Any], name: str, kind: type) -> Any:
    return None if value.get(name) is None else filled(value[name], kind, name)


def _reached(value: dict[str, Any], name: str) -> Reached:
    numbers = [filled(number, int, name) for number in filled(value.get(name), list, name)]
    if len(numbers) != 2 or not 0 <= numbers[0] <= _FAR_MS or not 0 <= numbers[1] < 1 << 64:
        raise EntryRefused(f"{name}: a due time and a place expected, found {numbers}")
    return Reached(*numbers)
