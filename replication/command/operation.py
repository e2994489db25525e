"""Commands of an operation: the one that begins it, and the chunks in which its messages are changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from replication.command.column import ColumnReader, filled, names, pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import U64
from storage.tables.operations import CANCEL


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

    `begin` is the position that the operation has reached before, or the chunk is void. `end` is the position that it
    has reached after. If it is the `last`, the operation has ended.
    """

    number: int
    begin: int
    end: int
    last: bool
    place: U64

    def pack(self) -> Packed:
        """The command as a section."""
        value = {"number": self.number, "begin": self.begin, "end": self.end, "last": self.last}
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
            begin=_position(value, "begin"),
            end=_position(value, "end"),
            last=filled(value.get("last"), bool, "last"),
            place=place,
        )


def _optional(value: dict[str, Any], name: str, kind: type) -> Any:
    return None if value.get(name) is None else filled(value[name], kind, name)


def _position(value: dict[str, Any], name: str) -> int:
    position: int = filled(value.get(name), int, name)
    if not 0 <= position < 1 << 64:
        raise EntryRefused(f"{name}: a position expected, found {position}")
    return position
