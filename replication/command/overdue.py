"""The command for messages of a restored cluster that became due before the restore."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class OverdueCutoff:
    """Messages due before `cutoff_ms` are not wanted. `done`: all of them are given up.

    The first leader fixes the moment, so a second command does nothing. A `done` for another moment does nothing
    either.
    """

    cutoff_ms: int
    done: bool = False

    def pack(self) -> Packed:
        """As a section."""
        return Kind.OVERDUE_CUTOFF, 1, [pack_map({"cutoff_ms": self.cutoff_ms, "done": self.done})]

    @classmethod
    def unpack(cls, section: Section) -> OverdueCutoff:
        """From a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(filled(value.get("cutoff_ms"), int, "cutoff_ms"), filled(value.get("done"), bool, "done"))
